"""Counts of the campaigns: added up over batches and processes; a missed goal is a failure."""

from types import SimpleNamespace

import numpy as np
import pytest
from campaigns import mutated_files
from campaigns.campaign import Campaign, Counts


def report(counts, n_batches=2, passed=True):
    properties = [("campaign", [("kills", n_batches, {"kills": 5}, counts)])]
    return SimpleNamespace(when="call", passed=passed, user_properties=properties)


def ended(counts):
    """Exit status of the run, and the lines it ends with."""
    session, lines = SimpleNamespace(exitstatus=0), []
    counts.pytest_sessionfinish(session)
    counts.pytest_terminal_summary(SimpleNamespace(write_line=lines.append))
    return session.exitstatus, lines


def test_batches_are_added_up():
    counts = Counts()
    counts.pytest_runtest_logreport(report({"kills": 2}))
    assert ended(counts) == (0, ["kills (1 batches left): 2 kills"])
    counts.pytest_runtest_logreport(report({"kills": 3, "resumes": 1}))
    assert ended(counts) == (0, ["kills (complete): 5 kills, 1 resumes"])


def test_a_missed_goal_is_a_failure():
    counts = Counts()
    for _ in range(2):
        counts.pytest_runtest_logreport(report({"kills": 2}))
    status, lines = ended(counts)
    assert status == 1
    assert lines[-1] == "GOAL MISSED kills: expected at least 5 kills; counted 4"


def test_failed_batches_count_nothing():
    counts = Counts()
    counts.pytest_runtest_logreport(report({"kills": 5}, passed=False))
    assert ended(counts) == (0, [])


def test_every_case_is_in_one_batch():
    campaign = Campaign(ended, 10, 4)
    assert (campaign.name, list(campaign.starts)) == ("ended", [0, 4, 8])


@pytest.mark.skipif(not mutated_files.PEAK_RESET.exists(), reason="peaks are told by Linux alone")
def test_memory_that_grows_is_noticed():
    with pytest.raises(AssertionError, match="memory grew"), mutated_files._bounded_memory():
        np.ones(2 * mutated_files.MEGABYTES * 131072)  # given back at once: the peak counts

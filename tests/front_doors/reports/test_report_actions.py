"""What a report says to do: every finding has an action with its columns and groups."""

from dataclasses import replace

import numpy as np

import momentmix as mm
from momentmix.displays.rows import by_separation, pairs_by_separation
from momentmix.findings.finding import FATAL, NOTE, WARNING, found
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.reporting.page import actions

PLAIN = mm.Mixture.diagonal([0.6, 0.4], [[0.0] * 3] * 2, [[1.0] * 3] * 2, ["a", "b c", "it's"])
FEW = found(WARNING, "spurious-components", components=[1], asides=["9 rows"], n_features=3)


def certificate(*findings, p=0.4, effect=0.0, loss=0.001, support=None):
    test = OverIdentification(100.0, 100, p, effect, [])
    return Certificate(test, loss, list(findings), 2, support)


def test_actions_name_columns_and_the_needed_ones_come_first():
    done = actions(
        certificate(
            found(WARNING, "duplicate-rows", copies=9, compared=90),
            found(NOTE, "missing-at-random", ["a"]),
            found(FATAL, "row-number", [1]),
            FEW,
        ),
        PLAIN,
    )
    assert [action.text for action in done] == [
        "Do without column 'b c'.",
        "Check the rows that are copies.",
        "Do not read anything into the smallest groups.",
        "Nothing to do, unless gaps of column 'a' say something of the group by themselves.",
    ]
    assert done[2].why.startswith("Group 1 (")


def test_actions_of_the_other_tests():
    few = certificate(loss=0.05, support=Support(2, False, "one would do"))
    texts = [action.text for action in actions(few, PLAIN)]
    assert "Do not rely on the number of groups." in texts
    assert "Collect more rows." in texts
    untested = certificate(support=Support(2, None, "cannot tell"))
    untested = replace(untested, test=replace(untested.test, degrees_of_freedom=0))
    assert {a.kind for a in actions(untested, PLAIN)} == {"warn"}
    assert actions(certificate(), PLAIN) == []


# -- numbers, colors and pictures -------------------------------------------------------------


def test_columns_and_pairs_that_separate_come_first():
    means = [[0.0, 0.0, 5.0, 0.0], [0.0, 9.0, 0.0, 0.0], [0.0, 0.0, -5.0, 0.3]]
    m = mm.Mixture.diagonal([0.4, 0.3, 0.3], means, np.ones((3, 4)))
    assert by_separation(m)[:2] == [2, 1]  # variances between of 17.25 and 17.01
    assert pairs_by_separation(m, 6) == [(2, 1)]  # the others do not separate

"""Changed files are refused with a typed error, at little cost, or are valid."""

import json
import pickle
import random
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from campaigns import hostile_files
from campaigns.hostile_files import NASTY, judge_model, judge_summary, replaced

import momentmix as mm
from momentmix.errors import InputError, SummaryFileError


def test_a_part_of_the_campaign():
    counts = hostile_files.hostile_files(0, 200, seed=0)
    assert min(counts[kind, "refused"] for kind in ("summary", "model")) > 70
    assert min(counts[kind, "accepted"] for kind in ("summary", "model")) > 8


@pytest.mark.parametrize("number", range(len(hostile_files.summaries())))
def test_every_value_of_a_header_is_replaced(number):
    data = hostile_files.summaries()[number]
    assert judge_summary(data) == "accepted"
    text, _ = hostile_files.header_of(data)
    for k, place in enumerate(hostile_files.positions(json.loads(text))):
        for value in NASTY[k % 3 :: 3]:
            judge_summary(hostile_files.rebuilt(data, replaced(text, place, value)))


def test_every_value_of_a_model_is_replaced(tmp_path):
    text = hostile_files.models()[1]
    assert judge_model(text, tmp_path / "model.json") == "accepted"
    for k, place in enumerate(hostile_files.positions(json.loads(text))):
        for value in NASTY[k % 5 :: 5]:
            judge_model(replaced(text, place, value), tmp_path / "model.json")


@pytest.mark.parametrize("number", [0, 5])
def test_flipped_bits_and_cut_files_are_refused(number):
    data = hostile_files.summaries()[number]
    for at in range(0, len(data), 3):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        for broken in (bytes(flipped), data[:at]):
            with pytest.raises(SummaryFileError):
                mm.MomentSummary.from_bytes(broken)


def test_refusing_takes_memory_in_proportion_to_the_file():
    for number in range(150):
        data = hostile_files.changed_summary(random.Random(number))
        tracemalloc.start()
        try:
            mm.MomentSummary.from_bytes(data)
        except InputError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert number < 2 or peak < 40 * len(data) + 2**19  # imports and caches at first


@pytest.mark.parametrize("place", [("fit",), ("fit", "certificate"), ("blocks", 0, "means", 0)])
@pytest.mark.parametrize("value", ["1e308", '"\\u001b[31m\\u202e"', str(2**62)])
def test_reports_of_odd_models_are_written_or_refused(place, value, tmp_path):
    path = tmp_path / "model.json"
    path.write_text(replaced(hostile_files.models()[0], place, value))
    try:
        mm.report(path, tmp_path / "report.html")
    except mm.MomentmixError as error:
        message = str(error)
        assert message.isprintable()
    else:
        assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


# -- loading runs nothing -------------------------------------------------------------------------

LOADER = """
import json, sys
from momentmix import Mixture, MomentSummary
from momentmix.errors import MomentmixError

loaders = {"summary": MomentSummary.load, "model": Mixture.load}
jobs = json.loads(sys.argv[1])
for kind, path in jobs[:2]:
    loaders[kind](path)  # imports what loading needs

events, results = [], []
sys.addaudithook(lambda name, arguments: events.append((name, str(arguments[:1]))))
for kind, path in jobs:
    events.clear()
    try:
        loaders[kind](path)
        outcome = "loaded"
    except MomentmixError:
        outcome = "refused"
    results.append([outcome, list(events), path])
print(json.dumps(results))
"""


class Bomb:
    def __reduce__(self):
        return (eval, ("__import__('os').system('touch exploded')",))


def test_loading_opens_the_file_and_nothing_else(tmp_path):
    """An audit hook sees all that loading does."""
    bomb = pickle.dumps(Bomb())
    good = {"summary": hostile_files.summaries()[0], "model": hostile_files.models()[0].encode()}
    hostile = [bomb, b"PK\x03\x04" + bomb, b"import os; os.system('touch exploded')",
               b'{"__class__": "os.system", "format": "!!python/object"}']  # fmt: skip
    jobs = []
    for number, contents in enumerate([None, *hostile]):
        for kind, data in good.items():
            path = tmp_path / f"{kind}-{number}"
            path.write_bytes(contents or data)
            jobs.append((kind, str(path)))
    np.save(tmp_path / "objects.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    jobs.append(("summary", str(tmp_path / "objects.npy")))
    before = sorted(path.name for path in tmp_path.iterdir())
    done = subprocess.run(
        [sys.executable, "-c", LOADER, json.dumps(jobs)],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert [outcome for outcome, *_ in results] == ["loaded"] * 2 + ["refused"] * 9
    for _, events, path in results:
        assert [name for name, _ in events] == ["open"], (path, events)
        assert repr(path) in events[0][1]
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_pickled_summaries_carry_only_their_bytes():
    summary = mm.MomentSummary.from_bytes(hostile_files.summaries()[0])
    function, (data,), _ = summary.__reduce__()
    assert function == mm.MomentSummary.from_bytes
    assert data == summary.to_bytes()

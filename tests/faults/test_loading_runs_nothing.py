"""An audit hook sees all that loading does: it opens the file, and does nothing else."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from campaigns import mutated_files

from momentmix import MomentSummary

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


@pytest.fixture
def files(tmp_path):
    """Good files, and hostile ones of every kind."""
    jobs = []

    def add(kind, name, data):
        path = tmp_path / name
        path.write_bytes(data)
        jobs.append((kind, str(path)))

    add("summary", "good.mms", mutated_files.small_summaries()[0])
    add("model", "good.json", mutated_files.small_models()[0])
    for i, data in enumerate(mutated_files.small_summaries()):
        add("summary", f"{i}.mms", data)
    for i, data in enumerate(mutated_files.small_models()):
        add("model", f"{i}.json", data)
    for i in range(60):
        rng = mutated_files.random.Random(i)
        add("summary", f"m{i}.mms", mutated_files.mutated_summary(rng))
        add(
            "model",
            f"m{i}.json",
            mutated_files.edited(rng.choice(mutated_files.small_models()), rng),
        )
    bomb = pickle.dumps(Bomb())
    for kind in ("summary", "model"):
        add(kind, f"bomb-{kind}", bomb)
        add(kind, f"zip-{kind}", b"PK\x03\x04" + bomb)
        add(kind, f"code-{kind}", b"import os; os.system('touch exploded')")
        add(kind, f"tag-{kind}", b'{"__class__": "os.system", "format": "!!python/object"}')
    np.save(tmp_path / "objects.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    jobs.append(("summary", str(tmp_path / "objects.npy")))
    return tmp_path, jobs


def loaded(folder, jobs):
    done = subprocess.run(
        [sys.executable, "-c", LOADER, json.dumps(jobs)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_loading_opens_the_file_and_nothing_else(files):
    folder, jobs = files
    before = sorted(path.name for path in folder.iterdir())
    results = loaded(folder, jobs)
    assert len(results) == len(jobs) > 140
    assert sum(outcome == "loaded" for outcome, *_ in results) > 13
    assert sum(outcome == "refused" for outcome, *_ in results) > 60
    for _, events, path in results:
        assert [name for name, _ in events] == ["open"], (path, events)
        assert repr(path) in events[0][1]
    assert sorted(path.name for path in folder.iterdir()) == before


def test_pickled_summaries_carry_only_their_bytes():
    """pickle is the caller's choice; what we put in it is the file format, checked on arrival."""
    summary = MomentSummary.from_bytes(mutated_files.small_summaries()[0])
    function, (data,), kept = summary.__reduce__()
    assert function == MomentSummary.from_bytes
    assert data == summary.to_bytes()
    assert kept == (None, None)  # the id that its next shard will have, and the threads
    named = MomentSummary(3, 2, shard_id="a")
    assert type(named.__reduce__()[2][0]) is bytes

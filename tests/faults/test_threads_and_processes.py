"""Threads and processes: summaries and models of their own or shared; fork, spawn."""

import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from momentmix import Mixture, MomentSummary

ROWS = np.random.default_rng(0).standard_normal((4000, 4))


@pytest.fixture(autouse=True)
def _threads_change_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run_all(*work):
    """Results of the functions, run at the same time in a thread each; errors are raised."""
    results, errors, barrier = [None] * len(work), [], threading.Barrier(len(work))

    def run(place):
        try:
            barrier.wait()
            results[place] = work[place]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return results


def filled(seed):
    """Bytes of a summary of rows that depend on the seed, in several calls and two threads."""
    summary = MomentSummary(4, 3, shard_id=str(seed), n_threads=2)
    for part in np.array_split(ROWS * (1 + seed), 7):
        summary.update(part)
        _ = summary.mean
    return summary.to_bytes()


def test_different_summaries_are_filled_at_the_same_time(tmp_path):
    alone, path = [filled(seed) for seed in range(6)], tmp_path / "s.mms"
    assert run_all(*[lambda seed=seed: filled(seed) for seed in range(6)]) == alone
    run_all(*[lambda data=data: MomentSummary.from_bytes(data).save(path) for data in alone])
    assert path.read_bytes() in alone
    assert os.listdir(tmp_path) == ["s.mms"]


def test_one_model_predicts_in_many_threads():
    rng = np.random.default_rng(1)
    model = Mixture.diagonal([0.3, 0.7], 2 * rng.standard_normal((2, 4)), 0.5 + rng.random((2, 4)))
    work = [
        lambda part=part, method=method: method(part).tobytes()
        for part in np.array_split(ROWS, 8)
        for method in (model.predict, model.log_prob, model.predict_proba)
    ]
    assert run_all(*work) == [one() for one in work]


# -- one summary ------------------------------------------------------------------------------


def updates(summary, rows, size, times=1):
    for _ in range(times):
        for start in range(0, len(rows), size):
            summary.update(rows[start : start + size])


@pytest.mark.parametrize("size", [40, 1500])
def test_threads_that_fill_one_summary_lose_no_rows(size):
    summary = MomentSummary(4, 3, n_threads=1)
    run_all(*[lambda: updates(summary, ROWS, size)] * 10)
    assert summary.n_rows == summary.sum_weights == 40_000
    assert len(summary.shard_ids) == 1
    assert summary.mean == pytest.approx(ROWS.mean(axis=0), abs=1e-12)
    assert summary.moments(0, 1).squared[0][:, 0] == pytest.approx((ROWS**2).mean(axis=0))


def test_readers_see_whole_updates():
    """Every update brings 40 rows of two values whose mean is 7."""
    rows = np.repeat([[6.0], [8.0]], 20, axis=0) * np.ones(4)
    summary, done = MomentSummary(4, 3, n_threads=1).update(rows), threading.Event()
    seen = []

    def fill():
        updates(summary, rows, 40, times=150)
        done.set()

    def read():
        while not done.is_set():
            for value in (summary, summary.copy(), pickle.loads(pickle.dumps(summary))):
                moments = value.moments(0, 1)
                seen.append((moments.n_rows % 40, *moments.distinct[1].tolist()))
            seen.append((summary.n_rows % 40, *[7.0] * 4))

    run_all(fill, read, read)
    assert set(seen) == {(0, *[7.0] * 4)}
    assert summary.n_rows == 40 * 151


# -- processes --------------------------------------------------------------------------------

FORK = """
import os, sys, traceback
import numpy as np
from momentmix import MomentSummary

rows = np.random.default_rng(0).standard_normal((4000, 4))
parts = np.array_split(rows, 7)
summary = MomentSummary(4, 3, shard_id="0", n_threads=2)
for part in parts[:4]:
    summary.update(part)
child = os.fork()
status = 1
try:
    for part in parts[4:]:
        summary.update(part)
    with open("parent" if child else "child", "wb") as file:
        file.write(summary.to_bytes())
    status = 0
except BaseException:
    traceback.print_exc()
finally:
    if not child:
        os._exit(status)
sys.exit(status or os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_goes_on_by_itself(tmp_path):
    """A child finds a half-filled summary, with no threads of its parent's, and fills it up."""
    command = [sys.executable, "-W", "ignore", "-c", FORK]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = MomentSummary(4, 3, shard_id="0", n_threads=2).update(ROWS).to_bytes()
    assert (tmp_path / "child").read_bytes() == expected
    assert (tmp_path / "parent").read_bytes() == expected


FIT_AND_FORK = """
import os, signal, sys, threading
import numpy as np
import momentmix as mm

rows = np.random.default_rng(0).standard_normal((60, 3))

def fit():
    mm.fit(rows, 2, random_state=0, n_threads=2).certificate

def fit_on():
    while not statuses[10:] and not any(statuses):
        fit()

fit()
statuses, threads = [], [threading.Thread(target=fit_on, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
while not statuses[10:] and not any(statuses):
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that hangs
        try:
            fit()
        except BaseException:
            os._exit(1)
        os._exit(0)
    statuses.append(os.waitpid(child, 0)[1])
for thread in threads:
    thread.join()
sys.exit(any(statuses))
"""


def test_a_child_fits_that_was_forked_while_other_threads_fit():
    command = [sys.executable, "-W", "ignore", "-c", FIT_AND_FORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def send_twins(connection, files):
    connection.send([MomentSummary.from_bytes(data) for data in files])
    connection.close()


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_summaries_travel_between_processes(method):
    """What a worker sends is merged here to the bytes that this process makes alone."""
    context = multiprocessing.get_context(method)  # no pool: its locks need more of the system
    files = [filled(seed) for seed in range(4)]
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=send_twins, args=(sender, files))
    process.start()
    sender.close()
    parts = receiver.recv()
    process.join()
    assert process.exitcode == 0
    assert sum(parts).to_bytes() == sum(map(MomentSummary.from_bytes, files)).to_bytes()

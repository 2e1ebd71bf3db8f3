"""Threads and processes: different summaries, one model, fork and spawn."""

import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from momentmix import DiagonalMixture, MomentSummary

ROWS = np.random.default_rng(0).standard_normal((12_000, 4))


def filled(seed):
    """Bytes of a summary of rows that depend on the seed, in several calls and two threads."""
    summary = MomentSummary(4, 3, shard_id=str(seed), n_threads=2)
    for part in np.array_split(ROWS * (1 + seed), 7):
        summary.update(part)
        _ = summary.mean
    return summary.to_bytes()


def in_threads(work, arguments):
    """Results of work(argument) by argument, all at the same time; errors are raised."""
    results, errors, barrier = {}, [], threading.Barrier(len(arguments))

    def run(argument):
        try:
            barrier.wait()
            results[argument] = work(argument)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    return results


def test_different_summaries_are_filled_at_the_same_time():
    alone = {seed: filled(seed) for seed in range(6)}
    for _ in range(3):
        assert in_threads(filled, list(range(6))) == alone


def test_one_model_predicts_in_many_threads():
    rng = np.random.default_rng(1)
    model = DiagonalMixture([0.3, 0.7], 2 * rng.standard_normal((2, 4)), 0.5 + rng.random((2, 4)))
    parts = np.array_split(ROWS, 8)
    work = [model.predict, model.log_prob, model.responsibilities]
    alone = {(i, j): work[j](parts[i]).tobytes() for i in range(8) for j in range(3)}
    for _ in range(3):
        found = in_threads(lambda key: work[key[1]](parts[key[0]]).tobytes(), list(alone))
        assert found == alone


def test_one_summary_is_read_in_many_threads():
    summary = MomentSummary(4, 3, shard_id="a", n_threads=1).update(ROWS)
    expected = MomentSummary(4, 3, shard_id="a", n_threads=1).update(ROWS).moments()
    found = in_threads(lambda _: summary.moments().distinct[3].tobytes(), list(range(8)))
    assert set(found.values()) == {expected.distinct[3].tobytes()}


def test_saving_one_file_from_many_threads_leaves_one_of_them(tmp_path):
    path = tmp_path / "s.mms"
    data = {seed: filled(seed) for seed in range(4)}
    in_threads(lambda seed: MomentSummary.from_bytes(data[seed]).save(path), list(range(4)))
    assert path.read_bytes() in data.values()
    assert os.listdir(tmp_path) == ["s.mms"]


FORK = """
import os, sys, traceback
import numpy as np
from momentmix import MomentSummary

rows = np.random.default_rng(0).standard_normal((12_000, 4))
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


def run_fork(folder, script=FORK):
    command = [sys.executable, "-W", "ignore", "-c", script]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_fork_goes_on_by_itself(tmp_path):
    """A child finds a half-filled summary, with no threads of its parent's, and fills it up."""
    done = run_fork(tmp_path)
    assert done.returncode == 0, done.stderr
    expected = MomentSummary(4, 3, shard_id="0", n_threads=2).update(ROWS).to_bytes()
    assert (tmp_path / "child").read_bytes() == expected
    assert (tmp_path / "parent").read_bytes() == expected


@pytest.mark.parametrize("end", ["raise ValueError('broken')", "os.kill(os.getpid(), 9)"])
def test_negative_control_a_child_that_fails_is_noticed(tmp_path, end):
    spoilt = f"    if not child: {end}\n    for part in parts[4:]:"
    done = run_fork(tmp_path, FORK.replace("    for part in parts[4:]:", spoilt))
    assert done.returncode != 0
    assert not (tmp_path / "child").exists()
    assert (tmp_path / "parent").exists()


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

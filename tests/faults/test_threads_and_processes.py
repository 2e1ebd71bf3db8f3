"""Threads and processes: different summaries, one model, fork and spawn."""

import multiprocessing
import os
import threading
import warnings

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


def test_a_fork_goes_on_by_itself():
    """A child finds a half-filled summary, with no threads of its parent's, and fills it up."""
    summary = MomentSummary(4, 3, shard_id="0", n_threads=2)
    parts = np.array_split(ROWS, 7)
    for part in parts[:4]:
        summary.update(part)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        try:
            for part in parts[4:]:
                summary.update(part)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(summary.to_bytes())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    for part in parts[4:]:
        summary.update(part)
    assert data == summary.to_bytes() == filled(0)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_summaries_travel_between_processes(method):
    """What a worker sends is merged here to the bytes that this process makes alone."""
    context = multiprocessing.get_context(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with context.Pool(2) as pool:
            parts = pool.map(MomentSummary.from_bytes, [filled(seed) for seed in range(4)])
    expected = sum(MomentSummary.from_bytes(filled(seed)) for seed in range(4))
    assert sum(parts).to_bytes() == expected.to_bytes()

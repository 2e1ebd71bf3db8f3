"""Threads that share one summary or one estimator, and a fork in the middle of their work."""

import os
import pickle
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from momentmix import MomentGaussianMixture, MomentSummary
from momentmix.errors import InputError

ROWS = np.random.default_rng(0).standard_normal((4000, 4))


@pytest.fixture(autouse=True)
def _threads_change_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run_all(*work):
    """Run the functions at the same time, each in a thread; errors are raised."""
    errors, barrier = [], threading.Barrier(len(work))

    def run(one):
        try:
            barrier.wait()
            one()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


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


def test_filling_forgetting_and_adding_at_the_same_time():
    summary, n = MomentSummary(4, 3, n_threads=1).update(ROWS), 60
    parts = [MomentSummary(4, 3, shard_id=str(i)).update(ROWS[:50]) for i in range(n)]

    def add():
        shared = summary
        for part in parts:
            shared += part

    def forget():
        for i in range(n):
            summary.forget(ROWS[10 * i : 10 * i + 10])

    run_all(lambda: updates(summary, ROWS[:1000], 10), add, forget)
    assert summary.n_rows == 4000 + 1000 + 50 * n - 10 * n
    assert summary.n_forgotten == 10 * n
    assert {shard for part in parts for shard in part.shard_ids} < set(summary.shard_ids)


def test_two_summaries_that_are_added_to_each_other():
    a, b = (MomentSummary(4, 3, shard_id=s, n_threads=1).update(ROWS[:9]) for s in "ab")
    refused = []

    def add(left, right):
        try:
            left += right
        except InputError:
            refused.append(left)

    run_all(lambda: add(a, b), lambda: add(b, a))
    assert a.n_rows + b.n_rows + 9 * len(refused) == 36


def test_a_summary_is_read_while_another_thread_changes_it():
    """Reading needs no lock, so that two threads cannot wait for each other's."""
    a, b = (MomentSummary(4, 3, shard_id=s).update(ROWS[:9]) for s in "ab")

    def read():
        total = b.copy()
        total += a
        assert total == a + b
        assert pickle.loads(pickle.dumps(a)) == a
        assert a.n_rows == 9
        assert len(a.to_bytes()) > 100

    with a._lock.held():
        run_all(read)


# -- one estimator ----------------------------------------------------------------------------


def test_threads_that_fill_one_estimator_lose_no_rows():
    model = MomentGaussianMixture(1, n_threads=1)

    def fill():
        for start in range(0, 4000, 100):
            model.partial_fit(ROWS[start : start + 100])

    run_all(*[fill] * 4)
    assert model.summary_.n_rows == 16_000
    assert model.fit_summary().means_[0] == pytest.approx(ROWS.mean(axis=0), abs=1e-12)


def test_a_failing_thread_takes_nothing_back_from_another():
    model = MomentGaussianMixture(1, n_threads=1).partial_fit(ROWS[:100])

    def fail():
        for _ in range(100):
            with pytest.raises(ValueError, match="NaN"):
                model.partial_fit(np.full((1, 4), np.nan))

    run_all(lambda: [model.partial_fit(ROWS[:10]) for _ in range(100)], fail)
    assert model.summary_.n_rows == 1100


def test_the_fit_that_waits_is_made_once_for_all_threads(monkeypatch):
    model, made = MomentGaussianMixture(1, n_threads=1).partial_fit(ROWS), []
    call = model._fit_to
    monkeypatch.setattr(model, "_fit_to", lambda data: (made.append(1), call(data))[1])
    found = []
    run_all(*[lambda: found.append(model.predict(ROWS[:5]).tolist())] * 6)
    assert found == [[0] * 5] * 6
    assert len(made) == 1


# -- fork ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_child_forked_during_an_update_goes_on():
    """Another thread is inside update(), and holds the lock, when this one forks."""
    script = """
        import os, threading, warnings
        import numpy as np
        from momentmix import MomentGaussianMixture, MomentSummary
        from momentmix.summary.exact import open_shard as module

        rows = np.random.default_rng(0).standard_normal((3000, 4))
        held, done = threading.Event(), threading.Event()
        summary = MomentSummary(4, 3, shard_id="a", n_threads=1).update(rows[:1500])
        model = MomentGaussianMixture(1).partial_fit(rows)
        add_rows = module.OpenShard.update

        def slow(self, *arguments):
            add_rows(self, *arguments)
            held.set()
            done.wait()

        def fill():
            with model._lock.held():
                summary.update(rows[1500:])

        module.OpenShard.update = slow
        worker = threading.Thread(target=fill, daemon=True)
        worker.start()
        held.wait()
        module.OpenShard.update = add_rows
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            assert summary.n_rows == 1500
            summary.update(rows[1500:])
            model.partial_fit(rows)
            expected = MomentSummary(4, 3, shard_id="a").update(rows)
            good = summary.to_bytes() == expected.to_bytes() and model.summary_.n_rows == 6000
            os._exit(0 if good else 1)
        status = os.waitpid(child, 0)[1]
        done.set()
        worker.join()
        print("child", status, summary.n_rows)
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.stdout.strip() == "child 0 3000", found.stderr

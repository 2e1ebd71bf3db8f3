"""Workers killed in the midst of a reduction: the same bytes, or Dask's error."""

import os
import signal
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client, KilledWorker, LocalCluster

import momentmix as mm
from momentmix import dask as mmd

pytestmark = pytest.mark.long  # workers are processes
N_PARTITIONS, N_ROWS = 12, 1500


@pytest.fixture
def client():
    """A cluster of processes; the nanny of a worker that was killed starts another one."""
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 3}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
        ) as cluster,
        Client(cluster, set_as_default=False) as one,
        one.as_current(),
    ):
        yield one


def rows_of(number):
    rng = np.random.default_rng(number)
    centers = 4.0 * np.array([[1, 0, -1, 1, 0], [-1, 1, 0, 0, 1]])
    return centers[rng.integers(2, size=N_ROWS)] + rng.standard_normal((N_ROWS, 5))


def load(number, folder, deaths):
    """Rows of a partition; at these loads of it, counted from 1, its worker is killed."""
    with open(Path(folder, f"loads-{number}"), "a+") as log:
        log.write(".")
        log.flush()
        if log.tell() in deaths.get(number, ()):
            os.kill(os.getpid(), signal.SIGKILL)
    return rows_of(number)


def lazy(folder, deaths):
    parts = [
        da.from_delayed(delayed(load)(i, str(folder), deaths), (N_ROWS, 5), dtype=float)
        for i in range(N_PARTITIONS)
    ]
    return da.concatenate(parts)


def loads(folder):
    return sum(len(path.read_text()) for path in Path(folder).iterdir())


def test_a_worker_killed_in_the_midst_changes_no_byte(client, tmp_path):
    parts = [mm.summarize(rows_of(i), 3, shard_id=f"x/{i}") for i in range(N_PARTITIONS)]
    summary = mmd.summarize(lazy(tmp_path, {3: [1], 10: [1]}), 3, shard_id="x")
    assert loads(tmp_path) >= N_PARTITIONS + 2
    assert summary.n_rows == N_PARTITIONS * N_ROWS
    assert summary.to_bytes() == sum(parts).to_bytes()


def test_workers_killed_in_passes_of_a_fit_change_no_bit(client, tmp_path):
    results = []
    for name, deaths in (("calm", {}), ("stormy", {2: [1], 9: [2], 5: [3, 4]})):
        folder = tmp_path / name
        folder.mkdir()
        results.append(mmd.fit(lazy(folder, deaths), 2, random_state=0))
    assert loads(tmp_path / "stormy") >= loads(tmp_path / "calm") + 4
    wanted, found = (result.mixture for result in results)
    for name in ("weights", "means", "variances"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()
    assert results[0].log_likelihood == results[1].log_likelihood


def test_workers_killed_again_and_again_are_an_error(client, tmp_path):
    deaths = {0: range(1, 100)}
    with pytest.raises(KilledWorker):
        mmd.summarize(lazy(tmp_path, deaths), 2)

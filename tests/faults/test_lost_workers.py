"""Workers killed in the midst of a reduction: the same bytes, or a clear error."""

import os
import random
import signal
import time
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

import momentmix as mm
from momentmix import dask as mmd
from momentmix.dask.schedule import Schedule
from momentmix.errors import ClusterError

N_WORKERS = 2
N_PARTITIONS, N_ROWS, ORDER = 20, 1500, 3


@pytest.fixture(scope="module")
def cluster():
    settings = {
        # Workers are forked from a process that has everything imported: back at once after a kill.
        "distributed.worker.multiprocessing-method": "forkserver",
        # A worker that is slow to come back, on a busy machine, is not to be given up.
        "distributed.deploy.lost-worker-timeout": "1 hour",
        # On loopback a dead peer never answers: no need to ask it for half a minute.
        "distributed.comm.timeouts.connect": "2s",
    }
    with dask.config.set(settings):
        get_mp_context().set_forkserver_preload(["distributed", "momentmix.dask"])
        with LocalCluster(
            n_workers=N_WORKERS, threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address="127.0.0.1:0", silence_logs=50,
        ) as started:  # fmt: skip
            yield started


@pytest.fixture
def client(cluster):
    allowed = cluster.scheduler.allowed_failures
    with Client(cluster) as one:
        living(one)
        yield one
    cluster.scheduler.allowed_failures = allowed


def living(client):
    """Process ids and times of birth of the workers, once all of them have answered."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        client.wait_for_workers(N_WORKERS, timeout=120)
        found = list(client.run(identity, on_error="return").values())
        if len(found) == N_WORKERS and all(isinstance(one, tuple) for one in found):
            return found
    raise AssertionError("the workers did not come back in two minutes")


def rows_of(number):
    rng = np.random.default_rng(number)
    centres = 4.0 * np.array([[1, 0, -1, 1, 0], [-1, 1, 0, 0, 1]])
    return centres[rng.integers(2, size=N_ROWS)] + rng.standard_normal((N_ROWS, 5))


def load(number, folder, kills):
    """Rows of a partition; kill a worker if the plan has one for it, in that pass, and once."""
    with open(Path(folder, "loads"), "a") as log:
        log.write(f"{number}\n")
    wanted, victim = kills.get(number, (None, None))
    if wanted is not None and wanted == len(list(Path(folder).glob("pass-*"))):
        kill_once(Path(folder, f"kill-{number}"), victim)
    return rows_of(number)


def identity():
    process = psutil.Process()
    return process.pid, process.create_time()


def kill_once(mark, victim):
    """Kill a worker, or this one if None or if an earlier kill of the plan was faster."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if victim is not None and psutil.pid_exists(victim[0]):
        process = psutil.Process(victim[0])
        if process.create_time() == victim[1]:
            process.kill()  # SIGKILL
            return
    os.kill(os.getpid(), signal.SIGKILL)


def always_lost(block):
    os.kill(os.getpid(), signal.SIGKILL)


def lazy(folder, kills):
    blocks = [
        da.from_delayed(delayed(load)(i, str(folder), kills), (N_ROWS, 5), dtype=float)
        for i in range(N_PARTITIONS)
    ]
    return da.concatenate(blocks)


def expected():
    parts = [mm.summarize(rows_of(i), ORDER, shard_id=f"x/{i}") for i in range(N_PARTITIONS)]
    return sum(parts).to_bytes()


def plan(client, seed):
    """One to three workers to kill, each from a partition of its own: number → pass, process.

    None stands for the worker that loads the partition; others die while they merge, sum or idle.
    """
    workers, chance = living(client), random.Random(seed)
    numbers = chance.sample(range(N_PARTITIONS), chance.choice([1, 1, 2, 3]))
    return {number: (0, chance.choice([None, *workers])) for number in numbers}


def run_with_kills(client, folder, seed, wanted):
    """One reduction; gives the number of kills and of partitions that were loaded again."""
    folder.mkdir()
    summary = mmd.summarize(lazy(folder, plan(client, seed)), ORDER, shard_id="x", client=client)
    n_kills = len(list(folder.glob("kill-*")))
    loads = Path(folder, "loads").read_text().split()
    assert n_kills >= 1
    assert set(map(int, loads)) == set(range(N_PARTITIONS))
    assert summary.n_rows == N_PARTITIONS * N_ROWS
    assert summary.to_bytes() == wanted
    return n_kills, len(loads) - N_PARTITIONS


def many_runs(client, tmp_path, seeds):
    wanted = expected()
    counts = [run_with_kills(client, tmp_path / str(seed), seed, wanted) for seed in seeds]
    kills, again = (sum(column) for column in zip(*counts, strict=True))
    print(f"{len(counts)} runs, {kills} workers killed, {again} partitions loaded again")
    assert again >= len(counts) / 2  # what dead workers held was in use
    return kills


def test_killed_workers_change_no_byte(client, tmp_path):
    assert many_runs(client, tmp_path, range(3)) >= 3


@pytest.mark.long
def test_two_hundred_runs_with_killed_workers_change_no_byte(client, tmp_path):
    assert many_runs(client, tmp_path, range(1000, 1200)) >= 200


def test_workers_killed_in_every_pass_of_a_fit_change_no_bit(client, tmp_path, monkeypatch):
    reduce, folders = Schedule.reduce, [tmp_path / "calm", tmp_path / "stormy"]

    def counted(self, *arguments):
        found = reduce(self, *arguments)
        Path(folder, f"pass-{len(list(folder.glob('pass-*')))}").touch()
        return found

    monkeypatch.setattr(Schedule, "reduce", counted)
    results = []
    for folder, kills in zip(
        folders, ({}, {2: (0, None), 9: (1, None), 17: (2, None)}), strict=True
    ):
        folder.mkdir()
        results.append(mmd.fit(lazy(folder, kills), 2, random_state=0, client=client))
    wanted, found = (result.mixture for result in results)
    n_passes = [len(list(folder.glob("pass-*"))) for folder in folders]
    assert n_passes[0] == n_passes[1] >= 3  # moments, sample, EM
    assert {path.name for path in folder.glob("kill-*")} == {"kill-2", "kill-9", "kill-17"}
    for name in ("weights", "means", "variances"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()
    assert results[0].log_likelihood == results[1].log_likelihood


def test_workers_lost_again_and_again_are_a_clear_error(client, cluster):
    cluster.scheduler.allowed_failures = 0
    doomed = da.zeros((40, 2), chunks=(10, 2)).map_blocks(always_lost, meta=np.empty((0, 0)))
    with pytest.raises(ClusterError, match=r"1 worker\(s\) were lost .* No part of an answer") as e:
        mmd.summarize(doomed, 2, client=client)
    assert "distributed.scheduler.allowed-failures" in str(e.value)


def test_lost_scattered_rows_are_a_clear_error(client):
    blocks = [client.scatter(rows_of(i), direct=True) for i in range(2)]
    for pid, _ in living(client):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ClusterError, match="scattered exist on their worker alone"):
        mmd.summarize(blocks, 2, client=client)

"""Workers lost in the midst of a reduction: the same bytes, or a clear error.

The fast tests run on workers in this process, which are lost by breaking their connection to the
scheduler; they need no network and no processes. The long one kills processes.
"""

import os
import random
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import psutil
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster, Worker, get_worker
from distributed.comm.core import FatalCommClosedError
from distributed.comm.inproc import InProcConnector
from distributed.utils import get_mp_context

import momentmix as mm
from momentmix import dask as mmd
from momentmix.engines.dask_schedule import Schedule
from momentmix.errors import ClusterError

N_PARTITIONS, N_ROWS, ORDER = 20, 1500, 3
CONNECT = "distributed.comm.timeouts.connect"


@pytest.fixture
def _the_dead_are_known(monkeypatch):
    """A worker that is gone is asked once; one that is slow, on a busy machine, has its time."""
    connect = InProcConnector.connect

    async def once(self, address, **options):
        if self.manager.get_listener_for(address) is None:
            raise FatalCommClosedError(f"{address} is gone")
        return await connect(self, address, **options)

    monkeypatch.setattr(InProcConnector, "connect", once)


@pytest.fixture
def client(_the_dead_are_known):
    """A cluster in this process with more workers than a test loses: none comes back."""
    with (
        dask.config.set({CONNECT: "10s"}),
        LocalCluster(
            n_workers=12, threads_per_worker=1, processes=False,
            dashboard_address="127.0.0.1:0", silence_logs=50,
        ) as cluster,
        Client(cluster, set_as_default=False) as one,
    ):  # fmt: skip
        yield one


@pytest.fixture
def client_of_processes():
    """Two processes that are started again after a kill."""
    settings = {
        CONNECT: "3s",  # a dead process never answers: no need to ask it for half a minute
        # Workers are forked from a process that has everything imported: back at once after a kill.
        "distributed.worker.multiprocessing-method": "forkserver",
        # A worker that is slow to come back, on a busy machine, is not to be given up.
        "distributed.deploy.lost-worker-timeout": "1 hour",
    }
    with dask.config.set(settings):
        get_mp_context().set_forkserver_preload(["distributed", "momentmix.dask"])
        with (
            LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address="127.0.0.1:0", silence_logs=50,
            ) as cluster,
            Client(cluster, set_as_default=False) as one,
        ):  # fmt: skip
            yield one


def living(client):
    """Addresses, process ids and times of birth of the workers, once all of them have answered."""
    here = client.cluster.scheduler_address.startswith("inproc")
    while True:
        if not here:
            client.wait_for_workers(2)
        found = list(client.run(identity, on_error="return").values())
        if found and all(isinstance(one, tuple) for one in found) and (here or len(found) == 2):
            return found


def rows_of(number):
    rng = np.random.default_rng(number)
    centers = 4.0 * np.array([[1, 0, -1, 1, 0], [-1, 1, 0, 0, 1]])
    return centers[rng.integers(2, size=N_ROWS)] + rng.standard_normal((N_ROWS, 5))


def load(number, folder, kills):
    """Rows of a partition; lose a worker if the plan has one for it, in that pass, and once."""
    with open(Path(folder, "loads"), "a") as log:
        log.write(f"{number}\n")
    wanted, victim = kills.get(number, (None, None))
    if wanted is not None and wanted == len(list(Path(folder).glob("pass-*"))):
        kill_once(Path(folder, f"kill-{number}"), victim)
    return rows_of(number)


def identity(dask_worker=None):
    process = psutil.Process()
    return (dask_worker or get_worker()).address, process.pid, process.create_time()


def kill_once(mark, victim):
    """Lose a worker, or this one if None or if an earlier kill of the plan was faster."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if victim is None or not lose(*victim):
        mark.with_name(f"own-{mark.name}").touch()
        always_lost(None)


def lose(address, pid, created):
    """Kill a worker, or break its connection if it lives in this process; False if it is gone."""
    if address.startswith("inproc"):
        workers = [
            w for w in Worker._instances if w.address == address and w.status.name == "running"
        ]
        for worker in workers:
            worker.loop.add_callback(worker.batched_stream.comm.abort)
        return bool(workers)
    try:
        process = psutil.Process(pid)
        alive = process.create_time() == created
        if alive:
            process.kill()
    except psutil.NoSuchProcess:
        return False
    return alive


def always_lost(block):
    lose(*identity())
    return block  # from a thread, nobody takes it


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
    """One to three workers to lose, each from a partition of its own: number → pass, worker.

    None stands for the worker that loads the partition; others die while they merge, sum or idle.
    """
    workers, chance = living(client), random.Random(seed)
    first, *numbers = chance.sample(range(N_PARTITIONS), chance.choice([1, 1, 2, 3]))
    return {first: (0, None)} | {n: (0, chance.choice([None, *workers])) for n in numbers}


def run_with_kills(client, folder, seed, wanted):
    """One reduction; gives the number of kills and of partitions that were loaded again."""
    folder.mkdir()
    summary = mmd.summarize(lazy(folder, plan(client, seed)), ORDER, shard_id="x", client=client)
    n_kills, n_own = (len(list(folder.glob(pattern))) for pattern in ("kill-*", "own-kill-*"))
    loads = Path(folder, "loads").read_text().split()
    assert set(map(int, loads)) == set(range(N_PARTITIONS))
    assert len(loads) - N_PARTITIONS >= n_own >= 1  # what dead workers held was in use
    assert summary.n_rows == N_PARTITIONS * N_ROWS
    assert summary.to_bytes() == wanted
    return n_kills, len(loads) - N_PARTITIONS


def many_runs(client, tmp_path, seeds):
    wanted = expected()
    counts = [run_with_kills(client, tmp_path / str(seed), seed, wanted) for seed in seeds]
    kills, again = (sum(column) for column in zip(*counts, strict=True))
    print(f"{len(counts)} runs, {kills} workers killed, {again} partitions loaded again")
    return kills


def test_lost_workers_change_no_byte(client, tmp_path):
    assert many_runs(client, tmp_path, range(3)) >= 3


@pytest.mark.long
def test_two_hundred_runs_with_killed_workers_change_no_byte(client_of_processes, tmp_path):
    assert many_runs(client_of_processes, tmp_path, range(1000, 1200)) >= 200


def test_workers_lost_in_every_pass_of_a_fit_change_no_bit(client, tmp_path, monkeypatch):
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


def test_workers_lost_again_and_again_are_a_clear_error(client):
    client.cluster.scheduler.allowed_failures = 0
    doomed = da.zeros((40, 2), chunks=(10, 2)).map_blocks(always_lost, meta=np.empty((0, 0)))
    with pytest.raises(ClusterError, match=r"1 worker\(s\) were lost .* No part of an answer") as e:
        mmd.summarize(doomed, 2, client=client)
    assert "distributed.scheduler.allowed-failures" in str(e.value)


def test_lost_scattered_rows_are_a_clear_error(client):
    blocks = [client.scatter(rows_of(i), direct=True) for i in range(2)]
    held = {address for where in client.who_has(blocks).values() for address in where}
    for one in living(client):
        if one[0] in held:
            assert lose(*one)
    with pytest.raises(ClusterError, match="scattered exist on their worker alone"):
        mmd.summarize(blocks, 2, client=client)

"""Workers lost in the midst of a reduction: the same bytes, or a clear error.

Workers live in this process and are lost by breaking their connection to the scheduler.
"""

import os
import random
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed
from distributed import Client, LocalCluster, Worker, get_worker
from distributed.comm.core import FatalCommClosedError
from distributed.comm.inproc import InProcConnector

import momentmix as mm
from momentmix import dask as mmd
from momentmix.errors import ClusterError

N_PARTITIONS, N_ROWS, ORDER = 20, 1500, 3


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
        dask.config.set({"distributed.comm.timeouts.connect": "10s"}),
        LocalCluster(
            n_workers=12, threads_per_worker=1, processes=False,
            dashboard_address="127.0.0.1:0", silence_logs=50,
        ) as cluster,
        Client(cluster, set_as_default=False) as one,
    ):  # fmt: skip
        yield one


def rows_of(number):
    rng = np.random.default_rng(number)
    centers = 4.0 * np.array([[1, 0, -1, 1, 0], [-1, 1, 0, 0, 1]])
    return centers[rng.integers(2, size=N_ROWS)] + rng.standard_normal((N_ROWS, 5))


def load(number, folder, kills):
    """Rows of a partition; lose a worker if the plan has one for it, at that load, and once."""
    with open(Path(folder, "loads"), "a+") as log:
        log.write(f"{number}\n")
        log.seek(0)
        n_loads = log.read().split().count(str(number))
    wanted, victim = kills.get(number, (None, None))
    if wanted == n_loads:
        kill_once(Path(folder, f"kill-{number}"), victim)
    return rows_of(number)


def kill_once(mark, victim):
    """Lose a worker, or this one if None or if an earlier kill of the plan was faster."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    if victim is None or not lose(victim):
        mark.with_name(f"own-{mark.name}").touch()
        always_lost(None)


def lose(address):
    """Break the connection of a worker; False if it is gone."""
    workers = [w for w in Worker._instances if w.address == address and w.status.name == "running"]
    for worker in workers:
        worker.loop.add_callback(worker.batched_stream.comm.abort)
    return bool(workers)


def always_lost(block):
    lose(get_worker().address)
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
    """One to three workers to lose, each from a partition of its own: number → load, worker.

    None stands for the worker that loads the partition; others die while they merge, sum or idle.
    """
    workers, chance = list(client.ncores()), random.Random(seed)
    first, *numbers = chance.sample(range(N_PARTITIONS), chance.choice([1, 1, 2, 3]))
    return {first: (1, None)} | {n: (1, chance.choice([None, *workers])) for n in numbers}


def test_lost_workers_change_no_byte(client, tmp_path):
    wanted = expected()
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        kills = plan(client, seed)
        summary = mmd.summarize(lazy(folder, kills), ORDER, shard_id="x", client=client)
        n_own = len(list(folder.glob("own-kill-*")))
        loads = Path(folder, "loads").read_text().split()
        assert set(map(int, loads)) == set(range(N_PARTITIONS))
        assert len(loads) - N_PARTITIONS >= n_own >= 1  # what dead workers held was in use
        assert summary.n_rows == N_PARTITIONS * N_ROWS
        assert summary.to_bytes() == wanted


@pytest.mark.long
def test_workers_lost_in_every_pass_of_a_fit_change_no_bit(client, tmp_path):
    results = []
    for name, kills in (("calm", {}), ("stormy", {2: (1, None), 9: (2, None), 17: (3, None)})):
        folder = tmp_path / name
        folder.mkdir()
        results.append(mmd.fit(lazy(folder, kills), 2, random_state=0, client=client))
    wanted, found = (result.mixture for result in results)
    assert {path.name for path in folder.glob("kill-*")} == {"kill-2", "kill-9", "kill-17"}
    for name in ("weights", "means", "variances"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()
    assert results[0].log_likelihood == results[1].log_likelihood


def test_workers_lost_again_and_again_are_a_clear_error(client):
    client.cluster.scheduler.allowed_failures = 0
    doomed = da.zeros((40, 2), chunks=(10, 2)).map_blocks(always_lost, meta=np.empty((0, 0)))
    with pytest.raises(ClusterError, match=r"failed with KilledWorker: .* No part of an answer"):
        mmd.summarize(doomed, 2, client=client)

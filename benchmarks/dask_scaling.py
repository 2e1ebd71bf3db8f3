"""Rows per second of ``momentmix.dask.summarize`` on a Parquet folder: two workers against one.

python benchmarks/dask_scaling.py            # 2 million rows
python benchmarks/dask_scaling.py --full     # 10 million rows

The folder is drawn first. Two clusters of process workers, one thread each (one BLAS thread too:
Dask sets that for its workers), take turns; a figure is printed only if both give the bytes of a
single process that reads the same files. Core seconds of the workers stand beside the wall clock:
on busy cores the ratio of the wall clock says little, and the core seconds of one worker over those
of the busier of two tell what free cores would give.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from distributed import Client, LocalCluster

import momentmix as mm
from momentmix import dask as mmd
from momentmix.summary.parts import summarize_parts


def draw(folder, n_rows, n_features, n_files):
    """Write files of about equal size."""
    rng = np.random.default_rng(0)
    truth = mm.DiagonalMixture(
        np.full(4, 0.25), 4 * rng.standard_normal((4, n_features)), np.ones((4, n_features))
    )
    names = [f"x{j}" for j in range(n_features)]
    ends = np.linspace(0, n_rows, n_files + 1).astype(int)
    for i in range(n_files):
        rows, _ = truth.sample(int(ends[i + 1] - ends[i]), rng)
        table = pa.table(list(rows.T), names=names)
        pq.write_table(
            table, Path(folder, f"part-{i:03}.parquet"), compression="none", use_dictionary=False
        )


def in_one_process(folder, order):
    """What ``momentmix summarize --n-threads 1`` does, and its seconds."""
    source = mm.open_rows(folder)

    def new_shard(shard_id=None):
        names = source.feature_names
        return mm.MomentSummary(len(names), order, names, shard_id=shard_id, n_threads=1)

    begin = time.perf_counter()
    summary = summarize_parts(source, new_shard)
    return summary.to_bytes(), time.perf_counter() - begin


def measured(client, folder, order):
    """Bytes, wall-clock seconds, and core seconds of each worker."""
    before = client.run(time.process_time)
    begin = time.perf_counter()
    data = mmd.summarize(folder, order, client=client).to_bytes()
    wall = time.perf_counter() - begin
    after = client.run(time.process_time)
    return data, wall, [after[worker] - before[worker] for worker in before]


def start(n_workers):
    cluster = LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
        host="127.0.0.1", memory_limit=0, silence_logs=40,
    )  # fmt: skip
    return Client(cluster, set_as_default=False)


def compare(options, folder):
    wanted, alone = in_one_process(folder, options.order)
    walls, cores = {1: [], 2: []}, {1: [], 2: []}
    clients = {n: start(n) for n in (1, 2)}
    try:
        for turn in range(1 + options.repeats):  # the first turn is for imports and file caches
            for n, client in clients.items():
                data, wall, core = measured(client, folder, options.order)
                if data != wanted:
                    sys.exit(f"{n} worker(s) gave other bytes than one process: no figures.")
                if turn:
                    walls[n].append(wall)
                    cores[n].append(max(core))
    finally:
        for client in clients.values():
            client.close()
            client.cluster.close()
    best = {n: min(walls[n]) for n in walls}
    busiest = {n: min(cores[n]) for n in cores}
    return {
        "rows": options.rows, "features": options.features, "order": options.order,
        "files": options.files, "repeats": options.repeats, "bytes_equal": True,
        "one_process_seconds": alone,
        "seconds": best, "core_seconds_of_the_busiest_worker": busiest,
        "rows_per_second": {n: options.rows / best[n] for n in best},
        "ratio": best[1] / best[2], "ratio_of_core_seconds": busiest[1] / busiest[2],
        "load_average": os.getloadavg()[0], "cores": os.cpu_count(),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--full", action="store_true", help="10 million rows")
    parser.add_argument("--features", type=int, default=15)
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="where to put the files")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.full:
        options.rows = 10_000_000
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        draw(folder, options.rows, options.features, options.files)
        found = compare(options, folder)
    if options.json:
        print(json.dumps(found))
        return
    print(
        f"{found['rows']:,} rows × {found['features']} features, order {found['order']}, "
        f"{found['files']} Parquet files; bytes equal to one process"
    )
    for n in (1, 2):
        print(
            f"{n} worker{'s' if n > 1 else ' '}  {found['rows_per_second'][n]:12,.0f} rows/s  "
            f"{found['seconds'][n]:7.2f} s  busiest worker "
            f"{found['core_seconds_of_the_busiest_worker'][n]:7.2f} core s"
        )
    print(
        f"two workers are {found['ratio']:.2f}× one by the wall clock (load average "
        f"{found['load_average']:.1f} on {found['cores']} cores), "
        f"{found['ratio_of_core_seconds']:.2f}× by core seconds"
    )


if __name__ == "__main__":
    main()

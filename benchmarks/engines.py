"""Rows per second of summaries from engines: DuckDB and polars against Parquet.

python benchmarks/engines.py queries [--rows 4000000] [--runs 5]
python benchmarks/engines.py memory  [--rows 4000000]               # peaks of queries

One Parquet file is drawn: 8 columns of numbers, one of text, one of whole numbers as a key. The
engines take turns, after a run each that does not count; answers are compared before any figure is
printed, and a ratio is that of the medians. Core seconds stand beside the wall clock: on busy cores
they tell more.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import momentmix as mm

NAMES = [f"x{j}" for j in range(8)]


def draw(path, n_rows):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, n_rows)
    columns = {
        name: rng.standard_normal(n_rows) + 3.0 * (group == j % 3) for j, name in enumerate(NAMES)
    }
    columns["region"] = np.array(["north", "south", "east", "west"])[rng.integers(0, 4, n_rows)]
    columns["store"] = rng.integers(0, 50, n_rows)
    pq.write_table(pa.table(columns), path, compression="zstd", row_group_size=1 << 17)


def core_seconds():
    """Of this process and all below it that live; of Linux only."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {pid for pid, (parent, _) in parents.items() if parent in below} - below:
        below |= more
    total = sum(parents[pid][1] for pid in below if pid in parents)
    return total / os.sysconf("SC_CLK_TCK")


def race(title, works, check, n_runs, n_rows):
    """Seconds of each work, in turns; the first is what the others are compared with."""
    answers = {name: work() for name, work in works.items()}
    first, *others = answers.values()
    for other in others:
        check(other, first)
    times = {name: [] for name in works}
    for _ in range(n_runs):
        for name, work in works.items():
            begin, cores = time.perf_counter(), core_seconds()
            work()
            times[name].append((time.perf_counter() - begin, core_seconds() - cores))
    base = None
    for name, pairs in times.items():
        wall, cores = (statistics.median(column) for column in zip(*pairs, strict=True))
        base = base or (wall, cores)
        print(
            f"{title:16} {name:8} {wall:6.2f} s  {n_rows / wall / 1e6:5.2f} million rows/s  rate × "
            f"{base[0] / wall:.2f}  core seconds {cores:6.2f}",
            flush=True,
        )


def same(found, expected):
    assert found.n_rows == expected.n_rows
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12, atol=1e-13)
    scale = np.where(expected.deviation > 0, expected.deviation, 1.0)
    there, here = (s.moments(shift=expected.mean, scale=scale) for s in (found, expected))
    np.testing.assert_allclose(there.powers, here.powers, rtol=1e-9, atol=1e-10)
    for products, wanted in zip(there.distinct, here.distinct, strict=True):
        np.testing.assert_allclose(products, wanted, rtol=1e-9, atol=1e-10)


def same_groups(found, expected):
    assert list(found) == list(expected)
    for key in expected:
        same(found[key], expected[key])


QUERIES = {
    "numbers": lambda rows: mm.summarize(rows, 4, columns=NAMES, progress=False),
    "with text": lambda rows: mm.summarize(rows, 4, columns=[*NAMES, "region"], progress=False),
    "200 groups": lambda rows: mm.summarize_by(
        rows, "region, store", 4, columns=NAMES, progress=False
    ),
}
READERS = ["parquet", "duckdb", "polars"]


def opened(reader, path):
    """The rows of a file as a path or a query."""
    if reader == "duckdb":
        import duckdb

        return duckdb.read_parquet(path)
    if reader == "polars":
        import polars as pl

        return pl.scan_parquet(path)
    return path


def queries(path, n_rows, n_runs):
    for title, work in QUERIES.items():
        works = {
            reader: lambda work=work, reader=reader: work(opened(reader, path))
            for reader in READERS
        }
        race(title, works, same_groups if title == "200 groups" else same, n_runs, n_rows)


def memory(path, n_rows, n_runs):
    """Peak memory of each query, in a process of its own; of Linux only."""
    for title in QUERIES:
        for reader in READERS:
            command = [sys.executable, __file__, "peak", "--of", title, reader, path]
            before, peak, size = subprocess.check_output(command, text=True).split()
            assert int(size) == n_rows
            print(
                f"{title:16} {reader:8} {n_rows / 1e6:5.1f} million rows  peak {peak} MB, of which "
                f"{before} MB are there before the summary",
                flush=True,
            )


def peak(title, reader, path):
    """What `memory` starts: memory before and at most, in MB, and the number of rows."""

    def kept():
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1000 for line in lines if line.startswith("VmHWM"))

    rows, before = opened(reader, path), kept()
    print(before, (found := QUERIES[title](rows)) and kept(), found.n_rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["queries", "memory", "peak"])
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--of", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.what == "peak":
        peak(*asked.of)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "rows.parquet"))
        draw(path, asked.rows)
        measured = {"queries": queries, "memory": memory}[asked.what]
        measured(path, asked.rows, asked.runs)


if __name__ == "__main__":
    main()

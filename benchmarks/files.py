"""Rows per second of the commands on files, whole processes, beside what the same run can reach.

python benchmarks/files.py summarize --rows 10000000
python benchmarks/files.py predict --formats parquet npy
python benchmarks/files.py start-up

A file of each format holds the same rows of a mixture. The command runs in a process of its own;
its time includes the start-up, its peak memory is what the system tells. Beside it stand

read    the file alone, by pyarrow or NumPy, into float64 columns
sum     (density, predict) mm.summarize (log_prob, predict) of the same rows in memory
polars  (summarize) all first and second moments of the same file, where polars is installed

A figure is printed only if the output is right: the moments, the labels, the log-likelihood of the
same rows in memory.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import momentmix as mm

FORMATS = ["parquet", "arrow", "npy", "csv", "csv.gz"]
BLOCK = 1 << 17
COMMAND = [sys.executable, "-c", "from momentmix.cli import main; main()"]
# A small process between this one and the command: the system counts the memory of the process
# that starts another one as that other one's.
LAUNCHER = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL).returncode
seconds = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
"""


def best_of(work, n_times):
    """Least seconds of several calls, and the last result."""
    least = np.inf
    for _ in range(n_times):
        start = time.perf_counter()
        result = work()
        least = min(least, time.perf_counter() - start)
    return least, result


class Run:
    """Files, the rows in them, and a place for outputs."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        rng = np.random.default_rng(0)
        r, d = 6, options.features
        self.names = [f"x{j}" for j in range(d)]
        self.model = mm.Mixture.diagonal(
            np.full(r, 1 / r), 4 * rng.standard_normal((r, d)), np.ones((r, d)), self.names
        )
        self.model.save(folder / "model.json")
        self.rows, _ = self.model.sample(options.rows, rng)
        # Bytecode is cached, as after an installation.
        self.environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def command(self, *arguments, n_times=None, codes=(0,)):
        """Least seconds, least seconds of cores and largest peak memory (MB) of several runs.

        And what the last one printed.
        """
        least, cores, most = np.inf, np.inf, 0.0
        for _ in range(n_times or self.options.repeat):
            done = subprocess.run(
                [sys.executable, "-S", "-c", LAUNCHER, *COMMAND, *map(str, arguments)],
                check=True, capture_output=True, text=True, env=self.environment,
            )  # fmt: skip
            *notes, last = done.stderr.strip().splitlines()
            code, seconds, busy, peak = last.split()
            if int(code) not in codes:
                raise SystemExit(f"{arguments}: exit code {code}\n" + "\n".join(notes))
            least, cores = min(least, float(seconds)), min(cores, float(busy))
            most = max(most, float(peak))
        return (least, cores, most), done.stdout

    def file(self, kind, rows=None, stem="rows"):
        """The rows as a file."""
        rows = self.rows if rows is None else rows
        path = self.folder / f"{stem}.{kind}"
        schema = pa.schema([(name, pa.float64()) for name in self.names])
        blocks = (rows[i : i + BLOCK] for i in range(0, len(rows), BLOCK))
        tables = (pa.table([*np.ascontiguousarray(b.T)], schema=schema) for b in blocks)
        if kind == "npy":
            np.save(path, rows)
        elif kind == "parquet":
            with pa.parquet.ParquetWriter(path, schema, use_dictionary=False) as writer:
                for table in tables:
                    writer.write_table(table)
        elif kind == "arrow":
            with pa.ipc.new_file(path, schema) as writer:
                for table in tables:
                    writer.write_table(table)
        else:
            opener = gzip.open if kind.endswith("gz") else open
            options = {"compresslevel": 6} if kind.endswith("gz") else {}
            with (
                opener(path, "wb", **options) as stream,
                pa.csv.CSVWriter(stream, schema) as writer,
            ):
                for table in tables:
                    writer.write_table(table)
        return path


# -- limits of the same run -------------------------------------------------------------------


def read_alone(path):
    """Read every row, and count them."""
    if path.suffix == ".parquet":
        with pa.parquet.ParquetFile(path) as file:
            return sum(batch.num_rows for batch in file.iter_batches(BLOCK))
    if path.suffix == ".arrow":
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
    if path.suffix == ".npy":
        shape = np.load(path, mmap_mode="r").shape
        block, n_bytes = np.empty((BLOCK, shape[1])), 0
        with path.open("rb", buffering=0) as file:
            file.seek(path.stat().st_size - 8 * shape[0] * shape[1])
            while n_read := file.readinto(memoryview(block).cast("B")):
                n_bytes += n_read
        return n_bytes // (8 * shape[1])
    with pa.csv.open_csv(path) as reader:
        assert set(reader.schema.types) == {pa.float64()}
        return sum(batch.num_rows for batch in reader)


def polars_moments(path):
    """All first and second moments by polars; None where it cannot be had."""
    try:
        import polars as pl
    except ImportError:
        return None
    scan = {".parquet": pl.scan_parquet, ".arrow": pl.scan_ipc, ".csv": pl.scan_csv}
    if path.suffix not in scan:
        return None
    frame = scan[path.suffix](path)
    names = frame.collect_schema().names()
    first = [pl.col(name).mean() for name in names]
    pairs = combinations_with_replacement(names, 2)
    second = [(pl.col(a) * pl.col(b)).mean().alias(f"{a} {b}") for a, b in pairs]
    return frame.select(first + second).collect(engine="streaming").row(0)


# -- commands ---------------------------------------------------------------------------------


def line(kind, path, n_rows, figures, limits):
    """Figures of one command beside the limits, in million rows/s and as the share reached."""
    seconds, cores, peak = figures
    beside = ", ".join(
        f"{name} {n_rows / limit / 1e6:.2f} ({limit / seconds:.0%})"
        for name, limit in limits.items()
        if limit is not None
    )
    print(
        f"{kind:8} {path.stat().st_size / 1e6:6,.0f} MB  {seconds:6.2f} s  {cores:6.2f} core s  "
        f"{n_rows / seconds / 1e6:5.2f} million rows/s  peak {peak:4.0f} MB; of {beside}",
        flush=True,
    )


def bench_summarize(run, kinds):
    options = run.options
    sum_alone, known = best_of(lambda: mm.summarize(run.rows, options.order), options.repeat)
    output = run.folder / "rows.mms"
    for kind in kinds:
        path = run.file(kind)
        figures, _ = run.command("summarize", path, "-o", output, "-m", options.order)
        found = mm.MomentSummary.load(output)
        assert found.n_rows == options.rows
        np.testing.assert_allclose(found.mean, known.mean, rtol=1e-10)
        for m in range(1, options.order + 1):
            arrays = [s.moments(shift=0, scale=1).distinct[m] for s in (found, known)]
            np.testing.assert_allclose(*arrays, rtol=1e-9, atol=1e-9)
        read, n_read = best_of(lambda path=path: read_alone(path), options.repeat)
        assert n_read == options.rows
        polars, moments = best_of(lambda path=path: polars_moments(path), options.repeat)
        if moments is not None:
            d = options.features
            np.testing.assert_allclose(moments[:d], known.mean, rtol=1e-6)
        limits = {"read": read, "sum": sum_alone, "polars": None if moments is None else polars}
        line(kind, path, options.rows, figures, limits)
        path.unlink()


def bench_predict(run, kinds):
    alone, known = best_of(lambda: run.model.predict(run.rows), run.options.repeat)
    output = run.folder / "labels.csv"
    for kind in kinds:
        path = run.file(kind)
        arguments = ("predict", run.folder / "model.json", path, "-o", output)
        figures, _ = run.command(*arguments)
        labels = np.loadtxt(output, skiprows=1, dtype=np.int64)
        np.testing.assert_array_equal(labels, known)
        read, _ = best_of(lambda path=path: read_alone(path), run.options.repeat)
        line(kind, path, run.options.rows, figures, {"read": read, "predict": alone})
        path.unlink()


def bench_density(run, kinds):
    alone, known = best_of(lambda: run.model.log_prob(run.rows).mean(), run.options.repeat)
    output = run.folder / "scores.csv"
    for kind in kinds:
        path = run.file(kind)
        figures, text = run.command(
            "predict",
            run.folder / "model.json",
            path,
            "--density",
            "-o",
            output,
            "--json",
        )
        np.testing.assert_allclose(json.loads(text)["log_likelihood_per_row"], known, rtol=1e-12)
        read, _ = best_of(lambda path=path: read_alone(path), run.options.repeat)
        line(kind, path, run.options.rows, figures, {"read": read, "log_prob": alone})
        path.unlink()


def bench_start_up(run, kinds):
    """Whole processes on a file of 200 rows."""
    model, summary, rows = run.folder / "model.json", run.folder / "tiny.mms", run.rows[:200]
    tiny = {kind: run.file(kind, rows, "tiny") for kind in kinds}
    commands = {f"summarize {kind}": ("summarize", path, "-o", summary)
                for kind, path in tiny.items()}  # fmt: skip
    one = next(iter(tiny.values()))
    commands |= {
        "--version": ("--version",),
        "predict": ("predict", model, one),
        "fit": ("fit", summary, "-r", 2, "-o", run.folder / "fit.json"),
    }
    for name, arguments in commands.items():
        codes = (0, 4) if name == "fit" else (0,)
        run.command(*arguments, n_times=1, codes=codes)  # fills the cache of bytecode
        (seconds, cores, peak), _ = run.command(*arguments, codes=codes)
        print(f"{name:20} {seconds:.2f} s  {cores:.2f} core s  peak {peak:.0f} MB", flush=True)


BENCHMARKS = {
    "summarize": bench_summarize,
    "predict": bench_predict,
    "density": bench_density,
    "start-up": bench_start_up,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", choices=[*BENCHMARKS, []], help="by default all")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=15)
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the best is printed")
    parser.add_argument("--folder", type=Path, default=None, help="where to put the files")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run = Run(Path(folder), options)
        for what in options.what or BENCHMARKS:
            print(f"{what}: {options.rows:,} rows × {options.features}, order {options.order}")
            BENCHMARKS[what](run, options.formats)


if __name__ == "__main__":
    main()

"""Rows per second and peak memory of ``momentmix summarize`` on a Parquet file.

python benchmarks/summarize_parquet.py --rows 10000000 --features 15 --order 4

The file is drawn block by block and summarized by the command in a process of its own, whose peak
memory the system tells; a figure is printed only if the summary holds every row and the right mean.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import momentmix as mm

COMMAND = [sys.executable, "-c", "from momentmix.cli import main; main()"]


def draw(path, n_rows, n_features):
    """Write a file, and give the mean of its columns."""
    rng = np.random.default_rng(0)
    truth = mm.DiagonalMixture(
        np.full(4, 0.25), 4 * rng.standard_normal((4, n_features)), np.ones((4, n_features))
    )
    names = [f"x{j}" for j in range(n_features)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    total = np.zeros(n_features)
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, n_rows, 1 << 18):
            rows, _ = truth.sample(min(1 << 18, n_rows - start), rng)
            total += rows.sum(axis=0)
            writer.write_table(pa.table(list(rows.T), schema=schema))
    return total / n_rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=15)
    parser.add_argument("--order", type=int, default=4)
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--folder", type=Path, default=None, help="where to put the file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        data, output = Path(folder, "rows.parquet"), Path(folder, "rows.mms")
        mean = draw(data, options.rows, options.features)
        threads = [] if options.threads is None else ["--threads", str(options.threads)]
        done = subprocess.run(
            [
                *COMMAND,
                "summarize",
                data,
                "-o",
                output,
                "-m",
                str(options.order),
                "--json",
                *threads,
            ],
            check=True,
            capture_output=True,
        )
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        report = json.loads(done.stdout)
        summary = mm.MomentSummary.load(output)
        assert summary.n_rows == options.rows
        np.testing.assert_allclose(summary.mean, mean, rtol=1e-9, atol=1e-9)
        print(
            f"{options.rows:,} rows × {options.features} features, order {options.order}, "
            f"{data.stat().st_size / 1e6:,.0f} MB: {report['rows_per_second']:,.0f} rows/s, "
            f"{report['seconds']:.1f} s, peak memory {peak:,.0f} MB, "
            f"summary {output.stat().st_size / 1e3:,.0f} kB"
        )


if __name__ == "__main__":
    main()

"""Stream synthetic rows through a summary in constant memory; prints peak memory and sizes."""

from __future__ import annotations

import resource
import time

import click
import numpy as np

from momentmix import MomentSummary


@click.command()
@click.option("--rows", default=100_000_000, help="Number of rows.")
@click.option("--features", default=15)
@click.option("--order", default=4)
@click.option("--block", default=65_536, help="Rows of one update.")
@click.option("--threads", default=None, type=int)
def main(rows: int, features: int, order: int, block: int, threads: int | None) -> None:
    """Add ROWS normal rows of known moments, then compare and report."""
    rng = np.random.default_rng(0)
    offset = np.linspace(-1e3, 1e3, features)
    summary = MomentSummary(features, order, n_threads=threads, shard_id="stream")
    buffer, left, adding = np.empty((block, features)), rows, 0.0
    start = time.perf_counter()
    while left:
        part = buffer[: min(block, left)]
        rng.standard_normal(out=part)
        part += offset
        now = time.perf_counter()
        summary.update(part)
        adding += time.perf_counter() - now
        left -= len(part)
    total = time.perf_counter() - start
    size = len(summary.to_bytes())
    error = np.abs(summary.tensor(order).values).max() * np.sqrt(rows)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if summary.n_rows != rows or not 0.5 < error < 8:
        raise SystemExit(f"wrong: {summary.n_rows} rows, largest moment {error:.3g} errors")
    click.echo(
        f"{rows:,} rows at ({features}, {order}): {total:.1f} s, of which adding {adding:.1f} s "
        f"({adding / rows * 1e6:.3f} µs/row)\n"
        f"peak memory {peak:.0f} MB, summary {size:,} bytes; largest moment of order {order}: "
        f"{error:.2f} standard errors from the truth"
    )


if __name__ == "__main__":
    main()

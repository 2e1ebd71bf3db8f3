"""Time to add rows to a summary, beside the dgemm rate of the same cores.

A time is printed only after the sums agreed with products written out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import comb

import click
import numpy as np
from threadpoolctl import threadpool_limits

from momentmix import MomentSummary
from momentmix.core.labels import colex_unrank

SHAPES = [(15, 4), (15, 6), (30, 4), (40, 5)]


def measure(work: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Least wall-clock seconds and least core seconds of some passes."""
    wall = cores = np.inf
    for _ in range(repeats):
        start, used = time.perf_counter(), time.process_time()
        work()
        wall = min(wall, time.perf_counter() - start)
        cores = min(cores, time.process_time() - used)
    return wall, cores


def dgemm_rates(n_threads: int, size: int = 768) -> tuple[float, float]:
    """Operations of independent products with reused memory, a second and a core second."""
    arrays = [[np.ones((size, size)) for _ in range(3)] for _ in range(n_threads)]

    def work(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        for _ in range(8):
            np.matmul(a, b, out=out)

    with threadpool_limits(1), ThreadPoolExecutor(n_threads) as pool:
        wall, cores = measure(lambda: list(pool.map(lambda x: work(*x), arrays)), 6)
    operations = n_threads * 8 * 2 * size**3
    return operations / wall, operations / cores


def check(summary: MomentSummary, rows: np.ndarray) -> None:
    """Compare a sample of moments with products written out."""
    moments, rng = summary.moments(), np.random.default_rng(0)
    points = (rows - moments.shift) / moments.scale
    for t in range(1, summary.order + 1):
        ranks = rng.choice(comb(rows.shape[1], t), 20)
        for rank, members in zip(ranks, colex_unrank(ranks, t), strict=True):
            products = points[:, members].prod(axis=1)
            error = abs(products.mean() - moments.distinct[t][rank])
            if error > 1e-9 * products.std() / np.sqrt(len(rows)):
                raise SystemExit(f"wrong moment at {members}: off by {error}")


@click.command()
@click.option("--rows", default=200_000, help="Rows at (15, 4); fewer where there is more work.")
@click.option("--repeats", default=5, help="The best of so many passes counts.")
@click.option("--threads", default="1,2", help="Numbers of threads, separated by commas.")
def main(rows: int, repeats: int, threads: str) -> None:
    """µs a row, and the share of dgemm, at (15,4), (15,6), (30,4), (40,5).

    Core seconds do not count the time that other processes hold the cores; on an idle machine and
    one thread both columns agree.
    """
    click.echo("                            wall-clock            |       core seconds")
    click.echo("   d  m  threads     rows   µs/row  share of dgemm |   µs/row  share of dgemm")
    for n_threads in (int(n) for n in threads.split(",")):
        for d, m in SHAPES:
            n = max(8192, min(rows, int(rows * 4000 / sum(comb(d, t) for t in range(m + 1)))))
            data = np.random.default_rng(0).standard_normal((n, d)) + 3
            check(MomentSummary(d, m, n_threads=n_threads).update(data[:8192]), data[:8192])
            summary = MomentSummary(d, m, n_threads=n_threads).update(data[:8192])
            text = f"{d:4d} {m:2d} {n_threads:8d} {n:8d}"
            seconds = measure(partial(summary.update, data), repeats)
            for time_, rate in zip(seconds, dgemm_rates(n_threads), strict=True):
                share = 2 * summary.cost.n_entries * n / time_ / rate
                text += f" {time_ / n * 1e6:8.3f} {share:15.1%} |"
            click.echo(text.rstrip(" |"))


if __name__ == "__main__":
    main()

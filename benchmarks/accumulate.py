"""Time of `mm.summarize(array)`, closing included, beside the dgemm rate of the same cores.

A time is printed only after the sums agreed with products written out. All sides of a ratio are
measured in turns, and the best pass of each counts.
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

import momentmix as mm
from momentmix.index_sets import index_sets
from momentmix.native import code

DGEMM = 768


def in_turns(works: dict[object, Callable[[], object]], repeats: int) -> dict[object, float]:
    """Least seconds of each piece of work."""
    best = dict.fromkeys(works, np.inf)
    for _ in range(repeats):
        for name, work in works.items():
            start = time.perf_counter()
            work()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def dgemm(n_threads: int, pool: ThreadPoolExecutor) -> Callable[[], object]:
    """Independent products with reused memory, eight on each thread."""
    arrays = [[np.ones((DGEMM, DGEMM)) for _ in range(3)] for _ in range(n_threads)]

    def work(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        for _ in range(8):
            np.matmul(a, b, out=out)

    def everywhere() -> None:
        with threadpool_limits(1):
            list(pool.map(lambda x: work(*x), arrays))

    return everywhere


def check(summary: mm.MomentSummary, rows: np.ndarray) -> None:
    """Compare a sample of moments with products written out."""
    moments, rng = summary.moments(), np.random.default_rng(0)
    points = (rows - moments.shift) / moments.scale
    for t in range(1, summary.order + 1):
        ranks = rng.choice(comb(rows.shape[1], t), 20)
        for rank, members in zip(ranks, index_sets(rows.shape[1], t)[ranks], strict=True):
            products = points[:, members].prod(axis=1)
            error = abs(products.mean() - moments.distinct[t][rank])
            if error > 1e-9 * products.std() / np.sqrt(len(rows)):
                raise SystemExit(f"wrong moment at {members}: off by {error}")


def summarized(rows: np.ndarray, order: int, n_threads: int) -> mm.MomentSummary:
    """The call that is timed: the summary, and a look at it, which closes it."""
    summary = mm.summarize(rows, order, n_threads=n_threads)
    summary.mean  # noqa: B018
    return summary


def useful_operations(d: int, m: int) -> int:
    """Two for each row and distinct moment, and for each y_j²·y_I with |I| ≤ 2; others are free."""
    return 2 * (
        sum(comb(d, t) for t in range(m + 1))
        + sum(d * comb(d - 1, s) for s in range(min(2, m - 1) + 1))
    )


@click.command()
@click.option("--shapes", default="15,4 15,6 30,4 40,5", help="Features and order.")
@click.option("--rows", default="600000,50000", help="Numbers of rows; at most 1e5 at (40, 5).")
@click.option("--repeats", default=7, help="The best of so many calls counts.")
@click.option("--threads", default="1,2", help="Numbers of threads.")
def main(shapes: str, rows: str, repeats: int, threads: str) -> None:
    """µs a row, the share of dgemm on as many cores, and the gains by threads of both."""
    click.echo("mm.summarize(array), closed, by " + ("NumPy" if code is None else "compiled code"))
    click.echo("   d  m      rows  threads   µs/row  share of dgemm   gain  gain of dgemm  of it")
    counts = [int(n) for n in threads.split(",")]
    for shape in shapes.split():
        d, m = (int(n) for n in shape.split(","))
        for n in (int(float(text)) for text in rows.split(",")):
            data = (
                np.random.default_rng(0).standard_normal((min(n, 100_000) if d >= 40 else n, d)) + 3
            )
            check(summarized(data[:50_000], m, max(counts)), data[:50_000])
            works: dict[object, Callable[[], object]] = {}
            with ThreadPoolExecutor(max(counts)) as pool:
                for n_threads in counts:
                    works["dgemm", n_threads] = dgemm(n_threads, pool)
                    works["rows", n_threads] = partial(summarized, data, m, n_threads)
                best = in_turns(works, repeats)
            first = counts[0]
            for n_threads in counts:
                seconds = best["rows", n_threads]
                rate = n_threads * 8 * 2 * DGEMM**3 / best["dgemm", n_threads]
                share = useful_operations(d, m) * len(data) / seconds / rate
                gain = best["rows", first] / seconds
                limit = n_threads / first * best["dgemm", first] / best["dgemm", n_threads]
                click.echo(
                    f"{d:4d} {m:2d} {len(data):9d} {n_threads:8d} {seconds / len(data) * 1e6:8.3f} "
                    f"{share:15.1%} {gain:6.2f} {limit:14.2f} {gain / limit:6.0%}"
                )


if __name__ == "__main__":
    main()

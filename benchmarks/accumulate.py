"""Time to add rows to a summary, beside the dgemm rate of the same cores.

A time is printed only after the sums agreed with products written out. All sides of a ratio are
measured in turns, and the best pass of each counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from math import comb
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from momentmix import MomentSummary
from momentmix.index_sets import colex_unrank
from momentmix.rows.validation import check_values
from momentmix.summary.fixed_point import DigitSums
from momentmix.summary.kernels import choice
from momentmix.summary.kernels.numpy_sums import NumpyExecutor, Workspace
from momentmix.summary.kernels.plan import Fill
from momentmix.summary.layout import Layout
from momentmix.summary.shard.units import extremes

SHAPES = [(15, 4), (15, 6), (30, 4), (40, 5)]
DGEMM = 768


def in_turns(
    works: dict[object, Callable[[], object]], repeats: int
) -> dict[object, tuple[float, float]]:
    """Least wall-clock seconds and least core seconds of each piece of work."""
    best = dict.fromkeys(works, (np.inf, np.inf))
    for _ in range(repeats):
        for name, work in works.items():
            start, used = time.perf_counter(), time.process_time()
            work()
            wall, cores = time.perf_counter() - start, time.process_time() - used
            best[name] = min(best[name][0], wall), min(best[name][1], cores)
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


def rates(rows: int, repeats: int, threads: list[int], compiled: bool) -> None:
    """The table of µs a row and shares of dgemm, by compiled code or by NumPy."""
    click.echo("Compiled code (extra fast), as in long streams:" if compiled else "NumPy alone:")
    click.echo("                            wall-clock            |       core seconds")
    click.echo(
        "   d  m  threads     rows   µs/row  share of dgemm |   µs/row  share of dgemm | speed-up"
    )
    for d, m in SHAPES:
        entries = sum(comb(d, t) for t in range(m + 1))
        n = max(16_384, min(rows, int(rows * 4000 / entries))) // 4096 * 4096
        data = np.random.default_rng(0).standard_normal((n, d)) + 3
        works: dict[object, Callable[[], object]] = {}
        with ThreadPoolExecutor(max(threads)) as pool:
            for n_threads in threads:
                choice._WORTH_LOADING = 0 if compiled else 1 << 62
                summary = MomentSummary(d, m, n_threads=n_threads)
                check(summary.update(data[:8192]), data[:8192])
                works["dgemm", n_threads] = dgemm(n_threads, pool)
                works["rows", n_threads] = partial(summary.update, data)
            best = in_turns(works, repeats)
        for n_threads in threads:
            text = f"{d:4d} {m:2d} {n_threads:8d} {n:8d}"
            operations = 2 * summary.cost.n_entries * n
            for seconds, reference in zip(
                best["rows", n_threads], best["dgemm", n_threads], strict=True
            ):
                share = operations / seconds / (n_threads * 8 * 2 * DGEMM**3 / reference)
                text += f" {seconds / n * 1e6:8.3f} {share:15.1%} |"
            ratio = best["rows", threads[0]][0] / best["rows", n_threads][0]
            click.echo(f"{text} {ratio:8.2f}")


def bytes_touched(executor: NumpyExecutor) -> tuple[float, float]:
    """Bytes that the monomials, and the products, of a row read and write, mostly in the cache."""
    monomials = products = 0
    for step in [*executor.plan.fills, *executor.plan.steps]:
        if isinstance(step, Fill):
            monomials += sum(part.stop - part.start for part in step[:3])
        else:
            products += sum(part.stop - part.start for part in step[:2])
    sums = 3 * executor.plan.n_sums / executor.chunk
    return 8.0 * monomials, 8.0 * (products + sums)


def stage_times(d: int, m: int, repeats: int) -> tuple[dict[object, float], NumpyExecutor]:
    """Core seconds of each stage for 4,096 rows (a copy: of its arrays), and the executor."""
    layout, n = Layout(d, m, 2, 16), 4096
    executor, rng = NumpyExecutor(layout), np.random.default_rng(0)
    space = Workspace(executor.plan, executor.chunk)
    work, n_chunks = space.chunk_calls(executor.chunk, False), n // executor.chunk
    rows, units = rng.standard_normal((n, d)) + 3, (np.ones(d), np.full(d, 3.0))
    digits, sums = DigitSums(layout), executor.sums(rows[None], None, units)[0]
    many = np.tile(rows, (4, 1))
    summary = MomentSummary(d, m, n_threads=1).update(many)
    check(summary, many)
    slabs = [call for call in work.calls if call[0] is np.multiply]
    rest = [call for call in work.calls if call[0] is not np.multiply]
    works: dict[object, Callable[[], object]] = {
        "checks": lambda: (check_values(rows, None), extremes(rows)),
        "monomials": lambda: call_all([*work.fills, *slabs] * n_chunks),
        "products": lambda: call_all(rest * n_chunks),
        "adding": lambda: digits.add(sums.copy(), float(n), 0),
        "block": lambda: executor.sums(rows[None], None, units),
        "whole": lambda: summary.update(many),
    }
    with threadpool_limits(1):
        best = in_turns(works, repeats)
    times = {name: cores for name, (_, cores) in best.items()}
    return times | {"whole": times["whole"] / 4}, executor


def copy_rates(repeats: int) -> list[float]:
    """Bytes a second that a copy reads and writes: in memory, and in the cache of a core."""
    pairs = {"memory": np.ones((2, 1 << 24)), "cache": np.ones((2, 1 << 15))}
    times = {"memory": 1, "cache": 500}
    works: dict[object, Callable[[], object]] = {
        name: partial(call_all, [(np.positive, pair[0], pair[1])] * times[name])
        for name, pair in pairs.items()
    }
    best = in_turns(works, repeats)
    return [2 * pair[0].nbytes * times[name] / best[name][1] for name, pair in pairs.items()]


def stages(repeats: int) -> None:
    """The table of where the time goes, on one thread."""
    names = ["checks", "monomials", "products", "adding", "block", "whole"]
    memory, cache = copy_rates(repeats)
    click.echo("core µs a row, one thread " + " ".join(f"{name:>10}" for name in names))
    for d, m in SHAPES:
        times, executor = stage_times(d, m, repeats)
        shown = " ".join(f"{times[name] / 4096 * 1e6:10.4f}" for name in names)
        click.echo(f"  d={d}, m={m}             {shown}")
        filled, multiplied = bytes_touched(executor)
        click.echo(
            f"     bytes a row: {8 * d} of data; monomials {filled:,.0f} at "
            f"{filled * 4096 / times['monomials'] / 1e9:.0f} GB/s, products {multiplied:,.0f} at "
            f"{multiplied * 4096 / times['products'] / 1e9:.0f} GB/s"
        )
    click.echo(
        f"A copy reads and writes {memory / 1e9:.0f} GB/s in memory, {cache / 1e9:.0f} GB/s in the "
        "cache. A block is monomials, products, and the transposition of its rows; the whole is "
        "MomentSummary.update."
    )


def call_all(calls: list[tuple[Any, ...]]) -> None:
    """Run bound operations."""
    for function, *arguments in calls:
        function(*arguments)


@click.command()
@click.option("--rows", default=200_000, help="Rows at (15, 4); fewer where there is more work.")
@click.option("--repeats", default=7, help="The best of so many passes counts.")
@click.option("--threads", default="1,2", help="Numbers of threads, separated by commas.")
@click.option("--stages", "by_stage", is_flag=True, help="Show where the time goes instead.")
def main(rows: int, repeats: int, threads: str, by_stage: bool) -> None:
    """µs a row, the share of dgemm and the speed-up, at (15,4), (15,6), (30,4), (40,5).

    Core seconds do not count the time that other processes hold the cores; on an idle machine and
    one thread both columns agree.
    """
    if by_stage:
        stages(5 * repeats)
    else:
        for compiled in (False, True) if find_spec("numba") else (False,):
            rates(rows, repeats, [int(n) for n in threads.split(",")], compiled)


if __name__ == "__main__":
    main()

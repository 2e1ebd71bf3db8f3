"""`compare` on pairs of summaries of one law, and on pairs in which something changed.

    python benchmarks/compare.py null --cases 500        # N = 1e3 … 1e5, d = 3 … 15, all laws
    python benchmarks/compare.py null --rows 1000 --features 15 --law lognormal
    python benchmarks/compare.py unequal --cases 200     # 1e3 rows against 1e5
    python benchmarks/compare.py power --cases 100       # 0.1 deviations in one of 10 columns

Each case is one line: seed, law, rows, features, p-value, and what was named. The summary gives the
share of false alarms at 5 % with its binomial standard error, in all and in each cell; for power,
how often the shifted column was named, and how often another one.
"""

import argparse
import collections
import multiprocessing
import warnings

import numpy as np
from compare_laws import LAWS

import momentmix as mm

LEVEL = 0.05
ROWS, FEATURES = (1_000, 10_000, 100_000), (3, 8, 15)
SHIFT = 0.1


def summary_of(rows, like=None):
    if isinstance(rows, dict):
        families = None if like is None else like.schema
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mm.summarize(rows, missing="model", families=families)
    return mm.summarize(rows)


def null_case(asked):
    """One pair of one law: law, rows of both, features, p-value and number of named changes."""
    seed, chosen, rows, features, other_rows = asked
    rng = np.random.default_rng(seed)
    name = chosen or list(LAWS)[rng.integers(len(LAWS))]
    n, d = rows or rng.choice(ROWS), features or rng.choice(FEATURES)
    sizes = int(n), int(other_rows or n)
    if other_rows and rng.random() < 0.5:
        sizes = sizes[::-1]
    first = summary_of(LAWS[name](sizes[0], int(d), rng))
    found = mm.compare(first, summary_of(LAWS[name](sizes[1], int(d), rng), first))
    return seed, name, sizes, int(d), found.p_value, [f"{c.what} {c.column}" for c in found.named()]


def power_case(asked):
    """One pair whose column 3 is shifted: law, whether it was named, and what else was."""
    seed, chosen, rows, features, _ = asked
    rng = np.random.default_rng(seed)
    name = chosen or [x for x in LAWS if x != "table"][rng.integers(len(LAWS) - 1)]
    n, d = rows or 20_000, features or 10
    first, second = (LAWS[name](n, d, rng) for _ in range(2))
    second[:, 3] += SHIFT * np.concatenate([first, second])[:, 3].std()
    found = mm.compare(mm.summarize(first), mm.summarize(second))
    named = {(c.what, c.column) for c in found.named()}
    return seed, name, n, d, ("mean", "3") in named, sorted(named - {("mean", "3")})


def share(hits, n):
    rate = hits / n
    return f"{100 * rate:5.1f} % ± {100 * np.sqrt(max(rate, 0.5 / n) * (1 - rate) / n):.1f} of {n}"


def run(case, arguments):
    last = arguments.first + arguments.cases
    asked = [
        (seed, arguments.law, arguments.rows, arguments.features, arguments.other_rows)
        for seed in range(arguments.first, last)
    ]
    with multiprocessing.Pool(arguments.processes) as pool:
        for line in pool.imap(case, asked):
            print(*line, flush=True)
            yield line


def null(arguments):
    cells = collections.defaultdict(list)
    for _, name, sizes, d, p, _ in run(null_case, arguments):
        for cell in ("all", f"law {name}", f"rows {min(sizes)}", f"features {d}"):
            cells[cell].append(p <= LEVEL)
        cells[f"{name}, {sizes[0]} and {sizes[1]} rows, {d} features"].append(p <= LEVEL)
    print("\nfalse alarms at 5 %")
    for cell, hits in sorted(cells.items()):
        print(f"{share(sum(hits), len(hits))}  {cell}")


def power(arguments):
    lines = list(run(power_case, arguments))
    print(f"\nshifted column named: {share(sum(line[4] for line in lines), len(lines))}")
    print(f"others named: {share(sum(bool(line[5]) for line in lines), len(lines))}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["null", "unequal", "power"])
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--law", choices=list(LAWS))
    parser.add_argument("--rows", type=lambda text: int(float(text)))
    parser.add_argument("--other-rows", type=lambda text: int(float(text)))
    parser.add_argument("--features", type=int)
    arguments = parser.parse_args()
    if arguments.what == "unequal":
        arguments.rows, arguments.other_rows = arguments.rows or 1000, arguments.other_rows or 10**5
    (power if arguments.what == "power" else null)(arguments)


if __name__ == "__main__":
    main()

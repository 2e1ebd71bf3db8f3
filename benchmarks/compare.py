"""`compare` on pairs of summaries of one law, and on pairs in which something changed.

    python benchmarks/compare.py null --cases 500        # N = 1e3 … 1e5, d = 3 … 15, all laws
    python benchmarks/compare.py null --rows 1000 --features 15 --law lognormal
    python benchmarks/compare.py cells --cases 200       # so many pairs in each cell rows × law × d
    python benchmarks/compare.py unequal --cases 200     # 1e3 rows against 1e5
    python benchmarks/compare.py power --cases 100       # 0.1 deviations in one of 10 columns
    python benchmarks/compare.py power --change spread   # other changes: see CHANGES

Each case is one line: seed, law, rows, features, p-value, and what was named. The summary gives the
share of false alarms at 5 % with its binomial standard error, in all and in each cell, and in each
cell which test would reject alone: the F tests of means and of second moments, and the changes one
by one. For power, how often the change was named, and how often another one. Laws are those of
compare_laws.py; `--order` is that of summarize.
"""

import argparse
import collections
import itertools
import multiprocessing
import warnings

import numpy as np
from compare_laws import LAWS

import momentmix as mm

LEVEL = 0.05
ROWS, FEATURES = (1_000, 10_000, 100_000), (3, 8, 15)
# Laws that the figures of the documentation were measured on; `cells` has all.
USUAL = (
    "normal", "correlated", "exponential", "lognormal", "joint-lognormal", "skewed", "heavy",
    "clusters", "answers", "table",
)  # fmt: skip


def summary_of(rows, like=None, **options):
    if isinstance(rows, dict):
        families = None if like is None else like.schema
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mm.summarize(rows, missing="model", families=families, **options)
    return mm.summarize(rows, **options)


# -- pairs of one law ---------------------------------------------------------------------------


def null_case(asked):
    """One pair of one law: what it is, its p-value, what was named, p-values of each test."""
    seed, name, n, d, other_rows, options = asked
    rng = np.random.default_rng(seed)
    name = name or USUAL[rng.integers(len(USUAL))]
    n, d = int(n or rng.choice(ROWS)), int(d or rng.choice(FEATURES))
    sizes = n, int(other_rows or n)
    if other_rows and rng.random() < 0.5:
        sizes = sizes[::-1]
    first = summary_of(LAWS[name](sizes[0], d, rng), **options)
    found = mm.compare(first, summary_of(LAWS[name](sizes[1], d, rng), first, **options))
    parts = {name: test.p_value for name, test in found.tests.items()}
    single = [c.p_value for c in found.changes if c.p_value == c.p_value]
    parts["one by one"] = min(1.0, len(single) * min(single, default=1.0))
    named = [f"{c.what} {c.column}" for c in found.named()]
    return seed, name, sizes, d, found.p_value, named, parts


def null(arguments):
    asked = [
        (seed, arguments.law, arguments.rows, arguments.features, arguments.other_rows)
        for seed in range(arguments.first, arguments.first + arguments.cases)
    ]
    cells = collections.defaultdict(list)
    for _, name, sizes, d, p, _, _ in run(null_case, asked, arguments):
        for cell in ("all", f"law {name}", f"rows {min(sizes)}", f"features {d}"):
            cells[cell].append(p <= LEVEL)
        cells[f"{name}, {sizes[0]} and {sizes[1]} rows, {d} features"].append(p <= LEVEL)
    print("\nfalse alarms at 5 %")
    for cell, hits in sorted(cells.items()):
        print(f"{share(sum(hits), len(hits))}  {cell}")


def cells(arguments):
    """As many pairs in each cell; those far from 2 to 8 % come once more at the end."""
    laws = [arguments.law] if arguments.law else list(LAWS)
    rows = [arguments.rows] if arguments.rows else ROWS
    features = [arguments.features] if arguments.features else FEATURES
    places = list(itertools.product(rows, laws, features))
    asked = [
        ((seed, place), law, n, d, arguments.other_rows)
        for place, (n, law, d) in enumerate(places)
        for seed in range(arguments.first, arguments.first + arguments.cases)
    ]
    found = collections.defaultdict(list)
    for (_, place), _, _, _, p, _, parts in run(null_case, asked, arguments, quiet=True):
        found[place].append({"all": p, **parts})
        if len(found[place]) == arguments.cases:
            print(cell_line(places[place], found[place]), flush=True)
    alarms = {place: sum(x["all"] <= LEVEL for x in some) for place, some in found.items()}
    print(f"\nin all: {share(sum(alarms.values()), len(asked))}")
    for place, hits in sorted(alarms.items(), key=lambda item: item[1]):
        rate = hits / arguments.cases
        error = np.sqrt(LEVEL * (1 - LEVEL) / arguments.cases)
        if not 0.02 - 2 * error <= rate <= 0.08 + 2 * error:
            print(f"outside 2 to 8 %: {cell_line(places[place], found[place])}")


def cell_line(place, found):
    names = sorted({name for x in found for name in x} - {"all"})
    parts = [
        f"{name} {100 * np.mean([x.get(name, 1.0) <= LEVEL for x in found]):.1f}" for name in names
    ]
    alarms = sum(x["all"] <= LEVEL for x in found)
    n, law, d = place
    return f"{share(alarms, len(found))}  {law}, {n} rows, {d} features  ({', '.join(parts)})"


# -- pairs in which something changed -------------------------------------------------------------


def mean(rows, rng):
    rows[:, 3] += 0.1 * rows[:, 3].std()


def spread(rows, rng):
    rows[:, 3] = rows[:, 3].mean() + 1.1 * (rows[:, 3] - rows[:, 3].mean())


def correlation(rows, rng):
    """A correlation of 0.1 with column 2; the law of column 3 stays where it is normal."""
    a, b = ((rows[:, j] - rows[:, j].mean()) / rows[:, j].std() for j in (2, 3))
    center, unit = rows[:, 3].mean(), rows[:, 3].std()
    rows[:, 3] = center + unit * (0.1 * a + np.sqrt(1 - 0.01) * b)


def kurtosis(rows, rng):
    """Every twentieth value is 2.5 times as far from the mean; the spread stays."""
    far = np.where(rng.random(len(rows)) < 0.05, 2.5, 1.0)
    center = rows[:, 3].mean()
    rows[:, 3] = center + (rows[:, 3] - center) * far / np.sqrt((far**2).mean())


def level(table, rng):
    """3 % of the rows change to the second level of the column of categories."""
    moved = rng.random(len(table["kind 3"])) < 0.03 / 0.5 * (table["kind 3"] == "a")
    table["kind 3"] = np.where(moved, "b", table["kind 3"])


CHANGES = {f.__name__: f for f in (mean, spread, correlation, kurtosis, level)}
NAMED = {"mean": "mean", "spread": "spread", "correlation": "correlation", "kurtosis": "kurtosis",
         "level": "share"}  # fmt: skip


def power_case(asked):
    """One pair whose column 3 changes: law, whether it was named, and what else was."""
    seed, name, n, d, change, options = asked
    rng = np.random.default_rng(seed)
    known = [x for x in USUAL if x != "table"]
    name = "table" if change == "level" else name or known[rng.integers(len(known))]
    n, d = n or 20_000, d or 10
    first, second = (LAWS[name](n, d, rng) for _ in range(2))
    CHANGES[change](second, rng)
    before = summary_of(first, **options)
    found = mm.compare(before, summary_of(second, before, **options))
    label = "kind 3" if change == "level" else "3"
    hits = [c for c in found.named() if c.what == NAMED[change] and label in (c.column, c.other)]
    others = {(c.what, c.column) for c in found.named() if c not in hits}
    return seed, name, n, d, bool(hits), sorted(others)


def power(arguments):
    asked = [
        (seed, arguments.law, arguments.rows, arguments.features, arguments.change)
        for seed in range(arguments.first, arguments.first + arguments.cases)
    ]
    lines = list(run(power_case, asked, arguments))
    print(f"\n{arguments.change} named: {share(sum(line[4] for line in lines), len(lines))}")
    print(f"others named: {share(sum(bool(line[5]) for line in lines), len(lines))}")


# -- the command --------------------------------------------------------------------------------


def share(hits, n):
    rate = hits / n
    return f"{100 * rate:5.1f} % ± {100 * np.sqrt(max(rate, 0.5 / n) * (1 - rate) / n):.1f} of {n}"


def run(case, asked, arguments, quiet=False):
    options = {"order": arguments.order} if arguments.order else {}
    with multiprocessing.Pool(arguments.processes) as pool:
        for line in pool.imap(case, [(*one, options) for one in asked], chunksize=4):
            if not quiet:
                print(*line[:6], flush=True)
            yield line


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["null", "cells", "unequal", "power"])
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--law", choices=list(LAWS))
    parser.add_argument("--rows", type=lambda text: int(float(text)))
    parser.add_argument("--other-rows", type=lambda text: int(float(text)))
    parser.add_argument("--features", type=int)
    parser.add_argument("--order", type=int)
    parser.add_argument("--change", choices=list(CHANGES), default="mean")
    arguments = parser.parse_args()
    if arguments.what == "unequal":
        arguments.rows, arguments.other_rows = arguments.rows or 1000, arguments.other_rows or 10**5
    {"power": power, "cells": cells}.get(arguments.what, null)(arguments)


if __name__ == "__main__":
    main()

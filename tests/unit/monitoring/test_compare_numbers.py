"""Every number of a comparison against the rows, by other formulas."""

import itertools

import numpy as np
import pytest
from scipy import optimize, stats

import momentmix as mm
from momentmix.monitoring.compared.significance import holm, together


def skewed(n, seed, d=4):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d)) + rng.standard_normal((n, 1))
    rows[:, 0] = np.exp(0.5 * rows[:, 0])
    return 3.0 + 2.0 * rows


# -- columns ------------------------------------------------------------------------------------


def larger_p(change, x, y):
    """p-value of a difference of means: the larger of Student's and Welch's."""
    n, m = len(x), len(y)
    v, w = x.var(ddof=1), y.var(ddof=1)
    both = ((n - 1) * v + (m - 1) * w) / (n + m - 2) * (1 / n + 1 / m)
    freedom = (v / n + w / m) ** 2 / ((v / n) ** 2 / (n - 1) + (w / m) ** 2 / (m - 1))
    return max(
        2 * stats.t.sf(abs(change) / np.sqrt(both), n + m - 2),
        2 * stats.t.sf(abs(change) / np.sqrt(v / n + w / m), freedom),
    )


@pytest.fixture(scope="module")
def pair():
    a, b = skewed(400, 1), 1.1 * skewed(250, 2)
    found = mm.compare(mm.summarize(a), mm.summarize(b))
    centered = a - a.mean(axis=0), b - b.mean(axis=0)
    spread = np.sqrt(sum((u**2).sum(axis=0) for u in centered) / 650)
    return a, b, [u / spread for u in centered], spread, found


def test_means(pair):
    a, b, (x, y), spread, found = pair
    for j, column in enumerate(found.columns):
        mean = column.change("mean")
        assert mean.first == pytest.approx(a[:, j].mean(), rel=1e-12)
        assert mean.second == pytest.approx(b[:, j].mean(), rel=1e-12)
        effect = (b[:, j].mean() - a[:, j].mean()) / spread[j]
        assert mean.effect == pytest.approx(effect, rel=1e-9)
        error = np.sqrt(x[:, j].var() / 400 + y[:, j].var() / 250)
        assert mean.high - mean.low == pytest.approx(2 * stats.norm.ppf(0.975) * error, rel=1e-9)
        p = stats.ttest_ind(a[:, j], b[:, j]).pvalue  # spreads differ by no more than chance
        assert mean.p_value == pytest.approx(p, rel=1e-8)


def test_spreads(pair):
    a, b, (x, y), _, found = pair
    for j, column in enumerate(found.columns):
        spread = column.change("spread")
        assert spread.effect == pytest.approx(np.log(b[:, j].std() / a[:, j].std()), rel=1e-9)
        parts = [stats.kurtosis(z[:, j], fisher=False) - 1 for z in (x, y)]
        error = np.sqrt(parts[0] / 1600 + parts[1] / 1000)
        assert spread.high - spread.effect == pytest.approx(1.959963984540054 * error, rel=1e-9)
        change = y[:, j].var() - x[:, j].var()
        assert spread.p_value == pytest.approx(
            larger_p(change, x[:, j] ** 2, y[:, j] ** 2), rel=1e-8
        )


def test_shapes(pair):
    a, b, (x, y), _, found = pair
    for j, column in enumerate(found.columns):
        skew, kurtosis = column.change("skewness"), column.change("kurtosis")
        assert skew.first == pytest.approx(stats.skew(a[:, j]), rel=1e-9)
        assert kurtosis.second == pytest.approx(stats.kurtosis(b[:, j]), rel=1e-9)
        own, score = [], []
        third = (400 * (x[:, j] ** 3).mean() + 250 * (y[:, j] ** 3).mean()) / 650
        for z in (x[:, j], y[:, j]):
            s, g = z.std(), stats.skew(z)
            own.append((z**3 - 1.5 * g * s * z**2 - 3 * s**2 * z) / s**3)
            score.append(z**3 - 1.5 * third * z**2 - 3 * z.var() * z)
        p = max(larger_p(skew.effect, *own), larger_p(score[1].mean() - score[0].mean(), *score))
        assert skew.p_value == pytest.approx(p, rel=1e-7)


def test_kurtosis_has_an_upper_bound_of_its_noise(pair):
    """By the eighth moment, which is at most that of rows at 0, s and the largest distance."""
    _, _, (x, y), _, found = pair
    for j, column in enumerate(found.columns):
        change, widths, own = column.change("kurtosis"), [], []
        for z in (x[:, j] / x[:, j].std(), y[:, j] / y[:, j].std()):
            psi = z**4 - 2 * (z**4).mean() * z**2 - 4 * (z**3).mean() * z
            grid = np.linspace(0, (z**2).max(), 1001)  # E t⁴ of t = z² by linear programming
            most = linear_bound(grid, [(z ** (2 * k)).mean() for k in range(4)])
            own.append(psi)
            widths.append(psi.var() + most - (z**8).mean())
        error = np.sqrt(widths[0] / 400 + widths[1] / 250)
        assert change.high - change.effect == pytest.approx(1.959963984540054 * error, rel=1e-3)
        assert change.p_value >= larger_p(change.effect, *own)


def linear_bound(grid, moments):
    """The largest mean of t⁴ on a grid, given those of 1, t, t² and t³."""
    top = grid[-1]
    unit = grid / top
    found = optimize.linprog(
        -(unit**4), A_eq=np.stack([unit**k for k in range(4)]),
        b_eq=[m / top**k for k, m in enumerate(moments)], method="highs",
    )  # fmt: skip
    return -found.fun * top**4


def halfway(a, b):
    """Both in common deviations about the middle of their means."""
    n = len(a) + len(b)
    spread = np.sqrt(sum(((z - z.mean(axis=0)) ** 2).sum(axis=0) for z in (a, b)) / n)
    return [(z - (a.mean(axis=0) + b.mean(axis=0)) / 2) / spread for z in (a, b)]


def test_correlations(pair):
    a, b, (x, y), _, found = pair
    assert [(c.column, c.other) for c in found.pairs] == list(itertools.combinations("0123", 2))
    for change, (i, j) in zip(found.pairs, itertools.combinations(range(4), 2), strict=True):
        r = [np.corrcoef(z.T)[i, j] for z in (a, b)]
        assert (change.first, change.second) == pytest.approx(r, rel=1e-9)
        rho = ((x[:, i] * x[:, j]).sum() + (y[:, i] * y[:, j]).sum()) / 650
        own = []
        for z, rows in zip(r, (a, b), strict=True):
            u, v = ((rows[:, k] - rows[:, k].mean()) / rows[:, k].std() for k in (i, j))
            own.append(u * v - z / 2 * (u**2 + v**2))
        score = [w[:, i] * w[:, j] - rho / 2 * (w[:, i] ** 2 + w[:, j] ** 2) for w in halfway(a, b)]
        error = np.sqrt(own[0].var() / 400 + own[1].var() / 250)
        assert change.high - change.effect == pytest.approx(1.959963984540054 * error, rel=1e-8)
        p = max(larger_p(change.effect, *own), larger_p(score[1].mean() - score[0].mean(), *score))
        assert change.p_value == pytest.approx(p, rel=1e-7)


def hotelling(x, y, change):
    """p-value of Hotelling's test with one covariance, as textbooks have it."""
    n, m, p = len(x), len(y), x.shape[1]
    both = ((n - 1) * np.cov(x.T) + (m - 1) * np.cov(y.T)) / (n + m - 2)
    square = change @ np.linalg.solve(both, change) * n * m / (n + m)
    return stats.f.sf(square * (n + m - p - 1) / (p * (n + m - 2)), p, n + m - p - 1)


def test_all_together(pair):
    """Both summaries have about one law, so that their noise is taken together."""
    a, b, (x, y), spread, found = pair
    change = (b.mean(axis=0) - a.mean(axis=0)) / spread
    assert found.tests["means"].p_value == pytest.approx(hotelling(x, y, change), rel=1e-8)
    i, j = np.triu_indices(4, 1)
    second = [np.hstack([z**2, z[:, i] * z[:, j]]) for z in halfway(a, b)]  # the same directions
    change = second[1].mean(axis=0) - second[0].mean(axis=0)
    test = found.tests["second moments"]
    assert test.n_tested == 10
    assert test.p_value == pytest.approx(hotelling(*second, change), rel=1e-6)
    assert test.degrees == (10, 650 - 10 - 1)


def test_directions_of_rare_values():
    """Pairs of rare 0 and 1 that never meet add nothing to test; they made p 1e-15."""
    rng = np.random.default_rng([0, 15, 1000, 0])
    shares = 0.01 + 0.02 * (np.arange(15) % 5)
    a, b = ((rng.random((1000, 15)) < shares).astype(float) for _ in range(2))
    test = mm.compare(mm.summarize(a), mm.summarize(b)).tests["second moments"]
    i, j = np.triu_indices(15)
    products = [z[:, i] * z[:, j] for z in halfway(a, b)]
    stacked = np.concatenate([z - z.mean(axis=0) for z in products])
    assert test.n_tested == np.linalg.matrix_rank(stacked) < 110
    values, vectors = np.linalg.eigh(np.cov(stacked.T))
    kept = vectors[:, values > 1e-10 * values[-1]]
    change = products[1].mean(axis=0) - products[0].mean(axis=0)
    own = [z @ kept for z in products]
    assert test.p_value == pytest.approx(hotelling(*own, change @ kept), rel=1e-6)


def test_noise_of_each_where_it_is_more():
    """With other spreads, Hotelling's test has the degrees of freedom of Krishnamoorthy and Yu."""
    rng = np.random.default_rng(0)
    x, y = 20 * rng.standard_normal((50, 2)), rng.standard_normal((5000, 2))
    test = mm.compare(mm.summarize(x), mm.summarize(y)).tests["means"]
    assert test.degrees[1] == pytest.approx(48, abs=1)  # those of 50 rows
    assert test.p_value > 1e-3
    assert (
        hotelling(x, y, y.mean(axis=0) - x.mean(axis=0)) < 1e-6
    )  # with one covariance the test errs


def test_corrections():
    p = np.array([0.01, np.nan, 0.04, 0.03])
    np.testing.assert_allclose(holm(p), [0.03, np.nan, 0.06, 0.06])
    assert together([0.02, 0.9], [1, 1]) == pytest.approx(0.04)
    assert together([0.03, 0.03], [3, 1]) == pytest.approx(0.03)
    assert together([0.02, 0.9], [3, 1]) == pytest.approx(0.02 * 4 / 3)


# -- tables -------------------------------------------------------------------------------------


def table(n, seed):
    """Numbers with gaps that depend on the other column, a yes/no column and categories."""
    rng = np.random.default_rng(seed)
    age, size = rng.multivariate_normal([40, 5], [[100, 12], [12, 4]], n).T
    return {
        "age": np.where(rng.random(n) < 1 / (1 + np.exp(6 - size)), np.nan, age),
        "size": np.where(rng.random(n) < 0.2, np.nan, size),
        "member": rng.random(n) < 1 / (1 + np.exp(4 - 0.1 * age)),
        "plan": rng.choice(["basic", "gold", "plus"], n, p=[0.6, 0.3, 0.1]),
    }


@pytest.fixture(scope="module")
def tables():
    a, b = table(500, 3), table(300, 4)
    first = mm.summarize(a, missing="model")
    second = mm.summarize(b, missing="model", families=first.schema)
    return a, b, mm.compare(first, second)


def available(rows):
    """Correlation of the covariance where both are seen and the spreads where each is."""
    x, y = rows.T
    u, v = x - np.nanmean(x), y - np.nanmean(y)
    return np.nanmean(u * v) / np.sqrt(np.nanmean(u * u) * np.nanmean(v * v))


def jackknife(statistic, rows):
    n = len(rows)
    values = np.array([statistic(np.delete(rows, i, axis=0)) for i in range(n)])
    return np.sqrt((n - 1) * values.var())


@pytest.mark.parametrize("others", [("age", "size"), ("age", "member"), ("size", "member")])
def test_pairs_with_gaps(tables, others):
    a, b, found = tables
    name = {"member": "member=True"}
    wanted = tuple(name.get(x, x) for x in others)
    change = next(c for c in found.pairs if (c.column, c.other) == wanted)
    sides = [np.stack([side[x] for x in others], axis=1).astype(float) for side in (a, b)]
    assert change.first == pytest.approx(available(sides[0]), rel=1e-9)
    assert change.second == pytest.approx(available(sides[1]), rel=1e-9)
    error = np.hypot(*(jackknife(available, side) for side in sides))
    assert (change.high - change.low) / (2 * 1.96) == pytest.approx(error, rel=0.02)


def test_columns_with_gaps(tables):
    a, b, found = tables
    for name, column in zip(("age", "size"), found.columns[:2], strict=True):
        x, y = (side[name][~np.isnan(side[name])] for side in (a, b))
        mean, spread = column.change("mean"), column.change("spread")
        assert (mean.first, mean.second) == pytest.approx((x.mean(), y.mean()), rel=1e-12)
        assert (spread.first, spread.second) == pytest.approx((x.std(), y.std()), rel=1e-9)
        p = stats.ttest_ind(x, y).pvalue
        assert mean.p_value == pytest.approx(p, rel=1e-6)
        assert column.change("skewness").second == pytest.approx(stats.skew(y), rel=1e-7)
        gone = column.change("missing")
        assert gone.first == pytest.approx(1 - len(x) / 500, rel=1e-12)


def test_shares(tables):
    a, b, found = tables
    member, plan = found.columns[2:]
    assert [c.level for c in member.changes] == [True]
    assert [c.level for c in plan.changes] == ["basic", "gold", "plus"]
    for change in plan.changes:
        x, y = ((side["plan"] == change.level).astype(float) for side in (a, b))
        assert (change.first, change.second) == pytest.approx((x.mean(), y.mean()), rel=1e-9)
        assert change.p_value == pytest.approx(larger_p(y.mean() - x.mean(), x, y), rel=1e-7)


def test_few_rows_of_a_level_are_counted_exactly():
    x, y = np.arange(1000) < 1, np.arange(1200) < 9
    found = mm.compare(mm.summarize({"rare": x}), mm.summarize({"rare": y}))
    expected = stats.fisher_exact([[1, 999], [9, 1191]]).pvalue
    assert found.columns[0].changes[0].p_value == pytest.approx(expected, rel=1e-9)


def test_weights_are_counted():
    rows = skewed(300, 5)
    weights = np.random.default_rng(0).integers(1, 4, 300)
    alike = mm.summarize(rows, sample_weight=np.full(300, 7.0))
    other = mm.summarize(skewed(300, 6), sample_weight=weights)
    found, plain = mm.compare(alike, other), mm.compare(mm.summarize(rows), other)
    assert found.p_value == pytest.approx(plain.p_value, rel=1e-9)
    n = weights.sum() ** 2 / (weights**2).sum()
    mean = found.columns[1].change("mean")
    x, y = rows[:, 1], np.repeat(skewed(300, 6)[:, 1], weights)
    spread = np.sqrt((300 * x.var() + n * y.var()) / (300 + n))
    error = np.sqrt(x.var() / 300 + y.var() / n) / spread
    assert (mean.high - mean.low) / 2 == pytest.approx(1.959963984540054 * error, rel=1e-9)

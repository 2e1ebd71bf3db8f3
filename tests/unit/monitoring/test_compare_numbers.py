"""Every number of a comparison against the rows, by other formulas."""

import numpy as np
import pytest
from scipy import stats

import momentmix as mm
from momentmix.monitoring.compared.significance import holm


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


def test_corrections():
    p = np.array([0.01, np.nan, 0.04, 0.03])
    np.testing.assert_allclose(holm(p), [0.03, np.nan, 0.06, 0.06])


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


def test_columns_with_gaps(tables):
    a, b, found = tables
    for name, column in zip(("age", "size"), found.columns[:2], strict=True):
        x, y = (side[name][~np.isnan(side[name])] for side in (a, b))
        mean, spread = column.change("mean"), column.change("spread")
        assert (mean.first, mean.second) == pytest.approx((x.mean(), y.mean()), rel=1e-12)
        assert (spread.first, spread.second) == pytest.approx((x.std(), y.std()), rel=1e-9)
        p = stats.ttest_ind(x, y).pvalue
        assert mean.p_value == pytest.approx(p, rel=1e-6)
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

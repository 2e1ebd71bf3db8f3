"""`compare`: its numbers are SciPy's, its false alarms are as many as the level says."""

import json
from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import momentmix as mm
from momentmix.errors import InputTypeError, SummaryFileError
from momentmix.groups.compare import holm

N = 1500


def normal(seed, n=N, d=4):
    return np.random.default_rng(seed).standard_normal((n, d))


def compare(x, y, order=None, **options):
    return mm.compare(mm.summarize(x, order), mm.summarize(y, order), **options)


def named(found):
    return [(c.what, c.column) for c in found.named]


# -- numbers ------------------------------------------------------------------------------------


def table(n, seed):
    """Numbers with gaps that depend on another column, a yes/no column and categories."""
    rng = np.random.default_rng(seed)
    age, size = rng.multivariate_normal([40, 5], [[100, 12], [12, 4]], n).T
    return {
        "age": np.where(rng.random(n) < 1 / (1 + np.exp(6 - size)), np.nan, age),
        "size": np.where(rng.random(n) < 0.2, np.nan, size),
        "member": rng.random(n) < 1 / (1 + np.exp(4 - 0.1 * age)),
        "plan": rng.choice(["basic", "gold", "plus"], n, p=[0.6, 0.3, 0.1]),
    }


def pair(n=400, m=400):
    tables = table(n, 3), table(m, 4)
    first = mm.summarize(tables[0], missing="model")
    second = mm.summarize(tables[1], missing="model", families=first.schema)
    return *tables, mm.compare(first, second)


def test_means_are_those_of_welch():
    a, b, found = pair()  # of equal size: no correction for skewness
    for change in found.changes:
        if change.what != "mean":
            continue
        x, y = (side[change.column][~np.isnan(side[change.column])] for side in (a, b))
        assert (change.first, change.second) == pytest.approx((x.mean(), y.mean()), rel=1e-12)
        spread = np.sqrt((x.var() * len(x) + y.var() * len(y)) / (len(x) + len(y)))
        assert change.effect == pytest.approx((y.mean() - x.mean()) / spread, rel=1e-9)
        noise = np.sqrt(x.var() / (len(x) - 1) + y.var() / (len(y) - 1)) / spread
        assert change.high - change.low == pytest.approx(2 * 1.959963984540054 * noise, rel=1e-9)
    x, y = normal(1), 1.3 * normal(2) + 0.03
    for change, p in zip(
        compare(x, y).changes, stats.ttest_ind(x, y, equal_var=False).pvalue, strict=True
    ):
        assert change.p_value == pytest.approx(p, rel=1e-9)


def test_shares_are_those_of_two_proportions():
    a, b, found = pair(500, 300)
    assert [c.level for c in found.changes if c.column == "member"] == [True]
    assert [c.level for c in found.changes if c.column == "plan"] == ["basic", "gold", "plus"]
    for change in found.changes:
        if change.what != "share":
            continue
        x, y = ((side[change.column] == change.level).astype(float) for side in (a, b))
        assert (change.first, change.second) == pytest.approx((x.mean(), y.mean()), rel=1e-9)
        both = np.concatenate([x, y])
        z = (y.mean() - x.mean()) / np.sqrt(both.var(ddof=1) * (1 / 500 + 1 / 300))
        assert change.p_value == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-7)
        effect = 2 * np.arcsin(np.sqrt(y.mean())) - 2 * np.arcsin(np.sqrt(x.mean()))
        assert change.effect == pytest.approx(effect, rel=1e-7)
    gone = next(c for c in found.changes if (c.what, c.column) == ("missing", "size"))
    assert gone.first == pytest.approx(np.isnan(a["size"]).mean(), rel=1e-12)


@pytest.mark.parametrize(("k", "m"), [(1, 9), (0, 5), (7, 2), (3, 3)])
def test_few_rows_of_a_level_are_counted_exactly(k, m):
    x, y = np.arange(100) < k, np.arange(120) < m
    (change,) = compare({"rare": x}, {"rare": y}).changes
    ways = [
        Fraction(comb(100, i) * comb(120, k + m - i), comb(220, k + m)) for i in range(k + m + 1)
    ]
    expected = sum(w for w in ways if w < ways[k]) + sum(w for w in ways if w == ways[k]) / 2
    assert change.p_value == pytest.approx(float(expected), rel=1e-9)


def test_corrections():
    np.testing.assert_allclose(
        holm(np.array([0.01, np.nan, 0.04, 0.03])), [0.03, np.nan, 0.06, 0.06]
    )


def test_weights_count_as_the_rows_that_they_are_worth():
    rows, weights = normal(5, 300), np.random.default_rng(0).integers(1, 4, 300)
    alike = mm.summarize(rows, sample_weight=np.full(300, 7.0))
    other = mm.summarize(normal(6, 300), sample_weight=weights)
    found, plain = mm.compare(alike, other), mm.compare(mm.summarize(rows), other)
    assert found.p_value == pytest.approx(plain.p_value, rel=1e-9)
    n = weights.sum() ** 2 / (weights**2).sum()
    x, y = rows[:, 1], np.repeat(normal(6, 300)[:, 1], weights)
    spread = np.sqrt((300 * x.var() + n * y.var()) / (300 + n))
    error = np.sqrt(x.var() / 299 + y.var() / (n - 1)) / spread
    half = (found.changes[1].high - found.changes[1].low) / 2
    assert half == pytest.approx(1.959963984540054 * error, rel=1e-9)


# -- levels: 600 columns are 600 tests, none of them corrected ----------------------------------

DISTRIBUTIONS = {
    "normal": lambda rng, shape, side: rng.normal(size=shape),
    "unequal variances": lambda rng, shape, side: rng.normal(size=shape) * (1 + 2 * side),
    "lognormal": lambda rng, shape, side: rng.lognormal(size=shape),
    "t3": lambda rng, shape, side: rng.standard_t(3, size=shape),
    "counts": lambda rng, shape, side: rng.poisson(0.2, size=shape),
    "rare yes": lambda rng, shape, side: rng.random(shape) < 0.03,
}


@pytest.mark.parametrize("sizes", [(300, 300), (150, 1500)])
@pytest.mark.parametrize("kind", DISTRIBUTIONS)
def test_false_alarms_are_from_3_to_7_percent(kind, sizes):
    rng, summaries, columns = np.random.default_rng(0), [], 600
    for side, n in enumerate(sizes):
        rows = DISTRIBUTIONS[kind](rng, (n, columns), side)
        if rows.dtype == bool:
            rows = {f"x{j}": rows[:, j] for j in range(columns)}
        summaries.append(mm.summarize(rows, 1))
    changes = mm.compare(*summaries).changes
    p_values = np.array([c.p_value for c in changes])
    error = np.sqrt(0.05 * 0.95 / columns)
    assert 0.03 - 3 * error < (p_values < 0.05).mean() < 0.07 + 3 * error
    assert [c.corrected for c in changes] == holm(p_values).tolist()


@pytest.mark.parametrize("effect", [0.1, -0.1])
def test_a_small_shift_is_named(effect):
    x, y = normal(0, 20_000, 10), normal(100, 20_000, 10)
    y[:, 3] += effect
    found = compare(x, y)
    assert named(found) == [("mean", "3")]
    assert compare(x, y, least_effect=0.05).differs
    assert not compare(x, y, least_effect=0.2).differs
    assert np.sign(found.named[0].effect) == np.sign(effect)


def test_intervals_hold_the_effect():
    changes = [compare(normal(i, 200, 50), normal(i + 500, 150, 50) + 0.1, order=1).changes
               for i in range(10)]  # fmt: skip
    held = np.mean([c.low <= 0.1 <= c.high for each in changes for c in each])
    assert held == pytest.approx(0.95, abs=4 * np.sqrt(0.05 * 0.95 / 500))


# -- what cannot be tested ----------------------------------------------------------------------


def test_the_same_rows_are_recognized(tmp_path):
    summary = mm.summarize(normal(5))
    summary.save(tmp_path / "a.mms")
    found = mm.compare(summary, tmp_path / "a.mms")
    assert (found.p_value, found.n_rows) == (1, (N, N))
    assert "in both summaries" in found.notes[0]


def test_constant_columns():
    x, y = normal(1), normal(2)
    x[:, 2] = y[:, 2] = 0.1  # whose moments are rounded
    assert compare(x, y).changes[2].p_value == 1
    y[:, 2] = 7
    assert named(compare(x, y)) == [("mean", "2")]
    assert json.dumps(compare(x, y).to_dict(), allow_nan=False)
    assert compare(x, y).changes[2].effect == np.inf
    alone = compare(x[:, :2], y[:, :2])
    assert compare(x, y).changes[0].p_value == alone.changes[0].p_value
    assert not compare(1e-318 * normal(1), 1e-318 * normal(2), level=1e-6).differs
    assert np.isnan(compare(1e200 * normal(1), 1e200 * normal(2)).p_value)


def test_one_row_far_away_hides_its_column_only():
    x, y = normal(1), normal(2)
    y[:, 2] += 0.3
    y[7, 1] = 1e6
    assert named(compare(x, y)) == [("mean", "2")]


def test_columns_that_are_never_seen():
    gone = {"a": np.full(N, np.nan), "b": normal(1)[:, 0]}
    some = {"a": np.where(normal(2)[:, 0] > 1, np.nan, normal(3)[:, 0]), "b": normal(4)[:, 0]}
    first = mm.summarize(some, missing="model")
    found = mm.compare(first, mm.summarize(gone, missing="model", families=first.schema))
    assert named(found) == [("missing", "a")]
    assert np.isnan(found.changes[0].p_value)
    full = mm.compare(mm.summarize({"a": normal(6)[:, 0], "b": gone["b"]}), first)
    assert ("missing", "a") in named(full)


@pytest.mark.parametrize("n", [1, 3, 10, 30])
def test_few_rows(n):
    found = compare(normal(1, n), normal(2, n), level=0.01)
    assert not found.differs
    assert np.isnan(found.changes[0].low) == (n < 8)
    assert ("nothing is tested" in str(found)) == (n < 8)
    assert str(found).startswith("Nothing can be tested between") == (n < 8)


# -- errors -------------------------------------------------------------------------------------


def frame(**columns):
    return {name: normal(seed)[:, 0] for name, seed in columns.items()}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (lambda: mm.summarize(frame(a=1, c=2)), "only one of them has 'b', 'c'"),
        (lambda: mm.summarize({"a": normal(1)[:, 0] > 0, "b": normal(2)[:, 0]}), "one family"),
        (lambda: mm.summarize(normal(1, d=3)), "tables must have the same columns"),
        (lambda: mm.MomentSummary(2, 2), "b is a summary without rows"),
        (lambda: mm.summarize_by(pd.DataFrame(frame(a=1)).assign(g=1), by=["g"]),
         r"got SummaryCube\. .*, total\(\) of a cube"),
        (lambda: normal(1), r"b must be a MomentSummary or the path of one; got ndarray"),
        (lambda: mm.fit(normal(1, 200, 2), 1), r"got FitResult\. .* track\(model, cube\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_refused(second, message):
    with pytest.raises((mm.InputError, InputTypeError), match=message):
        mm.compare(mm.summarize(frame(a=1, b=2)), second())


def test_files_that_are_no_summaries_have_their_cure(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SummaryFileError, match=r"make one of rows: summarize\(path\)"):
        mm.compare(tmp_path / "a.csv", mm.summarize(normal(1)))


@pytest.mark.parametrize(("level", "effect"), [(0, 0), (1.5, 0), (np.nan, 0), (0.05, -1)])
def test_levels_and_effects_are_checked(level, effect):
    with pytest.raises(mm.InputError, match="must be"):
        compare(normal(1), normal(2), level=level, least_effect=effect)


# -- words --------------------------------------------------------------------------------------


def test_a_comparison_is_said_and_shown():
    rng = np.random.default_rng(0)

    def rows(center, red, gaps):
        income = np.exp(rng.normal(np.log(center), 0.5, 4000))
        color = rng.choice(["blue", "red"], 4000, p=[1 - red, red])
        age = np.where(rng.random(4000) < gaps, np.nan, rng.normal(40, 10, 4000))
        return {"income": income, "\x1b": rng.normal(size=4000), "color": color, "age": age}

    first = mm.summarize(rows(50, 0.12, 0.05), missing="model", families={"income": "log"})
    second = mm.summarize(rows(40, 0.3, 0.1), missing="model", families=first.schema)
    found = mm.compare(first, second)
    said = found.sentences
    assert said[0].startswith("the share of color = red rose from ")
    assert said[1].startswith("income: the typical value fell from ")
    assert said[1].endswith(" standard deviations)")
    assert said[2].startswith("the share of missing cells of age rose from ")
    assert mm.compare(first, second, least_effect=0.44).sentences == said[:1]
    assert mm.compare(first, second, level=1e-300).sentences == []
    lines = str(found).split("\n")
    assert lines[0] == (
        "4,000 and 4,000 rows differ: 3 changes named (level 0.05, least p-value < 0.0001)."
    )
    assert lines[1:4] == [f"- {text}" for text in said]
    assert [line.split()[0] for line in lines[6:8]] == ["color=red", "log"]
    assert "\x1b" not in str(found)
    assert repr(found).split("\n")[1:] == said
    document = found.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert len(found.to_frame()) == len(found.changes) == 5

"""`compare`: decisions, cases without variation, errors, and how a comparison is shown."""

import json

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import SummaryFileError

N = 1500


def rows_of(seed, n=N, d=4):
    return np.random.default_rng(seed).standard_normal((n, d))


def compare(x, y, **options):
    return mm.compare(mm.summarize(x, **options), mm.summarize(y, **options))


def named(found):
    return [(c.what, c.column) for c in found.named()]


# -- decisions ----------------------------------------------------------------------------------


def test_false_alarms_are_as_often_as_the_level_says():
    """Of skewed columns, to 3.5 binomial standard errors."""
    alarms = 0
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        x, y = (np.exp(rng.standard_normal((1000, 3))) for _ in range(2))
        alarms += compare(x, y).differs(0.2)
    assert 0.2 - 3.5 * np.sqrt(0.16 / 60) < alarms / 60 < 0.2 + 3.5 * np.sqrt(0.16 / 60)


def test_a_small_shift_is_named():
    x, y = rows_of(0, 20_000, 10), rows_of(100, 20_000, 10)
    y[:, 3] += 0.1
    found = compare(x, y)
    assert named(found) == [("mean", "3")]
    assert found.differs(least_effect=0.05)
    assert not found.differs(least_effect=0.2)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda y: y * [1, 1, 1.3, 1], ("spread", "2")),
        (lambda y: y + np.array([0, 0.2, 0, 0]), ("mean", "1")),
    ],
)  # fmt: skip
def test_what_changed_is_named(change, expected):
    found = compare(rows_of(1, 5000), change(rows_of(2, 5000)))
    assert named(found) == [expected]
    assert found.differs()


def test_the_same_rows_are_recognized(tmp_path):
    summary = mm.summarize(rows_of(5))
    summary.save(tmp_path / "a.mms")
    cases = {
        "in both summaries": tmp_path / "a.mms",
        "have the same moments, as if they were of the same rows": mm.summarize(
            rows_of(5), shard_id="b"
        ),
    }
    for note, other in cases.items():
        found = mm.compare(summary, other)
        assert (found.p_value, found.n_rows) == (1, (N, N))
        assert note in found.notes[0]


def test_one_row_far_away_hides_its_column_only():
    x, y = rows_of(1), rows_of(2)
    y[:, 2] += 0.3
    y[7, 1] = 1e6
    assert named(compare(x, y)) == [("mean", "2")]


# -- columns that do not vary -------------------------------------------------------------------


def test_constant_columns():
    x, y = rows_of(1), rows_of(2)
    plain = compare(np.delete(x, 2, 1), np.delete(y, 2, 1))
    x[:, 2] = y[:, 2] = 5
    assert compare(x, y).p_value == pytest.approx(plain.p_value, rel=1e-9)
    y[:, 2] = 7
    assert named(compare(x, y)) == [("mean", "2")]
    assert compare(x, y).p_value == 0
    x[:, 2] = y[:, 2] = 0.1  # whose moments are rounded
    assert compare(x, y).notes == ()


def test_a_constant_in_one_table_only():
    x, y = rows_of(1), rows_of(2)
    y[:, 2] = 5
    for found, ratio, effect in ((compare(x, y), "×0", -np.inf), (compare(y, x), "×∞", np.inf)):
        assert set(named(found)) == {("mean", "2"), ("spread", "2")}
        assert found.columns[2].change("spread").effect == effect
        assert any(ratio in line.split() for line in str(found).splitlines())
        assert json.dumps(found.to_dict(), allow_nan=False)


def test_nothing_that_varies():
    found = compare(np.ones((50, 3)), np.ones((50, 3)))
    assert str(found).startswith("Nothing can be tested between 50 and 50 rows.")
    assert not found.differs()
    assert "not judged" in found._repr_html_()
    assert not compare(1e-318 * rows_of(1), 1e-318 * rows_of(2)).differs(1e-6)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_few_columns(d):
    assert not compare(rows_of(10, d=d), rows_of(11, d=d)).differs(1e-3)
    assert compare(rows_of(10, d=d), 0.2 + rows_of(11, d=d)).differs(1e-6)


def test_columns_that_are_never_seen():
    gone = {"a": np.full(N, np.nan), "b": rows_of(1)[:, 0]}
    some = {"a": np.where(rows_of(2)[:, 0] > 1, np.nan, rows_of(3)[:, 0]), "b": rows_of(4)[:, 0]}
    first = mm.summarize(some, missing="model")
    second = mm.summarize(gone, missing="model", families=first.schema)
    found = mm.compare(first, second)
    assert named(found) == [("missing", "a")]
    assert np.isnan(found.columns[0].change("mean").p_value)


def test_gaps_in_one_table_only():
    values = {"a": rows_of(1)[:, 0], "b": rows_of(2)[:, 0], "c": rows_of(3)[:, 0]}
    values["d"] = rows_of(9)[:, 0]
    gaps = {"b": values["b"], "a": values["a"].copy(), "c": values["c"], "d": values["d"]}
    gaps["a"][:100] = np.nan
    found = mm.compare(mm.summarize(values), mm.summarize(gaps, missing="model"))
    assert named(found) == [("missing", "a")]
    assert found.columns[0].change("missing").effect == pytest.approx(100 / N)


def test_orders_may_differ():
    found = mm.compare(mm.summarize(rows_of(1), 1), mm.summarize(rows_of(2) * [1, 1.3, 1, 1], 4))
    assert named(found) == [("spread", "1")]


@pytest.mark.parametrize("n", [1, 3, 10, 30])
def test_few_rows(n):
    found = compare(rows_of(1, n), rows_of(2, n))
    assert not found.differs(0.01)
    assert np.isnan(found.columns[0].change("mean").low) == (n < 8)
    assert ("nothing is tested" in str(found)) == (n < 8)


# -- errors -------------------------------------------------------------------------------------


def frame(**columns):
    return {name: rows_of(seed)[:, 0] for name, seed in columns.items()}


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (lambda: mm.summarize(frame(a=1, c=2)), "only in the first: 'b'; only in the second: 'c'"),
        (lambda: mm.summarize({"a": rows_of(1)[:, 0] > 0, "b": rows_of(2)[:, 0]}),
         "a column must have one family"),
        (lambda: mm.summarize(rows_of(1, d=3)), "tables must have the same columns"),
        (lambda: mm.MomentSummary(2, 2), "b is a summary without rows"),
    ],
)  # fmt: skip
def test_other_columns_are_refused(second, message):
    with pytest.raises(mm.InputError, match=message):
        mm.compare(mm.summarize(frame(a=1, b=2)), second())


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: mm.summarize_by(pd.DataFrame(frame(a=1)).assign(g=1), by=["g"]),
         r"got SummaryCube\. Take all its groups, cube\.total\(\)"),
        (lambda: rows_of(1), r"b must be a MomentSummary or the path of one; got ndarray\. Make"),
        (lambda: mm.fit(rows_of(1, 200, 2), 1), r"got FitResult\. .* track\(model, cube\)"),
        (lambda: mm.fit(rows_of(1, 200, 2), 1).mixture, r"Mixture\. .* track\(model, cube\)"),
    ],
)  # fmt: skip
def test_what_else_is_given_has_its_cure(other, message):
    with pytest.raises(mm.errors.InputTypeError, match=message):
        mm.compare(mm.summarize(rows_of(1)), other())


def test_files_that_are_no_summaries_have_their_cure(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SummaryFileError, match=r"make one of rows: summarize\(path\)"):
        mm.compare(tmp_path / "a.csv", mm.summarize(rows_of(1)))


@pytest.mark.parametrize(
    ("level", "effect", "kind"),
    [(0, 0, mm.InputError), (1.5, 0, mm.InputError), (np.nan, 0, mm.InputError),
     (0.05, -1, mm.InputError), ("0.1", 0, mm.errors.InputTypeError),
     (0.05, None, mm.errors.InputTypeError)],
)  # fmt: skip
def test_levels_and_effects_are_checked(level, effect, kind):
    found = compare(rows_of(1), rows_of(2))
    for check in (found.differs, found.named):
        with pytest.raises(kind, match="must be"):
            check(level, effect)


# -- texts --------------------------------------------------------------------------------------


def test_a_comparison_is_shown():
    rng = np.random.default_rng(0)
    tables = [
        {"<b>": rng.normal(shift, 1, N), "yes": rng.random(N) < 0.3, "x": rng.normal(0, 1, N)}
        for shift in (0, 0.5)
    ]
    found = mm.compare(*(mm.summarize(table) for table in tables))
    assert repr(found).startswith("Comparison(1,500 and 1,500 rows, 3 columns, p_value=")
    lines = str(found).splitlines()
    assert lines[0] == "1,500 and 1,500 rows differ (p < 0.0001, level 0.05; 1 change named)."
    assert lines[4].split()[0] == "<b>"  # the largest effect first
    assert "yes=True" in str(found)
    html = found._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html
    document = found.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["columns"][1]["changes"][0]["level"] is True
    columns = found.to_frame()
    assert len(columns) == len(found.changes)
    assert columns["effect"].tolist() == pytest.approx([c.effect for c in found.changes])

"""Names travel from the rows to everything that a fit gives, and frames are matched by name."""

import pickle
import re
from html import unescape

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm
from momentmix import paper
from momentmix.errors import FitWarning, InputError, InputTypeError
from momentmix.fitting.record import load_fit

NAMES = ("dose", "age", "rate\n", "flow", "x 1", "depth", "0")
BACK = NAMES[::-1]


@pytest.fixture(scope="module")
def rows():
    means = np.array([np.arange(7.0), 3 - 2 * np.arange(7.0)])
    drawn = mm.Mixture.diagonal([0.4, 0.6], means, np.ones((2, 7))).sample(2000, 5)[0]
    drawn.setflags(write=False)
    return drawn


@pytest.fixture(scope="module")
def frame(rows):
    return pd.DataFrame(rows, columns=list(NAMES))


@pytest.fixture(scope="module")
def fitted(frame):
    return mm.fit(frame, 2, random_state=0)


KINDS = {
    "pandas": lambda frame: frame,
    "pandas, nullable": lambda frame: frame.convert_dtypes(),
    "pandas, float32": lambda frame: frame.astype(np.float32),
    "polars": pl.from_pandas,
    "Arrow table": pa.Table.from_pandas,
    "Arrow batch": pa.RecordBatch.from_pandas,
}
SOURCES = {
    **KINDS,
    "source": mm.open_rows,
    "summary": lambda frame: mm.summarize(frame, 4),
}


# -- from the rows to the model ---------------------------------------------------------------


@pytest.mark.parametrize("kind", SOURCES)
def test_a_fit_has_the_names_of_its_rows(kind, frame):
    result = mm.fit(SOURCES[kind](frame), 2, random_state=0)
    assert result.mixture.feature_names == NAMES
    again = pickle.loads(pickle.dumps(result))
    assert again.mixture.feature_names == again.moments.feature_names == NAMES


# -- into words, files and pictures -----------------------------------------------------------


def spoilt(rows):
    """Rows with a constant column, a copy, a far value and a correlated pair."""
    bad = np.repeat(rows, 3, axis=0) + np.random.default_rng(0).normal(0, 0.5, (6000, 7))
    bad[:, 4] = 0.8 * (bad[:, 0] - bad[:, 4]) + bad[:, 4]
    bad[:, 1] = 7.0
    bad[:, 6] = 3 - 2 * bad[:, 3]
    bad[8, 2] = 1e4
    return pd.DataFrame(bad, columns=list(NAMES))


FINDINGS = {
    "constant-column": "column 'age' holds one value",
    "duplicate-columns": "columns 'flow' and '0' are copies",
    "outlier-rows": r"row 8 \(10000 in column 'rate\\n'\)",
}
FROM_A_SUMMARY = {"outlier-influence": r"column 'rate\\n' has a value"}


def test_findings_name_the_columns(rows):
    bad = spoilt(rows)
    summary_findings = {**FINDINGS, **FROM_A_SUMMARY}
    del summary_findings["outlier-rows"]
    for data, expected in ((bad, FINDINGS), (mm.summarize(bad, 3), summary_findings)):
        certificate = mm.fit(data, 2, random_state=0).certificate
        found = {f.kind: f.text for f in certificate.findings}
        for name, text in expected.items():
            assert re.search(text, found[name])
        assert "\n'" not in str(certificate)
    with pytest.warns(FitWarning) as told:
        assert not mm.MomentGaussianMixture(2, random_state=0).fit(bad).certificate_.passed
    assert len(told) == 1  # a call
    plain = mm.fit(bad.to_numpy(), 2, random_state=0).certificate
    assert "column 1 holds one value" in str(plain)


def test_saved_models_and_their_findings_have_names(rows, frame, fitted, tmp_path):
    fitted.save(tmp_path / "m.json")
    mixture, record = load_fit(tmp_path / "m.json")
    assert mixture.feature_names == NAMES
    mm.fit(spoilt(rows), 2, random_state=0).save(tmp_path / "bad.json")
    record = load_fit(tmp_path / "bad.json")[1]
    assert "column 'age' holds one value" in str(record.certificate)
    mm.report(tmp_path / "bad.json", tmp_path / "bad.html")
    text = unescape((tmp_path / "bad.html").read_text())
    assert "Column 'age' holds one value" in text
    assert "Columns are numbered from 0" not in text


def test_the_offset_of_a_named_column_is_told(frame):
    far = frame.assign(flow=frame["flow"] + 1e6)
    with pytest.warns(UserWarning, match=r"column 3 \('flow'\) lies"):
        paper.fit(far, 2, random_state=0)


# -- frames are matched by name ---------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_models_take_frames_in_any_order(kind, frame, rows, fitted):
    mixture, other = fitted.mixture, KINDS[kind](frame[list(BACK)])
    expected = rows.astype(np.float32) if "float32" in kind else rows
    np.testing.assert_array_equal(mixture.predict(other), mixture.predict(expected))
    np.testing.assert_array_equal(mixture.log_prob(other), mixture.log_prob(expected))
    np.testing.assert_array_equal(mixture.predict_proba(other), mixture.predict_proba(expected))


@pytest.mark.parametrize("kind", ["pandas", "polars", "Arrow table"])
def test_models_refuse_other_columns(kind, frame, fitted):
    use = lambda table: fitted.mixture.log_prob(KINDS[kind](table))  # noqa: E731
    with pytest.raises(
        InputError, match=r"'age', 'x 1' are missing\. Add or rename.*'dose', 'age'"
    ):
        use(frame.drop(columns=["age", "x 1"]))
    np.testing.assert_array_equal(use(frame.assign(city="Ulm")), use(frame))  # taken by name
    with pytest.raises(InputError, match=r"'flow' is missing and 'Flow' is not.*Rename"):
        use(frame.rename(columns={"flow": "Flow"}))
    with pytest.raises(InputTypeError, match=r"column 'age'"):
        use(frame.assign(age=[[1]] * 2000 if kind == "pandas" else "old"))


def test_numbers_as_labels(rows):
    frame = pd.DataFrame(rows)
    back = frame[frame.columns[::-1]]
    plain = mm.fit(frame, 2, random_state=0).mixture
    assert plain.feature_names is None
    np.testing.assert_array_equal(plain.predict(back), plain.predict(rows))
    turned = mm.fit(back, 2, random_state=0).mixture
    assert turned.feature_names == tuple("6543210")
    np.testing.assert_array_equal(turned.predict(frame), turned.predict(rows[:, ::-1]))
    years = frame.set_axis(range(2001, 2008), axis=1)
    model = mm.fit(years, 2, random_state=0).mixture
    assert model.feature_names == tuple(map(str, range(2001, 2008)))
    np.testing.assert_array_equal(model.predict(years[years.columns[::-1]]), model.predict(rows))
    assert mm.open_rows(years).feature_names == model.feature_names
    with pytest.raises(InputError, match="'2001' is missing and 'year' is not among them"):
        model.predict(years.rename(columns={2001: "year"}))


def test_estimators_keep_the_rule_of_scikit_learn(frame):
    estimator = mm.MomentGaussianMixture(2, random_state=0).fit(frame)
    for other in (frame[list(BACK)], pl.from_pandas(frame[list(BACK)])):
        for use in (estimator.predict, estimator.partial_fit, estimator.score_samples):
            with pytest.raises(ValueError, match="feature names should match"):
                use(other)


# -- pictures and pages -----------------------------------------------------------------------


def test_pictures_match_frames_by_name(frame, rows, fitted):
    from momentmix import displays

    kept = displays.PairsDisplay.from_estimator(fitted, rows, features=["age", "0"])
    turned = displays.PairsDisplay.from_estimator(fitted, frame[list(BACK)], features=["age", "0"])
    panel = kept.axes_.flat[0]
    assert [panel.get_xlabel(), panel.get_ylabel()] == ["age", "0"]
    np.testing.assert_array_equal(kept.rows, turned.rows)
    assert displays.MeansDisplay.from_estimator(fitted).names[:3] == ["dose", "age", "rate\\n"]


# -- Dask -------------------------------------------------------------------------------------


# -- names that are no text -------------------------------------------------------------------

LONE = "\ud800"
BOTH = pd.Index([LONE, "b"], dtype=object)
NOT_TEXT = r"the name of column 0, '\\ud800', holds an unpaired surrogate"


@pytest.mark.parametrize(
    "use",
    [
        lambda rows: mm.MomentSummary(2, 2, [LONE, "b"]),
        lambda rows: mm.summarize(pd.DataFrame(rows, columns=BOTH), order=2),
        lambda rows: mm.fit(pd.DataFrame(rows, columns=BOTH), 1),
        lambda rows: mm.open_rows(pd.DataFrame(rows, columns=BOTH)),
        lambda rows: mm.MomentGaussianMixture().fit(pd.DataFrame(rows, columns=BOTH)),
        lambda rows: mm.Mixture.diagonal([1.0], [[0.0, 0.0]], [[1.0, 1.0]], [LONE, "b"]),
    ],
    ids=["summary", "summarize", "fit", "open_rows", "estimator", "mixture"],
)
def test_names_that_no_encoding_can_write_are_refused_at_the_door(use):
    with pytest.raises(InputError, match=NOT_TEXT):
        use(np.random.default_rng(0).standard_normal((50, 2)))

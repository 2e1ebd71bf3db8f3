"""The scikit-learn door: its own checks, its habits, and its bad inputs."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import momentmix as mm
from momentmix import MomentGaussianMixture
from momentmix.errors import CapacityError, FitWarning, InputTypeError

NAMES = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(5)
    return mm.DiagonalMixture([0.3, 0.7], 4 * rng.standard_normal((2, 6)), 1 + rng.random((2, 6)))


@pytest.fixture(scope="module")
def rows(truth):
    return truth.sample(3000, random_state=1)[0]


@pytest.fixture(scope="module")
def model(rows):
    return MomentGaussianMixture(2, random_state=0).fit(rows)


@pytest.mark.parametrize("n_components", [1, 2])
def test_check_estimator_has_no_failures(n_components):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(MomentGaussianMixture(n_components), on_fail=None)
    assert len(found) > 35
    assert [x["check_name"] for x in found if x["status"] == "failed"] == []
    assert [x["check_name"] for x in found if x["status"] == "xfail"] == []


def test_attributes_are_those_of_gaussian_mixture(model, truth, rows):
    assert model.weights_.shape == (2,)
    assert model.means_.shape == model.covariances_.shape == model.precisions_.shape == (2, 6)
    np.testing.assert_allclose(model.weights_, truth.weights[::-1], atol=0.03)
    np.testing.assert_allclose(model.means_, truth.means[::-1], atol=0.2)
    assert model.converged_
    assert model.n_iter_ >= 1
    assert model.certificate_.passed
    assert model.standard_errors_.means.shape == (2, 6)
    assert model.summary_.n_rows == 3000
    assert model.lower_bound_ == pytest.approx(model.score(rows), abs=1e-6)


def test_methods_agree_with_gaussian_mixture_of_the_same_parameters(model, rows):
    twin = model.to_sklearn()
    assert isinstance(twin, GaussianMixture)
    np.testing.assert_array_equal(model.predict(rows), twin.predict(rows))
    np.testing.assert_allclose(model.predict_proba(rows), twin.predict_proba(rows), atol=1e-12)
    np.testing.assert_allclose(model.score_samples(rows), twin.score_samples(rows), rtol=1e-10)
    assert model.score(rows) == pytest.approx(twin.score(rows))
    assert model.bic(rows) == pytest.approx(twin.bic(rows))
    assert model.aic(rows) == pytest.approx(twin.aic(rows))
    drawn, labels = model.sample(50)
    assert drawn.shape == (50, 6)
    assert set(labels) <= {0, 1}
    np.testing.assert_array_equal(
        MomentGaussianMixture(2, random_state=0).fit_predict(rows), model.predict(rows)
    )


@pytest.mark.parametrize("d", [1, 2, 3])
def test_any_number_of_features(d):
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(-4, 1, (300, d)), rng.normal(4, 1, (700, d))])
    fitted = MomentGaussianMixture(2, random_state=0).fit(rows)
    np.testing.assert_allclose(fitted.weights_, [0.7, 0.3], atol=0.02)
    one = MomentGaussianMixture(1).fit(rows)
    np.testing.assert_allclose(one.means_[0], rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(one.covariances_[0], rows.var(0), rtol=1e-9)


def test_partial_fit_adds_up_and_fits_when_used(rows, truth):
    fitted = MomentGaussianMixture(2, random_state=0)
    for part in np.array_split(rows, 7):
        assert "weights_" not in vars(fitted.partial_fit(part))
    assert fitted.predict(rows).shape == (3000,)
    np.testing.assert_allclose(fitted.means_, truth.means[::-1], atol=0.3)
    assert fitted.summary_.n_rows == 3000
    assert np.isnan(fitted.lower_bound_)
    before = fitted.weights_
    fitted.partial_fit(rows[:500] + 100)
    assert fitted.summary_.n_rows == 3500
    assert not np.array_equal(fitted.fit_summary().weights_, before)


def test_a_column_that_is_constant_at_first(rows):
    first = rows[:1000].copy()
    first[:, 2] = rows[0, 2]
    parts = MomentGaussianMixture(2).partial_fit(first).partial_fit(rows[1000:])
    whole = np.concatenate([first, rows[1000:]])
    np.testing.assert_allclose(parts.summary_.variance, whole.var(0), rtol=1e-12)


def test_fit_after_partial_fit_starts_again(rows):
    fitted = MomentGaussianMixture(2, random_state=0).partial_fit(rows[:100]).fit(rows[100:1100])
    assert fitted.summary_.n_rows == 1000


def test_fit_summary_and_going_on_from_it(rows, tmp_path):
    mm.summarize(pd.DataFrame(rows[:2000], columns=NAMES), order=4).save(tmp_path / "x.mms")
    summary = mm.MomentSummary.load(tmp_path / "x.mms")
    fitted = MomentGaussianMixture(2, random_state=0).fit_summary(summary)
    assert fitted.feature_names_in_.tolist() == NAMES
    assert np.isnan(fitted.lower_bound_)
    fitted.partial_fit(pd.DataFrame(rows[2000:], columns=NAMES))
    assert fitted.summary_.n_rows == 3000
    assert summary.n_rows == 2000
    assert fitted.predict(pd.DataFrame(rows, columns=NAMES)).shape == (3000,)
    with pytest.raises(InputTypeError, match="needs a MomentSummary; got ndarray"):
        fitted.fit_summary(rows)


def test_whole_weights_are_repeated_rows(rows):
    weights = np.random.default_rng(0).integers(0, 3, 1000)
    a = MomentGaussianMixture(2, random_state=0).fit(rows[:1000], sample_weight=weights)
    b = MomentGaussianMixture(2, random_state=0).fit(np.repeat(rows[:1000], weights, axis=0))
    np.testing.assert_array_equal(a.means_, b.means_)
    assert a.summary_.sum_weights == weights.sum()


def test_other_weights_go_into_moments_and_passes(rows):
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(rows))
    fitted = MomentGaussianMixture(2, refine="em", random_state=0).fit(rows, sample_weight=weights)
    assert_same_fit(fitted, mm.fit(rows, 2, random_state=0, sample_weight=weights))
    logs = fitted.score_samples(rows)
    assert fitted.lower_bound_ == pytest.approx(np.average(logs, weights=weights), rel=1e-4)
    assert fitted.summary_.sum_weights == pytest.approx(weights.sum())
    moments = MomentGaussianMixture(2, refine=None, random_state=0).fit(rows, sample_weight=weights)
    assert np.isnan(moments.lower_bound_)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_data_frames_give_feature_names(rows, library):
    frame = pd.DataFrame(rows, columns=NAMES)
    frame = {"pandas": frame, "polars": pl.from_pandas(frame),
             "arrow": pa.Table.from_pandas(frame)}[library]  # fmt: skip
    fitted = MomentGaussianMixture(2, random_state=0).fit(frame)
    assert fitted.feature_names_in_.tolist() == NAMES
    assert fitted.predict(frame).shape == (3000,)
    assert fitted.to_sklearn().feature_names_in_.tolist() == NAMES


def test_pipeline_grid_search_clone_and_params(rows):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MomentGaussianMixture(random_state=0)),
        {"momentgaussianmixture__n_components": [1, 2]},
        cv=2,
    ).fit(rows[:1000])
    assert search.best_params_ == {"momentgaussianmixture__n_components": 2}
    twin = clone(MomentGaussianMixture(3, order=4).set_params(refine=None))
    assert twin.get_params()["refine"] is None
    assert "MomentGaussianMixture" in twin._repr_html_()


def test_metadata_routing_of_weights(rows):
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        inner = MomentGaussianMixture(2, random_state=0).set_fit_request(sample_weight=True)
        line = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), inner)
        line.fit(rows[:500], sample_weight=np.ones(500))
    assert line[-1].summary_.sum_weights == 500


def test_pickle_keeps_everything(model, rows):
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict_proba(rows), model.predict_proba(rows))
    assert twin.summary_ == model.summary_
    waiting = pickle.loads(pickle.dumps(MomentGaussianMixture(2).partial_fit(rows)))
    assert waiting.fit_summary().weights_.shape == (2,)


@pytest.mark.parametrize("state", [7, np.random.RandomState(7), np.random.default_rng(7)])
def test_random_states_of_every_kind(rows, state):
    assert MomentGaussianMixture(2, random_state=state).fit(rows[:500]).sample(3)[0].shape == (3, 6)


def test_printed_method(truth):
    rng = np.random.default_rng(2)
    mixture = mm.DiagonalMixture([0.4, 0.6], 9 * rng.standard_normal((2, 8)), np.ones((2, 8)))
    rows = mixture.sample(4000, random_state=0)[0]
    fitted = MomentGaussianMixture(2, method="paper", random_state=0).fit(rows)
    assert fitted.standard_errors_ is None
    assert sorted(fitted.weights_.round(1)) == [0.4, 0.6]


def test_onnx_through_scikit_learn(model, rows):
    skl2onnx = pytest.importorskip("skl2onnx")
    runtime = pytest.importorskip("onnxruntime")
    graph = skl2onnx.to_onnx(model.to_sklearn(), rows[:1])
    session = runtime.InferenceSession(graph.SerializeToString())
    labels = session.run(None, {session.get_inputs()[0].name: rows})[0]
    assert (labels.ravel() == model.predict(rows)).mean() > 0.999


# -- bad rows ---------------------------------------------------------------------------------


def with_value(rows, value):
    rows = rows.copy()
    rows[7, 1] = value
    return rows


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: with_value(x, np.nan), "row 7, column 1 is NaN. Drop incomplete rows"),
        (lambda x: with_value(x, np.inf), "row 7, column 1 is inf"),
        (lambda x: with_value(x, 1e308), "row 7, column 1 is 1e\\+308"),
        (lambda x: x[:0], "0 sample"),
        (lambda x: x[:, :0], "0 feature"),
        (lambda x: x[0], "1D array"),
        (lambda x: x[None], "dim 3"),
        (lambda x: x + 1j, "Complex data not supported"),
        (lambda x: x[:1], "minimum of 2"),
    ],
)
def test_bad_rows(rows, make, message):
    with pytest.raises(ValueError, match=message):
        MomentGaussianMixture(2).fit(make(rows))


def test_rows_of_another_kind(rows):
    with pytest.raises(TypeError, match="toarray"):
        MomentGaussianMixture(2).fit(sparse.csr_array(rows))
    frame = pd.DataFrame(rows, columns=NAMES).assign(city="Ulm")
    with pytest.raises(InputTypeError, match=r"column 'city' holds text .* use MomentMixture"):
        MomentGaussianMixture(2).fit(frame)
    numbers_as_text = pd.DataFrame(rows, columns=NAMES).astype({NAMES[0]: str})
    with pytest.raises(InputTypeError, match=f"column '{NAMES[0]}' holds text"):
        MomentGaussianMixture(2).fit(numbers_as_text)
    dates = pd.DataFrame(
        {"a": pd.date_range("2020", periods=9), "b": pd.date_range("2021", periods=9)}
    )
    with pytest.raises(InputTypeError, match="column 'a' has dtype datetime64"):
        MomentGaussianMixture(2).fit(dates)
    objects = pd.DataFrame(rows, columns=NAMES).astype({NAMES[1]: object})
    expected = MomentGaussianMixture(2, random_state=0).fit(rows).means_
    assert (MomentGaussianMixture(2, random_state=0).fit(objects).means_ == expected).all()
    lazy = type("Collection", (), {"__dask_graph__": None})()
    with pytest.raises(InputTypeError, match=r"Use momentmix\.dask: fit_summary"):
        MomentGaussianMixture(2).fit(lazy)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"n_components": 0}, ValueError, "n_components"),
        ({"n_components": -3}, ValueError, "n_components"),
        ({"n_components": 2.5}, (TypeError, ValueError), "n_components"),
        ({"n_components": True}, (TypeError, ValueError), "n_components"),
        ({"n_components": 5000}, ValueError, "5000"),
        ({"n_components": 2, "order": 7}, ValueError, "order"),
        ({"n_components": 2, "method": "magic"}, ValueError, "method must be"),
        ({"n_components": 2, "refine": "magic"}, ValueError, "refine must be"),
        ({"n_components": 2, "variance_floor": 2}, ValueError, "variance_floor"),
    ],
)
def test_bad_parameters(rows, options, kind, message):
    with pytest.raises(kind, match=message):
        MomentGaussianMixture(**options).fit(rows)


def test_more_components_than_a_summary_identifies(rows):
    summary = mm.summarize(rows, order=3)
    with pytest.raises(CapacityError, match="order=3 with 6 features identifies at most"):
        MomentGaussianMixture(6).fit_summary(summary)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(3000), "not negative"),
        (np.full(3000, np.nan), "finite"),
        (np.zeros(3000), "all zero"),
        (np.ones(2999), "shape \\(3000,\\)"),
    ],
)
def test_bad_weights(rows, weights, message):
    with pytest.raises(ValueError, match=message):
        MomentGaussianMixture(2).fit(rows, sample_weight=weights)


def test_partial_fit_refuses_other_columns_and_stays_as_it_was(rows):
    frame = pd.DataFrame(rows, columns=NAMES)
    fitted = MomentGaussianMixture(2).partial_fit(frame[:100])
    with pytest.raises(ValueError, match="feature names"):
        fitted.partial_fit(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match="feature"):
        fitted.partial_fit(frame[NAMES[:4]])
    assert fitted.summary_.n_rows == 100


def test_predict_before_fit(rows):
    with pytest.raises(NotFittedError):
        MomentGaussianMixture().predict(rows)
    with pytest.raises(AttributeError, match="no attribute 'weights_'"):
        MomentGaussianMixture().weights_  # noqa: B018


def test_columns_that_a_fit_suffers_from_warn(rows):
    constant = rows.copy()
    constant[:, 2] = 5.0
    with pytest.warns(FitWarning, match="column 2 holds one value only"):
        fitted = MomentGaussianMixture(2, random_state=0).fit(constant)
    assert (fitted.covariances_ > 0).all()
    with pytest.warns(FitWarning, match="columns 0 and 5 are copies"):
        MomentGaussianMixture(2, random_state=0).fit(np.column_stack([rows[:, :5], 3 * rows[:, 0]]))
    outlier = rows.copy()
    outlier[0, 3] = 1e6 * rows[:, 3].std()
    with pytest.warns(FitWarning, match=r"far from all others.*row 0 \(.* in column 3\)"):
        MomentGaussianMixture(2, random_state=0).fit(outlier)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x * 1e50,
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.round(10 * x).astype(np.int64),
        lambda x: x.astype(np.float16),
        lambda x: np.clip(x * 5 + 100, 0, 255).astype(np.uint8),
    ],
)
def test_rows_that_must_work(rows, change):
    changed = change(rows)
    changed.setflags(write=False)
    fitted = MomentGaussianMixture(2, random_state=0).fit(changed)
    np.testing.assert_allclose(fitted.weights_, [0.7, 0.3], atol=0.03)


# -- the same as fit --------------------------------------------------------------------------


def assert_same_fit(fitted, result):
    """The same bits in mixture, certificate and record."""
    for name in ("weights", "means", "variances"):
        np.testing.assert_array_equal(
            getattr(fitted.mixture_, name), getattr(result.mixture, name), strict=True
        )
    assert fitted.result_.record().to_dict() == result.record().to_dict()
    assert fitted.result_.candidates == result.candidates
    assert str(fitted.certificate_) == str(result.certificate)
    assert fitted.summary_.order == result.order
    assert fitted.summary_.n_rows == result.n_rows


@pytest.mark.parametrize(
    ("n_rows", "change"),
    [
        *((n, np.asarray) for n in (60, 3000, 9_999, 10_001, 21_000)),
        (3000, np.asfortranarray),
        (10_001, lambda x: x.astype(np.float32)),
        (3000, lambda x: np.round(10 * x).astype(np.int64)),
        *((n, lambda x: pd.DataFrame(x, columns=NAMES)) for n in (60, 10_001)),
    ],
)
def test_the_same_bits_as_fit(truth, n_rows, change):
    rows = change(truth.sample(n_rows, random_state=n_rows)[0])
    fitted = MomentGaussianMixture(2, random_state=4).fit(rows)
    assert_same_fit(fitted, mm.fit(rows, 2, random_state=4))


@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 1},
        {"n_components": 3, "refine": None},
        {"n_components": "auto"},
        {"n_components": 2, "order": 3, "variance_floor": 1e-3},
        {"n_components": 2, "method": "paper"},
    ],
)
def test_the_same_bits_as_fit_with_options(rows, options):
    part = rows[:1500] + 20.0
    fitted = MomentGaussianMixture(**options, random_state=1).fit(part)
    assert_same_fit(fitted, mm.fit(part, **options, random_state=1))


@pytest.mark.parametrize("n_rows", [500, 12_000])
def test_whole_weights_give_the_bits_of_repeated_rows(truth, n_rows):
    rows = truth.sample(n_rows, random_state=7)[0]
    weights = np.random.default_rng(1).integers(0, 4, n_rows)
    fitted = MomentGaussianMixture(2, random_state=0).fit(rows, sample_weight=weights)
    assert_same_fit(fitted, mm.fit(np.repeat(rows, weights, axis=0), 2, random_state=0))


@pytest.mark.parametrize("shuffled", [200, 3000])
def test_few_rows_may_come_in_any_order(rows, shuffled):
    part = rows[:shuffled]
    other = np.random.default_rng(3).permutation(part)
    a, b = (mm.fit(x, 3, random_state=0) for x in (part, other))
    np.testing.assert_allclose(a.mixture.means, b.mixture.means, rtol=1e-9)
    assert a.log_likelihood == pytest.approx(b.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(a.standard_errors.means, b.standard_errors.means, rtol=1e-6)


@pytest.mark.parametrize("weights", [None, "whole", "other"])
@pytest.mark.parametrize("method", ["robust", "paper"])
def test_rows_are_summed_once(rows, monkeypatch, weights, method):
    part, rng = rows[:1000] + 20.0, np.random.default_rng(0)
    given = {"whole": rng.integers(1, 3, 1000), "other": rng.uniform(0.5, 1.5, 1000)}.get(weights)
    summed, update = [], mm.MomentSummary.update

    def counting(self, rows, *arguments, **options):
        summed.append(len(rows))
        return update(self, rows, *arguments, **options)

    monkeypatch.setattr(mm.MomentSummary, "update", counting)
    MomentGaussianMixture(2, method=method, random_state=0).fit(part, sample_weight=given)
    assert summed == [int(given.sum()) if weights == "whole" else 1000]


def test_the_summary_of_a_fit_has_names_and_goes_on(rows):
    frame = pd.DataFrame(rows, columns=NAMES)
    fitted = MomentGaussianMixture(2, random_state=0).fit(frame[:2000])
    assert fitted.summary_.feature_names == tuple(NAMES)
    fitted.partial_fit(frame[2000:])
    assert fitted.summary_.n_rows == 3000

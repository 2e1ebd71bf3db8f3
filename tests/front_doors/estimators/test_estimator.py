"""The scikit-learn door: its own checks, its habits, and its bad inputs."""

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import momentmix as mm
from momentmix import MomentGaussianMixture
from momentmix.errors import InputError, InputTypeError

NAMES = ["a", "b", "c", "d", "e", "f"]


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(5)
    return mm.Mixture.diagonal([0.3, 0.7], 4 * rng.standard_normal((2, 6)), 1 + rng.random((2, 6)))


@pytest.fixture(scope="module")
def rows(truth):
    return truth.sample(3000, random_state=1)[0]


@pytest.fixture(scope="module")
def model(rows):
    return MomentGaussianMixture(2, random_state=0).fit(rows)


@pytest.mark.parametrize(
    ("model", "refused"),
    [
        (MomentGaussianMixture(2), {}),
        (
            MomentGaussianMixture(1, covariance_type="full"),
            # 27 rows do not bear a block of 30 columns.
            {"check_sample_weight_equivalence_on_dense_data": "too few rows"},
        ),
        (mm.MomentMixture(2), {}),
    ],
)
def test_check_estimator_has_no_failures(model, refused):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_fail=None, expected_failed_checks=refused)
    assert len(found) > 30
    assert [x["check_name"] for x in found if x["status"] == "failed"] == []
    assert {x["check_name"] for x in found if x["status"] == "xfail"} == set(refused)


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
    drawn, labels = model.sample(50)
    assert drawn.shape == (50, 6)
    assert set(labels) <= {0, 1}
    labels = MomentGaussianMixture(2, random_state=0).fit_predict(rows)
    np.testing.assert_array_equal(labels, model.predict(rows))


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
    assert fitted.fit(rows[:100]).summary_.n_rows == 100  # it starts again


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


def test_pipeline_grid_search_clone_and_params(rows):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), MomentGaussianMixture(random_state=0)),
        {"momentgaussianmixture__n_components": [1, 2]},
        cv=2,
    ).fit(rows[:1000])
    assert search.best_params_ == {"momentgaussianmixture__n_components": 2}
    state = np.random.RandomState(7)
    assert MomentGaussianMixture(2, random_state=state).fit(rows[:500]).sample(3)[0].shape == (3, 6)
    twin = clone(MomentGaussianMixture(3).set_params(max_passes=7))
    assert twin.get_params()["max_passes"] == 7
    assert "MomentGaussianMixture" in twin._repr_html_()


def test_pickle_keeps_everything(model, rows):
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict_proba(rows), model.predict_proba(rows))
    assert twin.summary_ == model.summary_
    waiting = pickle.loads(pickle.dumps(MomentGaussianMixture(2).partial_fit(rows)))
    assert waiting.fit_summary().weights_.shape == (2,)


# -- bad rows ---------------------------------------------------------------------------------


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
    with pytest.raises(InputTypeError, match=r"column 'a' holds .*datetime64"):
        MomentGaussianMixture(2).fit(dates)
    objects = pd.DataFrame(rows, columns=NAMES).astype({NAMES[1]: object})
    expected = MomentGaussianMixture(2, random_state=0).fit(rows).means_
    assert (MomentGaussianMixture(2, random_state=0).fit(objects).means_ == expected).all()
    lazy = type("Collection", (), {"__dask_graph__": None})()
    with pytest.raises(InputTypeError, match=r"Use momentmix\.dask: fit_summary"):
        MomentGaussianMixture(2).fit(lazy)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, "n_components"), ({"n_components": 5000}, "5000"),
        ({"max_passes": -1}, "max_passes"),
        ({"covariance_type": "tied"}, "must be 'diag' or 'full'; got 'tied'"),
        ({"missing": "drop"}, "must be 'error' or 'mar'; got 'drop'"),
        ({"n_components": 3, "start": np.zeros((2, 6))}, r"= \(3, 6\); got \(2, 6\)"),
    ],
)  # fmt: skip
def test_bad_parameters(rows, options, message):
    with pytest.raises(InputError, match=message):
        MomentGaussianMixture(**options).fit(rows)


def test_partial_fit_refuses_other_columns_and_stays_as_it_was(rows):
    frame = pd.DataFrame(rows, columns=NAMES)
    fitted = MomentGaussianMixture(2).partial_fit(frame[:100])
    with pytest.raises(ValueError, match="feature names"):
        fitted.partial_fit(frame[NAMES[::-1]])
    with pytest.raises(ValueError, match="feature"):
        fitted.partial_fit(frame[NAMES[:4]])
    assert fitted.summary_.n_rows == 100


# -- the same as fit --------------------------------------------------------------------------


def assert_same_fit(fitted, result):
    """The same bits in mixture, certificate and record."""
    for name in ("weights", "means", "variances"):
        np.testing.assert_array_equal(
            getattr(fitted.mixture_, name), getattr(result.mixture, name), strict=True
        )
    records = (replace(x, options=None) for x in (fitted.result_, result))
    own, direct = (record.to_dict() for record in records)  # options are those of the function
    assert own == direct
    assert str(fitted.certificate_) == str(result.certificate)
    assert fitted.summary_.order == result.order
    assert fitted.summary_.n_rows == result.n_rows


@pytest.mark.parametrize(
    ("n_rows", "change"),
    [
        (60, np.asarray),
        (9_999, np.asfortranarray),
        (10_001, lambda x: x.astype(np.float32)),
        (3000, lambda x: np.round(10 * x).astype(np.int64)),
        (10_001, lambda x: pd.DataFrame(x, columns=NAMES)),
    ],
)
def test_the_same_bits_as_fit(truth, n_rows, change):
    rows = change(truth.sample(n_rows, random_state=n_rows)[0])
    fitted = MomentGaussianMixture(2, random_state=4).fit(rows)
    assert_same_fit(fitted, mm.fit(rows, 2, random_state=4))


@pytest.mark.parametrize("kind", [MomentGaussianMixture, mm.MomentMixture])
def test_whole_weights_give_the_bits_of_repeated_rows(rows, kind):
    rows, weights = rows[:1000], np.random.default_rng(1).integers(0, 4, 1000)
    fitted = kind(2, random_state=0).fit(rows, sample_weight=weights)
    assert_same_fit(fitted, mm.fit(np.repeat(rows, weights, axis=0), 2, random_state=0))

"""scikit-learn's names: each has a meaning or says that it has none; and no hidden fits."""

import copy
import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.validation import check_is_fitted

import momentmix as mm
from momentmix import MomentGaussianMixture, MomentMixture
from momentmix.errors import InputError

BOTH = pytest.mark.parametrize("kind", [MomentGaussianMixture, MomentMixture])
MEANS = np.array([[0, 0, 0, 0, 0, 0], [4, 3, 0, 1, 4, 2], [0, 4, 4, 2, 0, 3]], dtype=float)
TRUTH = mm.Mixture.diagonal([0.5, 0.3, 0.2], MEANS, 1 + (MEANS > 1))


@pytest.fixture(scope="module")
def rows():
    return TRUTH.sample(3000, random_state=0)[0]


@pytest.fixture(scope="module")
def model(rows):
    return MomentGaussianMixture(3, random_state=0).fit(rows)


# -- parameters -------------------------------------------------------------------------------


@BOTH
def test_passes_that_run_out(kind, rows):
    with pytest.warns(ConvergenceWarning, match="after 0 passes"):
        begin = kind(3, max_passes=0, random_state=0).fit(rows)
    assert begin.n_iter_ == 0
    assert begin.lower_bounds_ == []
    assert not begin.converged_
    assert begin.lower_bound_ == pytest.approx(begin.score(rows), abs=1e-9)
    with pytest.warns(ConvergenceWarning, match="after 1 passes"):
        assert kind(3, max_passes=1, random_state=0).fit(rows).n_iter_ == 1
    with pytest.raises(InputError, match="max_passes"):
        kind(3, max_passes=-1).fit(rows)


# -- starts -----------------------------------------------------------------------------------


def test_components_come_in_the_order_of_the_means(rows, model):
    assert np.argsort(-model.weights_).tolist() == [0, 1, 2]
    for order in ([2, 0, 1], [1, 2, 0]):
        found = MomentGaussianMixture(3, start=TRUTH.means[order], random_state=0).fit(rows)
        assert found.result_.winner == "given start"
        np.testing.assert_allclose(found.means_, model.means_[order], atol=2e-3)
        np.testing.assert_allclose(
            found.standard_errors_.means, model.standard_errors_.means[order], rtol=0.02
        )
        parts = clone(found).partial_fit(rows[:1500]).partial_fit(rows[1500:]).fit_summary()
        error = model.standard_errors_.means[order]
        np.testing.assert_array_less(np.abs(parts.means_ - model.means_[order]), 12 * error)


def test_fit_takes_a_mixture_or_means_as_its_start(rows, model):
    turned = TRUTH.means[::-1]
    by_means = mm.fit(rows, 3, start=turned, random_state=0)
    by_mixture = mm.fit(rows, 3, start=TRUTH, random_state=0)
    np.testing.assert_allclose(by_means.mixture.means[::-1], model.means_, atol=2e-3)
    np.testing.assert_allclose(by_mixture.mixture.means, model.means_, atol=2e-3)
    assert by_mixture.winner == "given start"
    counts = mm.Mixture.from_blocks([0.5, 0.3, 0.2], [mm.PoissonBlock([1.0, 2.0, 3.0])] * 6)
    with pytest.raises(InputError, match="of the same families and levels"):
        mm.fit(rows, 3, start=counts)


# -- attributes -------------------------------------------------------------------------------


@BOTH
def test_lower_bounds_are_those_of_the_passes(kind, rows):
    found = kind(3, random_state=0).fit(rows)
    assert found.n_iter_ == found.result_.n_passes - 1 >= 2
    assert 1 < len(found.lower_bounds_) <= found.n_iter_
    assert found.lower_bounds_[-1] == found.lower_bound_
    # EM maximizes the likelihood times a prior that changes little from pass to pass.
    assert (np.diff(found.lower_bounds_) > -1e-6).all()
    summarized = kind(3, random_state=0).fit_summary(mm.summarize(rows, 4))
    assert summarized.n_iter_ == 0
    assert summarized.lower_bounds_ == []
    assert np.isnan(summarized.lower_bound_)


# -- no hidden fits ---------------------------------------------------------------------------


@BOTH
def test_a_fit_that_fails_leaves_the_rows(kind, rows):
    model = kind(20, random_state=0).partial_fit(rows[:10])
    for _ in range(2):
        with pytest.raises(ValueError, match="component"):
            model.predict(rows)
        with pytest.raises(ValueError, match="component"):
            model.fit_summary()
    assert model.summary_.n_rows == 10
    assert not hasattr(model, "weights_")
    assert model.set_params(n_components=1).predict(rows[:5]).tolist() == [0] * 5


@BOTH
def test_rows_wait_for_the_first_method_that_needs_the_fit(kind, rows):
    model = kind(2, random_state=0)
    with pytest.raises(NotFittedError, match=r"fit_summary\(\) without a summary"):
        model.fit_summary()
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    model.partial_fit(rows[:1000])
    repr(model)
    inspect.getmembers(model)
    check_is_fitted(model)
    twins = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for name in ("result_", "mixture_", "weights_", "n_iter_", "certificate_"):
        assert not hasattr(model, name)
    labels = model.predict(rows)
    for twin in twins:
        np.testing.assert_array_equal(twin.predict(rows), labels)
    model.partial_fit(rows[1000:1500])
    assert not hasattr(model, "weights_")  # those of fewer rows are out of date
    assert model.fit_summary().summary_.n_rows == 1500

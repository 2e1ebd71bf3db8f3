"""Covariances of the estimator: shapes, parameters counted, and what moments alone allow."""

import warnings

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix import MomentGaussianMixture
from momentmix.errors import CapacityError, FitWarning, InputError

NAMES = ["a", "b", "c", "d", "e", "f"]
# By hand for 2 components of 6 columns: 1 + 2·(6 means + 6 variances + covariances)
PARAMETERS = {"diag": 25, "full": 25 + 2 * 15}
KINDS = list(PARAMETERS)


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(0)
    covariances = np.stack([np.eye(6), 2 * np.eye(6)])
    covariances[:, 0, 1] = covariances[:, 1, 0] = [0.8, -1.4]
    covariances[:, 3, 4] = covariances[:, 4, 3] = [0.5, 1.0]
    return mm.Mixture([0.6, 0.4], 3 * rng.standard_normal((2, 6)), covariances, feature_names=NAMES)


@pytest.fixture(scope="module")
def frame(truth):
    return pd.DataFrame(truth.sample(4000, random_state=1)[0], columns=NAMES)


@pytest.fixture(scope="module")
def models(frame):
    def fitted(kind):
        model = MomentGaussianMixture(2, covariance_type=kind, random_state=0)
        with warnings.catch_warnings():
            if kind == "diag":
                warnings.simplefilter("ignore", FitWarning)
            return model.fit(frame)

    return {kind: fitted(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_those_of_scikit_learn(models, kind):
    model, shape = models[kind], (2, 6) if kind == "diag" else (2, 6, 6)
    assert model.covariances_.shape == model.precisions_.shape == shape
    assert model.precisions_cholesky_.shape == shape
    if kind != "diag":
        unit = np.broadcast_to(np.eye(6), shape)
        roots = model.precisions_cholesky_
        np.testing.assert_allclose(model.precisions_ @ model.covariances_, unit, atol=1e-12)
        np.testing.assert_allclose(roots @ roots.swapaxes(1, 2), model.precisions_, rtol=1e-12)
        np.testing.assert_array_equal(roots, np.triu(roots))


@pytest.mark.parametrize("kind", KINDS)
def test_criteria_count_the_parameters_of_the_blocks(models, frame, kind):
    model, n = models[kind], len(frame)
    total = model.score_samples(frame).sum()
    assert model.bic(frame) == pytest.approx(PARAMETERS[kind] * np.log(n) - 2 * total, rel=1e-12)
    assert model.aic(frame) == pytest.approx(PARAMETERS[kind] * 2 - 2 * total, rel=1e-12)


def test_units_do_not_matter_to_the_precisions(models, frame):
    model = MomentGaussianMixture(2, covariance_type="full", random_state=0)
    units = np.array([1e-100, 1e80, 1.0, 1e-5, 1e9, 1.0])
    scaled = model.fit(frame.to_numpy() * units).precisions_cholesky_ * units[:, None]
    np.testing.assert_allclose(scaled, models["full"].precisions_cholesky_, rtol=1e-6, atol=1e-9)


# -- bad input --------------------------------------------------------------------------------


def test_a_block_wider_than_the_rows_can_bear(frame):
    model = MomentGaussianMixture(2, covariance_type="full")
    with pytest.raises(InputError, match=r"14 in all; got 12. Use blocks of at most 5 columns"):
        model.fit(frame[:12])


def test_covariances_are_those_of_the_truth(models, truth):
    # Standard error of a covariance of n normal rows: √((v_j v_k + c²) / n), at most v √(2/n).
    error = np.diagonal(truth.covariances, axis1=1, axis2=2).max() * np.sqrt(2 / 1600)
    np.testing.assert_allclose(models["full"].covariances_, truth.covariances, atol=5 * error)


def test_moments_alone(frame):
    full = MomentGaussianMixture(1, covariance_type="full")
    for part in (frame[:1500], frame[1500:]):
        full.partial_fit(part)
    covariance = full.fit_summary().covariances_[0]
    np.testing.assert_allclose(covariance, np.cov(frame.T, ddof=0), rtol=1e-6)
    two = MomentGaussianMixture(2, covariance_type="full")
    with pytest.raises(CapacityError, match="full covariances cannot be told apart"):
        two.partial_fit(frame)
    with pytest.raises(CapacityError, match=r"at least three blocks.*or fit the rows"):
        two.fit_summary(mm.summarize(frame, order=4))
    assert not hasattr(two, "summary_")

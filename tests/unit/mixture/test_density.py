"""The model's maps against SciPy, and the arithmetic of densities over libraries and batches."""

import array_api_strict as strict
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from momentmix.mixture.density import (
    joint_densities,
    log_sums,
    mean_log_densities,
    most_probable,
    posteriors,
    responsibilities,
    statistics_of,
)
from momentmix.mixture.gaussian import (
    coefficients,
    feature_parts,
    features_of,
    m_step,
)
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), size=4)
    return Parameters(weights, rng.normal(size=(4, 3, 5)), rng.uniform(0.5, 2.0, (4, 3, 5)))


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(1).normal(size=(5000, 5))  # several tiles, the last one short


def naive_joint(p, values):
    parts = zip(p.weights, p.means, p.variances, strict=True)
    return np.array([np.log(w) + norm.logpdf(values, m, np.sqrt(v)).sum(1) for w, m, v in parts])


def test_joint_densities_are_the_models_alone_and_in_a_batch(batch, values):
    joint = joint_densities(coefficients(batch), features_of(values))
    assert joint.shape == (4, 3, 5000)
    for k in range(4):
        expected = naive_joint(batch[k], values)
        np.testing.assert_allclose(joint[k], expected, rtol=1e-12, atol=1e-12)
        alone = joint_densities(coefficients(batch[k]), features_of(values))
        np.testing.assert_allclose(alone, expected, rtol=1e-12, atol=1e-12)


def test_parts_of_features_in_slabs_of_another_library(batch, values):
    table = coefficients(batch)
    here = joint_densities(table, features_of(values))
    slabs = strict.asarray(np.ascontiguousarray(values.reshape(5, 1000, 5).transpose(0, 2, 1)))
    there = joint_densities(strict.asarray(table), feature_parts(slabs), strict)
    assert there.shape == (5, 4, 3, 1000)
    joined = np.from_dlpack(there).transpose(1, 2, 0, 3).reshape(4, 3, 5000)
    np.testing.assert_allclose(joined, here, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("xp", [np, strict])
def test_reductions_over_the_components(batch, values, xp):
    joint = naive_joint(batch[0], values)
    logs = logsumexp(joint, axis=0)
    shares = np.exp(joint - logs)

    def back(array):
        return np.asarray(array) if xp is np else np.from_dlpack(array)

    def put():
        return xp.asarray(joint.copy())

    np.testing.assert_allclose(back(log_sums(put(), xp)), logs)
    np.testing.assert_allclose(back(posteriors(put(), xp)), shares, rtol=1e-9)
    np.testing.assert_allclose(back(responsibilities(put(), xp)[0]), shares, rtol=1e-9)
    np.testing.assert_array_equal(back(most_probable(put(), xp)), joint.argmax(axis=0))
    lost = xp.asarray(np.array([[-np.inf, np.nan, 1.0], [-np.inf, 0.0, 2.0]]))
    np.testing.assert_array_equal(back(most_probable(lost, xp)), [-1, -1, 1])


def test_statistics_of_a_batch_are_sums_of_shares_times_features(batch, values):
    features = features_of(values)
    statistics, mean_log = statistics_of(coefficients(batch), features)
    for k in range(4):
        joint = naive_joint(batch[k], values)
        logs = logsumexp(joint, axis=0)
        expected = np.exp(joint - logs) @ features.T
        np.testing.assert_allclose(statistics[k], expected, rtol=1e-9, atol=1e-9)
        assert mean_log[k] == pytest.approx(logs.mean())
    np.testing.assert_allclose(mean_log_densities(coefficients(batch), features), mean_log)


def test_the_m_step_gives_back_the_moments_of_a_partition(values):
    labels = np.random.default_rng(2).integers(3, size=5000)
    features = features_of(values)
    statistics = np.array([features[:, labels == i].sum(axis=1) for i in range(4)])
    found = m_step(statistics, VariancePrior(0.9))  # component 3 has no rows
    np.testing.assert_allclose(found.weights[:3], np.bincount(labels) / 5000)
    for i in range(3):
        np.testing.assert_allclose(found.means[i], values[labels == i].mean(axis=0))
        spread = values[labels == i].var(axis=0)
        np.testing.assert_allclose(found.variances[i], np.maximum(spread, 0.9))
    assert found[3].weights == 0
    assert (found[3].variances == 1).all()

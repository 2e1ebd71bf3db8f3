import numpy as np
import pytest

from momentmix import DiagonalMixture
from momentmix.mixture.matching import (
    clustering_accuracy,
    largest_factor_error,
    match_components,
    parameter_errors,
)


def test_factor_error_forgives_order_and_roots_of_unity_only():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((5, 8))
    units = np.exp(2j * np.pi * np.arange(5) / 4)
    turned = (units[:, None] * factors)[[3, 1, 4, 0, 2]]
    assert largest_factor_error(factors, turned, 4) < 1e-15
    assert largest_factor_error(factors, turned, 3) > 0.1
    assert largest_factor_error(factors, 1.01 * factors, 4) == pytest.approx(0.01)


def test_components_are_matched_by_their_means():
    rng = np.random.default_rng(1)
    truth = DiagonalMixture(np.full(4, 0.25), rng.standard_normal((4, 3)), np.ones((4, 3)))
    order = np.array([2, 0, 3, 1])
    found = DiagonalMixture(truth.weights[order], truth.means[order], 1.1 * truth.variances[order])
    assert order[match_components(truth, found)].tolist() == [0, 1, 2, 3]
    errors = parameter_errors(truth, found)
    assert errors["means"] == 0
    assert errors["variances"] == pytest.approx(0.1)


def test_accuracy_is_blind_to_names():
    assert clustering_accuracy([0, 0, 1, 1, 2], [2, 2, 0, 0, 1]) == 1.0
    assert clustering_accuracy([0, 0, 0, 1], [0, 1, 2, 3]) == 0.5

"""Exact moments in, parameters out; and the pieces on the way."""

import numpy as np
import pytest
from fitting_helpers import (
    exact_moments,
    matched,
    random_mixture,
)

from momentmix.capacity import count_monomials
from momentmix.fitting.context import FitContext
from momentmix.fitting.from_moments import elbow, least_components
from momentmix.fitting.moments.candidates import draw_candidates, partition_shapes
from momentmix.fitting.moments.conditions import build_conditions
from momentmix.fitting.moments.fit import fit_moments
from momentmix.fitting.moments.pool import merge_means
from momentmix.fitting.moments.spread import fit_spread
from momentmix.mixture.blocks import Blocks


@pytest.mark.parametrize(("r", "d", "order"), [(2, 3, 3), (3, 5, 3), (4, 7, 4)])
def test_exact_moments_give_back_the_parameters(r, d, order):
    truth = random_mixture(r, d, seed=r)
    moments = exact_moments(truth, order)
    fit = fit_moments(moments, r, FitContext(np.random.default_rng(0)))
    found = fit.parameters.restored(moments.shift, moments.scale)
    weights, means, variances = matched(found, truth)
    np.testing.assert_allclose(weights, truth.weights, atol=1e-4)
    np.testing.assert_allclose(means, truth.means, atol=1e-3)
    np.testing.assert_allclose(variances, truth.variances, atol=2e-3)


def test_one_partition_of_exact_moments_finds_every_mean():
    truth = random_mixture(5, 9, seed=3)
    moments = exact_moments(truth, 4)
    target = truth.parameters.standardized(moments.shift, moments.scale).means
    candidates = draw_candidates(moments, 5, 1, np.random.default_rng(0))
    gaps = ((target[:, None] - candidates[None]) ** 2).sum(axis=2)
    assert np.sqrt(gaps.min(axis=1)).max() < 1e-6


def test_every_partition_shape_holds_the_rank_it_claims():
    for shape in partition_shapes(Blocks(12), 5, 10):
        (left,), (right,) = shape.left, shape.right
        assert left + right < 12
        assert shape.left_degree + shape.right_degree + 1 <= 5
        sides = (
            count_monomials(left, shape.left_degree),
            count_monomials(right, shape.right_degree),
        )
        assert shape.rank == min(sides) >= 10


def test_merging_means_keeps_the_overall_mean():
    rng = np.random.default_rng(0)
    weights, means = rng.random(9), rng.normal(size=(9, 4))
    conditions = build_conditions(exact_moments(random_mixture(2, 4, seed=0), 3), 3)
    noise = np.ones(conditions.size)
    few, merged = merge_means(conditions, weights / weights.sum(), means, noise, 3)
    assert few.sum() == pytest.approx(1)
    np.testing.assert_allclose(few @ merged, weights / weights.sum() @ means)


def test_variances_from_exact_moments():
    truth = random_mixture(4, 6, seed=7)
    moments = exact_moments(truth, 3)
    standard = truth.parameters.standardized(moments.shift, moments.scale)
    structure = moments.structure(None)
    found = fit_spread(moments, standard.weights, standard.means, structure).variances
    np.testing.assert_allclose(found, standard.variances, atol=1e-5)


def test_singular_values_count_components_of_exact_moments():
    for r in (1, 2, 4):
        moments = exact_moments(random_mixture(r, 9, seed=r), 3)
        assert least_components(moments, np.random.default_rng(0)) == r


def test_elbow_is_where_the_effect_stops_falling():
    assert elbow({1: 0.5, 2: 0.2, 3: 0.01, 4: 0.009, 5: 0.008}) == 3
    assert elbow({2: 0.5}) == 2

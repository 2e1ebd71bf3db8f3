"""Moment fits with blocks: exact moments in, parameters out; correlations; capacity."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from block_laws import block_law, blocks_of, exact_block_moments, standardized
from scipy.optimize import linear_sum_assignment

from momentmix.capacity import choose_order, robust_rank
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import summarized
from momentmix.fitting.inference.correlations import find_correlations
from momentmix.fitting.inference.over_identification import check_conditions
from momentmix.fitting.inference.tested_conditions import choose_conditions
from momentmix.fitting.moments.candidates import draw_candidates, least_components
from momentmix.fitting.moments.fit import (
    SMALLER,
    fit_moments,
)
from momentmix.fitting.moments.whitening import Whitening
from momentmix.mixture.gaussian import sample
from momentmix.mixture.parameters import Parameters
from momentmix.paper.ranks import largest_rank, smallest_order

LAWS = {"3, 2, 2": ((3, 2, 2), 2), "2, 2, 1, 1, 1": ((2, 2, 1, 1, 1), 3), "4 of 3": ((3,) * 4, 3)}


@pytest.fixture(scope="module", params=LAWS)
def exact(request):
    sizes, r = LAWS[request.param]
    truth = block_law(sizes, r, seed=1)
    return standardized(truth)[0], exact_block_moments(truth)


def in_order_of(truth, found):
    gaps = ((truth.means[:, None] - found.means[None]) ** 2).sum(axis=2)
    return found[linear_sum_assignment(gaps)[1]]


# -- exact moments ----------------------------------------------------------------------------


def test_exact_moments_give_the_parameters(exact):
    truth, moments = exact
    rng = np.random.default_rng(0)
    fit = fit_moments(
        moments, truth.n_components, FitContext(rng), blocks=truth.blocks, is_needed=True
    )
    found = in_order_of(truth, fit.parameters)
    assert found.weights == pytest.approx(truth.weights, abs=1e-5)
    assert found.means == pytest.approx(truth.means, abs=1e-5)
    assert found.spread == pytest.approx(truth.spread, abs=1e-5)
    assert fit.uncertainty.factor.shape[0] == truth.n_free + 1


def test_candidates_of_exact_moments_are_the_means(exact):
    truth, moments = exact
    drawn = draw_candidates(moments, truth.n_components, 4, np.random.default_rng(0), truth.blocks)
    gaps = ((truth.means[:, None] - drawn[None]) ** 2).sum(axis=2)
    assert np.sqrt(gaps.min(axis=1)).max() < 1e-6


def test_rank_of_exact_moments(exact):
    truth, moments = exact
    rng = np.random.default_rng(0)
    assert least_components(moments, rng, truth.blocks) == truth.n_components
    # Taken for independent, correlated features look like further components.
    assert least_components(moments, rng) > truth.n_components


# -- rows -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn():
    """Rows of a law with blocks, their moments and a fit."""
    truth = block_law((3, 3, 2, 1, 1), 3, seed=5, spread=1.2)
    rows, _ = sample(truth, 30_000, np.random.default_rng(0))
    moments, _ = summarized(rows, 4, 1)
    rng = np.random.default_rng(0)
    fit = fit_moments(moments, 3, FitContext(rng), blocks=truth.blocks, is_needed=True)
    j, k = truth.blocks.pairs.T
    scale = moments.scale
    z = Parameters(
        truth.weights, (truth.means - moments.shift) / scale, truth.variances / scale**2,
        truth.covariances / (scale[j] * scale[k]), truth.blocks,
    )  # fmt: skip
    return z, moments, fit


def test_estimates_lie_within_their_errors(drawn):
    truth, moments, fit = drawn
    order = linear_sum_assignment(((truth.means[:, None] - fit.raw.means) ** 2).sum(axis=2))[1]
    deviations = fit.uncertainty.reordered(order).deviations().flat()
    deviates = (fit.raw[order].flat() - truth.flat()) / deviations
    assert np.abs(deviates).max() < 4.5  # about a hundred parameters
    assert 0.7 < np.sqrt((deviates**2).mean()) < 1.3
    assert check_conditions(moments, fit.raw, np.random.default_rng(0)).p_value > 0.01


def test_other_blocks_are_rejected_and_correlated_pairs_named(drawn):
    """A diagonal fit is rejected; the pairs that stand out are those of one block."""
    truth, moments, _ = drawn
    fit = fit_moments(moments, 3, FitContext(np.random.default_rng(0)), SMALLER, is_needed=True)
    test = check_conditions(moments, fit.raw, np.random.default_rng(0))
    assert test.p_value < 1e-6
    pairs = {tuple(pair) for pair in truth.blocks.pairs.tolist()}
    found = [(c.first, c.second) for c in test.correlations[:4]]
    assert set(found) <= pairs


def diagonal_but_for(correlations, n_rows, seed):
    """Rows of two components, features 0 and 1 correlated by so much in each."""
    rng = np.random.default_rng(seed)
    truth = block_law((2, 1, 1, 1, 1, 1), 2, seed=2)
    covariances = np.sqrt(truth.variances[:, 0] * truth.variances[:, 1]) * correlations
    law = Parameters(
        truth.weights, truth.means, truth.variances, covariances[:, None], truth.blocks
    )
    rows, _ = sample(law, n_rows, rng)
    moments, _ = summarized(rows, 4, 1)
    z = Parameters(
        law.weights, (law.means - moments.shift) / moments.scale, law.variances / moments.scale**2
    )
    return moments, z


@pytest.mark.parametrize("correlations", [(0.3, 0.3), (0.4, -0.4)])
def test_correlations_are_found_whatever_their_signs(correlations):
    moments, z = diagonal_but_for(np.array(correlations), 20_000, seed=0)
    first, second, *_ = check_conditions(moments, z, np.random.default_rng(0)).correlations
    assert (first.first, first.second) == (0, 1)
    assert abs(first.value) == pytest.approx(abs(correlations[0]), abs=0.05)
    assert abs(first.deviates) > 10 > 4.5 > abs(second.deviates)
    if correlations[1] > 0:
        assert first.value > 0 < first.deviates


def test_no_correlation_is_found_where_there_is_none():
    """Deviates are those of a normal law: about 5 % of the pairs of ten tables beyond 1.96."""
    deviates = []
    for seed in range(10):
        moments, z = diagonal_but_for(np.zeros(2), 20_000, seed)
        conditions = choose_conditions(moments, 2, np.random.default_rng(0))
        whitening = Whitening(conditions, z)
        remainder = whitening.projection.project(whitening.residual(conditions.values))
        found = find_correlations(whitening, conditions, z, remainder, moments.n_effective)
        deviates += [abs(c.deviates) for c in found]
    assert len(deviates) == 10 * 21
    share = np.mean(np.array(deviates) > 1.96)
    assert share < 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(deviates))
    assert max(deviates) < 4.0


# -- covariances for a density ----------------------------------------------------------------


# -- capacity ---------------------------------------------------------------------------------


def largest_by_all_partitions(sizes, order):
    def count(own, degree):
        return sum(prod(c) for s in range(degree + 1) for c in combinations(own, s))

    best = 1
    for sides in product("ABC", repeat=len(sizes)):
        a, b = ([k for k, side in zip(sizes, sides, strict=True) if side == s] for s in "AB")
        if a and b and "C" in sides:
            for p in range(1, order - 1):
                best = max(best, min(count(a, p), count(b, order - 1 - p)))
    return best


@pytest.mark.parametrize(
    "sizes", [(1,) * 7, (3,) * 5, (4, 4, 4, 1, 1), (5, 1), (5, 1, 1), (3, 2, 2, 1, 4, 1)]
)
def test_capacity_with_blocks_is_the_maximum_over_all_partitions(sizes):
    d, blocks = sum(sizes), blocks_of(sizes)
    for order in (3, 4, 5):
        expected = largest_by_all_partitions(sizes, order)
        assert robust_rank(d, order, blocks) == expected
        assert largest_rank(d, order, "robust", [list(b) for b in blocks.joined]) == expected


def test_orders_with_blocks():
    threes = [range(k, k + 3) for k in range(0, 15, 3)]
    assert smallest_order(15, 8, "robust", threes) == 5
    assert smallest_order(15, 8, "robust") == 3
    assert choose_order(15, 5, blocks=threes) == 4
    assert choose_order(15, 6, blocks=threes) == 5
    assert robust_rank(6, 4, [[0, 1, 2], [3, 4, 5]]) == 1  # two blocks

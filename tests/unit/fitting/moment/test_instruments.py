"""Instruments: closed forms against those of all conditions, and the steps that use them."""

from dataclasses import replace

import numpy as np
import pytest
from block_laws import block_law, exact_block_moments, standardized
from scipy.linalg import cho_factor, cho_solve, helmert

from momentmix.fitting.conditions.conditions import build_conditions, point_powers
from momentmix.fitting.conditions.derivative import derivative
from momentmix.fitting.conditions.monomial_covariance import monomial_correlation
from momentmix.fitting.moment.efficient import efficient_polish, instrumental_polish
from momentmix.fitting.moment.instruments import (
    CompleteMoments,
    Instruments,
    count_complete,
    feature_pairs,
    has_complete_moments,
    pair_products,
)
from momentmix.fitting.moment.polish import parameter_bounds
from momentmix.mixture.gaussian import product_moments, sample

N_ROWS = 50_000


class Case:
    """A law with blocks, its exact moments and their full covariance."""

    def __init__(self):
        law = block_law((3, 2, 2, 1), 3, seed=5)
        self.moments = exact_block_moments(law, n_rows=N_ROWS)
        self.truth = standardized(law)[0]
        self.complete = CompleteMoments(self.moments)
        self.instruments = Instruments(self.complete, self.truth)
        conditions = self.complete.conditions
        correlation, scale = monomial_correlation(conditions, self.truth)
        self.covariance = correlation * scale[:, None] * scale
        self.covariance[0] = self.covariance[:, 0] = 0.0  # of the constant
        table, r = derivative(conditions, self.truth).table(), self.truth.n_components
        self.slopes = np.hstack([table[:, :r] @ helmert(r).T, table[:, r:]])

    def information(self, rows):
        """That of some conditions with efficient weights."""
        own = self.covariance[np.ix_(rows, rows)]
        scale = np.sqrt(np.diagonal(own))
        matrix = own / scale / scale[:, None] + 1e-9 * np.eye(rows.size)
        slopes = self.slopes[rows] / scale[:, None]
        return slopes.T @ cho_solve(cho_factor(matrix), slopes)


@pytest.fixture(scope="module")
def case():
    return Case()


def test_monomials_are_found_by_their_features(case):
    d, rng = case.truth.means.shape[1], np.random.default_rng(0)
    assert case.complete.conditions.size == count_complete(d)
    features = rng.integers(0, d + 1, size=(50, 4))
    values = case.complete.conditions.values[case.complete.rows_of(features)]
    for row, value in zip(features, values, strict=True):
        expected = product_moments(case.truth, row[row < d][None])[0] if (row < d).any() else 1.0
        assert value == pytest.approx(expected, abs=1e-10)


def test_products_of_pairs_have_gaussian_moments(case):
    d, others = case.truth.means.shape[1], np.array([0, 2, 5, 8])
    assert d == 8  # so that the last of these is the constant
    table, pairs = pair_products(case.truth, others), feature_pairs(others)
    for i in range(case.truth.n_components):
        alone = replace(case.truth[i : i + 1], weights=np.ones(1))
        for a, first in enumerate(pairs):
            for b, second in enumerate(pairs):
                sets = np.concatenate([first, second])
                sets = sets[sets < d]
                expected = product_moments(alone, sets[None])[0] if sets.size else 1.0
                assert table[i, a, b] == pytest.approx(expected, abs=1e-10)


def test_combinations_of_conditions_are_those_of_rows(case):
    rows, _ = sample(case.truth, 4000, np.random.default_rng(1))
    products = case.complete.conditions.products(point_powers(rows, 4))
    instruments = Instruments(case.complete, case.truth)
    before = instruments.root
    instruments.measure(rows)
    white = instruments.whiten(products)
    white -= white.mean(axis=1, keepdims=True)
    # The covariance was taken from these rows by the polynomials, block by block.
    assert white @ white.T / len(rows) == pytest.approx(np.eye(len(white)), abs=1e-5)
    assert abs(before - instruments.root).max() > 0


def test_covariances_of_families_are_those_of_all_conditions(case):
    root = case.instruments.root
    white = case.instruments.whiten(case.covariance)  # V^{-1/2} βᵀ C
    covariance = case.instruments.whiten(white.T)
    r = case.truth.n_components
    widths = [r - 1] + [r * (k + k * (k + 1) // 2) for k in (3, 2, 2, 1)]
    assert sum(widths) == len(root)
    start = 0
    for width in widths:
        own = covariance[start : start + width, start : start + width]
        assert own == pytest.approx(np.eye(width), abs=1e-3)
        start += width
    between = covariance - np.eye(len(root))
    assert abs(between).max() > 0.1  # instruments of different blocks are not independent


def test_instruments_lose_little_and_part_of_the_conditions_much(case):
    n = case.complete.conditions.size
    whole = np.linalg.inv(case.information(np.arange(1, n)))
    white = case.instruments.whiten(case.slopes)
    covariance = case.instruments.whiten(case.instruments.whiten(case.covariance).T)
    inverse = np.linalg.inv(white)
    errors = np.diagonal(inverse @ covariance @ inverse.T) / np.diagonal(whole)
    assert errors.min() > 0.99  # none is better than efficient weights
    assert errors.mean() < 1.3
    rng = np.random.default_rng(2)
    part = np.sort(1 + rng.permutation(n - 1)[: n // 2])
    lost = np.diagonal(np.linalg.inv(case.information(part))) / np.diagonal(whole)
    assert lost.mean() > errors.mean()


def polished(case, moments):
    """Steps from the answer of orders up to 3."""
    rng = np.random.default_rng(3)
    tested = build_conditions(moments, 3, 1)
    tested = tested.subset(np.arange(1, tested.size))
    bounds = parameter_bounds(moments, moments.structure(case.truth.blocks), 3)
    start = replace(case.truth, means=case.truth.means + 0.01)
    first = efficient_polish(tested, start, bounds, N_ROWS, 1)
    return instrumental_polish(moments, tested, first, bounds, rng)


def test_exact_moments_give_the_truth(case):
    found, factor = polished(case, case.moments)
    errors = np.sqrt((factor**2).sum(axis=1))
    assert (abs(found.flat() - case.truth.flat()) < 0.15 * errors).all()


def test_errors_are_those_of_repeated_samples(case):
    """The standardized errors of a sample's estimate have mean square 1."""
    rows, _ = sample(case.truth, N_ROWS, np.random.default_rng(4))
    conditions = case.complete.conditions
    values = np.zeros(conditions.size)
    for start in range(0, N_ROWS, 5000):
        part = rows[start : start + 5000]
        values += conditions.products(point_powers(part, 4)).sum(axis=1) / N_ROWS
    exact = Instruments(case.complete, case.truth)
    exact.measure(sample(case.truth, 20_000, np.random.default_rng(5))[0])
    white = np.sqrt(N_ROWS) * exact.whiten(values - conditions.model(case.truth))
    # A χ² of white.size degrees of freedom, within four standard deviations.
    assert abs((white**2).mean() - 1) < 4 * np.sqrt(2 / white.size)
    twice = np.sqrt(2) * white  # of errors that are half as large in the square
    assert abs((twice**2).mean() - 1) > 4 * np.sqrt(2 / white.size)


def test_moments_that_contradict_each_other_are_left(case):
    # The start knows orders up to 3 only.
    orders = [*case.moments.orders[:4], case.moments.orders[4] + 0.2]
    wrong = replace(case.moments, orders=tuple(orders))
    assert polished(case, wrong) is None


def test_what_is_needed_is_asked_for(case):
    assert has_complete_moments(case.moments)
    assert not has_complete_moments(case.moments.truncated(3))
    assert not has_complete_moments(replace(case.moments, cubed=None))
    powers = np.array(case.moments.powers)
    powers[1, 0] = np.nan
    assert not has_complete_moments(replace(case.moments, powers=powers))

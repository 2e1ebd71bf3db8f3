"""Conditions of features with laws of their own: model, derivative, covariance, identities."""

from __future__ import annotations

import numpy as np
import pytest
from family_laws import drawn, mixed_law, standard_moments

from momentmix.fitting.em import scores
from momentmix.fitting.em.scores import information_matrix, mean_score
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.conditions import (
    build_conditions,
    point_powers,
)
from momentmix.fitting.moments.covariance import monomial_correlation
from momentmix.fitting.moments.derivative import by_feature, derivative, gram
from momentmix.fitting.moments.spread import resolvable
from momentmix.fitting.moments.whitening import Whitening
from momentmix.mixture.density import statistics_of
from momentmix.mixture.gaussian import coefficients, features_of, sample
from momentmix.mixture.parameters import dependent_places, parameters_from


@pytest.fixture(scope="module")
def case():
    rows, _ = drawn(4000)
    moments = standard_moments(rows)
    conditions = build_conditions(moments, 4, 2, highest_power=6)
    p = mixed_law().standardized(moments.shift, moments.scale)
    return p, conditions.subset(np.arange(1, conditions.size)), moments


def test_model_is_the_mean_over_many_rows(case):
    p, conditions, _ = case
    n = 40_000
    rows, _ = sample(p, n, np.random.default_rng(1))
    total, squares = np.zeros(conditions.size), np.zeros(conditions.size)
    for part in np.split(rows, 40):
        products = conditions.products(point_powers(part, conditions.highest_exponent))
        total += products.sum(axis=1)
        squares += (products**2).sum(axis=1)
    mean = total / n
    errors = np.sqrt((squares / n - mean**2) / n)
    gaps = (mean - conditions.model(p)) / errors
    assert np.abs(gaps).max() < 5.5  # of about two thousand conditions
    assert 0.8 < np.sqrt((gaps**2).mean()) < 1.2
    # A control: without the law of the counts the gaps are far beyond.
    other = p.__class__(p.weights, p.means, p.variances, p.covariances, p.blocks)
    moved = other.means.copy()
    moved[:, 6] += 0.1
    wrong = p.__class__(p.weights, moved, p.variances, p.covariances, p.blocks).completed()
    assert np.abs((mean - conditions.model(wrong)) / errors).max() > 8


def test_covariance_is_that_of_many_rows(case):
    p, conditions, _ = case
    chosen = np.sort(np.random.default_rng(2).choice(conditions.size, 150, replace=False))
    part = conditions.subset(chosen)
    correlation, scale = monomial_correlation(part, p)
    rows, _ = sample(p, 60_000, np.random.default_rng(3))
    products = part.products(point_powers(rows, part.highest_exponent))
    low = np.flatnonzero(part.slot_exponents.sum(axis=1) <= 4)  # high powers are too noisy here
    observed = np.corrcoef(products[low])
    assert np.abs(observed - correlation[np.ix_(low, low)]).max() < 0.12
    assert np.abs(products[low].std(axis=1) / scale[low] - 1).max() < 0.15


def test_derivative_is_that_of_the_model(case):
    p, conditions, _ = case
    table = derivative(conditions, p).table
    order, flat, step = by_feature(p), p.flat(), 1e-6
    dependent = set(dependent_places(p).tolist())
    for column, place in enumerate(order.tolist()):
        if place in dependent:
            assert not table[:, column].any()
            continue
        ends = []
        for sign in (1, -1):
            moved = flat.copy()
            moved[place] += sign * step
            ends.append(conditions.model(parameters_from(moved, p.n_components, p.blocks)))
        expected = (ends[0] - ends[1]) / (2 * step)
        np.testing.assert_allclose(table[:, column], expected, rtol=1e-4, atol=2e-5)


def test_identities_take_no_part(case):
    p, conditions, _ = case
    whitening = Whitening(conditions, p)
    assert whitening.independent.all()  # no condition is a combination of those before it
    plain = standard_moments(drawn(4000)[0])
    without = plain.__class__(**{**plain.__dict__, "laws": ()})
    everything = build_conditions(without, 4, 2, highest_power=6)
    assert everything.size > conditions.size + 1
    everything = everything.subset(np.arange(1, everything.size))
    assert not Whitening(everything, p).independent.all()


def test_degrees_of_freedom_count_free_parameters(case):
    p, conditions, _ = case
    whitening = Whitening(conditions, p)
    assert whitening.projection.rank == p.n_free
    # Ten features have laws: means only, but for the variance of the number that may be missing.
    per_component = 1 + 11 + 3 + 1 + 1
    assert p.blocks.n_parameters == per_component


@pytest.mark.parametrize("mostly", [0.0, 2.0])  # all components at once, and pairs of them
@pytest.mark.parametrize("weighted", [False, True])
def test_information_is_the_mean_outer_product_of_scores(case, mostly, weighted, monkeypatch):
    p, _, _ = case
    monkeypatch.setattr(scores, "_MOSTLY", mostly)
    features = features_of(drawn_standard(p)[:60], p.blocks)
    weights = np.random.default_rng(8).uniform(0.5, 2.0, 60) if weighted else None
    parts = [statistics_of(coefficients(p)[None], row[:, None], p.blocks) for row in features.T]
    of_rows = np.array([mean_score(statistics[0], p) for statistics, _ in parts])
    own = np.ones(60) if weights is None else weights
    expected = (of_rows.T * own) @ of_rows / own.sum()
    places = dependent_places(p)
    expected[places, places] = 1.0
    found = information_matrix(features, p, weights=weights)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def drawn_standard(p):
    return sample(p, 2000, np.random.default_rng(5))[0]


def test_several_mixtures_are_raised_as_each_of_them(case):
    p, _, moments = case
    rng = np.random.default_rng(0)
    errors = Uncertainty(p, 0.1 * rng.standard_normal((p.n_places, 5)), False)
    drawn, structure = errors.draw(rng, 3), moments.structure(p.blocks)
    together = resolvable(drawn, errors, structure)
    for k in range(3):
        alone = resolvable(drawn[k], errors, structure)
        assert np.abs(alone.flat() - drawn[k].flat()).max() > 1e-3
        np.testing.assert_allclose(together[k].flat(), alone.flat(), rtol=1e-12)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_the_normal_matrix_of_an_empty_table(shape, capfd):
    np.testing.assert_array_equal(gram(np.zeros(shape)), np.zeros((shape[1], shape[1])))
    assert capfd.readouterr() == ("", "")

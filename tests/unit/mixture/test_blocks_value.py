"""Mixtures with joined columns against SciPy's joint law and the textbook's formulas."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import momentmix as mm
from momentmix.errors import InputError, InputTypeError
from momentmix.mixture.matching import (
    clustering_accuracy,
    largest_factor_error,
    match_components,
)
from momentmix.mixture.mixture import mixture_of_parameters

NAMES = ("a", "b", "c", "d", "e", "f")


def random_mixture(seed=0, r=3, d=6, groups=((0, 2, 5), (1, 4)), names=NAMES):
    rng = np.random.default_rng(seed)
    covariances = np.zeros((r, d, d))
    covariances[:, range(d), range(d)] = 0.2 + rng.random((r, d))
    for group in groups:
        factor = rng.standard_normal((r, len(group), len(group) + 2))
        covariances[np.ix_(range(r), group, group)] = factor @ factor.swapaxes(1, 2)
    weights = rng.dirichlet(np.full(r, 5.0))
    return mm.Mixture(weights, 3 * rng.standard_normal((r, d)), covariances, names)


@pytest.fixture
def mixture():
    return random_mixture()


def assert_same(found, expected, rtol=1e-10):
    for name in ("weights", "means", "covariances"):
        np.testing.assert_allclose(
            getattr(found, name), getattr(expected, name), rtol=rtol, atol=rtol
        )
    assert found.feature_names == expected.feature_names


# -- the value ----------------------------------------------------------------------------------


def test_blocks_are_those_that_zeros_show():
    ones = np.array([np.eye(3)])
    shown = mm.Mixture([1.0], [[0.0] * 3], ones)
    assert [block.columns for block in shown.blocks] == [(0,), (1,), (2,)]
    # 0 and 2 are connected by 1 alone.
    chain = np.array([[[1.0, 0.5, 0.0], [0.5, 1.0, 0.5], [0.0, 0.5, 1.0]]])
    assert [b.columns for b in mm.Mixture([1.0], [[0.0] * 3], chain).blocks] == [(0, 1, 2)]


def test_mixtures_do_not_change(mixture):
    for array in (mixture.weights, mixture.means, mixture.variances, mixture.covariances):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(AttributeError, match="cannot assign to field"):
        mixture.weights = None
    before = pickle.dumps(mixture)
    assert_same(pickle.loads(before), mixture, rtol=0)
    mixture.log_prob(mixture.means)
    assert pickle.dumps(mixture) == before
    diagonal = mm.Mixture.diagonal([1.0], [[0.0]], [[2.0]], ["x"])
    assert diagonal.with_feature_names(None).feature_names is None
    assert diagonal.covariances.tolist() == [[[2.0]]]
    assert diagonal.blocks[0].covariances.tolist() == [[[2.0]]]


ONE = ([1.0], [[0.0, 0.0]])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            (*ONE, [[1.0, 1.0]]),
            r"shape \(1, 2, 2\).*got \(1, 2\).*Mixture.diagonal takes",
        ),
        (
            (*ONE, [[[1.0]]]),
            r"shape \(1, 2, 2\).*got \(1, 1, 1\).*Mixture.diagonal takes",
        ),
        ((*ONE, [[[1.0, np.nan], [0.0, 1.0]]]), "covariances must be finite"),
        ((*ONE, [[[1.0, 0.5], [0.4, 1.0]]]), r"symmetric.*0.5 at \(0, 1\) and 0.4.*c \+ c.T"),
        ((*ONE, [[[1.0, 2.0], [2.0, 1.0]]]), "positive semidefinite.*component 0.*eigenvalue -1"),
        ((*ONE, [[[0.0, 1.0], [1.0, 1.0]]]), "positive semidefinite"),
        ((*ONE, [[[-1.0, 0.0], [0.0, 1.0]]]), "variances must be non-negative"),
        ((*ONE, [np.eye(2)], ["x"]), "2 different strings"),
    ],
)
def test_bad_parameters_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        mm.Mixture(*parts)


# -- densities and draws ------------------------------------------------------------------------


def test_draws_have_the_means_and_covariances_of_the_components(mixture):
    n = 60_000
    rows, labels = mixture.sample(n, random_state=3)
    assert np.abs(np.bincount(labels) / n - mixture.weights).max() < 5 * np.sqrt(0.25 / n)
    for i in range(3):
        own, m, c = rows[labels == i], mixture.means[i], mixture.covariances[i]
        v = np.diag(c)
        mean_errors = np.sqrt(v / len(own))
        assert (np.abs(own.mean(0) - m) < 5 * mean_errors).all()
        errors = np.sqrt((c**2 + np.outer(v, v)) / len(own))  # of covariances of normal rows
        assert (np.abs(np.cov(own.T) - c) < 5 * errors).all()
        # Negative control: the diagonal law fails the same test.
        assert (np.abs(np.cov(own.T) - np.diag(v)) > 5 * errors).any()


def test_singular_covariances_have_draws_but_no_density():
    copies = mm.Mixture([1.0], [[0.0, 0.0]], [[[1.0, 1.0], [1.0, 1.0]]])
    rows, _ = copies.sample(10, random_state=0)
    np.testing.assert_allclose(rows[:, 0], rows[:, 1])
    with pytest.raises(InputError, match=r"singular covariances.*to the diagonal"):
        copies.log_prob(rows)
    with pytest.raises(InputError, match=r"joined columns 0, 1 are singular.*to the diagonal"):
        copies.condition({0: 1.0})


def test_densities_do_not_depend_on_the_units(mixture):
    rows, _ = mixture.sample(40, random_state=0)
    units = np.array([1e-90, 1e80, 1.0, 1e3, 1e-60, 1e70])
    scaled = mixture_of_parameters(mixture.parameters.restored(np.zeros(6), units))
    expected = mixture.log_prob(rows) - np.log(units).sum()
    np.testing.assert_allclose(scaled.log_prob(rows * units), expected)
    back = scaled.parameters.standardized(np.zeros(6), units)
    np.testing.assert_allclose(back.matrices, mixture.covariances, rtol=1e-12, atol=1e-14)


# -- some columns given others ------------------------------------------------------------------


def textbook(mixture, known, values):
    """Weights, means and covariances of the other columns by the joint law's formulas."""
    others = [j for j in range(mixture.n_features) if j not in known]
    weights, means, covariances = [], [], []
    for w, m, c in zip(mixture.weights, mixture.means, mixture.covariances, strict=True):
        a, b = c[np.ix_(known, known)], c[np.ix_(others, known)]
        weights.append(w * stats.multivariate_normal(m[known], a).pdf(values))
        means.append(m[others] + b @ np.linalg.solve(a, values - m[known]))
        covariances.append(c[np.ix_(others, others)] - b @ np.linalg.solve(a, b.T))
    return np.array(weights) / sum(weights), np.array(means), np.array(covariances)


@pytest.mark.parametrize("known", [[0], [3], [5, 1], [0, 2, 5], [4, 2, 0, 3], [0, 1, 2, 4, 5]])
def test_conditions_are_those_of_the_textbook(mixture, known):
    values = np.random.default_rng(4).standard_normal(len(known))
    found = mixture.condition(dict(zip(known, values, strict=True)))
    for array, expected in zip(
        (found.weights, found.means, found.covariances),
        textbook(mixture, known, values),
        strict=True,
    ):
        np.testing.assert_allclose(array, expected, rtol=1e-9, atol=1e-12)
    assert found.feature_names == tuple(NAMES[j] for j in range(6) if j not in known)
    by_name = mixture.condition({NAMES[j]: x for j, x in zip(known, values, strict=True)})
    assert_same(by_name, found, rtol=0)
    row = pd.Series(values, index=[NAMES[j] for j in known])
    assert_same(mixture.condition(row), found, rtol=0)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda m: m.select([0, 0]), "differ from each other"),
        (lambda m: m.select(["z"]), "no feature named 'z'"),
        (lambda m: m.condition(dict.fromkeys(range(6), 0.0)), "all 6 columns are known"),
        (lambda m: m.condition({0: np.inf}), r"not finite, or so far from all.*units"),
        (lambda m: m.condition([1.0, 2.0]), "values must be cells by column"),
        (lambda m: m.align("other"), "other must be a mixture; got str"),
        (lambda m: m.align(random_mixture(r=2)), "mixtures to align must"),
    ],
)
def test_bad_arguments_are_refused(mixture, use, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        use(mixture)


# -- two mixtures -------------------------------------------------------------------------------


def test_components_of_equal_means_are_matched_by_their_covariances():
    tilted = [[[1.0, 0.9], [0.9, 1.0]], [[1.0, -0.9], [-0.9, 1.0]]]
    truth = mm.Mixture([0.5, 0.5], np.ones((2, 2)), tilted)
    turned = mm.Mixture([0.5, 0.5], [[1.1, 1.0], [1.0, 1.0]], tilted[::-1])
    assert match_components(truth, turned).tolist() == [1, 0]
    wide = mm.Mixture.diagonal([0.5, 0.5], np.zeros((2, 1)), [[1.0], [9.0]])
    narrow = mm.Mixture.diagonal([0.5, 0.5], np.zeros((2, 1)), [[8.0], [1.1]])
    assert match_components(wide, narrow).tolist() == [1, 0]


def test_factor_error_forgives_order_and_roots_of_unity_only():
    rng = np.random.default_rng(0)
    factors = rng.standard_normal((5, 8))
    units = np.exp(2j * np.pi * np.arange(5) / 4)
    turned = (units[:, None] * factors)[[3, 1, 4, 0, 2]]
    assert largest_factor_error(factors, turned, 4) < 1e-15
    assert largest_factor_error(factors, turned, 3) > 0.1
    assert largest_factor_error(factors, 1.01 * factors, 4) == pytest.approx(0.01)


def test_accuracy_is_blind_to_names():
    assert clustering_accuracy([0, 0, 1, 1, 2], [2, 2, 0, 0, 1]) == 1.0
    assert clustering_accuracy([0, 0, 0, 1], [0, 1, 2, 3]) == 0.5

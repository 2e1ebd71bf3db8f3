"""Distributions of features: each map against what it stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from momentmix.families.counts import Poisson
from momentmix.families.dispersed_counts import NegativeBinomial
from momentmix.families.distribution import Distribution
from momentmix.families.gaussian import Gaussian
from momentmix.families.levels import Bernoulli, Categorical
from momentmix.mixture.prior import VariancePrior

from .toys import Geometric, Trials

PRIOR = VariancePrior(1e-6, 0.5, 0.01)
SIZED = NegativeBinomial().covering(900)
RAW = {
    "yes/no": Distribution((0,), Bernoulli()),
    "category": Distribution((0, 1, 2), Categorical()),
    "yes/no, missing": Distribution((0, 1), Bernoulli(), True),
    "category, missing": Distribution((0, 1, 2), Categorical(), True),
    "count": Distribution((0,), Poisson()),
    "number, missing": Distribution((0, 1), Gaussian(), True),
    "count, missing": Distribution((0, 1), Poisson(), True),
    "geometric": Distribution((0,), Geometric()),
    "trials": Distribution((0,), Trials()),
    "overdispersed": Distribution((0,), SIZED),
    "overdispersed, missing": Distribution((0, 1), SIZED, True),
    "missing cells alone": Distribution((0,), Categorical(), True),
}
UNITS = {  # shift and scale of the features
    "yes/no": ([0.3], [0.5]),
    "category": ([0.3, 0.2, 0.1], [0.5, 0.4, 0.3]),
    "yes/no, missing": ([0.3, 0.8], [0.4, 0.4]),
    "category, missing": ([0.3, 0.2, 0.9], [0.5, 0.4, 0.3]),
    "count": ([2.5], [1.7]),
    "number, missing": ([0.4, 0.7], [1.3, 0.45]),
    "count, missing": ([1.8, 0.7], [1.6, 0.45]),
    "geometric": ([2.5], [1.7]),
    "trials": ([2.5], [1.7]),
    "overdispersed": ([6.5], [4.0]),
    "overdispersed, missing": ([1.8, 0.7], [2.5, 0.45]),
    "missing cells alone": ([0.7], [0.45]),
}
# Means of raw features and variances of free ones, of three components.
MEANS = {
    "yes/no": [[0.2], [0.5], [0.9]],
    "category": [[0.2, 0.3, 0.1], [0.5, 0.1, 0.05], [0.25, 0.25, 0.25]],
    "yes/no, missing": [[0.2, 0.7], [0.5, 0.6], [0.1, 0.95]],
    "category, missing": [[0.2, 0.3, 0.7], [0.5, 0.1, 0.9], [0.25, 0.25, 0.6]],
    "count": [[0.4], [2.0], [7.0]],
    "number, missing": [[0.2, 0.5], [0.9, 0.8], [-0.3, 0.3]],
    "count, missing": [[0.4, 0.5], [2.0, 0.8], [1.0, 0.3]],
    "geometric": [[0.4], [2.0], [5.0]],
    "trials": [[1.4], [2.0], [5.0]],
    "overdispersed": [[1.5], [3.0], [11.0]],
    "overdispersed, missing": [[0.4, 0.5], [2.0, 0.8], [1.0, 0.3]],
    "missing cells alone": [[0.4], [0.8], [0.6]],
}
NAMES = list(RAW)


def standard(name: str) -> tuple[Distribution, np.ndarray, np.ndarray]:
    """A law of standardized features, with means and variances of three components."""
    shift, scale = (np.array(x) for x in UNITS[name])
    law = RAW[name].rescaled(shift, scale)
    means = (np.array(MEANS[name]) - shift) / scale
    variances = np.full(means.shape, 0.9)
    return law, *law.completed(means, variances)


def differences(
    law: Distribution, function: Callable[..., Any], means: np.ndarray, variances: np.ndarray
) -> Iterator[tuple[int, bool, Any]]:
    """Number of each parameter, whether it is free, and the difference quotient where it is."""
    k, step = means.shape[1], 1e-6
    for j in range(2 * k):
        if j >= k and not law.free[j - k]:
            yield j, False, None
            continue
        move = np.zeros((2, *means.shape))
        move[j // k, :, j % k] = step
        up = function(means + move[0], variances + move[1])
        down = function(means - move[0], variances - move[1])
        yield j, True, (up - down) / (2 * step)


def t_of(values: np.ndarray, law: Distribution) -> np.ndarray:
    """(z, z², t, 1) of rows (n, k), of shape (2k + m + 1, n)."""
    own = law.statistics(values.T)
    return np.vstack([values.T, values.T**2, own, np.ones(len(values))])


PMF = {
    Poisson: lambda counts, mean, v: stats.poisson.pmf(counts, mean),
    Geometric: lambda counts, mean, v: stats.geom.pmf(counts + 1, 1 / (1 + mean)),
    Trials: lambda counts, mean, v: stats.geom.pmf(counts, 1 / mean),
    NegativeBinomial: lambda counts, mean, v: stats.nbinom.pmf(
        counts, mean**2 / (v - mean), mean / v
    ),
}


def value_points(law: Distribution, mean: np.ndarray, variance: np.ndarray) -> tuple:
    """Values (n, k) of one component whose weighted sums are means."""
    if law.family.has_levels:
        return np.eye(len(mean) + 1)[:, 1:], np.append(1 - mean.sum(), mean)
    if type(law.family) in PMF:
        counts = np.arange(900.0)
        return counts[:, None], PMF[type(law.family)](counts, mean[0], variance[0])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    return mean + np.sqrt(variance) * nodes[:, None], weights / weights.sum()


def rows_and_weights(law: Distribution, means: np.ndarray, variances: np.ndarray) -> tuple:
    """Rows of features and weights whose sums are means under one component."""
    mean, variance, q = law.value_of(means, variances)
    values, weights = value_points(law, mean, variance)
    if law.has_missing:
        values = np.vstack([np.zeros(len(means)), np.hstack([values, np.ones((len(values), 1))])])
        weights = np.concatenate([[1 - q], q * weights])
    return (values - law.shift) / law.scale, weights


@pytest.mark.parametrize("name", NAMES)
def test_completed_parameters_are_the_moments_of_the_law(name: str) -> None:
    law, means, variances = standard(name)
    for m, v in zip(means, variances, strict=True):
        rows, weights = rows_and_weights(law, m, v)
        np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
        np.testing.assert_allclose(weights @ rows, m, atol=1e-12)
        np.testing.assert_allclose(weights @ (rows - m) ** 2, v, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_density_is_linear_in_the_statistics(name: str) -> None:
    law, means, variances = standard(name)
    table = law.coefficients(means, variances)
    for i, (m, v) in enumerate(zip(means, variances, strict=True)):
        if isinstance(law.family, Gaussian):
            rng = np.random.default_rng(1)
            rows, found = law.sample(m, v, 50, rng), law.value_of(m, v)
            observed = rows[:, 1] > law.observed_middle
            expected = np.full(50, np.log(1 - found.observed))
            values = law.shift[0] + law.scale[0] * rows[observed, 0]  # the density is that of them
            inner = stats.norm(found.mean[0], found.variance[0] ** 0.5).logpdf(values)
            expected[observed] = np.log(found.observed) + inner
        else:
            rows, weights = rows_and_weights(law, m, v)
            rows, weights = rows[weights > 1e-12], weights[weights > 1e-12]
            expected = np.log(weights)
        base = law.base_measure(rows)
        got = table[i] @ t_of(rows, law) + (0.0 if base is None else base)
        np.testing.assert_allclose(got, expected, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_moments_and_their_derivatives(name: str) -> None:
    law, means, variances = standard(name)
    k = means.shape[1]
    exponents = np.array(np.meshgrid(*[range(4)] * k)).reshape(k, -1).T
    moments = law.moments(means, variances, exponents)
    for i, (m, v) in enumerate(zip(means, variances, strict=True)):
        rows, weights = rows_and_weights(law, m, v)
        expected = (rows[:, None, :] ** exponents).prod(axis=2).T @ weights
        np.testing.assert_allclose(moments[:, i], expected, rtol=1e-9, atol=1e-9)
    sums = (exponents[:, None] + exponents).reshape(-1, k)
    expected = law.moments(means, variances, sums).T.reshape(-1, len(exponents), len(exponents))
    np.testing.assert_allclose(
        law.products(means, variances, exponents), expected, rtol=1e-9, atol=1e-9
    )
    slopes = law.slopes(means, variances, exponents)
    for j, is_free, expected in differences(
        law, lambda m, v: law.moments(m, v, exponents), means, variances
    ):
        if is_free:
            np.testing.assert_allclose(slopes[:, j], expected, rtol=1e-6, atol=1e-6)
        else:
            np.testing.assert_array_equal(slopes[:, j], 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_scores_are_derivatives_of_the_density(name: str) -> None:
    law, means, variances = standard(name)
    rows = np.vstack(
        [
            law.sample(m, v, 20, np.random.default_rng(2))
            for m, v in zip(means, variances, strict=True)
        ]
    )
    scores = law.scores(means, variances) @ t_of(rows, law)
    for j, is_free, expected in differences(
        law, lambda m, v: law.coefficients(m, v) @ t_of(rows, law), means, variances
    ):
        if is_free:
            np.testing.assert_allclose(scores[:, j], expected, rtol=2e-5, atol=2e-5)
        else:
            np.testing.assert_array_equal(scores[:, j], 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_prior_slopes_are_derivatives_of_the_prior(name: str) -> None:
    law, means, variances = standard(name)
    slope, curvature = law.prior_slopes(means, variances, PRIOR)
    assert (np.linalg.eigvalsh(curvature) > -1e-9).all()
    for j, is_free, expected in differences(
        law, lambda m, v: law.log_prior(m, v, PRIOR), means, variances
    ):
        if is_free:
            np.testing.assert_allclose(slope[:, j], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_m_step_maximizes_likelihood_and_prior(name: str) -> None:
    law, means, variances = standard(name)
    rng = np.random.default_rng(3)
    rows = np.vstack([law.sample(m, v, 200, rng) for m, v in zip(means, variances, strict=True)])
    # The prior knows the distribution of all rows, whose means are 0.
    shift, scale = rows.mean(axis=0), rows.std(axis=0)
    law, rows = law.rescaled(shift, scale), (rows - shift) / scale
    rows = rows[:150]
    n = np.array([[float(len(rows))]])
    best = law.m_step(
        n,
        rows.sum(axis=0)[None],
        (rows**2).sum(axis=0)[None],
        law.statistics(rows.T).sum(axis=1)[None],
        PRIOR,
    )

    def objective(m: np.ndarray, v: np.ndarray) -> float:
        likelihood = (law.coefficients(m, v) @ t_of(rows, law)).sum()
        return float(likelihood + law.log_prior(m, v, PRIOR)[0])

    top, k = objective(*best), best[0].shape[1]
    for j in range(2 * k):
        if j >= k and not law.free[j - k]:
            continue
        for size in (1e-3, -1e-3):
            move = np.zeros((2, 1, k))
            move[j // k, 0, j % k] = size
            moved = law.completed(best[0] + move[0], best[1] + move[1])
            # Small steps along q of a Gaussian value change the prior of the variance a little.
            assert objective(*moved) < top + 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_samples_have_the_means_and_variances(name: str) -> None:
    law, means, variances = standard(name)
    n = 40_000
    rows = law.sample(means[1], variances[1], n, np.random.default_rng(4))
    errors = np.sqrt(variances[1] / n)
    assert (np.abs(rows.mean(axis=0) - means[1]) < 4.5 * errors).all()
    assert (np.abs(rows.mean(axis=0) - means[0]) > 4.5 * errors).any()  # another component's
    np.testing.assert_allclose(rows.var(axis=0), variances[1], rtol=0.1)


def test_without_a_constant_feature() -> None:
    yes, categories = RAW["yes/no, missing"], RAW["category"]
    assert yes.without(1) == RAW["yes/no"]
    assert RAW["number, missing"].without(1) is None
    assert RAW["number, missing"].without(0) == Distribution((1,), Categorical(), True)
    assert RAW["count, missing"].without(1) == RAW["count"]
    assert categories.without(0) == Distribution((1, 2), Categorical())


@pytest.mark.parametrize("name", [name for name in NAMES if RAW[name].has_missing])
def test_gaps_at_random_are_left_out_of_the_density(name: str) -> None:
    modeled, means, variances = standard(name)
    law = replace(modeled, at_random=True)
    means, variances = law.completed(means, variances)
    np.testing.assert_allclose(means[:, -1], 0.0, atol=1e-12)  # the share of all rows
    rows = modeled.sample(means[0], variances[0], 200, np.random.default_rng(3))
    table = t_of(rows, law)
    logs, with_gaps = (x.coefficients(means, variances) @ table for x in (law, modeled))
    gone = rows[:, -1] < law.observed_middle
    assert 0 < gone.sum() < 200
    assert np.abs(logs[:, gone]).max() < 1e-9
    np.testing.assert_allclose(np.ptp(with_gaps - logs, axis=0), 0.0, atol=1e-9)
    free = np.arange(2 * means.shape[1]) != means.shape[1] - 1
    scores, others = (x.scores(means, variances) for x in (law, modeled))
    assert not scores[:, ~free].any()
    np.testing.assert_allclose(scores[:, free] @ table, others[:, free] @ table, atol=1e-9)
    slope, _ = law.prior_slopes(means, variances, PRIOR)
    assert not slope[:, ~free].any()
    sums = [np.full((1, 1), 200.0), *(x.sum(axis=0)[None] for x in (rows, rows**2))]
    own = law.statistics(rows.T).sum(axis=1)[None]
    found, expected = (x.m_step(*sums, own, PRIOR) for x in (law, modeled))
    np.testing.assert_allclose(found[0][:, -1], 0.0, atol=1e-12)
    for one, other in zip(law.value_of(*found)[:2], law.value_of(*expected)[:2], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert not law.at_zero(means, variances, np.full(3, 1e-9))[:, 0].any()  # no gap is at a bound

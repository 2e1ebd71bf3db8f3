"""Laws whose low moments hardly tell: from a summary, no wrong fit passes.

Wrong is what loses 0.02 of accuracy against the truth, twice what a certificate allows, or 0.1 nats
a row where components overlap so much that labels say little.
"""

from functools import cache

import numpy as np
import pytest

import momentmix as mm
from momentmix.mixture.matching import clustering_accuracy


def law(weights, means, variances):
    return mm.Mixture.diagonal(np.asarray(weights), np.asarray(means), np.asarray(variances))


def one_column(rng):
    """Two clusters 3 to 6 deviations apart in one column."""
    means = np.zeros((2, 8))
    means[1, rng.integers(8)] = rng.uniform(3, 6)
    return law([0.4, 0.6], means, np.tile(rng.uniform(0.5, 1.5, 8), (2, 1)))


def equal_means(rng):
    """One mean, different variances."""
    variances = np.exp(0.8 * rng.standard_normal((2, 6)))
    return law([0.55, 0.45], np.zeros((2, 6)), variances)


def nearly_equal_means(rng):
    variances = np.exp(0.8 * rng.standard_normal((2, 6)))
    return law([0.5, 0.5], 0.2 * rng.standard_normal((2, 6)), variances)


def on_a_line(rng):
    """Three means 4 deviations from each other, in a random direction."""
    direction = rng.standard_normal(7)
    positions = 4.0 * np.arange(3)[:, None]
    means = positions * direction / np.linalg.norm(direction)
    return law([0.3, 0.3, 0.4], means, rng.uniform(0.6, 1.5, (3, 7)))


def two_columns(rng):
    means = np.zeros((2, 8))
    means[1, :2] = rng.uniform(2, 5, 2)
    return law([0.35, 0.65], means, np.ones((2, 8)))


LAWS = [one_column, equal_means, nearly_equal_means, on_a_line, two_columns]


@cache
def fitted(make, seed, more=0):
    """A law, and a fit of its number of components, or of more or fewer, from a summary."""
    truth = make(np.random.default_rng([seed, LAWS.index(make)]))
    rows, _ = truth.sample(20_000, random_state=seed)
    summary = mm.summarize(rows, order=4)
    return truth, mm.fit(summary, truth.n_components + more, random_state=0)


def is_wrong(mixture, truth):
    rows, labels = truth.sample(20_000, random_state=10**6)
    best = (truth.predict(rows) == labels).mean()
    lost = best - clustering_accuracy(labels, mixture.predict(rows))
    nats = truth.log_prob(rows).mean() - mixture.log_prob(rows).mean()
    return lost > 0.02 or nats > 0.1


@pytest.mark.parametrize("make", LAWS)
def test_no_wrong_fit_passes(make):
    truth, result = fitted(make, 0)
    assert not (is_wrong(result.mixture, truth) and result.certificate.passed)


def test_most_of_them_are_right_and_pass():
    """Control: a certificate that passes nothing would do for the test above."""
    fits = [fitted(make, 0) for make in LAWS]
    right = [fit.certificate.passed and not is_wrong(fit.mixture, truth) for truth, fit in fits]
    assert sum(right) >= 4


@pytest.mark.parametrize("make", [one_column, equal_means, on_a_line])
def test_one_component_less_does_not_pass(make):
    """Control: a fit that is wrong for sure."""
    truth, result = fitted(make, 2, more=-1)
    assert is_wrong(result.mixture, truth)
    assert result.certificate.verdict == "not passed"
    assert result.certificate.p_value < 0.01


@pytest.mark.parametrize("make", [one_column, two_columns])
def test_one_component_more_is_not_supported(make):
    certificate = fitted(make, 3, more=1)[1].certificate
    assert certificate.verdict == "not passed"
    assert certificate.support.supported is False
    assert "fit the moments too" in certificate.support.text

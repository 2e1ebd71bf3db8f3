"""EM passes, starts, pooling and scores against naive versions of themselves."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from fitting_helpers import random_mixture
from scipy.special import logsumexp
from scipy.stats import norm

import momentmix as mm
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import rows_of, summarized
from momentmix.fitting.em import passes
from momentmix.fitting.em.em import draw_sample, em_pass, log_likelihoods, run_batch, settle
from momentmix.fitting.em.passes import climb
from momentmix.fitting.em.pooling import merged_down, merges_by_bound, pool_weights
from momentmix.fitting.em.scores import information_matrix, mean_score, scoring_step
from momentmix.fitting.em.starts import seeded_starts
from momentmix.mixture.gaussian import coefficients, features_of, m_step
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.tables.rows import ArrayRows

FLOOR = np.full(4, 1e-6)
NO_PRIOR = VariancePrior(FLOOR)


@pytest.fixture(scope="module")
def case():
    truth = random_mixture(3, 4, seed=0, spread=2.0)
    rows, _ = truth.sample(3000, random_state=1)
    moments, _ = summarized(rows, 4, 1)
    return rows, moments, truth.parameters.standardized(moments.shift, moments.scale)


def naive_step(z, p):
    logs = np.array(
        [
            np.log(w) + norm.logpdf(z, m, np.sqrt(v)).sum(axis=1)
            for w, m, v in zip(p.weights, p.means, p.variances, strict=True)
        ]
    ).T
    shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    counts = shares.sum(axis=0)
    means = shares.T @ z / counts[:, None]
    variances = np.array([shares[:, i] @ (z - means[i]) ** 2 / counts[i] for i in range(3)])
    return logsumexp(logs, axis=1).sum(), Parameters(counts / counts.sum(), means, variances)


def test_a_pass_is_the_naive_em_step(case):
    rows, moments, p = case
    cut = ArrayRows(rows)
    cut.block_size = 700
    done = em_pass(cut, moments, p)
    total, expected = naive_step((rows - moments.shift) / moments.scale, p)
    assert done.log_likelihood == pytest.approx(total)
    found = m_step(done.statistics, NO_PRIOR)
    np.testing.assert_allclose(found.weights, expected.weights)
    np.testing.assert_allclose(found.means, expected.means, atol=1e-12)
    np.testing.assert_allclose(found.variances, expected.variances)


def test_mixtures_settle_at_the_maximum_next_to_them(case):
    rows, moments, p = case
    features = features_of((rows - moments.shift) / moments.scale)
    prior = VariancePrior.of_rows(len(rows), 3, FLOOR)
    rest, *_ = run_batch(features, p[None], prior, 300)
    far = Parameters(rest.weights, rest.means + 1.0, rest.variances)
    start = Parameters.concatenate([rest, far, p[None]])
    settled, values = settle(features, start, prior, 60, target=-np.inf)
    np.testing.assert_allclose(settled.means[0], rest.means[0], atol=1e-3)
    assert values[2] == pytest.approx(values[0], abs=1e-2)


def test_components_out_of_reach_take_no_rows(case):
    rows, moments, p = case
    far = Parameters(
        np.append(0.5 * p.weights, 0.5), np.vstack([p.means, np.full(4, 1e3)]),
        np.vstack([p.variances, np.ones(4)]),
    )  # fmt: skip
    near, both = (em_pass(ArrayRows(rows), moments, q) for q in (p, far))
    np.testing.assert_allclose(both.statistics[:3], near.statistics, rtol=1e-12)
    assert both.statistics[3, -1] < 1e-80
    assert both.log_likelihood == pytest.approx(near.log_likelihood - 3000 * np.log(2), rel=1e-12)


def test_a_batch_is_its_members(case):
    rows, moments, _ = case
    features = features_of((rows - moments.shift) / moments.scale)
    start = seeded_starts(features, 3, 4, NO_PRIOR, np.random.default_rng(0))
    both, *_ = run_batch(features, start, NO_PRIOR, 5)
    alone, *_ = run_batch(features, start[2:3], NO_PRIOR, 5)
    np.testing.assert_allclose(both.means[2], alone.means[0], rtol=1e-9)


def test_seeds_are_spread_even_when_rows_repeat():
    features = features_of(np.ones((20, 4)))
    batch = seeded_starts(features, 3, 4, NO_PRIOR, np.random.default_rng(0))
    assert np.isfinite(batch.means).all()


def test_pool_weights_raise_the_likelihood_and_drop_the_useless(case):
    rows, moments, p = case
    features = features_of((rows - moments.shift) / moments.scale)
    far = Parameters(np.ones(2) / 2, np.full((2, 4), 30.0), np.ones((2, 4)))
    pool = Parameters.concatenate([p, far]).normalized()
    kept = pool_weights(features, pool)
    assert kept.n_components == 3
    assert log_likelihoods(features, kept[None])[0] > log_likelihoods(features, pool[None])[0]


def test_merges_keep_the_first_two_moments(case):
    _, _, p = case
    second = (p.weights @ p.means, p.weights @ (p.variances + p.means**2))
    for merged in merges_by_bound(p, 3):
        assert merged.n_components == 2
        np.testing.assert_allclose(merged.weights @ merged.means, second[0], atol=1e-12)
        total = merged.weights @ (merged.variances + merged.means**2)
        np.testing.assert_allclose(total, second[1])


def score_table(features, p):
    """Scores of each row by (log ω, μ, log v), the slow way; (n, r + 2rd)."""
    d = p.means.shape[1]
    table = coefficients(p)
    shares = np.exp(table @ features - logsumexp(table @ features, axis=0)).T[:, :, None]
    gap = features[:d].T[:, None, :] - p.means
    by_mean = shares * gap / p.variances
    by_variance = 0.5 * shares * (gap**2 / p.variances - 1.0)
    n = features.shape[1]
    return np.hstack(
        [shares[:, :, 0] - p.weights, by_mean.reshape(n, -1), by_variance.reshape(n, -1)]
    )


@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_information_is_the_mean_outer_product_of_scores(case, spread):
    rows, moments, p = case
    z = (np.tile(rows, (6, 1)) - moments.shift) / moments.scale
    p = Parameters(p.weights, p.means, p.variances * spread)  # components apart, and overlapping
    scores = score_table(features_of(z), p)
    expected = scores.T @ scores / z.shape[0]
    size = np.sqrt(np.diagonal(expected))
    for n_threads in (1, 2):
        found = information_matrix(features_of(z), p, n_threads)
        np.testing.assert_allclose(
            found / np.outer(size, size), expected / np.outer(size, size), atol=1e-6
        )
    np.testing.assert_array_equal(found, information_matrix(features_of(z), p))


def test_a_scoring_step_gains_about_what_it_predicts(case):
    rows, moments, p = case
    features = features_of((rows - moments.shift) / moments.scale)
    done = em_pass(ArrayRows(rows), moments, p)
    information = information_matrix(features, p)
    moved, predicted = scoring_step(
        p, mean_score(done.statistics, p), information, Structure(FLOOR)
    )
    gain = em_pass(ArrayRows(rows), moments, moved).log_likelihood - done.log_likelihood
    assert gain / rows.shape[0] == pytest.approx(predicted, rel=0.3)


def test_rare_answers_are_fitted_to_the_maximum(monkeypatch):
    # EM steps from a settled start gain next to nothing, with nats of all rows still to gain.
    rng = np.random.default_rng([77, 2])
    shares = np.exp(rng.uniform(np.log(0.002), np.log(0.25), (3, 15)))
    rows = (rng.random((20_000, 15)) < shares[rng.integers(3, size=20_000)]).astype(float)
    options = {"families": dict.fromkeys(range(15), "bernoulli"), "random_state": 0}
    found = mm.fit(rows, 3, **options)
    monkeypatch.setattr(passes, "_LEFT", 2e-8)
    best = mm.fit(rows, 3, start=found.mixture, max_passes=5000, **options)
    monkeypatch.setattr(passes, "_LEFT", 2.0)
    early = mm.fit(rows, 3, **options)
    value, highest, lower = (x.mixture.log_prob(rows).sum() for x in (found, best, early))
    assert found.converged
    assert best.converged
    assert abs(highest - value) < 0.1
    assert highest - lower > 0.2
    # In standard errors, which the passes end by.
    moved = np.abs(best.mixture.means - found.mixture.means)
    assert (moved < 0.2 * found.standard_errors.means).all()


def test_passes_end_with_the_parameters_of_their_log_likelihood():
    truth = random_mixture(3, 4, seed=0, spread=2.0)
    rows, _ = truth.sample(3000, random_state=1)
    for n_passes in (1, 4, 100):
        result = mm.fit(rows, 3, start=truth, max_passes=n_passes)
        # The last one is that of the result, and so the first is that of the start.
        assert result.log_likelihoods[0] == pytest.approx(truth.log_prob(rows).mean(), abs=1e-9)


def test_rows_can_come_from_any_source_of_blocks(case):
    rows, moments, _ = case

    big = np.concatenate([rows] * 8)

    class Source:
        n_rows, n_features = big.shape

        def blocks(self):
            for start in range(0, big.shape[0], 999):
                yield big[start : start + 999]

    a, b = (
        draw_sample(data, moments, np.random.default_rng(0))
        for data in (ArrayRows(big), rows_of(Source()))
    )
    np.testing.assert_array_equal(a.features, b.features)
    np.testing.assert_array_equal(a.judges, b.judges)


def test_greedy_merges_take_the_least_bound(case):
    """Beside the bound of Runnalls by whole matrices, of all pairs before each merge."""
    _, _, p = case
    rng = np.random.default_rng(0)
    parts = [replace(p, means=p.means + 0.3 * rng.normal(size=p.means.shape)) for _ in range(5)]
    left = Parameters.concatenate(parts).normalized()

    def bound(i, k):
        w, m, v = (x[[i, k]] for x in (left.weights, left.means, left.variances))
        center = w @ m / w.sum()
        merged = w @ (v + (m - center) ** 2) / w.sum()
        return 0.5 * (w.sum() * np.log(merged).sum() - w @ np.log(v).sum(axis=1))

    while left.n_components > 2:
        pairs = list(combinations(range(left.n_components), 2))
        i, k = min(pairs, key=lambda pair: bound(*pair))
        others = np.delete(np.arange(left.n_components), [i, k])
        following = merged_down(left, left.n_components - 1)
        np.testing.assert_array_equal(following.means[:-1], left.means[others])
        assert following.weights[-1] == pytest.approx(left.weights[[i, k]].sum())
        left = following
    direct = merged_down(Parameters.concatenate(parts).normalized(), 2)
    np.testing.assert_allclose(direct.means, left.means, rtol=1e-9)


def test_passes_end_where_a_step_of_em_falls_by_rounding(case, monkeypatch):
    """Such a step was repeated up to the last pass."""
    rows, moments, p = case
    values = [-1000.0, -999.0, -999.0 - 1e-6]

    def sums_of(p):
        return em_pass(rows_of(rows), moments, p)._replace(log_likelihood=values.pop(0))

    monkeypatch.setattr(passes, "_LEFT", 1e-9)
    context = FitContext(np.random.default_rng(0))
    done = climb(sums_of, None, p, NO_PRIOR, len(rows), context)
    assert (done.converged, done.n_passes, values) == (True, 3, [])

"""The prior of the variances: its M-step, its derivatives, its influence, and what it prevents."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import momentmix as mm
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import summarized
from momentmix.fitting.em.em import draw_sample, em_pass, objectives, run_batch
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.em.scores import add_prior, information_matrix, mean_score, scoring_step
from momentmix.fitting.em.search import ranked_candidates
from momentmix.fitting.em.starts import random_starts, seeded_starts
from momentmix.mixture.gaussian import features_of, m_step
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.tables.rows import ArrayRows

FLOOR = np.full(5, 1e-6)


def one_variance(v):
    return Parameters(np.ones(1), np.zeros((1, 1)), np.array([[v]]))


@pytest.mark.parametrize("n_rows", [0.3, 1.0, 3.0, 4.0, 5.0, 40.0, 1e4])
@pytest.mark.parametrize("own", [0.0, 1e-5, 0.1, 1.0, 20.0])
def test_the_m_step_is_the_maximum_of_likelihood_times_prior(n_rows, own):
    prior = VariancePrior(1e-12, 0.4, 0.03)
    found = prior.variances(np.array([[n_rows]]), np.array([[n_rows * own]]))[0, 0]

    def negative(log_v):
        rows = -0.5 * n_rows * (log_v + own * np.exp(-log_v))
        return -(rows + prior.log_density(one_variance(np.exp(log_v))))

    log_v = np.log(found)
    best = minimize_scalar(negative, bounds=(log_v - 2, log_v + 2), method="bounded").x
    assert log_v == pytest.approx(best, abs=1e-4)


def test_without_a_scale_the_m_step_is_that_of_the_likelihood():
    counts, squares = np.array([[2.0], [7.0]]), np.array([[1.0, 0.0], [3.5, 14.0]])
    found = VariancePrior(1e-3).variances(counts, squares)
    np.testing.assert_array_equal(found, [[0.5, 1e-3], [0.5, 2.0]])
    p = Parameters(np.ones(2) / 2, np.zeros((2, 2)), found)
    assert VariancePrior(1e-3).log_density(p) == 0
    assert not VariancePrior(1e-3).slope(p.variances).any()
    assert not VariancePrior(1e-3).curvature(p.variances).any()


def test_a_single_component_has_no_prior():
    assert VariancePrior.of_rows(100, 1, FLOOR).scale == 0
    rows = np.random.default_rng(0).normal(size=(60, 4))
    result = mm.fit(rows, 1, random_state=0)
    np.testing.assert_allclose(result.mixture.variances[0], rows.var(axis=0), rtol=1e-9)


@pytest.mark.parametrize("v", [1e-4, 0.1, 0.4, 3.0])
def test_slope_and_curvature_are_the_derivatives_by_log_v(v):
    prior, step = VariancePrior(1e-9, 0.4, 0.03), 1e-4
    low, mid, high = (
        float(prior.log_density(one_variance(v * np.exp(h)))) for h in (-step, 0.0, step)
    )
    p = one_variance(v)
    assert prior.slope(p.variances)[0, 0] == pytest.approx((high - low) / (2 * step), rel=1e-4)
    expected = -(high - 2 * mid + low) / step**2
    assert prior.curvature(p.variances)[0, 0] == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert prior.curvature(p.variances)[0, 0] > 0


def test_the_influence_vanishes_beside_the_standard_error():
    own = np.array([1e-3, 0.01, 0.3, 1.0, 3.0])
    for n_rows in (1e3, 1e4, 1e6):  # of a component of five
        prior = VariancePrior.of_rows(int(5 * n_rows), 5, FLOOR)
        found = prior.variances(np.array([[n_rows]]), n_rows * own[None])[0]
        relative_error = np.sqrt(2 / n_rows)
        assert (np.abs(found / own - 1) < 0.4 * relative_error).all()
        assert np.abs(found / own - 1)[2:].max() < 0.2 * relative_error
    # A conjugate prior of one row and the same scale does not pass: narrow variances are biased.
    conjugate = (1e3 * own + prior.scale) / (1e3 + 1)
    assert (conjugate / own - 1)[0] > 5 * np.sqrt(2 / 1e3)


def test_em_never_lowers_what_it_maximizes():
    rows = np.random.default_rng(3).normal(size=(80, 5))
    features, prior = features_of(rows), VariancePrior.of_rows(80, 6, FLOOR)
    batch = seeded_starts(features, 6, 4, prior, np.random.default_rng(0))
    values = []
    for _ in range(30):
        values.append(objectives(features, batch, prior))
        batch, before, _ = run_batch(features, batch, prior, 1)
        np.testing.assert_allclose(before, values[-1], rtol=1e-12)
    assert (np.diff(values, axis=0) > -1e-12).all()


@pytest.fixture(scope="module")
def small_case():
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, size=300)
    rows = 1.2 * labels[:, None] + rng.normal(size=(300, 5)) * np.where(labels, 0.7, 1.2)[:, None]
    moments, _ = summarized(rows, 3, 1)
    return rows, moments, (rows - moments.shift) / moments.scale


def test_passes_end_where_likelihood_times_prior_is_stationary(small_case):
    rows, moments, z = small_case
    features, prior = features_of(z), VariancePrior.of_rows(300, 2, FLOOR)
    start = seeded_starts(features, 2, 1, prior, np.random.default_rng(0))[0]
    sample = draw_sample(ArrayRows(rows), moments, np.random.default_rng(0))
    done = full_passes(sample, start, FitContext(np.random.default_rng(0), 500))
    assert done.converged
    end = objectives(features, done.parameters[None], prior)[0]
    many, *_ = run_batch(features, start[None], prior, 3000)
    np.testing.assert_allclose(end, objectives(features, many, prior)[0], atol=1e-4)
    sums = em_pass(ArrayRows(rows), moments, many[0])
    score, information = mean_score(sums.statistics, many[0]), information_matrix(features, many[0])
    assert np.abs(score).max() > 1e-3  # the likelihood alone still rises
    add_prior(score, information, many[0], prior, 300)
    assert np.abs(score).max() < 1e-7
    _, predicted = scoring_step(many[0], score, information, Structure(FLOOR))
    assert predicted < 1e-10


def lightest(parameters, n_rows):
    return n_rows * parameters.weights.min()


def test_no_component_lives_on_a_handful_of_rows():
    """Noise, with as many starts as one likes; without the prior the best are of a few rows."""
    with_prior, without = [], []
    n, d, r = 100, 5, 3
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(n, d))
        moments, _ = summarized(rows, 3, 1)
        sample = draw_sample(ArrayRows(rows), moments, rng)
        best = ranked_candidates(sample, r, FitContext(np.random.default_rng(0)))[0]
        with_prior.append(lightest(best.parameters, n))
        none = VariancePrior(FLOOR)
        starts = [f(sample.features, r, 40, none, rng) for f in (seeded_starts, random_starts)]
        batch, values, _ = run_batch(sample.features, Parameters.concatenate(starts), none, 60)
        without.append(lightest(batch[int(values.argmax())], n))
    assert min(with_prior) >= d + 1
    assert sum(count < d + 1 for count in without) >= 4


def test_rounded_columns_stay_away_from_the_floor():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 4))
    rows[:, 0] = rows[:, 0] > 0  # two values: a component of one of them has no spread there
    result = mm.fit(rows, 2, random_state=0)
    least = (result.mixture.variances / rows.var(axis=0)).min()
    assert least > 100 * 1e-6
    statistics = np.array([features_of(np.zeros((50, 4))).sum(axis=1)])
    assert m_step(statistics, VariancePrior(1e-6)).variances.max() == 1e-6

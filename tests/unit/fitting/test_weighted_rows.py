"""Fits to rows with weights that are not whole: EM, errors, test and choices."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import InputError
from momentmix.fitting.data import summarized
from momentmix.fitting.em.em import draw_sample
from momentmix.tables.rows import ArrayRows, WeightedRows

MEANS = [[-1.5, -1.5, -1.5, -1.5], [1.5, 1.0, 1.5, 1.5]]
COVARIANCES = np.stack([np.eye(4), np.eye(4)])
COVARIANCES[:, 0, 1] = COVARIANCES[:, 1, 0] = [0.5, -0.3]
LAWS = {
    "diagonal": (mm.Mixture.diagonal([0.4, 0.6], MEANS, np.ones((2, 4))), None),
    "block": (mm.Mixture([0.4, 0.6], MEANS, COVARIANCES), [[0, 1]]),
}


def drawn_with_bias(truth, n, slope, seed):
    """Rows with a large first column are drawn more often, and the weights undo it."""
    rng = np.random.default_rng(seed)
    rows, _ = truth.sample(n, random_state=rng)
    chance = 1 / (1 + np.exp(-slope * rows[:, 0]))
    kept = rng.uniform(size=n) < chance
    return rows[kept], 0.37 / chance[kept]


def tilted(n, tilt, seed):
    """Normal rows whose first column is shifted, and weights that shift it back."""
    rows = np.random.default_rng(seed).normal(size=(n, 3))
    rows[:, 0] += tilt
    return rows, np.exp(-tilt * rows[:, 0])


def flat(mixture):
    p = mixture.parameters
    return np.concatenate([p.weights, p.means.ravel(), p.spread.ravel()])


@pytest.fixture(params=list(LAWS))
def case(request):
    return LAWS[request.param]


@pytest.mark.parametrize("blocks", [None, [[0, 1]], "auto"])
def test_equal_weights_are_no_weights(blocks):
    rows, _ = LAWS["block"][0].sample(1500, random_state=1)
    plain = mm.fit(rows, 2, blocks=blocks, random_state=0)
    found = mm.fit(rows, 2, blocks=blocks, random_state=0, sample_weight=np.full(1500, 0.7))
    np.testing.assert_array_equal(flat(found.mixture), flat(plain.mixture))
    assert found.certificate == plain.certificate


def test_multiples_of_weights_mean_the_same(case):
    truth, blocks = case
    rows, weights = drawn_with_bias(truth, 2000, 0.6, 2)
    one, other = (
        mm.fit(rows, 2, blocks=blocks, random_state=0, sample_weight=w)
        for w in (weights, 64 * weights)
    )
    np.testing.assert_allclose(flat(other.mixture), flat(one.mixture), rtol=1e-9)
    np.testing.assert_allclose(other.standard_errors.means, one.standard_errors.means, rtol=1e-6)


def test_counted_frequencies_are_repeated_rows(case):
    truth, blocks = case
    rows, _ = truth.sample(1200, random_state=3)
    times = np.random.default_rng(3).integers(1, 4, 1200)
    counted = WeightedRows(ArrayRows(rows), times.astype(float))
    found = mm.fit(counted, 2, blocks=blocks, random_state=0)
    repeated = mm.fit(np.repeat(rows, times, axis=0), 2, blocks=blocks, random_state=0)
    np.testing.assert_allclose(flat(found.mixture), flat(repeated.mixture), rtol=1e-9)
    np.testing.assert_allclose(
        found.standard_errors.means, repeated.standard_errors.means, rtol=1e-6
    )
    assert found.n_rows == repeated.n_rows == times.sum()
    assert found.certificate.p_value == pytest.approx(repeated.certificate.p_value, rel=1e-6)


def test_weights_undo_a_biased_sample(case):
    truth, blocks = case
    rows, weights = drawn_with_bias(truth, 20_000, 0.6, 4)
    found = mm.fit(rows, 2, blocks=blocks, random_state=0, sample_weight=weights)
    gap = truth.align(found.mixture).means - truth.means
    order = np.argsort(found.mixture.means[:, 0])
    assert (np.abs(gap) < 5 * found.standard_errors.means[order]).all()
    errors = found.standard_errors.weights[order]
    assert (np.abs(truth.align(found.mixture).weights - truth.weights) < 5 * errors).all()
    assert found.certificate.verdict == "passed"
    ignored = mm.fit(rows, 2, blocks=blocks, random_state=0)  # control
    assert abs(truth.align(ignored.mixture).weights[0] - 0.4) > 0.1


def test_errors_of_one_component_allow_for_weights_that_depend_on_the_rows():
    tilt = 0.7
    rows, weights = tilted(40_000, tilt, 7)
    found = mm.fit(rows, 1, random_state=0, sample_weight=weights)
    gaps, (variances,) = rows - found.mixture.means[0], found.mixture.variances
    shares = (weights / weights.sum())[:, None] ** 2
    errors = found.standard_errors
    expected = np.sqrt((shares * gaps**2).sum(axis=0))
    np.testing.assert_allclose(errors.means[0], expected, rtol=0.05)
    expected = np.sqrt((shares * (gaps**2 - variances) ** 2).sum(axis=0))
    np.testing.assert_allclose(errors.variances[0], expected, rtol=0.1)
    # Control: the variance of the weighted mean is 1 + tilt² times that of Kish's number of rows.
    by_kish = np.sqrt(shares.sum())
    assert errors.means[0, 0] / by_kish == pytest.approx(np.sqrt(1 + tilt**2), rel=0.05)


@pytest.mark.long
def test_the_test_knows_how_weighted_moments_vary():
    def p_values():
        return np.array([
            mm.fit(rows, 1, random_state=0, sample_weight=weights).certificate.p_value
            for rows, weights in (tilted(1500, 0.5, [8, k]) for k in range(50))
        ])  # fmt: skip

    assert (p_values() < 0.01).sum() <= 3  # half of one is expected; four have a chance of 2e-3
    rows, weights = tilted(3000, 0.5, 9)
    rows[:, 1] = np.where(np.abs(rows[:, 1]) > 1, rows[:, 1], 0.3 * rows[:, 2])  # control
    assert mm.fit(rows, 1, random_state=0, sample_weight=weights).certificate.p_value < 1e-4


@pytest.mark.parametrize("blocks", [None, [[0, 1]]])
def test_heavy_weights_make_no_components(blocks):
    for k in range(2):
        rows, weights = drawn_with_bias(LAWS["diagonal"][0], 3000, 1.0, [10, k])
        found = mm.fit(rows, "auto", blocks=blocks, random_state=0, sample_weight=weights)
        assert found.mixture.n_components == 2


def test_blocks_are_found_with_weights():
    truth = LAWS["block"][0]
    rows, weights = drawn_with_bias(truth, 6000, 0.6, 11)
    found = mm.fit(rows, "auto", blocks="auto", random_state=0, sample_weight=weights)
    assert found.mixture.parameters.blocks.joined == ((0, 1),)
    assert found.mixture.n_components == 2


def test_many_rows_are_sampled_by_their_weights():
    truth = LAWS["block"][0]
    rows, weights = drawn_with_bias(truth, 130_000, 0.6, 12)
    moments, _ = summarized(WeightedRows(ArrayRows(rows), weights), 3, 1)
    sample = draw_sample(WeightedRows(ArrayRows(rows), weights), moments, np.random.default_rng(0))
    assert not sample.is_all
    z = sample.all_features[:4]
    # Standardized by the weighted moments: mean 0 and mean square 1 within 5 errors.
    assert np.abs(z.mean(axis=1)).max() < 5 / np.sqrt(z.shape[1])
    assert np.abs((z**2).mean(axis=1) - 1).max() < 5 * np.sqrt(3 / z.shape[1])
    found = mm.fit(rows, 2, blocks=[[0, 1]], random_state=0, sample_weight=weights)
    assert np.abs(truth.align(found.mixture).weights - [0.4, 0.6]).max() < 0.01


def test_outliers_and_shapes_are_those_of_the_weighted_rows():
    truth = LAWS["diagonal"][0]
    rows, weights = drawn_with_bias(truth, 6000, 0.6, 13)
    rows[5] = 1e6
    found = mm.fit(rows, 2, random_state=0, sample_weight=weights)
    names = [finding.kind for finding in found.certificate.findings]
    assert names == ["outlier-rows"]
    assert found.n_rows == len(rows)
    assert found.mixture.predict(rows)[5] == -1


def test_few_rows_that_stand_for_many_fit_in_memory():
    rows, _ = LAWS["diagonal"][0].sample(500, random_state=0)
    many = mm.fit(rows, 2, random_state=0, sample_weight=np.repeat([1e9, 2e9], [499, 1]))
    assert many.n_rows == 501 * 10**9
    few = mm.fit(rows, 2, random_state=0).mixture
    np.testing.assert_allclose(many.mixture.means, few.means, atol=0.05)


SEED = {"random_state": 0}
CALLS = {
    "fit": lambda rows, w: mm.fit(rows, 2, sample_weight=w, **SEED).mixture.means,
    "summarize": lambda rows, w: mm.summarize(rows, 2, sample_weight=w).mean,
    "update": lambda rows, w: mm.MomentSummary(4, 2).update(rows, w).mean,
    "estimator": lambda rows, w: mm.MomentGaussianMixture(2, **SEED).fit(rows, None, w).means_,
    "mixed": lambda rows, w: mm.MomentMixture(2, **SEED).fit(rows, None, w).mixture_.means,
    "add": lambda rows, w: mm.MomentGaussianMixture().partial_fit(rows, None, w).summary_.mean,
}


@pytest.mark.parametrize("call", CALLS)
def test_weights_with_labels_go_by_the_labels_of_the_rows(call):
    rows, weights = drawn_with_bias(LAWS["diagonal"][0], 400, 0.8, seed=2)
    frame, series = pd.DataFrame(rows).add_prefix("x"), pd.Series(weights)
    np.testing.assert_array_equal(CALLS[call](frame, series[::-1]), CALLS[call](frame, weights))
    with pytest.raises(InputError, match=r"labels of sample_weight.*to_numpy"):
        CALLS[call](frame.set_index(frame.index + 1), series)

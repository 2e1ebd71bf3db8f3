"""The robust fit on samples: accuracy, honest certificates, coverage; with controls that fail.

Tolerances come from standard errors or from the loss of accuracy that is promised, never from what
the code happened to reach.
"""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import chi2, kstest

import momentmix as mm
from momentmix.capacity import choose_order
from momentmix.fitting.data import summarized
from momentmix.fitting.inference.over_identification import check_conditions
from momentmix.mixture.matching import clustering_accuracy
from momentmix.mixture.parameters import Parameters


def unit_scale(r, d, seed):
    rng = np.random.default_rng([seed, r, d])
    weights = rng.uniform(size=r)
    variances = np.maximum(rng.normal(size=(r, d)) ** 2, 1e-6)
    return mm.Mixture.diagonal(weights / weights.sum(), rng.normal(size=(r, d)), variances)


def overlapping(r, d, seed):
    rng = np.random.default_rng([seed, r, d])
    weights = rng.uniform(0.5, 1.5, size=r)
    means = rng.uniform(0.4, 0.7) * rng.normal(size=(r, d))
    return mm.Mixture.diagonal(weights / weights.sum(), means, rng.uniform(0.5, 1.5, (r, d)))


def loss(mixture, truth):
    rows, labels = truth.sample(20000, random_state=10**6)
    best = (truth.predict(rows) == labels).mean()
    return best - clustering_accuracy(labels, mixture.predict(rows))


def test_moments_alone_classify_unit_scale_mixtures():
    losses = []
    for seed in range(2):
        truth = unit_scale(6, 15, seed)
        rows, labels = truth.sample(50_000, random_state=seed)
        result = mm.fit(mm.summarize(rows, 4), 6, random_state=0)
        losses.append(loss(result.mixture, truth))
        shuffled = np.random.default_rng(0).permutation(labels)
        assert clustering_accuracy(shuffled, result.mixture.predict(rows)) < 0.6
    assert np.mean(losses) <= 0.005


def test_moments_alone_on_overlapping_components():
    truth = overlapping(4, 15, 0)
    rows, _ = truth.sample(100_000, random_state=0)
    result = mm.fit(mm.summarize(rows), 4, random_state=0)
    assert result.certificate.passed
    assert loss(result.mixture, truth) <= 0.003
    assert truth.log_prob(rows).mean() - result.mixture.log_prob(rows).mean() <= 5e-4


def test_a_fit_of_rows_reads_them_a_few_times():
    truth = overlapping(4, 15, 1)
    rows, _ = truth.sample(30_000, random_state=0)
    result = mm.fit(rows, 4, random_state=0)
    assert result.n_passes <= 8
    assert loss(result.mixture, truth) <= 0.003
    # The maximum of the likelihood lies above the truth's on the fit's own rows.
    assert result.log_likelihood >= truth.log_prob(rows).mean()


def test_over_identification_is_calibrated_at_the_truth_and_rejects_a_wrong_model():
    values, distinct = [], []
    for seed in range(40):
        truth = overlapping(3, 6, seed)
        rows, _ = truth.sample(4000, random_state=seed)
        moments, _ = summarized(rows, 3, 1)
        z = truth.parameters.standardized(moments.shift, moments.scale)
        rng = np.random.default_rng(seed)
        p = Parameters(z.weights, z.means, z.variances)
        test = check_conditions(moments, p, rng)
        values.append(test.p_value)
        first = test.groups[0]
        distinct.append(chi2.sf(first.statistic, first.degrees_of_freedom))
        if seed < 5:  # the control: one component less must be seen
            w = z.weights[:2] / z.weights[:2].sum()
            wrong = Parameters(w, z.means[:2], z.variances[:2])
            assert check_conditions(moments, wrong, rng).p_value < 0.01
    assert kstest(distinct, "uniform").pvalue > 0.001
    # The least of several p-values, corrected for their number, is below a level at most so often.
    for level in (0.05, 0.2):
        most = 40 * level + 3 * np.sqrt(40 * level * (1 - level))
        assert sum(value < level for value in values) <= most


def test_correlation_within_components_is_caught_and_named():
    rng = np.random.default_rng(0)
    truth = overlapping(3, 8, 3)
    labels = rng.choice(3, size=40_000, p=truth.weights)
    noise = rng.normal(size=(40_000, 8))
    noise[:, 5] = 0.3 * noise[:, 2] + np.sqrt(1 - 0.09) * noise[:, 5]
    rows = truth.means[labels] + noise * np.sqrt(truth.variances)[labels]
    result = mm.fit(rows, 3, random_state=0)
    assert not result.certificate.passed
    named = [f.text for f in result.certificate.findings if f.kind == "correlated-columns"]
    assert "2 and 5 (about +0.3" in named[0] or "2 and 5 (about +0.2" in named[0]
    independent = truth.sample(40_000, random_state=0)[0]
    assert mm.fit(independent, 3, random_state=0).certificate.passed


def test_too_few_components_do_not_pass_and_the_right_number_is_found():
    truth = unit_scale(4, 8, 2)
    rows, _ = truth.sample(20_000, random_state=0)
    assert not mm.fit(rows, 3, random_state=0).certificate.passed
    result = mm.fit(rows, "auto", random_state=0)
    assert result.mixture.n_components == 4
    assert any("least BIC" in note for note in result.notes)
    result = mm.fit(mm.summarize(rows, choose_order(8, "auto")), "auto", random_state=0)
    assert result.mixture.n_components == 4
    assert any("the smallest that the moments accept" in note for note in result.notes)


def test_few_rows_and_many_components_do_not_pass():
    truth = overlapping(8, 8, 0)
    rows, _ = truth.sample(1000, random_state=0)
    result = mm.fit(mm.summarize(rows, choose_order(8, 8)), 8, random_state=0)
    assert loss(result.mixture, truth) > 0.02
    assert not result.certificate.passed


def coverage(truth, n_rows, n_seeds, form):
    """Rates of 95 % intervals, and of ones a third as long, that hold the truth, by sample."""
    rates = {(name, short): [] for name in ("weights", "means", "variances") for short in (0, 1)}
    for seed in range(n_seeds):
        rows, _ = truth.sample(n_rows, random_state=seed)
        result = mm.fit(form(rows), truth.n_components, random_state=0)
        box = result.intervals()
        gaps = ((truth.means[:, None] - result.mixture.means[None]) ** 2).sum(axis=2)
        k = linear_sum_assignment(gaps)[1]
        for (name, short), found in rates.items():
            low, high = (side[k] for side in getattr(box, name))
            cut = short * (high - low) / 3
            true = getattr(truth, name)
            found.append(((low + cut <= true) & (true <= high - cut)).mean())
    return {key: np.array(found) for key, found in rates.items()}


@pytest.mark.long
@pytest.mark.parametrize("form", [mm.summarize, np.asarray])
def test_intervals_cover(form):
    # Entries of one sample are correlated, so the error of a rate comes from the spread of samples.
    for (name, short), rates in coverage(overlapping(3, 6, 1), 8_000, 14, form).items():
        error = max(rates.std(ddof=1), 0.05) / np.sqrt(len(rates))
        covers = rates.mean() > 0.95 - 3 * error
        assert covers != short, (name, short, rates.mean(), error)

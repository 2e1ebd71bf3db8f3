"""Fits of joined columns with missing cells: EM by pattern."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import momentmix as mm
from momentmix.fitting.em.em import joint_of, row_sums
from momentmix.fitting.em.patterns import in_blocks, observed_covariances
from momentmix.fitting.em.scores import information_matrix, mean_score
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.gaussian import features_of, m_step
from momentmix.mixture.parameters import Parameters, dependent_places, moved_spread
from momentmix.mixture.prior import VariancePrior

BLOCKS = [["a", "b", "c"], ["d", "e", "f"]]


def truth():
    """Three components of two blocks of three columns, correlated within components."""
    rng = np.random.default_rng(5)
    correlation = np.full((3, 3), 0.6) + 0.4 * np.eye(3)

    def block(names):
        deviations = rng.uniform(0.5, 2.0, (3, 3))
        covariances = correlation * deviations[:, :, None] * deviations[:, None, :]
        seen = rng.uniform(0.6, 0.9, (3, 3))
        means = 1.5 * rng.standard_normal((3, 3)) + 20.0
        return mm.GaussianBlock(means, covariances, names, seen=seen)

    return mm.Mixture.from_blocks([0.5, 0.3, 0.2], [block(tuple("abc")), block(tuple("def"))])


@pytest.fixture(scope="module")
def fitted():
    mixture = truth()
    rows, _ = mixture.sample(4000, random_state=7)
    return rows, mm.fit(rows, 3, blocks=BLOCKS, missing="model", random_state=0, n_threads=1)


def test_fit_has_at_least_the_likelihood_of_the_truth(fitted):
    rows, result = fitted
    own = result.mixture.log_prob(rows).mean()
    assert own >= truth().log_prob(rows).mean()
    # The passes end before their last EM step.
    assert result.log_likelihood == pytest.approx(own, abs=1e-4)


def test_parameters_are_within_their_errors(fitted):
    _, result = fitted
    aligned, errors = truth().align(result.mixture), result.standard_errors
    order = [int(np.flatnonzero(result.mixture.weights == w)[0]) for w in aligned.weights]
    assert (np.abs(aligned.weights - truth().weights) <= 4 * errors.weights[order]).all()
    assert (np.abs(aligned.means - truth().means) <= 4 * errors.means[order]).all()
    gaps = np.abs(aligned.covariances - truth().covariances)
    assert (gaps <= 4 * errors.covariances[order]).all()
    seen, own = (
        np.hstack([block.seen for block in mixture.blocks]) for mixture in (truth(), aligned)
    )
    assert (np.abs(own - seen) <= 4 * errors.seen[order]).all()
    low, high = result.intervals().means
    assert ((low < result.mixture.means) & (result.mixture.means < high)).all()


def test_completed_rows_follow_a_right_fit_and_not_a_wrong_one(fitted):
    rows, result = fitted
    assert result.certificate.test.is_rejected is False
    assert result.certificate.description.level == "exact"
    assert not result.certificate.untested
    wrong = mm.fit(rows, 3, missing="mar", blocks="diag", random_state=0, n_threads=1).certificate
    assert wrong.test.is_rejected
    assert wrong.verdict != "passed"


def test_number_and_blocks_are_chosen_from_rows_with_gaps():
    rng = np.random.default_rng(3)
    labels = np.arange(900) % 3
    shared = rng.standard_normal((900, 1))
    rows = np.array([[0, 0, 0], [4, 0, 2], [0, 5, -2]])[labels] + 0.8 * shared
    rows = np.hstack([rows + 0.6 * rng.standard_normal((900, 3)), rng.standard_normal((900, 1))])
    rows[rng.random(900) < 0.1, 0] = np.nan
    rows[(rows[:, 3] > 0.5) & (rng.random(900) < 0.3), 1] = np.nan  # by a column that is observed
    result = mm.fit(rows, missing="mar", max_components=5, random_state=0)
    assert result.mixture.n_components == 3
    assert [set(block.columns) for block in result.joined] == [{0, 1, 2}]
    labels_found = result.mixture.predict(rows)
    agreed = max(
        np.mean(np.array(order)[labels_found] == labels) for order in permutations(range(3))
    )
    assert agreed > 0.95


def test_penguins_have_three_groups_with_and_without_rows_with_gaps():
    table = pd.read_csv(mm.example_table("penguins"))
    columns = [c for c in table if c.endswith(("_mm", "_g"))]
    results = [
        mm.fit(table, columns=columns, missing=missing, max_components=5, random_state=0)
        for missing in ("mar", "drop")
    ]
    assert [result.mixture.n_components for result in results] == [3, 3]
    labels = [result.mixture.predict(table[columns].dropna()) for result in results]
    assert (labels[0] == labels[1]).mean() > 0.98


# -- the arithmetic -------------------------------------------------------------------------------


def small():
    """Rows, their moments, T(z), and parameters that are not at a maximum."""
    rows, _ = truth().sample(600, random_state=2)
    table = mm.summarize(rows, 2, missing="model")
    features = table.schema.encode(rows)
    shift, scale = features.mean(axis=0), features.std(axis=0)
    values = (features - shift) / scale
    d = values.shape[1]
    moments = StandardMoments(
        d, 1, (np.ones(1), np.zeros(d)), (np.ones((d, 1)),), len(values), len(values), shift,
        scale, features.min(axis=0), features.max(axis=0),
    ).with_laws(table.schema.distributions())  # fmt: skip
    alone = features_of(values, moments.alone)
    covariance = observed_covariances(alone, moments, np.ones((1, len(values))))[0]
    moments = replace(moments, observed_covariance=covariance)
    blocks = moments.joined([(0, 2, 4), (6, 8, 10)])
    prior = VariancePrior.of_rows(len(values), 2, moments.structure(blocks))
    rng = np.random.default_rng(4)
    means = 0.5 * rng.standard_normal((2, d))
    start = Parameters(np.array([0.4, 0.6]), means, np.ones((2, d)), None, blocks)
    statistics, _, _ = row_sums(moments, start.completed())(features)
    return features, moments, features_of(values, blocks), m_step(statistics, prior)


def test_densities_are_those_of_observed_cells():
    features, moments, table, p = small()
    joint = joint_of(table, p)
    for row in range(0, 60, 7):
        for i in range(2):
            expected = np.log(p.weights[i])
            for block in ((0, 2, 4), (6, 8, 10)):
                own = [j for j in block if features[row, j + 1] > 0]
                if own:
                    z = (features[row, own] - moments.shift[own]) / moments.scale[own]
                    matrix = p.matrices[i][np.ix_(own, own)]
                    expected += multivariate_normal.logpdf(z, p.means[i, own], matrix)
                    expected -= np.log(moments.scale[own]).sum()
            q = moments.shift + moments.scale * p.means[i]
            seen = features[row, 1::2] > 0
            expected += np.where(seen, np.log(q[1::2]), np.log1p(-q[1::2])).sum()
            assert joint[i, row] == pytest.approx(expected, abs=1e-9)


def test_scores_are_the_slopes_of_the_likelihood():
    features, moments, _, p = small()
    statistics, _, n = row_sums(moments, p)(features)
    score = mean_score(statistics, p)
    r, d = p.means.shape
    step = 1e-5

    def moved(i, j, by):
        means = p.means.copy()
        means[i, j] += by
        return Parameters(p.weights, means, p.variances, p.covariances, p.blocks).completed()

    for j in (0, 1, 8):
        ends = [row_sums(moments, moved(1, j, by))(features)[1] / n for by in (-step, step)]
        assert score[r + d + j] == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-6)
    place = p.blocks.place_of[2, 4]
    change = np.zeros((r, p.blocks.n_spread))
    ends = []
    for by in (-step, step):
        change[0, place] = by
        ends.append(row_sums(moments, moved_spread(p, change))(features)[1] / n)
    spread_score = score[r + 2 * r * d + place - d]
    assert spread_score == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-6)


def test_information_is_the_outer_product_of_the_scores():
    features, moments, table, p = small()
    scores = [mean_score(row_sums(moments, p)(row[None])[0], p) for row in features[:5]]
    expected = np.mean([np.outer(score, score) for score in scores], axis=0)
    information = information_matrix(table[:, :5], p)
    kept = np.setdiff1d(np.arange(len(expected)), dependent_places(p))
    own = np.ix_(kept, kept)
    np.testing.assert_allclose(information[own], expected[own], rtol=0, atol=1e-10)


def test_blocks_there_and_back_are_the_same_mixture():
    features, moments, _, p = small()
    values = (features - moments.shift) / moments.scale
    apart = in_blocks(p, moments.alone, p.matrices)
    again = in_blocks(apart, p.blocks, p.matrices)
    np.testing.assert_allclose(again.flat(), p.flat(), atol=1e-10)
    diagonal = in_blocks(p, p.blocks, p.matrices * np.eye(values.shape[1]))
    np.testing.assert_allclose(
        joint_of(features_of(values, moments.alone), apart),
        joint_of(features_of(values, p.blocks), diagonal),
        atol=1e-9,
    )


def test_weights_are_repeated_rows():
    rows, _ = truth().sample(400, random_state=2)
    options = {"blocks": BLOCKS, "missing": "model", "random_state": 0, "max_passes": 5}
    start = truth()
    twice = mm.fit(rows, 3, sample_weight=np.full(400, 2), start=start, **options)
    repeated = mm.fit({k: np.repeat(x, 2) for k, x in rows.items()}, 3, start=start, **options)
    np.testing.assert_allclose(twice.mixture.means, repeated.mixture.means, atol=1e-6)


def test_what_cannot_be_fitted():
    rows, _ = truth().sample(500, random_state=0)
    options = {"blocks": BLOCKS, "missing": "model"}
    with pytest.raises(mm.InputError, match="from moments alone"):
        mm.fit(mm.summarize(rows, 2, missing="model"), 2, blocks=BLOCKS)
    rows["a"][:250], rows["b"][250:] = np.nan, np.nan
    with pytest.raises(mm.InputError, match="almost never seen in the same row"):
        mm.fit(rows, 2, **options)

"""Fits of joined columns with missing cells: EM by pattern."""

import numpy as np
import pytest

import momentmix as mm
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.patterns import PatternLayout, pattern_information, single_component
from momentmix.fitting.em.scores import mean_score
from momentmix.mixture.gaussian import m_step
from momentmix.mixture.parameters import Parameters, dependent_places, moved_spread
from momentmix.mixture.prior import Structure, VariancePrior

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


def test_groups_are_useful_though_nothing_was_tested(fitted):
    certificate = fitted[1].certificate
    assert certificate.verdict == "useful"
    assert certificate.description.level == "close"
    assert "joined columns with missing cells" in certificate.untested[0]
    assert certificate.support.supported
    assert str(certificate).count("no test:") == 1


# -- the arithmetic -------------------------------------------------------------------------------


def small():
    """Standardized rows, their layout, and parameters that are not at a maximum."""
    rows, _ = truth().sample(600, random_state=2)
    table = mm.summarize(rows, 2, missing="model")
    features = table.schema.encode(rows)
    shift, scale = features.mean(axis=0), features.std(axis=0)
    values = (features - shift) / scale
    d = values.shape[1]
    moments = StandardMoments(
        d, 1, (np.ones(1), np.zeros(d)), (np.ones((d, 1)),), len(values), len(values), shift,
        scale, features.min(axis=0), features.max(axis=0),
    ).with_laws(table.schema.laws())  # fmt: skip
    layout = PatternLayout.of(moments, ((0, 2, 4), (6, 8, 10)))
    pattern_rows = layout.rows(values)
    total = single_component(pattern_rows, 1e-6).matrices[0]
    structure = Structure.of_total(1e-6, layout.blocks, total)
    prior = VariancePrior.of_rows(len(values), 2, structure)
    rng = np.random.default_rng(4)
    means = 0.5 * rng.standard_normal((2, d))
    start = Parameters(np.array([0.4, 0.6]), means, np.ones((2, d)), None, layout.blocks)
    statistics, _, _ = pattern_rows.sums(start.completed())
    return values, layout, pattern_rows, prior, m_step(statistics, prior)


def test_scores_are_the_slopes_of_the_likelihood():
    _, layout, rows, _, p = small()
    statistics, _, n = rows.sums(p)
    score = mean_score(statistics, p)
    r, d = p.means.shape
    step = 1e-5

    def moved(i, j, by):
        means = p.means.copy()
        means[i, j] += by
        return Parameters(p.weights, means, p.variances, p.covariances, p.blocks).completed()

    for j in (0, 1, 8):
        ends = [rows.sums(moved(1, j, by))[1] / n for by in (-step, step)]
        assert score[r + d + j] == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-6)
    place = layout.blocks.place_of[2, 4]
    change = np.zeros((r, layout.blocks.n_spread))
    ends = []
    for by in (-step, step):
        change[0, place] = by
        ends.append(rows.sums(moved_spread(p, change))[1] / n)
    spread_score = score[r + 2 * r * d + place - d]
    assert spread_score == pytest.approx((ends[1] - ends[0]) / (2 * step), abs=1e-6)


def test_information_is_the_outer_product_of_the_scores():
    values, layout, _, _, p = small()
    few = values[:5]
    scores = [mean_score(layout.rows(row[None]).sums(p)[0], p) for row in few]
    expected = np.mean([np.outer(score, score) for score in scores], axis=0)
    information = pattern_information(layout, few, p)
    kept = np.setdiff1d(np.arange(len(expected)), dependent_places(p))
    own = np.ix_(kept, kept)
    np.testing.assert_allclose(information[own], expected[own], rtol=0, atol=1e-10)


def test_what_cannot_be_fitted():
    rows, _ = truth().sample(500, random_state=0)
    options = {"blocks": BLOCKS, "missing": "model"}
    with pytest.raises(mm.InputError, match="from moments alone"):
        mm.fit(mm.summarize(rows, 2, missing="model"), 2, blocks=BLOCKS)
    with pytest.raises(mm.InputError, match="Give a number of components"):
        mm.fit(rows, "auto", **options)
    rows["a"][:250], rows["b"][250:] = np.nan, np.nan
    with pytest.raises(mm.InputError, match="almost never seen in the same row"):
        mm.fit(rows, 2, **options)

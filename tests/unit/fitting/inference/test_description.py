"""How well mixtures of halves describe the other half of the rows."""

import numpy as np
import pytest
from family_laws import drawn, mixed_law, standard_moments

import momentmix as mm
from momentmix.families.column import FeaturePart
from momentmix.families.distribution import Distribution
from momentmix.families.levels import Bernoulli
from momentmix.fitting.data import moments_of
from momentmix.fitting.inference.description import describe, described_by_effect
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.gaussian import features_of
from momentmix.mixture.parameters import Parameters
from momentmix.summary.summarize import summarize


def one_component(values, laws=()):
    """The mixture of one component of standardized rows (n, d)."""
    blocks = Blocks(values.shape[1], laws=laws)
    means, variances = values.mean(axis=0)[None], values.var(axis=0)[None]
    return Parameters(np.ones(1), means, variances, None, blocks).completed()


def described(rows, laws=(), rejected=True, n_splits=3):
    """The description of rows by one component."""
    moments = moments_of(summarize(rows, order=1)).with_laws(laws)
    values = (rows - moments.shift) / moments.scale
    unseen = []
    for split in range(n_splits):
        halves = np.array_split(np.random.default_rng(split).permutation(len(rows)), 2)
        for fitted, other in (halves, halves[::-1]):
            p = one_component(values[fitted], moments.laws)
            unseen.append((p, features_of(values[other], p.blocks)))
    return describe(unseen, moments, rejected)


def gaussian(n, rng):
    return rng.normal(size=(n, 6))


def uniform(n, rng):
    return rng.uniform(size=(n, 6))


def lognormal_column(n, rng):
    rows = gaussian(n, rng)
    rows[:, 2] = np.exp(1.5 * rows[:, 2])
    return rows


def two_clusters(n, rng):
    rows = gaussian(n, rng)
    rows[rng.random(n) < 0.5, 0] += 8.0
    return rows


def clusters_in_all_columns(n, rng):
    rows = gaussian(n, rng)
    rows[rng.random(n) < 0.5] += 8.0 / np.sqrt(6)
    return rows


@pytest.mark.parametrize("n", [150, 500, 20_000])
@pytest.mark.parametrize(
    ("law", "level"),
    [
        (gaussian, "close"),
        (uniform, "rough"),
        (two_clusters, "poor"),
        (clusters_in_all_columns, "poor"),
        (lognormal_column, "poor"),
    ],
)
def test_the_level_does_not_depend_on_the_number_of_rows(law, level, n):
    assert described(law(n, np.random.default_rng(1))).level == level


def test_the_column_that_differs_is_named():
    found = described(lognormal_column(500, np.random.default_rng(3)))
    assert max(found.columns, key=found.columns.get) == 2
    assert found.distance == found.columns[2] > 0.4
    assert max(found.columns[j] for j in (0, 1, 3, 4, 5)) < 0.1


def test_rounding_is_no_difference():
    rows = gaussian(2000, np.random.default_rng(5))
    assert described(np.round(rows)).distance < 0.05  # six values a column
    rows[::2, 0] += 8.0
    assert described(np.round(rows)).distance > 0.3


@pytest.mark.parametrize(("likely", "level"), [(0.9, "poor"), (0.5, "close")])
def test_yes_no_answers_that_depend_on_each_other_are_not_one_class(likely, level):
    rng = np.random.default_rng(6)
    probabilities = np.where(rng.random((1000, 1)) < 0.5, likely, 1 - likely)
    rows = (rng.random((1000, 8)) < probabilities).astype(float)
    laws = tuple(Distribution((j,), Bernoulli()) for j in range(8))
    found = described(rows, laws)
    assert max(found.columns.values()) < 0.05  # shares of single answers are right
    assert found.level == level


COLUMNS = (0, 1, 2, "yes", "color", "color", "count", "gaps", "gaps", "level", "level")


def described_by_families(p, n=3000):
    """Rows of all families against the mixture `p`."""
    rows = drawn(n, seed=7)[0]
    moments = standard_moments(rows)
    object.__setattr__(moments, "parts", tuple(map(FeaturePart, COLUMNS)))
    p = p.standardized(moments.shift, moments.scale)
    values = (rows - moments.shift) / moments.scale
    halves = [features_of(half, p.blocks) for half in np.array_split(values, 2)]
    return describe([(p, half) for half in halves], moments, True)


@pytest.mark.parametrize(
    ("feature", "mean", "column"),
    [(3, 0.9, "yes"), (5, 0.05, "color"), (6, 9.0, "count"), (8, 0.3, "gaps"), (7, 40.0, "gaps")],
)
def test_a_column_of_a_family_that_differs_is_named(feature, mean, column):
    p = mixed_law()
    p.means[:, feature] = mean
    columns = described_by_families(p.completed()).columns
    assert max(columns, key=columns.get) == column
    assert columns[column] > 0.2


def test_a_mixture_that_the_test_does_not_reject_is_exact():
    rows = gaussian(500, np.random.default_rng(8))
    exact, untested = (described(rows, rejected=rejected) for rejected in (False, None))
    assert exact.level == "exact"
    assert untested.level == "close"
    assert exact.distance == untested.distance


@pytest.mark.parametrize(("n", "level"), [(200, "poor"), (20, "exact")])
def test_a_test_without_power_does_not_make_a_poor_mixture_exact(n, level):
    found = described(two_clusters(n, np.random.default_rng(9)), rejected=False)
    assert found.distance > 0.3  # of 20 rows by a chance of more
    assert found.level == level


@pytest.mark.parametrize(
    ("p_value", "effect", "level"),
    [(0.3, 0.4, "exact"), (1e-9, 1e-4, "exact"), (1e-9, 0.01, "close"), (1e-9, 0.1, "rough"),
     (1e-9, 0.4, "poor")],
)  # fmt: skip
def test_without_rows_the_effect_size_decides(p_value, effect, level):
    found = described_by_effect(OverIdentification(9.0, 9, p_value, effect))
    assert found.level == level
    assert np.isnan(found.distance)
    assert not found.columns


# -- fits ------------------------------------------------------------------------------------------


def test_a_summary_has_a_level_and_no_distance():
    rows = clusters_in_all_columns(2000, np.random.default_rng(12))
    one, two = (mm.fit(mm.summarize(rows, order=3), r, random_state=0) for r in (1, 2))
    assert one.certificate.description.level == "poor"
    assert two.certificate.description.level == "exact"
    assert np.isnan(
        [one.certificate.description.distance, two.certificate.description.distance]
    ).all()

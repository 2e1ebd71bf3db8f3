"""Components that other rows give again: their measure, the number of them, and the verdict."""

from dataclasses import replace

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix import dask as mmd

SHAPES = {
    "gaussian": lambda rng, size: rng.standard_normal(size),
    "t": lambda rng, size: rng.standard_t(4, size) / np.sqrt(2),
    "gamma": lambda rng, size: (rng.gamma(2.0, 1.0, size) - 2) / np.sqrt(2),
    "uniform": lambda rng, size: rng.uniform(-np.sqrt(3), np.sqrt(3), size),
}


def clusters(r=3, n=2000, d=4, shape="gaussian", distance=7.0, seed=0):
    """Components of a shape, with coordinates of variance 1, this far apart in one column each."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % r
    return SHAPES[shape](rng, (n, d)) + distance * np.eye(r, d)[labels] * (r > 1)


def fitted(rows, n_components, **options):
    return mm.fit(rows, n_components, random_state=0, **options)


# -- reproducibility --------------------------------------------------------------------------


def test_one_component_is_always_found_again():
    assert fitted(clusters(1, 500), 1).reproducibility.tolist() == [1.0]


def test_separate_clusters_are_found_again_and_a_part_of_one_is_not():
    rows = clusters()
    right = fitted(rows, 3).reproducibility
    # Rows that one of two fits sorts otherwise: means are 7 apart, and Φ(−3.5) = 2e-4.
    assert right.shape == (3,)
    assert right.min() > 0.99
    wrong = fitted(rows, 4).reproducibility
    assert wrong.shape == (4,)
    assert ((wrong >= 0) & (wrong <= 1)).all()
    assert wrong.min() < 0.5
    assert (wrong > 0.9).sum() >= 2  # of the clusters that are whole


def test_a_summary_has_no_rows_to_split():
    result = fitted(mm.summarize(clusters(2), order=4), 2)
    assert np.isnan(result.reproducibility).all()
    assert result.reproducibility.shape == (2,)
    rejected = replace(result.certificate, predicted_loss=0.5)
    assert rejected.verdict == "not passed"
    assert "no rows to split" in str(rejected)


def test_of_few_rows_it_depends_on_no_seed_and_no_order():
    rows = clusters(distance=3.5)  # close enough that some rows change sides
    first = fitted(rows, 3)
    assert first.reproducibility.max() < 1
    for seed, order in enumerate([np.arange(2000), np.arange(2000)[::-1]], start=1):
        other = mm.fit(rows[order], 3, random_state=seed)
        places = ((first.mixture.means[:, None] - other.mixture.means) ** 2).sum(axis=2).argmin(1)
        # The answers of two seeds differ by a small part of a standard error, and so may a row.
        np.testing.assert_allclose(
            other.reproducibility[places], first.reproducibility, atol=3 / 600
        )


def mixed_table(n=3000, seed=1):
    """Two groups that every family of columns tells apart a little."""
    rng = np.random.default_rng(seed)
    group = np.arange(n) % 2
    frame = pd.DataFrame({f"x{j}": rng.normal(3.0 * group) for j in range(2)})
    frame["yes"] = rng.random(n) < np.array([0.1, 0.9])[group]
    frame["kind"] = np.array(list("abc"))[(rng.random(n) < np.array([0.2, 0.7])[group]) + group]
    frame["count"] = rng.poisson(np.array([2.0, 9.0])[group])
    frame.loc[rng.random(n) < 0.2, "x0"] = np.nan
    return frame


def weighted_rows():
    rng = np.random.default_rng(2)
    return clusters(n=900), rng.integers(0, 4, 900)


CASES = {
    "families and gaps": lambda: fitted(
        mixed_table(), 2, families={"count": "poisson"}, missing="model"
    ),
    "joined columns with gaps": lambda: fitted(
        mixed_table()[["x0", "x1", "count"]], 2, blocks=[["x0", "x1"]], missing="model"
    ),
    "blocks": lambda: fitted(clusters(), 3, blocks=[[0, 1], [2, 3]]),
    "one column": lambda: fitted(clusters(2, d=2)[:, :1], 2),
    "whole weights": lambda: fitted(clusters(n=900), 3, sample_weight=weighted_rows()[1]),
    "survey weights": lambda: fitted(
        clusters(n=900), 3, sample_weight=np.random.default_rng(0).uniform(0.2, 2, 900)
    ),
    "dask": lambda: mmd.fit(da.from_array(clusters(n=9000), chunks=(2000, 4)), 3, random_state=0),
}


def test_whole_weights_count_as_repeated_rows():
    rows, weights = weighted_rows()
    weighted = fitted(rows, 4, sample_weight=weights)
    repeated = fitted(np.repeat(rows, weights, axis=0), 4)
    np.testing.assert_allclose(
        np.sort(weighted.reproducibility), np.sort(repeated.reproducibility), atol=0.02
    )


@pytest.mark.parametrize(("n_heavy", "is_found"), [(2, False), (40, True)])
def test_copies_of_a_heavy_row_of_a_survey_are_one_observation(n_heavy, is_found):
    """Rows that stand for a quarter of all people: two of them are no group, forty are one."""
    rows = clusters(1, 1200, seed=3)
    rows[:n_heavy] += 6.0
    weights = np.random.default_rng(0).uniform(0.5, 1.5, 1200)
    weights[:n_heavy] = 400 / n_heavy + 0.3
    result = fitted(rows, 2, sample_weight=weights)
    # Normal rows are 12 deviations apart; the errors of weights are those of 40 rows.
    assert result.mixture.weights.min() == pytest.approx(0.25, abs=0.02)
    assert (result.reproducibility.min() > 0.95) == is_found
    assert (result.certificate.verdict in ("passed", "useful")) == is_found


def test_a_small_component_of_many_rows_is_kept():
    """One row in a hundred: of 6,000 rows, a half would hold 30 of them."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((60_000, 5))
    rows[:600, 0] += 8.0
    rows[600:30_000, 1] += 8.0
    result = fitted(rows, 3)
    small = int(result.mixture.weights.argmin())
    assert result.mixture.weights[small] == pytest.approx(0.01, abs=5 * np.sqrt(0.01 / 60_000))
    assert result.reproducibility[small] > 0.95


# -- the number of groups ---------------------------------------------------------------------

LAWS = {
    **{f"three of {shape}": (lambda s=shape: clusters(shape=s), 3) for shape in SHAPES},
    **{f"one of {shape}": (lambda s=shape: clusters(1, shape=s), 1) for shape in SHAPES},
    # Densities between them underflow.
    "three of gamma far apart": (lambda: clusters(shape="gamma", distance=100.0), 3),
    # Halves of duplicates would be the same rows.
    "one of sixty rows copied": (
        lambda: np.repeat(np.random.default_rng(1).normal(size=(60, 3)), 20, 0),
        1,
    ),
    "three of rows copied": (lambda: np.repeat(clusters(n=600), 3, 0), 3),
    "three points": (lambda: np.repeat(np.random.default_rng(1).normal(size=(3, 3)), 100, 0), 3),
    "one column": (lambda: clusters(2, d=2)[:, :1], 2),
}


@pytest.mark.parametrize("law", list(LAWS))
def test_the_number_is_that_of_the_groups(law):
    make, number = LAWS[law]
    result = fitted(make(), "auto")
    assert result.mixture.n_components == number
    trials = {trial.n_components: trial for trial in result.tried}
    assert [r for r, trial in trials.items() if trial.chosen] == [number]
    assert all(len(trial.reproducibility) == r for r, trial in trials.items())
    if number > 1 and law != "three points":  # which have no spread
        assert result.certificate.verdict in ("passed", "useful")


@pytest.mark.long
@pytest.mark.parametrize("shape", ["t", "gamma"])
def test_least_bic_wants_more_components_than_groups(shape):
    assert fitted(clusters(shape=shape), "bic").mixture.n_components > 3


def test_components_that_differ_in_spread_alone():
    rng = np.random.default_rng(0)
    deviations = np.array([1.0, 6.0])[np.arange(3000) % 2]
    result = fitted(rng.standard_normal((3000, 5)) * deviations[:, None], "auto")
    assert result.mixture.n_components == 2
    assert result.separation[0, 1] < 0.1


def answers(group, n_columns, seed):
    """Yes/no columns; the groups answer half of them otherwise."""
    chances = np.where(np.arange(n_columns) % 2, 0.85, [[0.15], [0.85]])
    rows = np.random.default_rng(seed).random((len(group), n_columns)) < chances[group]
    return pd.DataFrame(rows, columns=[f"question {j}" for j in range(n_columns)])


def test_latent_classes_of_yes_no_columns():
    group = np.arange(3000) % 2
    assert fitted(answers(group, 10, 0), "auto").mixture.n_components == 2
    assert fitted(answers(0 * group, 10, 0), "auto").mixture.n_components == 1


def test_answers_of_one_trait_are_one_group_and_its_classes_a_continuum():
    rng = np.random.default_rng(0)
    chances = 1 / (1 + np.exp(-1.5 * rng.normal(size=(600, 1)) - rng.normal(size=12)))
    rows = pd.DataFrame(rng.random((600, 12)) < chances).add_prefix("question ")
    assert fitted(rows, "auto").mixture.n_components == 1
    classes = fitted(rows, 2)
    assert classes.is_continuum.all()
    assert classes.certificate.verdict == "useful"
    assert "segments of a continuum" in str(classes).split("\n")[0]


def test_two_squares_are_two_groups_and_one_square_cut_in_two_is_a_continuum():
    rng = np.random.default_rng(0)
    square = rng.random((800, 2))
    both = np.vstack([square, rng.random((400, 2)) + np.array([0, 2])])
    result = fitted(both, "auto")
    assert result.mixture.n_components == 2
    assert not result.is_continuum.any()
    cut = fitted(square, 2)
    assert cut.is_continuum.all()
    assert cut.certificate.verdict in ("useful", "not passed")


def test_correlated_columns_are_joined_unless_diagonal_covariances_are_asked_for():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 3)) @ np.array([[1.0, 0.9, 0], [0, 0.4, 0], [0, 0, 1]])
    joined = fitted(rows, "auto")
    assert joined.mixture.n_components == 1
    assert [block.columns for block in joined.joined] == [(0, 1)]
    diagonal = fitted(rows, "auto", blocks="diag")
    assert diagonal.mixture.parameters.blocks.is_diagonal
    assert diagonal.joined == ()
    # A given number keeps diagonal covariances.
    assert fitted(rows, 1).mixture.parameters.blocks.is_diagonal


# -- the verdict ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_gamma():
    return fitted(clusters(n=6000, shape="gamma"), 3)


def test_groups_of_another_shape_are_useful(of_gamma):
    certificate = of_gamma.certificate
    assert certificate.verdict == "useful"
    assert not certificate.passed
    assert certificate.test.is_rejected
    assert of_gamma.certificate.description.level in ("close", "rough")


def test_too_many_components_are_not_useful():
    result = fitted(clusters(), 6)
    assert result.certificate.verdict == "not passed"
    assert result.reproducibility.min() < 0.75

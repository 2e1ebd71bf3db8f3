"""The automatic number of components: right, within what rows allow, and with its reasons."""

from itertools import pairwise
from math import log

import numpy as np
import pytest
from fitting_helpers import random_mixture

import momentmix as mm
from momentmix.fitting.problem import ROWS_PER_PARAMETER


def one_column(n=20_000):
    """Two components 5 deviations apart in one of eight columns."""
    rows = np.random.default_rng(0).standard_normal((n, 8))
    rows[: 2 * n // 5, 0] += 5
    return rows


def three_clusters():
    """Means on a line."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 3000)
    return rng.normal(labels[:, None] * np.array([5.0, -3, 10, 1, 2]), 1)


def generic(r, n):
    return random_mixture(r, 6, seed=r, spread=2.0).sample(n, random_state=0)[0]


def single():
    return np.random.default_rng(3).standard_normal((1500, 4))


LAWS = {
    "one column": (one_column, 2),
    "three clusters": (three_clusters, 3),
    "generic": (lambda: generic(4, 4000), 4),
    "single": (single, 1),
}


@pytest.fixture(scope="module", params=list(LAWS))
def law(request):
    make, number = LAWS[request.param]
    rows = make()
    return rows, number, mm.fit(rows, "auto", random_state=0)


def given_blocks(rows, n_components):
    return mm.fit(rows, n_components, blocks="diag", random_state=0)


# -- the number -------------------------------------------------------------------------------


def test_the_number_with_rows_is_right(law):
    rows, number, result = law
    assert result.mixture.n_components == number
    assert result.certificate.passed
    most = max(trial.n_components for trial in result.tried)
    reason = f"n_components={number}: the largest of 1 to {most} that halves of the rows reproduce"
    assert any(note.startswith(reason) for note in result.notes)
    given = mm.fit(rows, number, random_state=0)
    np.testing.assert_allclose(result.log_likelihood, given.log_likelihood, atol=1e-3)


@pytest.mark.parametrize("name", list(LAWS))
def test_the_number_of_least_bic_is_right(name):
    make, number = LAWS[name]
    rows = make()
    result = given_blocks(rows, "bic")
    assert result.mixture.n_components == number
    assert result.certificate.passed
    assert any(note.startswith(f"n_components={number}: least BIC") for note in result.notes)
    numbers = check_trials(result, number)
    assert min(result.tried, key=lambda trial: trial.bic).n_components == number
    assert numbers[-1] > number
    n, d = rows.shape
    for trial in result.tried:
        assert trial.reproducibility == ()
        n_free = trial.n_components * (2 * d + 1) - 1
        assert trial.bic == pytest.approx(n_free * log(n) - 2 * n * trial.log_likelihood)


@pytest.mark.parametrize("name", list(LAWS))
def test_the_number_from_a_summary_is_right(name):
    make, number = LAWS[name]
    result = mm.fit(mm.summarize(make(), order=4), "auto", random_state=0)
    assert result.mixture.n_components == number
    assert result.certificate.passed
    assert any("the smallest that the moments accept" in note for note in result.notes)
    trials = {trial.n_components: trial for trial in result.tried}
    assert [r for r, trial in trials.items() if trial.chosen] == [number]
    assert trials[number].p_value >= 0.01
    assert all(trial.p_value < 0.01 for r, trial in trials.items() if r < number)
    assert all(np.isnan(trial.bic) and np.isnan(trial.log_likelihood) for trial in result.tried)


def check_trials(result, number):
    """Numbers ascend from 1, and the chosen one is marked; return them."""
    numbers = [trial.n_components for trial in result.tried]
    assert numbers[0] == 1
    assert all(a < b for a, b in pairwise(numbers))
    assert [trial.n_components for trial in result.tried if trial.chosen] == [number]
    return numbers


def test_what_was_tried_is_listed(law):
    _, number, result = law
    assert check_trials(result, number)[-1] > number
    for trial in result.tried:
        again = trial.reproducibility
        assert len(again) == trial.n_components
        assert 0 <= min(again) <= max(again) <= 1
        if trial.n_components > number:
            assert min(again) < 0.75
    (own,) = (trial for trial in result.tried if trial.chosen)
    assert min(own.reproducibility) >= 0.75


def test_bic_is_in_the_units_of_the_data():
    rows = 1e3 * generic(3, 2000)
    result = given_blocks(rows, "auto")
    (trial,) = (trial for trial in result.tried if trial.chosen)
    own = result.mixture.log_prob(rows).mean()
    assert result.log_likelihood == pytest.approx(own, abs=1e-6)
    # A search ends where five steps gain less than 5e-5 nats a row; the passes go on from there.
    # In standardized units it would be off by 6·log 1000 = 41.
    assert abs(trial.log_likelihood - own) < 1e-3
    n_free = result.mixture.n_components * 13 - 1
    assert abs(trial.bic - (n_free * log(2000) - 2 * 2000 * own)) < 2 * 2000 * 1e-3


def test_a_given_number_tries_nothing():
    assert mm.fit(single(), 1, random_state=0).tried == ()


# -- what rows allow --------------------------------------------------------------------------


@pytest.mark.parametrize("n", [24, 130])
def test_rows_limit_the_number(n):
    """Eight clusters that are plain to see: a handful of rows of each says nothing."""
    rng = np.random.default_rng(0)
    corners = 20.0 * np.array(list(np.ndindex(2, 2, 2)))
    rows = corners[np.arange(n) % 8] + rng.standard_normal((n, 3))
    result = given_blocks(rows, "bic")
    most = n // 6
    assert max(trial.n_components for trial in result.tried) <= most
    assert result.mixture.n_components == min(most, 8)
    limited = f"{n} rows with 3 features allow no more"
    assert any(limited in note for note in result.notes) == (most < 8)
    # Of 24 rows no eight components: pairs of clusters, which halves give again.
    groups = given_blocks(rows, "auto")
    assert groups.mixture.n_components == {24: 4, 130: 8}[n]


@pytest.mark.parametrize(("n", "d"), [(40, 20), (90, 50), (150, 30)])
def test_fewer_rows_than_parameters_give_the_groups_that_are_plain_to_see(n, d):
    rng = np.random.default_rng([36, n])
    means = rng.standard_normal((2, d))
    means *= 6.0 / np.linalg.norm(means[0] - means[1])
    rows = means[np.arange(n) % 2] + rng.standard_normal((n, d))
    result = mm.fit(rows, "auto", random_state=0)
    assert result.mixture.n_components == 2
    assert result.certificate.verdict in ("useful", "passed")
    # Controls: one cloud, and one whose columns share a factor, which a cut describes better.
    cloud = rng.standard_normal((n, d))
    assert mm.fit(cloud, "auto", random_state=0).mixture.n_components == 1
    cloud = 0.7 * cloud + 0.7 * rng.standard_normal((n, 1))
    assert mm.fit(cloud, "auto", random_state=0).mixture.n_components == 1


def test_a_summary_of_few_rows_limits_the_number():
    rows = generic(4, 4000)[:150]
    result = mm.fit(mm.summarize(rows, order=4), "auto", random_state=0)
    most = 150 // (ROWS_PER_PARAMETER * 13)
    assert most == 2
    assert max(trial.n_components for trial in result.tried) <= most
    assert not result.certificate.passed


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_handful_of_rows_is_one_component(n):
    rows = np.random.default_rng(0).standard_normal((n, 3))
    if n == 1:
        with pytest.raises(mm.errors.InputError, match="constant"):
            mm.fit(rows, "auto", random_state=0)
        return
    result = mm.fit(rows, "auto", random_state=0)
    assert result.mixture.n_components == 1
    assert [trial.n_components for trial in result.tried] == [1]

"""blocks= of fits: given, found by BIC, found by the test of moments; and what cannot be."""

import numpy as np
import pytest
from sklearn.datasets import load_wine

import momentmix as mm
from momentmix.errors import CapacityError, InputError
from momentmix.fitting.joining import paying_groups

N = 8000


def law(seed=0, correlation=0.6):
    """Three components; columns 0, 1, 2 and 3, 4 joined, 5 and 6 alone; signs by component."""
    rng = np.random.default_rng(seed)
    covariances = np.tile(np.eye(7), (3, 1, 1))
    for i in range(3):
        signs = rng.choice([-1.0, 1.0], 7)
        for group in ([0, 1, 2], [3, 4]):
            table = correlation * np.outer(signs[group], signs[group])
            np.fill_diagonal(table, 1.0)
            covariances[i][np.ix_(group, group)] = table
    means = 2.0 * rng.normal(size=(3, 7))
    return mm.Mixture([0.5, 0.3, 0.2], means, covariances)


@pytest.fixture(scope="module")
def case():
    truth = law()
    rows, labels = truth.sample(N, random_state=1)
    return truth, rows, labels


def joined(mixture):
    return [list(block.columns) for block in mixture.blocks if len(block.columns) > 1]


def bic_of(result, rows):
    p = result.mixture.parameters
    return p.n_free * np.log(len(rows)) - 2 * len(rows) * result.log_likelihood


def errors_of(result, truth):
    """Errors of means and covariances in standard errors."""
    aligned = result.mixture.align(truth)
    errors = result.standard_errors
    within = aligned.covariances[0] != 0
    gaps = [(result.mixture.means - aligned.means) / errors.means]
    difference = (result.mixture.covariances - aligned.covariances)[:, within]
    gaps.append(difference / errors.covariances[:, within])
    return np.concatenate([gap.ravel() for gap in gaps])


def test_given_blocks_are_fitted(case):
    truth, rows, _ = case
    result = mm.fit(rows, 3, blocks=[[2, 0, 1], [3, 4]], random_state=0)
    assert joined(result.mixture) == [[0, 1, 2], [3, 4]]
    gain = (result.mixture.log_prob(rows) - truth.log_prob(rows)).mean()
    # A maximum exceeds the truth by about half a nat a parameter.
    n_free = 3 * (1 + 7 + 7 + 4) - 1
    assert 0 < gain < 3 * n_free / (2 * N)
    gaps = errors_of(result, truth)
    assert np.abs(gaps).max() < 5
    assert 0.7 < gaps.std() < 1.3  # neither is it known better, nor worse, than the errors say
    assert result.certificate.p_value > 1e-3
    diagonal = mm.fit(rows, 3, random_state=0)  # control
    assert diagonal.certificate.p_value < 1e-6
    assert diagonal.mixture.log_prob(rows).mean() < truth.log_prob(rows).mean() - 0.1


def test_full_covariances_are_one_block(case):
    truth, rows, _ = case
    result = mm.fit(rows, 3, blocks=[range(7)], random_state=0)
    assert joined(result.mixture) == [list(range(7))]
    assert [(block.columns, block.why) for block in result.joined] == [(tuple(range(7)), "given")]
    assert (result.mixture.log_prob(rows) - truth.log_prob(rows)).mean() > 0


def test_blocks_are_found_by_bic(case):
    _, rows, _ = case
    result = mm.fit(rows, 3, blocks="auto", random_state=0)
    assert joined(result.mixture) == [[0, 1, 2], [3, 4]]
    assert any("(--blocks '0,1,2;3,4'): least BIC" in note for note in result.notes)
    assert [block.columns for block in result.joined] == [(0, 1, 2), (3, 4)]
    # The shares of rows hardly change: the gains add up to that of the fit over a diagonal one.
    diagonal = mm.fit(rows, 3, random_state=0)
    gain = bic_of(diagonal, rows) - bic_of(result, rows)
    gains = [float(block.why.removeprefix("BIC falls by ")) for block in result.joined]
    assert sum(gains) == pytest.approx(gain, rel=0.1)
    assert "  joined               column 3, column 4: BIC falls by" in result.details()


def test_nothing_is_joined_where_nothing_is_correlated():
    truth = law(correlation=0.0)
    rows, _ = truth.sample(N, random_state=2)
    result = mm.fit(rows, 3, blocks="auto", random_state=0)
    assert result.mixture.parameters.blocks.is_diagonal
    assert any("no columns joined" in note for note in result.notes)
    assert result.joined == ()
    assert "  joined  " not in result.details()


def test_blocks_from_a_summary(case):
    truth, rows, labels = case
    summary = mm.summarize(rows, order=4)
    result = mm.fit(summary, 3, blocks=[[0, 1, 2], [3, 4]], random_state=0)
    assert result.certificate.p_value > 1e-3
    gaps = errors_of(result, truth)
    assert np.abs(gaps).max() < 5
    best = (truth.predict(rows) == labels).mean()
    found = (truth.align(result.mixture).predict(rows) == labels).mean()
    assert found > best - 0.002


def test_blocks_are_found_in_a_summary(case):
    _, rows, _ = case
    result = mm.fit(mm.summarize(rows, order=4), 3, blocks="auto", random_state=0)
    assert joined(result.mixture) == [[0, 1, 2], [3, 4]]
    assert [block.columns for block in result.joined] == [(0, 1, 2), (3, 4)]
    for block in result.joined:
        assert "by the test" in block.why
        assert 0.1 < abs(float(block.why.split("(")[1].rstrip(")"))) <= 1
    assert "column 3, column 4: correlated within components by the test (" in result.details()


@pytest.mark.parametrize("width", [1, 3])
def test_number_and_blocks_of_strongly_correlated_columns_are_found_in_a_summary(width):
    """Without blocks, six components explain the correlations; control: columns apart."""
    rng, r = np.random.default_rng(5), 3
    covariances = np.zeros((r, 9, 9))
    for table in covariances:
        for first in range(0, 9, width):
            own = slice(first, first + width)
            root = rng.normal(size=(width, width + 1))
            table[own, own] = root @ root.T / width + 0.1 * np.eye(width)
    truth = mm.Mixture(rng.dirichlet(np.full(r, 8.0)), rng.normal(size=(r, 9)), covariances)
    summary = mm.summarize(truth.sample(30_000, random_state=1)[0], order=4)
    result = mm.fit(summary, "auto", blocks="auto", random_state=0)
    assert result.mixture.n_components == r
    found = [] if width == 1 else [list(range(k, k + width)) for k in range(0, 9, width)]
    assert joined(result.mixture) == found
    assert result.certificate.p_value > 1e-3
    assert [trial.n_components for trial in result.tried if trial.chosen] == [r]


def test_constant_columns_leave_their_blocks(case):
    _, rows, _ = case
    wide = np.insert(rows[:2000], 1, 3.0, axis=1)
    result = mm.fit(wide, 3, blocks=[[0, 1, 2, 3], [4, 5]], random_state=0)
    assert joined(result.mixture) == [[0, 2, 3], [4, 5]]
    assert (result.mixture.means[:, 1] == 3.0).all()


@pytest.mark.parametrize("number", [3, "auto"])
def test_columns_of_any_order_and_sign_give_the_same_answer(number):
    table = load_wine()
    first = mm.fit(table.data, number, blocks="auto", random_state=0)
    wrong = (
        178
        - np.array(
            [
                np.bincount(table.target[first.mixture.predict(table.data) == k]).max()
                for k in range(3)
            ]
        ).sum()
    )
    assert wrong <= 0.03 * 178
    assert first.bic < mm.fit(table.data, number, blocks="diag", random_state=0).bic
    rng = np.random.default_rng(1)
    order, signs = rng.permutation(13), rng.choice([-1.0, 1.0], 13)
    again = mm.fit(table.data[:, order] * signs, number, blocks="auto", random_state=0)
    assert again.log_likelihood == pytest.approx(first.log_likelihood, abs=1e-6)
    groups = {tuple(sorted(order[list(b.columns)].tolist())) for b in again.joined}
    assert groups == {b.columns for b in first.joined}


def test_what_cannot_be_fitted(case):
    _, rows, _ = case
    summary = mm.summarize(rows, order=4)
    with pytest.raises(CapacityError, match="at least three blocks"):
        mm.fit(summary, 2, blocks=[range(7)])
    with pytest.raises(CapacityError, match="in 3 blocks identifies at most"):
        mm.fit(summary, 5, blocks=[[0, 1, 2], [3, 4], [5, 6]])
    with pytest.raises(InputError, match="a block of 7 columns needs more than 7 rows for each"):
        mm.fit(rows[:20], 3, blocks=[range(7)])
    wide = np.random.default_rng(0).normal(size=(2000, 100))
    with pytest.raises(InputError, match="10302 parameters; fits with blocks have at most 8000"):
        mm.fit(wide, 2, blocks=[range(100)])


def test_what_pays_is_joined():
    within = np.array([np.eye(5), np.eye(5)])
    within[0, 0, 1] = within[0, 1, 0] = 0.5
    within[1, 2, 4] = within[1, 4, 2] = -0.5
    weights = np.array([0.5, 0.5])
    assert sorted(paying_groups(weights, within, 2000)) == [(0, 1), (2, 4), (3,)]
    assert all(len(x) == 1 for x in paying_groups(weights, within, 40))  # control: too few rows

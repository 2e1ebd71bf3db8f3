"""Rows with weights: repeated, as they are, or counted."""

import numpy as np
import pytest

from momentmix import MomentSummary, fit, summarize
from momentmix.errors import InputError
from momentmix.fitting.data import rows_of
from momentmix.tables.rows import ArrayRows, WeightedRows, proportional_places, with_weights

ROWS = np.random.default_rng(0).normal(size=(500, 3))
WEIGHTS = np.random.default_rng(1).uniform(0.2, 3.0, 500)


class Source:
    """What a caller's own source of blocks has, and no more."""

    n_features = 3
    n_rows = 500

    def blocks(self):
        yield from np.array_split(ROWS, 4)


def weighted(weights=WEIGHTS, rows=ROWS):
    return with_weights(ArrayRows(rows, block_size=70), weights)


def test_whole_weights_repeat_rows():
    times = np.arange(500) % 4
    found = weighted(times)
    np.testing.assert_array_equal(found.rows, np.repeat(ROWS, times, axis=0))
    assert found.row_counts is None
    assert found.n_counted == found.n_rows == times.sum()


def test_whole_weights_beyond_the_memory_are_counted():
    times = np.full(500, 1000.0)
    times[0] = 7
    found = weighted(times)
    assert found.is_frequency
    assert found.n_rows == 500
    np.testing.assert_array_equal(found.row_counts, times)


@pytest.mark.parametrize("weights", [np.full(500, 0.7), np.ones(500)])
def test_equal_weights_change_nothing(weights):
    rows = ArrayRows(ROWS)
    found = with_weights(rows, weights)
    np.testing.assert_array_equal(found.rows, rows.rows)
    assert found.row_counts is None


def test_other_weights_are_relative():
    counts = weighted().row_counts
    np.testing.assert_allclose(weighted(WEIGHTS * 1e9).row_counts, counts, rtol=1e-12)
    np.testing.assert_allclose(counts / counts[0], WEIGHTS / WEIGHTS[0], rtol=1e-12)
    # On average by squared weights a row counts as one, so that Kish's number is larger.
    assert np.average(counts, weights=WEIGHTS**2) == pytest.approx(1.0)
    assert counts.sum() < WEIGHTS.sum() ** 2 / (WEIGHTS**2).sum() < 500


def test_rows_of_weight_0_are_left_out():
    weights = np.where(np.arange(500) % 5, WEIGHTS, 0.0)
    found = weighted(weights)
    assert found.n_rows == 400
    np.testing.assert_array_equal(np.concatenate(list(found.blocks())), ROWS[weights > 0])
    np.testing.assert_array_equal(
        found.row_counts, weighted(weights[weights > 0], ROWS[weights > 0]).row_counts
    )


def test_rows_that_are_left_out_take_their_weights_along():
    places = np.array([0, 3, 499])
    found, expected = weighted().without(places), np.delete(WEIGHTS, places)
    assert isinstance(found, WeightedRows)
    np.testing.assert_array_equal(found.weights, expected)
    np.testing.assert_allclose(
        found.row_counts, expected * (expected**2).sum() / (expected**3).sum()
    )


def test_sums_and_summaries_have_the_weights():
    expected = summarize(ROWS, 3, sample_weight=WEIGHTS)
    for rows in (ArrayRows(ROWS, block_size=70), rows_of(Source())):
        found = with_weights(rows, WEIGHTS)
        total, count = found.sum_blocks(
            lambda block, n: ((block * n[:, None]).sum(axis=0), n.sum()), 2
        )
        np.testing.assert_allclose(total, found.row_counts @ ROWS)
        assert count == pytest.approx(found.row_counts.sum())
        summary = found.summarize_into(MomentSummary(3, 3))
        assert summary.effective_rows == expected.effective_rows
        np.testing.assert_allclose(summary.mean, expected.mean, rtol=1e-14)


def test_draws_are_proportional():
    for size in (1, 37, 500, 4000):
        for offset in (0.0, 0.3, 0.999):
            times = np.bincount(proportional_places(WEIGHTS, size, offset), minlength=500)
            assert times.sum() == size
            assert np.abs(times - size * WEIGHTS / WEIGHTS.sum()).max() < 1
    assert proportional_places(np.full(7, 0.1), 7, 0.999).tolist() == list(range(7))


def test_refusals():
    class Remote(ArrayRows):
        is_remote = True

    with pytest.raises(InputError, match=r"at hand; these lie on a cluster. Repeat the rows"):
        with_weights(Remote(ROWS), WEIGHTS)
    with pytest.raises(InputError, match=r"sample_weight must have shape \(500,\)"):
        fit(ROWS, 1, sample_weight=WEIGHTS[:3])
    with pytest.raises(InputError, match="sample_weight goes with rows; a summary holds"):
        fit(summarize(ROWS, 3), 1, sample_weight=WEIGHTS)

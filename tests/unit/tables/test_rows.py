"""One protocol of rows: arrays, device arrays, sources of blocks, and rows with weights."""

import numpy as np
import pytest

from momentmix import MomentSummary, fit, summarize
from momentmix.errors import InputError
from momentmix.fitting.data import rows_of
from momentmix.tables.rows import (
    ArrayRows,
    BlockRows,
    WeightedRows,
    proportional_places,
    with_weights,
)

ROWS = np.random.default_rng(0).normal(size=(5000, 3))


class Source:
    """What a caller's own source of blocks has, and no more."""

    n_features = 3

    def __init__(self, rows):
        self.rows, self.n_rows = rows, len(rows)

    def blocks(self):
        for start in range(0, self.n_rows, 999):
            yield self.rows[start : start + 999]


def cut(rows, block_size):
    rows.block_size = block_size
    return rows


KINDS = {
    "array": cut(ArrayRows(ROWS), 700),
    "blocks": BlockRows(Source(ROWS)),
}


@pytest.fixture(params=KINDS)
def rows(request):
    return KINDS[request.param]


def test_sizes_and_blocks(rows):
    assert (rows.n_rows, rows.n_features) == (5000, 3)
    assert rows.feature_names is None
    assert not rows.is_remote
    np.testing.assert_array_equal(np.concatenate(list(rows.blocks())), ROWS)


def test_some_rows_by_their_numbers(rows):
    places = np.array([0, 1, 699, 700, 2500, 4999])
    np.testing.assert_array_equal(rows.take(places), ROWS[places])


@pytest.mark.parametrize("n_threads", [1, 3])
def test_sums_over_blocks(rows, n_threads):
    def work(block):
        xp = block.__array_namespace__()
        return float(xp.sum(block)), block.shape[0]

    total, count = rows.sum_blocks(work, n_threads)
    assert total == pytest.approx(ROWS.sum())
    assert count == 5000


def test_summaries(rows):
    summary = rows.summarize_into(MomentSummary(3, 2))
    assert summary.n_rows == 5000
    np.testing.assert_allclose(summary.mean, ROWS.mean(axis=0))


def test_a_source_without_rows_is_refused():
    empty = BlockRows(Source(ROWS[:0]))
    assert empty.take(np.array([], dtype=np.int64)).shape == (0, 3)
    for call in (lambda: empty.sum_blocks(len), lambda: empty.summarize_into(MomentSummary(3, 2))):
        with pytest.raises(InputError, match="at least one row; the source gave none"):
            call()


def test_an_excerpt_has_rows_in_their_order(rows):
    places, values = rows.excerpt(10_000)
    np.testing.assert_array_equal(places, np.arange(5000))
    np.testing.assert_array_equal(values, ROWS)
    places, values = rows.excerpt(1200)
    assert len(places) == 1200
    assert (np.diff(places) > 0).all()
    assert (np.diff(places) == 1).mean() > 0.9
    np.testing.assert_array_equal(values, ROWS[places])
    # Of rows at hand it reaches to the last row; of a source it takes no more than the first rows.
    assert places[-1] == (1199 if isinstance(rows, BlockRows) else 4999)


def test_an_excerpt_of_a_source_stops_reading():
    class Counted(Source):
        n_read = 0

        def blocks(self):
            for block in super().blocks():
                self.n_read += 1
                yield block

    source = Counted(ROWS)
    BlockRows(source).excerpt(1200)
    assert source.n_read == 2


def test_nothing_is_taken_of_remote_rows():
    class Remote(BlockRows):
        is_remote = True

    places, values = Remote(Source(ROWS)).excerpt(1200)
    assert places.shape == (0,)
    assert values.shape == (0, 3)


def test_rows_without_some(rows):
    places = np.array([0, 698, 699, 700, 998, 4999])
    left = rows.without(places)
    expected = np.delete(ROWS, places, axis=0)
    assert (left.n_rows, left.n_features) == (4994, 3)
    np.testing.assert_array_equal(np.concatenate(list(left.blocks())), expected)
    np.testing.assert_array_equal(left.take(np.array([0, 697, 4993])), expected[[0, 697, 4993]])
    summary = left.summarize_into(MomentSummary(3, 1))
    assert summary.n_rows == 4994
    np.testing.assert_allclose(summary.mean, expected.mean(axis=0))
    whole_block = rows.without(np.arange(999))
    np.testing.assert_array_equal(np.concatenate(list(whole_block.blocks())), ROWS[999:])


# -- weights: rows repeated, as they are, or counted -------------------------------------------

FEW = ROWS[:500]
WEIGHTS = np.random.default_rng(1).uniform(0.2, 3.0, 500)


def weighted(weights=WEIGHTS, rows=FEW):
    return with_weights(cut(ArrayRows(rows), 70), weights)


def test_whole_weights_repeat_rows():
    times = np.arange(500) % 4
    found = weighted(times)
    np.testing.assert_array_equal(found.rows, np.repeat(FEW, times, axis=0))
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
    rows = ArrayRows(FEW)
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
    np.testing.assert_array_equal(np.concatenate(list(found.blocks())), FEW[weights > 0])
    np.testing.assert_array_equal(
        found.row_counts, weighted(weights[weights > 0], FEW[weights > 0]).row_counts
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
    expected = summarize(FEW, 3, sample_weight=WEIGHTS)
    for rows in (cut(ArrayRows(FEW), 70), rows_of(Source(FEW))):
        found = with_weights(rows, WEIGHTS)
        total, count = found.sum_blocks(
            lambda block, n: ((block * n[:, None]).sum(axis=0), n.sum()), 2
        )
        np.testing.assert_allclose(total, found.row_counts @ FEW)
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
        with_weights(Remote(FEW), WEIGHTS)
    with pytest.raises(InputError, match=r"sample_weight must have shape \(500,\)"):
        fit(FEW, 1, sample_weight=WEIGHTS[:3])
    with pytest.raises(InputError, match="sample_weight goes with rows; a summary holds"):
        fit(summarize(FEW, 3), 1, sample_weight=WEIGHTS)

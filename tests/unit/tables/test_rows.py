"""One protocol of rows: arrays, device arrays and any source of blocks give the same."""

import array_api_strict as strict
import numpy as np
import pytest

from momentmix.errors import InputError
from momentmix.fitting.data import rows_of
from momentmix.summary.summary import MomentSummary
from momentmix.tables.rows import ArrayRows, BlockRows, DeviceRows, Rows

ROWS = np.random.default_rng(0).normal(size=(5000, 3))


class Source:
    """What a caller's own source of blocks has, and no more."""

    n_features = 3

    def __init__(self, rows):
        self.rows, self.n_rows = rows, len(rows)

    def blocks(self):
        for start in range(0, self.n_rows, 999):
            yield self.rows[start : start + 999]


KINDS = {
    "array": ArrayRows(ROWS, block_size=700),
    "device": DeviceRows(strict.asarray(ROWS), block_size=700),
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


def test_any_source_of_blocks_becomes_rows():
    assert isinstance(rows_of(Source(ROWS)), Rows)
    held = ArrayRows(ROWS)
    assert rows_of(held) is held


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

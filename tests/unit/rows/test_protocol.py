"""One protocol of rows: arrays, device arrays and any source of blocks give the same."""

import array_api_strict as strict
import numpy as np
import pytest

from momentmix.errors import InputError
from momentmix.fitting.inputs import rows_of
from momentmix.rows.protocol import ArrayRows, BlockRows, DeviceRows, Rows
from momentmix.summary.summary import MomentSummary

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

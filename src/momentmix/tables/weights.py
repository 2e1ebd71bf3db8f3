"""Rows with weights: repeated, as they are, or each with the number of rows that it counts as.

| symbol | name here |
|---|---|
| w: weights as given | ``weights`` |
| w, if the weights are whole numbers; else w Σ w² / Σ w³ | ``row_counts`` |

Whole weights are frequencies: a row of weight 3 is three rows. Other weights are relative, as those
of a survey: a multiple of all of them means the same. What matters is then how many rows they count
as beside a prior, or the price that BIC asks for a parameter. The weighted mean is as precise as
that of Kish's (Σ w)² / Σ w² rows. But scaled to that sum, heavy rows count as several rows each,
and BIC takes a few of them for a component. So the scale is such that rows count as one on
average, where rows of weight w are taken as often as they make the weighted mean vary, w². That is
fewer rows than Kish's; equal weights count as one row each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.parallel import few_threads, map_in_order
from momentmix.tables.rows import ArrayRows, BlockRows, DeviceRows, Rows, Sums, add_sums
from momentmix.tables.validation import as_weights

_MOST_REPEATED = 10, 10_000  # times the rows, and rows more: memory stays near that of the rows


def with_weights(rows: Rows, sample_weight: Any) -> Rows:
    """Rows that count as their weights say; rows of weight 0 are left out."""
    if rows.is_remote:
        raise InputError(
            "sample_weight needs rows that are at hand; these lie on a cluster. Repeat the rows, "
            "or add them with their weights to a MomentSummary and fit that."
        )
    weights = as_weights(sample_weight, rows.n_rows)
    if weights is None:
        return rows
    times, more = _MOST_REPEATED
    few = weights.sum() <= times * rows.n_rows + more
    if few and isinstance(rows, ArrayRows) and _are_whole(weights):
        return rows.like(np.repeat(rows.rows, weights.astype(np.int64), axis=0))
    nothing = np.flatnonzero(weights == 0)
    if nothing.size:
        rows, weights = rows.without(nothing), np.delete(weights, nothing)
    is_plain = (weights == weights[0]).all() and (weights[0] == 1 or not _are_whole(weights))
    return rows if is_plain else WeightedRows(rows, weights)


def _are_whole(weights: Float) -> bool:
    return bool((weights == np.floor(weights)).all())


class WeightedRows(BlockRows):
    """Rows of another object, each with a positive weight."""

    rows: Rows
    row_counts: Float

    def __init__(self, rows: Rows, weights: Float) -> None:
        super().__init__(rows)
        self.weights, self.is_frequency = weights, _are_whole(weights)
        relative = weights / weights.max()  # squares of these do not overflow
        in_rows = relative * ((relative**2).sum() / (relative**3).sum())
        self.row_counts = weights if self.is_frequency else in_rows
        self.expected_rows = self.n_counted

    def take(self, places: Int) -> Float:
        """The rows with these numbers."""
        return self.rows.take(places)

    def excerpt(self, size: int) -> tuple[Int, Float]:
        """An excerpt of the rows, whatever their weights."""
        return self.rows.excerpt(size)

    def without(self, places: Int) -> WeightedRows:
        """All rows but those with these numbers."""
        return WeightedRows(self.rows.without(places), np.delete(self.weights, places))

    def sum_blocks(self, work: Callable[..., Sums], n_threads: int = 1) -> Sums:
        """`work` of every block and its counts, added up as in `Rows.sum_blocks`."""
        if isinstance(self.rows, DeviceRows):
            return work(self.rows.rows, self.row_counts)
        blocks = self._blocks_with(self.row_counts)
        with few_threads(True):
            total: Sums = add_sums(map_in_order(lambda pair: work(*pair), blocks, n_threads))
        return total

    def summarize_into(self, summary: Any) -> Any:
        """Add all rows with their weights to an empty MomentSummary, and return it."""
        if isinstance(self.rows, DeviceRows | ArrayRows):
            return summary.update(self.summand(self.rows.rows), self.weights)
        return super().summarize_into(summary)

    def _weighted_blocks(self) -> Iterator[tuple[Float, Float]]:
        return self._blocks_with(self.weights)

    def _blocks_with(self, values: Float) -> Iterator[tuple[Float, Float]]:
        """Blocks, and the values of their rows."""
        start = 0
        for block in self.blocks():
            yield block, values[start : start + len(block)]
            start += len(block)


def proportional_places(weights: Float, size: int, offset: float = 0.5) -> Int:
    """Numbers of `size` rows, ascending, drawn at equal distances along the sum of the weights.

    The first is at `offset` of a distance.
    """
    ends = np.cumsum(weights)
    marks = (np.arange(size) + offset) * (ends[-1] / size)
    places = np.searchsorted(ends, marks, side="right")
    return np.asarray(np.minimum(places, len(weights) - 1))

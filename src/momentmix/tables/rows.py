"""Rows that can be read more than once: one protocol, whatever holds them.

`Rows` is what the stages of a fit need. Arrays in memory and on a device implement it here,
tables of all kinds in `momentmix.tables.table_rows`, Dask collections in `momentmix.dask`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.arrays import as_float64, is_tensor, namespace, on_device_of, take, to_numpy
from momentmix.errors import InputError
from momentmix.parallel import few_threads, map_in_order
from momentmix.tables.schema import Schema
from momentmix.tables.validation import LARGEST_TO_FIT, as_weights, check_values

Sums = tuple[Any, ...]
_MOST_REPEATED = 10, 10_000  # times the rows, and rows more: memory stays near that of the rows
_STRETCHES = 40  # of an excerpt: enough to cover the rows, and long enough to show their order
_NO_ROWS = "rows must hold at least one row; the source gave none."


class Features(NamedTuple):
    """Features of rows, of shape (n_rows, n_features), and the schema that they were encoded by."""

    schema: Schema
    values: Float


class Rows(ABC):
    """Rows as the stages of a fit use them.

    A class implements `n_rows`, `n_features` and `blocks`; the other methods rest on these.
    """

    feature_names: tuple[str, ...] | None = None
    schema: Schema | None = None  # by which columns became features; None where they are these
    expected_rows: int | None = None  # where it is known without reading them
    is_remote = False  # whether rows lie on other machines: few of them should be taken here
    weights: Float | None = None  # as they were given
    row_counts: Float | None = None  # how many rows each counts as, by its weight
    may_count: tuple[int, ...] = ()  # columns of whole numbers without a given family
    dropped: Float | None = None  # features of rows with missing cells (NaN) that were left out
    is_frequency = True  # whether a row that counts as several is that many rows

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of columns."""

    @abstractmethod
    def blocks(self) -> Iterator[Float]:
        """Consecutive NumPy blocks, each of shape (some, n_features), from the first row on."""

    @property
    def n_counted(self) -> int:
        """Number of rows that they count as, by their weights."""
        counts = self.row_counts
        return self.n_rows if counts is None else max(1, round(float(counts.sum())))

    def take(self, places: Int) -> Float:
        """The rows with these numbers, which ascend, as NumPy rows."""
        return np.concatenate([np.empty((0, self.n_features)), *rows_at(self.blocks(), places)])

    def excerpt(self, size: int) -> tuple[Int, Float]:
        """Numbers and values of the first `size` rows, or all; none of remote rows.

        Neighbors in an excerpt are mostly neighbors among all rows.
        """
        taken, n = [np.empty((0, self.n_features))], 0
        for block in () if self.is_remote else self.blocks():
            taken.append(block[: size - n])
            n += len(taken[-1])
            if n >= size:
                break
        return np.arange(n), np.concatenate(taken)

    def without(self, places: Int) -> Rows:
        """All rows but the ones with these numbers, which ascend."""
        return RowsWithout(self, places)

    def sum_blocks(self, work: Callable[[Any], Sums], n_threads: int = 1) -> Sums:
        """`work` of every block, a tuple, added up entry by entry; also of the counts of its rows.

        The order of the blocks makes the bits independent of the number of threads.
        """
        blocks = self._blocks_with(self.row_counts)
        with few_threads(True):
            total: Sums | None = add_sums(map_in_order(lambda x: work(*x), blocks, n_threads))
        if total is None:
            raise InputError(_NO_ROWS)
        return total

    def summand(self, block: Any) -> Any:
        """Summand of a summary for a block of the rows."""
        return block if self.schema is None else Features(self.schema, block)

    def summarize_into(self, summary: Any) -> Any:
        """Add all rows, with their weights, to an empty MomentSummary, and return it."""
        for block, *weights in self._blocks_with(self.weights):
            check_values(block, self.feature_names, summary.n_rows, LARGEST_TO_FIT)
            summary.update(self.summand(block), *weights)
        if not summary.n_rows:
            raise InputError(_NO_ROWS)
        return summary

    def _blocks_with(self, values: Float | None) -> Iterator[tuple[Float, ...]]:
        """Blocks, and the values of their rows where there are some."""
        start = 0
        for block in self.blocks():
            yield (block,) if values is None else (block, values[start : start + len(block)])
            start += len(block)


class BlockRows(Rows):
    """Rows of any object with ``n_rows``, ``n_features`` and ``blocks``."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.feature_names = getattr(rows, "feature_names", None)
        self.schema = getattr(rows, "schema", None)

    @property
    def n_rows(self) -> int:
        return int(self.rows.n_rows)

    @property
    def n_features(self) -> int:
        return int(self.rows.n_features)

    def blocks(self) -> Iterator[Float]:
        return iter(self.rows.blocks())


class RowsWithout(BlockRows):
    """Rows of another object, some of them left out."""

    def __init__(self, rows: Rows, places: Int) -> None:
        super().__init__(rows)
        self.places = places

    @property
    def n_rows(self) -> int:
        return super().n_rows - len(self.places)

    def blocks(self) -> Iterator[Float]:
        start = 0
        for block in super().blocks():
            first, last = np.searchsorted(self.places, [start, start + len(block)])
            kept = block if first == last else np.delete(block, self.places[first:last] - start, 0)
            if len(kept):
                yield kept
            start += len(block)


class ArrayRows(Rows):
    """Rows of an array, or of a tensor on its device; values were checked before.

    Blocks of an array fit a processor's cache a few times over; those of a tensor are copied here.
    """

    def __init__(
        self,
        rows: Any,
        feature_names: tuple[str, ...] | None = None,
        schema: Schema | None = None,
    ) -> None:
        self.rows, self.feature_names, self.schema = rows, feature_names, schema
        self.expected_rows, self.on_device = int(rows.shape[0]), is_tensor(rows)
        self.block_size = 1 << (20 if self.on_device else 14)

    @property
    def n_rows(self) -> int:
        return int(self.rows.shape[0])

    @property
    def n_features(self) -> int:
        return int(self.rows.shape[1])

    def blocks(self) -> Iterator[Float]:
        for start in range(0, self.n_rows, self.block_size):
            yield to_numpy(as_float64(self.rows[start : start + self.block_size, :]))

    def take(self, places: Int) -> Float:
        return to_numpy(as_float64(self._chosen(places)))

    def without(self, places: Int) -> ArrayRows:
        return self.like(self._chosen(np.delete(np.arange(self.n_rows), places)))

    def like(self, rows: Any) -> ArrayRows:
        """Other rows with the same columns."""
        return ArrayRows(rows, self.feature_names, self.schema)

    def _chosen(self, places: Int) -> Any:
        return take(self.rows, on_device_of(places, self.rows, namespace(self.rows)), axis=0)

    def sum_blocks(self, work: Callable[[Any], Sums], n_threads: int = 1) -> Sums:
        if self.on_device:  # in one block, which the device divides as its memory allows
            return work(self.rows)
        return super().sum_blocks(work, n_threads)

    def summarize_into(self, summary: Any) -> Any:
        return summary.update(self.summand(self.rows))

    def excerpt(self, size: int) -> tuple[Int, Float]:
        """Stretches of neighboring rows from the first to the last; all rows if they are few."""
        places = np.arange(self.n_rows)
        if self.n_rows > size:
            length = max(1, size // _STRETCHES)
            starts = np.linspace(0, self.n_rows - length, _STRETCHES).astype(np.int64)
            places = (starts[:, None] + np.arange(length)).ravel()
        return places, self.take(places)


# -- weights -----------------------------------------------------------------------------------


def with_weights(rows: Rows, sample_weight: Any) -> Rows:
    """Rows that count by their weights; rows of weight 0 are left out."""
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
    if few and isinstance(rows, ArrayRows) and not rows.on_device and _are_whole(weights):
        return rows.like(np.repeat(rows.rows, weights.astype(np.int64), axis=0))
    nothing = np.flatnonzero(weights == 0)
    if nothing.size:
        rows, weights = rows.without(nothing), np.delete(weights, nothing)
    is_plain = (weights == weights[0]).all() and (weights[0] == 1 or not _are_whole(weights))
    return rows if is_plain else WeightedRows(rows, weights)


def _are_whole(weights: Float) -> bool:
    return bool((weights == np.floor(weights)).all())


class WeightedRows(BlockRows):
    """Rows of another object, each with a positive weight.

    | symbol | name here |
    |---|---|
    | w: weights as given | ``weights`` |
    | w, if the weights are whole numbers; else w Σ w² / Σ w³ | ``row_counts`` |

    Whole weights are frequencies: a row of weight 3 is three rows. Other weights are relative, as
    in a survey. The weighted mean is as precise as the mean of Kish's (Σ w)² / Σ w² rows. But
    scaled to that sum, heavy rows count as several rows each, and BIC takes a few of them for a
    component. So rows count as one on average, where rows of weight w are taken as often as they
    make the weighted mean vary, w²; equal weights count as one row each.
    """

    rows: Rows
    weights: Float
    row_counts: Float

    def __init__(self, rows: Rows, weights: Float) -> None:
        super().__init__(rows)
        self.weights, self.is_frequency = weights, _are_whole(weights)
        relative = weights / weights.max()  # squares of these do not overflow
        in_rows = relative * ((relative**2).sum() / (relative**3).sum())
        self.row_counts = weights if self.is_frequency else in_rows
        self.expected_rows = self.n_counted

    def take(self, places: Int) -> Float:
        return self.rows.take(places)

    def excerpt(self, size: int) -> tuple[Int, Float]:
        return self.rows.excerpt(size)

    def without(self, places: Int) -> WeightedRows:
        return WeightedRows(self.rows.without(places), np.delete(self.weights, places))

    def sum_blocks(self, work: Callable[..., Sums], n_threads: int = 1) -> Sums:
        if isinstance(self.rows, ArrayRows) and self.rows.on_device:
            return work(self.rows.rows, self.row_counts)
        return super().sum_blocks(work, n_threads)

    def summarize_into(self, summary: Any) -> Any:
        if isinstance(self.rows, ArrayRows):
            return summary.update(self.summand(self.rows.rows), self.weights)
        return super().summarize_into(summary)


# -- sums and places ---------------------------------------------------------------------------


def add_sums(sums: Iterable[tuple[Any, ...] | None]) -> Any:
    """Tuples added entry by entry, from left to right; None means no rows."""
    total: tuple[Any, ...] | None = None
    for entries in sums:
        if total is None:
            total = entries
        elif entries is not None:
            total = tuple(a + b for a, b in zip(total, entries, strict=True))
    return total


def rows_at(blocks: Iterable[Float], places: Int) -> list[Float]:
    """The rows with these numbers, which ascend, block by block."""
    taken, start = [], 0
    for block in blocks:
        first, last = np.searchsorted(places, [start, start + len(block)])
        taken.append(block[places[first:last] - start])
        start += len(block)
    return taken


def proportional_places(weights: Float, size: int, offset: float = 0.5) -> Int:
    """Numbers of `size` rows, ascending, drawn at equal distances along the sum of the weights."""
    ends = np.cumsum(weights)
    marks = (np.arange(size) + offset) * (ends[-1] / size)
    places = np.searchsorted(ends, marks, side="right")
    return np.asarray(np.minimum(places, len(weights) - 1))

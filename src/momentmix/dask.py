"""Summaries, fits and lazy predictions of Dask collections.

Functions go to the rows, and what comes back is a summary, the sums of an EM pass, or a sample of
at most 40,000 rows: each a tree reduction whose shape follows from the number of partitions. Tasks
are pure, so that lost workers, and tasks that run twice, change no bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import partial, reduce
from operator import add, itemgetter, or_
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, InputTypeError, MissingDependencyError

try:
    import dask.array
    import dask.bag
    import dask.dataframe
    import pandas as pd
    from dask.delayed import delayed
except ImportError as error:
    raise MissingDependencyError(
        f"momentmix.dask needs dask and distributed, which are not installed ({error}): "
        "pip install momentmix[dask]"
    ) from None

from momentmix._typing import Float, Int
from momentmix.capacity import usual_order
from momentmix.fitting import api as local
from momentmix.fitting.options import Number
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture
from momentmix.parallel import few_threads
from momentmix.progress import step
from momentmix.summary.summarize import shards_of, warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import (
    LOOKED_AT,
    Content,
    Families,
    contents_of,
    learn,
    rows_to_predict,
)
from momentmix.tables.memory import MemoryTable
from momentmix.tables.opening import Reading
from momentmix.tables.rows import Rows, Sums, add_sums, rows_at
from momentmix.tables.schema import Schema
from momentmix.tables.source import match_columns
from momentmix.tables.table_rows import Missing, TableRows
from momentmix.wording import NO_MAR

__all__ = ["fit", "predict", "summarize"]

Counts = dict[int, int]  # numbers of rows, by partition
_FAN_IN = 8  # a task holds so many summaries at once; the tree of 1000 partitions has 4 levels


def summarize(
    data: Any,
    order: int | None = None,
    *,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    families: Families = None,
    squared_order: int | None = None,
    shard_id: str | None = None,
    retries: int = 0,
    progress: bool | None = None,
) -> MomentSummary:
    """Moments of rows on a cluster, in one pass, with a shard for each partition.

    Its bytes depend on the partitions alone, not on the workers, or on those lost meanwhile.

    Parameters
    ----------
    data : dask.array or dask.dataframe
        An array of shape (n_rows, n_features), in any chunks, or a data frame. The current
        ``distributed.Client`` computes it, or Dask's local threads.
    order, columns, missing, families, squared_order, progress
        As for `momentmix.summarize`. Kinds of columns are guessed from the first rows; levels and
        missing cells of all partitions are found in a pass of their own, where there may be any.
    shard_id : str, optional
        Partition i becomes the shard ``f"{shard_id}/{i}"``. By default Dask's token of the
        collection, which is the same for the same data and version of Dask.
    retries : int
        How often a task that raises runs again, on a cluster.

    Examples
    --------
    >>> import dask.array, numpy as np
    >>> lazy = dask.array.from_array(np.arange(12.0).reshape(6, 2), chunks=(2, 1))
    >>> summarize(lazy, order=2).mean.tolist()
    [5.0, 6.0]
    """
    if missing == "mar":
        raise InputError(NO_MAR)
    with step("Summarizing", progress):
        rows = DaskRows(data, columns, missing, families, shard_id, retries)
        warn_of_notes(rows.notes)
        return rows.summary(usual_order(rows.n_features) if order is None else order, squared_order)


def fit(
    data: Any,
    n_components: Number = "auto",
    *,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    families: Families = None,
    retries: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> FitResult:
    """Fit a mixture to rows on a cluster, in the steps of `momentmix.fit`.

    Each pass computes the collection again; ``persist()`` it first where memory holds it.

    Parameters
    ----------
    data, columns, retries
        As for `summarize`.
    n_components, missing, families, progress, **options
        As for `momentmix.fit`. Rows on a cluster take no ``sample_weight``, and no options that
        say how files are read.

    Returns
    -------
    FitResult
        Standard errors after passes over the rows come from a sample of at most 40,000 rows.
    """
    with step("Fitting", progress):
        rows = DaskRows(data, columns, missing, families, retries=retries)
        return local.fit(rows, n_components, progress=progress, **options)


def predict(mixture: Mixture | FitResult, data: Any) -> Any:
    """Most probable component of each row, lazily.

    Parameters
    ----------
    mixture : Mixture or FitResult
    data : dask.array of shape (n_rows, n_features), or dask.dataframe
        Columns of a data frame are taken by the mixture's names, where both have any.

    Returns
    -------
    dask.array of shape (n_rows,) or dask.dataframe.Series
        int64, in the chunks of the rows, or with the index and divisions of the data frame under
        the name "label".
    """
    mixture = mixture.mixture if isinstance(mixture, FitResult) else mixture
    if not isinstance(mixture, Mixture):
        raise InputTypeError(
            f"mixture must be a Mixture or a FitResult; got {type(mixture).__name__}."
        )
    data, _, example = _parts_of(data)
    schema = Schema(mixture.columns)

    def rows_of(block: Any, name: str) -> TableRows:
        with _named(name):
            table = MemoryTable(block, name, schema.column_names)
            return rows_to_predict(schema, table, "the mixture")

    # Columns of partitions may come in another order than in a mixture without names.
    names = rows_of(example, "the collection").column_names
    mixture = mixture if names is None else mixture.with_feature_names(names)
    schema = Schema(mixture.columns)

    def labels(block: Any, number: int) -> NDArray[np.int64]:
        if not len(block):
            return np.empty(0, np.int64)
        return np.asarray(mixture.predict(rows_of(block, f"partition {number}")))

    def of_frame(frame: Any, partition_info: Any = None) -> Any:
        numbers = labels(frame, (partition_info or {"number": 0})["number"])
        return pd.Series(numbers, name="label", index=frame.index)

    if isinstance(data, dask.dataframe.DataFrame):
        return data.map_partitions(of_frame, meta=of_frame(data._meta.iloc[:0]))
    of_array = lambda block, block_id=(0,): labels(block, block_id[0])  # noqa: E731
    return data.map_blocks(of_array, meta=np.empty(0, np.int64), dtype=np.int64, drop_axis=1)


def _parts_of(data: Any) -> tuple[Any, list[Any], Any]:
    """A collection of whole rows, its lazy partitions, and rows with its columns."""
    if isinstance(data, dask.dataframe.DataFrame):
        return data, data.to_delayed(), data._meta
    if not isinstance(data, dask.array.Array):
        raise InputTypeError(
            f"rows must be a dask.array or a dask.dataframe; got {type(data).__name__}. Files "
            "become one by dask.dataframe.read_parquet(...)."
        )
    if data.ndim != 2 or math.isnan(data.shape[1]):
        raise InputError(
            f"rows must have a known number of columns; the dask.array has shape {data.shape}. "
            "Reshape it to a table, or call compute_chunk_sizes() on it."
        )
    data = data if data.numblocks[1] == 1 else data.rechunk({1: -1})
    parts = data.to_delayed().ravel().tolist()
    return data, parts, np.zeros((1, data.shape[1]), dtype=data.dtype)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Put the name of rows into the messages of their errors."""
    try:
        yield
    except (InputError, InputTypeError) as error:
        if name in str(error):
            raise
        raise type(error)(f"{name}: {error}") from None


# -- what runs on workers ----------------------------------------------------------------------


def _on_partition(
    leaf: Callable[..., Any], number: int, like: TableRows, shared: tuple[Any, ...], data: Any
) -> list[Any]:
    """``leaf(rows, number, *shared)`` of a partition as a bag of one item; None without rows."""
    if not data.shape[0]:
        return [None]
    name, source, columns = f"partition {number}", like.sources[0], like.columns[0]
    with _named(name), few_threads(True):
        table = MemoryTable(data, name)
        takes_all = not like.chosen and len(columns) == source.n_columns
        columns = match_columns(source, columns, table, takes_all)
        rows = Reading(columns=columns).open([table], like.missing)
        return [leaf(rows.with_schema(like.encoding) if like.encoding else rows, number, *shared)]


def _merged(merge: Callable[..., Any], parts: Iterable[Any]) -> Any:
    full = [part for part in parts if part is not None]
    return merge(full) if full else None


def _contents(rows: TableRows, number: int, *asked: Any) -> list[Content]:
    return contents_of(rows, *asked)


def _joined_contents(parts: list[list[Content]]) -> list[Content]:
    for part in parts[1:]:
        for i, (column, more) in enumerate(zip(parts[0], part, strict=True)):
            column.merge(more, f"column {i}")
    return parts[0]


def _summary(
    rows: TableRows, number: int, stem: str, options: dict[str, Any]
) -> tuple[MomentSummary, Counts]:
    shard = shards_of(rows, **options)(shard_id=f"{stem}/{number}")
    for block in rows.blocks():
        shard.update(rows.summand(block))
    return 0 + shard, {number: shard.n_rows}  # a sum is closed: nothing changes it later


def _sums(rows: TableRows, number: int, work: Callable[[Float], Sums]) -> Any:
    work = deepcopy(work)  # arrays that travelled may be unaligned, which compiled code refuses
    return add_sums(work(block) for block in rows.blocks())


def _taken(rows: TableRows, number: int, places: dict[int, Int]) -> tuple[list[Float], Counts]:
    """Rows by their numbers in the partition, and how many it has."""
    blocks = list(rows.blocks())
    return rows_at(blocks, places[number]), {number: sum(map(len, blocks))}


def _added(parts: list[tuple[Any, Counts]]) -> tuple[Any, Counts]:
    """Summaries or lists added, and the numbers of rows of all partitions."""
    values, counts = zip(*parts, strict=True)
    return reduce(add, values), reduce(or_, counts)


# -- what runs here ----------------------------------------------------------------------------


class DaskRows(Rows):
    """Rows of a collection for the stages of a fit: functions go there, sums come back."""

    is_remote = True

    def __init__(
        self,
        data: Any,
        columns: Sequence[str | int] | None = None,
        missing: Missing = "error",
        families: Families = None,
        shard_id: str | None = None,
        retries: int = 0,
    ) -> None:
        self.retries = retries
        data, self._parts, example = _parts_of(data)
        self._stem = dask.base.tokenize(data) if shard_id is None else shard_id
        if isinstance(data, dask.dataframe.DataFrame):
            example = self._head(example)
        with _named("the collection"):
            table = MemoryTable(example, "the collection")
            opened = Reading(columns=columns).open([table], missing)
        find: Any = partial(self._reduced, _contents, _joined_contents)
        self.like = learn(opened, families, missing, find)
        self.schema, self.feature_names = self.like.schema, self.like.feature_names
        self.notes, self.may_count = self.like.notes, self.like.may_count
        self._counts: Counts = {}  # rows of each partition that has some

    def _head(self, example: Any) -> Any:
        """The first rows; those of each partition where there may be levels."""
        head, run = delayed(pd.DataFrame.head), partial(dask.compute, retries=self.retries)
        if not all(map(pd.api.types.is_numeric_dtype, example.dtypes)):
            n_rows = LOOKED_AT // len(self._parts) + 1
            return pd.concat(run(*(head(part, n_rows) for part in self._parts)))
        heads = (run(head(part, LOOKED_AT))[0] for part in self._parts)
        return next((rows for rows in heads if len(rows)), example)

    def _reduced(
        self, leaf: Callable[..., Any], merge: Callable[..., Any], like: TableRows, *shared: Any
    ) -> Any:
        """``merge`` over ``leaf(rows, number, *shared)`` of all partitions, in a tree."""
        common = [delayed(each, traverse=False) for each in (like, shared)]  # sent to workers once
        parts = enumerate(self._parts)
        leaves = [delayed(_on_partition)(leaf, i, *common, part) for i, part in parts]
        bag, merge = dask.bag.from_delayed(leaves), partial(_merged, merge)
        tree = bag.reduction(itemgetter(0), merge, split_every=_FAN_IN)
        task = tree.to_delayed(optimize_graph=False)  # each part is optimized
        answer = dask.compute(task, retries=self.retries)[0]
        if answer is None:
            raise InputError(
                f"rows must hold at least one row; all {len(self._parts)} partition(s) are empty."
            )
        return answer

    @property
    def n_features(self) -> int:
        return self.like.n_features

    @property
    def n_rows(self) -> int:
        """Number of rows; costs a pass if there was none so far."""
        if not self._counts:
            self.summary(1, 0)
        return sum(self._counts.values())

    def summary(self, order: int, squared_order: int | None) -> MomentSummary:
        """Summarize each partition, then add in a tree."""
        # A worker runs as many tasks as it has threads, so one thread each.
        options: dict[str, Any] = {"order": order, "squared_order": squared_order, "n_threads": 1}
        if self.like.schema is not None:  # a fit has passes over the rows for cells at random
            options["schema"] = self.like.schema.at_random(False)
        shards_of(self.like, **options)()  # wrong orders are an error here, before any work
        summary: MomentSummary
        summary, self._counts = self._reduced(_summary, _added, self.like, self._stem, options)
        if not summary.n_rows:
            raise self.like.without_rows()
        return summary

    def summarize_into(self, summary: MomentSummary) -> MomentSummary:
        """A summary of all rows of the orders of `summary`, which is empty."""
        return self.summary(summary.order, summary.squared_order)

    def blocks(self) -> NoReturn:
        """Refused: the rows are not brought here."""
        raise InputTypeError("rows lie on a cluster and are not brought here; use sum_blocks().")

    def sum_blocks(self, work: Callable[[Float], Sums], n_threads: int = 1) -> Sums:
        """Add up ``work`` of each block in a fixed order, with one thread for each task."""
        return self._reduced(_sums, add_sums, self.like, work)  # type: ignore[no-any-return]

    def take(self, places: Int) -> Float:
        """The rows with these numbers, which ascend."""
        ends = np.cumsum([*self._counts.values()] if self.n_rows else [])
        cuts = np.split(places, np.searchsorted(places, ends)[:-1])
        pairs = zip(self._counts, cuts, ends, strict=True)
        chosen = {i: some - end + self._counts[i] for i, some, end in pairs}
        rows, counts = self._reduced(_taken, _added, self.like, chosen)
        if counts != self._counts:
            raise InputError(
                "partitions had other numbers of rows in the first pass than now. Fix the seed of "
                "the step that makes them, or persist() the collection first."
            )
        return np.concatenate(rows)

"""Summaries, fits and lazy predictions of Dask collections.

Rows stay where they are, functions go to them, and what comes back is a summary, the sums of an EM
pass, or a sample of at most 40,000 rows. Each is a tree reduction of Dask over the partitions: its
shape follows from their number alone, and tasks are pure, so that lost workers, and tasks that run
twice, change no bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import itemgetter
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
from momentmix.progress import check_asked, step
from momentmix.summary.parts import shards_of
from momentmix.summary.summarize import warn_of_notes
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.learning import (
    LOOKED_AT,
    Content,
    Families,
    contents_of,
    learn,
    rows_to_predict,
)
from momentmix.tables.opening import Reading
from momentmix.tables.rows import Rows, Sums, add_sums, rows_at
from momentmix.tables.schema import Schema
from momentmix.tables.selection import match_columns
from momentmix.tables.table_rows import Missing, TableRows
from momentmix.wording import NO_MAR

__all__ = ["fit", "predict", "summarize"]

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
    """Moments of rows on a cluster, in one pass.

    Each partition becomes one shard of the summary. Merging is exact, so the bytes depend on the
    partitions alone: not on the number of workers, on which of them did what, or on workers that
    were lost meanwhile. A single process that summarizes the same partitions under the same
    shard ids gets the same bytes, given the same processor and BLAS.

    Parameters
    ----------
    data : dask.array or dask.dataframe
        An array of shape (n_rows, n_features), in any chunks, or a data frame. Files become one by
        ``dask.dataframe.read_parquet``, blocks by ``from_delayed``. The current
        ``distributed.Client`` computes it, or Dask's local threads.
    order : int, optional
        Highest order of the moments, as for `momentmix.summarize`.
    columns : sequence of str or int, optional
        Columns to take, in this order; by default all.
    missing, families, squared_order
        As for `momentmix.summarize`. Kinds of columns are guessed from the first rows; levels and
        missing cells of all partitions are found in a pass of their own, where there may be any.
    shard_id : str, optional
        Name of the data: partition i becomes the shard ``f"{shard_id}/{i}"``. By default Dask's
        token of the collection, which is the same for the same data and version of Dask.
    retries : int
        How often a task that raises runs again, on a cluster.
    progress : bool, optional
        As for `momentmix.summarize`. Dask's dashboard has the progress of tasks.

    Returns
    -------
    MomentSummary

    Examples
    --------
    >>> import dask.array, numpy as np
    >>> rows = np.arange(12.0).reshape(6, 2) ** 2
    >>> lazy = dask.array.from_array(rows, chunks=(2, 1))
    >>> summary = summarize(lazy, order=2, shard_id="squares")
    >>> summary.n_rows, summary.mean.tolist() == rows.mean(axis=0).tolist()
    (6, True)
    """
    if missing == "mar":
        raise InputError(NO_MAR)
    with step("Summarizing", check_asked(progress)):
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
    """Fit a mixture to rows on a cluster.

    The steps of `momentmix.fit`: the moments in one pass, the moment fit in this process,
    then passes over the rows. Each pass computes the collection again;
    ``persist()`` it first where the cluster's memory holds it.

    Parameters
    ----------
    data, columns, retries
        As for `summarize`.
    n_components, missing, families, progress
        As for `momentmix.fit`.
    **options
        ``blocks``, ``max_passes`` and other options of `momentmix.fit`, with its defaults. Rows on
        a cluster take no ``sample_weight``, and no options that say how files are read.

    Returns
    -------
    FitResult
        The mixture has the names of a data frame's columns. Standard errors after passes over the
        rows come from the sample of at most 40,000 rows.
    """
    with step("Fitting", check_asked(progress)):
        rows = DaskRows(data, columns, missing, families, retries=retries)
        return local.fit(rows, n_components, progress=progress, **options)


def predict(mixture: Mixture | FitResult, data: Any) -> Any:
    """Most probable component of each row, lazily.

    Parameters
    ----------
    mixture : Mixture or FitResult
    data : dask.array of shape (n_rows, n_features), or dask.dataframe
        Columns of a data frame are taken by the mixture's names, where both have any; others are
        left out. Missing values raise when the answer is computed, with partition and row.

    Returns
    -------
    dask.array of shape (n_rows,) or dask.dataframe.Series
        int64, in the chunks of the rows, or with the index and divisions of the data frame under
        the name "label".
    """
    if isinstance(mixture, FitResult):
        mixture = mixture.mixture
    if not isinstance(mixture, Mixture):
        raise InputTypeError(
            f"mixture must be a Mixture or a FitResult; got {type(mixture).__name__}."
        )
    data, _, example = _parts_of(data)
    # Columns of partitions may come in another order than in a mixture without names.
    names = _to_predict(mixture, example, "the collection").column_names
    mixture = mixture if names is None else mixture.with_feature_names(names)

    def of_array(block: Any, block_id: tuple[int, ...] = (0,)) -> NDArray[np.int64]:
        if not len(block):
            return np.empty(0, np.int64)
        rows = _to_predict(mixture, block, f"partition {block_id[0]}")
        # Where the mixture has a schema, missing cells are for its density.
        values = mixture.predict(rows.read_all() if mixture.schema is None else rows)
        return np.asarray(values)

    def of_frame(frame: Any, partition_info: dict[str, int] | None = None) -> Any:
        values = of_array(frame, ((partition_info or {"number": 0})["number"],))
        return pd.Series(values, name="label", index=frame.index)

    if isinstance(data, dask.dataframe.DataFrame):
        return data.map_partitions(of_frame, meta=of_frame(data._meta.iloc[:0]))
    empty = np.empty(0, np.int64)
    return data.map_blocks(of_array, meta=empty, dtype=np.int64, drop_axis=1)


def _to_predict(mixture: Mixture, data: Any, name: str) -> TableRows:
    """Rows with the columns of a mixture; errors name them."""
    schema = Schema(mixture.columns)
    with _named(name):
        return rows_to_predict(schema, MemoryTable(data, name, schema.column_names), "the mixture")


def _parts_of(data: Any) -> tuple[Any, list[Any], Any]:
    """A collection of whole rows, its lazy partitions, and rows with its columns."""
    if isinstance(data, dask.dataframe.DataFrame):
        return data, data.to_delayed(), data._meta
    if not isinstance(data, dask.array.Array):
        raise InputTypeError(
            f"rows must be a dask.array or a dask.dataframe; got {type(data).__name__}. Files "
            "become one by dask.dataframe.read_parquet(...), blocks by from_delayed(...); rows in "
            "this process, and summaries, need no cluster: momentmix.summarize and fit."
        )
    if data.ndim != 2 or math.isnan(data.shape[1]):
        raise InputError(
            "rows must have shape (n_rows, n_features), and a known number of columns; the "
            f"dask.array has shape {data.shape}. Reshape it to a table, or call "
            "compute_chunk_sizes() on it."
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


def _opened(number: int, like: TableRows, data: Any) -> TableRows | None:
    """Rows of a partition with the columns and the schema of others; None if there are none."""
    if not data.shape[0]:
        return None
    name, source, columns = f"partition {number}", like.sources[0], like.columns[0]
    with _named(name):
        table = MemoryTable(data, name)
        takes_all = not like.chosen and len(columns) == source.n_columns
        reading = Reading(columns=match_columns(source, columns, table, takes_all))
        rows = reading.open([table], like.missing)
        return rows.with_schema(like.learned) if like.is_learned else rows


def _bag_of(leaf: Callable[..., Any], number: int, shared: tuple[Any, ...], data: Any) -> list[Any]:
    """The answer of a partition as a bag of one item, which Dask does not take for empty."""
    return [leaf(number, shared, data)]


def _head_of(number: int, shared: tuple[int], data: Any) -> Any:
    return data.head(*shared)


def _found_in(number: int, shared: tuple[Any, ...], data: Any) -> list[Content] | None:
    like, *asked = shared
    rows = _opened(number, like, data)
    return None if rows is None else contents_of(rows, *asked)


def _found_together(parts: Any) -> list[Content] | None:
    """What all rows hold in each column, of what parts of them hold."""
    first: list[Content] | None
    first, *others = [part for part in parts if part is not None] or [None]
    for part in others:
        for column, more in zip(first, part, strict=True):
            column.merge(more)
    return first


def _summary_of(number: int, shared: tuple[Any, ...], data: Any) -> tuple[Any, list[int]]:
    like, stem, options = shared
    rows = _opened(number, like, data)
    if rows is None:
        return None, [0]
    new_shard = shards_of(rows, **options)
    shard = new_shard(shard_id=f"{stem}/{number}")
    for block in rows.blocks():
        shard.update(rows.summand(block))
    summary = new_shard() + shard  # closed, so that nothing changes it later
    return summary, [summary.n_rows]


def _added(parts: Any) -> tuple[Any, list[int]]:
    """The sum of summaries, and the numbers of rows of their partitions."""
    summaries, counts = zip(*parts, strict=True)
    full = [summary for summary in summaries if summary is not None]
    return sum(full) if full else None, [*chain(*counts)]


def _sums_of(number: int, shared: tuple[Any, ...], data: Any) -> Any:
    like, work = shared
    rows = _opened(number, like, data)
    with few_threads(True):
        return None if rows is None else add_sums(work(block) for block in rows.blocks())


def _taken(number: int, shared: tuple[Any, ...], data: Any) -> list[Float]:
    """Rows of a partition, by their numbers in it; it must have as many as before."""
    like, places, counts = shared
    if not len(places[number]):
        return []
    rows = _opened(number, like, data)
    blocks = [] if rows is None else list(rows.blocks())
    if (n_rows := sum(map(len, blocks))) != counts[number]:
        raise InputError(
            f"partition {number} had {counts[number]} rows in the first pass and has {n_rows} now; "
            "its rows are not the same each time they are computed. Fix the seed of the step that "
            "makes them, or persist() the collection first."
        )
    return rows_at(blocks, places[number])


def _joined(parts: Any) -> list[Float]:
    return [*chain(*parts)]


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
        is_random, missing = missing == "mar", "model" if missing == "mar" else missing
        self._stem = dask.base.tokenize(data) if shard_id is None else shard_id
        if isinstance(data, dask.dataframe.DataFrame):
            example = self._head(example)
        with _named("the collection"):
            table = MemoryTable(example, "the collection")
            opened = Reading(columns=columns).open([table], missing)
        self.like = learn(opened, families, missing, find=self._find)
        self.schema, self.feature_names = self.like.schema, self.like.feature_names
        if is_random and self.schema is not None:
            self.schema = self.schema.at_random()
        self.notes, self.may_count = self.like.notes, self.like.may_count
        self._counts: list[int] = []

    def _head(self, example: Any) -> Any:
        """The first rows; those of each partition where there may be levels."""
        if not all(map(pd.api.types.is_numeric_dtype, example.dtypes)):
            n_rows = LOOKED_AT // len(self._parts) + 1
            return self._reduced(_head_of, pd.concat, n_rows)
        heads = (self._computed(delayed(_head_of)(0, (LOOKED_AT,), x)) for x in self._parts)
        return next((head for head in heads if len(head)), example)

    def _find(self, rows: TableRows, *asked: Any) -> list[Content]:
        found: list[Content] | None = self._reduced(_found_in, _found_together, rows, *asked)
        if found is None:
            raise self._without_rows()
        return found

    def _without_rows(self) -> InputError:
        return InputError(
            f"rows must hold at least one row; all {len(self._parts)} partition(s) are empty."
        )

    def _reduced(self, leaf: Callable[..., Any], merge: Callable[..., Any], *shared: Any) -> Any:
        """``merge`` over ``leaf(number, shared, rows)`` of all partitions, in a tree."""
        common = delayed(shared, traverse=False)  # travels to each worker once
        leaves = [delayed(_bag_of)(leaf, i, common, part) for i, part in enumerate(self._parts)]
        tree = dask.bag.from_delayed(leaves).reduction(itemgetter(0), merge, split_every=_FAN_IN)
        return self._computed(tree.to_delayed(optimize_graph=False))  # each part is optimized

    def _computed(self, task: Any) -> Any:
        return dask.compute(task, retries=self.retries)[0]

    @property
    def n_features(self) -> int:
        return self.like.n_features

    @property
    def n_rows(self) -> int:
        """Number of rows; costs a pass if there was none so far."""
        return sum(self.counts)

    @property
    def counts(self) -> list[int]:
        """Rows of each partition, as a summary counted them."""
        if not self._counts:
            self.summary(1, 0)
        return self._counts

    def summary(self, order: int, squared_order: int | None) -> MomentSummary:
        """Summarize each partition, then add in a tree."""
        # A worker runs as many tasks as it has threads, so one thread each.
        options: dict[str, Any] = {"order": order, "squared_order": squared_order, "n_threads": 1}
        shards_of(self.like, **options)()  # wrong orders are an error here, before any work
        summary: MomentSummary | None
        summary, self._counts = self._reduced(_summary_of, _added, self.like, self._stem, options)
        if summary is None or not summary.n_rows:
            raise self._without_rows()
        return summary

    def summarize_into(self, summary: MomentSummary) -> MomentSummary:
        """A summary of all rows of the orders of `summary`, which is empty."""
        return self.summary(summary.order, summary.squared_order)

    def blocks(self) -> NoReturn:
        """Refused: the rows are not brought here."""
        raise InputTypeError(
            "these rows lie on a cluster and are not brought here block by block; use sum_blocks() "
            "to work on them there, or take() for a few of them."
        )

    def sum_blocks(self, work: Callable[[Float], Sums], n_threads: int = 1) -> Sums:
        """Add up ``work`` of each block in a fixed order, with one thread for each task."""
        total: Sums = self._reduced(_sums_of, add_sums, self.like, work)
        return total

    def take(self, places: Int) -> Float:
        ends = np.cumsum(self.counts)
        cuts = np.split(places, np.searchsorted(places, ends)[:-1])
        own = [some - end + n for some, end, n in zip(cuts, ends, self.counts, strict=True)]
        return np.concatenate(self._reduced(_taken, _joined, self.like, own, self.counts))

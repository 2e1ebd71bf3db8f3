"""Summaries of Ray datasets: rows stay on the workers, summaries come back.

Each block becomes a shard by `map_batches`, and this process adds the shards. Blocks have no
numbers, so each goes by a digest of its rows: a task that runs twice gives the same bytes. Blocks
of one dataset with the same rows are distinguished when they are added.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Unpack, overload

from momentmix.cube.cube import SummaryCube
from momentmix.engines import adapter
from momentmix.errors import needed
from momentmix.summary.summary import MomentSummary, copied_shards
from momentmix.tables.learning import LOOKED_AT

__all__ = ["summarize"]


@overload
def summarize(
    dataset: Any, order: int | None = None, *, by: None = None, **options: Unpack[adapter.Options]
) -> MomentSummary: ...


@overload
def summarize(
    dataset: Any,
    order: int | None = None,
    *,
    by: str | Sequence[str],
    **options: Unpack[adapter.Options],
) -> SummaryCube: ...


def summarize(
    dataset: Any,
    order: int | None = None,
    *,
    by: str | Sequence[str] | None = None,
    **options: Unpack[adapter.Options],
) -> MomentSummary | SummaryCube:
    """Moments of a Ray dataset, or of each group of its rows, in one pass.

    Each block becomes one shard for every 1,048,576 rows, and with `by` one for each of its
    groups. Ids of shards follow from the rows of the block, so that the bytes of the answer depend
    on the blocks alone: not on their order, nor on the workers, nor on lost workers.

    Parameters
    ----------
    dataset : ray.data.Dataset
        Only the columns that are needed are read.
    by, min_rows
        Keys of groups, and the fewest rows of a group to keep, as for `momentmix.summarize_by`.
    order, squared_order, columns, exclude, families, missing
        As for `momentmix.summarize`. Families are guessed from the first rows. Levels of text, and
        with missing="model" columns with missing cells, are found in a pass before, which a
        `Schema` saves.
    shard_id : str, optional
        Name of the data, which becomes part of the ids of shards. By default equal blocks of two
        datasets are the same shard, which counts once only; blocks of one dataset all count.

    Returns
    -------
    MomentSummary, or SummaryCube with `by`
    """
    needed("ray", "momentmix.ray needs ray", "momentmix[ray]")
    adapter.check_rows(dataset, "Ray dataset", "map_batches", "select_columns", "iter_rows")
    return adapter.summarize(_RayRows(dataset), order, by, **options)


@dataclass(frozen=True)
class _RayRows:
    """The rows of a dataset, as an `Engine`."""

    dataset: Any
    name = "the dataset"
    parts = "blocks"

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        with _job(self.dataset):
            return list(self.dataset.columns() or ())

    def head(self, names: Sequence[str]) -> Any:
        """The first rows as an Arrow table."""
        import pyarrow as pa

        rows = self.dataset.select_columns(list(names)).limit(LOOKED_AT)
        with _job(rows):
            tables = list(rows.iter_batches(batch_format="pyarrow", batch_size=None))
        tables = [table.select(list(names)).replace_schema_metadata() for table in tables]
        if not tables:
            return pa.table({name: [] for name in names})
        return pa.concat_tables(tables, promote_options="permissive")

    def met(self, names: Sequence[str], listed: Sequence[str]) -> list[tuple[bool, Sequence[Any]]]:
        """Missing cells and levels of all rows, by a pass over them."""
        are_missing, levels = [False] * len(names), [set[Any]() for _ in names]
        for row in self._made(names, lambda block: _met_in(block, listed)):
            for j, (is_missing, found) in enumerate(json.loads(row["met"])):
                are_missing[j] |= is_missing
                levels[j].update(found)
        return list(zip(are_missing, map(list, levels), strict=True))

    def groups(self, task: adapter.Task) -> adapter.Groups:
        """The sum of each group, as results of blocks come."""
        results = self._made(task.sent, lambda block: _of_block(task, block))
        with closing(results):  # where rows are refused, the run ends at once
            return adapter.added(_told_apart(results))

    def _made(
        self, names: Sequence[str], work: Callable[[Any], Any]
    ) -> Generator[dict[str, Any], None, None]:
        """Rows of the tables that a function makes of the blocks, with these columns alone."""
        chosen, wanted = self.dataset.select_columns(list(names)), list(names)
        done = chosen.map_batches(
            lambda block: work(block.select(wanted)), batch_format="pyarrow", batch_size=None
        )
        with _job(done):
            yield from done.iter_rows()


@contextmanager
def _job(dataset: Any) -> Iterator[None]:
    """A run of a dataset in the order of its blocks, on which the cuts of later ones may depend."""
    from ray.exceptions import RayError

    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        with adapter.running("Ray", (RayError,), "worker needs momentmix"):
            yield
    finally:
        options.preserve_order = before


def _told_apart(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Results of blocks; of blocks with the same rows, which all count, they differ."""
    times, first = Counter[str](), dict[str, str]()
    for row in rows:
        block = row["part"]
        # The groups of a block come together: at the first one, the block comes again.
        times[block] += row["key"] == first.setdefault(block, row["key"])
        if times[block] > 1:
            summary = MomentSummary.from_bytes(row["summary"])
            row["summary"] = copied_shards(summary, times[block] - 1).to_bytes()
        yield row


# -- what runs on a block ---------------------------------------------------------------------


def _of_block(task: adapter.Task, block: Any) -> Any:
    import pyarrow as pa

    part = f"block {block_digest(block)}"
    rows = adapter.result_rows(part, lambda: task.groups(block.to_batches(), part))
    return pa.Table.from_pylist(list(rows), pa.schema(adapter.RESULT.items()))


def _met_in(block: Any, listed: Sequence[str]) -> Any:
    """One row: for each column whether cells are missing, and its levels, as JSON."""
    import pyarrow as pa
    from pyarrow import compute

    found = []
    for name, column in zip(block.column_names, block.columns, strict=True):
        is_missing = compute.any(compute.is_null(column, nan_is_null=True)).as_py()
        levels = compute.unique(_plain(column)).drop_null() if name in listed else []
        found.append((bool(is_missing), [x.as_py() for x in levels]))
    return pa.table({"met": [json.dumps(found, default=float)]})


def block_digest(block: Any) -> str:
    """A digest of the cells of an Arrow table, however they are cut in memory."""
    import pyarrow as pa

    digest = hashlib.blake2b(digest_size=16)
    for column in block.columns:
        array = pa.concat_arrays(_plain(column).chunks or [pa.array([], _plain(column).type)])
        digest.update(f"{array.type} {len(array)} {array.null_count} ".encode())
        # Bytes below a missing cell may be anything, as may bits behind the last one.
        for part in [array.drop_null(), array.is_valid()]:
            cells = part.cast("uint8") if pa.types.is_boolean(part.type) else part
            digest.update(pa.record_batch([cells], names=["x"]).serialize())
    return digest.hexdigest()


def _plain(column: Any) -> Any:
    """A column without a dictionary, which may be in any order."""
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column

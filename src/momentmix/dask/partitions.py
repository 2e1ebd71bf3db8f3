"""What one task on a worker reads: a partition of a Dask collection, or some rows of a file.

A partition gives its rows in checked blocks, as often as it is asked, and its summary under shard
ids that depend on its place alone. So a task may run twice, on any worker, and give the same bytes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError
from momentmix.rows.containers import is_frame
from momentmix.rows.formats.memory_tables import memory_table
from momentmix.tables.opening import open_rows
from momentmix.rows.source import Missing, RowSource
from momentmix.rows.table import FileTable, Table
from momentmix.summary.parts import (
    PART_ROWS,
    NewShard,
    PartMark,
    Progress,
    read_parts,
    summarize_parts,
)
from momentmix.summary.summary import MomentSummary


def named_table(rows: Any, name: str) -> Table:
    """A computed partition, an array or a data frame, as a table; errors name it."""
    try:
        return memory_table(rows, name)
    except (InputError, InputTypeError) as error:
        raise type(error)(f"{name}: {error}") from None


@dataclass(frozen=True)
class CollectionPartition:
    """A partition of a Dask collection, one shard; tasks are given its computed rows.

    Attributes
    ----------
    number : int
    shard_id : str
    column_names : tuple of str or None
        Names of all columns of the collection, where they have any.
    n_columns : int
        Number of all columns.
    columns : tuple of str or int
        Those to take: by name, or by number where there is no name, or one that others share.
    missing : {"error", "drop"}
    """

    number: int
    shard_id: str
    column_names: tuple[str, ...] | None
    n_columns: int
    columns: tuple[str | int, ...]
    missing: Missing

    def blocks(self, rows: Any) -> Iterator[Float]:
        """Blocks of the rows kept."""
        name = f"partition {self.number}"
        if not is_frame(rows) and hasattr(rows, "shape") and len(rows) == 0:
            return iter(())
        table = named_table(rows, name)
        if not table.n_rows:
            return iter(())
        names = table.column_names
        if table.n_columns != self.n_columns or _differ(names, self.column_names):
            raise InputError(
                f"every partition must have the same columns; {name} has "
                f"{_listed(names, table.n_columns)}, the collection "
                f"{_listed(self.column_names, self.n_columns)}. Correct the step that makes it."
            )
        return open_rows(table, self.columns, self.missing).blocks()

    def summary(self, rows: Any, new_shard: NewShard) -> tuple[MomentSummary, None]:
        """Summary of the partition, one shard."""
        shard = new_shard(shard_id=self.shard_id)
        for block in self.blocks(rows):
            shard.update(block)
        return shard, None


def _differ(names: tuple[str, ...] | None, wanted: tuple[str, ...] | None) -> bool:
    """Whether names differ, whatever their order unless some are shared; no names match any."""
    if names is None or wanted is None:
        return False
    return names != wanted if len(set(wanted)) < len(wanted) else set(names) != set(wanted)


def _listed(names: tuple[str, ...] | None, n_columns: int) -> str:
    text = "" if names is None else f" ({', '.join(map(ascii, names[:8]))})"
    return f"{n_columns} column{'s' if n_columns != 1 else ''}{text}"


@dataclass(frozen=True)
class FilePartition:
    """Rows of a file from `start` on: one part of ``PART_ROWS`` rows, or all where `whole`.

    The parts and their shard ids are those of ``momentmix summarize``, and so are the bytes.

    Attributes
    ----------
    number, file : int
        Numbers of the partition and of its file.
    path : str
    stamp : dict
        Size and time of the file when the client opened it.
    start : int
    whole : bool
        Where the format does not tell the number of rows.
    columns : tuple of int
    missing : {"error", "drop"}
    header : bool
        Whether the first line of text holds names, as the client has found with all files.
    """

    number: int
    file: int
    path: str
    stamp: dict[str, object]
    start: int
    whole: bool
    columns: tuple[int, ...]
    missing: Missing
    header: bool

    def blocks(self, rows: None) -> Iterator[Float]:
        """Blocks of the rows kept."""
        for block in self._opened().numbered_blocks(0, self.start, PART_ROWS, self._stop):
            if len(block.kept):
                yield block.kept

    @property
    def _stop(self) -> float:
        return math.inf if self.whole else self.start + PART_ROWS

    def summary(self, rows: None, new_shard: NewShard) -> tuple[MomentSummary, PartMark | None]:
        """Summary of the rows, one shard for each part of the file.

        Where this is one part of several, its shard gets its id when all of them are known; the
        mark tells what it is made of.
        """
        source, summary, mark = self._opened(), new_shard(), None
        if self.whole:
            for state in summarize_parts(source, Progress(summary, 0, 0, 0), new_shard):
                summary = state.summary
        else:
            place = (source, 0, self.start, new_shard)
            for part in read_parts(*place, number=self.file, stop=self._stop):
                origin = source.origin(0, "parts", PART_ROWS)
                summary, mark = part.summary(), part.mark()._replace(origin=origin)
        return summary, mark

    def _opened(self) -> RowSource:
        if not os.path.exists(self.path):
            raise InputError(
                f"{self.path} does not exist where the worker runs; every worker must see the "
                "files under the same path (a shared file system). Or pass a Dask collection, "
                "e.g. dask.dataframe.read_parquet(...)."
            )
        source = open_rows(self.path, self.columns, self.missing, header=self.header)
        (file,) = source.tables
        assert isinstance(file, FileTable)
        file.expect(self.stamp)
        return source


Partition = CollectionPartition | FilePartition

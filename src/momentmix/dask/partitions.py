"""What one task on a worker reads: a partition of a Dask collection, or some rows of a file.

A partition opens as rows, as often as it is asked, and gives its summary under shard ids that
depend on its place alone. So a task may run twice, on any worker, and give the same bytes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError
from momentmix.summary.parts import (
    PART_ROWS,
    NewShard,
    PartMark,
    Progress,
    read_parts,
    summarize_parts,
)
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import Families, learn
from momentmix.tables.memory import MemoryTable
from momentmix.tables.opening import Reading
from momentmix.tables.selection import match_columns
from momentmix.tables.source import FileSource
from momentmix.tables.table_rows import Missing, TableRows


@contextmanager
def named(name: str) -> Iterator[None]:
    """Errors of the rows with this name have it in their messages."""
    try:
        yield
    except (InputError, InputTypeError) as error:
        if name in str(error):
            raise
        raise type(error)(f"{name}: {error}") from None


class Layout(NamedTuple):
    """Columns of a collection, and how all its partitions are read.

    Attributes
    ----------
    column_names : tuple of str or None
    n_columns : int
    taken : list of int
        Numbers of the columns to take.
    are_chosen : bool
        Whether these were asked for.
    missing : {"error", "drop", "model"}
    families : dict or Schema, optional
    is_learned : bool
        Whether columns may be other than numbers: each partition learns its schema.
    """

    column_names: tuple[str, ...] | None
    n_columns: int
    taken: list[int]
    are_chosen: bool
    missing: Missing
    families: Families
    is_learned: bool
    name: str = "the collection"


@dataclass(frozen=True)
class CollectionPartition:
    """A partition of a Dask collection, one shard; tasks are given its computed rows.

    Attributes
    ----------
    number : int
    shard_id : str
    layout : Layout
    """

    number: int
    shard_id: str
    layout: Layout

    def open(self, data: Any) -> TableRows | None:
        """The rows; None if there are none. Columns may be in another order than elsewhere."""
        if hasattr(data, "shape") and data.shape[:1] == (0,):
            return None
        name, own = f"partition {self.number}", self.layout
        with named(name):
            table = MemoryTable(data, name)
            numbers = match_columns(own, own.taken, table, not own.are_chosen)
            rows = Reading(columns=numbers, by_name=True).open([table], own.missing)
            rows.chosen = own.are_chosen
            return learn(rows, own.families) if own.is_learned else rows.check_numeric()

    def blocks(self, rows: TableRows) -> Iterator[Float]:
        """Blocks of the rows kept."""
        return rows.blocks()

    def summary(
        self, rows: TableRows, new_shard: NewShard
    ) -> tuple[MomentSummary, PartMark | None]:
        """Summary of the partition, one shard."""
        shard = new_shard(shard_id=self.shard_id)
        for block in rows.blocks():
            shard.update(rows.summand(block))
        return shard, None


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

    def open(self, data: None) -> TableRows:
        """The rows of the file."""
        if not os.path.exists(self.path):
            raise InputError(
                f"{self.path} does not exist where the worker runs; every worker must see the "
                "files under the same path (a shared file system). Or pass a Dask collection, "
                "e.g. dask.dataframe.read_parquet(...)."
            )
        rows = Reading(columns=self.columns, header=self.header).open(self.path, self.missing)
        (file,) = rows.sources
        assert isinstance(file, FileSource)
        file.expect(self.stamp)
        return rows

    def blocks(self, rows: TableRows) -> Iterator[Float]:
        """Blocks of the rows kept."""
        for block in rows.source_blocks(0, self.start, PART_ROWS, self._stop):
            if len(block.features):
                yield block.features

    @property
    def _stop(self) -> float:
        return math.inf if self.whole else self.start + PART_ROWS

    def summary(
        self, rows: TableRows, new_shard: NewShard
    ) -> tuple[MomentSummary, PartMark | None]:
        """Summary of the rows, one shard for each part of the file.

        Where this is one part of several, its shard gets its id when all of them are known; the
        mark tells what it is made of.
        """
        summary, mark = new_shard(), None
        if self.whole:
            for state in summarize_parts(rows, Progress(summary, 0, 0, 0), new_shard):
                summary = state.summary
        else:
            place = (rows, 0, self.start, new_shard)
            for part in read_parts(*place, number=self.file, stop=self._stop):
                origin = rows.origin(0, "parts", PART_ROWS)
                summary, mark = part.summary(), part.mark()._replace(origin=origin)
        return summary, mark


Partition = CollectionPartition | FilePartition

"""What one task on a worker reads: a partition of a Dask collection, or some rows of a file.

Shard ids depend on the place of a partition alone. So a task may run twice, on any worker, and give
the same bytes.
"""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError
from momentmix.summary.parts import PART_ROWS, NewShard, PartMark, read_parts
from momentmix.summary.summary import MomentSummary
from momentmix.tables.learning import Families, learn
from momentmix.tables.memory import MemoryTable
from momentmix.tables.opening import Reading
from momentmix.tables.selection import match_columns
from momentmix.tables.source import FileSource
from momentmix.tables.table_rows import Missing, TableRows


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of rows into the messages of their errors."""
    try:
        yield
    except (InputError, InputTypeError) as error:
        if name in str(error):
            raise
        raise type(error)(f"{name}: {error}") from None


class Partition(ABC):
    """What one task reads."""

    number: int
    start: int = 0
    stop: float = math.inf

    @abstractmethod
    def open(self, data: Any) -> TableRows | None:
        """Open the table of the rows; None if there are none."""

    @abstractmethod
    def summary(self, rows: TableRows, new_shard: NewShard) -> tuple[MomentSummary, list[PartMark]]:
        """Summarize the rows; marks give the ids of the shards where these are not known."""

    def blocks(self, data: Any) -> Iterator[Float]:
        """Yield blocks of the rows that are kept."""
        rows = self.open(data)
        if rows is not None:
            for block in rows.source_blocks(0, self.start, PART_ROWS, self.stop):
                if len(block.features):
                    yield block.features


@dataclass(frozen=True)
class CollectionPartition(Partition):
    """A partition of a Dask collection, one shard; tasks are given its computed rows.

    `like` are rows with the columns of the collection, of which every partition has the same ones.
    """

    number: int
    shard_id: str
    like: TableRows
    families: Families

    def open(self, data: Any) -> TableRows | None:
        """Open the rows; learn their columns where these may be other than numbers."""
        if hasattr(data, "shape") and data.shape[:1] == (0,):
            return None
        name, like = f"partition {self.number}", self.like
        with named(name):
            table = MemoryTable(data, name)
            numbers = match_columns(like.sources[0], like.columns[0], table, not like.chosen)
            rows = Reading(columns=numbers, by_name=True).open([table], like.missing)
            rows.chosen = like.chosen
            if self.families is None and like.missing != "model":
                return rows.check_numeric()
            return learn(rows, self.families)

    def summary(self, rows: TableRows, new_shard: NewShard) -> tuple[MomentSummary, list[PartMark]]:
        """Summarize the partition as one shard."""
        shard = new_shard(shard_id=self.shard_id)
        for block in rows.blocks():
            shard.update(rows.summand(block))
        return shard, []


@dataclass(frozen=True)
class FilePartition(Partition):
    """Rows of a file: one part of ``PART_ROWS`` rows, or all where their number is not known.

    The parts and their shard ids are those of ``momentmix summarize``, and so are the bytes.
    `stamp` and `header` are what the client has found: size and time of the file, and whether the
    first line of text holds names.
    """

    number: int
    file: int
    path: str
    stamp: dict[str, object]
    columns: list[int]
    missing: Missing
    header: bool
    start: int = 0
    stop: float = math.inf

    def open(self, data: None) -> TableRows:
        """Open the file."""
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

    def summary(self, rows: TableRows, new_shard: NewShard) -> tuple[MomentSummary, list[PartMark]]:
        """Summarize each part as a shard; shards get their ids from the marks of the whole file."""
        summary, marks, number = new_shard(), [], self.file
        for part in read_parts(rows, 0, self.start, new_shard, number=number, stop=self.stop):
            summary = summary + part.summary()
            marks.append(part.mark())
        origin = rows.origin(0, "parts", PART_ROWS)
        return summary, [mark._replace(origin=origin) for mark in marks]

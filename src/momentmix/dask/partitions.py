"""What one task on a worker reads: a partition of a Dask collection, or some rows of a file.

A partition opens as rows, as often as it is asked, and gives its summary under shard ids that
depend on its place alone. So a task may run twice, on any worker, and give the same bytes.
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
from momentmix.summary.parts import PART_ROWS, NewShard, PartMark, origin_of, read_parts
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


class Partition(ABC):
    """What one task reads."""

    number: int
    start: int = 0
    stop: float = math.inf

    @abstractmethod
    def open(self, data: Any) -> TableRows | None:
        """The table in which the rows are; None if there are none."""

    @abstractmethod
    def summary(self, rows: TableRows, new_shard: NewShard) -> tuple[MomentSummary, list[PartMark]]:
        """Summary of the rows, and what tells the ids of its shards where these are not known."""

    def blocks(self, data: Any) -> Iterator[Float]:
        """Blocks of the rows kept."""
        rows = self.open(data)
        if rows is not None:
            for block in rows.source_blocks(0, self.start, PART_ROWS, self.stop):
                if len(block.features):
                    yield block.features


@dataclass(frozen=True)
class CollectionPartition(Partition):
    """A partition of a Dask collection, one shard; tasks are given its computed rows.

    Attributes
    ----------
    number : int
    shard_id : str
    like : TableRows
        Rows with the columns of the collection, of which every partition has the same ones.
    families : dict or Schema, optional
    """

    number: int
    shard_id: str
    like: TableRows
    families: Families

    def open(self, data: Any) -> TableRows | None:
        """The rows, learned where columns may be other than numbers."""
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
        """Summary of the partition, one shard."""
        shard = new_shard(shard_id=self.shard_id)
        for block in rows.blocks():
            shard.update(rows.summand(block))
        return shard, []


@dataclass(frozen=True)
class FilePartition(Partition):
    """Rows of a file: one part of ``PART_ROWS`` rows, or all where their number is not known.

    The parts and their shard ids are those of ``momentmix summarize``, and so are the bytes.

    Attributes
    ----------
    number, file : int
        Numbers of the partition and of its file.
    path : str
    stamp : dict
        Size and time of the file when the client opened it.
    columns : list of int
    missing : {"error", "drop"}
    header : bool
        Whether the first line of text holds names, as the client has found with all files.
    start : int
    stop : float
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

    def summary(self, rows: TableRows, new_shard: NewShard) -> tuple[MomentSummary, list[PartMark]]:
        """Summary of the rows, one shard for each part of the file.

        Shards get their ids from the marks of all parts of the file.
        """
        summary, marks, number = new_shard(), [], self.file
        for part in read_parts(rows, 0, self.start, new_shard, number=number, stop=self.stop):
            summary = summary + part.summary()
            marks.append(part.mark())
        origin = origin_of(rows, 0, "parts", PART_ROWS)
        return summary, [mark._replace(origin=origin) for mark in marks]

"""One pass over rows of tables, cut into parts that are always the same.

A part is a run of rows of one table that starts at a multiple of ``part_rows``; it becomes one
shard.

The id of a shard follows from the contents of its whole file, the columns and the place, so that a
copy of a file is noticed and a file that differs in one value is another one. The contents are
known when the file has been read: until then its shards have an id that holds their place in the
pass.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from momentmix.errors import InputError, ShardError
from momentmix.summary.summary import MomentSummary, rename_shards
from momentmix.tables.formats.digests import RowDigest, counted_twice
from momentmix.tables.rows import Rows
from momentmix.tables.selection import column_keys
from momentmix.tables.table_rows import RowBlock, TableRows

# Enough rows that opening a shard costs nothing beside summing them; a cluster shares large files
# evenly.
PART_ROWS = 1 << 20


NewShard = Callable[..., MomentSummary]  # of shard_id, optional: an empty summary


def shards_of(rows: Rows, order: int, **options: Any) -> NewShard:
    """Return what makes empty summaries of such rows, with the same settings for every shard."""
    names = None if rows.schema else rows.feature_names
    fixed = {"feature_names": names, "schema": rows.schema, **options}
    return partial(MomentSummary, rows.n_features, order, **fixed)


class Origin(NamedTuple):
    """Where the rows of shards stand: a table, and the way in which it is cut into shards."""

    contents: str  # the same for every way of reading the table
    exact: bool  # whether tables of other rows have other contents; else ids of shards decide
    way: str  # columns, policy, keys: shards of one way are of different rows

    def of(self, place: str, shard_id: str) -> bytes:
        """32 bytes for a shard: of the table, the way, and the place of the shard in it."""
        texts = (self.contents, 16), (self.way, 8), (place if self.exact else shard_id, 8)
        return b"".join(hashlib.sha256(text.encode()).digest()[:size] for text, size in texts)


def place_id(rows: TableRows, table: int, first_row: int, others: Sequence[int] = ()) -> str:
    """Return the name of the shard that starts at a row, as far as it is known before reading."""
    source = rows.sources[table]
    columns = column_keys(source, [*rows.columns[table], *others])
    return json.dumps([source.mark, columns, rows.policy, first_row])


def origin_of(
    rows: TableRows, table: int, *way: object, others: Sequence[int] = ()
) -> Origin | None:
    """Where shards of a source, cut in a `way`, come from; None where that is not known."""
    found = rows.sources[table].contents()
    if found is None:
        return None
    place = place_id(rows, table, 0, others)
    return Origin(found[0], found[1], json.dumps([place, *way]))


class PartMark(NamedTuple):
    """Names of a part: its id in this pass, by facts known before reading, and by contents."""

    in_pass: str
    place_id: str
    contents: str
    origin: Origin | None = None


class Part:
    """A part while it is read: its sums, and a digest that a second thread makes meanwhile.

    The digest may be a block behind the sums, so that neither waits for the other at every block.
    """

    def __init__(self, place_id: str, in_pass: str, shard: MomentSummary) -> None:
        self.place_id, self.in_pass, self.shard = place_id, in_pass, shard
        self.n_dropped = 0  # rows so far
        self.stop = 0  # first row of the table after it
        self._digest = RowDigest()
        self._hashing: deque[Future[None]] = deque()

    def add(self, block: RowBlock, summand: Any, pool: ThreadPoolExecutor | None) -> None:
        """Add `summand` of a block to the shard, with a `pool` its features to the digest."""
        if pool is not None:
            self._wait(n_left=1)
            self._hashing.append(pool.submit(self._digest.update, block.features))
        n_kept = len(block.features)
        if n_kept:
            self.shard.update(summand)
        self.n_dropped += block.n_read - n_kept
        self.stop = block.first_row + block.n_read

    def _wait(self, n_left: int = 0) -> None:
        """Wait until the digest of at most so many blocks is still to be made."""
        while len(self._hashing) > n_left:
            self._hashing.popleft().result()

    def mark(self) -> PartMark:
        """Names of the part; the contents are the rows kept and the number of the others."""
        self._wait()
        contents = f"{self._digest.hexdigest()}-{self.n_dropped}"
        return PartMark(self.in_pass, self.place_id, contents)

    def summary(self) -> MomentSummary:
        """Sums of the part under its id in this pass."""
        return rename_shards(self.shard, {self.place_id: self.in_pass})


def read_parts(
    rows: TableRows,
    table: int,
    new_shard: NewShard,
    *,
    part_rows: int = PART_ROWS,
    others: Sequence[int] = (),
    added: Callable[[RowBlock], Any] | None = None,
) -> Iterator[Part]:
    """Yield the parts of one table, each when all of it has been read.

    `added` gives what a block adds to the shard; there is no digest of the part then.
    """
    part = None
    with ThreadPoolExecutor(1) as pool:
        for block in rows.source_blocks(table, part_rows=part_rows, others=others):
            if part is None:
                row = block.first_row
                place = place_id(rows, table, row, others)
                in_pass = json.dumps(["part", table, row])
                part = Part(place, in_pass, new_shard(shard_id=place))
            if added is None:
                part.add(block, rows.summand(block.features), pool)
            else:
                part.add(block, added(block), None)
            if part.stop % part_rows == 0:
                yield part
                part = None
        if part is not None:
            yield part


def name_shards(
    summary: MomentSummary, marks: Sequence[PartMark], origin: Origin | None
) -> MomentSummary:
    """Give the parts of one table the ids that follow from the contents of all of it."""
    texts = json.dumps([mark.contents for mark in marks])
    contents = hashlib.blake2b(texts.encode(), digest_size=16).hexdigest()
    names = {mark.in_pass: f"{mark.place_id} {contents}" for mark in marks}
    places = {names[mark.in_pass]: mark.place_id for mark in marks}
    origins = {} if origin is None else {x: origin.of(place, x) for x, place in places.items()}
    return rename_shards(summary, names, origins)


def summarize_parts(
    rows: TableRows, new_shard: NewShard, part_rows: int = PART_ROWS
) -> MomentSummary:
    """The sum of all parts of rows; `rows.n_dropped` counts the rows that were left out."""
    total, n_dropped = new_shard(), 0
    for table, source in enumerate(rows.sources):
        marks: list[PartMark] = []
        for part in read_parts(rows, table, new_shard, part_rows=part_rows):
            total, n_dropped = total + part.summary(), n_dropped + part.n_dropped
            marks.append(part.mark())  # last: it waits for the digest
        try:
            total = name_shards(total, marks, origin_of(rows, table, "parts", part_rows))
        except ShardError as error:
            raise InputError(counted_twice(source.name)) from error
    rows.n_dropped = n_dropped
    return total

"""`RowSource`: tables with the same columns, read one after the other as checked blocks of rows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Literal, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.parallel import read_ahead
from momentmix.progress import row_counter
from momentmix.rows.columns import column_keys, feature_names
from momentmix.digests import Fingerprint, Origin, RowDigest, counted_twice
from momentmix.rows.labels import Labels
from momentmix.tables.rows import Rows
from momentmix.rows.table import NO_CELL, Kind, RawBlock, Table
from momentmix.tables.validation import bad_value, in_range

Missing = Literal["error", "drop", "model"]


def check_missing(missing: object) -> None:
    """Raise unless this says what missing cells get."""
    if missing not in ("error", "drop", "model"):
        raise InputError(f"missing must be 'error', 'drop' or 'model'; got {missing!r}.")


class NumberedBlock(NamedTuple):
    """Number of the first row in its table, the rows as read, and those that the policy keeps."""

    first_row: int
    raw: RawBlock
    kept: Float


class RowSource(Rows):
    """Blocks of rows that can be read several times; `open_rows` makes it.

    Attributes
    ----------
    n_features : int
    feature_names : tuple of str or None
    total_rows : int or None
        Rows before any are dropped, where the formats tell; for progress bars.
    n_dropped : int
        Rows with missing values that the last complete pass dropped.
    by_name : bool
        Whether tables with equal contents are different data; else the second one is an error.
    kinds : list of Kind
        What each column holds. Text is read as codes of labels: see `with_labels`.
    chosen : bool
        Whether the columns were asked for, so that none is left out because of what it holds.
    notes : tuple of str
        Which columns were left out, and why.
    gaps : list of int
        Numbers of the columns whose missing cells are NaN, whatever `missing` says.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        columns: list[list[int]],
        missing: Missing,
        block_rows: int,
        by_name: bool = False,
        chosen: bool = True,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.tables, self.columns = list(tables), columns
        self.missing, self.block_rows, self.by_name = missing, block_rows, by_name
        self.chosen, self.notes = chosen, notes
        self.gaps: list[int] = []
        self.labels: Mapping[int, Labels] | None = None  # by number among the columns
        self.kinds = [common_kind(tables, numbers) for numbers in zip(*columns, strict=True)]
        self.feature_names = feature_names(tables[0], columns[0])
        counts = [table.n_rows for table in tables]
        self.total_rows = None if None in counts else sum(n for n in counts if n is not None)
        self.n_dropped = 0
        self._n_rows: int | None = None
        self._suspects: frozenset[int] | None = None

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self.columns[0])

    @property
    def n_rows(self) -> int:
        """Number of rows that `blocks` gives; costs a pass where the formats cannot tell."""
        if self._n_rows is None:
            if self.missing != "drop" and self.total_rows is not None:
                self._n_rows = self.total_rows
            else:
                self._n_rows = sum(len(block) for block in self.blocks())
        return self._n_rows

    @property
    def _read_rows(self) -> int | None:
        """Rows before any are dropped, where the formats or a pass have told."""
        if self.total_rows is None and self._n_rows is not None:
            return self._n_rows + self.n_dropped
        return self.total_rows

    def with_missing(self, missing: Missing) -> RowSource:
        """The same tables with another policy for missing cells."""
        if missing == self.missing:
            return self
        twin = copy(self)
        twin.missing, twin._n_rows = missing, None
        return twin

    def with_labels(self, labels: Mapping[int, Labels]) -> RowSource:
        """The same tables with labels of the columns of text, by number among the columns."""
        twin = copy(self)
        twin.labels = labels
        return twin

    def with_gaps(self, columns: Sequence[int]) -> RowSource:
        """The same tables, where cells of these columns may be missing."""
        twin = copy(self)
        twin.gaps = list(columns)
        return twin

    def selected(self, features: Sequence[int], notes: Sequence[str] = ()) -> RowSource:
        """The same tables with some of the columns."""
        columns = [[numbers[j] for j in features] for numbers in self.columns]
        return RowSource(
            self.tables, columns, self.missing, self.block_rows, self.by_name, self.chosen,
            (*self.notes, *notes),
        )  # fmt: skip

    @contextmanager
    def streamed(self, is_on: bool) -> Iterator[None]:
        """Where the rows are read in one pass only, if so: a query then leaves no copy on disk."""
        try:
            for table in self.tables:
                table.stream(is_on)
            yield
        finally:
            for table in self.tables:
                table.stream(False)

    def check_numeric(self) -> RowSource:
        """The source itself; an error where a column is text that no labels were given for."""
        texts = [j for j, kind in enumerate(self.kinds) if kind.is_text]
        if texts and self.labels is None:
            table, numbers = self.tables[0], self.columns[0]
            refused = ", ".join(
                f"{table.label(numbers[j]).removeprefix('column ')} ({self.kinds[j].type})"
                for j in texts
            )
            raise InputError(
                f"{table.name}: columns must hold real numbers; these do not: {refused}. Leave "
                "them out with exclude= or numeric_only= (--exclude, --numeric-only), or select "
                "others with columns= (--columns)."
            )
        return self

    # -- reading ------------------------------------------------------------------------------

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of rows, each of shape (some, n_features), from the first row on."""
        return (kept for _, _, kept in self.placed_blocks() if len(kept))

    def placed_blocks(self) -> Iterator[tuple[int, RawBlock, Float]]:
        """The blocks with the numbers of their tables, and their rows before any are dropped."""
        n_dropped = n_rows = 0
        seen: set[object] = set()
        for i, table in enumerate(self.tables):
            digest = RowDigest() if i in self._may_be_equal() and not table.is_text else None
            for _, raw, kept in self.numbered_blocks(i):
                n_dropped += len(raw.values) - len(kept)
                n_rows += len(kept)
                if digest is not None:
                    digest.update(kept)
                yield i, raw, kept
            contents: object = None if self.by_name or not table.is_text else table.contents()
            if digest is not None:
                contents = table.mark(), digest.hexdigest()
            if contents is not None and contents in seen:
                raise InputError(counted_twice(table.name))
            seen.add(contents)
        self.n_dropped, self._n_rows = n_dropped, n_rows
        self._suspects = frozenset()  # compared once, not in every pass

    def meet_labels(self, labels: Mapping[int, Labels]) -> None:
        """Number all labels of columns of text, by number among the columns, in a pass."""
        for table, columns in zip(self.tables, self.columns, strict=True):
            table.check_unchanged()
            table.meet_labels(_by_column(labels, columns))
            table.check_unchanged()

    def head(self, n_rows: int, labels: Mapping[int, Labels]) -> Float:
        """The first rows as they are, NaN for missing cells, without a pass over the source."""
        columns = self.columns[0]
        return self.tables[0].head(columns, n_rows, _by_column(labels, columns))

    def _may_be_equal(self) -> frozenset[int]:
        """Tables that share their mark with another one, where that matters."""
        if self._suspects is None:
            several = len(self.tables) > 1 and not self.by_name
            marks = [table.mark() for table in self.tables] if several else []
            times = Counter(marks)
            self._suspects = frozenset(i for i, mark in enumerate(marks) if times[mark] > 1)
        return self._suspects

    def numbered_blocks(
        self, table: int, start: int = 0, part_rows: int | None = None, stop: float = math.inf
    ) -> Iterator[NumberedBlock]:
        """Blocks of one table, with the numbers of their rows in it.

        Another thread reads and checks the next blocks of a file meanwhile. A file that is not as
        it was when the source was opened is an error.

        Parameters
        ----------
        table : int
            Number of the table.
        start : int
            First row to read.
        part_rows : int, optional
            Blocks end at the multiples of it, too.
        stop : float
            Where to stop, a multiple of `part_rows`; by default at the end of the table.
        """
        self.check_numeric()
        source, blocks = self.tables[table], self._numbered(table, start, part_rows, stop)
        source.check_unchanged()
        count = row_counter(self._read_rows, goes_on=table > 0)
        try:
            for block in read_ahead(blocks) if source.reads_ahead else blocks:
                source.check_unchanged()  # a file that grows as it is read has no end
                count(len(block.raw.values))
                yield block
        except (InputError, OSError):
            source.check_unchanged()  # if it has changed, that is the reason
            raise
        source.check_unchanged()

    def _numbered(
        self, table: int, start: int, part_rows: int | None, stop: float
    ) -> Generator[NumberedBlock, None, None]:
        position, columns = start, self.columns[table]
        labels = _by_column(self.labels or {}, columns)
        for raw in self.tables[table].read(columns, start, self.block_rows, labels):
            for section in _cut(raw, position, part_rows):
                yield NumberedBlock(position, section, self._kept(section, table))
                position += len(section.values)
                if position >= stop:
                    return

    def _kept(self, raw: RawBlock, table: int) -> Float:
        """The rows of a block that the policy keeps; values that it refuses are an error."""
        values, place = raw.values, raw.where
        if in_range(values):
            return values
        if self.missing == "drop":
            values, place = values[raw.complete()], lambda _: "a row"
            if in_range(values):
                return values
        elif self.missing == "model" or self.gaps:
            known = np.nan_to_num(values, posinf=np.inf, neginf=-np.inf)
            if self.missing == "error":
                others = [j for j in range(values.shape[1]) if j not in self.gaps]
                known[:, others] = values[:, others]
            if in_range(known):
                return values
            values = known
        source, numbers = self.tables[table], self.columns[table]

        def where(row: int, column: int) -> str:
            return f"{source.name}, {place(row)}, {source.label(numbers[column])}"

        raise bad_value(values, where, can_drop=True)

    def read_all(self) -> Float:
        """All rows as one array of shape (n_rows, n_features), in memory."""
        rows = self.read_within(math.inf)
        assert rows is not None
        return rows

    @property
    def expected_rows(self) -> int | None:
        """Number of rows, where the files tell."""
        return self.total_rows

    def read_within(self, n_bytes: float) -> Float | None:
        """All rows as one array, or None if they take more than so many bytes."""
        if self.total_rows is not None and 8 * self.total_rows * self.n_features > n_bytes:
            return None
        size, blocks = 0, []
        for block in self.blocks():
            size += block.nbytes
            if size > n_bytes:
                return None
            blocks.append(block)
        return np.concatenate(blocks) if blocks else np.empty((0, self.n_features))

    # -- what is read -------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint:
        """Names, sizes, times and digests of the tables, the columns and the policy."""
        tables = tuple({**table.stamp(), "mark": table.mark()} for table in self.tables)
        columns = column_keys(self.tables[0], self.columns[0])
        return Fingerprint(tables, tuple(columns), self.missing)

    def shard_id(self, table: int, first_row: int, by_name: bool | None = None) -> str:
        """Name of the shard that starts at a row of a table: mark, columns, policy, place.

        All that is known before the rows are read; `summarize_parts` adds a digest of them.

        Parameters
        ----------
        table : int
            Number of the table.
        first_row : int
            First row of the shard in the table.
        by_name : bool, optional
            Include the name of the file, so that equal files are different shards; by default as
            the source was opened.
        """
        source = self.tables[table]
        text = [source.mark(), column_keys(source, self.columns[table]), self.missing, first_row]
        named = self.by_name if by_name is None else by_name
        return json.dumps([*text, source.name] if named else text)

    def origin(self, table: int, *way: object) -> Origin | None:
        """Where shards of a table come from; None where that is not known.

        Parameters
        ----------
        table : int
            Number of the table.
        *way : object
            How it is cut into shards, beside columns and policy; JSON.
        """
        found = self.tables[table].contents()
        if found is None:
            return None
        name = self.tables[table].name if self.by_name else None
        return Origin(
            json.dumps([found[0], name]), found[1], json.dumps([self.shard_id(table, 0), *way])
        )

    def __repr__(self) -> str:
        rows = "unknown" if self.total_rows is None else f"{self.total_rows:,}"
        return (
            f"RowSource({len(self.tables)} table(s), n_features={self.n_features}, {rows} rows, "
            f"missing={self.missing!r})"
        )


def _by_column(labels: Mapping[int, Labels], columns: Sequence[int]) -> dict[int, Labels]:
    """Labels by number among the chosen columns → by number in the table."""
    return {columns[j]: known for j, known in labels.items()}


def common_kind(tables: Sequence[Table], columns: Sequence[int]) -> Kind:
    """What a column holds in all tables; an error where it is text in some of them only."""
    places = [(table.kind(i), table, i) for table, i in zip(tables, columns, strict=True)]
    known = [place for place in places if place[0] != NO_CELL] or places[:1]
    first, table, column = known[0]
    for kind, other, i in known[1:]:
        if kind.is_text != first.is_text or (kind.kind == "bool") != (first.kind == "bool"):
            raise InputError(
                f"a column must hold the same in all inputs; {table.label(column)} is "
                f"{first.type} in {table.name}, and {other.label(i)} is {kind.type} in "
                f"{other.name}. Convert it, or leave it out with exclude= (--exclude)."
            )
    return first


def _cut(raw: RawBlock, first_row: int, part_rows: int | None) -> Iterator[RawBlock]:
    """A block that starts at row `first_row`, cut at the multiples of `part_rows`."""
    start, n_rows = 0, len(raw.values)
    while start < n_rows:
        room = n_rows if part_rows is None else part_rows - (first_row + start) % part_rows
        stop = min(start + room, n_rows)
        yield raw.section(start, stop)
        start = stop

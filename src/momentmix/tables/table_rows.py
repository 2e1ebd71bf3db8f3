"""`TableRows`: sources with the same columns, read one after the other as checked features."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import reduce
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.parallel import read_ahead
from momentmix.progress import row_counter
from momentmix.tables.cells import Cells, cells_of, warn_integers
from momentmix.tables.encoding import (
    Encoded,
    Unseen,
    encode_cells,
    missing_cell,
    warn_of_unknown,
)
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.rows import Rows, Spread
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.selection import feature_names
from momentmix.tables.source import (
    NO_CELL,
    Batch,
    Columns,
    FileSource,
    Kind,
    Source,
    counted_twice,
)
from momentmix.tables.validation import in_range
from momentmix.wording import option

Missing = Literal["error", "drop", "model", "mar"]
_MOST_BYTES = 1 << 28  # of a block, where a source has an unknown number of rows


def check_missing(missing: object) -> None:
    """Raise unless this is a known treatment of missing cells."""
    if missing not in get_args(Missing):
        raise InputError(f"missing must be 'error', 'mar', 'model' or 'drop'; got {missing!r}.")


def keeps_gaps(missing: Missing) -> bool:
    """Whether columns with missing cells have a feature for which are seen."""
    return missing in ("model", "mar")


class RowBlock(NamedTuple):
    """Consecutive rows of a source as features."""

    first_row: int  # number in the source of the first row that was read
    n_read: int  # number of rows that were read
    features: Float  # of the rows that were kept
    left_out: NDArray[np.bool_] | None = None  # as of `Encoded`, where rows are to be predicted
    kept: NDArray[np.bool_] | None = None  # which of the rows read were kept; None if all were
    dropped: Spread | None = None  # of the rows that were not kept
    # Columns beside those of the features, of all rows: pieces, as the source gives them.
    others: list[list[Any]] = []  # noqa: RUF012 - never changed

    @property
    def encoded(self) -> Encoded:
        """The features, and which cells are to be left out of a density."""
        return Encoded(self.features, self.left_out)


class TableRows(Rows):
    """Rows of tables that can be read several times; `open_rows` makes it.

    Attributes
    ----------
    n_dropped : int
        Rows with missing values that the last complete pass dropped.
    notes : tuple of str
        Which columns were left out, and why.
    """

    may_count: tuple[int, ...] = ()  # columns of whole numbers without a given family
    learned: Schema  # by which rows are encoded, also where the features are the columns

    def __init__(
        self,
        sources: Sequence[Source],
        columns: list[list[int]],
        missing: Missing,
        block_rows: int,
        chosen: bool = True,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.sources, self.columns = list(sources), columns  # by their numbers in each source
        self.missing, self.block_rows = missing, block_rows
        self.chosen = chosen  # whether the columns were chosen: none is then left out
        self.notes = notes
        self.kinds = [common_kind(sources, numbers) for numbers in zip(*columns, strict=True)]
        self.column_names = feature_names(sources[0], columns[0])
        self.texts: frozenset[int] = frozenset()  # columns of CSV to be read as text, by place
        counts = [source.n_rows for source in sources]
        self.expected_rows = None if None in counts else sum(n for n in counts if n is not None)
        self.n_dropped = 0
        self._n_rows: int | None = None
        self._are_compared = False
        self._held: dict[int, tuple[list[int], list[Batch]]] = {}  # columns and batches by source
        self._set_schema(None)

    def _set_schema(self, schema: Schema | None) -> None:
        is_plain = schema is None or schema.is_plain
        self.schema = None if is_plain else schema
        self.feature_names = self.column_names
        if schema is not None:
            self.feature_names = schema.column_names if is_plain else schema.feature_names
        drops = self.missing == "drop"
        self.learned = schema or plain_schema(len(self.columns[0]), self.column_names, drops)
        self.is_learned = schema is not None

    def with_schema(self, schema: Schema, notes: Sequence[str] = ()) -> TableRows:
        """The same tables as features."""
        return self.changed(schema, notes=(*self.notes, *notes))

    def selected(self, places: Sequence[int]) -> TableRows:
        """The same tables with some of the columns, to be learned."""
        names = self.column_names
        return self.changed(
            columns=[[numbers[j] for j in places] for numbers in self.columns],
            kinds=[self.kinds[j] for j in places],
            texts=frozenset(k for k, j in enumerate(places) if j in self.texts),
            column_names=None if names is None else tuple(names[j] for j in places),
        )

    def changed(self, schema: Schema | None = None, **attributes: Any) -> TableRows:
        """The same tables with other attributes, to be learned unless there is a schema."""
        twin = copy(self)
        vars(twin).update(attributes, _n_rows=None)
        twin._set_schema(schema)
        return twin

    def held(self, n_bytes: float) -> TableRows:
        """The same rows from memory, where their batches take no more than so many bytes there."""
        known = self.expected_rows
        if not n_bytes or (known is not None and 8 * known * len(self.kinds) > n_bytes):
            return self
        held: dict[int, tuple[list[int], list[Batch]]] = {}
        for i, source in enumerate(self.sources):
            if isinstance(source, MemoryTable):
                continue
            batches: list[Batch] = []
            for batch in self._read(i, self.columns[i], as_text=list(self.texts)):
                n_bytes -= sum(column.nbytes for column in batch.columns)
                if n_bytes < 0:
                    return self
                batches.append(batch)
            held[i] = self.columns[i], batches
        twin = copy(self)
        twin._held = held
        return twin

    def _read(
        self, table: int, columns: Columns, start: int = 0, as_text: Columns = ()
    ) -> Iterator[Batch]:
        """Batches of a source as it was opened, or all batches that are held."""
        source = self.sources[table]
        source.check_unchanged()
        if table in self._held:
            numbers, batches = self._held[table]
            places = [numbers.index(i) for i in columns]
            yield from (b._replace(columns=[b.columns[k] for k in places]) for b in batches)
        else:
            yield from source.batches(columns, start, as_text)
        source.check_unchanged()

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.learned.n_features

    @property
    def n_rows(self) -> int:
        """Number of rows that `blocks` gives; costs a pass where the formats do not have it."""
        if self._n_rows is None:
            known = None if self._drops else self.expected_rows
            self._n_rows = sum(map(len, self.blocks())) if known is None else known
        return self._n_rows

    @property
    def _drops(self) -> bool:
        return any(column.drops for column in self.learned.columns)

    def where(self, table: int, row: int, column: int) -> str:
        """The place of a cell in words; `column` is its place among the columns."""
        return self.sources[table].place(row, self.columns[table][column])

    def without_rows(self) -> InputError:
        """The error where there are none."""
        kind, cure = "", ""
        if self._drops or self.missing == "drop":
            kind = " without missing cells"
            cure = f" Leave out columns, or pass {option(missing='mar')}."
        name = self.sources[0].name
        return InputError(f"a table must hold at least one row; {name} holds no rows{kind}.{cure}")

    def check_numeric(self) -> TableRows:
        """The rows themselves; an error where a column is text that nothing is known of."""
        texts = [j for j, kind in enumerate(self.kinds) if kind.kind == "text"]
        if texts and not self.is_learned:
            source, numbers = self.sources[0], self.columns[0]
            labels = [source.label(numbers[j]).removeprefix("column ") for j in texts]
            types = [self.kinds[j].type for j in texts]
            refused = ", ".join(map("{} ({})".format, labels, types))
            raise InputError(
                f"{source.name}: columns must hold real numbers; these do not: {refused}. Leave "
                f"them out with {option(exclude=...)}, or select others with "
                f"{option(columns=...)}."
            )
        return self

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of features, each of shape (some, n_features)."""
        return (block.features for _, block in self.placed_blocks() if len(block.features))

    def placed_blocks(
        self, others: Sequence[Sequence[int]] = (), unseen: Unseen | None = None
    ) -> Iterator[tuple[int, RowBlock]]:
        """All blocks, with the numbers of their sources; equal ones are an error."""
        n_dropped, n_rows, dropped = 0, 0, None
        seen: set[object] = set()
        # Sources that share their mark may be equal; they are compared once, not in every pass.
        compares = len(self.sources) > 1 and not self._are_compared
        times = Counter(source.mark for source in self.sources if compares)
        for i, source in enumerate(self.sources):
            digest = hashlib.blake2b() if compares and times[source.mark] > 1 else None
            more = others[i] if others else ()
            for block in self.source_blocks(i, others=more, unseen=unseen):
                n_dropped += block.n_read - len(block.features)
                n_rows += len(block.features)
                dropped = dropped if block.dropped is None else block.dropped.merged(dropped)
                if digest is not None:
                    digest.update(np.ascontiguousarray(block.features).data)
                yield i, block
            if digest is not None:
                contents = source.mark, digest.hexdigest()
                if contents in seen:
                    raise InputError(counted_twice(source.name))
                seen.add(contents)
        self.n_dropped, self._n_rows, self.dropped = n_dropped, n_rows, dropped
        self._are_compared = True

    def source_blocks(
        self,
        table: int,
        start: int = 0,
        part_rows: int | None = None,
        others: Sequence[int] = (),
        unseen: Unseen | None = None,
    ) -> Iterator[RowBlock]:
        """Blocks of one source; another thread reads and encodes the next ones of a file meanwhile.

        Blocks end at multiples of `part_rows`, too. `others` are further columns to read, in CSV as
        text. Where `unseen` is given, rows are read for prediction: `Block.left_out` marks missing
        cells, which are no error unless the rows were opened with missing="error".
        """
        self.check_numeric()
        source = self.sources[table]
        count = self._counter(table)
        blocks = _Reader(self, table, others, unseen).blocks(start, part_rows)
        try:
            reads_ahead = source.reads_ahead and table not in self._held
            for block in read_ahead(blocks) if reads_ahead else blocks:
                source.check_unchanged()  # a file that grows as it is read has no end
                count(block.n_read)
                yield block
        except (InputError, OSError):
            source.check_unchanged()  # if it has changed, that is the reason
            raise

    def _counter(self, table: int) -> Callable[[int], Any]:
        """Counter of rows of a source for the progress; of bytes where their number is unknown."""
        known = self.expected_rows
        if known is None and self._n_rows is not None:
            known = self._n_rows + self.n_dropped
        sizes = [source.n_bytes for source in self.sources if source.n_bytes is not None]
        source = self.sources[table]
        is_known = known is not None or len(sizes) < len(self.sources) or table in self._held
        if is_known or not isinstance(source, FileSource):
            return row_counter(known, goes_on=table > 0)
        count, given = row_counter(sum(sizes), goes_on=table > 0, unit="B"), 0

        def count_bytes(_: int) -> None:
            nonlocal given
            position = source.position()
            count(max(0, position - given))
            given = max(given, position)

        return count_bytes

    def cells(self, table: int, batch: Batch, places: Sequence[int] | None = None) -> list[Cells]:
        """The cells of a batch with the columns of these places; by default all."""
        source, found = self.sources[table], []
        for j, column in zip(places or range(len(self.columns[0])), batch.columns, strict=True):
            own = cells_of(column, source.nulls)
            warn_integers(
                own.values, f"{source.name}, {source.label(self.columns[table][j])} holds"
            )
            # Text of Parquet is read as a dictionary, whatever its type.
            found.append(own if own.labels is None else replace(own, order=self.kinds[j].order))
        return found

    def batches(self, places: Sequence[int]) -> Iterator[list[Cells]]:
        """The cells of columns with these places, batch by batch, of all sources."""
        texts = [k for k, j in enumerate(places) if j in self.texts]
        for i, columns in enumerate(self.columns):
            count = self._counter(i)
            for batch in self._read(i, [columns[j] for j in places], as_text=texts):
                count(batch.n_rows)
                yield self.cells(i, batch, places)

    def head(self) -> list[Cells] | None:
        """The cells of the first rows of the first source; None if there are none."""
        batch = self.sources[0].head(self.columns[0], list(self.texts))
        return None if batch is None else self.cells(0, batch)

    def read_all(self) -> Float:
        """All rows as one array of shape (n_rows, n_features), in memory."""
        return self.read_within(math.inf)[0]  # type: ignore[index]

    def read_within(self, n_bytes: float) -> tuple[Float, NDArray[np.bool_] | None] | None:
        """All rows as one array, and which were kept; None if they take more than so many bytes."""
        most, n_rows = self.expected_rows, 0
        if most is not None and 8 * most * self.n_features > n_bytes:
            return None
        features = np.empty((most or 0, self.n_features))
        blocks, kept = [features], list[tuple[NDArray[np.bool_] | None, tuple[int]]]()
        for _, block in self.placed_blocks():
            start, n_rows = n_rows, n_rows + len(block.features)
            if 8 * n_rows * self.n_features > n_bytes:
                return None
            if most is None:
                blocks.append(block.features)
            else:
                features[start:n_rows] = block.features
            kept.append((block.kept, (block.n_read,)))
        features = np.concatenate(blocks) if most is None else features[:n_rows]
        return features, _joined(kept, True)

    @property
    def policy(self) -> str:
        """Treatment of missing cells, as in the names of shards."""
        modeled = any(column.has_missing for column in self.learned.columns)
        return "drop" if self._drops else "model" if modeled else "error"

    def __repr__(self) -> str:
        rows = "unknown" if self.expected_rows is None else f"{self.expected_rows:,}"
        return (
            f"TableRows({len(self.sources)} table(s), n_features={self.n_features}, {rows} rows, "
            f"missing={self.missing!r})"
        )


def common_kind(sources: Sequence[Source], columns: Sequence[int]) -> Kind:
    """Content of a column in all sources; an error where it is text or dates in some only."""
    places = [(source.kind(i), source, i) for source, i in zip(sources, columns, strict=True)]
    known = [place for place in places if place[0] != NO_CELL] or places[:1]
    first, source, column = known[0]
    for kind, other, i in known[1:]:
        if any((kind.kind == what) != (first.kind == what) for what in ("text", "bool", "date")):
            raise InputError(
                f"a column must hold the same in all inputs; {source.label(column)} is "
                f"{first.type} in {source.name}, and {other.label(i)} is {kind.type} in "
                f"{other.name}. Convert it, or leave it out with {option(exclude=...)}."
            )
    return first


class _Reader:
    """Reads one source: batches of any sizes become blocks of features."""

    def __init__(
        self, rows: TableRows, table: int, others: Sequence[int], unseen: Unseen | None
    ) -> None:
        self.rows, self.table, self.unseen = rows, table, unseen
        self.source, self.schema = rows.sources[table], rows.learned
        self.own, self.others = rows.columns[table], list(others)
        most = self.source.n_rows
        if most is None:
            most = _MOST_BYTES // (8 * self.schema.n_features)
        self.block_rows = max(1, min(rows.block_rows, most))
        self.drops = np.array([column.drops for column in self.schema.columns])
        self.refuses = rows.missing == "error"
        if unseen is None:
            self.refuses = rows.is_learned or not keeps_gaps(rows.missing)

    def blocks(self, start: int, part_rows: int | None) -> Generator[RowBlock]:
        """Blocks from row `start` on; see `TableRows.source_blocks`."""
        position, n_own = start, len(self.own)
        columns = [*self.own, *self.others]
        texts = [*self.rows.texts, *range(n_own, len(columns))]
        pieces: list[RowBlock] = []
        for batch in self.rows._read(self.table, columns, start, texts):
            cells = self.rows.cells(self.table, batch._replace(columns=batch.columns[:n_own]))
            end = batch.first_row + batch.n_rows
            while position < end:
                room = self.block_rows - sum(piece.n_read for piece in pieces)
                if part_rows is not None:
                    room = min(room, part_rows - position % part_rows)
                size = min(room, end - position)
                rows = slice(position - batch.first_row, position - batch.first_row + size)
                piece = self._piece(position, [own[rows] for own in cells])
                others = [[column[rows]] for column in batch.columns[n_own:]]
                pieces.append(piece._replace(others=others))
                position += size
                if size == room:
                    yield join_blocks(pieces, n_own)
                    pieces.clear()
        if pieces:
            yield join_blocks(pieces, n_own)

    def _piece(self, first: int, cells: list[Cells]) -> RowBlock:
        columns, size = self.schema.columns, len(cells[0].values)
        whole = _one_array(cells) if self.schema.is_plain else None
        if whole is not None and in_range(whole):
            return RowBlock(first, size, whole)

        def where(row: int, column: int) -> str:
            return self.rows.where(self.table, first + row, column)

        features, left_out = encode_cells(columns, cells, where, self.unseen or "error")
        for j, (column, own) in enumerate(zip(columns, cells, strict=True)):
            if column.drops and column.has_missing and (gap := own.missing()).any():
                left_out = np.zeros((size, len(cells)), bool) if left_out is None else left_out
                left_out[:, j] |= gap  # a gap is a value of this column
        if left_out is None:
            return RowBlock(first, size, features)
        gaps = left_out
        if self.unseen == "missing":
            if not first and not self.source.in_memory:
                warn_of_unknown(columns, cells)
            gaps = left_out.copy()  # without cells that are no level
            for j, (column, own) in enumerate(zip(columns, cells, strict=True)):
                if column.levels:
                    gaps[:, j] &= own.missing()
        if self.refuses and (gaps & ~self.drops).any():
            raise missing_cell(gaps & ~self.drops, where)
        if self.unseen is None and not self.refuses:
            features[left_out] = np.nan
            return RowBlock(first, size, features)
        kept = ~(gaps & self.drops).any(axis=1)
        if kept.all():
            return RowBlock(first, size, features, left_out)
        rest = np.where(left_out[~kept][:, self.schema.column_of], np.nan, features[~kept])
        features, left_out = features[kept], left_out[kept]
        left_out = left_out if left_out.any() else None
        return RowBlock(first, size, features, left_out, kept, Spread.of(rest))


def join_blocks(pieces: Sequence[RowBlock], n_columns: int) -> RowBlock:
    """Consecutive blocks as one."""
    if len(pieces) == 1:
        return pieces[0]
    return RowBlock(
        pieces[0].first_row,
        sum(piece.n_read for piece in pieces),
        np.concatenate([piece.features for piece in pieces]),
        _joined([(p.left_out, (len(p.features), n_columns)) for p in pieces], False),
        _joined([(p.kept, (p.n_read,)) for p in pieces], True),
        reduce(lambda a, b: b if a is None else a.merged(b), [p.dropped for p in pieces]),
        [[*chain(*parts)] for parts in zip(*(piece.others for piece in pieces), strict=True)],
    )


def _joined(
    masks: Sequence[tuple[NDArray[np.bool_] | None, tuple[int, ...]]], usual: bool
) -> NDArray[np.bool_] | None:
    """Masks of consecutive rows, with their shapes, as one; None for one of usual values only."""
    if all(mask is None for mask, _ in masks):
        return None
    return np.concatenate([np.full(n, usual) if mask is None else mask for mask, n in masks])


def _one_array(cells: list[Cells]) -> Float | None:
    """The array whose columns are these, one beside the other; None if there is none."""
    first = cells[0].values
    if first.dtype != np.float64 or not first.flags.aligned:
        return None
    step, address = 8 * len(cells), first.__array_interface__["data"][0]
    for j, own in enumerate(cells):
        place = own.values.__array_interface__["data"][0]
        same = own.values.dtype == np.float64 and own.values.strides == (step,)
        if not same or place != address + 8 * j:
            return None
    return np.lib.stride_tricks.as_strided(first, (len(first), len(cells)), (step, 8))

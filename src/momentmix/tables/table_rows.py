"""`TableRows`: sources with the same columns, read one after the other as checked features."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from copy import copy
from functools import reduce
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.parallel import read_ahead
from momentmix.progress import row_counter
from momentmix.tables.columns import Kind, kind_of, missing_cells, numbers_of, warn_integers
from momentmix.tables.encoding import Encoded, Unseen, encode, missing_cell, warn_of_unknown
from momentmix.tables.rows import Rows, Spread
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.selection import feature_names
from momentmix.tables.source import Batch, Source, common_kind, counted_twice
from momentmix.wording import option

Missing = Literal["error", "drop", "model", "mar"]


def check_missing(missing: object) -> None:
    """Raise unless this is a known treatment of missing cells."""
    if missing not in get_args(Missing):
        raise InputError(f"missing must be 'error', 'mar', 'model' or 'drop'; got {missing!r}.")


def keeps_gaps(missing: Missing) -> bool:
    """Whether columns with missing cells have a feature for which are observed."""
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

    _are_different = False  # whether sources with the same mark have been compared
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
        self.kinds = [_kind(sources, numbers) for numbers in zip(*columns, strict=True)]
        self.column_names = feature_names(sources[0], columns[0])
        self.texts: frozenset[int] = frozenset()  # columns of CSV to be read as text, by place
        counts = [source.n_rows for source in sources]
        self.expected_rows = None if None in counts else sum(n for n in counts if n is not None)
        self.n_dropped = 0
        self._n_rows: int | None = None
        self._held: dict[int, tuple[list[int], list[Batch]]] = {}  # places and batches by source
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
            _held={},
        )

    def as_text(self, places: Sequence[int]) -> TableRows:
        """The same tables with columns of CSV that are read as text, and no others."""
        kinds = list(self.kinds)
        for j in places:
            if kinds[j].kind == "varied" and all(source.nulls for source in self.sources):
                kinds[j] = Kind("text", "text")
        return self.changed(texts=frozenset(places), kinds=kinds, _held={})

    def changed(self, schema: Schema | None = None, **attributes: Any) -> TableRows:
        """The same tables with other attributes, to be learned unless there is a schema."""
        twin = copy(self)
        vars(twin).update(attributes, _n_rows=None)
        twin._set_schema(schema)
        return twin

    def held(self, n_bytes: float) -> TableRows:
        """The same rows from memory, where their batches take no more than so many bytes there."""
        rows = self.expected_rows or 0
        if not n_bytes or self.sources[0].in_memory or 8 * rows * len(self.kinds) > n_bytes:
            return self
        held: dict[int, tuple[list[int], list[Batch]]] = {}
        for i in range(len(self.sources)):
            held[i] = list(range(len(self.columns[i]))), []
            for batch in self._read(i, range(len(self.columns[i]))):
                n_bytes -= sum(column.nbytes for column in batch.columns)
                if n_bytes < 0:
                    return self
                held[i][1].append(batch)
        twin = copy(self)
        twin._held = held
        return twin

    def _read(
        self, table: int, places: Sequence[int], others: Sequence[int] = ()
    ) -> Iterator[Batch]:
        """Batches of columns by their places, and of `others` of the source as they are written."""
        self._check_kinds()
        source = self.sources[table]
        source.check_unchanged()
        if table in self._held and not others:
            held, batches = self._held[table]
            yield from (
                b._replace(columns=[b.columns[held.index(j)] for j in places]) for b in batches
            )
        else:
            columns = [*(self.columns[table][j] for j in places), *others]
            texts = [k for k, j in enumerate(places) if j in self.texts]
            written = range(len(places), len(columns))
            yield from source.batches(columns, texts, written)
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
            labels = [f"{source.label(numbers[j])} ({self.kinds[j].type})" for j in texts]
            refused = ", ".join(labels).replace("column ", "")
            raise InputError(
                f"{source.name}: columns must hold real numbers; these do not: {refused}. Leave "
                f"them out with {option(exclude=...)}, or select others with "
                f"{option(columns=...)}."
            )
        return self

    def _check_kinds(self) -> None:
        """Raise where a column holds different things in several inputs."""
        if varied := [kind for kind in self.kinds if kind.kind == "varied"]:
            raise InputError(varied[0].type)

    # -- passes over the rows ------------------------------------------------------------------

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of features, each of shape (some, n_features)."""
        return (block.features for block in self.all_blocks() if len(block.features))

    def all_blocks(self, unseen: Unseen | None = None) -> Iterator[RowBlock]:
        """The blocks of all sources; counts the rows that were dropped."""
        n_dropped, n_rows, dropped = 0, 0, None
        self._check_different()
        for i in range(len(self.sources)):
            for block in self.source_blocks(i, unseen=unseen):
                n_dropped += block.n_read - len(block.features)
                n_rows += len(block.features)
                dropped = dropped if block.dropped is None else block.dropped.merged(dropped)
                yield block
        self.n_dropped, self._n_rows, self.dropped = n_dropped, n_rows, dropped

    def _check_different(self) -> None:
        """Raise where two sources are the same file, or copies."""
        if len(self.sources) == 1 or self._are_different:
            return  # the mark of a table in memory is a digest of all its cells
        times, digests = Counter(source.mark for source in self.sources), set()
        for source in self.sources:
            if times[source.mark] > 1:
                digest = source.digest()
                if digest in digests:
                    raise InputError(counted_twice(source.name))
                digests.add(digest)
        self._are_different = True

    def source_blocks(
        self, table: int, others: Sequence[int] = (), unseen: Unseen | None = None
    ) -> Iterator[RowBlock]:
        """Blocks of one source; another thread reads and encodes the next ones of a file meanwhile.

        `others` are further columns to read, in CSV as text. Where `unseen` is given, rows are read
        for prediction: `Block.left_out` marks missing cells, which are no error unless the rows
        were opened with missing="error".
        """
        self.check_numeric()
        source, count = self.sources[table], row_counter(self._known_rows(), goes_on=table > 0)
        blocks = self._joined_blocks(table, list(others), unseen)
        try:
            reads_ahead = source.reads_ahead and table not in self._held
            for block in read_ahead(blocks) if reads_ahead else blocks:
                source.check_unchanged()  # a file that grows as it is read has no end
                count(block.n_read)
                yield block
        except (InputError, OSError):
            source.check_unchanged()  # if it has changed, that is the reason
            raise

    def _known_rows(self) -> int | None:
        """Number of rows of all sources, for the progress."""
        if self.expected_rows is None and self._n_rows is not None:
            return self._n_rows + self.n_dropped
        return self.expected_rows

    def _joined_blocks(
        self, table: int, others: list[int], unseen: Unseen | None
    ) -> Generator[RowBlock]:
        """Batches of any sizes as blocks of at most `block_rows` rows."""
        n_columns, size = len(self.columns[table]), 0
        pieces: list[RowBlock] = []
        for batch in self._read(table, range(n_columns), others):
            for start in range(0, batch.n_rows, self.block_rows):
                rows = slice(start, min(start + self.block_rows, batch.n_rows))
                part = [column[rows] for column in batch.columns]
                if size + rows.stop - start > self.block_rows:
                    yield join_blocks(pieces, n_columns)
                    pieces, size = [], 0
                block = self._block(table, batch.first_row + start, part[:n_columns], unseen)
                pieces.append(block._replace(others=[[column] for column in part[n_columns:]]))
                size += block.n_read
        if pieces:
            yield join_blocks(pieces, n_columns)

    def _block(self, table: int, first: int, batch: list[Any], unseen: Unseen | None) -> RowBlock:
        """Consecutive rows of a batch, the first of which has this number, as features."""
        columns, size = self.learned.columns, len(batch[0])

        def where(row: int, column: int) -> str:
            return self.where(table, first + row, column)

        source = self.sources[table]
        for number, cells in zip(self.columns[table], batch, strict=True):
            if kind_of(cells).kind == "number":
                warn_integers(numbers_of(cells), f"{source.name}, {source.label(number)} holds")
        features, left_out = encode(columns, batch, where, unseen or "error")
        drops = np.array([column.drops for column in columns])
        if left_out is None:
            if not any(column.drops and column.has_missing for column in columns):
                return RowBlock(first, size, features)
            left_out = np.zeros((size, len(batch)), dtype=bool)
        if unseen == "missing" and not first and not source.in_memory:
            warn_of_unknown(columns, batch)
        by_column = [  # without cells that are no level, or that are modeled as missing
            missing_cells(cells) & (own | column.drops)
            if column.levels or column.has_missing
            else own
            for column, cells, own in zip(columns, batch, left_out.T, strict=True)
        ]
        missing = np.column_stack(by_column)
        refuses = self.missing == "error"
        if unseen is None:
            refuses = self.is_learned or not keeps_gaps(self.missing)
        if refuses and (missing & ~drops).any():
            raise missing_cell(missing & ~drops, where)
        if unseen is None and not refuses:
            features[left_out] = np.nan
            return RowBlock(first, size, features)
        left_out, kept = left_out | (missing & drops), ~(missing & drops).any(axis=1)
        if kept.all():
            return RowBlock(first, size, features, left_out if left_out.any() else None)
        rest = np.where(left_out[~kept][:, self.learned.column_of], np.nan, features[~kept])
        features, left_out = features[kept], left_out[kept]
        left_out = left_out if left_out.any() else None
        return RowBlock(first, size, features, left_out, kept, Spread.of(rest))

    def batches(self, places: Sequence[int]) -> Iterator[list[Any]]:
        """Columns with these places, batch by batch, of all sources."""
        for i in range(len(self.sources)):
            count = row_counter(self._known_rows(), goes_on=i > 0)
            for batch in self._read(i, places):
                count(batch.n_rows)
                yield batch.columns

    def head(self) -> list[Any] | None:
        """The first rows of the first source; None if there are none."""
        batches = self._read(0, range(len(self.columns[0])))
        return next((batch.columns for batch in batches if batch.n_rows), None)

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
        for block in self.all_blocks():
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


def _kind(sources: Sequence[Source], columns: Sequence[int]) -> Kind:
    """Content of a column in all sources; "varied", with the error, where it differs."""
    try:
        return common_kind(sources, columns)
    except InputError as error:
        return Kind("varied", str(error))


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

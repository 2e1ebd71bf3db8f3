"""`TableRows`: sources with the same columns, read one after the other as checked features."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from copy import copy
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.parallel import read_ahead
from momentmix.progress import row_counter
from momentmix.tables.columns import Kind, kind_of, missing_cells, numbers_of, warn_integers
from momentmix.tables.encoding import Encoded, Unseen, encode, missing_cell
from momentmix.tables.rows import Rows, Spread
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.source import Batch, Source, common_kind, feature_names
from momentmix.wording import option

Missing = Literal["error", "drop", "model", "mar"]
# Sums of moments are fastest from about 100,000 rows on; a few blocks are in memory at a time.
_MOST_ROWS, _BLOCK_BYTES = 1 << 17, 1 << 24


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
    others: Sequence[Any] = ()  # columns beside those of the features, of all rows

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
    encoding: Schema | None = None  # by which rows are encoded; None before it was learned
    n_dropped = 0
    _n_rows: int | None = None

    def __init__(
        self,
        sources: Sequence[Source],
        columns: list[list[int]],
        missing: Missing,
        chosen: bool = True,
        notes: tuple[str, ...] = (),
    ) -> None:
        self.sources, self.columns = list(sources), columns  # by their numbers in each source
        self.missing, self.notes = missing, notes
        self.chosen = chosen  # whether the columns were chosen: none is then left out
        self.block_rows = max(1, min(_MOST_ROWS, _BLOCK_BYTES // (8 * len(columns[0]))))
        self.kinds = [common_kind(sources, numbers) for numbers in zip(*columns, strict=True)]
        self.column_names = feature_names(sources[0], columns[0])
        counts = [source.n_rows for source in sources]
        self.expected_rows = None if None in counts else sum(n for n in counts if n is not None)

    def changed(self, **attributes: Any) -> TableRows:
        """The same tables with other attributes."""
        twin = copy(self)
        vars(twin).update(attributes, _n_rows=None)
        return twin

    def with_schema(self, schema: Schema, notes: Sequence[str] = ()) -> TableRows:
        """The same tables as features."""
        return self.changed(encoding=schema, notes=(*self.notes, *notes))

    def selected(self, places: Sequence[int]) -> TableRows:
        """The same tables with some of the columns, to be learned."""
        names = self.column_names
        return self.changed(
            columns=[[numbers[j] for j in places] for numbers in self.columns],
            kinds=[self.kinds[j] for j in places],
            column_names=None if names is None else tuple(names[j] for j in places),
            encoding=None,
        )

    def as_text(self, places: Sequence[int]) -> TableRows:
        """The same tables with columns of CSV that are read as text, whatever they hold."""
        kinds = list(self.kinds)
        for j in places if all(source.nulls for source in self.sources) else ():
            kinds[j] = Kind("text", "text")
        return self.changed(kinds=kinds)

    @property
    def learned(self) -> Schema:
        """The schema of the features; of numbers, before it was learned."""
        return self.encoding or plain_schema(len(self.columns[0]), self.column_names)

    @property
    def schema(self) -> Schema | None:  # type: ignore[override]
        """By which columns became features; None where they are these."""
        return None if self.encoding is None or self.encoding.is_plain else self.encoding

    @property
    def feature_names(self) -> tuple[str, ...] | None:  # type: ignore[override]
        """Names of the features."""
        if self.encoding is None:
            return self.column_names
        return self.encoding.column_names if self.encoding.is_plain else self.encoding.feature_names

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.learned.n_features

    @property
    def n_rows(self) -> int:
        """Number of rows that `blocks` gives; costs a pass where the formats do not have it."""
        if self._n_rows is None:
            known = None if self.missing == "drop" else self.expected_rows
            self._n_rows = sum(map(len, self.blocks())) if known is None else known
        return self._n_rows

    def where(self, table: int, row: int, column: int) -> str:
        """The place of a cell in words; `column` is its place among the columns."""
        return self.sources[table].place(row, self.columns[table][column])

    def without_rows(self) -> InputError:
        """The error where there are none."""
        kind, cure = "", ""
        if self.missing == "drop":
            kind = " without missing cells"
            cure = f" Leave out columns, or pass {option(missing='mar')}."
        name = self.sources[0].name
        return InputError(f"a table must hold at least one row; {name} holds no rows{kind}.{cure}")

    # -- passes over the rows ------------------------------------------------------------------

    def batches(
        self,
        table: int,
        places: Sequence[int] | None = None,
        others: Sequence[int] = (),
        as_written: bool = False,
    ) -> Iterator[Batch]:
        """First row and columns of each batch of a source, by their places; by default all.

        `others` are further columns by their numbers, in CSV as text: with `as_written` also what
        means a missing cell elsewhere.
        """
        if varied := [kind for kind in self.kinds if kind.kind == "varied"]:
            raise InputError(varied[0].type)
        source = self.sources[table]
        places = range(len(self.kinds)) if places is None else places
        columns = [*(self.columns[table][j] for j in places), *others]
        texts = [k for k, j in enumerate(places) if self.kinds[j].kind == "text"]
        further = range(len(places), len(columns))
        texts, written = (texts, further) if as_written else ([*texts, *further], range(0))
        known = self.expected_rows
        if known is None and self._n_rows is not None:
            known = self._n_rows + self.n_dropped
        count = row_counter(known, goes_on=table > 0)
        source.check_unchanged()
        try:
            for first, batch in source.batches(columns, texts, written):
                source.check_unchanged()  # a file that grows as it is read has no end
                count(len(batch[0]))
                yield first, batch
        except (InputError, OSError):
            source.check_unchanged()  # if it has changed, that is the reason
            raise
        source.check_unchanged()

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of features, each of shape (some, n_features)."""
        return (block.features for block in self.all_blocks() if len(block.features))

    def all_blocks(self, unseen: Unseen | None = None) -> Iterator[RowBlock]:
        """The blocks of all sources; counts the rows that were dropped."""
        n_dropped, n_rows, dropped = 0, 0, None
        for i in range(len(self.sources)):
            for block in self.source_blocks(i, unseen=unseen):
                n_dropped += block.n_read - len(block.features)
                n_rows += len(block.features)
                dropped = dropped if block.dropped is None else block.dropped.merged(dropped)
                yield block
        self.n_dropped, self._n_rows, self.dropped = n_dropped, n_rows, dropped

    def source_blocks(
        self, table: int, others: Sequence[int] = (), unseen: Unseen | None = None
    ) -> Iterator[RowBlock]:
        """Blocks of one source; another thread reads and encodes the next ones of a file meanwhile.

        `others` are further columns to read, in CSV as text. Where `unseen` is given, rows are read
        for prediction: `others` are as they are written, and `RowBlock.left_out` marks missing
        cells, which are no error unless the rows were opened with missing="error".
        """
        blocks = self._encoded(table, others, unseen)
        return blocks if self.sources[table].in_memory else read_ahead(blocks)

    def _encoded(
        self, table: int, others: Sequence[int], unseen: Unseen | None
    ) -> Generator[RowBlock]:
        n_columns, schema = len(self.kinds), self.learned
        for first, batch in self.batches(table, None, others, unseen is not None):
            for start in range(0, len(batch[0]), self.block_rows):
                part = _rows_of(batch, slice(start, start + self.block_rows))
                block = self._block(table, schema, first + start, part[:n_columns], unseen)
                yield block._replace(others=part[n_columns:])

    def _block(
        self, table: int, schema: Schema, first: int, batch: Any, unseen: Unseen | None
    ) -> RowBlock:
        """Consecutive rows of a batch, the first of which has this number, as features."""
        source, size = self.sources[table], len(batch[0])
        for number, cells in zip(self.columns[table], batch, strict=True):
            if kind_of(cells).kind == "number":
                warn_integers(numbers_of(cells), f"{source.name}, {source.label(number)} holds")

        def where(row: int, column: int) -> str:
            return self.where(table, first + row, column)

        drops = self.missing == "drop"
        features, left_out = encode(schema.columns, batch, where, unseen or "error", drops)
        if left_out is None and not drops:
            return RowBlock(first, size, features)
        missing = np.zeros((size, schema.n_columns), bool) if left_out is None else left_out.copy()
        for j, column in enumerate(schema.columns if left_out is not None else ()):
            if column.levels:  # a level that was never seen is no missing cell
                missing[:, j] &= missing_cells(batch[j])
        if not drops and missing.any() and (self.missing == "error" or unseen is None):
            if self.encoding is not None or self.missing == "error":
                raise missing_cell(missing, where)
            features[missing] = np.nan
            return RowBlock(first, size, features)
        lost = np.asarray(missing.any(axis=1))
        for seen in filter(None, map(schema.seen_of, range(schema.n_columns if drops else 0))):
            lost |= features[:, seen] == 0
        if not drops or not lost.any():
            return RowBlock(first, size, features, left_out)
        dropped = Spread.of(np.where(missing[lost][:, schema.column_of], np.nan, features[lost]))
        left_out = None if left_out is None else left_out[~lost]
        return RowBlock(first, size, features[~lost], left_out, ~lost, dropped)

    def head(self) -> list[Any] | None:
        """The first rows of the first source; None if there are none."""
        return next((batch for _, batch in self.batches(0) if len(batch[0])), None)

    def read_all(self) -> Float:
        """All rows as one array of shape (n_rows, n_features), in memory."""
        return self.read_within(math.inf)[0]  # type: ignore[index]

    def read_within(self, n_bytes: float) -> tuple[Float, NDArray[np.bool_] | None] | None:
        """All rows as one array, and which were kept; None if they take more than so many bytes."""
        if 8 * (self.expected_rows or 0) * self.n_features > n_bytes:
            return None
        size = self.block_rows
        if self.sources[0].in_memory:  # in one block, which takes no further copy
            self.block_rows = max(1, self.sources[0].n_rows or 0)
        features, kept = [np.empty((0, self.n_features))], [np.empty(0, dtype=bool)]
        for block in self.all_blocks():
            features.append(block.features)
            kept.append(np.ones(block.n_read, bool) if block.kept is None else block.kept)
            n_bytes -= block.features.nbytes
            if n_bytes < 0:
                return None
        self.block_rows = size
        whole = features[1] if len(features) == 2 else np.concatenate(features)
        return whole, np.concatenate(kept) if self.n_dropped else None

    def __repr__(self) -> str:
        rows = "unknown" if self.expected_rows is None else f"{self.expected_rows:,}"
        return (
            f"TableRows({len(self.sources)} table(s), n_features={self.n_features}, {rows} rows, "
            f"missing={self.missing!r})"
        )


def _rows_of(batch: Any, rows: slice) -> Any:
    """Return some rows of all columns, a list of them or an array (n_columns, n)."""
    return batch[:, rows] if isinstance(batch, np.ndarray) else [cells[rows] for cells in batch]

"""`TableRows`: sources with the same columns, read one after the other as checked features."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from copy import copy
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.parallel import read_ahead
from momentmix.progress import row_counter
from momentmix.tables.columns import Kind, kind_of, numbers_of, warn_integers
from momentmix.tables.encoding import Encoded, Unseen, encode, missing_cell
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema, plain_schema
from momentmix.tables.source import Batch, Source, common_kind, feature_names
from momentmix.wording import option

Missing = Literal["error", "drop", "model", "mar"]
# Sums of moments are fastest from about 100,000 rows on; a few blocks are in memory at a time.
_MOST_ROWS, _BLOCK_BYTES = 1 << 17, 1 << 24
_MOST_DROPPED = 1 << 16  # rows that are kept to compare them with the others


def check_missing(missing: object) -> None:
    """Raise unless this is a known treatment of missing cells."""
    if missing not in get_args(Missing):
        raise InputError(f"missing must be 'error', 'mar', 'model' or 'drop'; got {missing!r}.")


def keeps_gaps(missing: Missing) -> bool:
    """Whether columns with missing cells have a feature for which are observed."""
    return missing in ("model", "mar")


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
    _total, _goes_on = None, False  # of a part: rows of all parts, whether others are before it
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
        self.column_names = feature_names(sources[0], columns[0])
        self.kinds = [
            common_kind(
                [source.kind(i) for source, i in zip(sources, numbers, strict=True)],
                [f"{x.label(i)} of {x.name}" for x, i in zip(sources, numbers, strict=True)],
            )
            for numbers in zip(*columns, strict=True)
        ]

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
    def parts(self) -> list[TableRows]:
        """The rows of each source."""
        if len(self.sources) == 1:
            return [self]
        pairs = zip(self.sources, self.columns, strict=True)
        return [
            self.changed(
                sources=[source], columns=[columns], _total=self.expected_rows, _goes_on=k > 0
            )
            for k, (source, columns) in enumerate(pairs)
        ]

    @property
    def learned(self) -> Schema:
        """The schema of the features; of numbers, before it was learned."""
        return self.encoding or plain_schema(len(self.kinds), self.column_names)

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
    def expected_rows(self) -> int | None:  # type: ignore[override]
        """Number of rows with those to be dropped, where it is known."""
        counts = [source.n_rows for source in self.sources]
        return None if None in counts else sum(n for n in counts if n is not None)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.learned.n_features

    @property
    def n_rows(self) -> int:
        """Number of rows that `blocks` gives; costs a pass where the formats do not have it."""
        if self._n_rows is None:
            expected = None if self.missing == "drop" else self.expected_rows
            self._n_rows = sum(map(len, self.blocks())) if expected is None else expected
        return self._n_rows

    def without_rows(self) -> InputError:
        """The error where there are none."""
        kind, cure = "", ""
        if self.missing == "drop":
            kind = " without missing cells"
            cure = f" Leave out columns, or pass {option(missing='mar')}."
        name = self.sources[0].name
        return InputError(f"a table must hold at least one row; {name} holds no rows{kind}.{cure}")

    # -- passes over the rows ------------------------------------------------------------------

    def where(self, row: int, column: int) -> str:
        """The place of a cell of the first source in words."""
        return self.sources[0].place(row, self.columns[0][column])

    def batches(self, places: Sequence[int], others: Sequence[int] = ()) -> Iterator[Batch]:
        """First row and columns of each batch of the first source, by their places.

        `others` are further columns by their numbers, in CSV as text as it is written.
        """
        if varied := [kind for kind in self.kinds if kind.kind == "varied"]:
            raise InputError(varied[0].type)
        source, numbers = self.sources[0], [self.columns[0][j] for j in places]
        texts = [k for k, j in enumerate(places) if self.kinds[j].kind == "text"]
        count = row_counter(self._total or self.expected_rows, self._goes_on)
        source.check_unchanged()
        try:
            for first, batch in source.batches(numbers, texts, others):
                source.check_unchanged()  # a file that grows as it is read has no end
                count(len(batch[0]))
                yield first, batch
        except (InputError, OSError):
            source.check_unchanged()  # if it has changed, that is the reason
            raise
        source.check_unchanged()

    def head(self) -> Any:
        """The first rows of the first source; None if there are none."""
        batches = self.parts[0].batches(range(len(self.kinds)))
        return next((batch for _, batch in batches if len(batch[0])), None)

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of features, each of shape (some, n_features)."""
        return (block.features for block in self.encoded() if len(block.features))

    def encoded(
        self, others: Sequence[int] = (), unseen: Unseen | None = None
    ) -> Iterator[Encoded]:
        """Blocks of all sources; counts the rows that were dropped.

        Another thread reads and encodes the next blocks of a file meanwhile. `others` are further
        columns of the first source to read, in CSV as text as it is written. Where `unseen` is
        given, rows are read for prediction: `left_out` marks missing cells, which are no error
        unless the rows were opened with missing="error".
        """
        n_read = n_rows = 0
        dropped = list[Float]()
        for part in self.parts:
            blocks: Any = part._encoded(others, unseen)
            if not part.sources[0].in_memory:
                blocks = read_ahead(blocks)
            with closing(blocks):
                for block in blocks:
                    n_read += block.n_read
                    n_rows += len(block.features)
                    if block.dropped is not None and sum(map(len, dropped)) < _MOST_DROPPED:
                        dropped.append(block.dropped)
                    yield block
        self.n_dropped, self._n_rows = n_read - n_rows, n_rows
        self.dropped = np.concatenate(dropped) if dropped else None

    def _encoded(self, others: Sequence[int], unseen: Unseen | None) -> Generator[Encoded]:
        n_columns = len(self.kinds)
        for first, batch in self.batches(range(n_columns), others):
            for start in range(0, len(batch[0]), self.block_rows):
                rows = slice(start, start + self.block_rows)
                whole = isinstance(batch, np.ndarray)
                part: Any = batch[:, rows] if whole else [cells[rows] for cells in batch]
                block = self._block(first + start, part[:n_columns], unseen)
                yield block._replace(
                    first_row=first + start, n_read=len(part[0]), others=part[n_columns:]
                )

    def _block(self, first: int, batch: Any, unseen: Unseen | None) -> Encoded:
        """Consecutive rows of a batch, the first of which has this number, as features."""
        source, schema, drops = self.sources[0], self.learned, self.missing == "drop"
        for number, cells in zip(self.columns[0], batch, strict=True):
            if kind_of(cells).kind == "number":
                warn_integers(numbers_of(cells), f"{source.name}, {source.label(number)} holds")

        def where(row: int, column: int) -> str:
            return self.where(first + row, column)

        block = encode(schema.columns, batch, where, unseen or "error", drops)
        missing = block.missing
        if missing is None:
            return block
        if drops:
            lost = np.asarray(missing.any(axis=1))
            gone = np.where(missing[lost][:, schema.column_of], np.nan, block.features[lost])
            left_out = None if block.left_out is None else block.left_out[~lost]
            return Encoded(block.features[~lost], left_out, kept=~lost, dropped=gone)
        if self.missing == "error" or (unseen is None and self.encoding is not None):
            raise missing_cell(missing, where)
        if unseen is None:
            block.features[missing] = np.nan
        return block

    def read_within(self, n_bytes: float) -> tuple[Float, NDArray[np.bool_] | None] | None:
        """All rows as one array, and which were kept; None if they take more than so many bytes."""
        if 8 * (self.expected_rows or 0) * self.n_features > n_bytes:
            return None
        rows = self.changed()
        if self.sources[0].in_memory:  # in one block, which takes no further copy
            rows.block_rows = max(1, self.sources[0].n_rows or 0)
        features, kept = [np.empty((0, self.n_features))], [np.empty(0, dtype=bool)]
        for block in rows.encoded():
            features.append(block.features)
            kept.append(np.ones(block.n_read, bool) if block.kept is None else block.kept)
            n_bytes -= block.features.nbytes
            if n_bytes < 0:
                return None
        self.n_dropped, self.dropped = rows.n_dropped, rows.dropped
        whole = features[1] if len(features) == 2 else np.concatenate(features)
        return whole, np.concatenate(kept) if self.n_dropped else None

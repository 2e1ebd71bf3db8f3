"""Keys of groups: which columns, dates cut to periods, and names of folders (Hive).

| asked for | key | values |
|---|---|---|
| ``region`` | region | text, whole numbers, true and false, days; CSV: see `_CsvKey` |
| ``week(ts)``, also year, quarter, month, day, hour | week | first day of the period, or the hour |
| ``region`` in folders ``region=EU/`` | region | text; whole numbers where all are |

The cells of a key become float64 numbers: codes of texts, numbers of periods, or the numbers
themselves. `Key.value` gives what a number stands for. A missing cell is a key, None.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from momentmix._typing import Array, Float
from momentmix.cube.periods import NO_DATE, Periods, no_date
from momentmix.errors import InputError, InputTypeError, TableWarning, warn_caller
from momentmix.tables.cells import Cells, cells_of, is_missing
from momentmix.tables.formats.csv_file import CsvFile
from momentmix.tables.formats.dialect import FALSE, TRUE, are_dates
from momentmix.tables.source import FileSource, Source
from momentmix.tables.table_rows import Block, common_kind
from momentmix.wording import did_you_mean

Value = str | int | bool | date | datetime | None
GroupKey = tuple[Value, ...]  # a value of each key

_ASKED = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*")
_FOLDER = re.compile(r"([^=/\\]+)=([^/\\]*)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_MOST_LABELS = 1 << 22  # of a key: more groups than that are names of rows
_LOOKED_AT = 100  # texts of a key that tell whether it holds times
_BOOLS = dict.fromkeys(TRUE, 1.0) | dict.fromkeys(FALSE, 0.0)
_LARGEST = 2.0**53  # from here on, float64 makes one number of several
CHECKSUM = "checksum"
RESERVED = ("n_rows", "summary", CHECKSUM)  # columns of a file of a cube


@dataclass(frozen=True)
class KeySpec:
    """A key as it was asked for: its name, its column, and the unit of a date or an empty text."""

    name: str
    column: str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.unit}({self.column})" if self.unit else self.column


def parse_keys(by: str | Sequence[str]) -> list[KeySpec]:
    """Keys from texts such as "region" and "week(ts)".

    Examples
    --------
    >>> [(key.name, key.column) for key in parse_keys("region, week(ts)")]
    [('region', 'region'), ('week', 'ts')]
    """
    texts = re.split(r",(?![^(]*\))", by) if isinstance(by, str) else list(by)
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputTypeError(
            f"by must be names of columns, or week(column) and its like; got {by!r}."
        )
    asked = [m.groups() if (m := _ASKED.fullmatch(x)) else ("", x.strip()) for x in texts]
    units = [unit for unit, _ in asked]
    found = []
    for (unit, column), text in zip(asked, texts, strict=True):
        if unit and unit not in Periods.UNITS:
            raise InputError(
                f"a key of dates must be {', '.join(f'{u}(column)' for u in Periods.UNITS)}; got "
                f"{text.strip()!a}."
            )
        alone = units.count(unit) + [c for u, c in asked if not u].count(unit) == 1
        name = column if not unit else unit if alone else f"{unit}_{column}"  # week(start, end)
        found.append(KeySpec(name, column, unit))
    names = [key.name for key in found]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"keys must differ; {name!a} is asked for twice.")
        if name in RESERVED:
            raise InputError(
                f"a key cannot be called {name!a}, which the file of a cube needs; rename the "
                "column."
            )
    return found


def find_keys(sources: Sequence[Source], specs: Sequence[KeySpec]) -> list[Key]:
    """The keys, where the sources have them; columns without names go by their numbers."""
    return [_found(sources, spec) for spec in specs]


def columns_read(keys: Sequence[Key], table: int) -> list[int]:
    """Numbers of the columns of a source that hold keys, each once."""
    return list(dict.fromkeys(key.columns[table] for key in keys if key.columns is not None))


def _found(sources: Sequence[Source], spec: KeySpec) -> Key:
    names = [source.column_names or [*map(str, range(source.n_columns))] for source in sources]
    have = [spec.column in own for own in names]
    if all(have):
        return _of_column(sources, spec, [own.index(spec.column) for own in names])
    folders = [_in_path(x.path) if isinstance(x, FileSource) else {} for x in sources]
    texts = [own[spec.column] for own in folders if spec.column in own]
    if len(texts) < len(sources) or any(have):
        lacking = [x for x, own in zip(sources, folders, strict=True) if spec.column not in own]
        raise InputError(
            f"{(lacking or [sources[have.index(True)]])[0].name} has no column {spec.column!a} to "
            f"group by, and no folder {spec.column}=… above it; it has "
            f"{', '.join(map(ascii, names[0][:20]))}. All inputs need the key in the same place."
            f"{did_you_mean(spec.column, names[0])}"
        )
    return _FolderKey(spec, texts)


def _in_path(path: Path) -> dict[str, str]:
    """Values in the names of the folders above a file.

    Examples
    --------
    >>> _in_path(Path("data/region=north%20west/part-0.parquet"))
    {'region': 'north west'}
    """
    matches = (_FOLDER.fullmatch(part) for part in path.parts[:-1])
    return {unquote(match[1]): unquote(match[2]) for match in matches if match is not None}


def _of_column(sources: Sequence[Source], spec: KeySpec, columns: list[int]) -> Key:
    """The key of a column, by what it holds."""
    kind, source = common_kind(sources, columns), sources[0]
    if spec.unit and kind.kind not in ("date", "text", "mixed"):
        held = f"numbers ({kind.type})" if kind.kind == "number" else kind.type
        raise _no_dates(spec, source, held)
    if kind.type == "date and time" and not spec.unit:
        raise _times(spec, source, kind.type)
    if spec.unit or kind.kind == "date":
        return _DateKey(spec, sources, columns)
    is_number = kind.kind == "number"
    if all(isinstance(each, CsvFile) for each in sources) and (is_number or kind.kind == "text"):
        return _CsvKey(spec, sources, columns, is_number)
    if kind.kind == "text":
        return _TextKey(spec, sources, columns)
    if is_number or kind.kind == "bool":
        return _NumberKey(spec, sources, columns, not is_number)
    raise source.problem(columns[0]) or InputError(
        f"{source.name}: a key must hold text, whole numbers, true and false, or dates; "
        f"{spec.column!a} holds {kind.type}."
    )


# -- errors -----------------------------------------------------------------------------------


def _no_key(spec: KeySpec, number: float) -> InputError:
    return InputError(
        f"key {str(spec)!a}: numbers must be whole, and less than 2^53, from which on different "
        f"ones become equal; got {number:.17g}. Round or cut them into classes, or convert the "
        "column to text."
    )


def _no_dates(spec: KeySpec, source: Source, type_: str) -> InputError:
    return InputError(
        f"{source.name}: {spec} needs dates, and {spec.column!a} holds {type_}. Convert it to "
        "dates."
    )


def _times(spec: KeySpec, source: Source, type_: str) -> InputError:
    name = spec.column
    return InputError(
        f"{source.name}: {name!a} holds times ({type_}); nearly every row would be a group. Group "
        f"by day({name}), week({name}) or month({name})."
    )


# -- kinds of keys ----------------------------------------------------------------------------


class Key:
    """A key that is a column: where it is read, and what its numbers stand for.

    `columns` has the number of its column in each source; it is None where folders have the key.
    """

    columns: list[int] | None

    def __init__(self, spec: KeySpec, sources: Sequence[Source], columns: list[int]) -> None:
        self.spec, self.sources, self.columns = spec, sources, columns

    def numbers(self, table: int, block: Block, pieces: Sequence[Any]) -> Float:
        """Numbers of the rows that a block of a source has kept, NaN where a cell is missing.

        `pieces` are the cells of all its rows, as `Block.others` has them.
        """
        found, first_row = [], block.first_row
        for piece in pieces:
            found.append(self._numbers(piece, table, first_row))
            first_row += len(found[-1])
        numbers = np.concatenate(found)
        return numbers if block.kept is None else numbers[block.kept]

    def _numbers(self, piece: Any, table: int, first_row: int) -> Float:
        """Numbers of consecutive cells, the first of which is in this row."""
        raise NotImplementedError

    def value(self, number: int) -> Value:
        """Return the value that a number stands for."""
        return number

    def meanings(self, values: Collection[Value]) -> Mapping[Any, Value]:
        """Map values of a complete pass to other ones that they stand for."""
        return {}

    def _label(self, table: int) -> str:
        assert self.columns is not None
        return self.sources[table].label(self.columns[table])

    def _cells(self, piece: Any, table: int) -> Cells:
        """Cells of a piece; those of CSV without spaces, and missing where they stand for that."""
        source = self.sources[table]
        return cells_of(piece, f"{source.name}, {self._label(table)} holds", source.nulls)

    def _place(self, table: int, row: int) -> str:
        source = self.sources[table]
        return f"{source.name}, {source.where(row)}, {self._label(table)}"


class _FolderKey(Key):
    """A key that the names of folders have; its numbers are those of the sources."""

    columns = None

    def __init__(self, spec: KeySpec, texts: Sequence[str]) -> None:
        self.spec = spec
        whole = all(x == _NO_VALUE or re.fullmatch(r"0|-?[1-9]\d*", x) for x in texts)
        read: Any = self._period if spec.unit else int if whole else str
        self.values: list[Value] = [None if x == _NO_VALUE else read(x) for x in texts]

    def _period(self, text: str) -> Value:
        """The period of a date in the name of a folder."""
        periods = Periods(self.spec.unit)
        number = float(periods.of_texts([text])[0])
        if number == NO_DATE:
            raise no_date(f"folder {self.spec.column}={text}", text)
        return periods.start(int(number))

    def numbers(self, table: int, block: Block, pieces: Sequence[Any]) -> Float:
        return np.full(len(block.features), float(table))

    def value(self, number: int) -> Value:
        return self.values[number]


class _NumberKey(Key):
    """Whole numbers, or true and false."""

    def __init__(
        self, spec: KeySpec, sources: Sequence[Source], columns: list[int], are_bools: bool
    ) -> None:
        super().__init__(spec, sources, columns)
        self._are_bools = are_bools

    def numbers(self, table: int, block: Block, pieces: Sequence[Any]) -> Float:
        numbers = super().numbers(table, block, pieces)
        bad = numbers[(numbers != np.floor(numbers)) | (np.abs(numbers) >= _LARGEST)]
        if not np.isnan(bad).all():
            raise _no_key(self.spec, bad[~np.isnan(bad)][0])
        return numbers

    def _numbers(self, piece: Any, table: int, first_row: int) -> Float:
        cells, source = self._cells(piece, table), self.sources[table]
        if cells.labels is None:
            return cells.values.astype(np.float64)
        assert isinstance(source, CsvFile)
        read: Any = _BOOLS.get if self._are_bools else source.dialect.number
        known = [read(text) for text in cells.labels]
        if None in known:
            code = known.index(None)
            row = first_row + int((cells.values == code).argmax())
            raise InputError(
                f"{self._place(table, row)}: {cells.labels[code][:60]!a} is "
                f"{'neither true nor false' if self._are_bools else 'not a number'}, as other "
                "cells of the key are. Correct the cell, or convert the column."
            )
        return np.array([*known, np.nan])[cells.values]

    def value(self, number: int) -> Value:
        return bool(number) if self._are_bools else number


class _DateKey(Key):
    """Days, or periods of dates and times."""

    def __init__(self, spec: KeySpec, sources: Sequence[Source], columns: list[int]) -> None:
        super().__init__(spec, sources, columns)
        self._periods = Periods(spec.unit or "day")

    def _numbers(self, piece: Any, table: int, first_row: int) -> Float:
        times = _times_of(piece)
        if times is None:
            cells = self._cells(piece, table)
            if cells.labels is None:
                raise _no_dates(self.spec, self.sources[table], "numbers")
            texts = np.array([*cells.labels, None], dtype=object)
            numbers, times = self._periods.of_texts(texts)[cells.values], texts[cells.values]
        else:
            if not self.spec.unit and _have_hours(piece):
                type_ = piece.dtype if times is piece else piece.type
                raise _times(self.spec, self.sources[table], str(type_))
            is_array = times.dtype.kind == "M"
            numbers = self._periods.of_times(times) if is_array else self._periods.of_texts(times)
        bad = np.flatnonzero(numbers == NO_DATE)
        if len(bad):
            raise no_date(self._place(table, first_row + int(bad[0])), str(times[bad[0]]))
        return numbers

    def value(self, number: int) -> Value:
        return self._periods.start(number)


def _times_of(piece: Any) -> Array | None:
    """Dates and times as datetime64 or objects; None for text."""
    from pyarrow import types

    if isinstance(piece, np.ndarray):
        return piece  # of a table in memory
    if isinstance(piece, Cells) or not types.is_temporal(piece.type):
        return None
    # As they are: a cast to another unit may leave the range of 64 bits.
    return np.asarray(piece.to_numpy(zero_copy_only=False))


def _have_hours(piece: Any) -> bool:
    """Whether dates have times of the day."""
    if not isinstance(piece, np.ndarray):
        return not str(piece.type).startswith("date")
    if piece.dtype.kind == "M":
        return np.datetime_data(piece.dtype)[0] not in ("Y", "M", "W", "D")
    return isinstance(next((x for x in piece if not is_missing(x)), None), datetime)


class _TextKey(Key):
    """Texts; times of the day are refused as in columns of dates.

    Labels of a type of categories may be numbers.
    """

    def __init__(self, spec: KeySpec, sources: Sequence[Source], columns: list[int]) -> None:
        super().__init__(spec, sources, columns)
        self._codes: dict[Any, int] = {}
        self._names: list[Any] = []
        self._last: tuple[Any, Float] = (None, np.empty(0))  # labels, and their codes
        self._is_checked = False

    def _numbers(self, piece: Any, table: int, first_row: int) -> Float:
        cells = self._cells(piece, table)
        if cells.labels is not self._last[0]:
            labels = cells.labels or ()
            self._check(labels, table)
            codes = [self._code(label, table) for label in labels]
            self._last = cells.labels, np.array([*codes, np.nan])
        return self._last[1][cells.values]

    def _check(self, labels: Sequence[Any], table: int) -> None:
        """Raise where the first texts are times."""
        source = self.sources[table]
        texts = [x.strip() for x in labels if isinstance(x, str) and x.strip() not in source.nulls]
        if texts and not self._is_checked:
            self._is_checked = True
            if are_dates(texts[:_LOOKED_AT]) and all(":" in x for x in texts[:_LOOKED_AT]):
                raise _times(self.spec, source, "text")

    def _code(self, label: Any, table: int) -> float:
        code = self._codes.get(label)
        if code is None:
            if not isinstance(label, str | int):
                raise _no_key(self.spec, label)
            code = self._codes[label] = len(self._names)
            self._names.append(label)
            if code >= _MOST_LABELS:
                raise InputError(
                    f"{self.sources[table].name}: a key must have at most {_MOST_LABELS:,} values; "
                    f"{self.spec.column!a} has more. It names rows: group by another column."
                )
        return code

    def value(self, number: int) -> Value:
        value: Value = self._names[number]
        return value


class _CsvKey(_TextKey):
    """Fields of CSV that are keys, as they are written; all of them tell what they stand for.

    They are whole numbers if all are written as such, without zeros before them or spaces after
    them; else text. Only spaces before a text are left out, where that makes no two texts equal.
    """

    def __init__(
        self, spec: KeySpec, sources: Sequence[Source], columns: list[int], are_numbers: bool
    ) -> None:
        super().__init__(spec, sources, columns)
        assert isinstance(sources[0], CsvFile)
        self._dialect, self._are_numbers = sources[0].dialect, are_numbers

    def _cells(self, piece: Any, table: int) -> Cells:
        """The fields as they are."""
        return cells_of(piece, "")

    def _code(self, label: Any, table: int) -> float:
        """The code of a text; a number that cannot be a key is an error."""
        if label.strip() in self._dialect.nulls:
            return np.nan
        if self._are_numbers and label not in self._codes:
            number = self._dialect.number(label)
            is_large = number is not None and abs(number) >= _LARGEST
            if number is not None and not (is_large and self._digits(label)):
                if number != number:
                    return np.nan
                if number % 1 or is_large:
                    raise _no_key(self.spec, number)
        return super()._code(label, table)

    def _digits(self, text: str) -> str:
        """The digits and sign of a text, where there is nothing else but spaces."""
        plain = self._dialect.plain(text.strip())
        return plain if re.fullmatch(r"[+-]?\d+", plain, re.ASCII) else ""

    def _number(self, text: str) -> int | None:
        """The whole number that a text is; None for one that must stay text."""
        number, digits = self._dialect.number(text), self._digits(text)
        if number is None or text != text.rstrip() or re.match(r"\s*[+-]?0\d", text):
            return None
        whole = int(digits) if digits else int(number)
        return whole if abs(whole) < 1 << 63 else None  # as many bits as a file has

    def meanings(self, values: Collection[Value]) -> Mapping[Any, Value]:
        """Map the texts of all rows to their values; warn where several are one number."""
        texts = [value for value in values if isinstance(value, str)]
        numbers = {text: self._number(text) for text in sorted(texts)}
        if not self._are_numbers or None in numbers.values():
            bare = {text: text.lstrip() for text in texts}
            return bare if len({*bare.values()}) == len(bare) else {}
        first: dict[int | None, str] = {}
        for text, number in numbers.items():
            other = first.setdefault(number, text)
            if other != text:
                warn_caller(
                    f"key {str(self.spec)!a}: {other!a} and {text!a} are one number, and so one "
                    "group. To keep them apart, pass a data frame that has them as text.",
                    TableWarning,
                )
                break
        return numbers

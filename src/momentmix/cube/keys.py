"""Keys of groups: columns, dates cut to periods, and names of folders (Hive).

| in `by` | key | values |
|---|---|---|
| ``region`` | region | text, whole numbers, true and false, days; CSV: see `CsvKey` |
| ``week(ts)``, also year, quarter, month, day, hour | week | first day of the period, or the hour |
| ``region`` in folders ``region=EU/`` | region | text; whole numbers where all are |

Each different cell becomes a value; rows have the numbers of their values in `Key.values`. A
missing cell is a key, None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from momentmix._typing import Array, Float, Int
from momentmix.cube.periods import NO_DATE, Periods, no_date
from momentmix.errors import FitWarning, InputError, InputTypeError, warn_caller
from momentmix.tables.columns import codes_of, is_labeled, kind_of, numbers_of
from momentmix.tables.formats.csv_file import CsvFile
from momentmix.tables.formats.csv_text import FALSE, TRUE, times_in
from momentmix.tables.source import FileSource, Source, common_kind
from momentmix.tables.table_rows import RowBlock
from momentmix.wording import did_you_mean

Value = str | int | bool | date | datetime | None
GroupKey = tuple[Value, ...]  # a value of each key

_ASKED = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*")
_FOLDER = re.compile(r"([^=/\\]+)=([^/\\]*)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_MOST_LABELS = 1 << 22  # of a key: more groups than that are names of rows
_LOOKED_AT = 100  # texts of a key that decide whether it holds times
_BOOLS = dict.fromkeys(TRUE, 1.0) | dict.fromkeys(FALSE, 0.0)
_LARGEST = 2.0**53  # from here on, float64 makes one number of several
CHECKSUM = "checksum"
RESERVED = ("n_rows", "summary", CHECKSUM)  # columns of a file of a cube


@dataclass(frozen=True)
class KeySpec:
    """A key as it was given: its name, its column, and the unit of a date or an empty text."""

    name: str
    column: str
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.unit}({self.column})" if self.unit else self.column


def parse_keys(by: str | Sequence[str]) -> list[KeySpec]:
    """Keys from texts such as "region" and "week(ts)".

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
            raise InputError(f"keys must differ; {name!a} is given twice.")
        if name in RESERVED:
            raise InputError(
                f"a key cannot be called {name!a}, which the file of a cube needs; rename the "
                "column."
            )
    return found


def columns_read(keys: Sequence[Key], table: int) -> list[int]:
    """Numbers of the columns of a source that hold keys, each once."""
    return list(dict.fromkeys(key.columns[table] for key in keys if key.columns))


def find_key(sources: Sequence[Source], spec: KeySpec) -> Key:
    """Return the key, where the sources have it; columns without names go by their numbers."""
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
    whole = all(x == _NO_VALUE or re.fullmatch(r"0|-?[1-9]\d*", x) for x in texts)
    read: Any = partial(_period, spec) if spec.unit else int if whole else str
    return Key(spec, sources, [], values=[None if x == _NO_VALUE else read(x) for x in texts])


def _in_path(path: Path) -> dict[str, str]:
    """Return values in the names of the folders above a file, as ``region=north%20west``."""
    matches = (_FOLDER.fullmatch(part) for part in path.parts[:-1])
    return {unquote(match[1]): unquote(match[2]) for match in matches if match is not None}


def _period(spec: KeySpec, text: str) -> Value:
    """The period of a date in the name of a folder."""
    periods = Periods(spec.unit)
    number = float(periods.of_texts([text])[0])
    if number == NO_DATE:
        raise no_date(f"folder {spec.column}={text}", text)
    return periods.start(int(number))


def _of_column(sources: Sequence[Source], spec: KeySpec, columns: list[int]) -> Key:
    """The key of a column, by what it holds."""
    kind, source = common_kind(sources, columns), sources[0]
    if spec.unit and kind.kind not in ("date", "text", "mixed"):
        held = f"numbers ({kind.type})" if kind.kind == "number" else kind.type
        raise _no_dates(spec, source, held)
    if kind.type == "date and time" and not spec.unit:
        raise _times(spec, source, kind.type)
    if spec.unit or kind.kind == "date":
        return Key(spec, sources, columns, "date")
    if kind.kind in ("number", "text") and all(isinstance(each, CsvFile) for each in sources):
        return CsvKey(spec, sources, columns, kind.kind)
    if kind.kind in ("text", "number", "bool"):
        return Key(spec, sources, columns, kind.kind)
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
    """A key: its column, and the values of its numbers."""

    def __init__(
        self,
        spec: KeySpec,
        sources: Sequence[Source],
        columns: list[int],  # its number in each source; empty where folders have the key
        kind: str = "text",
        values: Sequence[Value] = (),
    ) -> None:
        self.spec, self.sources, self.columns, self._kind = spec, sources, columns, kind
        self.values: list[Any] = [*values]
        self._nulls = {text for source in sources for text in source.nulls}  # of CSV
        self._known: dict[Any, int] = {}
        self._last: tuple[Any, Int] = (None, np.empty(0, dtype=np.int64))  # labels, their numbers
        self._periods = Periods(spec.unit or "day")
        self._may_be_times = True  # texts, until some were looked at

    def numbers(self, table: int, block: RowBlock, pieces: Iterable[Any]) -> Int:
        """Return numbers of the values of the rows kept; `pieces` are the cells of all rows."""
        if not self.columns:
            return np.full(len(block.features), table)
        found, first_row = [], block.first_row
        for piece in pieces:
            found.append(self._numbers_of(piece, table, first_row))
            first_row += len(found[-1])
        numbers = np.concatenate(found)
        return numbers if block.kept is None else numbers[block.kept]

    def _numbers_of(self, piece: Any, table: int, first_row: int) -> Int:
        """Numbers of consecutive cells, the first of which is in this row."""
        import pyarrow as pa

        labels = None
        if self._kind == "date":
            cells = self._dates(piece, table, first_row)
        else:
            cells, labels = self._cells(piece)
        if labels is None:
            encoded = pa.array(cells.astype(np.float64)).dictionary_encode()
            codes = encoded.indices.to_numpy()
            different = [None if x != x else x for x in encoded.dictionary.to_pylist()]
        else:
            codes, different = cells, [*labels, None]  # a missing cell has the code −1
        if labels is None or labels is not self._last[0]:
            self._check_times(different, table)

            def place(code: int) -> str:
                return self._place(table, first_row + int((codes == code).argmax()))

            own = [
                self._number(None if x is None else self._value(x, table, partial(place, code)))
                for code, x in enumerate(different)
            ]
            self._last = labels, np.array(own)
        return np.asarray(self._last[1][codes])

    def _number(self, value: Any) -> int:
        """The number of a value, a new one where it is met first."""
        number = self._known.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
            if number >= _MOST_LABELS and isinstance(value, str):
                raise InputError(
                    f"{self.sources[0].name}: a key must have at most {_MOST_LABELS:,} values; "
                    f"{self.spec.column!a} has more. It names rows: group by another column."
                )
        return number

    def _value(self, cell: Any, table: int, place: Callable[[], str]) -> Value:
        """The value of a cell: a label, or a number."""
        if self._kind == "date":
            return self._periods.start(int(cell))
        if self._kind == "text":
            if not isinstance(cell, str | int):  # labels of a type of categories may be numbers
                raise _no_key(self.spec, cell)
            return cell
        number = cell
        if isinstance(cell, str):  # of CSV, beside files of other formats
            source: Any = self.sources[table]
            number = (
                _BOOLS.get(cell.strip()) if self._kind == "bool" else source.dialect.number(cell)
            )
            if number is None:
                held = "neither true nor false" if self._kind == "bool" else "not a number"
                raise InputError(
                    f"{place()}: {cell[:60]!a} is {held}, as other cells of the key are. Correct "
                    "the cell, or convert the column."
                )
        if number != number:
            return None
        if number % 1 or abs(number) >= _LARGEST:
            raise _no_key(self.spec, number)
        return bool(number) if self._kind == "bool" else int(number)

    def _check_times(self, labels: Sequence[Any], table: int) -> None:
        """Raise where the first texts are times of the day, as for columns of dates."""
        if self._kind != "text" or not self._may_be_times:
            return
        source = self.sources[table]
        texts = [x.strip() for x in labels if isinstance(x, str) and x.strip() not in source.nulls]
        self._may_be_times = not texts
        first = texts[:_LOOKED_AT]
        if texts and times_in(first) == "dates" and all(":" in x for x in first):
            raise _times(self.spec, source, "text")

    def meanings(self, values: Collection[Value]) -> Mapping[Any, Value]:
        """Map values of a complete pass to the final ones."""
        return {}

    def _cells(self, piece: Any) -> tuple[Array, tuple[Any, ...] | None]:
        """Codes and labels of the cells of a piece, or numbers; None for a missing label."""
        if not is_labeled(piece):
            return numbers_of(piece), None
        codes, labels = codes_of(piece)
        return codes, tuple(None if str(x).strip() in self._nulls else x for x in labels)

    def _place(self, table: int, row: int) -> str:
        source = self.sources[table]
        return f"{source.name}, {source.where(row)}, {source.label(self.columns[table])}"

    def _dates(self, piece: Any, table: int, first_row: int) -> Float:
        """Numbers of periods of dates and times, or of texts."""
        times = _times_of(piece)
        if times is None:
            codes, labels = self._cells(piece)
            if labels is None:
                raise _no_dates(self.spec, self.sources[table], "numbers")
            texts = np.array([*labels, None], dtype=object)
            numbers, times = self._periods.of_texts(texts)[codes], texts[codes]
        else:
            if not self.spec.unit and _have_hours(piece):
                raise _times(self.spec, self.sources[table], str(piece.type))
            is_array = times.dtype.kind == "M"
            numbers = self._periods.of_times(times) if is_array else self._periods.of_texts(times)
        bad = np.flatnonzero(numbers == NO_DATE)
        if len(bad):
            raise no_date(self._place(table, first_row + int(bad[0])), str(times[bad[0]]))
        return numbers


def _times_of(piece: Any) -> Array | None:
    """Dates and times as datetime64 or objects; None for text."""
    if kind_of(piece).kind != "date":
        return None
    # As they are: a cast to another unit may leave the range of 64 bits.
    return np.asarray(piece.to_numpy(zero_copy_only=False))


def _have_hours(piece: Any) -> bool:
    """Whether dates have times of the day."""
    return not str(piece.type).startswith("date")


class CsvKey(Key):
    """Fields of CSV that are keys, as they are written; their values follow from all of them.

    They are whole numbers if all are written as such, without zeros before them or spaces after
    them; else text. Only spaces before a text are left out, where that makes no two texts equal.
    """

    def __init__(
        self, spec: KeySpec, sources: Sequence[Source], columns: list[int], kind: str
    ) -> None:
        super().__init__(spec, sources, columns)
        assert isinstance(sources[0], CsvFile)
        self._dialect, self._are_numbers = sources[0].dialect, kind == "number"

    def _value(self, cell: Any, table: int, place: Callable[[], str]) -> Value:
        """The text of a field; a number that cannot be a key is an error."""
        number = self._dialect.number(cell) if self._are_numbers else None
        if cell.strip() in self._dialect.nulls or number != number:
            return None
        if number is not None:
            is_large = abs(number) >= _LARGEST
            if number % 1 or (is_large and not self._digits(cell)):
                raise _no_key(self.spec, number)
        return str(cell)

    def _digits(self, text: str) -> str:
        """The digits and sign of a text, where there is nothing else but spaces."""
        plain = text.strip()
        return plain if re.fullmatch(r"[+-]?\d+", plain, re.ASCII) else ""

    def _whole(self, text: str) -> int | None:
        """The whole number that a text is; None for one that must stay text."""
        number, digits = self._dialect.number(text), self._digits(text)
        if number is None or text != text.rstrip() or re.match(r"\s*[+-]?0\d", text):
            return None
        whole = int(digits) if digits else int(number)
        return whole if abs(whole) < 1 << 63 else None  # as many bits as a file has

    def meanings(self, values: Collection[Value]) -> Mapping[Any, Value]:
        """Map the texts of all rows to their values; warn where several are one number."""
        texts = [value for value in values if isinstance(value, str)]
        numbers = {text: self._whole(text) for text in sorted(texts)}
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
                    FitWarning,
                )
                break
        return numbers

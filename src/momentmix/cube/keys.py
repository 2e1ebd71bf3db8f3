"""Keys of groups: which columns, dates cut to periods, and names of folders (Hive).

| asked for | key | values |
|---|---|---|
| ``region`` | region | text, whole numbers, true and false, days; CSV: see `_CsvTexts` |
| ``week(ts)``, also year, quarter, month, day, hour | week | first day of the period, or the hour |
| ``region`` in folders ``region=EU/`` | region | text; whole numbers where all are |

Rows are read as float64 numbers, and so are keys: codes of labels, numbers of periods, or the
numbers themselves. `KeyColumn.value` gives what a number stands for. A missing cell is a key, None.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, TableWarning, warn_caller
from momentmix.rows.csv.kinds import are_dates
from momentmix.rows.csv.reader import CsvText
from momentmix.rows.labels import Labels, Periods, refused_label
from momentmix.rows.source import common_kind
from momentmix.rows.table import FileTable, Kind, Table
from momentmix.wording import did_you_mean

Value = str | int | bool | date | datetime | None
GroupKey = tuple[Value, ...]  # a value of each key

_ASKED = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*")
_FOLDER = re.compile(r"([^=/\\]+)=([^/\\]*)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_MOST_LABELS = 1 << 22  # of a key: more groups than that are names of rows
_LOOKED_AT = 100  # texts of a key that tell whether it holds times
_LARGEST = 2.0**53  # from here on, float64 makes one number of several
CHECKSUM = "checksum"
RESERVED = ("n_rows", "summary", CHECKSUM)  # columns of a file of a cube


@dataclass(frozen=True)
class KeySpec:
    """A key as it was asked for.

    Attributes
    ----------
    name : str
        Of the key: that of the column, or of the unit of a date.
    column : str
    unit : str
        Of a date; empty where the values themselves are the key.
    """

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
    found = []
    for text in texts:
        match = _ASKED.fullmatch(text)
        if match is None:
            found.append(KeySpec(text.strip(), text.strip()))
            continue
        unit, column = match.groups()
        if unit not in Periods.UNITS:
            raise InputError(
                f"a key of dates must be {', '.join(f'{u}(column)' for u in Periods.UNITS)}; got "
                f"{text.strip()!a}."
            )
        found.append(KeySpec(unit, column, unit))
    names = [key.name for key in found]
    for k, key in enumerate(found):
        if key.unit and names.count(key.name) > 1:  # week(start), week(end)
            found[k] = KeySpec(f"{key.unit}_{key.column}", key.column, key.unit)
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


@dataclass
class KeyColumn:
    """Where a key is read, and what its numbers stand for.

    Attributes
    ----------
    spec : KeySpec
    columns : list of int, or None
        Number of the column in each table; None where folders have the key.
    labels : Labels or None
        Of text and dates.
    folders : list of str, int or None
        Value of each table, where folders have the key.
    """

    spec: KeySpec
    columns: list[int] | None
    labels: Labels | None = None
    folders: list[Value] = field(default_factory=list)
    are_bools: bool = False

    def value(self, number: float | None) -> Value:
        """What a number stands for."""
        if number is None:
            return None
        if self.columns is None:
            return self.folders[int(number)]
        if isinstance(self.labels, Periods):
            return self.labels.start(int(number))
        if self.labels is not None:
            return bool(number) if self.labels.are_bools else self.labels.names[int(number)]
        return bool(number) if self.are_bools else int(number)

    def check(self, numbers: Float) -> None:
        """Raise where numbers are no keys: not whole, or too large to tell apart."""
        if self.labels is not None or self.columns is None:
            return
        seen = numbers[~np.isnan(numbers)]
        bad = seen[(seen != np.floor(seen)) | (np.abs(seen) >= _LARGEST)]
        if len(bad):
            raise _no_key(self.spec, bad[0])

    def meanings(self, values: Collection[Value]) -> Mapping[Any, Value]:
        """What values of a complete pass stand for, where that is not themselves."""
        if not isinstance(self.labels, _CsvTexts):
            return {}
        return self.labels.meanings([value for value in values if isinstance(value, str)])


def _no_key(spec: KeySpec, number: float) -> InputError:
    return InputError(
        f"key {str(spec)!a}: numbers must be whole, and less than 2^53, from which on different "
        f"ones become equal; got {number:.17g}. Round or cut them into classes, or convert the "
        "column to text."
    )


def key_columns(tables: Sequence[Table], specs: Sequence[KeySpec]) -> list[KeyColumn]:
    """Where the tables have the keys."""
    return [_key_column(tables, spec) for spec in specs]


def _key_column(tables: Sequence[Table], spec: KeySpec) -> KeyColumn:
    have = [spec.column in (table.column_names or ()) for table in tables]
    if all(have):
        columns = [(table.column_names or ()).index(spec.column) for table in tables]
        kind = common_kind(tables, columns)
        labels = _labels(spec, kind, tables)
        are_bools = kind.kind == "bool" and labels is None
        return KeyColumn(spec, columns, labels, are_bools=are_bools)
    texts = [folder_values(table).get(spec.column) for table in tables]
    lacking = [t.name for t, text, own in zip(tables, texts, have, strict=True) if text is None]
    if lacking or any(have):
        names = tables[0].column_names
        listed = (
            "it has no names" if names is None else f"it has {', '.join(map(ascii, names[:20]))}"
        )
        raise InputError(
            f"{(lacking or [tables[have.index(True)].name])[0]} has no column {spec.column!a} to "
            f"group by, and no folder {spec.column}=… above it; {listed}. All inputs need the key "
            f"in the same place.{did_you_mean(spec.column, names or ())}"
        )
    known = [text for text in texts if text is not None]
    if spec.unit:
        periods = Periods(spec.unit)
        values: list[Value] = [
            None if x == _NO_VALUE else _of_folder(spec, periods, x) for x in known
        ]
        return KeyColumn(spec, None, folders=values)
    whole = all(x == _NO_VALUE or re.fullmatch(r"0|-?[1-9]\d*", x) for x in known)
    values = [None if x == _NO_VALUE else int(x) if whole else x for x in known]
    return KeyColumn(spec, None, folders=values)


def _of_folder(spec: KeySpec, periods: Periods, text: str) -> Value:
    """The period of a date in the name of a folder."""
    code = float(periods.codes([text])[0])
    if code == periods.refused:
        raise refused_label(f"folder {spec.column}={text}", text, periods)
    return periods.start(int(code))


def _labels(spec: KeySpec, kind: Kind, tables: Sequence[Table]) -> Labels | None:
    """How the cells of a column become numbers."""
    table = tables[0]
    if spec.unit:
        if kind.kind == "number":
            raise InputError(
                f"{table.name}: {spec} needs dates, and {spec.column!a} holds numbers "
                f"({kind.type}). Convert it to dates."
            )
        return Periods(spec.unit)
    if kind.kind == "date":
        if kind.type.startswith(("timestamp", "datetime64", "time", "date and time")):
            raise _times(spec, table, kind.type)
        return Periods("day")
    if kind.is_text and kind.kind == "bool":
        return Labels((False, True))
    are_csv = all(isinstance(other, CsvText) for other in tables)
    if isinstance(table, CsvText) and are_csv and kind.kind in ("number", "text"):
        return _CsvTexts(spec, table, kind.kind == "number")
    if kind.is_text:
        return _KeyLabels(spec, table)
    if kind.kind in ("number", "bool"):
        return None
    raise InputError(
        f"{table.name}: a key must hold text, whole numbers, true and false, or dates; "
        f"{spec.column!a} holds {kind.type}."
    )


class _KeyLabels(Labels):
    """Texts that are keys; times of the day are refused as in columns of dates."""

    def __init__(self, spec: KeySpec, table: Table) -> None:
        super().__init__(most=_MOST_LABELS)
        self._times = _times(spec, table, "text")
        self._is_checked = False

    def codes(self, texts: Iterable[str | None]) -> Float:
        """Codes of texts; the first ones are looked at."""
        texts = list(texts)
        if not self._is_checked:
            first = [text.strip() for text in texts if text is not None][:_LOOKED_AT]
            if first and are_dates(first) and all(":" in text for text in first):
                raise self._times
            self._is_checked = bool(first)
        return super().codes(texts)


class _CsvTexts(_KeyLabels):
    """Fields of CSV that are keys, as they are written; all of them tell what they stand for.

    They are whole numbers if all are written as such, without zeros before them or spaces after
    them; else text. Only spaces before a text are left out, where that makes no two texts equal.
    """

    def __init__(self, spec: KeySpec, table: CsvText, are_numbers: bool) -> None:
        super().__init__(spec, table)
        self._spec, self._dialect, self._are_numbers = spec, table.dialect, are_numbers

    def cell(self, field: str) -> str:
        """The field as it is."""
        return field

    def codes(self, texts: Iterable[str | None]) -> Float:
        """Codes of texts; numbers that cannot be keys are an error."""
        texts = list(texts)
        new = {*texts} - {None, *self._codes} if self._are_numbers else ()
        for text in map(str, new):
            number = self._dialect.number(text)
            if number is None or (abs(number) >= _LARGEST and self._digits(text)):
                continue
            if number != number:
                texts = [None if other == text else other for other in texts]
            elif number % 1 or abs(number) >= _LARGEST:
                raise _no_key(self._spec, number)
        return super().codes(texts)

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

    def meanings(self, texts: Collection[str]) -> Mapping[str, Value]:
        """What the texts of all rows stand for; a warning where several are one number."""
        numbers = {text: self._number(text) for text in sorted(texts)}
        if not self._are_numbers or None in numbers.values():
            bare = {text: text.lstrip() for text in texts}
            return bare if len({*bare.values()}) == len(bare) else {}
        first: dict[int | None, str] = {}
        for text, number in numbers.items():
            other = first.setdefault(number, text)
            if other != text:
                warn_caller(
                    f"key {str(self._spec)!a}: {other!a} and {text!a} are one number, and so one "
                    "group. To keep them apart, pass a data frame that has them as text.",
                    TableWarning,
                )
                break
        return numbers


def _times(spec: KeySpec, table: Table, type_: str) -> InputError:
    """The error for a key of times."""
    name = spec.column
    return InputError(
        f"{table.name}: {name!a} holds times ({type_}); nearly every row would be a group. Group "
        f"by day({name}), week({name}) or month({name})."
    )


def folder_values(table: Table) -> dict[str, str]:
    """Values in the names of the folders above a file: ``region=EU/week=31/part.parquet``.

    Examples
    --------
    >>> _in_path(Path("data/region=north%20west/part-0.parquet"))
    {'region': 'north west'}
    """
    return _in_path(table.path) if isinstance(table, FileTable) else {}


def _in_path(path: Path) -> dict[str, str]:
    matches = (_FOLDER.fullmatch(part) for part in path.parts[:-1])
    return {unquote(match[1]): unquote(match[2]) for match in matches if match is not None}

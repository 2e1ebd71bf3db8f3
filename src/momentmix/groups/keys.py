"""Keys of groups as Arrow arrays: columns, periods of dates, and names of folders (Hive).

| in `by` | key | values |
|---|---|---|
| ``region`` | region | text, whole numbers, true and false, days; text in CSV |
| ``week(ts)``, also year, quarter, month, day, hour | week | first day of the period, or the hour |
| ``region`` of folders ``region=EU/`` | region | text; whole numbers where all are |

A missing cell is a value of a key, None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import unquote

import numpy as np

from momentmix.errors import InputError, InputTypeError
from momentmix.tables.columns import is_text_type
from momentmix.tables.source import FileSource, Source
from momentmix.tables.table_rows import RowBlock
from momentmix.wording import did_you_mean

Value = str | int | bool | date | datetime | None
GroupKey = tuple[Value, ...]  # a value of each key

UNITS = ("year", "quarter", "month", "week", "day", "hour")
RESERVED = ("n_rows", "summary", "checksum")  # columns of the file of a cube
_PERIOD = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*")
_FOLDER = re.compile(r"([^=/\\]+)=([^/\\]*)")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_CALENDAR = -62_135_596_800, 253_402_300_800  # seconds since 1970 of the years 1 to 9999
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Key:
    """A key as it was given: its name, its column, and the unit of a date or an empty text."""

    name: str
    column: str
    unit: str = ""


def parse_keys(by: str | Sequence[str]) -> list[Key]:
    """Keys from texts such as "region" and "week(ts)".

    >>> [(key.name, key.column) for key in parse_keys("region, week(ts)")]
    [('region', 'region'), ('week', 'ts')]
    """
    texts = re.split(r",(?![^(]*\))", by) if isinstance(by, str) else list(by)
    if not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        raise InputTypeError(
            f"by must be names of columns, or week(column) and its like; got {by!r}."
        )
    pairs = [m.groups() if (m := _PERIOD.fullmatch(x)) else ("", x.strip()) for x in texts]
    simple = [unit or column for unit, column in pairs]
    keys = []
    for unit, column in pairs:
        if unit and unit not in UNITS:
            raise InputError(
                f"a key of dates must be {', '.join(f'{u}(column)' for u in UNITS)}; got "
                f"{unit}({column})."
            )
        name = unit or column
        if unit and simple.count(unit) > 1:
            name = f"{unit}_{column}"  # week(start), week(end)
        keys.append(Key(name, column, unit))
    names = [key.name for key in keys]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"keys must differ; {name!a} is given twice.")
        if name in RESERVED:
            raise InputError(
                f"a key cannot be called {name!a}, which the file of a cube needs; rename the "
                "column."
            )
    return keys


def natural_order(value: Value) -> tuple[Any, ...]:
    """Sort key of a value: numbers within texts count as numbers, missing values come last.

    >>> sorted(["b", "a10", None, "a9"], key=natural_order)
    ['a9', 'a10', 'b', None]
    """
    if value is None:
        return (1,)
    if not isinstance(value, str):
        return 0, value
    parts = re.split(r"([0-9]+)", value)
    return 0, [int(x) if i % 2 else x for i, x in enumerate(parts)], value


# -- values ------------------------------------------------------------------------------------


class KeyColumn:
    """A key in the sources of a table: the number of its column in each, or texts of folders."""

    def __init__(
        self,
        key: Key,
        sources: Sequence[Source],
        numbers: Sequence[int] = (),
        folders: Sequence[Value] = (),
    ) -> None:
        self.key, self.sources, self.numbers, self.folders = key, sources, numbers, folders
        self.type: Any = None  # of the values; None as long as all are missing

    def values(self, table: int, block: RowBlock, cells: Mapping[int, Any]) -> Any:
        """Values of the kept rows of a block; `cells` are those of all its rows by column."""
        import pyarrow as pa

        source, array = self.sources[table], pa.array(self.folders[table : table + 1])
        if self.numbers:
            array = _arrow(cells[self.numbers[table]], source.nulls)

        def place(row: int | None = None) -> str:
            if not self.numbers:
                return f"{source.name}, folder {self.key.column}"
            where = [] if row is None else [source.where(block.first_row + row)]
            return ", ".join([source.name, *where, source.label(self.numbers[table])])

        if array.null_count == len(array):
            array = pa.nulls(len(array), self.type)
        else:
            array = (
                _periods(array, self.key.unit, place) if self.key.unit else plain(array, place())
            )
            self.type = self.type or array.type
        if array.type != (self.type or array.type):
            raise InputError(
                f"key {self.key.column!a} is {array.type} in {source.name}, and {self.type} "
                "before it; the same group would have two keys. Convert one of the columns."
            )
        if not self.numbers:
            return array.take(pa.array(np.zeros(len(block.features), dtype=np.int64)))
        return array if block.kept is None else array.filter(pa.array(block.kept))


def _periods(array: Any, unit: str, place: Callable[..., str]) -> Any:
    """First days of the periods of dates, times (of UTC) or texts (ISO 8601)."""
    import pyarrow as pa
    from pyarrow import compute

    def check(is_wrong: Any, text: str = "a time") -> None:
        row = compute.index(is_wrong, True).as_py()
        if row >= 0:
            text = ascii(array[row].as_py()[:60]) if is_text_type(array.type) else text
            raise InputError(
                f"{place(row)}: {text} is no date; dates must be written as 2026-01-31 or "
                "2026-01-31T08:15 (ISO 8601), of the years 1 to 9999 in UTC. Correct the cell, or "
                "convert the column."
            )

    times = array
    if is_text_type(array.type):
        coded = array.dictionary_encode()
        instants = [_instant(text) for text in coded.dictionary.to_pylist()]
        check(pa.array([x is None for x in instants], pa.bool_()).take(coded.indices))
        times = pa.array(instants, pa.timestamp("us")).take(coded.indices)
    elif pa.types.is_date(array.type):
        times = array.cast(pa.timestamp("ms"))
    elif not pa.types.is_timestamp(array.type):
        raise InputError(f"{place()}: {unit}() needs dates, and the column holds {array.type}.")
    precision = times.type.unit
    times = times.cast(pa.timestamp(precision))  # of UTC
    low, high = (end * _TICKS[precision] for end in _CALENDAR)
    if precision != "ns":  # whose range is less than the calendar
        ticks = times.cast(pa.int64())
        check(compute.or_(compute.less(ticks, low), compute.greater_equal(ticks, high)))
    times = compute.floor_temporal(times, unit=unit)
    return times.cast(pa.timestamp("us") if unit == "hour" else pa.date32())


def _instant(text: str) -> datetime | None:
    """A time of UTC without its zone; None for a text that is no date."""
    try:
        time = datetime.fromisoformat(text.strip())
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _arrow(column: Any, nulls: Sequence[str]) -> Any:
    """Cells of a source as an Arrow array without a dictionary; `nulls` are texts of none."""
    import pyarrow as pa
    from pyarrow import compute

    if isinstance(column, np.ndarray):
        column = pa.array(column, from_pandas=True)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if nulls and is_text_type(column.type):
        is_null = compute.is_in(compute.utf8_trim_whitespace(column), pa.array(nulls, column.type))
        column = compute.if_else(is_null, None, column)
    return column


def plain(array: Any, place: str) -> Any:
    """The values of a key as text, whole numbers, true and false, or days."""
    import pyarrow as pa
    from pyarrow import types

    kind, fault = array.type, ""
    if is_text_type(kind):
        return array.cast(pa.string())
    if types.is_boolean(kind) or types.is_null(kind):
        return array
    if types.is_date(kind):
        return array.cast(pa.date32())
    if types.is_timestamp(kind):
        fault = "nearly every row would be a group: take day(column), week(column) or month(column)"
    elif types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        try:
            return array.cast(pa.int64())
        except pa.ArrowInvalid as error:
            fault = f"{error}; round them or cut them into classes"
    raise InputError(
        f"{place}: a key must hold text, whole numbers of 64 bits, true and false, or days; it "
        f"holds {kind}{fault and ': '}{fault}."
    )


# -- columns and folders -----------------------------------------------------------------------


def find_key(sources: Sequence[Source], key: Key) -> KeyColumn:
    """The key, where the sources have it; columns without names go by their numbers."""
    names = [source.column_names or [*map(str, range(source.n_columns))] for source in sources]
    have = [key.column in each for each in names]
    if all(have):
        return KeyColumn(key, sources, [each.index(key.column) for each in names])
    paths = [x.path.parts[:-1] if isinstance(x, FileSource) else () for x in sources]
    folders = [
        {unquote(m[1]): unquote(m[2]) for m in map(_FOLDER.fullmatch, x) if m} for x in paths
    ]
    texts = [each[key.column] for each in folders if key.column in each]
    if len(texts) < len(sources) or any(have):
        lacking = [x for x, each in zip(sources, folders, strict=True) if key.column not in each]
        raise InputError(
            f"{(lacking or [sources[have.index(True)]])[0].name} has no column {key.column!a} to "
            f"group by, and no folder {key.column}=… above it; it has "
            f"{', '.join(map(ascii, names[0][:20]))}. All inputs need the key in the same place."
            f"{did_you_mean(key.column, names[0])}"
        )
    are_whole = not key.unit
    are_whole &= all(x == _NO_VALUE or re.fullmatch(r"0|-?[1-9]\d*", x) for x in texts)
    values = [None if x == _NO_VALUE else int(x) if are_whole else x for x in texts]
    return KeyColumn(key, sources, folders=values)


def columns_read(keys: Sequence[KeyColumn], table: int) -> list[int]:
    """Numbers of the columns of a source that hold keys, each once."""
    return list(dict.fromkeys(key.numbers[table] for key in keys if key.numbers))

"""Keys of groups as Arrow arrays: columns as they are, or periods of dates.

A missing cell is a value of a key, None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from momentmix.errors import InputError, InputTypeError
from momentmix.tables.columns import is_text_type
from momentmix.tables.names import number_of
from momentmix.tables.source import Source

Value = str | int | bool | date | datetime | None
GroupKey = tuple[Value, ...]  # a value of each key

UNITS = ("year", "quarter", "month", "week", "day", "hour")
RESERVED = ("n_rows", "summary", "checksum")  # columns of the file of a cube
_PERIOD = re.compile(r"\s*(\w+)\s*\(\s*(.+?)\s*\)\s*")


@dataclass(frozen=True)
class Key:
    """A key as it was given: its name, its column, and the unit of a date or an empty text."""

    name: str
    column: str
    unit: str = ""

    def number(self, source: Source) -> int:
        """Number of its column, which is its name where columns have none."""
        names = source.column_names or [*map(str, range(source.n_columns))]
        return number_of(self.column, names, 0, f"{source.name} has no column to group by named")

    def values(self, cells: Any, source: Source, first_row: int) -> Any:
        """Values of cells of its column in consecutive rows, as an Arrow array."""
        number = self.number(source)
        if source.nulls:  # CSV, whose cells are text as it is written
            from pyarrow import array, compute, nulls

            cells = cells.dictionary_decode()
            is_null = compute.is_in(cells, array(source.nulls))
            cells = compute.if_else(is_null, nulls(1, cells.type)[0], cells)
        if not self.unit:
            return key_array(cells, f"{source.name}, {source.label(number)}", with_times=False)
        return _periods(cells, self.unit, lambda row: source.place(first_row + row, number))


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
    units = [unit for unit, _ in pairs]
    keys = []
    for unit, column in pairs:
        if unit and unit not in UNITS:
            raise InputError(
                f"a key of dates must be {'(column), '.join(UNITS)}(column); got {unit}({column})."
            )
        several = unit and units.count(unit) > 1  # week(start), week(end)
        keys.append(Key(f"{unit}_{column}" if several else unit or column, column, unit))
    check_names([key.name for key in keys])
    return keys


def check_names(names: Sequence[str]) -> None:
    """Raise unless these can be names of keys."""
    if len({*names, *RESERVED}) < len(names) + len(RESERVED):
        raise InputError(
            f"keys must have different names, and none of {', '.join(RESERVED)}, which the file of "
            f"a cube needs; got {', '.join(map(ascii, names))}. Rename columns."
        )


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


def key_array(values: Any, label: str, *, with_times: bool = True) -> Any:
    """Values of a key as text, whole numbers, true and false, days, or times."""
    import pyarrow as pa
    from pyarrow import types

    fault = ""
    try:
        array = _arrow(values)
        kind = array.type
        if types.is_boolean(kind) or types.is_null(kind):
            return array
        if is_text_type(kind):
            return array.cast(pa.string())
        if types.is_date(kind):
            return array.cast(pa.date32())
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
            fault = "round them, or cut them into classes"
            return array.cast(pa.int64())
        if types.is_timestamp(kind) and with_times:
            return array.cast(pa.timestamp("us"))
        reason = f"it holds {kind}"
        if types.is_timestamp(kind):
            fault = "nearly every row is a group: take day(column), week(column) or month(column)"
    except (pa.ArrowException, TypeError, UnicodeError, OverflowError) as error:
        reason = str(error)[:200]
    raise InputError(
        f"{label}: a key must hold text, whole numbers of 64 bits, true and false, or days, all of "
        f"one kind; {reason}{fault and ': '}{fault}."
    )


def _arrow(values: Any) -> Any:
    """Values as an Arrow array without a dictionary; those of a list have one type."""
    import pyarrow as pa

    if isinstance(values, list):
        values = [x.item() if isinstance(x, np.generic) else x for x in values]
        types = {type(x).__name__ for x in values if x is not None}
        if len(types) > 1:
            raise TypeError(f"it holds {' and '.join(sorted(types))}")
    array = values if isinstance(values, pa.Array) else pa.array(values, from_pandas=True)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _periods(cells: Any, unit: str, place: Callable[[int], str]) -> Any:
    """First days of the periods of dates, times (of UTC) or texts (ISO 8601)."""
    import pyarrow as pa
    from pyarrow import compute

    times, type_ = _arrow(cells), pa.timestamp("us") if unit == "hour" else pa.date32()
    if times.null_count == len(times):
        return pa.nulls(len(times), type_)

    def check(is_wrong: Any) -> None:
        row = compute.index(is_wrong, True).as_py()
        if row >= 0:
            text = ascii(coded.dictionary[coded.indices[row].as_py()].as_py()[:60]) if coded else ""
            raise InputError(
                f"{place(row)}: {text or 'a time'} is no date; dates must be written as 2026-01-31 "
                "or 2026-01-31T08:15 (ISO 8601), of the years 1 to 9999 in UTC. Correct the cell, "
                "or convert the column."
            )

    coded = times.dictionary_encode() if is_text_type(times.type) else None
    if coded:
        instants = [None if x is None else _instant(x) for x in coded.dictionary.to_pylist()]
        check(pa.array([x is None for x in instants]).take(coded.indices))
        times = pa.array(instants, pa.timestamp("us")).take(coded.indices)
    elif pa.types.is_date(times.type):
        times = times.cast(pa.timestamp("ms"))
    elif not pa.types.is_timestamp(times.type):
        raise InputError(f"{place(0)}: {unit}() needs dates, and the column holds {times.type}.")
    times = times.cast(pa.timestamp(times.type.unit))  # of UTC
    if times.type.unit != "ns":  # whose range is less than the calendar
        first, last = (pa.scalar(x, times.type) for x in (datetime.min, datetime.max))
        check(compute.or_(compute.less(times, first), compute.greater(times, last)))
    return compute.floor_temporal(times, unit=unit).cast(type_)


def _instant(text: str) -> datetime | None:
    """A time of UTC without its zone; None for a text that is no date."""
    try:
        time = datetime.fromisoformat(text.strip())
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None

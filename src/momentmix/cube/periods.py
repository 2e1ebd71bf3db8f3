"""Dates and times → periods of the calendar, as numbers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from momentmix._typing import Array, Float
from momentmix.errors import InputError
from momentmix.tables.columns import is_missing

NO_DATE = -np.inf  # the number of what is no date: days before 1970 have negative ones
_FIRST_DAY, _LAST_DAY = (day.toordinal() - 719_163 for day in (date.min, date.max))  # since 1970
_UNREADABLE = datetime(1, 1, 1)  # this object, not the date
# Unit of NumPy, how many make a period, and how many there were of the period that began last
# before 1970: that year began on a Thursday.
_STEPS = {
    "year": ("Y", 1, 0), "quarter": ("M", 3, 0), "month": ("M", 1, 0), "week": ("D", 7, 3),
    "day": ("D", 1, 0), "hour": ("h", 1, 0),
}  # fmt: skip


class Periods:
    """Dates, times (of UTC) and texts (ISO 8601) as numbers of periods since 1970."""

    UNITS = tuple(_STEPS)

    def __init__(self, unit: str) -> None:
        self._step, self._count, self._offset = _STEPS[unit]

    def of_texts(self, texts: Iterable[Any]) -> Float:
        """Periods of texts: NaN for a missing one, `NO_DATE` for one that is no date."""
        times = [_instant(text) for text in texts]
        known = [None if time is _UNREADABLE else time for time in times]
        periods = self.of_times(np.array(known, dtype="M8[us]"))
        periods[[time is _UNREADABLE for time in times]] = NO_DATE
        return periods

    def of_times(self, times: Array) -> Float:
        """Periods of an array of datetime64: NaN for NaT, `NO_DATE` beyond years 1 to 9999."""
        days = times.astype("M8[D]").astype(np.int64)
        steps = times.astype(f"M8[{self._step}]").astype(np.int64)
        counts = (steps + self._offset) // self._count
        periods = np.where((days < _FIRST_DAY) | (days > _LAST_DAY), NO_DATE, counts)
        return np.where(np.isnat(times), np.nan, periods)

    def start(self, number: int) -> date | datetime:
        """The first day of a period; the time of an hour."""
        start = np.datetime64(number * self._count - self._offset, self._step)  # type: ignore[call-overload]
        found: date | datetime = start.item()
        return found


def _instant(text: Any) -> datetime | None:
    """A time of UTC without its zone; `_UNREADABLE` for a text that is no date."""
    if is_missing(text):
        return None
    try:
        time = datetime.fromisoformat(str(text).strip())
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # no date, or one that leaves the years 1 to 9999 in UTC
        return _UNREADABLE


def no_date(place: str, text: str) -> InputError:
    """The error for a cell that is no date."""
    return InputError(
        f"{place}: {text[:60]!a} is no date; dates must be written as 2026-01-31 or "
        "2026-01-31T08:15 (ISO 8601), of the years 1 to 9999 in UTC. Correct the cell, or convert "
        "the column."
    )

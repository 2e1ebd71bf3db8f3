"""Text columns of files as numbers: the codes of their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from momentmix._typing import Array, Float
from momentmix.errors import InputError

MOST_LABELS = 1000  # of a text column: more are names of rows, not categories
NOT_A_LEVEL = -1.0  # the code of a text that is none of the levels
_NO_DATE = -np.inf  # that of a text that is no date: days before 1970 have negative numbers
_FIRST_DAY, _LAST_DAY = (day.toordinal() - 719_163 for day in (date.min, date.max))  # since 1970
_BOOLS = {"false": 0, "False": 0, "FALSE": 0, "true": 1, "True": 1, "TRUE": 1}


class Labels:
    """The labels of a text column, which are numbered from 0.

    Labels are numbered as they are met, or they are the levels of a schema, and no others.

    Parameters
    ----------
    levels : sequence of str or bool, optional
        The labels, in the order of their codes.
    other : str, optional
        The level that stands for all texts that are no level.
    unseen : {"error", "missing"}
        What a text that is no level is: `NOT_A_LEVEL`, which readers refuse, or the number of
        levels.
    most : int
        Number of labels that are too many.

    Examples
    --------
    >>> labels = Labels()
    >>> labels.codes(["gold", "basic", None, "gold"]).tolist()
    [0.0, 1.0, nan, 0.0]
    >>> labels.names
    ('gold', 'basic')
    >>> Labels(["basic", "gold"]).codes(["gold", "silver"]).tolist()
    [1.0, -1.0]
    """

    def __init__(
        self,
        levels: Sequence[str | bool] | None = None,
        other: str | None = None,
        unseen: str = "error",
        most: int = MOST_LABELS,
    ) -> None:
        self.most = most
        self.are_bools = levels is not None and all(isinstance(level, bool) for level in levels)
        self.is_fixed = levels is not None
        self._codes: dict[str, int] = {}
        self._names: tuple[str, ...] = ()
        if self.are_bools:
            self._codes = dict(_BOOLS)
        elif levels is not None:
            self._codes = {str(level): i for i, level in enumerate(levels)}
        # A code that no level has: what encodes the rows leaves the cell out of the density.
        self._unknown = NOT_A_LEVEL if unseen == "error" else float(len(levels or ()))
        if other is not None:
            self._unknown = float(self._codes[other])

    @property
    def refused(self) -> float:
        """The code of a text that readers refuse."""
        return NOT_A_LEVEL

    @property
    def names(self) -> tuple[str, ...]:
        """The labels in the order of their codes."""
        if len(self._names) < len(self._codes):
            self._names = tuple(self._codes)
        return self._names

    def cell(self, field: str) -> str:
        """The text that a field of CSV holds."""
        return field.strip()

    def codes(self, texts: Iterable[str | None]) -> Float:
        """Codes of texts: NaN for None, `NOT_A_LEVEL` for one that is no level."""
        return np.array([self._code(text) for text in texts], dtype=np.float64)

    def _code(self, text: str | None) -> float:
        if text is None:
            return np.nan
        code = self._codes.get(text)
        if code is None:
            if self.is_fixed:
                return self._unknown
            code = len(self._codes)
            if code >= self.most:
                raise LabelsError
            self._codes[text] = code
        return code


class Periods(Labels):
    """Dates and times as numbers of periods since 1970; text in the format of ISO 8601.

    Times with a zone are those of UTC. Weeks begin on Monday.

    Parameters
    ----------
    unit : {"year", "quarter", "month", "week", "day", "hour"}

    Examples
    --------
    >>> weeks = Periods("week")
    >>> weeks.codes(["1970-01-05", "1970-01-11T23:59:59", None]).tolist()
    [1.0, 1.0, nan]
    >>> weeks.start(1)
    datetime.date(1970, 1, 5)
    """

    UNITS = ("year", "quarter", "month", "week", "day", "hour")

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    @property
    def refused(self) -> float:
        """The code of a text that is no date."""
        return _NO_DATE

    def codes(self, texts: Iterable[Any]) -> Float:
        """Periods of texts: NaN for None, `refused` for one that is no date."""
        times = [_instant(text) for text in texts]
        known = [None if time is _UNREADABLE else time for time in times]
        codes = self.of_times(np.array(known, dtype="M8[us]"))
        codes[[time is _UNREADABLE for time in times]] = _NO_DATE
        return codes

    def of_times(self, times: Array) -> Float:
        """Periods of an array of datetime64: NaN for NaT, `refused` beyond years 1 to 9999."""
        times = np.asarray(times)
        days = times.astype("M8[D]").astype(np.int64)
        step = {"year": "Y", "quarter": "M", "month": "M", "hour": "h"}.get(self.unit, "D")
        counts = times.astype(f"M8[{step}]").astype(np.int64)
        if self.unit == "week":
            counts = (counts + 3) // 7  # 1970 began on a Thursday
        elif self.unit == "quarter":
            counts = counts // 3
        periods = np.where((days < _FIRST_DAY) | (days > _LAST_DAY), _NO_DATE, counts)
        return np.where(np.isnat(times), np.nan, periods)

    def of_hours(self, hours: Float) -> Float:
        """Periods of numbers of hours since 1970; NaN for NaN."""
        times = np.full(len(hours), "NaT", dtype="M8[h]")
        seen = ~np.isnan(hours)
        times[seen] = hours[seen].astype(np.int64).astype("M8[h]")
        return self.of_times(times)

    def start(self, number: int) -> date | datetime:
        """The first day of a period; the time of an hour."""
        if self.unit == "hour":
            return datetime(1970, 1, 1) + timedelta(hours=number)
        if self.unit in ("day", "week"):
            days = number if self.unit == "day" else 7 * number - 3
            return date(1970, 1, 1) + timedelta(days=days)
        months = number * {"year": 12, "quarter": 3, "month": 1}[self.unit]
        return date(1970 + months // 12, months % 12 + 1, 1)


_UNREADABLE = datetime(1, 1, 1)  # this object, not the date


def _instant(text: Any) -> datetime | None:
    """A time of UTC without its zone; `_UNREADABLE` for a text that is no date."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(str(text).strip())
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # no date, or one that leaves the years 1 to 9999 in UTC
        return _UNREADABLE


class LabelsError(InputError):
    """A column has more texts than a category may have; the reader says which column."""


NO_LABELS: Mapping[int, Labels] = {}


def first_unknown(codes: Array, labels: Labels) -> int | None:
    """The first row whose text is refused, as one that is no level; None where there is none."""
    unknown = codes == labels.refused
    return int(unknown.argmax()) if unknown.any() else None


def refused_label(place: str, text: str, labels: Labels) -> InputError:
    """The error for a text that is no level of its column, or no date."""
    if isinstance(labels, Periods):
        return InputError(
            f"{place}: {text[:60]!a} is no date; dates must be written as 2026-01-31 or "
            "2026-01-31T08:15 (ISO 8601), of the years 1 to 9999 in UTC. Correct the cell, or "
            "convert the column."
        )
    known = ("false", "true") if labels.are_bools else labels.names
    listed = ", ".join(map(ascii, known[:8])) + (", …" if len(known) > 8 else "")
    return InputError(
        f"{place}: {text[:60]!a} is no level of the column, which has {listed}. Correct the cell, "
        "add the level to the schema, or give the schema a level for all others. The commands "
        "predict and score leave such cells out with --unseen missing."
    )


def too_many_labels(place: str) -> InputError:
    """The error for a text column of more labels than a category may have."""
    return InputError(
        f"{place} has more than {MOST_LABELS} different texts: it names rows, or needs fewer "
        "levels. Leave it out with exclude= (--exclude), or join levels in a schema "
        "(momentmix schema --rare)."
    )

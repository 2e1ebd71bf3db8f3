"""What rows show of single columns: few values, one repeated value, a grid, row numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from momentmix._typing import Float, Int

_FEW_VALUES = 20  # different values of a column that counts or codes something
_ROWS_A_VALUE = 10  # at least, of a column with few values: else there are few rows, not few values
_ATOM_SHARE = 0.02  # of the rows, that one value holds
_ATOM_ROWS = 10  # that one value holds at least
_ATOM_RATIO = 5.0  # of its rows to those of the next value: neighbors on a grid hold about as many
_ON_GRID = 1e-6  # of the grid's width: rounding errors of decimal numbers
_TIED_SHARE = 0.3  # of the rows share their value with another row, on a grid that matters
_EVEN_STEPS = 0.05  # relative deviation of the steps between row numbers; a sorted column has 1


class ColumnKind(Enum):
    """What a column is, where it is not continuous."""

    CONTINUOUS = "continuous"
    FEW_VALUES = "few values"
    REPEATED_VALUE = "repeated value"
    ROUNDED = "rounded"
    ROW_NUMBER = "row number"


@dataclass(frozen=True)
class ColumnFacts:
    """What an excerpt of the rows shows of one column."""

    kind: ColumnKind
    top_value: float  # the most frequent one
    top_share: float  # of the rows, that have it
    grid: float  # distance of neighboring values of a column of rounded or few values; else 0
    is_sorted: bool  # whether the values ascend or descend from row to row
    values: Float  # the different ones, ascending, of shape (n_values,)
    counts: Int  # how often each occurs, of shape (n_values,)

    @property
    def n_values(self) -> int:
        """Number of different values."""
        return len(self.values)

    @property
    def is_continuous(self) -> bool:
        """Whether values repeat no more than those of a continuous column."""
        return self.kind is ColumnKind.CONTINUOUS


def check_column(column: Float, places: Int) -> ColumnFacts:
    """Facts about the values of a column in some rows, whose numbers ascend."""
    values, counts = np.unique(column, return_counts=True)
    n, n_values = len(column), len(values)
    steps = np.diff(column)
    is_sorted = n > 2 and bool((steps >= 0).all() or (steps <= 0).all())
    common = np.partition(counts, n_values - 2)[-2:] if n_values > 1 else np.array([0, n])
    top = int(counts.argmax())
    grid = _grid(values) if (n - (counts == 1).sum()) > _TIED_SHARE * n else 0.0
    kind = ColumnKind.CONTINUOUS
    if is_sorted and _steps_evenly(column, places):
        kind = ColumnKind.ROW_NUMBER
    elif n_values <= _FEW_VALUES and n >= _ROWS_A_VALUE * n_values:
        kind = ColumnKind.FEW_VALUES
    elif common[1] >= max(_ATOM_ROWS, _ATOM_SHARE * n, _ATOM_RATIO * common[0]):
        kind = ColumnKind.REPEATED_VALUE
    elif grid > 0:
        kind = ColumnKind.ROUNDED
    return ColumnFacts(
        kind, float(values[top]), float(counts[top]) / n, grid, is_sorted, values, counts
    )


def _steps_evenly(column: Float, places: Int) -> bool:
    """Whether the values grow by nearly the same from each row to the next."""
    adjacent = np.diff(places) == 1
    steps = np.diff(column)[adjacent]
    if len(steps) < 2 or not steps.any():
        return False
    return bool(steps.std() <= _EVEN_STEPS * abs(steps.mean()))


def _grid(values: Float) -> float:
    """Width of the grid that all values lie on; 0 where there is none."""
    steps = np.diff(values)
    if not steps.size:
        return 0.0
    width = float(steps.min())
    # Errors of decimal numbers grow with the values, beside the width.
    error = _ON_GRID * width + 4 * np.finfo(float).eps * float(np.abs(values).max())
    numbers = np.round(steps / width)
    return width if bool((np.abs(steps - numbers * width) <= error * numbers).all()) else 0.0

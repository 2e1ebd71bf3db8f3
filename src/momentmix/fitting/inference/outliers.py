"""Outliers: rows that a fit leaves out.

| symbol | name here |
|---|---|
| x₁ ≥ x₂ ≥ …: distances from the column's median, largest first | ``distances`` |
| i · log(x_i / x_{i+1}) | ``spacings[i - 1]`` |
| γ_i: mean of the spacings i+1 … i+k (Hill's estimate), without the largest | ``tail`` |

A row is left out only if all of this holds. It is far: `_FAR` robust deviations from the median. It
lies beyond a gap that the tail of the column does not explain: in a tail like x^(−1/γ) the ratio
of a spacing and γ_i has about the law F(2, 2k), whatever γ, so that a Cauchy column keeps its rows;
in lighter tails (normal, exponential, lognormal) it is smaller. It is alone: fewer than
`_COMPANIONS` other rows beyond the gap are near it, so that a light cluster stays. And such rows
are few.

One such row can be as large as all others together, and would dominate deviations, the variance
floor and the standardized features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.findings.finding import FATAL, WARNING, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.tables.rows import Rows

_FEWEST_ROWS = 30  # with fewer, no tail can be told from an outlier
_FAR = 10.0  # robust standard deviations; normal rows reach 6 by chance
_CHANCE = 1e-2  # of a gap in the tail of one column, if it is the heaviest (Cauchy); else less
_LIGHTEST_TAIL = 0.07  # of γ: a row is at least about twice as far as the next one to be left out
_COMPANIONS = 4  # rows near a row that make it part of a cluster: five have a mean and a spread
# Near: in parts of the distance from the median (a cluster 100 deviations away may have a spread of
# 10), and in robust deviations (scattered rows are not near each other because they are many).
_NEAR, _NEAR_IN_DEVIATIONS = 0.1, 50.0
_SHARE, _MOST = 0.01, 100  # of the rows, beyond a gap in one column
_SHARE_IN_ALL = 0.05  # of the rows, in all columns; more are no exceptions
_FEWEST_IN_TAIL = 8  # rows that tell a tail
# Quantiles of the distance from the median, and of a normal law's: the median absolute deviation,
# and wider ones for columns that hold one value in half of the rows or more.
_QUANTILES = ((0.5, 0.674), (0.8, 1.282), (0.95, 1.960), (0.99, 2.576))


@dataclass(frozen=True)
class Outliers:
    """Rows that lie alone and far away."""

    places: Int  # numbers of the rows, ascending; empty if so many were found that all are kept
    columns: Int  # in which each row is farthest from the others
    values: Float  # there
    n_found: int

    def findings(self, moments: StandardMoments, are_taken: bool) -> list[Finding]:
        """Return one finding if there are outliers, which a background may take."""
        if not self.n_found:
            return []
        severity = WARNING if are_taken and self.places.size else FATAL
        remedy = None if are_taken or not self.places.size else {"background": "auto"}
        columns = [moments.part(j).column for j in self.columns.tolist()]
        rows = list(zip(self.places.tolist(), self.values.tolist(), columns, strict=True))
        names = list(dict.fromkeys(columns))
        numbers: dict[str, Any] = {"n_rows": self.n_found, "outliers": rows}
        return [found(severity, "outlier-rows", names, remedy=remedy, **numbers)]


NONE = Outliers(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), 0)


def find_outliers(rows: Rows, moments: StandardMoments, places: Int, values: Float) -> Outliers:
    """Outliers among all rows, which are read only where bounds or excerpt hint at some."""
    n_rows, n = rows.n_rows, len(values)
    if n < _FEWEST_ROWS:
        return NONE
    far_rows: dict[int, tuple[float, int, float]] = {}
    n_tail = _n_beyond(n_rows) + _n_tail(n_rows) + 1
    columns = np.ascontiguousarray(values.T)
    for j in np.flatnonzero(~moments.constant & moments.is_number).tolist():
        median = float(np.median(columns[j]))
        distances = np.abs(columns[j] - median)
        scale = robust_scale(distances)
        k = _n_tail(n_rows * float((distances > 0).mean()))
        # As deep in the excerpt as the tail of all rows that is compared, with a margin.
        depth = min(n, max(8, int(np.ceil(2 * n_tail * n / n_rows))))
        inner = np.partition(distances, n - depth)[n - depth]
        farthest = max(moments.maximum[j] - median, median - moments.minimum[j])
        if farthest <= max(_FAR * scale, 2.0 * inner):
            continue
        numbers, column = places, columns[j]
        if n < n_rows:
            collected = _beyond(rows, j, median, inner, 40 * n_tail)
            if collected is None:  # the excerpt is not like the other rows
                continue
            numbers, column = collected
            distances = np.abs(column - median)
        for i in _alone(distances, column, scale, n_rows, k):
            row, far = int(numbers[i]), float(distances[i] / scale)
            if row not in far_rows or far > far_rows[row][0]:
                far_rows[row] = far, j, float(column[i])
    kept = sorted(far_rows) if len(far_rows) <= max(1, _SHARE_IN_ALL * n_rows) else []
    return Outliers(
        np.array(kept, np.int64),
        np.array([far_rows[row][1] for row in kept], np.int64),
        np.array([far_rows[row][2] for row in kept], float),
        len(far_rows),
    )


def robust_scale(distances: Float) -> float:
    """Standard deviation of a column from the distances to its median, whatever a few rows hold."""
    for share, normal in _QUANTILES:
        quantile = float(np.quantile(distances, share))
        if quantile > 0:
            return quantile / normal
    positive = distances[distances > 0]
    return float(positive.mean()) if positive.size else 0.0


def _n_beyond(n_rows: int) -> int:
    """Rows beyond a gap at most."""
    return max(1, min(_MOST, int(_SHARE * n_rows)))


def _n_tail(n_rows: float) -> int:
    """Return the number of spacings that estimate a tail, for n rows off the median."""
    return int(np.clip(n_rows / 8, _FEWEST_IN_TAIL, 50))


def _beyond(
    rows: Rows, column: int, median: float, distance: float, most: int
) -> tuple[Int, Float] | None:
    """Numbers and values of all rows farther from the median; None if they are more than `most`."""
    numbers: list[Int] = []
    values: list[Float] = []
    start = count = 0
    for block in rows.blocks():
        here = np.flatnonzero(np.abs(block[:, column] - median) >= distance)
        numbers.append(here + start)
        values.append(np.asarray(block[here, column], dtype=np.float64))
        start, count = start + len(block), count + len(here)
        if count > most:
            return None
    return np.concatenate(numbers), np.concatenate(values)


def _alone(distances: Float, column: Float, scale: float, n_rows: int, n_tail: int) -> list[int]:
    """Which entries lie beyond the innermost gap that the tail cannot explain, without company."""
    order = np.argsort(-distances, kind="stable")
    positive = distances[order][distances[order] > 0]
    spacings = np.arange(1, len(positive)) * -np.diff(np.log(_apart(positive)))
    most, beyond = _n_beyond(n_rows), order[:0]
    # From the innermost: rows far away together hide each other's gaps.
    for i in range(min(most, len(spacings) - _FEWEST_IN_TAIL), 0, -1):
        inner = spacings[i : i + n_tail]
        k = len(inner)
        # Without the largest, which may be the way from the bulk of the rows to a cluster.
        tail = (inner.sum() - inner.max()) / (k - (1.0 / np.arange(1, k + 1)).sum())
        # What F(2, 2k) exceeds with this chance; the two terms less allow for that largest one.
        limit = (k - 2) * ((_CHANCE / most) ** (-1 / (k - 2)) - 1)
        is_far = positive[i - 1] > _FAR * scale
        if is_far and spacings[i - 1] > limit * max(tail, _LIGHTEST_TAIL):
            beyond = order[:i]
            break
    gaps = np.abs(column[beyond, None] - column[None, beyond])
    reach = np.minimum(_NEAR * distances[beyond], _NEAR_IN_DEVIATIONS * scale)
    companions = (gaps <= reach[:, None]).sum(axis=1) - 1  # but for the row itself
    return [int(row) for row in beyond[companions < _COMPANIONS]]


def _apart(distances: Float) -> Float:
    """Return sorted distances above 0 as before rounding: equal ones are spread over a grid cell.

    >>> _apart(np.array([3.0, 2.0, 2.0, 2.0, 1.0])).tolist()
    [3.0, 2.25, 2.0, 1.75, 1.0]
    """
    values, first, counts = np.unique(-distances, return_index=True, return_counts=True)
    if len(values) < 2 or len(values) == len(distances):
        return distances
    place = np.arange(len(distances)) - np.repeat(first, counts) + 1.0  # within its value, from 1
    share = 0.5 - place / (np.repeat(counts, counts) + 1.0)
    cell = min(float(np.diff(values).min()), float(distances[-1]))  # all stay above 0
    return np.asarray(distances + cell * share)

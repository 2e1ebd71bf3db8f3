"""Outliers: rows far from all others, which a background takes.

| symbol | name here |
|---|---|
| x₁ ≥ x₂ ≥ …: distances from the column's median, largest first | ``distances`` |
| s_i = i · log(x_i / x_{i+1}) | ``spacings[i - 1]`` |
| A_m, B_m: means of s_1 … s_m and of the k next ones (Hill's estimates) | ``inner`` is B |
| chance of A_m / B_m, of law F(2m, 2k), if the tail is the same | ``chances`` |

A row is an outlier only if all of this holds. It is far: `_FAR` robust deviations from the median
of a column. It lies where the tail of the column is heavier than further inside: in a tail like
x^(−1/γ) the spacings are exponential with mean γ, so that a Cauchy column keeps its rows, and in
lighter tails (normal, exponential, lognormal) they become shorter outward. So a few rows are told
from the tail of all others, whether they lie beyond one gap or are scattered. It is alone in all
columns together: fewer than `_COMPANIONS` other rows of this kind are as near as rows of one group
are, so that a light cluster stays. And such rows are few.

One such row can be as large as all others together, and would dominate deviations, the variance
floor and the standardized features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from momentmix._typing import Float, Int
from momentmix.findings.finding import FATAL, WARNING, Finding, found
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.tables.rows import Rows

_FEWEST_ROWS = 30  # with fewer, no tail can be told from an outlier
_FAR = 5.0  # robust standard deviations; normal rows reach 6 by chance, in a tail that is normal
_CHANCE = 1e-2  # of a tail that becomes heavier, in the heaviest (Cauchy); else less
_LIGHTEST_TAIL = 0.07  # of γ: a row alone is at least about twice as far as the next one
_COMPANIONS = 4  # rows near a row that make it part of a cluster: five have a mean and a spread
# Near: in distances within groups, in parts of the distance from the median (a cluster 100
# deviations away may have a spread of 10), and there in robust deviations at most.
_NEAR_IN_GROUPS, _NEAR, _NEAR_IN_DEVIATIONS = 2.0, 0.1, 50.0
_RIM = 1.5  # times as far from a row with companions are the last rows of a cluster
_COMPARED = 300  # rows that companions are looked for among: more are near each other by chance
_OF_GROUPS = 100  # rows whose neighbors show distances within groups
_SHARE = 0.02  # of the rows, in the tail of one column
_SHARE_IN_ALL = 0.05  # of the rows, in all columns; more are no exceptions
_EACH_BELOW = 200  # numbers of rows that are tried
_MOST_TAKEN = 20_000  # rows of all tails, with few rows
_FEWEST_IN_TAIL, _MOST_IN_TAIL = 8, 50  # rows that tell a tail, where fewer lie outside it
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
        is_taken = are_taken and self.places.size
        severity, where = WARNING if is_taken else FATAL, "in no group"
        if not is_taken:
            where = "part of the fit, which they may spoil"
        if not self.places.size:
            where = "too many for a background"
        columns = [moments.part(j).column for j in self.columns.tolist()]
        rows = list(zip(self.places.tolist(), self.values.tolist(), columns, strict=True))
        names = list(dict.fromkeys(columns))
        return [
            found(severity, "outlier-rows", names, n_rows=self.n_found, outliers=rows, where=where)
        ]


NONE = Outliers(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), 0)


class _Hint(NamedTuple):
    """A column whose bounds or tail hint at outliers."""

    number: int
    median: float
    scale: float
    n_tail: int  # rows that tell the tail, for so many rows off the median
    inner: float  # distance from the median of the rows that are looked at


def with_others(known: Outliers, rows: Rows, moments: StandardMoments, places: Int) -> Outliers:
    """The outliers and other rows; none where these are too many together."""
    every = np.union1d(known.places, places)
    if len(every) > _SHARE_IN_ALL * rows.n_rows:
        return known
    values = rows.take(every)
    numbers = np.flatnonzero(~moments.constant & moments.is_number)
    far = np.abs((values - moments.shift) / moments.scale)[:, numbers]
    columns = numbers[far.argmax(axis=1)]
    return Outliers(every, columns, values[np.arange(len(every)), columns], len(every))


def find_outliers(rows: Rows, moments: StandardMoments, places: Int, values: Float) -> Outliers:
    """Outliers among all rows, read once more where bounds or excerpt of the rows hint at some."""
    n_rows, n = rows.n_rows, len(values)
    if n < _FEWEST_ROWS:
        return NONE
    hints = _hints(moments, values, n_rows)
    tails = (places, values) if n == n_rows or not hints else _tails(rows, hints)
    if not hints or tails is None:
        return NONE
    places, tail = tails
    farthest, of_column = np.zeros(len(places)), np.zeros(len(places), np.int64)
    for hint in hints:
        far = np.abs(tail[:, hint.number] - hint.median) / hint.scale
        order = np.argsort(-far, kind="stable")
        order = order[: int((far * hint.scale >= hint.inner).sum())]
        order = order[: _n_outside(far[order], n_rows, hint.n_tail)]
        beyond = order[far[order] > np.maximum(_FAR, farthest[order])]
        farthest[beyond], of_column[beyond] = far[beyond], hint.number
    chosen = np.flatnonzero(farthest)
    chosen = chosen[~_has_company(tail[chosen], farthest[chosen], values, moments)]
    kept = chosen if len(chosen) <= max(1, _SHARE_IN_ALL * n_rows) else chosen[:0]
    columns = of_column[kept]
    return Outliers(places[kept], columns, tail[kept, columns], len(chosen))


def _hints(moments: StandardMoments, values: Float, n_rows: int) -> list[_Hint]:
    """The columns that may hold outliers, by their bounds and an excerpt of the rows."""
    n, hints = len(values), []
    for j in np.flatnonzero(~moments.constant & moments.is_number).tolist():
        median = float(np.median(values[:, j]))
        distances = np.abs(values[:, j] - median)
        scale = robust_scale(distances)
        farthest = max(moments.maximum[j] - median, median - moments.minimum[j])
        if farthest <= _FAR * scale:
            continue
        n_tail = _n_tail(n_rows * float((distances > 0).mean()))
        inner = 0.0
        if n < n_rows:  # where the tail of the excerpt begins; without one, as deep as it may reach
            order = np.sort(distances)[::-1]
            m = _n_outside(order, n, _n_tail(n))
            depth = 2 * m + n_tail if m else max(8, int(np.ceil(4 * _MOST_IN_TAIL * n / n_rows)))
            inner = float(order[min(n - 1, depth)])
            if not m and farthest <= 2.0 * inner:
                continue
        hints.append(_Hint(j, median, scale, n_tail, inner))
    return hints


def robust_scale(distances: Float) -> float:
    """Standard deviation of a column from the distances to its median, (n,).

    Whatever a few rows hold.
    """
    for share, normal in _QUANTILES:
        if (scale := float(np.quantile(distances, share)) / normal) > 0:
            return scale
    return float(distances[distances > 0].mean()) if distances.any() else 0.0


def _n_tail(n_rows: float) -> int:
    """Return the number of spacings that estimate a tail, for n rows off the median."""
    return int(np.clip(n_rows / 8, _FEWEST_IN_TAIL, _MOST_IN_TAIL))


def _tails(rows: Rows, hints: list[_Hint]) -> tuple[Int, Float] | None:
    """Numbers and values of all rows in the tail of a column; None where they are too many.

    Then the excerpt is not like the other rows.
    """
    numbers: list[Int] = []
    values: list[Float] = []
    start = count = 0
    own = [hint.number for hint in hints]
    medians, inner = (np.array([getattr(h, x) for h in hints]) for x in ("median", "inner"))
    most = _MOST_TAKEN + len(hints) * 4 * _SHARE * rows.n_rows
    for block in rows.blocks():
        here = np.flatnonzero((np.abs(block[:, own] - medians) >= inner).any(axis=1))
        numbers.append(here + start)
        values.append(np.asarray(block[here], dtype=np.float64))
        start, count = start + len(block), count + len(here)
        if count > most:
            return None
    return np.concatenate(numbers), np.concatenate(values)


def _n_outside(distances: Float, n_rows: int, n_tail: int) -> int:
    """How many of the distances, largest first, lie where the tail is heavier than inside."""
    positive = distances[distances > 0]
    spacings = np.arange(1, len(positive)) * -np.diff(np.log(_spread_ties(positive)))
    most = min(max(1, int(_SHARE * n_rows)), len(spacings) - _FEWEST_IN_TAIL)
    if most < 1:
        return 0
    sums, m = np.concatenate([[0.0], np.cumsum(spacings)]), np.arange(1, most + 1)
    if most > _EACH_BELOW:  # more are told to a few percent
        m = np.unique(np.geomspace(1, most, _EACH_BELOW).astype(np.int64))
    k = np.minimum(np.maximum(n_tail, m), len(spacings) - m)
    # The largest of the inner ones may be the way from the bulk of the rows to a cluster.
    largest = np.array([spacings[i : i + j].max() for i, j in zip(m, k, strict=True)])
    harmonic = np.log(k) + 0.577 + 0.5 / k
    inner = np.maximum((sums[m + k] - sums[m] - largest) / (k - harmonic), _LIGHTEST_TAIL)
    # The two terms less allow for that largest one.
    chances = fdtrc(2 * m, 2 * (k - 2), sums[m] / m / inner)
    best = int(chances.argmin())
    return int(m[best]) if chances[best] < _CHANCE / most else 0


def _has_company(
    rows: Float, far: Float, excerpt: Float, moments: StandardMoments
) -> NDArray[np.bool_]:
    """Which rows have others of this kind as near as rows of one group are."""
    has_company = np.zeros(len(rows), np.bool_)
    if len(rows) <= _COMPANIONS:
        return has_company
    columns = np.flatnonzero(~moments.constant & moments.is_number)
    medians = np.median(excerpt[:, columns], axis=0)
    scale = np.array([robust_scale(x) or 1.0 for x in np.abs(excerpt[:, columns] - medians).T])
    z, bulk = ((x[:, columns] - medians) / scale for x in (rows, excerpt))
    rng = np.random.default_rng(0)
    bulk = bulk[rng.choice(len(bulk), min(_OF_GROUPS, len(bulk)), replace=False)]
    within = np.partition(_distances(bulk, bulk), _COMPANIONS, axis=1)[:, _COMPANIONS]
    reach = np.maximum(
        _NEAR_IN_GROUPS * float(np.median(within)), np.minimum(_NEAR * far, _NEAR_IN_DEVIATIONS)
    )
    places = rng.choice(len(z), min(_COMPARED, len(z)), replace=False)
    parts = np.array_split(np.arange(len(z)), 1 + len(z) // 1000)
    near = [_distances(z[part], z[places]) <= reach[part, None] for part in parts]
    # Each row that is compared is near itself.
    n_near = np.concatenate([x.sum(axis=1) for x in near]) - np.isin(np.arange(len(z)), places)
    has_company = n_near >= _COMPANIONS
    members = z[places][has_company[places]]
    nearest = [_distances(z[part], members).min(axis=1, initial=np.inf) for part in parts]
    return np.asarray(has_company | (np.concatenate(nearest) <= _RIM * reach))  # or on the rim


def _distances(first: Float, second: Float) -> Float:
    """Euclidean distances of rows, of shape (n, m)."""
    columns = zip(first.T, second.T, strict=True)
    return np.asarray(np.sqrt(sum((x[:, None] - y) ** 2 for x, y in columns)))


def _spread_ties(distances: Float) -> Float:
    """Return sorted distances above 0 as before rounding: equal ones are spread over a grid cell.

    >>> _spread_ties(np.array([3.0, 2.0, 2.0, 2.0, 1.0])).tolist()
    [3.0, 2.25, 2.0, 1.75, 1.0]
    """
    values, first, counts = np.unique(-distances, return_index=True, return_counts=True)
    if len(values) < 2 or len(values) == len(distances):
        return distances
    place = np.arange(len(distances)) - np.repeat(first, counts) + 1.0  # within its value, from 1
    share = 0.5 - place / (np.repeat(counts, counts) + 1.0)
    cell = min(float(np.diff(values).min()), float(distances[-1]))  # all stay above 0
    return np.asarray(distances + cell * share)

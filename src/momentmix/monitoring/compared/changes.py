"""Changes of single columns between two summaries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.column import Level
from momentmix.findings.finding import WARNING, Finding, found
from momentmix.lazy import lazy_property
from momentmix.monitoring.compared.side import Side, common_spread
from momentmix.monitoring.compared.significance import by_chance, share_test, two_sided
from momentmix.summary.summary import MomentSummary

_NORMAL = 1.959963984540054  # of 95 % intervals
_LEAST_CURVATURE = 25  # rows · (kurtosis − 1); below, the spread follows from the mean (0 and 1)
LEAST_ROWS = 8  # with fewer nothing is tested
_SAME_CONSTANT = 1e-12  # of a constant's size
_LEAST_NUMBER = 1e-300  # the spread of smaller numbers is not known


@dataclass(frozen=True)
class Change:
    """One number of the first summary against that of the second.

    Attributes
    ----------
    what : {"mean", "spread", "share", "missing"}
    column : str
    level : str, int or bool, or None
        The level that a share is of.
    first, second : float
        The numbers, in the units of the data.
    effect : float
        Size of the change: of a mean the difference in common standard deviations, of a spread the
        logarithm of the ratio of standard deviations, else the difference.
    low, high : float
        95 % interval of the effect; NaN if it is not known.
    p_value : float
        Of this change alone; NaN if it cannot be tested.
    corrected : float
        p-value corrected for the number of tests, by Holm.
    transform : str or None
        "log" or "log1p" where the numbers are of logarithms of the column.
    """

    what: str
    column: str
    level: Level | None
    first: float
    second: float
    effect: float
    low: float = nan
    high: float = nan
    p_value: float = nan
    corrected: float = nan
    transform: str | None = None

    @property
    def size(self) -> float:
        """The effect without its sign."""
        return abs(self.effect)

    @property
    def unit(self) -> float:
        """Standard deviation of a cell, in units of the effect; that of a share is √(p(1 − p))."""
        if self.what not in ("share", "missing"):
            return 1.0
        share = (self.first + self.second) / 2
        return max(sqrt(max(share * (1 - share), 0.0)), 1e-12)

    @property
    def value_name(self) -> str:
        """Name of the column or of its logarithm, of its level, or of its missing cells."""
        if self.what == "share":
            return f"{self.column}={self.level}"
        if self.what == "missing":
            return f"{self.column} missing"
        return f"{self.transform} {self.column}" if self.transform else self.column

    @property
    def finding(self) -> Finding:
        """The change as a finding."""
        return found(
            WARNING, f"{self.what}-changed", [self.column], first=self.first, second=self.second,
            effect=self.effect, level=self.level, transform=self.transform, p_value=self.corrected,
        )  # fmt: skip


class ChangeEstimate(NamedTuple):
    """Effects, their standard errors and p-values, one for each value."""

    effect: Float
    error: Float
    p_value: Float

    def of(self, i: int, change: Change) -> Change:
        """A change with the numbers of value `i`."""
        effect, half = float(self.effect[i]), _NORMAL * float(self.error[i])
        p = float(self.p_value[i])
        return replace(change, effect=effect, low=effect - half, high=effect + half, p_value=p)


class ColumnTests:
    """Tests of values of two summaries, one by one, where they vary; a spread of 0 is constant."""

    def __init__(self, first: MomentSummary, second: MomentSummary) -> None:
        self.a, self.b = self.sides = a, b = Side(first), Side(second)
        self.spread = spread = common_spread(a, b)
        for side in self.sides:
            side.use_units(spread)
        self._enough = np.minimum(a.n_seen, b.n_seen) >= LEAST_ROWS
        self._varies: NDArray[np.bool_] = (spread > 0) & self._enough
        total = a.n_seen + b.n_seen
        self._weights = a.n_seen / total, b.n_seen / total

    def _common(self, left: Float, right: Float) -> Float:
        """The mean of two numbers by rows."""
        return np.asarray(self._weights[0] * left + self._weights[1] * right)

    def _estimate(self, effect: Float, variances: tuple[Float, Float], p: Float) -> ChangeEstimate:
        left, right = variances[0] / self.a.n_seen, variances[1] / self.b.n_seen
        error = np.where(self._enough, np.sqrt(left + right), nan)
        return ChangeEstimate(effect, error, np.where(self._varies, p, nan))

    def _p(self, change: Float, left: Float, right: Float) -> Float:
        return two_sided(change, left, right, self.a.n_seen, self.b.n_seen)

    @lazy_property
    def _common_kurtosis(self) -> Float:
        """Fourth moments over squared variances, of both together; NaN if not kept."""
        a, b = self.a.central, self.b.central
        return np.asarray(self._common(a[4], b[4]) / self._common(a[2], b[2]) ** 2)

    @lazy_property
    def means(self) -> ChangeEstimate:
        """Differences of means in common deviations; constants that differ have p = 0."""
        change = self.b.location - self.a.location
        effect = np.where(change == 0, 0.0, change / self.spread)
        left, right = self.a.central[2], self.b.central[2]
        n_a, n_b = self.a.n_seen, self.b.n_seen
        chance = by_chance(self._common_kurtosis, np.minimum(n_a, n_b))
        p = two_sided(effect, left, right, n_a, n_b, chance)
        found = self._estimate(effect, (left, right), p)
        size = np.abs(self.a.location) + np.abs(self.b.location)
        least = np.maximum(_SAME_CONSTANT * size, _LEAST_NUMBER)
        moved = self._enough & (self.spread == 0) & (np.abs(change) > least)
        return found._replace(p_value=np.where(moved, 0.0, found.p_value))

    @lazy_property
    def spreads(self) -> ChangeEstimate:
        """Logarithms of the ratios of deviations, tested by the difference of variances."""
        a, b = self.a.central, self.b.central
        own = [x[4] - x[2] ** 2 for x in (a, b)]
        effect = np.log(self.b.deviation / self.a.deviation)
        relative = own[0] / (4 * a[2] ** 2), own[1] / (4 * b[2] ** 2)
        p = self._p(b[2] - a[2], own[0], own[1])
        p = np.where(self._two_values, nan, p)
        return self._estimate(effect, relative, p)

    @lazy_property
    def _two_values(self) -> NDArray[np.bool_]:
        """Whether all else follows from the mean, as for 0 and 1 in half of the rows each."""
        n = np.minimum(self.a.n_seen, self.b.n_seen)
        own = (x[4] - x[2] ** 2 for x in (self.a.central, self.b.central))
        return np.asarray(n * self._common(*own) < _LEAST_CURVATURE)


def column_changes(tests: ColumnTests, column: int, name: str) -> list[Change]:
    """All changes of one column."""
    a, b = tests.sides
    own = np.flatnonzero(a.column == column)
    first = int(own[0])
    if a.schema.columns[column].model.has_levels:
        changes = _share_changes(tests, column, own, name)
    else:
        numbers = {
            "mean": (a.location, b.location, tests.means),
            "spread": (a.deviation, b.deviation, tests.spreads),
        }
        changes = [
            tested.of(first, Change(what, name, None, float(x[first]), float(y[first]), nan))
            for what, (x, y, tested) in numbers.items()
        ]
    if a.schema.columns[column].has_missing or b.schema.columns[column].has_missing:
        shares = 1 - a.share[first], 1 - b.share[first]
        changes.append(_share("missing", name, None, shares, (a.n, b.n)))
    return changes


def _share_changes(tests: ColumnTests, column: int, own: Int, name: str) -> list[Change]:
    """Changes of the shares of levels; of two levels only that of the second."""
    sides, chosen = tests.sides, tests.a.schema.columns[column]
    shares = [np.insert(s.mean[own], 0, max(0.0, 1 - s.mean[own].sum())) for s in sides]
    n = sides[0].n_seen[own[0]], sides[1].n_seen[own[0]]
    start = 0 if len(chosen.levels) > 2 and chosen.model.n_levels != 2 else 1
    return [
        _share("share", name, level, (shares[0][t], shares[1][t]), n)
        for t, level in enumerate(chosen.levels)
        if t >= start
    ]


def _share(
    what: str, name: str, level: Level | None, shares: tuple[float, float], n: tuple[float, float]
) -> Change:
    left, right = (np.clip(np.array([x]), 0.0, 1.0) for x in shares)
    n_left, n_right = (np.array([x]) for x in n)
    error = np.sqrt(left * (1 - left) / n_left + right * (1 - right) / n_right)
    p = share_test(left, right, n_left, n_right)
    change = Change(what, name, level, float(left[0]), float(right[0]), nan)
    return ChangeEstimate(right - left, error, p).of(0, change)

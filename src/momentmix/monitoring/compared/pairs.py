"""Changes of correlations between two summaries."""

from __future__ import annotations

from math import nan

import numpy as np

from momentmix._typing import Float
from momentmix.monitoring.compared.changes import Change, ColumnTests, Estimate
from momentmix.monitoring.compared.influences import Polynomials
from momentmix.monitoring.compared.side import Side
from momentmix.monitoring.compared.significance import FEW, two_sided

_STIFF = 1e-12  # variance of what one row adds to a correlation; below, columns are copies
_MOVED = 1e-3  # change of such a correlation that is no rounding


class PairTests:
    """Correlations of values of different columns, and what one row adds to them.

    Parameters
    ----------
    tests : ColumnTests

    Attributes
    ----------
    i, j : arrays of int of shape (n,)
        Values of the pairs whose rows are enough, on both sides.
    """

    def __init__(self, tests: ColumnTests) -> None:
        a, b = tests.a, tests.b
        self._tests = tests
        i, j = np.triu_indices(len(a.value), 1)
        column = a.plain.column
        kept = tests.varies[i] & tests.varies[j] & (column[i] != column[j])
        share = tests.common(a.mean, b.mean)
        rare = np.where(a.number, 1.0, np.minimum(share, 1 - share))
        rows = np.minimum(a.n * a.both_seen[i, j], b.n * b.both_seen[i, j]) * rare[i] * rare[j]
        kept &= rows >= FEW
        for side in (a, b):
            kept &= (side.central[2, i] > 0) & (side.central[2, j] > 0)
        self.i, self.j = i[kept], j[kept]
        rows_of = [s.n * s.both_seen[self.i, self.j] for s in (a, b)]
        # A number has the common unit; the indicator of a level has none.
        self.unit = np.sqrt(tests.common(a.central[2], b.central[2]))
        size = self.unit[self.i] * self.unit[self.j]
        parts = [n * s.covariance[self.i, self.j] for n, s in zip(rows_of, (a, b), strict=True)]
        self.common = (parts[0] + parts[1]) / (rows_of[0] + rows_of[1]) / size

    def __len__(self) -> int:
        return len(self.i)

    def correlations(self, side: Side) -> Float:
        """Correlations of one side."""
        spread = np.sqrt(side.central[2])
        return np.asarray(side.covariance[self.i, self.j] / (spread[self.i] * spread[self.j]))

    def add_scores(self, polynomials: Polynomials, start: int) -> None:
        """Add what a row adds to covariances less what variances add, at common spreads.

        These are the polynomials from number `start` on.
        """
        rows = start + np.arange(len(self))
        polynomials.add_correlations(rows, self.i, self.j, self.unit, self.common)

    def changes(self, score: Float, left: Float, right: Float, names: list[str]) -> list[Change]:
        """Changes of the correlations, from differences of scores and their variances in a row."""
        sides, rho, own = (self._tests.a, self._tests.b), [], []
        for side in sides:
            rho.append(self.correlations(side))
            polynomials = Polynomials(side, len(self))
            spread = np.sqrt(side.central[2])
            polynomials.add_correlations(np.arange(len(self)), self.i, self.j, spread, rho[-1])
            own.append(np.maximum(polynomials.variances(), 0.0))
        n = [np.full(len(self), side.n) for side in sides]
        effect = rho[1] - rho[0]
        p = np.maximum(
            two_sided(effect, own[0], own[1], *n),
            two_sided(score, left, right, *n),
        )
        stiff = np.maximum(own[0], own[1]) <= _STIFF  # copies of a column
        p = np.where(stiff, np.where(np.abs(effect) > _MOVED, 0.0, nan), p)
        estimate = Estimate(effect, np.sqrt(own[0] / n[0] + own[1] / n[1]), p)
        found = []
        for t, (i, j) in enumerate(zip(self.i.tolist(), self.j.tolist(), strict=True)):
            first, second = float(rho[0][t]), float(rho[1][t])
            change = Change("correlation", names[i], names[j], None, first, second, 0.0)
            found.append(estimate.of(t, change))
        return found

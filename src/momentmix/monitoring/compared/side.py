"""One of two summaries that are compared: moments of its values where they are seen.

| symbol | name here | shape |
|---|---|---|
| v, s: a value (0 where missing) and whether it is seen | ``value``, ``seen`` | (k,) |
| p = E s, m = E v / p | ``share``, ``mean`` | (k,) |
| u = v − m s | | |
| E u^t / p, t = 0 … 6 | ``central`` | (7, k) |
| E u_i u_j / E s_i s_j | ``covariance`` | (k, k) |

A value is a number, or the indicator of a level; s is 1 in columns without missing cells. Numbers
are in units of the spread of both summaries together, about the mean of their own one.
"""

from __future__ import annotations

from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.column import Column
from momentmix.monitoring.compared.moment_table import MomentTable
from momentmix.summary.readings import Moments
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema, plain_schema


def schema_of(summary: MomentSummary) -> Schema:
    """The schema of a summary; that of plain numbers where it has none."""
    return summary.schema or plain_schema(summary.n_features, summary.feature_names)


def is_indicator(column: Column) -> bool:
    """Whether the values of a column are indicators of levels."""
    return column.model.has_levels


class Side:
    """One summary of a comparison: its k values in the units of the data, then in common ones.

    Attributes
    ----------
    schema : Schema
    column, value, seen : arrays of int of shape (k,)
        Column of each value, its feature, and the feature whether it is seen; the number of
        features stands for the constant 1.
    number : array of bool of shape (k,)
        Whether a value is a number.
    share, center, deviation : arrays of shape (k,)
        Share of the cells that are seen; mean and deviation of the values in them.
    n : float
        Independent rows that the summary counts as; `n_seen` (k,) those of each value.
    """

    def __init__(self, summary: MomentSummary) -> None:
        self.summary, self.schema, self.n = summary, schema_of(summary), summary.effective_rows
        columns, d = self.schema.columns, self.schema.n_features
        self.column = np.repeat(np.arange(len(columns)), [column.n_values for column in columns])
        self.value: Int = np.array(self.schema.value_features)
        seen = [self.schema.seen_of(i) for i in self.column.tolist()]
        self.seen: Int = np.array([d if s is None else s for s in seen])
        self.number = np.array([not is_indicator(columns[i]) for i in self.column.tolist()])
        means, spreads = np.append(summary.mean, 1.0), summary.deviation[self.value]
        self.share = share = means[self.seen]
        self.center = means[self.value] / share
        # v is 0 where a cell is missing.
        square = (spreads**2 - means[self.value] * self.center * (1 - share)) / share
        deviation = np.sqrt(np.maximum(square, 0.0))
        self.deviation = np.where(self.seen == d, spreads, deviation)
        self.n_seen = np.asarray(self.n * share)

    def use_units(self, spread: Float) -> None:
        """Read the moments in units of `spread` (k,), which is 0 for a constant."""
        d = self.schema.n_features
        shift, scale = np.zeros(d), np.ones(d)
        own = self.number & (self.seen == d)
        shift[self.value[own]] = self.center[own]
        size = np.where(spread > 0, spread, np.maximum(np.abs(self.center), 1e-300))
        size = np.where(np.isfinite(size), size, 1.0)
        scale[self.value[self.number]] = size[self.number]
        self.moments: Moments = self.summary.moments(shift, scale)
        self.table = MomentTable(self.moments)
        self.mean = np.asarray(self.moments.distinct[1][self.value] / self.share)

    @cached_property
    def location(self) -> Float:
        """Means of the values with the centers of their columns, of shape (k,)."""
        centers = np.array([self.schema.columns[i].center for i in self.column.tolist()])
        return np.asarray(self.center + centers)

    @property
    def counts_rows(self) -> bool:
        """Whether least and largest values are those of rows, and all rows count as one."""
        return self.summary.exact_bounds and self.n == self.summary.n_rows

    @cached_property
    def bounds(self) -> tuple[Float, Float]:
        """Least and largest values as features, or bounds of them; of shape (k,) each."""
        return self.summary.minimum[self.value], self.summary.maximum[self.value]

    @cached_property
    def attained(self) -> NDArray[np.bool_]:
        """Whether some row has the least, and the largest value, of shape (2, k).

        A bound of 0 is none of a row for sure where missing cells are 0, too.
        """
        filled = (self.share < 1) & (np.stack(self.bounds) == 0)
        return np.asarray(self.summary.exact_bounds & ~filled)

    @cached_property
    def reach(self) -> Float:
        """Largest distance of a value from the mean, or a bound of it, of shape (k,)."""
        return np.asarray(np.maximum(self.bounds[1] - self.center, self.center - self.bounds[0]))

    @cached_property
    def farther(self) -> Int:
        """Which end is farther from the mean: 0 the least value, 1 the largest; of shape (k,)."""
        low, high = self.bounds
        return np.asarray(high - self.center > self.center - low, dtype=np.int64)

    @cached_property
    def central(self) -> Float:
        """Central moments 0 … 6 of each value over the cells that are seen; NaN if not kept."""
        own, moments = self.value, self.moments
        raw = np.full((7, len(own)), np.nan)
        raw[0], raw[1] = self.share, moments.distinct[1][own]
        raw[2] = moments.squared[0][own, 0]
        if moments.powers is not None:
            raw[3:] = moments.powers[:, own]
        raw[2:] = np.where(self.number, raw[2:], raw[1])  # powers of 0 and 1
        parts = [
            sum(comb(t, s) * (-self.mean) ** s * raw[t - s] for s in range(t + 1)) for t in range(7)
        ]
        return np.asarray(np.asarray(parts) / self.share)

    @cached_property
    def both_seen(self) -> Float:
        """Share of rows in which two values are seen, of shape (k, k)."""
        return np.asarray(self.table.second[self.seen[:, None], self.seen])

    @cached_property
    def covariance(self) -> Float:
        """Covariances of values where both are seen, about the means, of shape (k, k)."""
        second, v, s, m = self.table.second, self.value, self.seen, self.mean
        cross = second[v[:, None], s] * m
        table = second[v[:, None], v] - cross - cross.T + self.both_seen * np.outer(m, m)
        return np.asarray(table / self.both_seen)

    @cached_property
    def seen_with(self) -> Float:
        """E[s_i u_j], of shape (k, k); 0 where cells are missing at random."""
        second = self.table.second
        table = second[self.seen[:, None], self.value] - self.both_seen * self.mean
        return np.asarray(table)


def common_spread(a: Side, b: Side) -> Float:
    """Deviation of each value within both summaries together; 0 for constants."""
    weights = np.stack([a.n_seen, b.n_seen])
    largest = np.fmax(np.fmax(a.deviation, b.deviation), 1e-300)
    ratios = np.stack([a.deviation / largest, b.deviation / largest])
    ratios = np.where(weights > 0, ratios, 0.0)
    total = np.maximum(weights.sum(axis=0), 1e-300)
    return np.asarray(largest * np.sqrt((weights * ratios**2).sum(axis=0) / total))


def polynomial_variance(coefficients: Any, central: Float) -> Float:
    """Variance of Σ_t c_t w^t, t = 1, 2, …, of a variable with these central moments."""
    mean = sum(c * central[t] for t, c in enumerate(coefficients, 1))
    square = sum(
        c * e * central[t + s]
        for t, c in enumerate(coefficients, 1)
        for s, e in enumerate(coefficients, 1)
    )
    return np.asarray(np.maximum(square - mean**2, 0.0))

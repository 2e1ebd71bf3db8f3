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

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.monitoring.compared.moment_table import MomentTable
from momentmix.summary.readings import Moments
from momentmix.summary.summary import MomentSummary
from momentmix.tables.column import BERNOULLI, CATEGORICAL, Column
from momentmix.tables.schema import Schema, plain_schema


def schema_of(summary: MomentSummary) -> Schema:
    """The schema of a summary; that of plain numbers where it has none."""
    return summary.schema or plain_schema(summary.n_features, summary.feature_names)


def is_indicator(column: Column) -> bool:
    """Whether the values of a column are indicators of levels."""
    return column.family in (BERNOULLI, CATEGORICAL)


@dataclass(frozen=True)
class Plain:
    """Means and spreads of the k values of a summary, in the units of the data."""

    summary: MomentSummary
    schema: Schema
    column: Int  # of each value
    value: Int  # its feature
    seen: Int  # the feature whether it is seen; the number of features stands for the constant 1
    number: NDArray[np.bool_]
    share: Float  # of cells that are seen; mean and deviation are those of the values in them
    mean: Float
    deviation: Float
    n: float  # independent rows

    @classmethod
    def of(cls, summary: MomentSummary) -> Plain:
        """Read a summary."""
        schema = schema_of(summary)
        counts = [column.n_values for column in schema.columns]
        column = np.repeat(np.arange(schema.n_columns), counts)
        value = np.array(schema.value_features)
        seen = [schema.seen_of(i) for i in column.tolist()]
        seen_ = np.array([schema.n_features if s is None else s for s in seen])
        numbers = [not is_indicator(schema.columns[i]) for i in column.tolist()]
        means, spreads = np.append(summary.mean, 1.0), summary.deviation
        share = means[seen_]
        mean = means[value] / share
        # v is 0 where a cell is missing.
        square = (spreads[value] ** 2 - means[value] * mean * (1 - share)) / share
        deviation = np.sqrt(np.maximum(square, 0.0))
        deviation = np.where(seen_ == schema.n_features, spreads[value], deviation)
        return cls(
            summary, schema, column, value, seen_, np.array(numbers), share, mean, deviation,
            summary.effective_rows,
        )  # fmt: skip

    @cached_property
    def location(self) -> Float:
        """Means of the values with the centers of their columns, of shape (k,)."""
        centers = np.array([self.schema.columns[i].center for i in self.column.tolist()])
        return np.asarray(self.mean + centers)

    @property
    def n_seen(self) -> Float:
        """Rows that each value counts as."""
        return np.asarray(self.n * self.share)

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
        return np.asarray(np.maximum(self.bounds[1] - self.mean, self.mean - self.bounds[0]))

    @cached_property
    def farther(self) -> Int:
        """Which end is farther from the mean: 0 the least value, 1 the largest; of shape (k,)."""
        low, high = self.bounds
        return np.asarray(high - self.mean > self.mean - low, dtype=np.int64)


def common_spread(a: Plain, b: Plain) -> Float:
    """Deviation of each value within both summaries together; 0 for constants."""
    weights = np.stack([a.n_seen, b.n_seen])
    largest = np.fmax(np.fmax(a.deviation, b.deviation), 1e-300)
    ratios = np.stack([a.deviation / largest, b.deviation / largest])
    ratios = np.where(weights > 0, ratios, 0.0)
    total = np.maximum(weights.sum(axis=0), 1e-300)
    return np.asarray(largest * np.sqrt((weights * ratios**2).sum(axis=0) / total))


class Side:
    """One summary of a comparison in common units: `spread` (k,) of each number, 0 if constant."""

    def __init__(self, plain: Plain, spread: Float) -> None:
        self.plain, self.n, self.n_seen = plain, plain.n, plain.n_seen
        self.value, self.seen, self.number = plain.value, plain.seen, plain.number
        self.share = plain.share
        d = plain.schema.n_features
        shift, scale = np.zeros(d), np.ones(d)
        own = plain.number & (plain.seen == d)
        shift[plain.value[own]] = plain.mean[own]
        size = np.where(spread > 0, spread, np.maximum(np.abs(plain.mean), 1e-300))
        size = np.where(np.isfinite(size), size, 1.0)
        scale[plain.value[plain.number]] = size[plain.number]
        self.moments: Moments = plain.summary.moments(shift, scale)
        self.table = MomentTable(self.moments)
        self.mean = np.asarray(self.moments.distinct[1][plain.value] / self.share)

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
        return np.asarray(parts) / self.share

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


def polynomial_variance(coefficients: Any, central: Float) -> Float:
    """Variance of Σ_t c_t w^t, t = 1, 2, …, of a variable with these central moments."""
    mean = sum(c * central[t] for t, c in enumerate(coefficients, 1))
    square = sum(
        c * e * central[t + s]
        for t, c in enumerate(coefficients, 1)
        for s, e in enumerate(coefficients, 1)
    )
    return np.asarray(np.maximum(square - mean**2, 0.0))

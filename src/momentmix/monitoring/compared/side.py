"""One of two summaries that are compared: moments of its values where they are seen.

| symbol | name here | shape |
|---|---|---|
| v, s: a value (0 where missing) and whether it is seen | ``value``, ``seen`` | (k,) |
| p = E s, m = E v / p | ``share``, ``mean`` | (k,) |
| u = v − m s | | |
| E u^t / p, t = 0 … 6 | ``central`` | (7, k) |
| E u_i u_j / E s_i s_j | ``covariance`` | (k, k) |
| E[x_a x_b], x = (y − shift)/scale, x_d = 1 | `MomentTable.second` | (d + 1, d + 1) |
| Cov(x_a x_b, x_c x_e), a ≤ b, c ≤ e | `MomentTable.pair_covariance` | (n, n) |

A value is a number, or the indicator of a level; s is 1 in columns without missing cells. Numbers
are in units of the spread of both summaries together, about the mean of their own one. A
product that the summary does not keep is NaN.
"""

from __future__ import annotations

from functools import cached_property
from math import comb, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.index_sets import colex_rank, index_sets, sets_without
from momentmix.summary.readings import Moments
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema, plain_schema

_AT_ONCE = 1 << 19  # products that are looked up together: 16 MB of indices


def schema_of(summary: MomentSummary) -> Schema:
    """The schema of a summary; that of plain numbers where it has none."""
    return summary.schema or plain_schema(summary.n_features, summary.feature_names)


class Side:
    """One summary of a comparison: its k values in the units of the data, then in common ones.

    Each value has its `column`, the feature `value`, the feature `seen` (the number of features for
    the constant 1) and whether it is a `number`. `share` of its cells are seen, with mean `center`
    and `deviation`. The summary counts as `n` independent rows, a value as `n_seen`.
    """

    def __init__(self, summary: MomentSummary) -> None:
        self.summary, self.schema, self.n = summary, schema_of(summary), summary.effective_rows
        columns, d = self.schema.columns, self.schema.n_features
        self.column = np.repeat(np.arange(len(columns)), [column.n_values for column in columns])
        self.value: Int = np.array(self.schema.value_features)
        seen = [self.schema.seen_of(i) for i in self.column.tolist()]
        self.seen: Int = np.array([d if s is None else s for s in seen])
        self.number = np.array([not columns[i].model.has_levels for i in self.column.tolist()])
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

    @property
    def variance(self) -> Float:
        """Variances of the values, of shape (k,)."""
        return np.asarray(self.central[2])

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


class MomentTable:
    """Moments of a summary by the indices of their factors, `one` for 1; pairs a ≤ b, (n, 2)."""

    def __init__(self, moments: Moments) -> None:
        self._moments, self.one = moments, moments.n_features
        self.pairs: Int = np.stack(np.triu_indices(self.one + 1), axis=1)

    def _products(self, degree: int) -> Float:
        """Means of all products of so many factors, the constant among them, by `_rank`."""
        m, d = self._moments, self.one
        found = np.full(comb(d + degree, degree), nan)

        def put(sets: Int, values: Float) -> None:
            filled = np.full((len(sets), degree), d)
            filled[:, : sets.shape[1]] = sets
            found[_rank(filled)] = values

        for t in range(min(m.order, degree) + 1):
            put(index_sets(d, t), m.distinct[t])
        for j in range(d):
            for q in range(min(m.squared_order, degree - 2) + 1):
                others = sets_without(d, q, j)
                put(np.insert(others, [0, 0], j, axis=1), m.squared[q][j])
            if degree == 4 and m.cubed is not None:
                put(np.insert(sets_without(d, 1, j), [0] * 3, j, axis=1), m.cubed[j])
        if degree == 4 and m.powers is not None:
            for t in (3, 4):
                put(np.repeat(np.arange(d)[:, None], t, axis=1), m.powers[t - 3])
        if degree == 4 and m.two_squares is not None:
            put(np.repeat(index_sets(d, 2), 2, axis=1), m.two_squares)
        return found

    @cached_property
    def second(self) -> Float:
        """Means of products of two factors, the constant among them."""
        table, (a, b) = np.empty((self.one + 1,) * 2), self.pairs.T
        table[a, b] = table[b, a] = self._products(2)[_rank(self.pairs)]
        return table

    def pair_numbers(self, left: Int, right: Int) -> Int:
        """Places of pairs of factors in `pairs`."""
        a, b = np.minimum(left, right), np.maximum(left, right)
        return np.asarray(a * (2 * self.one + 1 - a) // 2 + b)

    @cached_property
    def pair_covariance(self) -> Float:
        """Covariance of the products of all pairs of factors, of shape (n, n)."""
        pairs, n, products = self.pairs, len(self.pairs), self._products(4)
        mean, table = self.second[pairs[:, 0], pairs[:, 1]], np.empty((n, n))
        step = max(1, _AT_ONCE // n)
        for start in range(0, n, step):
            left = pairs[start : start + step]
            places = np.empty((len(left), n - start, 4), dtype=np.int64)
            places[..., :2], places[..., 2:] = left[:, None], pairs[start:]
            table[start : start + step, start:] = products[_rank(places)]
        table = np.triu(table) + np.triu(table, 1).T
        table -= np.outer(mean, mean)
        return table


def _rank(indices: Int) -> Int:
    """Place of products of the last axis of `indices`, whatever the order of their factors."""
    ordered = np.sort(indices, axis=-1)
    return colex_rank(ordered + np.arange(ordered.shape[-1]))

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
from momentmix.summary.column_facts import schema_of
from momentmix.summary.layout import products_of
from momentmix.summary.readings import flat_moments
from momentmix.summary.summary import MomentSummary

_AT_ONCE = 1 << 18  # products that are looked up together


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
        self.table = MomentTable(self.summary, shift, scale)
        self.mean = np.asarray(self.table.second[self.value, d] / self.share)

    @cached_property
    def location(self) -> Float:
        """Means of the values with the centers of their columns, of shape (k,)."""
        centers = np.array([self.schema.columns[i].center for i in self.column.tolist()])
        return np.asarray(self.center + centers)

    @property
    def counts_rows(self) -> bool:
        """Whether least and largest values are values of rows, and all rows count as one."""
        return self.summary.exact_bounds and self.n == self.summary.n_rows

    @cached_property
    def bounds(self) -> tuple[Float, Float]:
        """Least and largest values as features, or bounds of them; of shape (k,) each."""
        return self.summary.minimum[self.value], self.summary.maximum[self.value]

    @cached_property
    def attained(self) -> NDArray[np.bool_]:
        """Whether some row has the least, and the largest value, of shape (2, k)."""
        filled = (self.share < 1) & (np.stack(self.bounds) == 0)  # missing cells are 0, too
        return np.asarray(self.summary.exact_bounds & ~filled)

    @cached_property
    def reach(self) -> Float:
        """Largest distance of a value from the mean, or a bound of it, of shape (k,)."""
        return np.asarray(np.maximum(self.bounds[1] - self.center, self.center - self.bounds[0]))

    @cached_property
    def farther(self) -> Int:
        """The end that is farther from the mean: 0 the least value, 1 the largest; (k,)."""
        low, high = self.bounds
        return np.asarray(high - self.center > self.center - low, dtype=np.int64)

    @cached_property
    def central(self) -> Float:
        """Central moments 0 … 6 of each value over the cells that are seen; NaN if not kept."""
        raw = np.vstack([self.share, self.table.powers(self.value, 6)])
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
    """Means of products of features (y − shift)/scale, x_d = 1; pairs of factors a ≤ b, (n, 2)."""

    def __init__(self, summary: MomentSummary, shift: Float, scale: Float) -> None:
        totals = summary._totals()
        self._products, self.one = products_of(totals.layout), totals.layout.n_features
        self._values = np.append(flat_moments(totals, shift, scale), nan)
        self.pairs: Int = np.stack(np.triu_indices(self.one + 1), axis=1)

    def _means(self, names: Int) -> Float:
        """Means of products by their names; NaN for one that the summary does not keep."""
        order = np.argsort(names, axis=None)  # rising names are found several times faster
        found = np.empty(names.size)
        found[order] = self._values[self._products.places(names.ravel()[order])]
        return found.reshape(names.shape)

    def powers(self, features: Int, highest: int) -> Float:
        """Means of powers 1 … highest of features, of shape (highest, n)."""
        return self._means(np.outer(np.arange(1, highest + 1), self._products.of_feature[features]))

    @cached_property
    def second(self) -> Float:
        """Means of products of two factors, the constant among them."""
        return self._means(np.add.outer(self._products.of_feature, self._products.of_feature))

    def pair_numbers(self, left: Int, right: Int) -> Int:
        """Places of pairs of factors in `pairs`."""
        a, b = np.minimum(left, right), np.maximum(left, right)
        return np.asarray(a * (2 * self.one + 1 - a) // 2 + b)

    @cached_property
    def pair_covariance(self) -> Float:
        """Covariance of the products of all pairs of factors, of shape (n, n)."""
        names, mean = self._products.of_feature[self.pairs].sum(axis=1), self.second[*self.pairs.T]
        table, step = np.empty((len(names),) * 2), max(1, _AT_ONCE // len(names))
        for start in range(0, len(names), step):
            own = slice(start, start + step)
            table[own, start:] = self._means(np.add.outer(names[own], names[start:]))
            table[start:, own] = table[own, start:].T
        table -= np.outer(mean, mean)
        return table

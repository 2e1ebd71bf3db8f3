"""Derivative of the moment conditions, stored without its zeros.

| paper symbol | name here | shape |
|---|---|---|
| ∂ model / ∂ ω | ``by_weight`` | (n, r) |
| ∂ model_c / ∂ μ_ij, j in slot t of condition c | ``by_slot`` | (width·n, r), slot first |
| ∂ model_c / ∂ v_ij, j the squared feature of condition c | ``by_variance`` | (n_squared, r) |
| JᵀJ, rows divided by the noise | ``normal_matrix`` | (r + 2rd, r + 2rd) |
| Jᵀx | ``transposed_times`` | (r + 2rd,) or (r + 2rd, k) |

A condition names at most four of d features, so of its r·(2d + 1) derivatives only r·(1 + width)
differ from zero. A block of JᵀJ for features j, k sums over the conditions that hold both: of all
conditions a share of about 12 / d². The explicit table would be (2d + 1) / width times larger, and
its product d² / 12 times slower.

Parameters are ordered by feature here: the weights, then the means of feature 0 of all components,
those of feature 1, …, then the variances; `by_feature` translates.

Differs from the paper: (prob:nls-w mu) is left to a general solver there. The closed form of
``tensor/normal_matrix.py`` needs equal noise for all entries of an order; conditions divided by
their own noise have none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.conditions import Conditions, extended
from momentmix.mixture.parameters import Parameters, parameters_from


def by_feature(n_components: int, n_features: int) -> Int:
    """Places in `Parameters.flat` of the parameters ordered by feature, of shape (r + 2rd,)."""
    size = n_components * (1 + 2 * n_features)
    places = parameters_from(np.arange(size), n_components)
    return np.concatenate([places.weights, places.means.T.ravel(), places.variances.T.ravel()])


class Derivative(NamedTuple):
    """Non-zero derivatives of the conditions, each divided by the condition's noise."""

    conditions: Conditions
    by_weight: Float
    by_slot: Float
    by_variance: Float

    @property
    def _n_plain(self) -> int:
        return int(self.conditions.plain.shape[0])

    def normal_matrix(self, with_variances: bool = True) -> Float:
        """JᵀJ, parameters ordered by feature; without variances the leading part alone."""
        r, d = self.by_weight.shape[1], self.conditions.n_features
        groups = 1 + (2 * d if with_variances else d)
        normal = np.zeros((groups, r, groups, r))

        def put(g: int, h: int, block: Float) -> None:
            normal[g, :, h] = block
            if g != h:
                normal[h, :, g] = block.T

        put(0, 0, self.by_weight.T @ self.by_weight)
        where = self.conditions.incidence
        for j, (places, holders) in enumerate(zip(where.places, where.holders, strict=True)):
            mine = self.by_slot.take(places, axis=0)
            put(0, 1 + j, self.by_weight.take(holders, axis=0).T @ mine)
            put(1 + j, 1 + j, mine.T @ mine)
        for j, k, first, second in where.pairs:
            block = self.by_slot.take(first, axis=0).T @ self.by_slot.take(second, axis=0)
            put(1 + j, 1 + k, block)
        if with_variances:
            self._put_variances(normal)
        return normal.reshape(groups * r, groups * r)

    def _put_variances(self, normal: Float) -> None:
        d, n, n_plain = self.conditions.n_features, self.conditions.size, self._n_plain
        r, width = self.by_weight.shape[1], self.conditions.slots.shape[1]
        for j, mine in enumerate(self.conditions.incidence.squares):
            g, block = 1 + d + j, self.by_variance.take(mine, axis=0)
            normal[g, :, g] = block.T @ block
            # These conditions hold j and a few others each: few rows, all features at once.
            rows = np.zeros((mine.size, d + 2, r))
            rows[:, 0] = self.by_weight[n_plain + mine]
            for t in range(width):
                feature = self.conditions.slots[n_plain + mine, t]
                rows[np.arange(mine.size), 1 + feature] = self.by_slot[t * n + n_plain + mine]
            against = (block.T @ rows.reshape(mine.size, (d + 2) * r)).reshape(r, d + 2, r)
            normal[g, :, : d + 1] = against[:, : d + 1]
            normal[: d + 1, :, g] = against[:, : d + 1].transpose(1, 2, 0)

    def transposed_times(self, columns: Float, with_variances: bool = True) -> Float:
        """Jᵀ·columns, parameters ordered by feature; columns of shape (n,) or (n, k)."""
        parts, where = [self.by_weight.T @ columns], self.conditions.incidence
        for places, holders in zip(where.places, where.holders, strict=True):
            parts.append(self.by_slot.take(places, axis=0).T @ columns.take(holders, axis=0))
        if with_variances:
            squared = columns[self._n_plain :]
            parts += [
                self.by_variance.take(mine, axis=0).T @ squared.take(mine, axis=0)
                for mine in where.squares
            ]
        return np.concatenate(parts)

    def table(self) -> Float:
        """J itself, parameters ordered by feature, of shape (n, r + 2rd)."""
        n, d, n_plain = self.conditions.size, self.conditions.n_features, self._n_plain
        r, slots = self.by_weight.shape[1], self.conditions.slots
        full = np.zeros((n, 2 * d + 2, r))  # the last one is for the padding
        rows = np.arange(n)
        for t in range(slots.shape[1]):
            feature = np.where(slots[:, t] < d, 1 + slots[:, t], 2 * d + 1)
            full[rows, feature] = self.by_slot[t * n : (t + 1) * n]
        full[:, 0] = self.by_weight
        squared = self.conditions.squared[:, 0]
        full[rows[n_plain:], 1 + d + squared] = self.by_variance
        return full[:, : 2 * d + 1].reshape(n, (2 * d + 1) * r)


def derivative(
    conditions: Conditions, parameters: Parameters, noise: Float | None = None
) -> Derivative:
    """The derivative at `parameters`, each row divided by its `noise` (by 1 if None)."""
    slots, n, n_plain = conditions.slots, conditions.size, conditions.plain.shape[0]
    width, r = slots.shape[1], parameters.n_components
    means = np.ascontiguousarray(extended(parameters.means, 1.0).T)  # (d + 1, r)
    factors = np.empty((width, n, r))
    for t in range(width):
        np.take(means, slots[:, t], axis=0, out=factors[t])
    squared = conditions.squared[:, 0]
    mean = means[squared]
    factors[0, n_plain:] = mean**2 + extended(parameters.variances, 0.0).T[squared]
    by_slot, by_weight = _leave_one_out(factors)
    scale = np.ones((n, 1)) if noise is None else 1.0 / noise[:, None]
    by_weight *= scale
    by_slot *= scale * parameters.weights
    by_variance = by_slot[0, n_plain:].copy()
    by_slot[0, n_plain:] *= 2.0 * mean
    return Derivative(conditions, by_weight, by_slot.reshape(width * n, r), by_variance)


def _leave_one_out(factors: Float) -> tuple[Float, Float]:
    """Products over axis 0 with one factor left out, and the full product: no division."""
    width = factors.shape[0]
    others = np.empty_like(factors)
    others[0] = 1.0
    for t in range(1, width):
        np.multiply(others[t - 1], factors[t - 1], out=others[t])
    after = factors[width - 1].copy()
    for t in range(width - 2, -1, -1):
        others[t] *= after
        after *= factors[t]
    return others, after

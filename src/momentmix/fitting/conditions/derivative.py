"""Derivative of the moment conditions, stored without its zeros.

| paper symbol | name here | shape |
|---|---|---|
| ∂ model / ∂ ω | ``by_weight`` | (n, r) |
| ∂ model_c / ∂ μ_ij, j in slot t of condition c | ``by_slot`` | (width·n, r), slot first |
| ∂ model_c / ∂ v_ij, j in slot t ≤ 1 of a powered c | ``by_variance`` | (2·n_powered, r) |
| JᵀJ, rows divided by the noise | ``normal_matrix`` | (r + 2rd, r + 2rd) |
| Jᵀx | ``transposed_times`` | (r + 2rd,) or (r + 2rd, k) |

∂ E z^p / ∂ μ = p E z^(p−1) and ∂ E z^p / ∂ v = p (p − 1) / 2 · E z^(p−2).

A condition names at most four of d features, so of its r·(2d + 1) derivatives only r·(1 + width)
differ from zero. A block of JᵀJ for features j, k sums over the conditions that hold both: of all
conditions a share of about 12 / d². The explicit table would be (2d + 1) / width times larger, and
its product d² / 12 times slower.

Parameters are ordered by feature here: weights, means (feature 0 of all components, feature 1, …),
variances, covariances pair by pair; `by_feature` translates. With covariances the table is dense:
``DenseDerivative``.

Differs from the paper: (prob:nls-w mu) is left to a general solver there. The closed form of
``tensor/normal_matrix.py`` needs equal noise for all entries of an order; conditions divided by
their own noise have none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.conditions import Conditions, columns_of, gaussian_powers
from momentmix.mixture.parameters import Parameters, parameters_from


def by_feature(parameters: Parameters) -> Int:
    """Places in `Parameters.flat` of the parameters ordered by feature, of shape (r + 2rd + …,)."""
    r = parameters.n_components
    places = parameters_from(np.arange(parameters.n_places), r, parameters.blocks)
    tables = [places.means, places.variances, places.covariances]
    return np.concatenate([places.weights, *(table.T.ravel() for table in tables)])


class Derivative(NamedTuple):
    """Non-zero derivatives of the conditions, each divided by the condition's noise."""

    conditions: Conditions
    by_weight: Float
    by_slot: Float
    by_variance: Float

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
        where = self.conditions.once(_find_incidence)
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
        d, r = self.conditions.n_features, self.by_weight.shape[1]
        size = 2 * d + 2
        for j, places in enumerate(self.conditions.once(_find_incidence).powered):
            g, block = 1 + d + j, self.by_variance.take(places, axis=0)
            # These conditions hold j and a few others each: few rows, all features at once.
            rows = self._rows(self._powered_conditions(places)).reshape(places.size, size * r)
            against = (block.T @ rows).reshape(r, size, r)[:, : size - 1]
            normal[g] = against
            normal[:, :, g] = against.transpose(1, 2, 0)

    def _powered_conditions(self, places: Int) -> Int:
        """Conditions that rows of `by_variance` belong to."""
        n_plain = self.conditions.n_plain
        return n_plain + places % max(1, self.conditions.size - n_plain)

    def _rows(self, which: Int) -> Float:
        """Some rows of J by weight, means, variances and padding, of shape (k, 2d + 2, r)."""
        conditions, d = self.conditions, self.conditions.n_features
        n, n_plain, r = conditions.size, conditions.n_plain, self.by_weight.shape[1]
        full = np.zeros((which.size, 2 * d + 2, r))
        rows, slots, padding = np.arange(which.size), conditions.slots[which], 2 * d + 1
        for t in range(slots.shape[1]):
            feature = np.where(slots[:, t] < d, 1 + slots[:, t], padding)
            full[rows, feature] = self.by_slot[t * n + which]
        full[:, 0] = self.by_weight[which]
        powered = np.flatnonzero(which >= n_plain)
        for t in range(2):
            feature = slots[powered, t]
            has_power = conditions.slot_exponents[which[powered], t] > 1
            row, feature = powered[has_power], feature[has_power]
            place = t * (n - n_plain) + which[row] - n_plain
            full[row, 1 + d + feature] = self.by_variance[place]
        return full

    def transposed_times(self, columns: Float, with_variances: bool = True) -> Float:
        """Jᵀ·columns, parameters ordered by feature; columns of shape (n,) or (n, k)."""
        parts, where = [self.by_weight.T @ columns], self.conditions.once(_find_incidence)
        for places, holders in zip(where.places, where.holders, strict=True):
            parts.append(self.by_slot.take(places, axis=0).T @ columns.take(holders, axis=0))
        if with_variances:
            for places in where.powered:
                holders = self._powered_conditions(places)
                parts.append(
                    self.by_variance.take(places, axis=0).T @ columns.take(holders, axis=0)
                )
        return np.concatenate(parts)

    def table(self) -> Float:
        """J itself, parameters ordered by feature, of shape (n, r + 2rd)."""
        n, size = self.conditions.size, 2 * self.conditions.n_features + 1
        return self._rows(np.arange(n))[:, :size].reshape(n, size * self.by_weight.shape[1])


class DenseDerivative(NamedTuple):
    """All derivatives of the conditions, each divided by the condition's noise."""

    values: Float
    n_means: int  # weights and means together: what moves without variances

    def normal_matrix(self, with_variances: bool = True) -> Float:
        """JᵀJ, parameters ordered by feature; without variances the leading part alone."""
        return gram(self._part(with_variances))

    def transposed_times(self, columns: Float, with_variances: bool = True) -> Float:
        """Jᵀ·columns, parameters ordered by feature; columns of shape (n,) or (n, k)."""
        return np.asarray(self._part(with_variances).T @ columns)

    def table(self) -> Float:
        """J itself, parameters ordered by feature."""
        return self.values

    def _part(self, with_variances: bool) -> Float:
        return self.values if with_variances else self.values[:, : self.n_means]


def derivative(
    conditions: Conditions, parameters: Parameters, noise: Float | None = None
) -> Derivative | DenseDerivative:
    """The derivative at `parameters`, each row divided by its `noise` (by 1 if None)."""
    if not parameters.blocks.is_diagonal:
        return _by_blocks(conditions, parameters, noise)
    slots, n, n_plain = conditions.slots, conditions.size, conditions.n_plain
    width, r = slots.shape[1], parameters.n_components
    powers = columns_of(gaussian_powers(parameters, conditions.highest_exponent))  # (…, d + 1, r)
    factors = np.empty((width, n, r))
    for t in range(width):
        np.take(powers[1], slots[:, t], axis=0, out=factors[t])
    exponents, features = conditions.exponents, conditions.powered[:, :2]
    for t in range(2):
        factors[t, n_plain:] = powers[exponents[:, t], features[:, t]]
    by_slot, by_weight = _leave_one_out(factors)
    scale = np.ones((n, 1)) if noise is None else 1.0 / noise[:, None]
    by_weight *= scale
    by_slot *= scale * parameters.weights
    by_variance = np.zeros((2, n - n_plain, r))
    for t in range(2):
        p, feature, slope = exponents[:, t], features[:, t], by_slot[t, n_plain:]
        two_less = powers[np.maximum(p - 2, 0), feature]
        by_variance[t] = slope * two_less * (p * (p - 1) / 2)[:, None]
        slope *= powers[p - 1, feature] * p[:, None]
    return Derivative(
        conditions, by_weight, by_slot.reshape(width * n, r), by_variance.reshape(-1, r)
    )


def gram(table: Float) -> Float:
    """tableᵀ table by a symmetric product, which takes half the operations."""
    if not table.size:  # which BLAS refuses
        return np.zeros((table.shape[1], table.shape[1]))
    # Upper triangle; what is Fortran-ordered is not copied, and rows of it are copied by columns.
    is_fortran = table.strides[0] < table.strides[1]
    half = dsyrk(1.0, table, trans=1) if is_fortran else dsyrk(1.0, table.T)
    return np.asarray(half + np.triu(half, 1).T)


def _by_blocks(
    conditions: Conditions, parameters: Parameters, noise: Float | None
) -> DenseDerivative:
    """The derivative by the factors of each condition, one for each block."""
    monomials, (r, d) = conditions.by_block(parameters.blocks), parameters.means.shape
    moments, slopes = monomials.moments_and_slopes(parameters), monomials.slopes
    others, by_weight = _leave_one_out(moments[monomials.slots.T])
    scale = np.ones((conditions.size, 1)) if noise is None else 1.0 / noise[:, None]
    others *= scale * parameters.weights
    table = np.zeros((conditions.size, parameters.blocks.n_places, r))
    table[:, 0] = by_weight * scale
    values = others[slopes.slots, slopes.rows] * moments[slopes.monomials]
    table[slopes.rows, 1 + slopes.columns] = values * slopes.factors[:, None]
    return DenseDerivative(table.reshape(conditions.size, -1), r * (1 + d))


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


class _Incidence(NamedTuple):
    """Conditions of each feature and pair of features, from the index sets alone.

    For each feature: its rows of ``by_slot`` (`places`), its conditions, and its rows of
    ``by_variance``. For each pair j < k: rows of ``by_slot`` for j and for k.
    """

    places: list[Int]
    holders: list[Int]
    pairs: list[tuple[int, int, Int, Int]]
    powered: list[Int]


def _find_incidence(conditions: Conditions) -> _Incidence:
    slots, exponents = conditions.slots, conditions.slot_exponents
    n, n_plain, d = conditions.size, conditions.n_plain, conditions.n_features
    places, holders, powered = [], [], []
    for j in range(d):
        condition, slot = np.nonzero(slots == j)
        places.append(slot * n + condition)
        holders.append(condition)
        high = exponents[condition, slot] > 1
        powered.append(slot[high] * (n - n_plain) + condition[high] - n_plain)
    rows = np.arange(n)
    keys, left, right = [], [], []
    for t in range(slots.shape[1]):
        for u in range(slots.shape[1]):
            both = (slots[:, t] < slots[:, u]) & (slots[:, u] < d)
            keys.append(slots[both, t] * d + slots[both, u])
            left.append(t * n + rows[both])
            right.append(u * n + rows[both])
    key = np.concatenate(keys)
    order = np.argsort(key, kind="stable")
    key, first, second = key[order], np.concatenate(left)[order], np.concatenate(right)[order]
    codes, starts = np.unique(key, return_index=True)
    ends = np.append(starts, key.size)[1:]
    pairs = [
        (int(code // d), int(code % d), first[start:end], second[start:end])
        for code, start, end in zip(codes, starts, ends, strict=True)
    ]
    return _Incidence(places, holders, pairs, powered)

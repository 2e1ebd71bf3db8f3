"""Moment conditions: which products of features are matched, and their model side.

| paper symbol | name here | shape |
|---|---|---|
| E Π_{i∈I} z_i = Σ_c ω_c Π μ_ci | exponents 1 | |
| E z_j² z_I = Σ_c ω_c (μ_cj² + v_cj) Π μ_ci | exponents 2, 1, … | |
| E z_j^p, E z_j³ z_k, E z_j² z_k² | | |
| features of each condition, padded with d | ``slots`` | (n, width) |
| their exponents, padded with 0 | ``slot_exponents`` | (n, width) |
| observed means, model means | ``values``, ``model`` | (n,) |
| Var of one row's product | ``row_variances`` | (n,) |

Differs from the paper: (prob:nls-w mu) uses orders m and t only and no squares. Here all orders up
to 4 take part, and the squares carry information about the means as well as the variances. Powers
above 2 and products of two squares are no part of the paper: see ``standard_moments.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.fitting.moments.monomials import BlockMonomials, gaussian_powers
from momentmix.fitting.moments.standard_moments import StandardMoments, new_products
from momentmix.index_sets import index_sets, sets_without
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks, one_a_block
from momentmix.mixture.parameters import Parameters


@dataclass(frozen=True)
class Conditions:
    """A set of moment conditions.

    Their order: plain products, products with one square, pairs (z_j³ z_k and z_j² z_k²), and
    powers above 2 of single features (the shape of a column).
    """

    n_features: int
    slots: Int
    slot_exponents: Int
    values: Float

    @property
    def size(self) -> int:
        """Number of conditions."""
        return int(self.values.size)

    @lazy_property
    def is_shape(self) -> NDArray[np.bool_]:
        """Which conditions are a power above 2 of a single feature."""
        return np.asarray((self.slot_exponents > 2).any(axis=1) & (self._n_used == 1))

    @lazy_property
    def is_pair(self) -> NDArray[np.bool_]:
        """Which conditions are a cube times a feature, or a product of two squares."""
        excess = np.maximum(self.slot_exponents - 1, 0).sum(axis=1)
        return np.asarray((excess == 2) & (self._n_used == 2))

    @property
    def _n_used(self) -> Int:
        return np.asarray((self.slot_exponents > 0).sum(axis=1))

    @property
    def n_low(self) -> int:
        """Number of products of distinct features with at most one square; they come first."""
        return int((~self.is_pair & ~self.is_shape).sum())

    def subset(self, keep: Int) -> Conditions:
        """Some of the conditions; `keep` increases."""
        slots, exponents = self.slots[keep], self.slot_exponents[keep]
        return Conditions(self.n_features, slots, exponents, self.values[keep])

    @property
    def without_sum(self) -> Conditions:
        """All but the first one, which says that the weights sum to 1."""
        return self.subset(np.arange(1, self.size))

    @lazy_property
    def _monomials(self) -> dict[tuple[Blocks, int], BlockMonomials]:
        return {}

    def by_block(self, blocks: Blocks, power: int = 1) -> BlockMonomials:
        """The conditions, or powers of them, as products over blocks; made once."""
        key = blocks, power
        if key not in self._monomials:
            exponents = np.zeros((self.size, self.n_features + 1), dtype=np.int64)
            np.put_along_axis(exponents, self.slots, power * self.slot_exponents, axis=1)
            self._monomials[key] = BlockMonomials(exponents[:, :-1], blocks)
        return self._monomials[key]

    @property
    def highest_exponent(self) -> int:
        """Largest exponent of a feature, at least 2."""
        return int(self.slot_exponents.max(initial=2))

    def products(self, powers: Float) -> Float:
        """Multiply `powers` (highest + 1, r, d) of points, or moments, over conditions; (n, r)."""
        count, r, d = powers.shape
        columns = np.ones((count, d + 1, r))
        columns[:, :d] = powers.transpose(0, 2, 1)
        columns = columns.reshape(-1, r)
        codes = self.slot_exponents * (d + 1) + self.slots
        result = columns.take(codes[:, 0], axis=0)
        for code in codes.T[1:]:
            result *= columns.take(code, axis=0)
        return np.asarray(result)

    def model(self, parameters: Parameters) -> Float:
        """Model side of each condition, of shape (n,)."""
        return self.by_block(parameters.blocks).model(parameters)

    def row_variances(self, parameters: Parameters) -> Float:
        """Variance of one row's product under the mixture, in closed form; (n,)."""
        raw = self.by_block(parameters.blocks, 2).model(parameters)
        # Rounding errors of the difference are about 1e-16·raw: it must stay clear of zero.
        return np.asarray(
            np.maximum(raw - self.model(parameters) ** 2, 1e-12 * (1.0 + np.abs(raw)))
        )


def feature_powers(parameters: Parameters, highest: int) -> Float:
    """E z^p of each component and feature, p = 0 … `highest`, of shape (highest + 1, r, d)."""
    powers = gaussian_powers(parameters, highest)
    for law in parameters.blocks.laws:
        for place, j in enumerate(law.features):
            exponents = np.zeros((highest + 1, len(law.features)), dtype=np.int64)
            exponents[:, place] = np.arange(highest + 1)
            powers[:, :, j] = law.moments(*parameters.of_law(law), exponents)
    return powers


def point_powers(points: Float, highest: int) -> Float:
    """Powers 0 … `highest` of points (n, d), of shape (highest + 1, n, d)."""
    powers = np.ones((highest + 1, *points.shape))
    np.cumprod(np.broadcast_to(points, (highest, *points.shape)), axis=0, out=powers[1:])
    return powers


class _SameKind(NamedTuple):
    """Conditions of one kind and order: features, powered ones first, and observed means."""

    order: int
    exponents: tuple[int, int]
    sets: Int
    values: Float

    def kept(self, rows: NDArray[np.bool_] | Int) -> _SameKind:
        """Some of the conditions, by number or mask."""
        return self._replace(sets=self.sets[rows], values=self.values[rows])


def _low_groups(moments: StandardMoments, highest: int, squared_order: int) -> list[_SameKind]:
    """Conditions of distinct features with at most one square, the lowest orders first."""
    d = moments.n_features
    groups = [
        _SameKind(s, (1, 1), index_sets(d, s), moments.orders[s])
        for s in range(min(highest, moments.order) + 1)
    ]
    for q in range(min(squared_order, len(moments.squared) - 1) + 1):
        for j in range(d):
            others = sets_without(d, q, j)
            sets = np.concatenate([np.full((others.shape[0], 1), j), others], axis=1)
            groups.append(_SameKind(q + 2, (2, 1), sets, moments.squared[q][j]))
    return sorted(groups, key=lambda group: group.order)


def _pair_groups(moments: StandardMoments) -> list[_SameKind]:
    """Conditions z_j³ z_k and z_j² z_k², as far as the moments hold them."""
    d, groups = moments.n_features, []
    if moments.cubed is not None:
        every = np.stack(np.divmod(np.arange(d * d), d), axis=1)
        sets = every[every[:, 0] != every[:, 1]]
        groups.append(_SameKind(4, (3, 1), sets, moments.cubed.ravel()))
    if moments.two_squares is not None:
        groups.append(_SameKind(4, (2, 2), index_sets(d, 2), moments.two_squares))
    return groups


def _limited(
    groups: list[_SameKind], limit: int | None, rng: np.random.Generator | None
) -> list[_SameKind]:
    """A random share of the conditions where there are more than `limit`."""
    count = sum(group.values.size for group in groups)
    if limit is None or count <= limit:
        return groups
    assert rng is not None
    share, sizes = limit / count, [group.values.size for group in groups]
    chosen = [np.sort(rng.permutation(size)[: int(share * size)]) for size in sizes]
    return [group.kept(rows) for group, rows in zip(groups, chosen, strict=True)]


def build_conditions(
    moments: StandardMoments,
    highest: int,
    squared_order: int = -1,
    limit: int | None = None,
    rng: np.random.Generator | None = None,
    highest_power: int = 2,
    blocks: Blocks | None = None,
) -> Conditions:
    """Conditions of all orders up to `highest`, and squares with up to `squared_order` others.

    Where there are more than `limit`, the lowest orders are complete and a random share of the
    order that exceeds the limit is taken. Constant columns take no part. With `highest_power` above
    2, powers of single features up to it and pairs (z_j³ z_k, z_j² z_k²) take part as far as the
    moments hold them, of more than a quarter of `limit` pairs a random share. With `blocks`,
    products of distinct features hold at most one feature of each.
    """
    d, is_new = moments.n_features, new_products(moments.n_features, moments.laws)

    def usable(group: _SameKind) -> _SameKind:
        """Without constant columns, unknown means, and identities."""
        known = (~moments.constant[group.sets]).all(axis=1) & ~np.isnan(group.values)
        return group.kept(known & is_new(group.sets, group.exponents))

    low_groups = [usable(group) for group in _low_groups(moments, highest, squared_order)]
    if blocks is not None and not blocks.is_diagonal:
        low_groups = [group.kept(one_a_block(group.sets, blocks)) for group in low_groups]
    chosen, left = list[_SameKind](), limit
    for _, same_order in groupby(low_groups, lambda g: g.order):
        groups = list(same_order)
        chosen += _limited(groups, left, rng)
        if left is not None:
            left = max(0, left - sum(group.values.size for group in groups))
    groups = sorted(chosen, key=lambda group: group.exponents)  # plain ones first
    if highest_power > 2:
        pairs = [usable(group) for group in _pair_groups(moments)]
        groups += _limited(pairs, None if limit is None else limit // 4, rng)
        powers = () if moments.powers is None else moments.powers[: highest_power - 2]
        for p, values in enumerate(powers, 3):
            groups.append(usable(_SameKind(p, (p, 1), np.arange(d)[:, None], values)))
    n, width = sum(len(g.sets) for g in groups), max(1, *(g.sets.shape[1] for g in groups))
    slots, exponents, start = np.full((n, width), d), np.zeros((n, width), np.int64), 0
    for group in groups:
        stop, size = start + len(group.sets), group.sets.shape[1]
        slots[start:stop, :size], exponents[start:stop, :size] = group.sets, 1
        exponents[start:stop, : min(size, 2)] = group.exponents[:size]
        start = stop
    return Conditions(d, slots, exponents, np.concatenate([g.values for g in groups]))

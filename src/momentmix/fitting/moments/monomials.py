"""Conditions as products over blocks of features: moments, derivatives, covariances.

| symbol | name here | shape |
|---|---|---|
| u: a monomial of one block; number 0 is the constant 1 | ``BlockMonomials.all`` | |
| features of u, their exponents, the numbers of u / z_j | ``parts`` | (n_monomials, width), … |
| Π over blocks of u_b = a condition | ``BlockMonomials.slots`` | (n, width) |
| E_i[u] | ``BlockMonomials.moments`` | (n_monomials, r) |
| ∂ E_i[u] / ∂ μ_j, ∂ E_i[u] / ∂ Σ_jk = factor · E_i[u'] | ``Slopes`` | |
| E_i[u v] of all u, v of one block | ``BlockMonomials.products`` | (r, m, m) |

Given the component, blocks are independent: the mean of a product is the product of the blocks'
means. Within a block, Stein's identity takes one feature off at a time:
E[z_j u] = μ_j E[u] + Σ_k Σ_jk E[∂u/∂z_k]. So the monomials are closed under division, and
∂E[u]/∂μ_j = E[∂u/∂z_j], ∂E[u]/∂Σ_jk = E[∂²u/∂z_j ∂z_k], half of it where j = k.
Blocks with distributions of their own have their moments and derivatives; the derivatives follow
the moments of all monomials in one table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.distribution import Distribution
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters

_Monomial = tuple[tuple[int, int], ...]  # features, ascending, and their exponents above 0


class Slopes(NamedTuple):
    """Derivatives of conditions that differ from 0: one for each condition and parameter.

    `columns` is the parameter of one component (means, then variances, covariances), and `slots`
    which of the condition's factors depends on it. The factor's derivative is `factors` times the
    moment of `monomials`.
    """

    rows: Int
    columns: Int
    slots: Int
    factors: Float
    monomials: Int

    def kept(self, mask: NDArray[np.bool_]) -> Slopes:
        """Some of the derivatives."""
        rows, columns, slots = (x[mask] for x in (self.rows, self.columns, self.slots))
        return Slopes(rows, columns, slots, self.factors[mask], self.monomials[mask])


class _Parts(NamedTuple):
    """Of each monomial u its features j, their exponents and the numbers of u / z_j, padded."""

    features: Int
    exponents: Int
    lower: Int


class _SteinStep(NamedTuple):
    """BlockMonomials z_j u of one degree: features j, numbers of u, and the terms of ∂u/∂z."""

    monomials: Int
    features: Int
    before: Int
    places: Int  # of Σ_jk in a spread, (m, width)
    factors: Float
    lower: Int


class _OfDistribution(NamedTuple):
    """The monomials of a block with a distribution of its own."""

    distribution: Distribution
    numbers: Int
    exponents: Int  # (n, k)

    @property
    def curved(self) -> Int:
        """Which are no features themselves, whose derivative is 1."""
        return np.flatnonzero(self.exponents.sum(axis=1) > 1)


class BlockMonomials:
    """The monomials of a list of conditions by blocks, closed under division.

    Made of the exponents of each condition, (n, d). `slots` are numbers of each condition's
    factors, one for each of its blocks, padded with 0.
    """

    def __init__(self, exponents: Int, blocks: Blocks) -> None:
        self.blocks, self._number = blocks, dict[_Monomial, int]({(): 0})
        numbers = np.zeros((len(exponents), len(blocks.partition)), dtype=np.int64)
        ends = []
        for place, features in enumerate(blocks.partition):
            own = exponents[:, features]
            rows = np.flatnonzero(own.any(axis=1))
            distinct, which = np.unique(own[rows], axis=0, return_inverse=True)
            named = [self._added(zip(features, e, strict=True)) for e in distinct.tolist()]
            numbers[rows, place] = np.array(named, dtype=np.int64)[which.ravel()]
            ends.append(len(self._number))
        width = max(1, int((numbers > 0).sum(axis=1).max(initial=0)))
        self.factors, self.slots = numbers, np.sort(numbers, axis=1)[:, -width:].copy()
        self.all, self._ends = list(self._number), np.array(ends)
        self.parts = self._divisions()
        self.of_distributions = [self._of(x) for x in blocks.laws]
        # Where the derivatives of a distribution's monomials begin.
        self._first_slope = np.zeros(len(self.all), dtype=np.int64)
        start = len(self.all)
        for part in self.of_distributions:
            width = 2 * len(part.distribution.features)
            own = part.numbers[part.curved]
            self._first_slope[own] = start + width * np.arange(own.size)
            start += width * own.size

    def _added(self, powers: object) -> int:
        monomial = tuple((j, e) for j, e in powers if e)  # type: ignore[attr-defined]
        if monomial not in self._number:
            for place in range(len(monomial)):
                self._added(_divided(monomial, place))
            self._number[monomial] = len(self._number)
        return self._number[monomial]

    def _divisions(self) -> _Parts:
        shape = len(self.all), max(map(len, self.all), default=1) or 1
        parts = _Parts(*(np.zeros(shape, dtype=np.int64) for _ in range(3)))
        for i, u in enumerate(self.all):
            for t, (j, e) in enumerate(u):
                lower = self._number[_divided(u, t)]
                parts.features[i, t], parts.exponents[i, t], parts.lower[i, t] = j, e, lower
        return parts

    def of_block(self, place: int) -> Int:
        """Numbers of the monomials of a block, the constant first."""
        first = int(self._ends[place - 1]) if place else 1
        return np.append(0, np.arange(first, self._ends[place]))

    def _of(self, distribution: Distribution) -> _OfDistribution:
        features = list(distribution.features)
        numbers = self.of_block(int(self.blocks.block_of[features[0]]))[1:]
        exponents = np.zeros((numbers.size, len(features)), dtype=np.int64)
        for row, number in enumerate(numbers.tolist()):
            for j, e in self.all[number]:
                exponents[row, features.index(j)] = e
        return _OfDistribution(distribution, numbers, exponents)

    # -- moments ----------------------------------------------------------------------------------

    @lazy_property
    def _place_of(self) -> Int:
        """Place of Σ_jk in a spread, (d, d)."""
        table = np.zeros((self.blocks.n_features,) * 2, dtype=np.int64)
        for pair, place in self.blocks.place_of.items():
            table[pair] = place
        return table

    @lazy_property
    def _steps(self) -> list[_SteinStep]:
        degrees, parts = self.parts.exponents.sum(axis=1), self.parts
        degrees[np.concatenate([np.zeros(0, int), *(x.numbers for x in self.of_distributions)])] = 0
        steps = []
        for degree in range(1, int(degrees.max(initial=0)) + 1):
            own = np.flatnonzero(degrees == degree)
            j, before = parts.features[own, 0], parts.lower[own, 0]
            width = int((parts.exponents[before] > 0).sum(axis=1).max(initial=0))
            features, factors, lower = (table[before, :width] for table in parts)
            places = self._place_of[j[:, None], features]
            steps.append(_SteinStep(own, j, before, places, factors.astype(float), lower))
        return steps

    def moments(self, parameters: Parameters) -> Float:
        """E_i[u] of all monomials, of shape (n_monomials, r)."""
        means, spread = parameters.means.T, np.ascontiguousarray(parameters.spread.T)
        table = np.ones((len(self.all), parameters.n_components))
        for step in self._steps:
            values = means[step.features] * table[step.before]
            for t in range(step.places.shape[1]):
                covariances = spread[step.places[:, t]] * step.factors[:, t, None]
                values += covariances * table[step.lower[:, t]]
            table[step.monomials] = values
        for x, numbers, exponents in self.of_distributions:
            table[numbers] = x.moments(*parameters.of_law(x), exponents)
        return table

    def model(self, parameters: Parameters) -> Float:
        """Model side of each condition, of shape (n,)."""
        table = self.moments(parameters)
        values = table[self.slots[:, 0]]
        for t in range(1, self.slots.shape[1]):
            values *= table[self.slots[:, t]]
        return np.asarray(values @ parameters.weights)

    # -- derivatives ------------------------------------------------------------------------------

    def moments_and_slopes(self, parameters: Parameters) -> Float:
        """Moments of all monomials, and behind them derivatives of those of distributions."""
        tables = [self.moments(parameters)]
        for part in self.of_distributions:
            x, exponents = part.distribution, part.exponents[part.curved]
            slopes = x.slopes(*parameters.of_law(x), exponents)
            tables.append(slopes.reshape(-1, parameters.n_components))
        return np.concatenate(tables)

    @lazy_property
    def slopes(self) -> Slopes:
        """Derivatives of the conditions by means, variances and covariances."""
        d, (features, exponents, lower) = self.blocks.n_features, self.parts
        is_gaussian = np.ones(len(self.all), dtype=bool)
        for part in self.of_distributions:
            is_gaussian[part.numbers] = False
        is_simple, terms = is_gaussian | (exponents.sum(axis=1) == 1), [np.zeros((4, 0))]
        for j, e, once in zip(features.T, exponents.T, lower.T, strict=True):
            own = np.flatnonzero((e > 0) & is_simple)
            terms.append(np.array([own, j[own], e[own], once[own]]))
            for s in range(features.shape[1]):
                k = features[once, s]
                f = e * exponents[once, s] * np.where(j < k, 1.0, 0.5)
                own = np.flatnonzero((f > 0) & (j <= k) & is_gaussian)
                places = d + self._place_of[j[own], k[own]]
                terms.append(np.array([own, places, f[own], lower[once[own], s]]))
        for part in self.of_distributions:
            own, numbers = np.array(part.distribution.features), part.numbers[part.curved]
            for offset in (0, d):
                following = np.ones((4, numbers.size, own.size))
                following[0], following[1] = numbers[:, None], offset + own
                first = self._first_slope[numbers][:, None] + own.size * (offset > 0)
                following[3] = first + np.arange(own.size)
                terms.append(following.reshape(4, -1))
        # From factors to conditions.
        table = np.hstack(terms)
        table = table[:, np.argsort(table[0], kind="stable")]
        lengths = np.bincount(table[0].astype(np.int64), minlength=len(self.all))
        starts = np.cumsum(lengths) - lengths
        rows, slots = np.nonzero(self.slots)
        numbers = self.slots[rows, slots]
        counts = lengths[numbers]
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        _, columns, factors, monomials = table[:, np.repeat(starts[numbers], counts) + inside]
        return Slopes(
            np.repeat(rows, counts), columns.astype(np.int64), np.repeat(slots, counts), factors,
            monomials.astype(np.int64),
        )  # fmt: skip

    # -- products of two --------------------------------------------------------------------------

    def products(self, parameters: Parameters, moments: Float) -> list[tuple[Int, Float]]:
        """For each block the numbers within it of each condition's factor, and E_i[u v].

        Number 0 is the constant 1; shapes (n,) and (r, m, m).
        """
        tables, others = [], {x.distribution.features: x for x in self.of_distributions}
        powers = gaussian_powers(parameters, 2 * int(self.parts.exponents.max(initial=1)))
        for place, features in enumerate(self.blocks.partition):
            numbers = self.of_block(place)
            if features in others:
                x, _, exponents = others[features]
                exponents = np.vstack([np.zeros_like(features), exponents])
                table = x.products(*parameters.of_law(x), exponents)
            elif len(features) == 1:  # z^a z^b = z^(a + b)
                degrees = self.parts.exponents[numbers, 0]
                table = powers[degrees[:, None] + degrees, :, features[0]].transpose(2, 0, 1)
            else:
                table = self._gaussian_products(numbers, parameters, moments)
            own = self.factors[:, place]
            tables.append((np.where(own > 0, own - numbers[1:2].sum() + 1, 0), table))
        return tables

    def _gaussian_products(self, numbers: Int, p: Parameters, moments: Float) -> Float:
        """E[z_j u v] = μ_j E[u v] + Σ_k Σ_jk (E[∂u/∂z_k v] + E[u ∂v/∂z_k]), degree by degree."""
        features, exponents, lower = (table[numbers] for table in self.parts)
        lower = np.searchsorted(numbers, lower)
        degrees, width = exponents.sum(axis=1), int((exponents > 0).sum(axis=1).max(initial=0))
        tables = np.empty((p.n_components, numbers.size, numbers.size))
        for table, first, means, matrix in zip(
            tables, moments[numbers].T, p.means, p.matrices, strict=True
        ):
            table[0] = first
            for degree in range(1, int(degrees.max(initial=0)) + 1):
                own = np.flatnonzero(degrees == degree)
                j, before = features[own, 0], lower[own, 0]
                values = means[j, None] * table[before]
                for t in range(width):
                    factors = matrix[j, features[before, t]] * exponents[before, t]
                    values += factors[:, None] * table[lower[before, t]]
                    factors = matrix[j[:, None], features[:, t]] * exponents[:, t]
                    values += factors * table[before[:, None], lower[:, t]]
                table[own] = values
        return np.asarray(0.5 * (tables + tables.swapaxes(1, 2)))  # symmetric to the last bit


def gaussian_powers(parameters: Parameters, highest: int) -> Float:
    """E z^p of each component and feature, p = 0 … `highest`, of shape (highest + 1, r, d)."""
    m, v = parameters.means, parameters.variances
    powers = np.empty((highest + 1, *m.shape))
    powers[0], powers[1] = 1.0, m
    for p in range(1, highest):
        powers[p + 1] = m * powers[p] + p * v * powers[p - 1]
    return powers


def _divided(u: _Monomial, place: int) -> _Monomial:
    """A monomial divided by its feature at a place."""
    j, e = u[place]
    middle = ((j, e - 1),) if e > 1 else ()
    return (*u[:place], *middle, *u[place + 1 :])

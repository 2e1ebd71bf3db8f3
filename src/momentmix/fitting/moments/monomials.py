"""Monomials within blocks of features, and their Gaussian moments.

| symbol | name here | shape |
|---|---|---|
| u: a monomial of one block; number 0 is the constant 1 | ``BlockMonomials.monomials`` | |
| Π over blocks of u_b = a condition | ``BlockMonomials.slots`` | (n, width) |
| E_i[u] | ``BlockMonomials.moments`` | (n_monomials, r) |
| ∂ E_i[u] / ∂ μ_j, ∂ E_i[u] / ∂ Σ_jk = factor · E_i[u'] | ``Slopes`` | |

Given the component, blocks are independent: the mean of a product is the product of the blocks'
means. Within a block, Stein's identity takes one feature off at a time:
E[z_j u] = μ_j E[u] + Σ_k Σ_jk E[∂u/∂z_k]. So the monomials are closed under division.
``covariance.py`` has the moments of products of two.

Laws of other blocks give the moments of their monomials and the derivatives of these, which follow
the moments of all monomials in one table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.families.distribution import Distribution
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters

Monomial = tuple[tuple[int, int], ...]  # features, ascending, and their exponents above 0


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


class LawMonomials(NamedTuple):
    """The monomials of a block that has a law of its own."""

    law: Distribution
    numbers: Int
    exponents: Int  # (n, k)

    def moments(self, parameters: Parameters) -> Float:
        """E_i[u], of shape (n, r)."""
        return self.law.moments(*parameters.of_law(self.law), self.exponents)

    def slopes(self, parameters: Parameters) -> Float:
        """∂ E_i[u] by means and variances, monomial by monomial, of shape (2k·n, r).

        Not of the features themselves: the derivative of a mean by itself is 1.
        """
        exponents = self.exponents[self.exponents.sum(axis=1) > 1]
        table = self.law.slopes(*parameters.of_law(self.law), exponents)
        return table.reshape(-1, parameters.n_components)


class _SteinStep(NamedTuple):
    """m monomials of one degree, made from monomials of lower degrees."""

    monomials: Int
    features: Int
    before: Int
    places: Int  # of Σ_jk in a spread, (m, n_terms)
    factors: Float
    lower: Int


class BlockMonomials:
    """The monomials of a list of conditions by blocks, closed under division.

    Made of features and exponents of each condition, (n, width), padded with d and 0. `slots` are
    numbers of each condition's factors, one for each of its blocks, padded with 0; `number` is the
    inverse of `monomials`, and `block` of the constant is −1.
    """

    def __init__(self, slots: Int, exponents: Int, blocks: Blocks) -> None:
        self.blocks, self.number = blocks, dict[Monomial, int]()
        self.number[()] = 0
        self.slots = self._factors(slots, exponents)
        self.monomials = list(self.number)
        own = [int(blocks.block_of[u[0][0]]) for u in self.monomials[1:]]
        self.block = np.array([-1, *own], dtype=np.int64)
        self.of_laws = [self._of_law(law) for law in blocks.laws]
        self._has_law, self._has_slopes = (
            np.zeros(len(self.monomials), dtype=bool) for _ in range(2)
        )
        # Where the derivatives of a law's monomials begin, behind the moments of all monomials.
        self._first_slope = np.zeros(len(self.monomials), dtype=np.int64)
        start = len(self.monomials)
        for part in self.of_laws:
            self._has_law[part.numbers] = True
            curved = part.numbers[part.exponents.sum(axis=1) > 1]
            self._has_slopes[curved] = True
            width = 2 * len(part.law.features)
            self._first_slope[curved] = start + width * np.arange(curved.size)
            start += width * curved.size
        self._steps = self._find_steps()
        self.pairs: list[Any] = []  # what `block_products` finds once

    def _factors(self, features: Int, exponents: Int) -> Int:
        """Numbers of each condition's factors by block; new ones are added with their divisors."""
        used = exponents > 0
        block = np.where(
            used, np.append(self.blocks.block_of, -1)[features], self.blocks.n_features
        )
        order = np.lexsort((features, block))
        features, exponents, block = (
            np.take_along_axis(x, order, axis=1) for x in (features, exponents, block)
        )
        used = exponents > 0
        # A factor begins where the block changes; a row of `parts` has its features and exponents.
        begins = used.copy()
        begins[:, 1:] &= block[:, 1:] != block[:, :-1]
        rows, columns = np.nonzero(used)
        factor = np.cumsum(begins[used]) - 1
        first = np.flatnonzero(begins[used])
        longest = int(np.bincount(factor).max(initial=0))
        parts = np.zeros((first.size, 2 * longest), dtype=np.int64)
        inside = 2 * (np.arange(rows.size) - first[factor])
        parts[factor, inside], parts[factor, inside + 1] = features[used], exponents[used]
        # As np.unique, whose comparison of rows byte by byte takes ten times as long.
        order = np.lexsort(parts.T[::-1]) if longest else np.arange(0)
        is_new = np.ones(order.size, dtype=bool)
        is_new[1:] = (parts[order[1:]] != parts[order[:-1]]).any(axis=1)
        places, which = order[is_new], np.empty(order.size, dtype=np.int64)
        which[order] = np.cumsum(is_new) - 1
        distinct = parts[places]
        numbers = np.empty(len(distinct), dtype=np.int64)
        for place in np.argsort(places).tolist():
            pairs = distinct[place].reshape(-1, 2).tolist()
            numbers[place] = self._added(tuple((j, e) for j, e in pairs if e))
        within = np.cumsum(begins, axis=1) - 1
        slots = np.zeros((len(features), max(1, int(within.max(initial=0)) + 1)), dtype=np.int64)
        slots[rows[first], within[rows[first], columns[first]]] = numbers[which]
        return slots

    def _added(self, monomial: Monomial) -> int:
        number = self.number.get(monomial)
        if number is not None:
            return number
        for place in range(len(monomial)):
            self._added(divided(monomial, place))
        return self.number.setdefault(monomial, len(self.number))

    def _of_law(self, law: Distribution) -> LawMonomials:
        place = {j: t for t, j in enumerate(law.features)}
        numbers = np.flatnonzero(self.block == self.blocks.block_of[law.features[0]])
        exponents = np.zeros((numbers.size, len(place)), dtype=np.int64)
        for row, number in enumerate(numbers.tolist()):
            for j, e in self.monomials[number]:
                exponents[row, place[j]] = e
        return LawMonomials(law, numbers, exponents)

    def _find_steps(self) -> list[_SteinStep]:
        by_degree = defaultdict[int, list[int]](list)
        for number, u in enumerate(self.monomials[1:], 1):
            if not self._has_law[number]:
                by_degree[degree(u)].append(number)
        steps = []
        for _, numbers in sorted(by_degree.items()):
            terms = [self._stein_terms(self.monomials[number]) for number in numbers]
            width = max(len(t[2]) for t in terms)
            padded = [t[2] + [(0, 0.0, 0)] * (width - len(t[2])) for t in terms]
            table = np.array(padded, dtype=float).reshape(len(numbers), width, 3)
            places, lower = (table[:, :, t].astype(np.int64) for t in (0, 2))
            features, before = np.array([t[:2] for t in terms], dtype=np.int64).T
            steps.append(
                _SteinStep(np.array(numbers), features, before, places, table[:, :, 1], lower)
            )
        return steps

    def _stein_terms(self, u: Monomial) -> tuple[int, int, list[tuple[int, float, int]]]:
        """Feature j taken off, number of u / z_j, and place, factor and number of each term."""
        j, rest = u[-1][0], divided(u, len(u) - 1)
        terms = [
            (self.blocks.place_of[j, k], float(e), self.number[divided(rest, place)])
            for place, (k, e) in enumerate(rest)
        ]
        return j, self.number[rest], terms

    def moments(self, parameters: Parameters) -> Float:
        """E_i[u] of all monomials, of shape (n_monomials, r)."""
        means, spread = parameters.means.T, np.ascontiguousarray(parameters.spread.T)
        table = np.ones((len(self.monomials), parameters.n_components))
        for step in self._steps:
            values = means[step.features] * table[step.before]
            for t in range(step.places.shape[1]):
                covariances = spread[step.places[:, t]] * step.factors[:, t, None]
                values += covariances * table[step.lower[:, t]]
            table[step.monomials] = values
        for part in self.of_laws:
            table[part.numbers] = part.moments(parameters)
        return table

    def moments_and_slopes(self, parameters: Parameters) -> Float:
        """The same, and behind it derivatives of the monomials of laws."""
        parts = [part.slopes(parameters) for part in self.of_laws]
        return np.concatenate([self.moments(parameters), *parts])

    def model(self, parameters: Parameters) -> Float:
        """Model side of each condition, of shape (n,)."""
        table = self.moments(parameters)
        values = table[self.slots[:, 0]]
        for t in range(1, self.slots.shape[1]):
            values *= table[self.slots[:, t]]
        return np.asarray(values @ parameters.weights)

    # -- derivatives ----------------------------------------------------------------------------

    @lazy_property
    def slopes(self) -> Slopes:
        """Derivatives of the conditions by means, variances and covariances."""
        both = self.mean_slopes, self._slopes(self._by_spread)
        return Slopes(*(np.concatenate(parts) for parts in zip(*both, strict=True)))

    @lazy_property
    def mean_slopes(self) -> Slopes:
        """Derivatives of the conditions by the means."""
        return self._slopes(self._by_mean)

    def _slopes(self, terms_of: Callable[[Monomial], list[tuple[int, float, int]]]) -> Slopes:
        """Return derivatives of conditions: column, factor, number of u'."""
        terms = [terms_of(u) if u else [] for u in self.monomials]
        lengths = np.array([len(t) for t in terms])
        starts = np.cumsum(lengths) - lengths
        flat = np.array([term for t in terms for term in t], dtype=float).reshape(-1, 3)
        rows, slots = np.nonzero(self.slots)
        numbers = self.slots[rows, slots]
        counts = lengths[numbers]
        # Place t of the terms of each factor, t = 0, 1, …
        inside = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        own = flat[np.repeat(starts[numbers], counts) + inside]
        columns, monomials = own[:, 0].astype(np.int64), own[:, 2].astype(np.int64)
        return Slopes(
            np.repeat(rows, counts), columns, np.repeat(slots, counts), own[:, 1], monomials
        )

    def _by_mean(self, u: Monomial) -> list[tuple[int, float, int]]:
        if self._has_slopes[self.number[u]]:
            features, first = self._law_of(u)
            return [(j, 1.0, first + t) for t, j in enumerate(features)]
        return [(j, float(e), self.number[divided(u, t)]) for t, (j, e) in enumerate(u)]

    def _by_spread(self, u: Monomial) -> list[tuple[int, float, int]]:
        terms, d = list[tuple[int, float, int]](), self.blocks.n_features
        if self._has_slopes[self.number[u]]:
            features, first = self._law_of(u)
            return [(d + j, 1.0, first + len(features) + t) for t, j in enumerate(features)]
        for t, (j, a) in enumerate(u):
            once = divided(u, t)
            if a > 1:
                number = self.number[divided(once, t)]
                terms.append((d + self.blocks.place_of[j, j], a * (a - 1) / 2, number))
            shift = len(once) - len(u)  # of the features after j, where j is gone
            for s, (k, b) in enumerate(u[t + 1 :], t + 1):
                number = self.number[divided(once, s + shift)]
                terms.append((d + self.blocks.place_of[j, k], float(a * b), number))
        return terms

    def _law_of(self, u: Monomial) -> tuple[tuple[int, ...], int]:
        """Features of the law of a monomial, and where its derivatives begin."""
        features = self.blocks.partition[self.blocks.block_of[u[0][0]]]
        return features, int(self._first_slope[self.number[u]])


def degree(u: Monomial) -> int:
    """Sum of the exponents."""
    return sum(e for _, e in u)


def divided(u: Monomial, place: int) -> Monomial:
    """A monomial divided by its feature at a place."""
    j, e = u[place]
    middle = ((j, e - 1),) if e > 1 else ()
    return (*u[:place], *middle, *u[place + 1 :])

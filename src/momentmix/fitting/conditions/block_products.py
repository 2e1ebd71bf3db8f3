"""Moments of products of two monomials of one block of features.

| symbol | name here | shape |
|---|---|---|
| E_i[u v] of all u, v of one block | `block_products` | (r, m, m) |
| E_i[∂^β u] = u! / (u − β)! · E_i[u / z^β], sparse | ``means`` | (m, m) |
| K_βγ: coefficient of x^β y^γ in exp(xᵀ Σ y) | ``_Pairs.wick`` | (m, m) |

E[u v] = Σ_{β, γ} E[∂^β u] K_βγ E[∂^γ v], and K has the recursion
β_j K_βγ = Σ_k Σ_jk K_(β − e_j)(γ − e_k). Blocks that are not Gaussian have laws that know them.
"""

from __future__ import annotations

from collections import defaultdict
from math import perm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.block_moments import (
    BlockMonomials,
    LawMonomials,
    Monomial,
    degree,
    divided,
)
from momentmix.mixture.parameters import Parameters


class _Step(NamedTuple):
    """K of the monomials of one degree, m of them, from those of one degree less."""

    monomials: Int
    features: Int  # taken off on the left, (m,)
    exponents: Float
    before: Int
    others: Int  # taken off on the right, (m, width)
    lower: Int
    known: Float  # 0 for the padding, else 1


class _Pairs(NamedTuple):
    """The monomials of one block and how they divide each other."""

    own: Int  # number within the block of each condition's factor, 0 for the constant 1
    left: Int
    right: Int
    factors: Float
    quotients: Int
    steps: list[_Step]

    def wick(self, matrix: Float, size: int) -> Float:
        """K of all pairs of monomials for one covariance (d, d), of shape (m, m)."""
        table = np.zeros((size, size))
        table[0, 0] = 1.0
        for step in self.steps:
            own = step.monomials
            values = np.zeros((own.size, own.size))
            for t in range(step.others.shape[1]):
                # Rows: monomials on the left without one feature; columns: on the right.
                lower = table[step.before[:, None], step.lower[:, t]] * step.known[:, t]
                values += matrix[step.features[:, None], step.others[:, t]] * lower
            table[own[:, None], own] = values / step.exponents[:, None]
        return table


def block_products(
    monomials: BlockMonomials, parameters: Parameters, moments: Float
) -> list[tuple[Int, Float]]:
    """For each block: number of each condition's factor within it, and E_i[u v], (r, m, m).

    Number 0 is the constant 1. `moments` are those of `parameters`.
    """
    tables = [_law_products(part, monomials, parameters) for part in monomials.of_laws]
    for pairs in _pairs_by_block(monomials):
        size, parts = int(pairs.left[-1]) + 1, []
        for i, matrix in enumerate(parameters.matrices):
            values = pairs.factors * moments[pairs.quotients, i]
            means = csr_array((values, (pairs.left, pairs.right)), shape=(size, size))
            half = means @ pairs.wick(matrix, size)
            product_moments = means @ half.T
            parts.append(0.5 * (product_moments + product_moments.T))  # to the last bit
        tables.append((pairs.own, np.array(parts)))
    return tables


def _law_products(
    part: LawMonomials, monomials: BlockMonomials, parameters: Parameters
) -> tuple[Int, Float]:
    """The same of a block with a law of its own, which knows the moments of products."""
    none = np.zeros((1, part.exponents.shape[1]), dtype=np.int64)
    exponents = np.vstack([none, part.exponents])
    number = np.zeros(len(monomials.monomials), dtype=np.int64)
    number[part.numbers] = np.arange(1, len(exponents))
    factors = number[monomials.slots].max(axis=1)
    return factors, part.law.products(*parameters.of_law(part.law), exponents)


def _pairs_by_block(monomials: BlockMonomials) -> list[_Pairs]:
    """Found once for each list of conditions."""
    if not monomials.pairs:
        others = {monomials.blocks.block_of[part.law.features[0]] for part in monomials.of_laws}
        blocks = [b for b in np.unique(monomials.block[1:]).tolist() if b not in others]
        monomials.pairs = [_pairs_of(monomials, block) for block in blocks]
    return monomials.pairs


def _pairs_of(monomials: BlockMonomials, block: int) -> _Pairs:
    numbers = [0, *np.flatnonzero(monomials.block == block).tolist()]
    numbers.sort(key=lambda n: degree(monomials.monomials[n]))
    table = _exponents([monomials.monomials[n] for n in numbers])
    highest = int(table.max(initial=1))
    # All pairs of a monomial and a divisor of it; the quotient is in the table too.
    left, right = np.nonzero((table[:, None] >= table).all(axis=2))
    rest = table[left] - table[right]
    falling = np.array([[perm(e, g) for g in range(highest + 1)] for e in range(highest + 1)])
    factors = falling[table[left], table[right]].prod(axis=1).astype(float)
    keys = _keys(table, highest)
    order = np.argsort(keys)
    quotients = np.array(numbers)[order[np.searchsorted(keys[order], _keys(rest, highest))]]
    own = np.where(monomials.block[monomials.slots] == block, monomials.slots, 0).max(axis=1)
    translated = np.zeros(len(monomials.monomials), dtype=np.int64)
    translated[numbers] = np.arange(len(numbers))
    steps = _steps([monomials.monomials[n] for n in numbers])
    return _Pairs(translated[own], left, right, factors, quotients, steps)


def _exponents(monomials: list[Monomial]) -> Int:
    """Exponents of each monomial of a block, of shape (m, n_features of the block)."""
    features = sorted({j for u in monomials for j, _ in u})
    place = {j: t for t, j in enumerate(features)}
    table = np.zeros((len(monomials), max(1, len(features))), dtype=np.int64)
    for row, u in enumerate(monomials):
        for j, e in u:
            table[row, place[j]] = e
    return table


def _keys(exponents: Int, highest: int) -> NDArray[np.void]:
    """One key for each row of exponents."""
    small = np.ascontiguousarray(exponents.astype(np.uint8 if highest < 256 else np.int64))
    return small.view(np.dtype((np.void, small.dtype.itemsize * small.shape[1])))[:, 0]


def _steps(monomials: list[Monomial]) -> list[_Step]:
    """Steps of the recursion of K by degree; the first monomial is the constant."""
    inside = {u: number for number, u in enumerate(monomials)}
    by_degree = defaultdict[int, list[int]](list)
    for number, u in enumerate(monomials[1:], 1):
        by_degree[degree(u)].append(number)
    steps = []
    for _, numbers in sorted(by_degree.items()):
        own = [monomials[n] for n in numbers]
        width = max(map(len, own))
        others, lower = (np.zeros((len(own), width), dtype=np.int64) for _ in range(2))
        known = np.zeros((len(own), width))
        for row, u in enumerate(own):
            for t, (k, _) in enumerate(u):
                others[row, t], lower[row, t], known[row, t] = k, inside[divided(u, t)], 1.0
        features = np.array([u[0][0] for u in own])
        exponents = np.array([float(u[0][1]) for u in own])
        before = np.array([inside[divided(u, 0)] for u in own])
        steps.append(_Step(np.array(numbers), features, exponents, before, others, lower, known))
    return steps

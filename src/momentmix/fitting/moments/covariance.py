"""Correlations of monomials under a mixture, in closed form, and as rows show them.

E_i[m mᵀ] is the product over blocks of the moments of two monomials of one block each:

| symbol | name here | shape |
|---|---|---|
| E_i[u v] of all u, v of one block | `block_products` | (r, m, m) |
| E_i[∂^β u] = u! / (u − β)! · E_i[u / z^β], sparse | ``means`` | (m, m) |
| K_βγ: coefficient of x^β y^γ in exp(xᵀ Σ y) | ``_Pairs.wick`` | (m, m) |

E[u v] = Σ_{β, γ} E[∂^β u] K_βγ E[∂^γ v], and K has the recursion
β_j K_βγ = Σ_k Σ_jk K_(β − e_j)(γ − e_k). Laws of other blocks give these moments.

The model determines the covariance of moments of rows drawn from it. Weights that depend on the
rows, as weights that correct a biased sample do, change it: where they are large, moments vary more
than moments of (Σ w)² / Σ w² rows. `MomentSpread` draws Σ g w (c(z) − c̄) / Σ w, with w the weights,
c(z) the monomials, and g + 1 Poisson(1).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import perm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from momentmix._typing import Float, Int
from momentmix.fitting.moments.conditions import Conditions, gaussian_powers, point_powers
from momentmix.fitting.moments.monomials import (
    BlockMonomials,
    LawMonomials,
    Monomial,
    degree,
    divided,
)
from momentmix.mixture.parameters import Parameters
from momentmix.native import code

_AT_ONCE = 32  # rows of the table of all pairs: they stay in the cache
_LEAST_VARIANCE = 1e-12  # of a monomial; that of a constant is 0
DRAWS = 200  # for a mean and a variance; they cost a small part of the whitening
_DRAWN_AT_ONCE = 100  # rows whose products fit in the cache


def monomial_correlation(conditions: Conditions, parameters: Parameters) -> tuple[Float, Float]:
    """Correlations of one row's monomials, of shape (n, n), and their standard deviations (n,)."""
    monomials, n = conditions.by_block(parameters.blocks), conditions.size
    moments = monomials.moments(parameters)
    tables = block_products(monomials, parameters, moments)
    by_component = moments[monomials.slots].prod(axis=1)  # (n, r)
    mean = by_component @ parameters.weights
    raw = np.ones((n, parameters.n_components))
    for own, table in tables:
        raw *= table[:, own, own].T
    scale = np.sqrt(np.maximum(raw @ parameters.weights - mean**2, _LEAST_VARIANCE))
    second = np.zeros((n, n))
    add = _add_second_moments if code is None else _add_by_compiled
    add(second, tables, parameters.weights)
    for start in range(0, n, _AT_ONCE):
        stop = min(start + _AT_ONCE, n)
        upper = second[start:stop, start:]
        upper -= mean[start:stop, None] * mean[start:]
        upper /= scale[start:stop, None] * scale[start:]
        second[stop:, start:stop] = second[start:stop, stop:].T
        square = second[start:stop, start:stop]
        square[:] = np.triu(square) + np.triu(square, 1).T
    return second, scale


def _add_by_compiled(second: Float, tables: list[tuple[Int, Float]], weights: Float) -> None:
    """`_add_second_moments` by compiled code."""
    own = np.array([numbers for numbers, _ in tables])
    sizes = np.array([table.shape[1] for _, table in tables])
    # Factors are counted over all blocks; a condition has few, in any order.
    factors = np.where(own > 0, own + (np.cumsum(sizes) - sizes)[:, None], 0).T
    width = max(1, int((own > 0).sum(axis=0).max(initial=0)))
    slots = np.sort(factors, axis=1)[:, -width:].copy()
    flat = np.concatenate([table.transpose(1, 2, 0).ravel() for _, table in tables])
    weights = np.ascontiguousarray(weights)
    code.add_second_moments(len(second), slots, sizes, flat, weights, second)


def _add_second_moments(second: Float, tables: list[tuple[Int, Float]], weights: Float) -> None:
    """Add E[m_a m_b] to a table (n, n), b ≥ a: products over blocks, a few rows at a time."""
    n = len(second)
    wide = [(own, table[:, :, own]) for own, table in tables]  # (r, m, n)
    part = np.empty((_AT_ONCE, n))
    for start in range(0, n, _AT_ONCE):
        stop = min(start + _AT_ONCE, n)
        held = [(own, table) for own, table in wide if own[start:stop].any()]
        others = [table for own, table in wide if not own[start:stop].any()]
        for i, weight in enumerate(weights):
            product = part[: stop - start, start:]
            # Where no row holds a block, its factor is the same for all of them.
            same = np.full(n - start, weight)
            for table in others:
                same *= table[i, 0, start:]
            product[:] = same
            for own, table in held:
                product *= table[i, own[start:stop], start:]
            second[start:stop, start:] += product


@dataclass(frozen=True)
class MomentSpread:
    """Standardized rows (n, d), a part of `n_rows`, and their weights, the `counts`."""

    rows: Float
    counts: Float
    n_rows: int

    def draws(self, conditions: Conditions, rng: np.random.Generator) -> Float:
        """Draw deviations of the means from their expectations, (n_conditions, DRAWS)."""
        sums = np.zeros((conditions.size, DRAWS + 1))
        factors = np.empty((len(self.rows), DRAWS + 1))
        factors[:, 0] = self.counts
        # All cumulants of these are 1, so that the draws are as skewed as the means themselves.
        multipliers = rng.poisson(1.0, (len(self.rows), DRAWS)) - 1.0
        factors[:, 1:] = self.counts[:, None] * multipliers
        for start in range(0, len(self.rows), _DRAWN_AT_ONCE):
            part = slice(start, start + _DRAWN_AT_ONCE)
            powers = point_powers(self.rows[part], conditions.highest_exponent)
            sums += conditions.products(powers) @ factors[part]
        total = self.counts.sum()
        noise = (sums[:, 1:] - np.outer(sums[:, 0] / total, factors[:, 1:].sum(axis=0))) / total
        # A part of the rows has fewer of them: its means vary more than those of all.
        return np.asarray(noise * np.sqrt(len(self.rows) / self.n_rows))


# -- products of two monomials of one block --------------------------------------------------------


class _WickStep(NamedTuple):
    """K of the m monomials of one degree, from the monomials of one degree less."""

    monomials: Int
    features: Int  # taken off on the left, (m,)
    exponents: Float
    before: Int
    others: Int  # taken off on the right, (m, width)
    lower: Int
    known: Float  # 0 for the padding, else 1


class _Pairs(NamedTuple):
    """The monomials of one block and how they divide each other."""

    single: int | None  # the feature of a block of one
    own: Int  # number within the block of each condition's factor, 0 for the constant 1
    left: Int
    right: Int
    factors: Float
    quotients: Int
    steps: list[_WickStep]

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
    """Return the number of each condition's factor in a block, 0 for 1, and E_i[u v], (r, m, m)."""
    tables = [_law_products(part, monomials, parameters) for part in monomials.of_laws]
    of_blocks = _pairs_by_block(monomials)
    # The number of a monomial of one feature is its exponent.
    highest = max((int(x.left[-1]) for x in of_blocks if x.single is not None), default=1)
    powers = gaussian_powers(parameters, 2 * highest)
    for pairs in of_blocks:
        size, parts = int(pairs.left[-1]) + 1, []
        if pairs.single is not None:  # z^a z^b = z^(a + b)
            degrees = np.arange(size)[:, None] + np.arange(size)
            tables.append((pairs.own, powers[degrees, :, pairs.single].transpose(2, 0, 1)))
            continue
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
    """Return the same for a block with a law of its own."""
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
    features = monomials.blocks.partition[block]
    single = features[0] if len(features) == 1 else None
    return _Pairs(single, translated[own], left, right, factors, quotients, steps)


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


def _steps(monomials: list[Monomial]) -> list[_WickStep]:
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
        steps.append(
            _WickStep(np.array(numbers), features, exponents, before, others, lower, known)
        )
    return steps

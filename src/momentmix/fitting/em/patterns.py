"""Joined columns with missing cells: densities and sums by which cells are observed.

| symbol | name here | shape |
|---|---|---|
| K, U: features of a block that are observed, and missing, in a row | ``observed``, ``missing`` | |
| E_i[z_U given z_K] = a_i + B_i z_K, Cov_i[z_U given z_K] = C_i | `conditional` | |
| Σ_z γ_i(z) E_i[T(z) given what is observed] | `complete_sums` | (…, r, n_statistics) |

The density of a row is that of what is observed: Σ_KK alone. Densities and sums of all rows are
those of rows without missing cells; the rows of each pattern within a block are corrected. The
expected statistics of a pattern follow from its sums of (z_K, z_K z_Kᵀ, 1), so that a pass costs
two products a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.distribution import Distribution, Value
from momentmix.families.family import LEAST_PROBABILITY
from momentmix.families.gaussian import rows_by_pattern
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.blocks import Blocks, full_matrices, spread_of
from momentmix.mixture.parameters import Parameters

MOST_PATTERNS = 64  # of a block that the fit chooses: each takes two products in every pass


class Pattern(NamedTuple):
    """Rows (m,) in which the same features of one block are observed."""

    rows: Int
    observed: Int
    missing: Int
    block: Int  # all features of the block, ascending
    features: Float  # T of these in the rows, (n_T, m)
    places: Int  # of T of the block in T(z), (n_T,)
    is_kept: NDArray[np.bool_]  # which of these are T of observed features
    tables: tuple[Int, Int]  # where matrices of the observed and of all features are in a spread

    @property
    def order(self) -> Int:
        """Observed features, then missing ones."""
        return np.concatenate([self.observed, self.missing])


def is_observed(
    features: Float,
    values: Iterable[Sequence[Any]],
    laws: Iterable[Distribution],
    columns: Int,
) -> NDArray[np.bool_]:
    """Which of some columns are observed in T(z) of rows, (k, n).

    `values` are features and those that say where they are observed, which have `laws`.
    """
    observed = np.ones((columns.size, features.shape[1]), dtype=bool)
    middles = {law.features[-1]: law.observed_middle for law in laws}
    for value, seen, *_ in values:
        observed[columns == value] = features[seen] > middles[seen]
    return observed


def patterns(features: Float, blocks: Blocks) -> list[Pattern]:
    """The patterns of rows in which some cells of a block are missing."""
    found, values, d = [], [value for value, *_ in blocks.missing], blocks.n_features
    for block, table in blocks.places:
        if not np.isin(block, values).any():
            continue
        left_out = np.asarray(~is_observed(features, blocks.missing, blocks.laws, block).T)
        j, k = np.triu_indices(block.size, 1)
        products, last = d + table[j, k], [blocks.n_statistics - 1]
        places = np.concatenate([block, d + block, products, last]).astype(np.int64)
        incomplete = np.flatnonzero(left_out.any(axis=1))
        for missing, members in rows_by_pattern(left_out[incomplete]):
            rows, seen = incomplete[members], np.asarray(~missing)
            is_kept = np.concatenate([seen, seen, seen[j] & seen[k], [True]])
            order = np.concatenate([np.flatnonzero(seen), np.flatnonzero(missing)])
            tables = table[np.ix_(order, order)], table
            own = features[np.ix_(places, rows)]
            parts = block[seen], block[missing], block, own
            found.append(Pattern(rows, *parts, places, is_kept, tables))
    return found


def _density(p: Parameters, features: Int, table: Int) -> Float:
    """Log-densities of some features of one block as linear functions of their T, (…, r, n_T)."""
    means, inverses = p.means[..., features], np.linalg.inv(p.spread[..., table])
    linear, (j, k) = (inverses @ means[..., None])[..., 0], np.triu_indices(features.size, 1)
    squares = -0.5 * np.diagonal(inverses, axis1=-2, axis2=-1)
    volume = np.linalg.slogdet(inverses)[1] - features.size * np.log(2 * np.pi)
    constants = 0.5 * (volume - (linear * means).sum(axis=-1))
    return np.concatenate([linear, squares, -inverses[..., j, k], constants[..., None]], axis=-1)


def correct_joint(joint: Float, p: Parameters, found: list[Pattern]) -> None:
    """Correct log-densities (…, r, n) of rows as if all cells were observed; in place.

    Those of columns with missing cells are in the units of the data, as where they are not joined.
    """
    units = {value: float(np.log(unit)) for value, _, unit in p.blocks.missing}
    joint -= sum(units.values())
    for pattern in found:
        change = -_density(p, pattern.block, pattern.tables[1])
        k = pattern.observed.size
        own = pattern.tables[0][:k, :k]
        change[..., pattern.is_kept] += _density(p, pattern.observed, own)
        change[..., -1] += sum(units[j] for j in pattern.missing.tolist())
        joint[..., pattern.rows] += change @ pattern.features


def complete_sums(statistics: Float, p: Parameters, shares: Float, found: list[Pattern]) -> None:
    """Put expected statistics in the place of those of missing cells; in place."""
    d = p.blocks.n_features
    for pattern in found:
        own = shares[..., pattern.rows] @ pattern.features.T
        statistics[..., pattern.places[:-1]] -= own[..., :-1]
        first, second = _expected(p, pattern, own[..., pattern.is_kept])
        statistics[..., pattern.order] += first
        j, k = np.triu_indices(pattern.block.size)
        statistics[..., d + pattern.tables[0][j, k]] += second[..., j, k]


def _expected(p: Parameters, pattern: Pattern, own: Float) -> tuple[Float, Float]:
    """Expected sums of (z_K, z_U), (…, r, k), and of their products, (…, r, k, k)."""
    k = pattern.observed.size
    counts, first = own[..., -1:], own[..., :k]
    second = np.zeros((*first.shape, 0))
    if k:
        second = full_matrices(own[..., k:-1], Blocks.full(k))
    a, b, rest = conditional(p, pattern)
    filled = counts * a + (b @ first[..., None])[..., 0]
    cross = a[..., :, None] * first[..., None, :] + b @ second  # Σ γ z_U z_Kᵀ
    outer = counts[..., None] * rest + filled[..., :, None] * a[..., None, :]
    outer = outer + cross @ b.swapaxes(-1, -2)
    table = np.block([[second, cross.swapaxes(-1, -2)], [cross, outer]])
    return np.concatenate([first, filled], axis=-1), table


def conditional(p: Parameters, pattern: Pattern) -> tuple[Float, Float, Float]:
    """Missing values given those observed: a (…, r, u), B (…, r, u, k), C (…, r, u, u)."""
    observed, missing, k = pattern.observed, pattern.missing, pattern.observed.size
    roots = np.linalg.cholesky(p.spread[..., pattern.tables[0]])
    slopes = np.asarray(roots[..., k:, :k] @ np.linalg.inv(roots[..., :k, :k]), dtype=np.float64)
    constants = p.means[..., missing] - (slopes @ p.means[..., observed, None])[..., 0]
    half = roots[..., k:, k:]
    return constants, slopes, half @ half.swapaxes(-1, -2)


def completed(
    features: Float, p: Parameters, found: list[Pattern]
) -> Iterator[tuple[Float, list[Float]]]:
    """Values (d, n) expected in each component, and covariances of what is missing by pattern."""
    d, laws = p.blocks.n_features, [conditional(p, pattern) for pattern in found]
    for i in range(p.n_components):
        values = features[:d].copy()
        for pattern, (a, b, _) in zip(found, laws, strict=True):
            known = features[np.ix_(pattern.observed, pattern.rows)]
            values[np.ix_(pattern.missing, pattern.rows)] = a[i][:, None] + b[i] @ known
        yield values, [rest[i] for _, _, rest in laws]


def draw_missing(
    values: Float, features: Float, p: Parameters, labels: Int, rng: np.random.Generator
) -> None:
    """Put draws in the place of missing joined values (d, n), given those observed; in place."""
    for pattern in patterns(features, p.blocks):
        a, b, rest = conditional(p, pattern)
        roots, own = np.linalg.cholesky(rest), labels[pattern.rows]
        known = values[np.ix_(pattern.observed, pattern.rows)].T[..., None]
        noise = rng.standard_normal((own.size, pattern.missing.size, 1))
        drawn = a[own] + (b[own] @ known + roots[own] @ noise)[..., 0]
        values[np.ix_(pattern.missing, pattern.rows)] = drawn.T


# -- from blocks to blocks ------------------------------------------------------------------------


def in_blocks(p: Parameters, blocks: Blocks, matrices: Float) -> Parameters:
    """The same mixture in other blocks, with covariances (r, d, d) of observed values.

    A feature with missing cells is 0 where one is missing; a joined one is the value alone.
    """
    means, spread = p.means.copy(), spread_of(matrices, blocks)
    joined = {j for block in blocks.joined for j in block}
    for law in p.blocks.laws:
        own, j = list(law.features), law.features[0]
        if law.value_feature in joined:
            value, (shift, scale) = law.value_of(*p.of_law(law)), law.units
            means[:, j] = (value.mean[:, 0] - shift[0]) / scale[0]
            own = own[1:]
        spread[:, own] = p.variances[:, own]
    before = {value for value, *_ in p.blocks.missing}
    for law in blocks.laws:
        if law.value_feature in before - joined:
            own, (shift, scale) = list(law.features), law.units
            x, variance = shift + scale * means[:, own], spread[:, own[:1]] * scale[0] ** 2
            q = np.clip(x[:, 1], LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
            means[:, own], spread[:, own] = law.features_of(Value(x[:, :1], variance, q))
    d = blocks.n_features
    return Parameters(p.weights, means, spread[:, :d], spread[:, d:], blocks).completed()


def observed_covariances(features: Float, moments: StandardMoments, shares: Float) -> Float:
    """Covariances of features within components, (r, d, d), each from the rows that have both."""
    observed = observed_values(features, moments, np.arange(moments.n_features))
    values, tables = features[: moments.n_features] * observed, []
    for share in shares:
        weights = observed * share
        counts = weights @ observed.T
        means = (values @ share) / np.maximum(weights.sum(axis=1), 1e-10)
        gaps = (values - means[:, None]) * observed
        tables.append((gaps * share) @ gaps.T / np.maximum(counts, 1e-10))
    return np.array(tables)


def observed_values(features: Float, moments: StandardMoments, columns: Int) -> Float:
    """1 where a number or count is observed in rows, and 0 elsewhere, (k, n)."""
    laws = [law for law in moments.laws if law.value_feature is not None]
    return is_observed(features, [law.features for law in laws], laws, columns).astype(np.float64)

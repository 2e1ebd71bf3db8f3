"""Joined columns with missing cells: sums of an EM step by which cells are observed.

| symbol | name here | shape |
|---|---|---|
| Σ_z γ_i(z) E_i[T(z) given what is observed] | `complete_sums` | (…, r, n_statistics) |

Sums of all rows are those of rows without missing cells; the rows of each pattern within a block
are corrected (`momentmix.mixture.missing`). The expected statistics of a pattern follow from its
sums of (z_K, z_K z_Kᵀ, 1), so that a pass costs two products a pattern.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from momentmix._typing import Float, Int
from momentmix.families.distribution import Value
from momentmix.families.family import LEAST_PROBABILITY
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.blocks import Blocks, full_matrices, spread_of
from momentmix.mixture.missing import Pattern, conditional, patterns
from momentmix.mixture.parameters import Parameters

MOST_PATTERNS = 64  # of a block that the fit chooses: each takes two products in every pass


def complete_sums(
    statistics: Float, p: Parameters, shares: Float, incomplete: list[Pattern]
) -> None:
    """Put expected statistics in the place of those of missing cells; in place."""
    d = p.blocks.n_features
    for pattern in incomplete:
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


def completed(
    features: Float, p: Parameters, incomplete: list[Pattern]
) -> Iterator[tuple[Float, list[Float]]]:
    """Values (d, n) expected in each component, and covariances of what is missing by pattern."""
    d, regressions = p.blocks.n_features, [conditional(p, pattern) for pattern in incomplete]
    for i in range(p.n_components):
        values = features[:d].copy()
        for pattern, (a, b, _) in zip(incomplete, regressions, strict=True):
            known = features[np.ix_(pattern.observed, pattern.rows)]
            values[np.ix_(pattern.missing, pattern.rows)] = a[i][:, None] + b[i] @ known
        yield values, [rest[i] for _, _, rest in regressions]


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
    for part in p.blocks.laws:
        features, j = list(part.features), part.features[0]
        if part.value_feature in joined:
            value, (shift, scale) = part.value_of(*p.of_law(part)), part.units
            means[:, j] = (value.mean[:, 0] - shift[0]) / scale[0]
            features = features[1:]
        spread[:, features] = p.variances[:, features]
    before = {value for value, *_ in p.blocks.missing}
    for part in blocks.laws:
        if part.value_feature in before - joined:
            features, (shift, scale) = list(part.features), part.units
            x = shift + scale * means[:, features]
            variance = spread[:, features[:1]] * scale[0] ** 2
            q = np.clip(x[:, 1], LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
            means[:, features], spread[:, features] = part.features_of(Value(x[:, :1], variance, q))
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
        offsets = (values - means[:, None]) * observed
        tables.append((offsets * share) @ offsets.T / np.maximum(counts, 1e-10))
    return np.array(tables)


def observed_values(features: Float, moments: StandardMoments, columns: Int) -> Float:
    """1 where a number or count is observed in rows, and 0 elsewhere, (k, n)."""
    observed = np.ones((moments.n_features, features.shape[1]))
    for part in moments.laws:
        if part.value_feature is not None:
            observed[part.value_feature] = features[part.features[-1]] > part.observed_middle
    return observed[columns]

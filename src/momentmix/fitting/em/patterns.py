"""EM where joined columns have missing cells: sums over rows by which values are missing.

| symbol | name here | shape |
|---|---|---|
| features of joined blocks with missing cells | ``Layout.wide`` | |
| a joined value → the feature that says whether it is seen | ``Layout.seen_of`` | |
| K, U: values of a block that are seen, and missing, in a row | ``known``, ``unknown`` | |
| E_i[z_U | z_K] = a_i + B_i z_K, Cov_i[z_U | z_K] = C_i | `conditional` | |
| Σ_z γ_i(z) E_i[T(z) | seen] | statistics of `PatternRows.sums` | (r, n_statistics) |

The density of a row is that of what is seen: Σ_KK alone, times the probabilities of being seen and
missing, which are laws of features of their own. The expected statistics of a pattern follow from
its sums of (z_K, z_K z_Kᵀ, 1), so that a pass costs one product a pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.families.distribution import with_joined_values
from momentmix.families.gaussian import regression, rows_by_pattern
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.scores import Scores
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks, full_matrices, spread_of
from momentmix.mixture.density import responsibilities
from momentmix.mixture.gaussian import coefficients, features_of, m_step
from momentmix.mixture.parameters import Parameters, component_places, dependent_places
from momentmix.mixture.prior import Structure, VariancePrior

_ROWS = 4096  # rows whose scores are in memory at once
_MOST_STEPS = 100  # for the total covariance, of which only the units of a prior are made


@dataclass(frozen=True)
class PatternLayout:
    """Features of standardized rows, some of whose joined values may be missing."""

    blocks: Blocks
    seen_of: dict[int, tuple[int, float]]

    @classmethod
    def of(cls, moments: StandardMoments, joined: tuple[tuple[int, ...], ...]) -> PatternLayout:
        """The layout where features are joined, whose laws may be `Seen`."""
        values = {j for block in joined for j in block}
        laws = with_joined_values(moments.laws, values)
        seen_of = {
            law.features[0]: (law.features[1], law.observed_middle)
            for law in moments.laws
            if law.value_feature in values
        }
        return cls(Blocks.of(moments.n_features, joined, laws), seen_of)

    @lazy_property
    def wide(self) -> tuple[Int, ...]:
        """Features of each joined block that has missing cells."""
        return tuple(
            np.array(block)
            for block in self.blocks.joined
            if any(feature in self.seen_of for feature in block)
        )

    @lazy_property
    def others(self) -> Int:
        """All other features."""
        inside = np.concatenate([np.empty(0, dtype=np.int64), *self.wide])
        return np.setdiff1d(np.arange(self.blocks.n_features), inside)

    def gaps(self, values: Float, features: Int) -> NDArray[np.bool_]:
        """Which values of a block are missing, of shape (n, k)."""
        table = np.zeros((len(values), features.size), dtype=bool)
        for place, feature in enumerate(features.tolist()):
            if feature in self.seen_of:
                seen, middle = self.seen_of[feature]
                table[:, place] = values[:, seen] < middle
        return table

    def rows(self, values: Float) -> PatternRows:
        """Standardized rows (n, d) by pattern."""
        groups = []
        for features in self.wide:
            for pattern, rows in rows_by_pattern(self.gaps(values, features)):
                known = features[~pattern]
                own = features_of(values[np.ix_(rows, known)], Blocks.full(known.size))
                groups.append(_PatternGroup(features, known, features[pattern], rows, own))
        part = self.blocks.restricted(self.others)
        return PatternRows(self, features_of(values[:, self.others], part), tuple(groups))

    def started(self, p: Parameters) -> Parameters:
        """Parameters of other laws and blocks as those of the layout; new covariances are 0."""
        means, variances = p.means.copy(), p.variances.copy()
        for law in p.blocks.laws:
            if law.value_feature in self.seen_of:
                found, j = law.value_of(*p.of_law(law)), law.features[0]
                means[:, j], variances[:, j] = found.mean[:, 0], found.variance[:, 0]
        spread = spread_of(p.matrices, self.blocks)
        spread[:, : self.blocks.n_features] = variances
        return Parameters(p.weights, means, variances, None, self.blocks).with_spread(spread)


class _PatternGroup(NamedTuple):
    """Rows (m,) in which the same values of one block are seen, and T of these, (n_T, m)."""

    block: Int
    known: Int
    unknown: Int
    rows: Int
    features: Float


def conditional(p: Parameters, known: Int, unknown: Int) -> tuple[Float, Float, Float]:
    """Missing values of a block given those seen: a (r, u), B (r, u, k), C (r, u, u)."""
    own = np.concatenate([known, unknown])
    slopes, rest = regression(p.spread[..., p.blocks.table(own)], np.isin(own, unknown))
    constants = p.means[:, unknown] - (slopes @ p.means[:, known, None])[..., 0]
    return constants, slopes, rest


@dataclass(frozen=True)
class PatternRows:
    """Standardized rows: T(z) outside the blocks with missing cells, and groups by pattern."""

    layout: PatternLayout
    features: Float
    groups: tuple[_PatternGroup, ...]

    def joint(self, p: Parameters) -> Float:
        """Joint log-densities of components and what is seen of rows, of shape (r, n)."""
        joint = coefficients(p.restricted(self.layout.others)) @ self.features
        for group in self.groups:
            if group.known.size:
                part = replace(p.restricted(group.known), weights=np.ones_like(p.weights))
                joint[:, group.rows] += coefficients(part) @ group.features
        return np.asarray(joint)

    def sums(self, p: Parameters) -> tuple[Float, float, int]:
        """Expected statistics (r, n_statistics), total log-likelihood and number of rows."""
        shares, logs = responsibilities(self.joint(p))
        blocks, others = self.layout.blocks, self.layout.others
        d = blocks.n_features
        statistics = np.zeros((p.n_components, blocks.n_statistics))
        part, found = blocks.restricted(others), shares @ self.features.T
        n_others = others.size
        statistics[:, others] = found[:, :n_others]
        statistics[:, d + others] = found[:, n_others : 2 * n_others]
        pairs = [d + blocks.place_of[int(others[j]), int(others[k])] for j, k in part.pairs]
        n_products = n_others + part.n_spread
        statistics[:, pairs] = found[:, 2 * n_others : n_products]
        statistics[:, d + blocks.n_spread :] = found[:, n_products:]  # of laws, and the counts
        for group in self.groups:
            own = shares[:, group.rows] @ group.features.T
            first, second = _expected(p, group, own)
            order = np.concatenate([group.known, group.unknown])
            statistics[:, order] += first
            upper = np.triu_indices(order.size)
            places = d + blocks.table(order)[upper]
            statistics[:, places] += second[:, upper[0], upper[1]]
        return statistics, float(logs.sum()), logs.size


def _expected(p: Parameters, group: _PatternGroup, own: Float) -> tuple[Float, Float]:
    """Expected sums of (z_K, z_U), (r, k), and of their products, (r, k, k)."""
    k = group.known.size
    counts, first = own[:, -1], own[:, :k]
    second = full_matrices(own[:, k:-1], Blocks.full(k)) if k else np.zeros((len(own), 0, 0))
    if not group.unknown.size:
        return first, second
    a, b, rest = conditional(p, group.known, group.unknown)
    filled = counts[:, None] * a + (b @ first[..., None])[..., 0]
    cross = a[:, :, None] * first[:, None, :] + b @ second  # Σ γ z_U z_Kᵀ
    outer = counts[:, None, None] * rest
    outer = outer + filled[:, :, None] * a[:, None, :] + cross @ b.swapaxes(1, 2)
    table = np.block([[second, cross.swapaxes(1, 2)], [cross, outer]])
    return np.concatenate([first, filled], axis=1), table


def pattern_sums(
    block: Float, moments: StandardMoments, layout: PatternLayout, p: Parameters
) -> tuple[Float, float, int]:
    """`PatternRows.sums` of some rows."""
    values = np.asarray(block, dtype=np.float64)[:, moments.columns]
    return layout.rows((values - moments.shift) / moments.scale).sums(p)


# -- rows in memory -----------------------------------------------------------------------------


def run_patterns(
    rows: PatternRows, start: Parameters, prior: VariancePrior, n_steps: int, least: float = 0.0
) -> tuple[Parameters, float]:
    """EM steps until one gains less than `least` a row, and the objective before the last."""
    p, last = start, -np.inf
    for _ in range(n_steps):
        statistics, total, n = rows.sums(p)
        value = (total + float(prior.log_density(p))) / n
        p = m_step(statistics, prior)
        if value - last < least:
            break
        last = value
    return p, value


def single_component(rows: PatternRows, floor: float | Float) -> Parameters:
    """One component of all rows."""
    blocks = rows.layout.blocks
    identity = np.eye(blocks.n_features)
    prior = VariancePrior.of_rows(
        rows.features.shape[1], 1, Structure.of_total(floor, blocks, identity)
    )
    d = blocks.n_features
    start = Parameters(np.ones(1), np.zeros((1, d)), np.ones((1, d)), None, blocks).completed()
    return run_patterns(rows, start, prior, _MOST_STEPS, 1e-6)[0]


def drawn_values(
    rows: PatternRows, values: Float, p: Parameters, rng: np.random.Generator
) -> Float:
    """The rows (n, d) with draws of one component for missing values given those seen."""
    filled = values.copy()
    for group in rows.groups:
        a, b, rest = conditional(p, group.known, group.unknown)
        known = values[np.ix_(group.rows, group.known)]
        noise = rng.standard_normal((group.rows.size, group.unknown.size))
        own = a[0] + known @ b[0].T
        filled[np.ix_(group.rows, group.unknown)] = own + noise @ np.linalg.cholesky(rest[0]).T
    return filled


# -- scores -------------------------------------------------------------------------------------


def pattern_information(layout: PatternLayout, values: Float, p: Parameters) -> Float:
    """Mean outer product of the scores of standardized rows (n, d), as `information_matrix`."""
    r, size = p.n_components, p.blocks.n_places
    places = component_places(p)
    total = np.zeros((r * size,) * 2)
    for start in range(0, len(values), _ROWS):
        part = values[start : start + _ROWS]
        scores = np.empty((r * size, len(part)))
        for i, own in enumerate(_scores(layout, part, p)):
            scores[places[i]] = own
        scores[places[:, 0]] -= p.weights[:, None]
        total += scores @ scores.T
    information = total / len(values)
    dependent = dependent_places(p)
    information[dependent, dependent] = 1.0
    return np.asarray(information)


def _scores(layout: PatternLayout, values: Float, p: Parameters) -> Iterator[Float]:
    """Expected scores of each component, (n_places, n), times its shares of the rows."""
    rows = layout.rows(values)
    shares, _ = responsibilities(rows.joint(p))
    score_of = Scores(p)
    inverses = score_of.inverses
    groups = [g for g in rows.groups if g.unknown.size]
    laws = [conditional(p, group.known, group.unknown) for group in groups]
    d = p.blocks.n_features
    assert inverses is not None
    for i in range(p.n_components):
        filled = values.copy()
        for group, (a, b, _) in zip(groups, laws, strict=True):
            known = values[np.ix_(group.rows, group.known)]
            filled[np.ix_(group.rows, group.unknown)] = a[i] + known @ b[i].T
        features = features_of(filled, p.blocks)
        scores = np.zeros((p.blocks.n_places, len(values)))
        scores[score_of.kept] = score_of(i, features, shares[i])
        for group, (_, _, rest) in zip(groups, laws, strict=True):
            # E[u uᵀ] is that of the filled rows and the covariance of what was filled.
            half = inverses[i][np.ix_(group.block, group.unknown)]
            extra = half @ rest[i] @ half.T
            first, second = np.triu_indices(group.block.size)
            own = np.where(first == second, 0.5, 1.0) * extra[first, second]
            target = 1 + d + p.blocks.table(group.block)[first, second]
            scores[np.ix_(target, group.rows)] += own[:, None] * shares[i, group.rows]
        yield scores

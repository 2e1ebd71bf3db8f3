"""A component that the model lacks, with its share in one group: fitted to the group's moments.

| symbol | name here | shape |
|---|---|---|
| m ≈ M w + ω μ(φ), Σ w + ω = 1 | ``moments``, ``weights`` | (q,), (r + 1,) |
| φ: means, spread, log odds, log rates; 0 is the law of all rows | ``values`` | (p,) |

The moments of a group say the product of a share and a distance better than each of them: few rows
far away or more rows nearby. φ has a standard normal prior in units of what components usually
differ by (`_MEAN` … `_SHARE`), and (w, φ) are those that minimize |m − M w − ω μ(φ)|² + |φ|² in
whitened moments, by Gauss-Newton steps from the best candidate of a grid. The curvature at the
minimum gives the error of the share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import helmert
from scipy.special import expit, logit

from momentmix._typing import Float
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.tables.block_features import Block
from momentmix.mixture.tables.family_blocks import (
    BernoulliBlock,
    CategoricalBlock,
    PoissonBlock,
)
from momentmix.monitoring.shares.fixed_components import FixedComponents, Root
from momentmix.monitoring.shares.group_weights import bounded, check_fit, group_covariance

_MEAN = 2.0  # deviations of the prior: of means, in overall standard deviations
_DEVIATION = 0.3  # of the logarithms of deviations
_MIXED = 0.7  # of the other entries of a root of the covariances, in units of the start
_MOST_JOINED = 12  # columns; with more, the correlations are those of the start
_ODDS, _RATE, _LEVELS = 1.5, 1.0, 1.0  # of log odds, of log rates, of log probabilities
_SHARE = 0.3  # of the share
_LEAST = 1e-3  # of probabilities and rates
_ROUNDS, _STEPS = 2, 4  # of the covariance of the moments, and of Gauss-Newton with it
_MORE, _FEW_FEATURES = 3, 3  # times as many with few columns, where a spread hides a share
_SPREADS = (0.0, -1.5, 1.5)  # of the starts with few columns
_LONGEST = 1.0  # of a step, in units of the prior
_QUANTILE = 1.96
_SETTLED = 0.02  # of the objective, which is one of χ²
_STILL = 0.01  # change of values, in units of the prior, after which the covariance is the same
_FINE = 1e-4  # of differences

Moments = Callable[[list[Block]], Float]
"""Moments of blocks, one column for each component."""


@dataclass(frozen=True)
class NewComponent:
    """What is found.

    Attributes
    ----------
    blocks : list of blocks of one component
    components : FixedComponents
        Those of the model, and the new one last.
    weights : array of shape (r + 1,)
    error : float
        Standard error of the share.
    """

    blocks: list[Block]
    components: FixedComponents
    weights: Float
    error: float

    @property
    def share(self) -> float:
        """Of the rows of the group."""
        return float(self.weights[-1])

    @property
    def interval(self) -> tuple[float, float]:
        """Ends of a 95 % interval of the share, symmetric in its log odds."""
        odds = float(_odds(np.array(self.share)))
        half = _QUANTILE * self.error / max(self.share * (1 - self.share), _LEAST)
        return float(expit(odds - half)), float(expit(odds + half))


class Law:
    """Values φ as blocks; `overall` are blocks of one component, those of all rows.

    Parameters
    ----------
    start : sequence of blocks of one component
        Where values begin, and what is not looked for.
    overall : sequence of blocks of one component
    scale : array of shape (n_columns,)
        Overall standard deviations.
    """

    def __init__(self, start: Sequence[Block], overall: Sequence[Block], scale: Float) -> None:
        self._start, self._overall, self._scale = start, overall, scale
        self._sizes = [_size(block) for block in start]

    def values(self, spread: float = 0.0) -> Float:
        """φ of the start; `spread` is that of the logarithms of deviations."""
        pairs = zip(self._start, self._overall, strict=True)
        return np.concatenate([self._values_of(own, all_rows, spread) for own, all_rows in pairs])

    def blocks(self, values: Float) -> list[Block]:
        """Blocks of components with values (n, p)."""
        parts = np.split(values, np.cumsum(self._sizes)[:-1], axis=1)
        pairs = zip(self._start, self._overall, parts, strict=True)
        return [self._block_of(own, all_rows, part) for own, all_rows, part in pairs]

    def _values_of(self, own: Any, overall: Any, spread: float) -> Float:
        values = self._own_values(own, overall, spread)
        if not _has_seen(own):
            return values
        return np.append(values, (_odds(own.seen) - _odds(overall.seen)) / _ODDS)

    def _own_values(self, own: Any, overall: Any, spread: float) -> Float:
        if isinstance(own, GaussianBlock):
            k, unit = len(own.columns), _MEAN * self._scale[list(own.columns)]
            means = (own.means[0] - overall.means[0]) / unit
            rest = np.zeros(_spread_size(k))
            rest[:k] = spread
            return np.append(means, rest)
        if isinstance(own, BernoulliBlock):
            return (_odds(own.probabilities) - _odds(overall.probabilities)) / _ODDS
        if isinstance(own, PoissonBlock):
            return (_log(own.rates) - _log(overall.rates)) / _RATE
        return (_log(own.probabilities[0]) - _log(overall.probabilities[0])) / _LEVELS

    def _block_of(self, own: Any, overall: Any, values: Float) -> Any:
        wide = own.chosen([0] * len(values))
        if _has_seen(own):
            seen = expit(_odds(overall.seen) + _ODDS * values[:, -1])
            wide, values = replace(wide, seen=seen), values[:, :-1]
        if isinstance(own, GaussianBlock):
            k = len(own.columns)
            means = overall.means + _MEAN * self._scale[list(own.columns)] * values[:, :k]
            roots = np.linalg.cholesky(own.covariances[0]) @ _spread(k, values[:, k:])
            return replace(wide, means=means, covariances=roots @ roots.transpose(0, 2, 1))
        if isinstance(own, BernoulliBlock):
            odds = _odds(overall.probabilities) + _ODDS * values[:, 0]
            return replace(wide, probabilities=expit(odds))
        if isinstance(own, PoissonBlock):
            return replace(wide, rates=np.exp(_log(overall.rates) + _RATE * values[:, 0]))
        table = np.exp(_log(overall.probabilities) + _LEVELS * values)
        return replace(wide, probabilities=table / table.sum(axis=1, keepdims=True))


def _spread(k: int, values: Float) -> Float:
    """Triangles (n, k, k) by which a root of the covariances is multiplied."""
    found = np.zeros((len(values), k, k))
    every = np.arange(k)
    found[:, every, every] = np.exp(_DEVIATION * values[:, :k])
    rows, columns = np.tril_indices(k, -1)
    if values.shape[1] > k:
        found[:, rows, columns] = _MIXED * values[:, k:]
    return found


def _spread_size(k: int) -> int:
    return k * (k + 1) // 2 if k <= _MOST_JOINED else k


def _size(block: Any) -> int:
    """Number of values of a block."""
    extra = int(_has_seen(block))
    if isinstance(block, GaussianBlock):
        return len(block.columns) + _spread_size(len(block.columns)) + extra
    return extra + (len(block.levels) if isinstance(block, CategoricalBlock) else 1)


def _has_seen(block: Any) -> bool:
    """Whether the probability that its one column is seen is a value."""
    return block.seen is not None and block.seen.ndim == 1


def _odds(probabilities: Float) -> Float:
    return np.asarray(logit(np.clip(probabilities, _LEAST, 1 - _LEAST)))


def _log(values: Float) -> Float:
    return np.asarray(np.log(np.maximum(values, _LEAST)))


def fit_component(
    components: FixedComponents,
    law: Law,
    one: Callable[[list[Block]], FixedComponents],
    many: Moments,
    moments: Float,
    n: float,
    weights: Float,
) -> NewComponent:
    """The component that explains the moments of a group of `n` rows best.

    `one` gives the moments of one component and their covariance, `many` the moments of several;
    `weights` (r + 1,) are those to begin with.
    """
    is_few = components.conditions.n_features <= _FEW_FEATURES
    more, spreads = (_MORE, _SPREADS) if is_few else (1, (0.0,))
    found = []
    for spread in spreads:
        values, w, error = law.values(spread), weights, float("nan")
        for _ in range(more * _ROUNDS):
            wide = components.widened(one(law.blocks(values[None])))
            root = Root(group_covariance(wide, n, w))
            search = _Search(components, law, many, root, moments)
            before = values
            for _ in range(more * _STEPS):
                values, w, error, settled = search.step(values)
                if settled:
                    break
            if float(np.abs(values - before).max()) < _STILL:
                break
        blocks = law.blocks(values[None])
        wide = components.widened(one(blocks))
        lost = check_fit(wide, moments, n, w, None).statistic + float(values @ values)
        found.append((lost, NewComponent(blocks, wide, w, error)))
    return min(found, key=lambda own: own[0])[1]


class _Search:
    """Gauss-Newton steps with one covariance of the moments."""

    def __init__(
        self, components: FixedComponents, law: Law, many: Moments, root: Root, moments: Float
    ) -> None:
        self._law, self._many, self._root = law, many, root
        # One more row, ω / _SHARE: where nothing tells the share, it is rather small.
        self._means = np.vstack([root.whiten(components.means), np.zeros(components.n_components)])
        self._target = np.append(root.whiten(moments), 0.0)
        self._basis = helmert(components.n_components + 1).T

    def step(self, values: Float) -> tuple[Float, Float, float, bool]:
        """Values after a step, weights, the error of the share before it, and whether it is 0."""
        p = len(values)
        near = np.vstack([values, values + _FINE * np.eye(p)])
        table = self._table(near)
        means = np.column_stack([self._means, table[:, 0]])
        weights = bounded(means, self._target)
        slopes = weights[-1] * (table[:, 1:] - table[:, :1]) / _FINE
        residual = self._target - means @ weights
        matrix = np.hstack([means @ self._basis, slopes])
        prior = np.hstack([np.zeros((p, self._basis.shape[1])), np.eye(p)])
        full, right = np.vstack([matrix, prior]), np.append(residual, -values)
        q, triangle = np.linalg.qr(full)
        found = np.linalg.lstsq(triangle, q.T @ right, rcond=None)[0]
        change = found[-p:]
        before = float(residual @ residual + values @ values)
        inverse = np.linalg.pinv(triangle)
        share = self._basis[-1] @ inverse[: self._basis.shape[1]]
        error = float(np.sqrt(share @ share))
        factor = min(1.0, _LONGEST / max(float(np.abs(change).max()), 1e-300))
        for _ in range(4):
            moved = values + factor * change
            after, best = self._objective(moved)
            if after < before:
                return moved, best, error, bool(before - after < _SETTLED)
            factor /= 3
        return values, weights, error, True

    def _table(self, values: Float) -> Float:
        white = self._root.whiten(self._many(self._law.blocks(values)))
        return np.vstack([white, np.full(len(values), 1.0 / _SHARE)])

    def _objective(self, values: Float) -> tuple[float, Float]:
        means = np.column_stack([self._means, self._table(values[None])])
        weights = bounded(means, self._target)
        residual = self._target - means @ weights
        return float(residual @ residual + values @ values), weights

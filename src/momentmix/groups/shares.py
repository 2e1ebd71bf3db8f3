"""Shares of fixed components in a group of rows, from its moments: estimate, interval, test.

| symbol | name here | shape |
|---|---|---|
| T(z): z_j, z_j², z_j z_k of a row; with up to three features z_j³, z_j⁴ | `Monomials` | (q,) |
| M = E_c T, one column for each component | ``FixedComponents.means`` | (q, r) |
| K_c = Cov_c T | ``within`` | (r, q, q) |
| V(w) = Σ_c w_c (K_c + (M_c − M w) (M_c − M w)ᵀ) | `FixedComponents.covariance` | (q, q) |
| Cov(M̂_a, M̂_b): errors of the model | ``errors`` | (r, r, q, q) |
| m: moments of the group, of n rows | ``moments`` | (q,) |

*Estimate.* w minimizes (m − M w)ᵀ V(w)⁻¹ (m − M w) with w ≥ 0 and Σ w = 1; V is taken at the last w
in a few rounds. *Intervals.* Without bounds the estimate is linear in m: the mean over rows of a
statistic that is 1 on average in component c and 0 in the others. Its variance at a share x is
quadratic in x, and the interval holds all x that the estimate does not reject, as Wilson's does.
*Test.* n times the minimum is χ²; with few rows its variance is larger, and a gamma distribution of
that variance takes the place of χ². Errors of the model add to the variances of both.

K_c comes from draws, which hold for all families; M is exact. All moments are whitened by V at the
weights of the model, which drops monomials that are functions of others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, nan
from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert
from scipy.linalg.lapack import dtrtrs
from scipy.optimize import nnls
from scipy.special import gammaincc

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.index_sets import index_sets
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters, parameters_from
from momentmix.summary.layout import Layout

_MOST_MONOMIALS = 170  # a root of their covariance, taken for each group, costs a millisecond
_FEW_FEATURES = 3  # with more, powers above the second add next to nothing
_DRAWS, _PER_MONOMIAL = 20_000, 100  # of each component; K_c⁻¹ is too large by one percent
_KEPT_DRAWS = 500  # for the fourth moments of the test
_DEPENDENT = 1e-7  # share of the variance of a direction that is none of its own
_RIDGE = 1e-9
_APART = 1e-4  # whitened distance of components; below, 1e8 rows would not separate them
_FEWEST_TESTED = 20  # rows: the moments of fewer are far from normal
_DOUBTFUL = 0.2  # p-value of χ² below which draws, which take long, may change the answer
_ROUNDS, _SETTLED = 12, 0.02  # mostly four are enough; over √n, far below the standard errors
_LEAST_SHARE = 0.5  # rows of a component in the weights that the covariance is taken at
_SUM = 1e4  # weight of the sum in the least squares, in units of the largest slope


class Monomials(NamedTuple):
    """Which products are used: features `j`, `k` (−1: none), and powers of single features `p`."""

    j: Int
    k: Int
    p: Int

    @classmethod
    def of(cls, p: Parameters, layout: Layout, constant: Int) -> Monomials:
        """Those that a layout holds, of features that vary; at most 170, single features first."""
        blocks, d = p.blocks, p.blocks.n_features
        column = np.arange(d)  # pairs within a column with a distribution of its own are left out
        for law in blocks.laws:
            column[list(law.features)] = law.features[0]
        single = np.setdiff1d(np.arange(d), constant)
        variances = [
            pair for law in blocks.laws for pair in zip(law.features, law.free, strict=True)
        ]
        squares = np.setdiff1d(single, [j for j, is_free in variances if not is_free])
        high = np.setdiff1d(squares, blocks.with_law)
        powers = [(single, 1), (squares, 2)]
        if layout.high and single.size <= _FEW_FEATURES:
            powers += [(high, 3), (high, 4)]
        pairs = index_sets(d, 2) if layout.order > 1 else np.empty((0, 2), dtype=np.int64)
        usable = np.isin(pairs, single).all(axis=1) & (column[pairs[:, 0]] != column[pairs[:, 1]])
        pairs = np.random.default_rng(0).permutation(pairs[usable])
        none = [np.full(own.size, -1) for own, _ in powers]
        every = (
            [*(own for own, _ in powers), pairs[:, 0]],
            [*none, pairs[:, 1]],
            [*(np.full(own.size, e) for own, e in powers), np.ones(len(pairs), dtype=np.int64)],
        )
        return cls(*(np.concatenate(parts)[:_MOST_MONOMIALS] for parts in every))

    def places(self, layout: Layout) -> Int:
        """Where they stand among the moments of a layout."""
        d = layout.n_features
        sections = [layout.section("distinct", 1), layout.section("squared", 0)]
        if layout.high:
            sections += [layout.section("power", 3), layout.section("power", 4)]
        starts = np.array([section.start for section in sections])
        found = starts[self.p - 1] + self.j
        pair = self.k >= 0
        if pair.any():
            ranks = np.zeros((d, d), dtype=np.int64)
            sets = index_sets(d, 2)
            ranks[sets[:, 0], sets[:, 1]] = np.arange(len(sets))
            found[pair] = layout.section("distinct", 2).start + ranks[self.j[pair], self.k[pair]]
        return found

    def of_rows(self, rows: Float) -> Float:
        """Products of rows (n, d), of shape (n, q)."""
        found = rows[:, self.j]
        for e in (2, 3, 4):
            found[:, self.p >= e] *= rows[:, self.j[self.p >= e]]
        found[:, self.k >= 0] *= rows[:, self.k[self.k >= 0]]
        return found

    def means(self, p: Parameters) -> Float:
        """Expected products in each component, of shape (q, r)."""
        m, v, other = p.means[:, self.j], p.variances[:, self.j], p.means[:, self.k]
        powers = [m, m**2 + v, m**3 + 3 * m * v, m**4 + 6 * m**2 * v + 3 * v**2]
        found = np.choose(self.p - 1, powers)
        pair = p.matrices[:, self.j, self.k] + m * other
        return np.asarray(np.where(self.k < 0, found, pair).T)

    def slopes(self, p: Parameters, factor: Float) -> Float:
        """Changes of `means` by the columns of a factor (n_places, n), of shape (r, q, n)."""
        places = parameters_from(np.arange(p.n_places), p.n_components, p.blocks)
        dm, dv = factor[places.means[:, self.j]], factor[places.variances[:, self.j]]
        m, v = p.means[:, self.j, None], p.variances[:, self.j, None]
        e = self.p[:, None]
        powers = [dm, 2 * m * dm + dv, (3 * m**2 + 3 * v) * dm + 3 * m * dv,
                  (4 * m**3 + 12 * m * v) * dm + (6 * m**2 + 6 * v) * dv]  # fmt: skip
        found = np.choose(np.broadcast_to(e - 1, dm.shape), powers)
        pair = np.flatnonzero(self.k >= 0)
        j, k = self.j[pair], self.k[pair]
        found[:, pair] = factor[places.means[:, k]] * p.means[:, j, None]
        found[:, pair] += dm[:, pair] * p.means[:, k, None]
        rank = {tuple(own): i for i, own in enumerate(p.blocks.pairs.tolist())}
        for place, own in zip(pair, np.stack([j, k], axis=1).tolist(), strict=True):
            if tuple(own) in rank:
                found[:, place] += factor[places.covariances[:, rank[tuple(own)]]]
        return np.asarray(found)


class Shares(NamedTuple):
    """What is found of one group: shares (r,) with their intervals, and the test of fit."""

    weights: Float
    low: Float
    high: Float
    p_value: float = nan
    effect_size: float = nan


@dataclass(frozen=True, eq=False)
class FixedComponents:
    """Fixed components, whose weights in a group are looked for; moments are whitened."""

    monomials: Monomials
    origin: Float  # moments of the model
    whitening: Float  # (q, number of monomials)
    weights: Float  # of the model
    means: Float
    within: Float
    draws: Float  # moments of single rows of each component, (r, n, q)
    errors: Float | None

    @classmethod
    def of(
        cls, p: Parameters, layout: Layout, constant: Int, factor: Float | None = None
    ) -> FixedComponents:
        """Components of standardized features; the covariance of `p.flat` is factor factorᵀ."""
        monomials, r = Monomials.of(p, layout, constant), p.n_components
        if not monomials.j.size:
            raise InputError(
                "all columns of the model are constant, so that its components cannot be "
                "identified. Fit columns that vary."
            )
        means, w = monomials.means(p), np.maximum(p.weights, 1e-3)
        w = w / w.sum()
        origin = means @ w
        n_draws = max(_DRAWS, _PER_MONOMIAL * len(means))
        draws, within = np.empty((r, _KEPT_DRAWS, len(means))), np.empty((r, *means.shape[:1] * 2))
        for c in range(r):
            alone = replace(p[[c]], weights=np.ones(1))
            rows, _ = gaussian.sample(alone, n_draws, np.random.default_rng(c))
            products = monomials.of_rows(rows)
            draws[c] = products[:_KEPT_DRAWS] - origin
            products -= means[:, c]
            within[c] = products.T @ products / n_draws
        between = means - origin[:, None]
        covariance = np.tensordot(w, within, 1) + (between * w) @ between.T
        scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
        values, vectors = np.linalg.eigh(covariance / scale / scale[:, None])
        kept = values > _DEPENDENT
        white = vectors[:, kept].T / np.sqrt(values[kept])[:, None] / scale
        errors = None
        if factor is not None:
            slopes = white @ monomials.slopes(p, factor)
            flat = slopes.reshape(-1, slopes.shape[-1])
            shape = r, len(white), r, len(white)
            errors = (flat @ flat.T).reshape(shape).transpose(0, 2, 1, 3).reshape(r * r, -1)
        return cls(
            monomials, origin, white, p.weights, white @ between, white @ within @ white.T,
            draws @ white.T, errors,
        )  # fmt: skip

    @property
    def n_components(self) -> int:
        """Number of components r."""
        return int(self.means.shape[1])

    @property
    def rank(self) -> int:
        """Number of components whose weights the moments identify."""
        values = np.linalg.svd(self.means - (self.means @ self.weights)[:, None], compute_uv=False)
        return 1 + int((values > _APART * max(1.0, float(values.max(initial=0.0)))).sum())

    def covariance(self, weights: Float) -> Float:
        """V(w) of one row."""
        rest = self.means - (self.means @ weights)[:, None]
        return np.asarray(np.tensordot(weights, self.within, 1) + (rest * weights) @ rest.T)

    def shared_error(self, weights: Float) -> Float:
        """Covariance of M̂ w from the errors of the model."""
        q = len(self.means)
        if self.errors is None:
            return np.zeros((q, q))
        return np.asarray((np.outer(weights, weights).ravel() @ self.errors).reshape(q, q))

    def shares(self, moments: Float, n: float, z: float) -> Shares:
        """Shares of a group of `n` rows with raw `moments`; `z` is a quantile of the normal law."""
        m, r = self.whitening @ (moments - self.origin), self.n_components
        if r == 1:
            weights, low, high = np.ones((3, 1))
        else:
            weights = self._settled(m, n)
            low, high = self._intervals(m, n, z, _inside(weights, n))
            low, high = np.minimum(low, weights), np.maximum(high, weights)
        return Shares(weights, low, high, *self._test(m, n, weights))

    def _settled(self, m: Float, n: float) -> Float:
        """Weights at which the covariance of the moments is taken that they are found with."""
        w = self.weights
        for _ in range(_ROUNDS):
            root, before = _root(self.covariance(_inside(w, n))), w
            w = bounded(_solve(root, self.means), _solve(root, m))
            if np.abs(w - before).max() * np.sqrt(n) < _SETTLED:
                break
        return w

    def _intervals(self, m: Float, n: float, z: float, w: Float) -> tuple[Float, Float]:
        """Ends of the intervals of all shares, (r,) each; the covariance is taken at `w`."""
        r, basis = self.n_components, _contrasts(self.n_components)
        covariance = self.covariance(w)
        root = _root(covariance)
        inverse = np.asarray(np.linalg.pinv(_solve(root, self.means @ basis)), dtype=np.float64)
        table = basis @ _solve(root, inverse.T, trans=1).T  # (r, q)
        b = 1.0 / r - table @ self.means.mean(axis=1)
        estimate = table @ m + b
        extra = ((table @ self.shared_error(w)) * table).sum(axis=1)
        # First and second moments of the statistic of share c in component k: 1 or 0, and more.
        first = table @ self.means + b[:, None]
        second = ((self.within @ table.T) * table.T).sum(axis=1).T + first**2
        same = np.eye(r, dtype=bool)
        others = np.where(same, 0.0, w / np.maximum(1.0 - w, 1e-300)[:, None])
        rest, rest_mean = (second * others).sum(axis=1), (first * others).sum(axis=1)
        # v(x) = x s_c + (1 − x) s_rest − (x f_c + (1 − x) f_rest)²
        f = first[same] - rest_mean
        square, linear = -f * f, second[same] - rest - 2 * f * rest_mean
        constant = rest - rest_mean**2
        at_0 = np.sqrt(np.maximum(constant / n + extra, 0.0))
        at_1 = np.sqrt(np.maximum((constant + linear + square) / n + extra, 0.0))
        u = np.clip(estimate, -at_0, 1.0 + at_1)  # so that no interval is empty
        # (u − x)² = z² (v(x) / n + extra)
        scale = z * z / n
        p = 1.0 - scale * square
        half = u + scale * linear / 2
        width = np.sqrt(np.maximum(half**2 - p * (u * u - scale * constant - z * z * extra), 0.0))
        return np.clip((half - width) / p, 0.0, 1.0), np.clip((half + width) / p, 0.0, 1.0)

    def _test(self, m: Float, n: float, weights: Float) -> tuple[float, float]:
        """p-value of the test whether the components explain the moments, and the effect size."""
        if n < _FEWEST_TESTED:
            return nan, nan
        at = _inside(weights, n)
        root = _root(self.covariance(at) / n + self.shared_error(at))
        means, target = _solve(root, self.means), _solve(root, m)
        best = bounded(means, target)
        residual = target - means @ best
        with np.errstate(over="ignore"):  # infinite where rows lie 1e50 deviations away
            statistic = float(residual @ residual)
        dof = len(m) - int((best > 0).sum()) + 1
        if dof <= 0:
            return nan, nan
        p_value, variance = _tail(statistic, dof, 2.0 * dof), 2.0 * dof
        if p_value < _DOUBTFUL and statistic < inf:
            p_value = _tail(statistic, dof, variance + max(0.0, self._fourth_cumulant(root, at, n)))
        return p_value, float(np.sqrt(max(statistic - dof, 0.0) / (dof * n)))

    def _fourth_cumulant(self, root: Float, weights: Float, n: float) -> float:
        """(E‖x‖⁴ − q² − 2q) / n of whitened moments of one row in units of the group's noise."""
        mean, fourth, second = self.means @ weights, 0.0, 0.0
        for share, own in zip(weights, self.draws, strict=True):
            lengths = (_solve(root, (own - mean).T) ** 2).sum(axis=0) / n
            second += share * float(lengths.mean())
            fourth += share * float((lengths**2).mean())
        return (fourth - second**2 - 2 * second) / n


def _tail(statistic: float, dof: int, variance: float) -> float:
    """Probability beyond a statistic under a gamma distribution of mean `dof`."""
    return float(gammaincc(dof**2 / variance, statistic * dof / variance))


def _root(covariance: Float) -> Float:
    ridge = _RIDGE * np.trace(covariance) / len(covariance)
    return np.asarray(np.linalg.cholesky(covariance + ridge * np.eye(len(covariance))))


def _solve(root: Float, columns: Float, trans: int = 0) -> Float:
    return np.asarray(dtrtrs(root, columns, lower=1, trans=trans)[0]).reshape(columns.shape)


@lru_cache(maxsize=64)
def _contrasts(r: int) -> Float:
    """Directions within a sum of 0, of shape (r, r − 1)."""
    return np.asarray(helmert(r).T)


def _inside(weights: Float, n: float) -> Float:
    """Weights of at least half a row: the covariance is taken there."""
    raised = np.maximum(weights, _LEAST_SHARE / max(n, 1.0))
    return np.asarray(raised / raised.sum())


def bounded(means: Float, target: Float) -> Float:
    """Non-negative weights (r,) of sum 1 whose means are nearest to the target."""
    table = means - target[:, None]  # M w − m = (M − m 1ᵀ) w where the weights sum to 1
    w = _best_of(table)
    if (w < 0).any():
        heavy = _SUM * max(float(np.abs(table).max(initial=0.0)), 1e-300)
        full = np.vstack([table, np.full(table.shape[1], heavy)])
        w, _ = nnls(full, np.append(np.zeros(len(table)), heavy))
        own = np.flatnonzero(w > 0)  # with these alone, the sum is exactly 1
        exact = _best_of(table[:, own])
        w[own] = exact if (exact > 0).all() else w[own]
    return np.asarray(w / w.sum())


def _best_of(table: Float) -> Float:
    """The minimum over all components with a sum of 1, signs disregarded."""
    r = table.shape[1]
    if r < 2:
        return np.ones(r)
    basis, start = _contrasts(r), np.full(r, 1.0 / r)
    step = np.linalg.lstsq(table @ basis, -table @ start, rcond=None)[0]
    return np.asarray(start + basis @ step)

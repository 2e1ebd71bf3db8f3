"""Shares of fixed components in a group of rows, from its moments: estimate, interval, test.

| symbol | name here | shape |
|---|---|---|
| T(z): z_j, z_j² and z_j z_k of a row | `Products` | (q,) |
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
weights of the model, which drops products that are functions of others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, nan
from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert
from scipy.linalg.lapack import dtrtrs
from scipy.optimize import nnls
from scipy.special import gammaincc

from momentmix._typing import Float, Int
from momentmix.index_sets import index_sets
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters, parameters_from
from momentmix.summary.readings import Moments

_MOST_PRODUCTS = 170  # a root of their covariance, taken for each group, costs a millisecond
_DRAWS, _PER_PRODUCT = 20_000, 100  # of each component; K_c⁻¹ is too large by one percent
_KEPT_DRAWS = 500  # for the fourth moments of the test
_DEPENDENT = 1e-7  # share of the variance of a direction that no other product explains
_RIDGE = 1e-9
_APART = 1e-4  # whitened distance of components; below, 1e8 rows would not separate them
_FEWEST_TESTED = 20  # rows: the moments of fewer are far from normal
_DOUBTFUL = 0.2  # p-value of χ² below which draws, which take long, may change the answer
_ROUNDS, _SETTLED = 12, 0.02  # mostly four are enough; over √n, far below the standard errors
_LEAST_SHARE = 0.5  # rows of a component in the weights that the covariance is taken at
_SUM = 1e4  # weight of the sum in the least squares, in units of the largest slope


class Products(NamedTuple):
    """Which moments are used: of features `j` alone (`k` is −1), of squares, and of pairs."""

    j: Int
    k: Int
    place: Int  # in `moments_of`

    @classmethod
    def of(cls, p: Parameters, has_pairs: bool) -> Products:
        """At most 170, single features first."""
        d = p.blocks.n_features
        column = np.arange(d)  # pairs within a column of levels or missing cells are left out
        for distribution in p.blocks.laws:
            column[list(distribution.features)] = distribution.features[0]
        every, pairs = np.arange(d), index_sets(d, 2)
        follows = np.isin(every + 1 + d, p.blocks.not_free)  # squares that follow from the mean
        j = np.concatenate([every, every, pairs[:, 0]])
        k = np.concatenate([np.full(d, -1), every, pairs[:, 1]])
        # A constant has a variance in the model that it never has in a group.
        alike = (np.ptp(p.means, axis=0) == 0) & (np.ptp(p.variances, axis=0) == 0)
        if p.n_components == 1 or alike.all():
            alike[:] = False
        is_used = ~alike[j] & ~(alike[k] & (k >= 0))
        is_used[d : 2 * d] &= ~follows
        is_used[2 * d :] &= has_pairs & (column[pairs[:, 0]] != column[pairs[:, 1]])
        places = np.flatnonzero(is_used)
        n_single = int((places < 2 * d).sum())
        np.random.default_rng(0).shuffle(places[n_single:])
        places = places[:_MOST_PRODUCTS]
        return cls(j[places], k[places], places)

    def moments_of(self, moments: Moments) -> Float:
        """Means of the products over the rows of a summary."""
        parts = [moments.distinct[1], moments.squared[0][:, 0], *moments.distinct[2:3]]
        return np.asarray(np.concatenate(parts)[self.place])

    def of_rows(self, rows: Float) -> Float:
        """Products of rows (n, d), of shape (n, q)."""
        return rows[:, self.j] * np.where(self.k < 0, 1.0, rows[:, self.k])

    def means(self, p: Parameters) -> Float:
        """Expected products in each component, of shape (q, r)."""
        m, other = p.means[:, self.j], p.means[:, self.k]
        product = p.matrices[:, self.j, self.k] + m * other
        return np.asarray(np.where(self.k < 0, m, product).T)

    def slopes(self, p: Parameters, factor: Float) -> Float:
        """Changes of `means` by the columns of a factor (n_places, n), of shape (r, q, n)."""
        here, found = p.flat(), np.empty((p.n_components, len(self.j), factor.shape[1]))
        for i, change in enumerate(factor.T):  # means are quadratic: central differences are exact
            ends = (parameters_from(here + x, p.n_components, p.blocks) for x in (change, -change))
            after, before = map(self.means, ends)
            found[:, :, i] = (after - before).T / 2
        return found


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

    products: Products
    origin: Float  # moments of the model
    whitening: Float  # (q, number of products)
    weights: Float  # of the model
    means: Float
    within: Float
    draws: Float  # moments of single rows of each component, (r, n, q)
    errors: Float

    @classmethod
    def of(cls, p: Parameters, products: Products, factor: Float | None = None) -> FixedComponents:
        """Components of standardized features; the covariance of `p.flat` is factor factorᵀ."""
        r, means, w = p.n_components, products.means(p), np.maximum(p.weights, 1e-3)
        w = w / w.sum()
        origin, q = means @ w, len(means)
        n_draws = max(_DRAWS, _PER_PRODUCT * q)
        draws, within = np.empty((r, _KEPT_DRAWS, q)), np.empty((r, q, q))
        for c in range(r):
            alone = replace(p[[c]], weights=np.ones(1))
            rows, _ = gaussian.sample(alone, n_draws, np.random.default_rng(c))
            values = products.of_rows(rows)
            draws[c] = values[:_KEPT_DRAWS] - origin
            values -= means[:, c]
            within[c] = values.T @ values / n_draws
        between = means - origin[:, None]
        covariance = np.tensordot(w, within, 1) + (between * w) @ between.T
        scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
        values, vectors = np.linalg.eigh(covariance / scale / scale[:, None])
        kept = values > _DEPENDENT
        white = vectors[:, kept].T / np.sqrt(values[kept])[:, None] / scale
        slopes = np.zeros((r, q, 1)) if factor is None else products.slopes(p, factor)
        slopes = white @ slopes
        return cls(
            products, origin, white, p.weights, white @ between, white @ within @ white.T,
            draws @ white.T, np.einsum("aim,bjm->abij", slopes, slopes, optimize=True),
        )  # fmt: skip

    @property
    def rank(self) -> int:
        """Number of components whose weights the moments identify."""
        values = np.linalg.svd(self.means - (self.means @ self.weights)[:, None], compute_uv=False)
        return 1 + int((values > _APART * max(1.0, float(values.max(initial=0.0)))).sum())

    def covariance(self, weights: Float) -> Float:
        """V(w) of one row."""
        rest = self.means - (self.means @ weights)[:, None]
        return np.asarray(np.tensordot(weights, self.within, 1) + (rest * weights) @ rest.T)

    def model_error(self, weights: Float) -> Float:
        """Covariance of M̂ w from the errors of the model."""
        return np.asarray(np.tensordot(np.outer(weights, weights), self.errors, 2))

    def shares(self, moments: Moments, n: float, z: float) -> Shares:
        """Shares of a group of `n` rows; `z` is a quantile of the normal distribution."""
        m = self.whitening @ (self.products.moments_of(moments) - self.origin)
        if len(self.weights) == 1:
            weights, low, high = np.ones((3, 1))
        else:
            weights = self._estimate(m, n)
            low, high = self._intervals(m, n, z, _inside(weights, n))
            low, high = np.minimum(low, weights), np.maximum(high, weights)
        return Shares(weights, low, high, *self._test(m, n, weights))

    def _estimate(self, m: Float, n: float) -> Float:
        """Least squares with the covariance at the shares that are estimated."""
        w = self.weights
        for _ in range(_ROUNDS):
            root, before = _root(self.covariance(_inside(w, n))), w
            w = nearest_weights(_solve(root, self.means), _solve(root, m))
            if np.abs(w - before).max() * np.sqrt(n) < _SETTLED:
                break
        return w

    def _intervals(self, m: Float, n: float, z: float, w: Float) -> tuple[Float, Float]:
        """Ends of the intervals of all shares, (r,) each; the covariance is taken at `w`."""
        r = len(self.weights)
        basis = np.asarray(helmert(r).T)  # directions within a sum of 0, (r, r − 1)
        root = _root(self.covariance(w))
        inverse = np.asarray(np.linalg.pinv(_solve(root, self.means @ basis)), dtype=np.float64)
        table = basis @ _solve(root, inverse.T, trans=1).T  # (r, q)
        offset = 1.0 / r - table @ self.means.mean(axis=1)
        estimate = table @ m + offset
        extra = ((table @ self.model_error(w)) * table).sum(axis=1)
        # First and second moments of the statistic of share c in component k: 1 or 0, and more.
        first = table @ self.means + offset[:, None]
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
        root = _root(self.covariance(at) / n + self.model_error(at))
        means, target = _solve(root, self.means), _solve(root, m)
        best = nearest_weights(means, target)
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
        for share, rows in zip(weights, self.draws, strict=True):
            lengths = (_solve(root, (rows - mean).T) ** 2).sum(axis=0) / n
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


def _inside(weights: Float, n: float) -> Float:
    """Weights of at least half a row: the covariance is taken there."""
    raised = np.maximum(weights, _LEAST_SHARE / max(n, 1.0))
    return np.asarray(raised / raised.sum())


def nearest_weights(means: Float, target: Float) -> Float:
    """Non-negative weights (r,) of sum 1 whose means are nearest to the target."""
    table = means - target[:, None]  # M w − m = (M − m 1ᵀ) w where the weights sum to 1
    heavy = _SUM * max(float(np.abs(table).max(initial=0.0)), 1e-300)
    full = np.vstack([table, np.full(table.shape[1], heavy)])
    w, _ = nnls(full, np.append(np.zeros(len(table)), heavy))
    return np.asarray(w / w.sum())

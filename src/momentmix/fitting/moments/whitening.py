"""Whitening of moment conditions, and projection away from the parameters.

| symbol | name here | shape |
|---|---|---|
| C: covariance of one row's conditions | by ``scale``, ``triangle`` | (n,), (n, n) |
| W = C^{-1/2} ∂ model / ∂ θ within Σ ω = 1, unit columns | ``slopes`` | (n, n_parameters − 1) |
| I − W (WᵀW)⁻¹ Wᵀ | ``project`` | |
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, helmert, solve_triangular
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dpotrs, dpstrf, dtrtri, dtrtrs

from momentmix._typing import Float, Int
from momentmix.fitting.moments.conditions import Conditions
from momentmix.fitting.moments.covariance import monomial_correlation
from momentmix.fitting.moments.derivative import derivative, gram
from momentmix.lazy import lazy_property
from momentmix.mixture.parameters import Parameters, dependent_places
from momentmix.parallel import all_threads

_RIDGE = 1e-9  # copies of columns make the covariance singular
_REDUNDANT = 1e-7  # share of a condition's variance; far above the ridge and rounding
_DEPENDENT = 1e-11  # squared length of what a slope adds to those before it; its own length is 1
_CLEARLY_INDEPENDENT = 1e-4  # length of what a slope adds to those before it, in any order


class Whitening:
    """Whitening and projection for one set of conditions and parameters.

    `often`: products with the inverse of the triangle take a third of the time of a solution.
    `independent` are the conditions that are no function of those before them.
    """

    def __init__(self, conditions: Conditions, parameters: Parameters, often: bool = False) -> None:
        self._conditions, self._parameters = conditions, parameters
        with all_threads(2 * parameters.means.size):
            correlation, self.scale = monomial_correlation(conditions, parameters)
            self.model = conditions.model(parameters)
            self.triangle = _factored(correlation)
        self._inverse = dtrtri(self.triangle, lower=1)[0] if often else None
        # What is new in a condition beside those before it has this variance.
        self.independent = np.diagonal(self.triangle) ** 2 > _REDUNDANT

    @property
    def log_determinant(self) -> float:
        """Log-determinant of C, with a bound for conditions that are functions of others."""
        new = np.maximum(np.diagonal(self.triangle) ** 2, _REDUNDANT)
        return float(2.0 * np.log(self.scale).sum() + np.log(new).sum())

    @lazy_property
    def table(self) -> Float:
        """Whitened derivatives at the parameters, of shape (n, n_places)."""
        return self.whiten(derivative(self._conditions, self._parameters))

    @lazy_property
    def _slopes(self) -> Float:
        """Derivatives within Σ ω = 1, one column less, without variances given by means."""
        p, table = self._parameters, self.table
        if p.blocks.laws:
            table = np.delete(table, dependent_places(p), axis=1)
        r = p.n_components
        by_weights = table[:, :r] @ helmert(r).T if r > 1 else table[:, :0]
        return np.concatenate([by_weights, table[:, r:]], axis=1)

    @lazy_property
    def projection(self) -> Projection:
        """Projection away from the slopes of all conditions."""
        return self.leading(self.scale.size)

    def leading(self, n: int) -> Projection:
        """Projection for the first n conditions alone; whitened, they are the first n rows."""
        with all_threads(self._slopes.shape[1]):
            return Projection(self._slopes[:n])

    def degrees_of_freedom(self, projection: Projection) -> int:
        """Rank of the covariance of a projection's conditions minus the rank of their slopes."""
        n = projection.slopes.shape[0]
        return int(self.independent[:n].sum()) - projection.rank

    def whiten(self, columns: Float) -> Float:
        """Return C^{-1/2}·columns; 0 for conditions that are functions of earlier ones."""
        scaled = np.empty(columns.shape, order="F")  # as LAPACK wants it
        np.divide(columns.T, self.scale, out=scaled.T)
        if self._inverse is not None and scaled.ndim == 2:
            white = dtrmm(1.0, self._inverse, scaled, lower=1, overwrite_b=1)
        else:
            white, _ = dtrtrs(self.triangle, scaled, lower=1, overwrite_b=1)
        white[~self.independent] = 0.0
        return np.asarray(white)

    def whiten_last(self, n: int) -> Float:
        """Whiten the last n conditions, in units of their deviations; (size, n)."""
        size = self.scale.size
        white = np.zeros((size, n))
        own = self.triangle[size - n :, size - n :]
        white[size - n :] = solve_triangular(own, np.eye(n), lower=True, check_finite=False)
        white[~self.independent] = 0.0
        return white

    def residual(self, values: Float) -> Float:
        """Whitened difference of observed means (n,) or (n, k) and the model's."""
        return self.whiten((values.T - self.model).T)


class Projection:
    """I − W (WᵀW)⁻¹ Wᵀ for whitened slopes W, dependent ones left out."""

    def __init__(self, slopes: Float) -> None:
        normal = gram(slopes)
        scale = np.maximum(np.sqrt(np.diagonal(normal)), 1e-300)
        unit = normal / scale[:, None]
        unit /= scale
        self._root, failed = dpotrf(unit, lower=1)
        kept: slice | Int = slice(None)
        if failed or np.diagonal(self._root).min() <= _CLEARLY_INDEPENDENT:
            factor, pivots, rank, _ = dpstrf(unit, tol=_DEPENDENT, lower=1)
            self._root, kept = factor[:rank, :rank], pivots[:rank] - 1  # the most independent first
        self.slopes, self._scale = slopes[:, kept], scale[kept]
        self.rank = len(self._scale)

    def project(self, whitened: Float) -> Float:
        """Return the residual of whitened columns beside the span of the slopes."""
        along = (self.slopes.T @ whitened).T / self._scale
        along = (dpotrs(self._root, along.T, lower=1)[0].T / self._scale).T
        return np.asarray(whitened - self.slopes @ along)


def _factored(correlation: Float) -> Float:
    """Cholesky factor of a correlation with the least ridge that makes it positive definite."""
    diagonal, ridge = np.diagonal(correlation).copy(), _RIDGE
    while ridge < 1.0:
        np.fill_diagonal(correlation, diagonal + ridge)
        # Symmetric, so its transpose serves, which LAPACK can overwrite.
        triangle, failed = dpotrf(correlation.T, lower=1, clean=0, overwrite_a=1)
        if not failed:
            return np.asarray(triangle)
        lower = np.tril(correlation, -1)  # LAPACK has overwritten the other half
        correlation, ridge = lower + lower.T, 10.0 * ridge
    raise LinAlgError("the covariance of the conditions is not positive definite")

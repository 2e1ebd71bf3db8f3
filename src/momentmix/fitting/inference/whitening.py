"""Whitening of moment conditions, and projection away from what the parameters can explain.

| symbol | name here | shape |
|---|---|---|
| C: covariance of one row's monomials | by ``scale``, ``triangle`` | (n,), (n, n) |
| W = C^{-1/2} ∂ model / ∂ θ within Σ ω = 1, unit columns | ``slopes`` | (n, n_parameters − 1) |
| I − W (WᵀW)⁻¹ Wᵀ | ``project`` | |
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, helmert, solve_triangular
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotrf, dpstrf, dtrtri, dtrtrs

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import Conditions
from momentmix.fitting.conditions.derivative import by_feature, derivative, gram
from momentmix.fitting.conditions.monomial_covariance import monomial_correlation
from momentmix.mixture.parameters import Parameters, dependent_places
from momentmix.parallel import all_threads

_RIDGE = 1e-9  # copies of columns make the covariance singular
_REDUNDANT = 1e-7  # share of a condition's variance; far above the ridge and rounding
_DEPENDENT = 1e-11  # squared length of what a slope adds to those before it; its own length is 1
_ITERATIONS = 20  # the condition number is printed with one digit


class Whitening:
    """Whitening and projection for one set of conditions and parameters.

    `often` says that many tables are whitened: products with the inverse of the triangle take a
    third of the time of a solution, and the inverse that of a few solutions. `independent` are the
    conditions that are no function of those before them, as far as noise goes.
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
        """Log-determinant of C; a condition that tells nothing new counts as one that hardly does.

        Misfits in units of two covariances compare once these are added, as in the logarithm of a
        normal density: otherwise the mixture that allows for more noise always fits better.
        """
        new = np.maximum(np.diagonal(self.triangle) ** 2, _REDUNDANT)
        return float(2.0 * np.log(self.scale).sum() + np.log(new).sum())

    @cached_property
    def _slopes(self) -> Float:
        table = derivative(self._conditions, self._parameters).table()
        return self.whiten(_tangent(table, self._parameters))

    @cached_property
    def projection(self) -> Projection:
        """Projection away from the slopes of all conditions."""
        with all_threads(self._slopes.shape[1]):
            return Projection(self._slopes)

    def whiten(self, columns: Float) -> Float:
        """C^{-1/2}·columns; 0 for conditions that are functions of those before them."""
        scaled = np.empty(columns.shape, order="F")  # as LAPACK wants it
        np.divide(columns.T, self.scale, out=scaled.T)
        if self._inverse is not None and scaled.ndim == 2:
            white = dtrmm(1.0, self._inverse, scaled, lower=1, overwrite_b=1)
        else:
            white, _ = dtrtrs(self.triangle, scaled, lower=1, overwrite_b=1)
        white[~self.independent] = 0.0
        return np.asarray(white)

    def whiten_last(self, n: int) -> Float:
        """The last n conditions, in units of their deviations, whitened; (size, n).

        A whitened condition holds itself and those after it, so that a small system is enough.
        """
        size = self.scale.size
        white = np.zeros((size, n))
        own = self.triangle[size - n :, size - n :]
        white[size - n :] = solve_triangular(own, np.eye(n), lower=True, check_finite=False)
        white[~self.independent] = 0.0
        return white

    def residual(self, values: Float) -> Float:
        """Whitened difference of observed means (n,) or (n, k) and the model's."""
        return self.whiten((values.T - self.model).T)

    def leading(self, n: int) -> Projection:
        """Projection for the first n conditions alone; whitened, they are the first n rows."""
        return Projection(self._slopes[:n])

    def degrees_of_freedom(self, projection: Projection) -> int:
        """Rank of the covariance of a projection's conditions minus the rank of their slopes."""
        n = projection.slopes.shape[0]
        return int(self.independent[:n].sum()) - projection.rank


class Projection:
    """I − W (WᵀW)⁻¹ Wᵀ for whitened slopes W, dependent ones left out."""

    def __init__(self, slopes: Float) -> None:
        slopes = slopes / np.maximum(np.linalg.norm(slopes, axis=0), 1e-300)
        normal = gram(slopes)
        # Cholesky factor of WᵀW, the most independent slopes first.
        factor, pivots, rank, _ = dpstrf(normal, tol=_DEPENDENT, lower=1)
        self.rank = int(rank)
        kept = pivots[: self.rank] - 1
        self.slopes = slopes[:, kept]
        self._root = np.tril(factor[: self.rank, : self.rank])
        self._normal = normal[np.ix_(kept, kept)]
        self._is_whole = self.rank == normal.shape[0]

    @cached_property
    def condition_number(self) -> float:
        """That of the slopes; infinite where some are left out."""
        return _condition(self._normal, self._root) if self._is_whole else np.inf

    def project(self, whitened: Float) -> Float:
        """What is left of whitened columns beside the span of the slopes."""
        along = cho_solve((self._root, True), self.slopes.T @ whitened, check_finite=False)
        return np.asarray(whitened - self.slopes @ along)


def _factored(correlation: Float) -> Float:
    """Cholesky factor of a correlation with the least ridge that makes it positive definite.

    Probabilities near 0, of rare levels and few rows, have moments that differ by factors of 1e9:
    the rounding of products of several is then more than the usual ridge.
    """
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


def _tangent(table: Float, parameters: Parameters) -> Float:
    """Derivatives with the weights moving within Σ ω = 1: one column less.

    Those by variances that follow from the means are left out.
    """
    r = parameters.n_components
    if parameters.blocks.laws:
        is_own = np.isin(by_feature(parameters), dependent_places(parameters), invert=True)
        table = table[:, is_own]
    if r == 1:
        return table[:, 1:]
    return np.concatenate([table[:, :r] @ helmert(r).T, table[:, r:]], axis=1)


def _condition(normal: Float, root: Float) -> float:
    """√ of the condition number of a positive definite matrix, by power and inverse iteration."""
    start = np.random.default_rng(0).standard_normal((normal.shape[0],))
    largest, smallest = start, start
    for _ in range(_ITERATIONS):
        largest = normal @ (largest / np.linalg.norm(largest))
        unit: Float = smallest / np.linalg.norm(smallest)
        smallest = np.asarray(cho_solve((root, True), unit, check_finite=False))
    return float(np.sqrt(np.linalg.norm(largest) * np.linalg.norm(smallest)))

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
from scipy.linalg import cho_solve, cholesky, helmert, solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpstrf

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import Conditions
from momentmix.fitting.conditions.derivative import derivative
from momentmix.fitting.conditions.monomial_covariance import monomial_covariance
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import all_threads

_RIDGE = 1e-9  # copies of columns make the covariance singular
_REDUNDANT = 1e-7  # share of a condition's variance; far above the ridge and rounding
_DEPENDENT = 1e-11  # squared length of what a slope adds to those before it; its own length is 1
_ITERATIONS = 20  # the condition number is printed with one digit


class Whitening:
    """Whitening and projection for one set of conditions and parameters.

    Attributes
    ----------
    model : array of shape (n,)
    independent : array of bool of shape (n,)
        Conditions that are no function of those before them, as far as noise goes.
    """

    def __init__(self, conditions: Conditions, parameters: Parameters) -> None:
        self._conditions, self._parameters = conditions, parameters
        with all_threads(2 * parameters.means.size):
            covariance = monomial_covariance(conditions, parameters)
            self.model = conditions.model(parameters)
            self.scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-12))
            covariance /= self.scale[:, None]
            covariance /= self.scale
            covariance[np.diag_indices_from(covariance)] += _RIDGE
            # Symmetric, so its transpose serves, which LAPACK can overwrite.
            self.triangle = cholesky(covariance.T, lower=True, overwrite_a=True, check_finite=False)
        # What is new in a condition beside those before it has this variance.
        self.independent = np.diagonal(self.triangle) ** 2 > _REDUNDANT

    @cached_property
    def _slopes(self) -> Float:
        table = derivative(self._conditions, self._parameters).table()
        return self.whiten(_tangent(table, self._parameters))

    @cached_property
    def projection(self) -> Projection:
        """Projection away from the slopes of all conditions."""
        with all_threads(self._slopes.shape[1]):
            return Projection(self._slopes)

    @property
    def log_determinant(self) -> float:
        """log det C; what conditions have new beside those before them counts from 1e-7 up."""
        new = np.maximum(np.diagonal(self.triangle) ** 2, _REDUNDANT)
        return float(np.log(new).sum() + 2.0 * np.log(self.scale).sum())

    def whiten(self, columns: Float) -> Float:
        """C^{-1/2}·columns; 0 for conditions that are functions of those before them."""
        scaled = (columns.T / self.scale).T
        white = solve_triangular(self.triangle, scaled, lower=True, check_finite=False)
        white[~self.independent] = 0.0
        return np.asarray(white)

    def remainder(self, values: Float) -> Float:
        """Whitened residual of observed means (n,) or (n, k), parameters projected out."""
        return self.projection.project(self.whiten((values.T - self.model).T))

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
        self.condition_number = np.inf
        if self.rank == normal.shape[0]:
            self.condition_number = _condition(normal[np.ix_(kept, kept)], self._root)

    def project(self, whitened: Float) -> Float:
        """What is left of whitened columns beside the span of the slopes."""
        along = cho_solve((self._root, True), self.slopes.T @ whitened, check_finite=False)
        return np.asarray(whitened - self.slopes @ along)


def gram(table: Float) -> Float:
    """tableᵀ table by a symmetric product, which takes half the operations."""
    half = dsyrk(1.0, table.T)  # upper triangle; table.T is Fortran-ordered, so nothing is copied
    return np.asarray(half + np.triu(half, 1).T)


def _tangent(table: Float, parameters: Parameters) -> Float:
    """Derivatives with the weights moving within Σ ω = 1: one column less."""
    r = parameters.n_components
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

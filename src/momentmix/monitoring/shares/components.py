"""Moments of fixed components, how the moments of a group vary, and which of them are used.

| symbol | name here | shape |
|---|---|---|
| T(z): monomials of a row | ``positions``, of a flat vector of moments | (q,) |
| M = E_c T(z), one column for each component | ``FixedComponents.means`` | (q, r) |
| K_c = Cov_c T(z) | ``FixedComponents.within`` | (r, q, q) |
| V(w) = Σ_c w_c (K_c + (M_c − M w) (M_c − M w)ᵀ) | ``FixedComponents.covariance`` | (q, q) |
| ∂ M_c / ∂ θ · root of Cov θ̂ | ``FixedComponents.errors`` | (r, q, k) |

The moments of a group with weights w are M w plus noise of covariance V(w) / n, and the error of
the components themselves, Σ_c w_c ``errors[c]`` times a standard normal vector, which all groups
share.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg import LinAlgError, helmert
from scipy.linalg.lapack import dpotrf, dtrtrs

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.fitting.conditions.conditions import Conditions, gaussian_powers, point_powers
from momentmix.fitting.conditions.derivative import by_feature, derivative
from momentmix.fitting.conditions.monomial_covariance import monomial_correlation
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters
from momentmix.monitoring.shares.moments import Shape, list_conditions
from momentmix.monitoring.shares.tracked_model import StandardComponents

_APART = 1e-4  # whitened distance of components; below, 1e8 rows would not tell them apart
_MOST_STARTS = 8  # weights differ where a model's are below half a row of a group
_RIDGE = 1e-9  # copies of columns make the covariance singular
_REDUNDANT = 1e-7  # share of a moment's variance that is its own; far above the ridge
_FEW_ROWS = 400  # means of cubes of fewer rows are far from normal
_HIGHEST = 6
_FEW_FEATURES = 3  # with more, moments above degree 3 add next to nothing
_GAIN, _GAIN_OF_FEW = 1.1, 1.4  # ratio of standard errors for which a higher degree is taken
_DRAWS = 500  # rows of each component for the fourth moments of the test


class FixedComponents:
    """Components whose weights in a group are looked for.

    Parameters
    ----------
    conditions : Conditions
        Of `list_conditions`.
    parameters : Parameters
        Of standardized features; the weights are those of the model.
    factor : array of shape (n_places, k), or None
        Covariance of `Parameters.flat` = factor factorᵀ; None where components are known.
    """

    def __init__(
        self, conditions: Conditions, parameters: Parameters, factor: Float | None = None
    ) -> None:
        self.conditions, self.parameters, self._factor = conditions, parameters, factor
        self.positions = conditions.values.astype(np.int64)
        q, r = conditions.size, parameters.n_components
        self.means: Float = moments_of(conditions, parameters)
        self.within: Float = np.empty((r, q, q))
        for c in range(r):
            alone = replace(parameters[[c]], weights=np.ones(1))
            correlation, scale = monomial_correlation(conditions, alone)
            correlation *= scale[:, None]
            np.multiply(correlation, scale, out=self.within[c])
        self._forget()

    def _forget(self) -> None:
        """Keep nothing that was found at some weights."""
        self.__dict__.pop("rank", None)
        self._starts: dict[bytes, tuple[Root, Float]] = {}
        self._last: tuple[bytes, Float] = (b"", np.empty(0))

    @cached_property
    def errors(self) -> Float | None:
        """Slopes of each component's moments times the factor of their covariance, (r, q, k)."""
        if self._factor is None:
            return None
        p = self.parameters
        r = p.n_components
        even = replace(p, weights=np.ones(r))  # slopes are times the weights
        table = derivative(self.conditions, even).table()[:, r:]
        # Parameters ordered by feature: component c holds every r-th place behind the weights.
        ordered = self._factor[by_feature(p)][r:]
        return np.array([table[:, c::r] @ ordered[c::r] for c in range(r)])

    def moved(self, change: Float, errors: Float | None) -> FixedComponents:
        """The same with other means, by `change` (q, r), and other errors (r, q, k)."""
        other = copy(self)
        other._forget()
        other.means, other.errors = self.means + change, errors
        return other

    @property
    def size(self) -> int:
        """Number of moments q."""
        return len(self.positions)

    @property
    def n_components(self) -> int:
        """Number of components r."""
        return int(self.means.shape[1])

    def covariance(self, weights: Float) -> Float:
        """V(w) of one row, of shape (q, q), read-only."""
        key = weights.tobytes()
        if key == self._last[0]:  # the test of a group follows its weights
            return self._last[1]
        rest, q = self.means - (self.means @ weights)[:, None], self.size
        found = (weights @ self.within.reshape(len(weights), -1)).reshape(q, q)
        found += (rest * weights) @ rest.T
        found.setflags(write=False)
        self._last = key, found
        return found

    def start(self, at: Float) -> tuple[Root, Float]:
        """Whitening by V(w), and whitened means, at weights that many groups start from."""
        key = at.tobytes()
        found = self._starts.get(key)
        if found is None:
            root = Root(self.covariance(at))
            found = root, root.whiten(self.means)
            if len(self._starts) < _MOST_STARTS:
                self._starts[key] = found
        return found

    def shared_error(self, weights: Float) -> Float | None:
        """Error of the components in the moments of a group, of shape (q, k)."""
        if self.errors is None:
            return None
        r, q, k = self.errors.shape
        return np.asarray((weights @ self.errors.reshape(r, q * k)).reshape(q, k))

    def influence(self, at: Float) -> Float:
        """Weights without bounds as linear functions of the moments, with V(at), (r, q)."""
        root, basis = Root(self.covariance(at)), contrasts(self.n_components)
        slopes = root.whiten(self.means @ basis)
        inverse = np.asarray(np.linalg.pinv(slopes), dtype=np.float64)  # (r − 1, q)
        return np.asarray(basis @ root.transposed(inverse.T).T)

    @cached_property
    def rank(self) -> int:
        """Number of components whose weights the moments can tell apart."""
        w = self.parameters.weights
        root = Root(self.covariance(w))
        white = root.whiten(self.means - (self.means @ w)[:, None])
        values = np.linalg.svd(white, compute_uv=False)
        return 1 + int((values > _APART * max(1.0, float(values.max(initial=0.0)))).sum())


@lru_cache(maxsize=64)
def contrasts(r: int) -> Float:
    """Directions within a sum of 0, of shape (r, r − 1)."""
    return np.asarray(helmert(r).T)


def moments_of(conditions: Conditions, parameters: Parameters) -> Float:
    """Moments of each component, of shape (q, r)."""
    if parameters.blocks.is_diagonal:
        return conditions.products(gaussian_powers(parameters, conditions.highest_exponent))
    monomials = conditions.by_block(parameters.blocks)
    return np.asarray(monomials.moments(parameters)[monomials.slots].prod(axis=1))


class Root:
    """Whitening by a covariance; moments that are functions of those before them become 0."""

    def __init__(self, covariance: Float) -> None:
        self._scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-300))
        inverse = 1.0 / self._scale
        correlation = covariance * inverse[:, None]
        correlation *= inverse
        correlation.ravel()[:: len(correlation) + 1] += _RIDGE
        self._triangle, failed = dpotrf(correlation.T, lower=1, clean=0, overwrite_a=1)
        if failed:
            raise LinAlgError("the covariance of the moments is not positive definite")
        self._dependent = np.diagonal(self._triangle) ** 2 <= _REDUNDANT
        self.rank = int((~self._dependent).sum())

    def whiten(self, columns: Float) -> Float:
        """Whitened columns, of shape (q,) or (q, k)."""
        scaled = np.divide(columns.T, self._scale, order="C").T
        white, _ = dtrtrs(self._triangle, scaled, lower=1, overwrite_b=1)
        white = white.reshape(columns.shape)
        white[self._dependent] = 0.0
        return np.asarray(white)

    def transposed(self, columns: Float) -> Float:
        """The transpose of the whitening times columns, of shape (q, k)."""
        own = np.where(self._dependent[:, None], 0.0, columns)
        white, _ = dtrtrs(self._triangle, own, lower=1, trans=1)
        return np.asarray(white / self._scale[:, None])


class ComponentSets:
    """Fixed components with the moments of each degree, as far as summaries of a shape hold them.

    Groups below 400 rows have degree 2, others degree 3. A higher degree is taken where a lower one
    does not identify the weights, and with few columns where it makes them much more precise:
    powers up to 6 of single columns, and all moments of degree 4.
    """

    def __init__(self, model: StandardComponents, shape: Shape) -> None:
        self.model, self.shape = model, shape
        self.has_few_features = shape.n_features <= _FEW_FEATURES
        self._known: dict[int, FixedComponents] = {}
        self._draws: dict[int, Float] = {}

    def of(self, degree: int) -> FixedComponents:
        """The components with the moments up to a degree."""
        if degree not in self._known:
            p, constant = self.model.parameters, self.model.constant
            conditions = list_conditions(self.shape, degree, p.blocks.laws, constant)
            if not conditions.size:
                raise InputError(
                    "all columns of the model are constant, so that nothing tells its components "
                    "apart. Fit columns that vary."
                )
            self._known[degree] = FixedComponents(conditions, p, self.model.factor)
        return self._known[degree]

    def draws(self, degree: int) -> Float:
        """Moments of single rows of each component, of shape (r, q, n_draws)."""
        if degree not in self._draws:
            components, tables = self.of(degree), []
            conditions = components.conditions
            for c in range(components.n_components):
                alone = replace(components.parameters[[c]], weights=np.ones(1))
                rows, _ = gaussian.sample(alone, _DRAWS, np.random.default_rng(c))
                powers = point_powers(rows, conditions.highest_exponent)
                tables.append(conditions.products(powers).T)
            # One row after the other in memory: so they are whitened without a copy.
            self._draws[degree] = np.array(tables, order="C").transpose(0, 2, 1)
        return self._draws[degree]

    @cached_property
    def _degrees(self) -> list[int]:
        """Degrees that the summaries hold, from the lowest that identifies the weights."""
        r, found = self.model.parameters.n_components, list[int]()
        for degree in range(2, _HIGHEST + 1):
            if degree > 3 and found and not self.has_few_features:
                break
            if degree > 2 and self.of(degree).size == self.of(degree - 1).size:
                break
            if self.of(degree).rank == r:
                found.append(degree)
        if not found:
            rank = max(self.of(degree).rank for degree in self._known)
            raise InputError(
                f"the moments of the cube tell at most {rank} of the {r} components apart, so "
                "that their shares are not known. Summarize with a higher order, or fit fewer "
                "components."
            )
        return found

    def _deviations(self, degree: int) -> Float:
        """Standard errors of weights like the model's, of one row."""
        own = self.of(degree)
        w = np.maximum(self.model.parameters.weights, 1e-3)
        w = w / w.sum()
        table = own.influence(w)
        noise = table @ own.covariance(w) @ table.T
        return np.sqrt(np.maximum(np.diagonal(noise), 1e-300))

    def degree_for(self, n: float) -> int:
        """Degree of the moments for a group of `n` rows."""
        degrees, is_small = self._degrees, n < _FEW_ROWS
        wanted, last = 2 if is_small else 3, degrees[-1]
        first = next((degree for degree in degrees if degree >= wanted), last)
        if last > first and self.model.parameters.n_components > 1:
            ratio = self._deviations(first) / self._deviations(last)
            if ratio.max() > (_GAIN_OF_FEW if is_small else _GAIN):
                return min(last, 4) if min(last, 4) in degrees else last
        return first

    def lower(self, degree: int) -> int | None:
        """The next lower degree that identifies the weights."""
        return max((own for own in self._degrees if own < degree), default=None)

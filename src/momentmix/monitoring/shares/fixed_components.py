"""Moments of fixed components, and how the moments of a group vary.

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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dtrtrs

from momentmix._typing import Float
from momentmix.families.law import Law
from momentmix.fitting.conditions.conditions import (
    Conditions,
    build_conditions,
    gaussian_powers,
)
from momentmix.fitting.conditions.derivative import by_feature, derivative
from momentmix.fitting.conditions.monomial_covariance import monomial_correlation
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.index_sets import index_sets, sets_without
from momentmix.mixture.parameters import Parameters
from momentmix.summary.readings import Moments

MOST_CONDITIONS = 170  # a root of their covariance, taken for each group, costs a millisecond
_MOST_LISTED = 300_000  # index sets of order 3, of which some are drawn
_APART = 1e-4  # whitened distance of components; below, 1e8 rows would not tell them apart
_MOST_STARTS = 8  # weights differ where a model's are below half a row of a group
_RIDGE = 1e-9  # copies of columns make the covariance singular
_REDUNDANT = 1e-7  # share of a moment's variance that is its own; far above the ridge


@dataclass(frozen=True)
class Shape:
    """Which moments the summaries hold.

    Attributes
    ----------
    n_features, order, squared_order : int
    has_powers, has_pairs : bool
        Whether they hold powers above 2, and cubes times features and products of two squares.
    """

    n_features: int
    order: int
    squared_order: int
    has_powers: bool
    has_pairs: bool

    @classmethod
    def of(cls, moments: Moments) -> Shape:
        """That of the moments of one summary."""
        has_powers, has_pairs = moments.powers is not None, moments.cubed is not None
        return cls(moments.n_features, moments.order, moments.squared_order, has_powers, has_pairs)

    @property
    def sizes(self) -> list[tuple[int, ...]]:
        """Shapes of the arrays of moments, in the order of `flat_moments`."""
        d = self.n_features
        sizes: list[tuple[int, ...]] = [(len(index_sets(d, s)),) for s in range(self.order + 1)]
        sizes += [(d, len(sets_without(d, q, 0))) for q in range(self.squared_order + 1)]
        sizes += [(4, d)] if self.has_powers else []
        sizes += [(d, d - 1), (d * (d - 1) // 2,)] if self.has_pairs else []
        return sizes

    def numbered(self, laws: tuple[Law, ...]) -> StandardMoments:
        """Moments whose values are their own places in the flat vector."""
        start, arrays = 0, []
        for size in self.sizes:
            count = int(np.prod(size))
            arrays.append(np.arange(start, start + count, dtype=float).reshape(size))
            start += count
        n_low, d = self.order + 1, self.n_features
        n_squared = self.squared_order + 1
        rest = arrays[n_low + n_squared :]
        powers = rest.pop(0) if self.has_powers else None
        cubed, two_squares = rest if self.has_pairs else (None, None)
        return StandardMoments(
            d, self.order, tuple(arrays[:n_low]), tuple(arrays[n_low : n_low + n_squared]),
            1, 1.0, np.zeros(d), np.ones(d), np.zeros(d), np.ones(d),
            powers=powers, cubed=cubed, two_squares=two_squares, laws=laws,
        )  # fmt: skip


def flat_moments(moments: Moments) -> Float:
    """All moments in one vector."""
    arrays = [*moments.distinct, *moments.squared]
    high = (moments.powers, moments.cubed, moments.two_squares)
    return np.concatenate([x.ravel() for x in (*arrays, *high) if x is not None])


def list_conditions(
    shape: Shape, degree: int, laws: tuple[Law, ...], left_out: tuple[int, ...] = ()
) -> Conditions:
    """Monomials up to a degree; their values are places in the flat vector.

    Where there are more than `MOST_CONDITIONS`, single features and their powers come first, then
    products of two, and of the rest some that are drawn, the same ones in every call. `left_out`
    are features that take no part.
    """
    highest = min(degree, shape.order)
    if highest > 2 and len(index_sets(shape.n_features, 2)) * shape.n_features > _MOST_LISTED:
        highest = 2
    squared_order = min(shape.squared_order, highest - 1, max(0, degree - 2))
    power = 2 if degree < 3 or not shape.has_powers else degree
    conditions = build_conditions(shape.numbered(laws), highest, squared_order, highest_power=power)
    degrees = conditions.slot_exponents.sum(axis=1)
    features = (conditions.slot_exponents > 0).sum(axis=1)
    usable = degrees <= degree
    if left_out:
        usable &= ~np.isin(conditions.slots, left_out).any(axis=1)
    # The constant, then single features, pairs, the others; low degrees first in each.
    chance = np.random.default_rng(0).random(conditions.size)
    rank = np.lexsort((chance, degrees, np.minimum(features, 3)))
    rank = rank[usable[rank]][: MOST_CONDITIONS + 1]
    # The constant comes first; its moment is known, and says only that weights sum to 1.
    return conditions.subset(np.sort(rank)[1:])


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

    Attributes
    ----------
    positions : array of int of shape (q,)
        Places of the moments in the flat vector.
    means : array of shape (q, r)
    within : array of shape (r, q, q)
    errors : array of shape (r, q, k), or None
    """

    def __init__(
        self, conditions: Conditions, parameters: Parameters, factor: Float | None = None
    ) -> None:
        self.conditions = conditions
        self.parameters = parameters
        self._factor = factor
        self.positions = self.conditions.values.astype(np.int64)
        q, r = self.conditions.size, parameters.n_components
        self.means: Float = moments_of(conditions, parameters)
        self.within: Float = np.empty((r, q, q))
        for c in range(r):
            alone = replace(parameters[[c]], weights=np.ones(1))
            correlation, scale = monomial_correlation(self.conditions, alone)
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
        return None if self._factor is None else self._errors(self._factor)

    def _errors(self, factor: Float) -> Float:
        """Slopes of each component's moments times the factor of the covariance."""
        p = self.parameters
        r, places = p.n_components, by_feature(p)
        even = replace(p, weights=np.ones(r))  # slopes are times the weights
        table = derivative(self.conditions, even).table()[:, r:]
        # Parameters ordered by feature: component c holds every r-th place behind the weights.
        ordered = factor[places][r:]
        found = [table[:, c::r] @ ordered[c::r] for c in range(r)]
        return np.array(found)

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

    @cached_property
    def rank(self) -> int:
        """Number of components whose weights the moments can tell apart."""
        w = self.parameters.weights
        root = Root(self.covariance(w))
        white = root.whiten(self.means - (self.means @ w)[:, None])
        values = np.linalg.svd(white, compute_uv=False)
        return 1 + int((values > _APART * max(1.0, float(values.max(initial=0.0)))).sum())


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

"""Moments of fixed components, how the moments of a group vary, and which of them are used.

| symbol | name here | shape |
|---|---|---|
| T(z): monomials of a row | ``conditions`` | (q,) |
| M = E_c T(z), one column for each component | ``FixedComponents.means`` | (q, r) |
| K_c = Cov_c T(z) | ``FixedComponents.within`` | (r, q, q) |
| V(w) = Σ_c w_c (K_c + (M_c − M w) (M_c − M w)ᵀ) | ``FixedComponents.covariance`` | (q, q) |
| ∂ M_c / ∂ θ · root of Cov θ̂ | ``FixedComponents.errors`` | (r, q, k) |

The moments of a group with weights w are M w plus noise of covariance V(w) / n, and the error of
the components themselves, Σ_c w_c ``errors[c]`` times a standard normal vector, which all groups
share.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from scipy.linalg import LinAlgError, helmert
from scipy.linalg.lapack import dpotrf, dtrtrs

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.families.distribution import Distribution
from momentmix.fitting.conditions.conditions import (
    Conditions,
    build_conditions,
    gaussian_powers,
    point_powers,
)
from momentmix.fitting.conditions.derivative import by_feature, derivative
from momentmix.fitting.conditions.monomial_covariance import monomial_correlation
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.index_sets import index_sets
from momentmix.lazy import lazy_property
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters
from momentmix.monitoring.shares.tracked_model import StandardComponents
from momentmix.summary.layout import POWER_DEGREES, Layout

MOST_CONDITIONS = 170  # a root of their covariance, taken for each group, costs a millisecond
_MOST_LISTED = 300_000  # index sets of order 3, of which some are drawn
_APART = 1e-4  # whitened distance of components; below, 1e8 rows would not separate them
_ROOTS = 8  # of the last weights: of the model, where groups start, and of one group
_RIDGE = 1e-9  # copies of columns make the covariance singular
_REDUNDANT = 1e-7  # share of a moment's variance that is its own; far above the ridge
_FEW_ROWS = 400  # means of cubes of fewer rows are far from normal
_HIGHEST = 6  # power that summaries hold
_FEW_FEATURES = 3  # with more, moments above degree 3 add next to nothing
# Ratio of standard errors for which a higher degree is taken: its moments are less normal, the more
# so in groups of few rows.
_GAIN, _GAIN_OF_FEW = 1.1, 1.4
_DRAWS = 500  # rows of each component, for the fourth moments of the test


class Root:
    """Whitening by a covariance; moments that are functions of earlier ones become 0."""

    def __init__(self, covariance: Float) -> None:
        self.covariance = covariance
        self.means: Float | None = None  # of components, whitened, at weights where groups start
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


@dataclass(frozen=True, eq=False)
class FixedComponents:
    """Components, of standardized features, whose weights in a group are looked for."""

    conditions: Conditions
    parameters: Parameters
    means: Float
    within: Float
    errors: Float | None = None  # where components are not known exactly

    @classmethod
    def of(
        cls, conditions: Conditions, p: Parameters, factor: Float | None = None
    ) -> FixedComponents:
        """Components of some conditions; the covariance of `Parameters.flat` is factor factorᵀ."""
        q, r = conditions.size, p.n_components
        within = np.empty((r, q, q))
        for c in range(r):
            alone = replace(p[[c]], weights=np.ones(1))
            correlation, scale = monomial_correlation(conditions, alone)
            correlation *= scale[:, None]
            np.multiply(correlation, scale, out=within[c])
        if factor is None:
            return cls(conditions, p, moments_of(conditions, p), within)
        even = replace(p, weights=np.ones(r))  # slopes are times the weights
        table = derivative(conditions, even).table[:, r:]
        # Parameters ordered by feature: component c holds every r-th place behind the weights.
        ordered = factor[by_feature(p)][r:]
        errors = np.array([table[:, c::r] @ ordered[c::r] for c in range(r)])
        return cls(conditions, p, moments_of(conditions, p), within, errors)

    @property
    def n_components(self) -> int:
        """Number of components r."""
        return int(self.means.shape[1])

    def covariance(self, weights: Float) -> Float:
        """V(w) of one row, of shape (q, q)."""
        rest, q = self.means - (self.means @ weights)[:, None], len(self.means)
        found = (weights @ self.within.reshape(len(weights), -1)).reshape(q, q)
        found += (rest * weights) @ rest.T
        return np.asarray(found)

    _roots: dict[bytes, Root] = field(default_factory=dict, init=False, repr=False)

    def root(self, weights: Float) -> Root:
        """Whitening by V(w); the last ones are kept."""
        key, roots = weights.tobytes(), self._roots
        found = roots.pop(key, None) or Root(self.covariance(weights))
        roots[key] = found
        if len(roots) > _ROOTS:
            del roots[next(iter(roots))]
        return found

    def shared_error(self, weights: Float) -> Float | None:
        """Error of the components in the moments of a group, of shape (q, k)."""
        if self.errors is None:
            return None
        r, q, k = self.errors.shape
        return np.asarray((weights @ self.errors.reshape(r, q * k)).reshape(q, k))

    def influence(self, at: Float) -> Float:
        """Weights without bounds as linear functions of the moments, with V(at), (r, q)."""
        root, basis = self.root(at), contrasts(self.n_components)
        slopes = root.whiten(self.means @ basis)
        inverse = np.asarray(np.linalg.pinv(slopes), dtype=np.float64)  # (r − 1, q)
        return np.asarray(basis @ root.transposed(inverse.T).T)

    @lazy_property
    def rank(self) -> int:
        """Number of components whose weights the moments identify."""
        w = self.parameters.weights
        white = self.root(w).whiten(self.means - (self.means @ w)[:, None])
        values = np.linalg.svd(white, compute_uv=False)
        return 1 + int((values > _APART * max(1.0, float(values.max(initial=0.0)))).sum())

    @lazy_property
    def draws(self) -> Float:
        """Moments of single rows of each component, of shape (r, q, n_draws)."""
        tables, conditions = [], self.conditions
        for c in range(self.n_components):
            alone = replace(self.parameters[[c]], weights=np.ones(1))
            rows, _ = gaussian.sample(alone, _DRAWS, np.random.default_rng(c))
            powers = point_powers(rows, conditions.highest_exponent)
            tables.append(conditions.products(powers).T)
        # One row after the other in memory: so they are whitened without a copy.
        return np.array(tables, order="C").transpose(0, 2, 1)


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


def list_conditions(
    layout: Layout, degree: int, laws: tuple[Distribution, ...], left_out: tuple[int, ...] = ()
) -> Conditions:
    """Return at most `MOST_CONDITIONS` monomials; their values are places in the layout."""
    d, highest = layout.n_features, min(degree, layout.order)
    if highest > 2 and len(index_sets(d, 2)) * d > _MOST_LISTED:
        highest = 2
    squared_order = min(layout.squared_order, highest - 1, max(0, degree - 2))
    power = 2 if degree < 3 or not layout.high else degree
    moments = _numbered(layout, laws)
    conditions = build_conditions(moments, highest, squared_order, highest_power=power)
    degrees = conditions.slot_exponents.sum(axis=1)
    features = (conditions.slot_exponents > 0).sum(axis=1)
    usable = (degrees <= degree) & ~np.isin(conditions.slots, left_out).any(axis=1)
    # The constant, then single features, pairs, the others; low degrees first in each.
    chance = np.random.default_rng(0).random(conditions.size)
    rank = np.lexsort((chance, degrees, np.minimum(features, 3)))
    rank = rank[usable[rank]][: MOST_CONDITIONS + 1]
    # The constant comes first; its moment is known, and says only that weights sum to 1.
    return conditions.subset(np.sort(rank)[1:])


def _numbered(layout: Layout, laws: tuple[Distribution, ...]) -> StandardMoments:
    """Moments whose values are their own places in the layout."""
    d, every = layout.n_features, np.arange(layout.n_entries, dtype=float)
    found = {(s.kind, s.size): every[s.place].reshape(s.shape) for s in layout.sections}
    orders = tuple(found["distinct", t] for t in range(layout.order + 1))
    squared = tuple(found["squared", s] for s in range(layout.squared_order + 1))
    return StandardMoments(
        d, layout.order, orders, squared, 1, 1.0, np.zeros(d), np.ones(d), np.zeros(d), np.ones(d),
        powers=np.array([found["power", p] for p in POWER_DEGREES]) if layout.high else None,
        cubed=found.get(("cubed", 1)), two_squares=found.get(("two squares", 2)), laws=laws,
    )  # fmt: skip


class ComponentSets:
    """Fixed components with the moments of each degree, as far as a layout holds them.

    Groups below 400 rows have degree 2, others degree 3. A higher degree is taken where a lower one
    does not identify the weights, and with few columns where it makes them much more precise.
    """

    def __init__(self, model: StandardComponents, layout: Layout) -> None:
        self._model, self.layout = model, layout
        self.has_few_features = layout.n_features <= _FEW_FEATURES
        self._known: dict[int, FixedComponents] = {}
        self._degrees: dict[bool, list[int]] = {}

    def of(self, degree: int) -> FixedComponents:
        """The components with the moments up to a degree."""
        if degree not in self._known:
            p, constant = self._model.parameters, self._model.constant
            conditions = list_conditions(self.layout, degree, p.blocks.laws, constant)
            if not conditions.size:
                raise InputError(
                    "all columns of the model are constant, so that its components cannot "
                    "be identified. Fit columns that vary."
                )
            self._known[degree] = FixedComponents.of(conditions, p, self._model.factor)
        return self._known[degree]

    @lazy_property
    def _identifying(self) -> list[int]:
        """Degrees that the summaries hold, from the lowest that identifies the weights."""
        r, found = self._model.parameters.n_components, list[int]()
        for degree in range(2, _HIGHEST + 1):
            if degree > 3 and found and not self.has_few_features:
                break
            if degree > 2 and len(self.of(degree).means) == len(self.of(degree - 1).means):
                break
            if self.of(degree).rank == r:
                found.append(degree)
        if not found:
            rank = max(own.rank for own in self._known.values())
            raise InputError(
                f"the moments of the cube identify at most {rank} of the {r} components, so "
                "that their shares are not known. Summarize with a higher order, or fit fewer "
                "components."
            )
        return found

    def _deviations(self, degree: int) -> Float:
        """Standard errors of weights like the model's, of one row."""
        own = self.of(degree)
        w = np.maximum(self._model.parameters.weights, 1e-3)
        w = w / w.sum()
        table = own.influence(w)
        noise = table @ own.root(w).covariance @ table.T
        return np.sqrt(np.maximum(np.diagonal(noise), 1e-300))

    def degrees_for(self, n: float) -> list[int]:
        """Degrees of the moments for a group of `n` rows: the best one, then lower ones."""
        is_small = n < _FEW_ROWS
        if is_small not in self._degrees:
            degrees, wanted = self._identifying, 2 if is_small else 3
            last = degrees[-1]
            best = next((degree for degree in degrees if degree >= wanted), last)
            if last > best and self._model.parameters.n_components > 1:
                ratio = self._deviations(best) / self._deviations(last)
                if ratio.max() > (_GAIN_OF_FEW if is_small else _GAIN):
                    best = min(last, 4) if min(last, 4) in degrees else last
            self._degrees[is_small] = [own for own in degrees[::-1] if own <= best]
        return self._degrees[is_small]

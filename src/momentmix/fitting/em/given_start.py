"""A start that the caller gives: where EM begins, and the order of the components."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from momentmix._typing import Float, Int
from momentmix.arrays import real_array
from momentmix.errors import InputError
from momentmix.families.column import Column
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.starts import LEAST_WEIGHT, start_at
from momentmix.mixture.blocks import spread_of
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.mixture.tables.block_features import parameters_of
from momentmix.tables.schema import Schema


@dataclass(frozen=True)
class Start:
    """Means of components in the units of the features; what is None comes from the rows.

    Attributes
    ----------
    means : array of shape (n_components, n_features)
    weights : array of shape (n_components,) or None
    covariances : array of shape (n_components, n_features, n_features) or None
    """

    means: Float
    weights: Float | None = None
    covariances: Float | None = None

    @classmethod
    def of(cls, given: Any, schema: Schema | None) -> Start:
        """The start that was given: a mixture, means, or a start."""
        if isinstance(given, Start):
            return given
        if not isinstance(given, Mixture):
            return cls(real_array("start", given))
        own = [(c.family, c.levels) for c in given.columns]
        numbers = [(Column.family, ())] * len(own)
        if own != (numbers if schema is None else [(c.family, c.levels) for c in schema.columns]):
            raise InputError(
                "a start must have the columns of the rows, of the same families and levels; give "
                "no start, or that of a fit to such rows."
            )
        if schema is None:
            return cls(given.means, given.weights, given.covariances)
        p = parameters_of(given.weights, given.blocks, schema)
        return cls(p.means, p.weights, p.matrices)

    def check(self, n_components: Any, n_features: int) -> None:
        """Raise unless it has so many components and features."""
        if n_components == "auto":
            raise InputError(
                'a start has a number of components of its own; got n_components="auto". Give that '
                "number, or no start."
            )
        if self.means.shape != (n_components, n_features):
            raise InputError(
                f"the means of a start must have shape (n_components, n_features) = "
                f"({n_components}, {n_features}); got {self.means.shape}."
            )
        if np.isnan(self.means).any():
            raise InputError(
                "a start must have all means; a component of this one never saw a column. Leave "
                "the start out, or give means."
            )

    def standardized(self, moments: StandardMoments) -> Start:
        """The same of standardized features, those that vary."""
        own = moments.columns
        matrices = self.covariances
        if matrices is not None:
            matrices = matrices[:, own][:, :, own] / moments.scale[:, None] / moments.scale
        means = (self.means[:, own] - moments.shift) / moments.scale
        return Start(np.ascontiguousarray(means), self.weights, matrices)

    def parameters(self, features: Float, prior: VariancePrior) -> Parameters:
        """The start as a mixture; the features are those of standardized rows."""
        p = start_at(features, self.means, prior)
        if self.weights is not None:
            p = replace(p, weights=np.maximum(self.weights, LEAST_WEIGHT)).normalized()
        if self.covariances is not None:
            spread = np.ascontiguousarray(spread_of(self.covariances, p.blocks))
            p = p.with_spread(spread).completed()
        raised: Parameters = prior.structure.raised(p)
        return raised

    def order_of(self, parameters: Parameters) -> Int:
        """Component of the mixture that belongs to each of the start, by least total distance."""
        gaps = self.means[:, None, :] - parameters.means
        return np.asarray(linear_sum_assignment((gaps**2).sum(axis=2))[1])

"""Components of a model with means of their own in one group."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.conditions.derivative import derivative
from momentmix.mixture.parameters import Parameters
from momentmix.monitoring.shares.fixed_components import FixedComponents, moments_of
from momentmix.monitoring.shares.means.values import Facts, MovingValues

_HALVINGS = 12
_LEAST_VARIANCE = 1e-12  # of a standardized feature within a component


class Base(NamedTuple):
    """Components whose covariances those of nearly the same means have."""

    components: FixedComponents
    moves: Float


class MovedComponents(FixedComponents):
    """Components with means of their own in one group.

    Parameters
    ----------
    base : Base
    parameters : Parameters
    factor : array of shape (n_places, k)
        Errors of the parameters, ordered by feature, without the weights.
    features : array of int of shape (n_values,)
    facts : Facts
        Of the values.
    moves : array of shape (r, n_values)
        How far their means lie from those of the model.
    """

    def __init__(
        self,
        base: Base,
        parameters: Parameters,
        factor: Float,
        features: Int,
        facts: Facts,
        moves: Float,
    ) -> None:
        own = base.components
        self.conditions, self.positions = own.conditions, own.positions
        self.parameters, self.within = parameters, own.within
        self.means = moments_of(own.conditions, parameters)
        self.base, self._factor, self._features = base, None, features
        self._ordered = factor
        self.facts, self.moves = facts, moves
        self._table: tuple[bytes, Float] = (b"", np.empty(0))
        self._forget()

    def _derivative(self, weights: Float) -> Float:
        """Slopes of the moments of a mixture in means and variances, ordered by feature."""
        key = weights.tobytes()
        if key != self._table[0]:
            p = replace(self.parameters, weights=weights)
            table = derivative(self.conditions, p).table()[:, len(weights) :]
            self._table = key, table
        return self._table[1]

    def shared_error(self, weights: Float) -> Float | None:
        """Error of the components in the moments of a group, of shape (q, k)."""
        if "errors" in self.__dict__:
            return super().shared_error(weights)
        return np.asarray(self._derivative(weights) @ self._ordered)

    @cached_property
    def errors(self) -> Float | None:
        """Slopes of each component's moments times the errors of the parameters, (r, q, k)."""
        r, table = self.n_components, self._derivative(np.ones(self.n_components))
        return np.array([table[:, c::r] @ self._ordered[c::r] for c in range(r)])

    def slopes(self, weights: Float) -> tuple[Float, Float]:
        """Slopes of the moments in the means (q, k), and in κ (q, k), ordered by value."""
        table, (r, d) = self._derivative(weights), self.parameters.means.shape
        table = table.reshape(len(table), -1, r)
        own, facts = self._features, self.facts
        by_variance = table[:, d + own]
        means = table[:, own] * facts.by_mean.T + by_variance * facts.by_variance.T
        excess = -by_variance * (facts.of_variance * facts.variances).T
        return means.reshape(len(table), -1), excess.reshape(len(table), -1)


def narrowed(p: Parameters, values: MovingValues, excess: Float) -> Parameters:
    """Variances 1 − κ times as large; κ is halved while joined features would not allow it."""
    least = 0.5 * _least_eigenvalue(p)
    for _ in range(_HALVINGS):
        found = values.moved(p, np.zeros_like(excess), 1.0 - excess)
        if p.blocks.is_diagonal or _least_eigenvalue(found) >= least:
            return found
        excess = excess / 2
    return p


def _least_eigenvalue(p: Parameters) -> float:
    """Of the correlations of all components."""
    if p.blocks.is_diagonal:
        return 1.0
    unit = np.sqrt(np.maximum(p.variances, _LEAST_VARIANCE))
    return float(np.linalg.eigvalsh(p.matrices / unit[:, :, None] / unit[:, None, :]).min())

"""Which moments tell the components apart in a group of so many rows.

Degree 2 for groups below `FEW_ROWS` rows, degree 3 above. A higher degree is taken where a lower
one does not identify the weights, and with few columns where it makes them much more precise:
powers up to 6 of single columns, and all moments of degree 4, as far as the summaries hold them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.fitting.conditions.conditions import point_powers
from momentmix.mixture import gaussian
from momentmix.monitoring.shares.fixed_components import FixedComponents, Shape, list_conditions
from momentmix.monitoring.shares.group_weights import linear_weights
from momentmix.monitoring.shares.tracked_model import StandardComponents

FEW_ROWS = 400  # means of cubes of fewer rows are far from normal
_HIGHEST = 6
_FEW_FEATURES = 3  # with more, moments above degree 3 add next to nothing
_GAIN, _GAIN_OF_FEW = 1.1, 1.4  # ratio of standard errors for which a higher degree is taken
_DRAWS = 500  # rows of each component for the fourth moments of the test


class ComponentSets:
    """Fixed components with the moments of each degree.

    Parameters
    ----------
    model : StandardComponents
    shape : Shape
        What the summaries hold.
    """

    def __init__(self, model: StandardComponents, shape: Shape) -> None:
        self.model, self.shape = model, shape
        self._known: dict[int, FixedComponents] = {}
        self._draws: dict[int, Float] = {}

    def of(self, degree: int) -> FixedComponents:
        """The components with the moments up to a degree."""
        if degree not in self._known:
            p = self.model.parameters
            constant = self.model.constant
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
        found = linear_weights(own, own.means @ w, 1.0, w / w.sum())
        return np.sqrt(np.maximum(np.diagonal(found.noise), 1e-300))

    def degree_for(self, n: float) -> int:
        """Degree of the moments for a group of `n` rows."""
        degrees, is_small = self._degrees, n < FEW_ROWS
        wanted = 2 if is_small else 3
        first = next((degree for degree in degrees if degree >= wanted), degrees[-1])
        last = degrees[-1]
        if last > first and self.model.parameters.n_components > 1:
            ratio = self._deviations(first) / self._deviations(last)
            if ratio.max() > (_GAIN_OF_FEW if is_small else _GAIN):
                return min(last, 4) if min(last, 4) in degrees else last
        return first

    @property
    def has_few_features(self) -> bool:
        """Whether moments above degree 3 add much."""
        return self.shape.n_features <= _FEW_FEATURES

    def lower(self, degree: int) -> int | None:
        """The next lower degree that identifies the weights."""
        below = [own for own in self._degrees if own < degree]
        return below[-1] if below else None

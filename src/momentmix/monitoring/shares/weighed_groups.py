"""Weights, intervals and tests of all groups, with components corrected for their shared errors."""

from __future__ import annotations

from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.monitoring.shares.component_sets import ComponentSets
from momentmix.monitoring.shares.fixed_components import FixedComponents
from momentmix.monitoring.shares.found_groups import FoundGroup, FoundGroups
from momentmix.monitoring.shares.group_weights import (
    check_fit,
    estimate,
    linear_weights,
    settled_weights,
)
from momentmix.monitoring.shares.shared_errors import Part, corrected, find_shared_errors
from momentmix.monitoring.shares.shrinkage import Estimator
from momentmix.progress import counting

_MOST_USED = 300  # groups, the largest, that tell the errors of the components


class WeighedGroups:
    """Groups with weights and tests.

    Parameters
    ----------
    groups : FoundGroups
        Their weights and tests are set.
    z : float
        Normal quantile of the intervals.
    """

    def __init__(self, groups: FoundGroups, z: float) -> None:
        self._sets = groups.sets
        self._corrected: dict[int, FixedComponents] = {}
        known = [own for own in groups.found if own.moments is not None]
        largest = sorted(known, key=lambda own: -own.n)[:_MOST_USED]
        parts = filter(None, (_part(groups.sets, own) for own in largest))
        self._errors = None if groups.model.factor is None else find_shared_errors(parts)
        with counting("Tracking groups", len(groups.found), "groups") as count:
            for own in groups.found:
                if own.moments is not None:
                    components, draws = self.components(own), self._sets.draws(own.degree)
                    own.weights = estimate(components, own.moments, own.n, z)
                    w = own.weights.weights
                    own.test = check_fit(components, own.moments, own.n, w, draws)
                count(1)

    def components(self, own: FoundGroup) -> FixedComponents:
        """The components that a group was tested with."""
        if self._errors is None:
            return self._sets.of(own.degree)
        if own.degree not in self._corrected:
            self._corrected[own.degree] = corrected(self._sets.of(own.degree), self._errors)
        return self._corrected[own.degree]

    def estimator(self, own: FoundGroup) -> Estimator:
        """Weights of a group without bounds."""
        components, moments = self.components(own), own.moments
        assert moments is not None
        return lambda at: linear_weights(components, moments, own.n, at)


def _part(sets: ComponentSets, own: FoundGroup) -> Part | None:
    """A group for the errors of the components, if they fit it."""
    components, moments = sets.of(own.degree), own.moments
    assert moments is not None
    weights = settled_weights(components, moments, own.n)
    for draws in (None, sets.draws(own.degree)):  # the latter take long, and raise it
        if not check_fit(components, moments, own.n, weights, draws).p_value < LEAST_P_VALUE:
            return Part(components, moments, own.n, weights)
    return None

"""Groups with the components of a model, whose means are fixed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from momentmix._typing import Float
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
from momentmix.monitoring.shares.shared_errors import Part, find_shared_errors
from momentmix.monitoring.shares.shrinkage import Estimator
from momentmix.progress import counting

_MOST_USED = 300  # groups, the largest, that tell the errors of the components


class Components(Protocol):
    """Components that groups are described by: fixed ones, or with means of their own."""

    def weigh(self, z: float) -> None:
        """Find weights, intervals and tests of all groups; `z` is a normal quantile."""

    def estimator(self, own: FoundGroup) -> Estimator:
        """Weights of a group without bounds."""

    def nearest(self, own: FoundGroup) -> tuple[FixedComponents, Float]:
        """The components that describe a group, and its moments that tell what does not fit."""


@dataclass(frozen=True)
class FixedMeans:
    """Components of a model, corrected by what the groups tell of their errors."""

    groups: FoundGroups
    sets: ComponentSets

    @classmethod
    def of(cls, groups: FoundGroups) -> FixedMeans:
        """The components of the model of the groups."""
        if groups.model.factor is None:
            return cls(groups, groups.sets)
        largest = sorted(groups.with_moments, key=lambda own: -own.n)[:_MOST_USED]
        parts = (_part(groups.sets, own) for own in largest)
        errors = find_shared_errors(filter(None, parts))
        sets = groups.sets if errors is None else groups.sets.corrected(errors)
        return cls(groups, sets)

    def weigh(self, z: float) -> None:
        """Find weights, intervals and tests of all groups."""
        with counting("Tracking groups", len(self.groups.found), "groups") as count:
            for own in self.groups.found:
                if own.moments is not None:
                    components, draws = self.sets.of(own.degree), self.sets.draws(own.degree)
                    own.weights = estimate(components, own.moments, own.n, z)
                    w = own.weights.weights
                    own.test = check_fit(components, own.moments, own.n, w, draws)
                count(1)

    def estimator(self, own: FoundGroup) -> Estimator:
        """Weights of a group without bounds."""
        components, moments = self.sets.of(own.degree), own.moments
        assert moments is not None
        return lambda at: linear_weights(components, moments, own.n, at)

    def nearest(self, own: FoundGroup) -> tuple[FixedComponents, Float]:
        """The components that describe a group, and its moments that tell what does not fit."""
        assert own.every is not None
        return self.sets.of(own.degree), own.moments


def _part(sets: ComponentSets, own: FoundGroup) -> Part | None:
    """A group for the errors of the components, if they fit it."""
    components, moments = sets.of(own.degree), own.moments
    assert moments is not None
    weights = settled_weights(components, moments, own.n)
    for draws in (None, sets.draws(own.degree)):  # the latter take long, and raise it
        if not check_fit(components, moments, own.n, weights, draws).p_value < LEAST_P_VALUE:
            return Part(components, moments, own.n, weights)
    return None

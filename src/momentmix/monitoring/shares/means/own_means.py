"""Groups with the components of a model, whose means differ between groups."""

from __future__ import annotations

from dataclasses import dataclass

from momentmix._typing import Float
from momentmix.monitoring.shares.fixed_components import FixedComponents
from momentmix.monitoring.shares.found_groups import FoundGroup, FoundGroups
from momentmix.monitoring.shares.group_weights import settled_weights
from momentmix.monitoring.shares.means.mean_spreads import find_spreads
from momentmix.monitoring.shares.means.moved_means import GroupMoments, MovedGroup, MovedMeans
from momentmix.monitoring.shares.shrinkage import Estimator
from momentmix.progress import counting


@dataclass(frozen=True)
class OwnMeans:
    """Components with means of their own in each group.

    Attributes
    ----------
    groups : FoundGroups
    columns : list of int
        The column of each value whose means may differ; several values of a column of levels.
    moved : MovedMeans
    starts : list of GroupMoments
        The groups that have moments, with answers to start from.
    """

    groups: FoundGroups
    columns: list[int]
    moved: MovedMeans
    starts: list[GroupMoments]

    @classmethod
    def of(cls, groups: FoundGroups) -> OwnMeans:
        """Find how far the means of the groups differ."""
        features = _moving_features(groups)
        known = [_start(groups, own) for own in groups.with_moments]
        spreads, starts = find_spreads(groups.sets, features, known)
        moved = MovedMeans(groups.sets, features, spreads)
        columns = [groups.column_of(feature) for feature in features]
        every = [starts.get(g, own) for g, own in enumerate(known)]
        return cls(groups, columns, moved, every)

    def weigh(self, z: float) -> None:
        """Find weights, means, intervals and tests of all groups."""
        starts = iter(self.starts)
        with counting("Tracking groups", len(self.groups.found), "groups") as count:
            for own in self.groups.found:
                if own.moments is not None:
                    start = next(starts)
                    own.moved = self.moved.group(start)
                    own.weights = self.moved.weights_of(start, own.moved, z)
                    own.test = self.moved.check(start, own.moved)
                count(1)

    def estimator(self, own: FoundGroup) -> Estimator:
        """Weights of a group without bounds."""
        start, found = _known(own)
        return lambda at: self.moved.linear_weights(start, found, at)

    def nearest(self, own: FoundGroup) -> tuple[FixedComponents, Float]:
        """The components that a group was tested with, and its moments."""
        start, found = _known(own)
        near = self.moved.components(own.degree, found.moves)
        return near, self.moved.target(start, near, found.weights)


def _moving_features(groups: FoundGroups) -> list[int]:
    """Features of values whose means may differ: of all columns that vary."""
    p = groups.model.parameters
    seen = {j for law in p.blocks.laws for j in law.features[law.n_values :]}
    every = range(p.blocks.n_features)
    constant = {groups.column_of(j) for j in groups.model.constant if j not in seen}
    return [j for j in every if j not in seen and groups.column_of(j) not in constant]


def _start(groups: FoundGroups, own: FoundGroup) -> GroupMoments:
    """A group with weights to start from."""
    assert own.moments is not None
    weights = settled_weights(groups.sets.of(own.degree), own.moments, own.n)
    return GroupMoments(own.degree, own.moments, own.n, weights)


def _known(own: FoundGroup) -> tuple[GroupMoments, MovedGroup]:
    """A group whose means are known."""
    assert own.moments is not None
    assert own.moved is not None
    return GroupMoments(own.degree, own.moments, own.n, own.moved.weights), own.moved

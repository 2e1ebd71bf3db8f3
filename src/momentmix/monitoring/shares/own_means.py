"""Groups with the components of a model, whose means differ between groups."""

from __future__ import annotations

from dataclasses import dataclass

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.monitoring.shares.fixed_components import FixedComponents
from momentmix.monitoring.shares.found_groups import FoundGroup, FoundGroups
from momentmix.monitoring.shares.group_weights import settled_weights
from momentmix.monitoring.shares.mean_spreads import find_spreads
from momentmix.monitoring.shares.moved_means import GroupMoments, MovedGroup, MovedMeans
from momentmix.monitoring.shares.shrinkage import Estimator
from momentmix.progress import counting


@dataclass(frozen=True)
class OwnMeans:
    """Components with means of their own in each group.

    Attributes
    ----------
    groups : FoundGroups
    columns : list of int
        Columns whose means may differ.
    moved : MovedMeans
    """

    groups: FoundGroups
    columns: list[int]
    moved: MovedMeans

    @classmethod
    def of(cls, groups: FoundGroups) -> OwnMeans:
        """Find how far the means of the groups differ."""
        columns = _moving_columns(groups)
        if not columns:
            raise InputError(
                'means="group" needs a column of numbers that varies and has no missing cells; '
                "the model has none."
            )
        schema = groups.schema
        features = columns if schema is None else [schema.features_of(j)[0] for j in columns]
        known = [_start(groups, own) for own in groups.with_moments]
        spreads = find_spreads(groups.sets, features, known)
        return cls(groups, columns, MovedMeans(groups.sets, features, *spreads))

    def weigh(self, z: float) -> None:
        """Find weights, means, intervals and tests of all groups."""
        with counting("Tracking groups", len(self.groups.found), "groups") as count:
            for own in self.groups.found:
                if own.moments is not None:
                    start = _start(self.groups, own)
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
        return near, self.moved.target(start, near, found.weights, found.moves)


def _moving_columns(groups: FoundGroups) -> list[int]:
    """Columns of numbers that vary and have no missing cells."""
    constant = {groups.column_of(feature) for feature in groups.model.constant}
    return sorted(
        j
        for block in groups.tracked.mixture.blocks
        if isinstance(block, GaussianBlock) and block.seen is None
        for j in block.columns
        if j not in constant
    )


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

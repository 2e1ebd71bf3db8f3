"""The groups of a cube as they are tracked: their moments first, then weights and tests."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.monitoring.shares.component_sets import ComponentSets
from momentmix.monitoring.shares.fixed_components import Shape
from momentmix.monitoring.shares.group_moments import Groups, read, read_flat
from momentmix.monitoring.shares.group_weights import FitTest, GroupWeights
from momentmix.monitoring.shares.tracked_model import StandardComponents, TrackedModel
from momentmix.progress import counting
from momentmix.summary.summary import MomentSummary
from momentmix.tables.names import column_label
from momentmix.tables.schema import Schema

_AT_ONCE = 256  # groups whose moments are read together
_LARGEST = 1e200  # moment of standardized values
_UNTESTED = FitTest(float("nan"), 0, float("nan"), float("nan"))


@dataclass
class FoundGroup:
    """One group: what is read of it, and what is found.

    Attributes
    ----------
    n : float
        Its rows; of weighted ones, as many as they are worth.
    degree : int
        Of the moments that are used.
    moments : array of shape (q,), or None
        None where there are no rows, or none that can be used.
    note : str
        What is to be said of it.
    weights : GroupWeights or None
        None until they are known.
    test : FitTest
    """

    n: float
    degree: int
    moments: Float | None
    note: str = ""
    weights: GroupWeights | None = None
    test: FitTest = _UNTESTED


@dataclass(frozen=True)
class FoundGroups:
    """Groups beside a model, with the moments that are used.

    Attributes
    ----------
    tracked : TrackedModel
    groups : Groups
    schema : Schema or None
        Of the summaries.
    model : StandardComponents
    sets : ComponentSets
    found : list of FoundGroup
        In the order of the cube.
    """

    tracked: TrackedModel
    groups: Groups
    schema: Schema | None
    model: StandardComponents
    sets: ComponentSets
    found: list[FoundGroup]

    @classmethod
    def of(cls, tracked: TrackedModel, groups: Groups) -> FoundGroups:
        """Read the moments of all groups."""
        schema = groups.schema(tracked.mixture)
        model = tracked.standard(schema)
        sizes = [own.n_effective for own in groups.facts if own.n_rows]
        sets = ComponentSets(model, _shape(groups, schema, model, 4))
        # Fewer moments are read in less time.
        if not sets.has_few_features and max(sets.degree_for(n) for n in sizes) <= 3:
            sets = ComponentSets(model, _shape(groups, schema, model, 3))
        own = cls(tracked, groups, schema, model, sets, [])
        own.found.extend(own._read())
        return own

    def _read(self) -> list[FoundGroup]:
        found, summaries = list[FoundGroup](), self.groups.summaries()
        with counting("Reading groups", len(self.groups.facts), "groups") as count:
            while chunk := list(islice(summaries, _AT_ONCE)):
                own = [summary for summary in chunk if summary.n_rows]
                flat = iter(self._flat(own) if own else np.empty(0))
                found += [self._group(s, next(flat) if s.n_rows else None) for s in chunk]
                count(len(chunk))
        return found

    def _flat(self, summaries: list[MomentSummary]) -> Float:
        model = self.model
        return read_flat(summaries, self.sets.shape, self.schema, model.shift, model.scale)

    def _group(self, summary: MomentSummary, flat: Float | None) -> FoundGroup:
        """The moments of one group that are used."""
        if flat is None:
            return FoundGroup(0.0, 0, None, "no rows")
        n, note = summary.effective_rows, self._varying(summary)
        degree: int | None = self.sets.degree_for(n)
        while degree is not None:
            moments = flat[self.sets.of(degree).positions]
            if _are_usable(moments):
                return FoundGroup(n, degree, moments, note)
            degree = self.sets.lower(degree)
        text = "values so far away that their powers are not known"
        return FoundGroup(n, 0, None, text)

    def _varying(self, summary: MomentSummary) -> str:
        """What is to be said of columns that are constant in the model and vary in a group."""
        constant = list(self.model.constant)
        wrong = [j for j in constant if summary.minimum[j] != summary.maximum[j]]
        if not wrong:
            return ""
        names, schema = self.tracked.mixture.feature_names, self.schema
        columns = [j if schema is None else schema.column_of[j] for j in wrong]
        labels = ", ".join(column_label(j, names) for j in columns)
        return f"{labels} was constant in the model and is not here; it takes no part"


def _are_usable(moments: Float) -> bool:
    """Whether moments are known, and so are products with them."""
    return bool((np.abs(moments) < _LARGEST).all())


def _shape(groups: Groups, schema: Schema | None, model: StandardComponents, order: int) -> Shape:
    """The moments up to an order that all groups hold."""
    left = {own.layout for own in groups.facts if own.n_rows}
    shapes = list[Shape]()
    for own, summary in zip(groups.facts, groups.summaries(), strict=True):
        if own.n_rows and own.layout in left:
            with suppress(InputError):  # of values so far away that the next group is asked
                shapes.append(Shape.of(read(summary, order, schema, model.shift, model.scale)))
                left.remove(own.layout)
        if not left:
            break
    if not shapes:
        raise InputError(
            "values of all groups lie so far from those of the model that their moments are not "
            "known; are the units the same?"
        )
    return Shape(
        shapes[0].n_features,
        min(shape.order for shape in shapes),
        min(shape.squared_order for shape in shapes),
        all(shape.has_powers for shape in shapes),
        all(shape.has_pairs for shape in shapes),
    )

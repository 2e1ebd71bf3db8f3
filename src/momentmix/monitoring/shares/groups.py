"""The groups of a cube beside a model: columns matched, one schema, moments, weights and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from math import nan
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, printable
from momentmix.findings.messages import Message, options
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.monitoring.shares.components import ComponentSets, FixedComponents
from momentmix.monitoring.shares.group_weights import (
    FitTest,
    GroupWeights,
    LinearWeights,
    check_fit,
    estimate,
    linear_weights,
    settled_weights,
)
from momentmix.monitoring.shares.moments import Shape, read, read_flat
from momentmix.monitoring.shares.shared_errors import Part, corrected, find_shared_errors
from momentmix.monitoring.shares.tracked_model import TrackedModel
from momentmix.progress import counting
from momentmix.summary.summary import MomentSummary
from momentmix.tables.names import column_label, match_names
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.wording import cut

_MOST_KEPT = 4_000_000  # sums of groups that are kept unpacked: about 100 megabytes
_AT_ONCE = 256  # groups whose moments are read together
_LARGEST = 1e200  # moment of standardized values
_UNTESTED = FitTest(nan, 0, nan, nan)
_MOST_USED = 300  # groups, the largest, that tell the errors of the components


def key_text(key: tuple[Any, ...]) -> str:
    """A key as texts name it."""
    return cut(printable(", ".join("missing" if x is None else str(x) for x in key)), 60)


@dataclass
class Group:
    """One group: what its summary is like, what is read of it, and what is found.

    `n` are its rows; of weighted ones, as many as they are worth. `layout` is the order, the
    squared order and the kinds of high moments. `moments` (q,) are those up to `degree`, None where
    there are none that can be used.
    """

    key: tuple[Any, ...]
    n_rows: int
    n: float
    schema: Schema | None
    layout: tuple[int, int, int]
    note: str
    degree: int = 0
    moments: Float | None = None
    weights: GroupWeights | None = None
    test: FitTest = _UNTESTED


class Groups:
    """Groups of a cube, or of a mapping of keys to summaries, with the columns of a model.

    Parameters
    ----------
    cube : Mapping
        Summaries are taken from it one by one; the first ones are kept, as many as fit into some
        memory, since to unpack them takes a while.
    tracked : TrackedModel
    """

    def __init__(self, cube: Any, tracked: TrackedModel) -> None:
        if not isinstance(cube, Mapping):
            raise InputTypeError(
                "cube must be a SummaryCube, or a dict of keys and summaries; got "
                f"{type(cube).__name__}. mm.summarize_by makes one from rows."
            )
        if not cube:
            raise InputError("the cube has no groups; check its filter, or summarize more rows.")
        self._cube, self._tracked = cube, tracked
        self._kept, room = list[MomentSummary](), _MOST_KEPT
        self.groups = list[Group]()
        with counting("Reading groups", len(cube), "groups") as tell:
            for key, given in cube.items():
                key = key if isinstance(key, tuple) else (key,)
                summary = self._prepared(key, given)
                n = summary.effective_rows if summary.n_rows else 0.0
                layout = summary.order, summary.squared_order, summary._layout.high
                note = "" if summary.n_rows else "no rows"
                self.groups.append(Group(key, summary.n_rows, n, summary.schema, layout, note))
                room -= given._layout.n_entries
                if room > 0:
                    self._kept.append(summary)
                tell(1)
        first = self.groups[0].key
        for own in self.groups:
            if len(own.key) != len(first):
                raise InputError(
                    f"keys must have as many parts each; {key_text(own.key)} has {len(own.key)}, "
                    f"{key_text(first)} has {len(first)}."
                )
        numbered = [f"key {i}" for i in range(len(first))] if len(first) > 1 else ["group"]
        self.key_names = tuple(getattr(cube, "key_names", numbered))

    def summaries(self) -> Iterator[MomentSummary]:
        """The summaries, with the columns of the model."""
        rest = islice(self._cube, len(self._kept), None)
        others = zip(self.groups[len(self._kept) :], rest, strict=True)
        return chain(self._kept, (self._prepared(own.key, self._cube[key]) for own, key in others))

    def _prepared(self, key: tuple[Any, ...], summary: MomentSummary) -> MomentSummary:
        """The summary with the columns of the model, in its order."""
        given: Any = summary
        if not isinstance(given, MomentSummary):
            raise InputTypeError(
                f"group {key_text(key)}: expected a MomentSummary; got {type(given).__name__}."
            )
        whole, columns = self._tracked.whole, self._tracked.columns
        names, n_columns = whole.feature_names, whole.n_columns
        schema = summary.schema or plain_schema(summary.n_features, summary.feature_names)
        if names is not None and schema.column_names is not None:
            if names != schema.column_names:
                try:
                    places = match_names(names, schema.column_names, "the model", others=True)
                except InputError as error:
                    raise InputError(Message(f"group {key_text(key)}: ", error.args[0])) from None
                summary = summary.truncate(min(summary.order, len(places))).select(places)
        elif schema.n_columns != n_columns:
            raise InputError(
                f"group {key_text(key)} has {schema.n_columns} columns, the model {n_columns}. "
                "Summarize the columns that the model was fitted to."
            )
        if len(columns) == n_columns:
            return summary
        return summary.truncate(min(summary.order, len(columns))).select(columns)

    @property
    def schema(self) -> Schema | None:
        """The schema that summaries and mixture have in common; None of plain numbers."""
        mixture = self._tracked.mixture
        found, plain = mixture.schema, plain_schema(mixture.n_columns, mixture.feature_names)
        # Families may have been given to the fit of a summary of numbers.
        are_numbers = mixture.schema is None or mixture.schema.n_features == mixture.n_columns
        are_numbers &= not any(column.transform for column in mixture.columns)
        for own in {group.schema: group for group in self.groups}.values():
            if own.schema == mixture.schema and found == mixture.schema:
                continue
            if own.schema is None and are_numbers:
                continue
            try:
                found = joined(found or plain, own.schema or plain)
            except InputError as error:
                raise InputError(
                    f"group {key_text(own.key)} and the model differ: {error}"
                ) from None
            for j, (known, column) in enumerate(zip(mixture.columns, found.columns, strict=True)):
                if column.has_missing and not known.has_missing:
                    text = (
                        f"group {key_text(own.key)} has missing cells in "
                        f"{column_label(j, mixture.feature_names)}, the model knows of none. Fit "
                        "the model with "
                    )
                    drop = Message(" to all rows, or summarize with ", options(missing="drop"), ".")
                    raise InputError(Message(text, options(missing="model"), drop))
        return found


class WeighedGroups:
    """Groups with their moments, weights and tests, which are set.

    Parameters
    ----------
    tracked : TrackedModel
    cube : Groups
    z : float
        Normal quantile of the intervals.
    """

    def __init__(self, tracked: TrackedModel, cube: Groups, z: float) -> None:
        self.groups, self.schema = cube.groups, cube.schema
        self._model = tracked.standard(self.schema)
        self._names = tracked.mixture.feature_names
        self._sets = ComponentSets(self._model, self._shape(cube, 4))
        # Fewer moments are read in less time.
        degrees = (self._sets.degree_for(own.n) for own in self.groups if own.n_rows)
        if not self._sets.has_few_features and max(degrees) <= 3:
            self._sets = ComponentSets(self._model, self._shape(cube, 3))
        self._read(cube)
        self._corrected: dict[int, FixedComponents] = {}
        self._errors = None
        known = [own for own in self.groups if own.moments is not None]
        if self._model.factor is not None:
            largest = sorted(known, key=lambda own: -own.n)[:_MOST_USED]
            self._errors = find_shared_errors(filter(None, map(self._part, largest)))
        with counting("Tracking groups", len(known), "groups") as count:
            for own in known:
                components, draws = self.components(own), self._sets.draws(own.degree)
                assert own.moments is not None
                own.weights = estimate(components, own.moments, own.n, z)
                w = own.weights.weights
                own.test = check_fit(components, own.moments, own.n, w, draws)
                count(1)

    def _shape(self, cube: Groups, order: int) -> Shape:
        """The moments up to an order that all groups hold."""
        left = {own.layout for own in self.groups if own.n_rows}
        found, model = list[Shape](), self._model
        for own, summary in zip(self.groups, cube.summaries(), strict=True):
            if own.n_rows and own.layout in left:
                with suppress(InputError):  # of values so far away that the next group is asked
                    moments = read(summary, order, self.schema, model.shift, model.scale)
                    found.append(Shape.of(moments))
                    left.remove(own.layout)
            if not left:
                break
        if not found:
            raise InputError(
                "values of all groups lie so far from those of the model that their moments are "
                "not known; are the units the same?"
            )
        return Shape(
            found[0].n_features,
            min(shape.order for shape in found),
            min(shape.squared_order for shape in found),
            all(shape.has_powers for shape in found),
            all(shape.has_pairs for shape in found),
        )

    def _read(self, cube: Groups) -> None:
        """Read the moments of all groups that are used."""
        pairs, model = zip(self.groups, cube.summaries(), strict=True), self._model
        units = self.schema, model.shift, model.scale
        with counting("Reading groups", len(self.groups), "groups") as count:
            while chunk := list(islice(pairs, _AT_ONCE)):
                full = [(own, summary) for own, summary in chunk if own.n_rows]
                summaries = [summary for _, summary in full]
                flat = read_flat(summaries, self._sets.shape, *units) if full else ()
                for (own, summary), row in zip(full, flat, strict=True):
                    self._take(own, summary, row)
                count(len(chunk))

    def _take(self, own: Group, summary: MomentSummary, flat: Float) -> None:
        """Take the moments of the highest degree that is known of a group."""
        degree: int | None = self._sets.degree_for(own.n)
        while degree is not None:
            moments = flat[self._sets.of(degree).positions]
            if (np.abs(moments) < _LARGEST).all():  # and so are products with them
                own.degree, own.moments, own.note = degree, moments, self._varying(summary)
                return
            degree = self._sets.lower(degree)
        own.note = "values so far away that their powers are not known"

    def _varying(self, summary: MomentSummary) -> str:
        """Return a note on columns that are constant in the model and vary in a group."""
        low, high, schema = summary.minimum, summary.maximum, self.schema
        wrong = [j for j in self._model.constant if low[j] != high[j]]
        columns = [j if schema is None else schema.column_of[j] for j in wrong]
        labels = ", ".join(column_label(j, self._names) for j in columns)
        return labels and f"{labels} was constant in the model and is not here; it takes no part"

    def _part(self, own: Group) -> Part | None:
        """A group for the errors of the components, if they fit it."""
        components, moments = self._sets.of(own.degree), own.moments
        assert moments is not None
        weights = settled_weights(components, moments, own.n)
        for draws in (None, self._sets.draws(own.degree)):  # the latter take long, and raise it
            if not check_fit(components, moments, own.n, weights, draws).p_value < LEAST_P_VALUE:
                return Part(components, moments, own.n, weights)
        return None

    def components(self, own: Group) -> FixedComponents:
        """The components that a group was tested with, corrected for their shared errors."""
        if self._errors is None:
            return self._sets.of(own.degree)
        if own.degree not in self._corrected:
            self._corrected[own.degree] = corrected(self._sets.of(own.degree), self._errors)
        return self._corrected[own.degree]

    def linear_weights(self, own: Group, at: Float) -> LinearWeights:
        """Weights of a group without bounds; the covariance of its moments is that at weights."""
        assert own.moments is not None
        return linear_weights(self.components(own), own.moments, own.n, at)

"""The groups of a cube beside a model: columns matched, one schema, moments, weights and tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, printable
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.lazy import lazy_property
from momentmix.monitoring.shares.components import ComponentSets
from momentmix.monitoring.shares.group_weights import (
    UNTESTED,
    FitTest,
    GroupWeights,
    check_fit,
    corrected,
    equations_of,
    estimate,
    find_shared_errors,
    settled_weights,
)
from momentmix.monitoring.shares.tracked_model import StandardComponents, TrackedModel
from momentmix.progress import counting
from momentmix.summary.column_facts import schema_of
from momentmix.summary.layout import Layout
from momentmix.summary.readings import flat_moments, readings_of_many
from momentmix.summary.summary import MomentSummary
from momentmix.summary.totals import Totals, read_about
from momentmix.tables.names import column_label, match_names
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.wording import cut, option

_MOST_KEPT = 4_000_000  # sums of groups that are kept unpacked: about 100 megabytes
_AT_ONCE = 256  # groups whose moments are read together; for more it takes no less time each
_MOST_TOGETHER = 1 << 13  # moments of hundreds of groups: more would fill the memory
_LARGEST = 1e200  # moment of standardized values: products with it are finite
_VARIES = " was constant in the model and is not here; it takes no part"
_MOST_USED = 300  # groups, the largest, that determine the errors of the components


def key_text(key: tuple[Any, ...]) -> str:
    """A key as texts name it."""
    return cut(printable(", ".join("missing" if x is None else str(x) for x in key)), 60)


@dataclass
class Group:
    """One group: its summary, the moments that are read, and the weights and test found."""

    key: tuple[Any, ...]
    n_rows: int
    n: float  # rows; of weighted ones, as many as they are worth
    schema: Schema | None
    layout: Layout
    note: str = ""
    components: Any = None
    moments: Any = None  # (q,) of the components; None where none can be used
    weights: GroupWeights | None = None
    test: FitTest = UNTESTED


class Groups:
    """Groups of a cube, or of a mapping of keys to summaries, with the columns of a model."""

    def __init__(self, cube: Any, tracked: TrackedModel) -> None:
        if not isinstance(cube, Mapping):
            raise InputTypeError(
                "cube must be a SummaryCube, or a dict of keys and summaries; got "
                f"{type(cube).__name__}. mm.summarize_by makes one from rows."
            )
        if not cube:
            raise InputError("the cube has no groups; check its filter, or summarize more rows.")
        self._cube, self._tracked = cube, tracked
        self._kept, room = list[MomentSummary](), _MOST_KEPT  # unpacking takes a while
        self.groups = list[Group]()
        with counting("Reading groups", len(cube), "groups") as tell:
            for key, given in cube.items():
                key = key if isinstance(key, tuple) else (key,)
                summary = self._prepared(key, given)
                n = summary.effective_rows if summary.n_rows else 0.0
                self.groups.append(Group(key, summary.n_rows, n, summary.schema, summary._layout))
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
        names, n_columns = self._tracked.whole.feature_names, self._tracked.whole.n_columns
        schema, places = schema_of(summary), list(range(n_columns))
        if names is None or schema.column_names is None:
            if schema.n_columns != n_columns:
                raise InputError(
                    f"group {key_text(key)} has {schema.n_columns} columns, the model {n_columns}. "
                    "Summarize the columns that the model was fitted to."
                )
        elif names != schema.column_names:
            try:
                places = match_names(names, schema.column_names, "the model", others=True)
            except InputError as error:
                raise InputError(f"group {key_text(key)}: {error}") from None
        places = [places[j] for j in self._tracked.columns]
        if places == list(range(schema.n_columns)):
            return summary
        return summary.truncate(min(summary.order, len(places))).select(places)

    @lazy_property
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
                    raise InputError(
                        f"group {key_text(own.key)} has missing cells in "
                        f"{column_label(j, mixture.feature_names)}, the model has none. Fit "
                        f"the model with {option(missing='model')} to all rows, or summarize with "
                        'missing="drop".'
                    )
        return found

    @property
    def layout(self) -> Layout:
        """The moments up to order 4 that all groups have in common."""
        found = [own.layout for own in self.groups if own.n_rows]
        d = found[0].n_features if self.schema is None else self.schema.n_features
        order = min(4, *(own.order for own in found))
        squared_order = min(order - 1, *(own.squared_order for own in found))
        return Layout(d, order, squared_order, min(own.high for own in found))


def weigh(cube: Groups, tracked: TrackedModel, z: float) -> None:
    """Set the moments, weights and tests of all groups; `z` is a normal quantile."""
    model, layout = tracked.standard(cube.schema), cube.layout
    sets = ComponentSets(model, layout)
    degrees = (sets.degrees_for(own.n)[0] for own in cube.groups if own.n_rows)
    if layout.order > 3 and max(degrees) <= 3:  # fewer moments are read in less time
        low = replace(layout, order=3, squared_order=min(layout.squared_order, 2))
        sets = ComponentSets(model, low)
    _read(cube, sets, model, tracked.mixture.feature_names)
    known = [own for own in cube.groups if own.moments is not None]
    if model.factor is not None:
        largest = sorted(known, key=lambda own: -own.n)[:_MOST_USED]
        errors = find_shared_errors(pair for own in largest for pair in _equations(own))
        if errors is not None:
            used = {own.components for own in known}
            better = {components: corrected(components, *errors) for components in used}
            for own in known:
                own.components = better[own.components]
    with counting("Tracking groups", len(known), "groups") as count:
        for own in known:
            given = own.components, own.moments, own.n
            own.weights = estimate(*given, z)
            own.test = check_fit(*given, own.weights.weights)
            count(1)


def _read(
    cube: Groups, sets: ComponentSets, model: StandardComponents, names: tuple[str, ...] | None
) -> None:
    """Read the moments of all groups that are used, of the highest degree that is known of each."""
    schema, are_known = cube.schema, False
    columns = {j: j if schema is None else schema.column_of[j] for j in model.constant}
    labels = {j: column_label(column, names) for j, column in columns.items()}
    pairs = zip(cube.groups, cube.summaries(), strict=True)
    with counting("Reading groups", len(cube.groups), "groups") as count:
        while chunk := list(islice(pairs, _AT_ONCE)):
            count(len(chunk))
            full = [(own, summary) for own, summary in chunk if own.n_rows]
            flat = _moments_of_many(
                [summary for _, summary in full], sets.layout, schema, model.shift, model.scale
            )
            are_known |= not np.isnan(flat[:, 0]).all()
            for (own, summary), row in zip(full, flat, strict=True):
                own.note = "values so far away that their powers are not known"
                for degree in sets.degrees_for(own.n):
                    components = sets.of(degree)
                    moments = row[components.conditions.values.astype(np.int64)]
                    if (np.abs(moments) < _LARGEST).all():
                        own.components, own.moments = components, moments
                        wrong = [j for j in labels if summary.minimum[j] != summary.maximum[j]]
                        varying = ", ".join(labels[j] for j in wrong)
                        own.note = varying and varying + _VARIES
                        break
    if not are_known:
        raise InputError(
            "values of all groups lie so far from those of the model that their moments are not "
            "known; are the units the same?"
        )


def _totals_of(summary: MomentSummary, order: int, schema: Schema | None) -> Totals:
    """The sums of a group up to an order, in the common schema."""
    order = min(order, summary.order)
    totals = summary.truncate(order, min(summary.squared_order, order - 1))._totals()
    if schema is not None and summary.schema is not None and summary.schema != schema:
        totals = read_about(totals, schema)
    return totals


def _moments_of_many(
    summaries: Sequence[MomentSummary],
    layout: Layout,
    schema: Schema | None,
    shift: Float,
    scale: Float,
) -> Float:
    """Moments of groups in units of the model, (n, n_entries); NaN where even means overflow."""
    totals = [_totals_of(summary, layout.order, schema) for summary in summaries]
    found = np.full((len(totals), layout.n_entries), np.nan)
    by_layout = dict[Layout, list[int]]()
    for number, each in enumerate(totals):
        by_layout.setdefault(each.layout, []).append(number)
    for own, numbers in by_layout.items():
        if own.n_entries <= _MOST_TOGETHER:
            values = readings_of_many([totals[number] for number in numbers], shift, scale)
            found[numbers] = values[:, layout.places_in(own)]
    for number in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
        with suppress(InputError):
            each = totals[number]
            found[number] = flat_moments(each, shift, scale)[layout.places_in(each.layout)]
    return found


def _equations(own: Group) -> Iterator[tuple[Float, Float]]:
    """Give the equations of a group for the errors of the components, if these fit it."""
    given = own.components, own.moments, own.n
    weights = settled_weights(*given)
    for with_draws in (False, True):  # the latter take long, and raise the p-value
        if not check_fit(*given, weights, with_draws).p_value < LEAST_P_VALUE:
            yield equations_of(*given, weights)
            return

"""Summaries of groups beside a model: columns matched, one schema, moments as flat vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError, InputTypeError, printable
from momentmix.mixture.mixture import Mixture
from momentmix.monitoring.shares.fixed_components import Shape, flat_moments
from momentmix.progress import counting
from momentmix.summary.exact.schemas import in_schema
from momentmix.summary.exact.totals import Totals
from momentmix.summary.layout import Kind, Layout
from momentmix.summary.readings import Moments, readings_of_many
from momentmix.summary.readings import moments as read_moments
from momentmix.summary.summary import MomentSummary
from momentmix.tables.names import column_label, match_names
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.wording import cut

_MOST_TOGETHER = 1 << 13  # moments of hundreds of groups: more would fill the memory
_MOST_KEPT = 4_000_000  # sums of groups that are kept unpacked: about 100 megabytes


@dataclass(frozen=True)
class GroupFacts:
    """What all of a cube is looked at for, before moments are read.

    Attributes
    ----------
    key : tuple
    n_rows : int
    n_effective : float
    schema : Schema or None
    layout : tuple of int
        Order, squared order, and kinds of high moments.
    """

    key: tuple[Any, ...]
    n_rows: int
    n_effective: float
    schema: Schema | None
    layout: tuple[int, int, int]


@dataclass(frozen=True)
class Groups:
    """Groups of a cube beside a mixture; summaries are taken from the cube one by one.

    Attributes
    ----------
    cube : Mapping
    key_names : tuple of str
    facts : list of GroupFacts
    mixture : Mixture
        Its columns, in its order, are those that are read.
    columns : list of int or None
        Which of them, where some are left out.
    kept : list of MomentSummary
        The first groups, as many as fit into some memory: to unpack them takes a while.
    """

    cube: Mapping[Any, MomentSummary]
    key_names: tuple[str, ...]
    facts: list[GroupFacts]
    mixture: Mixture
    columns: list[int] | None = None
    kept: list[MomentSummary] = field(default_factory=list)

    @classmethod
    def of(cls, cube: Any, mixture: Mixture) -> Groups:
        """The groups of a cube, or of a mapping of keys to summaries."""
        if not isinstance(cube, Mapping):
            raise InputTypeError(
                "cube must be a SummaryCube, or a dict of keys and summaries; got "
                f"{type(cube).__name__}. mm.summarize_by makes one from rows."
            )
        if not cube:
            raise InputError("the cube has no groups; check its filter, or summarize more rows.")
        facts, kept, room = list[GroupFacts](), list[MomentSummary](), _MOST_KEPT
        with counting("Reading groups", len(cube), "groups") as tell:
            for key, summary in cube.items():
                facts.append(_facts(mixture, _tuple(key), summary))
                room -= summary._layout.n_entries
                if room > 0:
                    kept.append(summary)
                tell(1)
        count = len(facts[0].key)
        for own in facts:
            if len(own.key) != count:
                raise InputError(
                    f"keys must have as many parts each; {key_text(own.key)} has {len(own.key)}, "
                    f"{key_text(facts[0].key)} has {count}."
                )
        names = getattr(cube, "key_names", None)
        if names is None:
            names = ("group",) if count == 1 else tuple(f"key {i}" for i in range(count))
        return cls(cube, tuple(names), facts, mixture, kept=kept)

    @property
    def keys(self) -> list[tuple[Any, ...]]:
        """Keys of the groups, as tuples."""
        return [own.key for own in self.facts]

    def summaries(self) -> Iterator[MomentSummary]:
        """The summaries, with the columns of the model."""
        rest = islice(self.cube, len(self.kept), None)
        every = chain(self.kept, (self.cube[key] for key in rest))
        for own, summary in zip(self.facts, every, strict=True):
            yield self._prepared(own.key, summary)

    def _prepared(self, key: tuple[Any, ...], summary: MomentSummary) -> MomentSummary:
        found = _matched(self.mixture, summary, key)
        if self.columns is None:
            return found
        return found.truncate(min(found.order, len(self.columns))).select(self.columns)

    def select(self, columns: list[int]) -> Groups:
        """The same with some of the columns."""
        facts = [
            replace(
                own,
                schema=_chosen(own.schema, columns),
                layout=(min(own.layout[0], len(columns)), *own.layout[1:]),
            )
            for own in self.facts
        ]
        return replace(self, columns=columns, facts=facts)

    def schema(self, mixture: Mixture) -> Schema | None:
        """The schema that summaries and mixture have in common; None of plain numbers."""
        found = mixture.schema
        plain = plain_schema(mixture.n_columns, mixture.feature_names)
        for own in {fact.schema: fact for fact in self.facts}.values():
            if own.schema == mixture.schema and found == mixture.schema:
                continue
            if own.schema is None and _are_numbers(mixture):
                continue  # families were given to the fit of a summary of numbers
            try:
                found = joined(found or plain, own.schema or plain)
            except InputError as error:
                raise InputError(
                    f"group {key_text(own.key)} and the model differ: {error}"
                ) from None
            _check_missing(mixture, found, own.key)
        return found


def read(
    summary: MomentSummary, order: int, schema: Schema | None, shift: Float, scale: Float
) -> Moments:
    """Moments of a group up to an order, in the units of the model."""
    return read_moments(_totals(summary, order, schema), shift, scale)


def _totals(summary: MomentSummary, order: int, schema: Schema | None) -> Totals:
    """The sums of a group up to an order, of all rows together."""
    order = min(order, summary.order)
    summary = summary.truncate(order, min(summary.squared_order, order - 1))
    totals = summary._totals()
    if schema is not None and summary.schema is not None and summary.schema != schema:
        totals = in_schema(totals, schema)
    return totals


def read_flat(
    summaries: Sequence[MomentSummary],
    shape: Shape,
    schema: Schema | None,
    shift: Float,
    scale: Float,
) -> Float:
    """The same of many groups, one flat vector each as `shape` has them, of shape (n, size).

    NaN where the values of a group are so far away that even their means overflow.
    """
    totals = [_totals(summary, shape.order, schema) for summary in summaries]
    found = np.empty((len(totals), sum(int(np.prod(size)) for size in shape.sizes)))
    by_layout = dict[Layout, list[int]]()
    for number, own in enumerate(totals):
        by_layout.setdefault(own.layout, []).append(number)
    for layout, numbers in by_layout.items():
        if layout.n_entries > _MOST_TOGETHER:
            found[numbers] = np.nan
            continue
        values = readings_of_many([totals[number] for number in numbers], shift, scale)
        found[numbers] = values[:, _places(layout, shape)]
    for number in np.flatnonzero(np.isnan(found).any(axis=1)).tolist():
        with suppress(InputError):
            moments = read_moments(totals[number], shift, scale)
            found[number] = flat_moments(_shaped(moments, shape))
    return found


def _places(layout: Layout, shape: Shape) -> Int:
    """Where the moments of a shape stand in the sections of a layout."""
    kinds: list[tuple[Kind, int]] = [("distinct", t) for t in range(shape.order + 1)]
    kinds += [("squared", s) for s in range(shape.squared_order + 1)]
    kinds += [("power", p) for p in range(3, 7)] if shape.has_powers else []
    kinds += [("cubed", 1), ("two squares", 2)] if shape.has_pairs and layout.n_features > 1 else []
    places = [layout.section(*kind).place for kind in kinds]
    return np.concatenate([np.arange(place.start, place.stop) for place in places])


def _shaped(found: Moments, shape: Shape) -> Moments:
    return replace(
        found,
        squared=found.squared[: shape.squared_order + 1],
        powers=found.powers if shape.has_powers else None,
        cubed=found.cubed if shape.has_pairs else None,
        two_squares=found.two_squares if shape.has_pairs else None,
    )


def _chosen(schema: Schema | None, columns: list[int]) -> Schema | None:
    """The schema of some columns; None of plain numbers."""
    if schema is None:
        return None
    chosen = Schema(tuple(schema.columns[j] for j in columns))
    return None if chosen.is_plain else chosen


def _tuple(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _facts(mixture: Mixture, key: tuple[Any, ...], summary: Any) -> GroupFacts:
    if not isinstance(summary, MomentSummary):
        raise InputTypeError(
            f"group {key_text(key)}: expected a MomentSummary; got {type(summary).__name__}."
        )
    own = _matched(mixture, summary, key)
    n_effective = own.effective_rows if own.n_rows else 0.0
    layout = own.order, own.squared_order, own._layout.high
    return GroupFacts(key, own.n_rows, n_effective, own.schema, layout)


def key_text(key: tuple[Any, ...]) -> str:
    """A key as texts name it."""
    return cut(printable(", ".join("missing" if x is None else str(x) for x in key)), 60)


def _are_numbers(mixture: Mixture) -> bool:
    """Whether every column has one feature that is its value."""
    plain = mixture.schema is None or mixture.schema.n_features == mixture.n_columns
    return plain and not any(column.transform for column in mixture.columns)


def _matched(mixture: Mixture, summary: MomentSummary, key: tuple[Any, ...]) -> MomentSummary:
    """The summary with the columns of the mixture, in its order."""
    schema = summary.schema
    names = summary.feature_names if schema is None else schema.column_names
    n_columns = summary.n_features if schema is None else schema.n_columns
    expected = mixture.feature_names
    if expected is not None and names is not None:
        if names == expected:
            return summary
        try:
            places = match_names(expected, names, "the model", others=True)
        except InputError as error:
            raise InputError(f"group {key_text(key)}: {error}") from None
        return summary.truncate(min(summary.order, len(places))).select(places)
    if n_columns != mixture.n_columns:
        raise InputError(
            f"group {key_text(key)} has {n_columns} columns, the model {mixture.n_columns}. "
            "Summarize the columns that the model was fitted to."
        )
    return summary


def _check_missing(mixture: Mixture, schema: Schema, key: tuple[Any, ...]) -> None:
    """Raise where a column has missing cells that the model knows nothing of."""
    for number, (own, column) in enumerate(zip(mixture.columns, schema.columns, strict=True)):
        if column.has_missing and not own.has_missing:
            raise InputError(
                f"group {key_text(key)} has missing cells in "
                f"{column_label(number, mixture.feature_names)}, the model knows of none. Fit the "
                "model with missing='model' to all rows, or summarize with missing='drop'."
            )

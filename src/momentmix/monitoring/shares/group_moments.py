"""Summaries of groups beside a model: columns matched, one schema, moments as flat vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, printable
from momentmix.mixture.mixture import Mixture
from momentmix.monitoring.shares.fixed_components import Shape, flat_moments
from momentmix.rows.names import column_label, match_names
from momentmix.schema.joining import joined, plain_schema
from momentmix.schema.schema import Schema
from momentmix.summary.common_schema import alike
from momentmix.summary.readings import Moments
from momentmix.summary.readings import moments as read_moments
from momentmix.summary.summary import MomentSummary
from momentmix.wording import cut


@dataclass(frozen=True)
class Groups:
    """Summaries by key.

    Attributes
    ----------
    key_names : tuple of str
    keys : list of tuples
    summaries : list of MomentSummary
        With the columns of the model, in its order.
    """

    key_names: tuple[str, ...]
    keys: list[tuple[Any, ...]]
    summaries: list[MomentSummary]

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
        keys, summaries = list[tuple[Any, ...]](), list[MomentSummary]()
        for key, summary in cube.items():
            own = key if isinstance(key, tuple) else (key,)
            if not isinstance(summary, MomentSummary):
                raise InputTypeError(
                    f"group {key_text(own)}: expected a MomentSummary; got "
                    f"{type(summary).__name__}."
                )
            if keys and len(own) != len(keys[0]):
                raise InputError(
                    f"keys must have as many parts each; {key_text(own)} has {len(own)}, "
                    f"{key_text(keys[0])} has {len(keys[0])}."
                )
            keys.append(own)
            summaries.append(_matched(mixture, summary, own))
        count = len(keys[0])
        names = getattr(cube, "key_names", None)
        if names is None:
            names = ("group",) if count == 1 else tuple(f"key {i}" for i in range(count))
        return cls(tuple(names), keys, summaries)

    def select(self, columns: list[int]) -> Groups:
        """The same with some of the columns."""
        order = max(1, min(summary.order for summary in self.summaries))
        order = min(order, len(columns))
        chosen = [s.truncate(min(s.order, order)).select(columns) for s in self.summaries]
        return replace(self, summaries=chosen)

    def schema(self, mixture: Mixture) -> Schema | None:
        """The schema that summaries and mixture have in common; None of plain numbers."""
        known = mixture.schema
        found = known
        for key, summary in zip(self.keys, self.summaries, strict=True):
            own = summary.schema
            if own == known and found == known:
                continue
            if own is None and summary.n_features == mixture.n_features and _are_numbers(mixture):
                continue  # families were given to the fit of a summary of numbers
            try:
                left = found or plain_schema(mixture.n_columns, mixture.feature_names)
                right = own or plain_schema(mixture.n_columns, mixture.feature_names)
                found = joined(left, right)
            except InputError as error:
                raise InputError(f"group {key_text(key)} and the model differ: {error}") from None
            _check_missing(mixture, found, key)
        return found

    def read(
        self, number: int, order: int, schema: Schema | None, shift: Float, scale: Float
    ) -> Moments:
        """Moments of one group up to an order, in the units of the model."""
        summary = self.summaries[number]
        summary = summary.truncate(min(order, summary.order), min(summary.squared_order, order - 1))
        totals = summary._totals()
        if schema is not None and summary.schema is not None and summary.schema != schema:
            q = summary.squared_order
            empty = MomentSummary(schema.n_features, summary.order, squared_order=q, schema=schema)
            totals = alike(totals, empty._totals())[0]
        elif schema is not None and summary.schema is None and schema.n_features != len(shift):
            raise AssertionError("features of the summary and of the model differ")
        return read_moments(totals, shift, scale)

    def flat(
        self, number: int, shape: Shape, schema: Schema | None, shift: Float, scale: Float
    ) -> Float:
        """The same in one vector, as `shape` has them."""
        found = self.read(number, shape.order, schema, shift, scale)
        distinct, squared = found.distinct[: shape.order + 1], found.squared
        return flat_moments(
            replace(
                found,
                distinct=distinct,
                squared=squared[: shape.squared_order + 1],
                powers=found.powers if shape.has_powers else None,
                cubed=found.cubed if shape.has_pairs else None,
                two_squares=found.two_squares if shape.has_pairs else None,
            )
        )


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

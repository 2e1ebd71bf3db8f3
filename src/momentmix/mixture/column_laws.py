"""The laws of the features of a schema's columns, in the units of the data.

| family | laws |
|---|---|
| gaussian | none: Gaussian features have no law of their own |
| bernoulli, categorical | `Finite`, a missing cell as one more outcome |
| poisson | `Poisson` |
| gaussian or poisson with missing cells | `Seen` |
| gaussian with missing cells, joined with others | `Finite`, of ``seen``; the value is Gaussian |
"""

from __future__ import annotations

from collections.abc import Collection

from momentmix.mixture.laws.finite import Finite
from momentmix.mixture.laws.law import Law
from momentmix.mixture.laws.poisson import Poisson
from momentmix.mixture.laws.seen import Seen
from momentmix.tables.column import BERNOULLI, CATEGORICAL, POISSON, Column
from momentmix.tables.schema import Schema


def laws_of(schema: Schema | None, joined: Collection[int] = ()) -> tuple[Law, ...]:
    """Laws of the features that are not Gaussian, in the order of the features.

    `joined` are numbers of the columns in blocks of several.
    """
    if schema is None:
        return ()
    found = tuple(
        law
        for number, column in enumerate(schema.columns)
        if (law := law_of(column, tuple(schema.features_of(number)))) is not None
    )
    return with_joined_values(found, {schema.features_of(number)[0] for number in joined})


def with_joined_values(laws: tuple[Law, ...], values: Collection[int]) -> tuple[Law, ...]:
    """The laws where these features are values of joined columns.

    A joined value is Gaussian, and left out of the density where its cell is missing. The law is
    that of ``seen`` alone.
    """
    found = (
        law.without(0, 0.0) if isinstance(law, Seen) and law.features[0] in values else law
        for law in laws
    )
    return tuple(law for law in found if law is not None)


def law_of(column: Column, features: tuple[int, ...]) -> Law | None:
    """The law of one column's features; None where it is Gaussian without missing cells."""
    if column.family in (BERNOULLI, CATEGORICAL):
        return Finite.indicators(features, int(column.has_missing))
    if column.family == POISSON:
        return Seen.poisson(features) if column.has_missing else Poisson(features)
    return Seen.gaussian(features) if column.has_missing else None

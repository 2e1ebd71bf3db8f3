"""Rows and files beside a mixture: opened with its columns, and as moments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.mixture.mixture import Mixture
from momentmix.progress import step
from momentmix.summary.summary import MomentSummary
from momentmix.tables.encoding import Encoded
from momentmix.tables.learning import encoded_blocks, rows_to_predict
from momentmix.tables.rows import Features
from momentmix.tables.schema import Schema
from momentmix.tables.table_rows import TableRows

HIGHEST_ORDER = 4  # of the moments in a picture: higher ones are noise for most numbers of rows


def opened(mixture: Mixture, data: Any) -> Any:
    """Rows with the columns of the mixture."""
    if hasattr(data, "blocks") and hasattr(data, "n_features") and not isinstance(data, TableRows):
        check_columns(mixture, data.n_features, getattr(data, "feature_names", None))
        return data
    return rows_to_predict(Schema(mixture.columns), data, "the model")


def check_columns(mixture: Mixture, n_features: int, names: tuple[str, ...] | None) -> None:
    """Raise unless the mixture has so many columns, of these names where both have names."""
    if n_features != mixture.n_features:
        raise InputError(
            f"the model has {mixture.n_features} features, the data {n_features}. Give the data "
            "that it was fitted to, or select its columns."
        )
    features = mixture.feature_names
    if features is not None and names is not None and features != names:
        raise InputError(
            f"the model's features are {', '.join(map(ascii, features[:8]))}, the data's "
            f"{', '.join(map(ascii, names[:8]))}. Select or rename them in the model's order."
        )


def encoded_rows(schema: Schema, data: Any) -> Iterator[Encoded]:
    """Rows as features, block by block; levels that the model does not know are left out."""
    return encoded_blocks(schema, data, "the model", "missing")


def without_left_out(encoded: Encoded) -> Float:
    """Features of the rows without a cell that is missing where the mixture knows of none."""
    if encoded.left_out is None:
        return encoded.features
    return encoded.features[~encoded.left_out.any(axis=1)]


def summary_of_rows(mixture: Mixture, data: Any) -> MomentSummary:
    """Moments of rows with the columns and families of a mixture, from one pass.

    Rows with a cell that is missing where the mixture knows of none are left out.

    Parameters
    ----------
    mixture : Mixture
    data : rows, data frame, TableRows, or anything that `open_rows` takes
    """
    schema = mixture.schema
    n_features = mixture.n_features if schema is None else schema.n_features
    names = mixture.feature_names if schema is None else None
    order = min(HIGHEST_ORDER, n_features)
    summary = MomentSummary(n_features, order, names, schema=schema)
    with step("Reading rows"):
        if schema is None:
            for block in opened(mixture, data).blocks():
                summary.update(block)
        else:
            for encoded in encoded_rows(schema, data):
                summary.update(Features(schema, without_left_out(encoded)))
    if not summary.n_rows:
        raise InputError(
            "there are no rows without missing cells, where the mixture knows of none. Give other "
            "rows, or a summary."
        )
    return summary

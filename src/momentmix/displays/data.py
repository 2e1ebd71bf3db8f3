"""Rows and files beside a mixture: opened with its columns, and as moments."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.tables.rows import encoded_blocks, rows_at_a_time
from momentmix.progress import step
from momentmix.rows.header import warn_of_header
from momentmix.rows.opening import open_rows
from momentmix.rows.source import Missing, RowSource
from momentmix.schema.building import EncodedTable
from momentmix.schema.encoding import Encoded
from momentmix.schema.schema import Schema
from momentmix.schema.sources import coded_by
from momentmix.summary.summary import MomentSummary

HIGHEST_ORDER = 4  # of the moments in a picture: higher ones are noise for most numbers of rows


def opened(mixture: Mixture, data: Any, missing: Missing) -> Any:
    """Rows with the columns of the mixture."""
    source = data
    if not (hasattr(source, "blocks") and hasattr(source, "n_features")):
        source = open_rows(data, missing=missing, expected=mixture.feature_names)
        warn_of_header(source.tables, mixture.feature_names)
    check_columns(mixture, source.n_features, getattr(source, "feature_names", None))
    if mixture.schema is not None and isinstance(source, RowSource):
        source = coded_by(source, mixture.schema, "missing")
    return source


def opened_table(mixture: Mixture, data: Any) -> Any:
    """Files as a source, with the columns of a mixture that has a schema; a table as it is."""
    several = data if isinstance(data, list | tuple) and data else [data]
    names_files = all(isinstance(part, str | os.PathLike) for part in several)
    return opened(mixture, data, "model") if names_files or hasattr(data, "blocks") else data


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


def encoded_rows(schema: Schema, source: Any) -> Iterator[Encoded]:
    """Rows as features, block by block."""
    if hasattr(source, "blocks"):
        coded = schema.coded  # files have numbers in place of levels of text
        yield from (coded.encode_for_prediction(block, "missing") for block in source.blocks())
    else:
        yield from encoded_blocks(schema, source, rows_at_a_time(schema))


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
    data : rows, data frame, RowSource, or anything that `open_rows` takes
    """
    schema = mixture.schema
    n_features = mixture.n_features if schema is None else schema.n_features
    names = mixture.feature_names if schema is None else None
    order = min(HIGHEST_ORDER, n_features)
    summary = MomentSummary(n_features, order, names, schema=schema)
    with step("Reading rows"):
        if schema is None:
            for block in opened(mixture, data, "error").blocks():
                summary.update(block)
        else:
            for encoded in encoded_rows(schema, opened_table(mixture, data)):
                summary.update(EncodedTable(schema, without_left_out(encoded)))
    if not summary.n_rows:
        raise InputError(
            "there are no rows without missing cells, where the mixture knows of none. Give other "
            "rows, or a summary."
        )
    return summary

"""Rows, files and summaries beside a mixture: opened with its columns, and thinned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.families.column import Column
from momentmix.mixture.density import most_probable
from momentmix.mixture.mixture import Mixture
from momentmix.summary.column_facts import schema_of
from momentmix.summary.summary import MomentSummary, read_in
from momentmix.tables.encoding import Encoded
from momentmix.tables.learning import rows_to_predict
from momentmix.tables.names import match_names
from momentmix.tables.schema import Schema, joined

_FITTED_TO = "Give the data that it was fitted to, or a summary of them."
MOST_ROWS = 200_000  # of a histogram; more change nothing that can be seen


def encoded_rows(mixture: Mixture, data: Any) -> Iterator[Encoded]:
    """Yield rows as features; levels that the model does not have are left out."""
    rows = rows_to_predict(Schema(mixture.columns), data, "the model")
    blocks = rows.all_blocks(unseen="missing")
    return (block.encoded for block in blocks if len(block.features))


def thinned(blocks: Iterable[Float], most: int) -> Float:
    """Return at most `most` rows of a stream, evenly spaced."""
    kept: list[Float] = []
    step = 1
    n_rows = n_kept = 0
    for block in blocks:
        chosen = block[-n_rows % step :: step]
        n_rows += len(block)
        kept.append(chosen)
        n_kept += len(chosen)
        while n_kept > 2 * most:
            kept = [np.concatenate(kept)[::2]]
            n_kept, step = len(kept[0]), 2 * step
    if not kept:
        raise InputError("there are no rows to show.")
    rows = np.concatenate(kept)
    return rows[:: -(-len(rows) // most)]


def shown_rows(mixture: Mixture, data: Any, most: int = MOST_ROWS) -> tuple[Float, Encoded]:
    """Return at most `most` rows, evenly spaced, as values and as features of the mixture.

    Values, of shape (n_rows, n_columns), are numbers after their transform, counts, or codes of
    levels; NaN where a cell is missing or holds a level that the mixture does not have.
    """
    schema = Schema(mixture.columns)

    def with_gaps(encoded: Encoded) -> Float:
        features, left_out = encoded
        gaps = np.zeros((len(features), schema.n_columns)) if left_out is None else left_out
        return np.hstack([features, gaps.astype(np.float64)])

    table = thinned(map(with_gaps, encoded_rows(mixture, data)), most)
    features, left_out = np.hsplit(table, [schema.n_features])
    parts = np.hsplit(features, np.cumsum([column.n_features for column in schema.columns])[:-1])
    values = np.stack(list(map(_values, schema.columns, parts)), axis=1)
    values[left_out > 0] = np.nan
    return values, Encoded(features, left_out > 0 if left_out.any() else None)


def _values(column: Column, part: Float) -> Float:
    """Return numbers or codes of a column, from its features."""
    found = part[:, 0] + column.center
    if column.levels:
        indicators = part[:, : column.n_values]
        is_first = indicators.max(axis=1) <= 0.5
        found = np.where(is_first, 0.0, indicators.argmax(axis=1) + 1.0)
    return np.where(part[:, -1] > 0.5, found, np.nan) if column.has_missing else found


def labels_of(mixture: Mixture, encoded: Encoded) -> NDArray[np.int64]:
    """Return the most probable component of each row; −1 for the background."""
    labels = mixture.row_density.map_encoded(encoded, most_probable)
    return np.where(labels == mixture.n_components, -1, labels)


def matching_summary(mixture: Mixture, summary: MomentSummary) -> MomentSummary:
    """Return the summary in order and schema of the mixture; raise where it has other columns."""
    schema, expected = mixture.schema, mixture.feature_names
    names = schema_of(summary).column_names
    if expected and names and names != expected and sorted(names) == sorted(expected):
        summary, names = summary.select(expected), expected
    if schema is not None:
        summary = _in_schema(summary, schema)
    n_features = mixture.n_features if schema is None else schema.n_features
    if summary.n_features != n_features:
        raise InputError(
            f"the mixture has {n_features} features, the summary {summary.n_features}. {_FITTED_TO}"
        )
    if expected is not None and names is not None:
        match_names(expected, names, "the mixture")
    # Families may have been given to the fit of a summary of numbers, one feature for each column.
    of_numbers = schema is not None and summary.schema is None and n_features == schema.n_columns
    of_numbers = of_numbers and not any(column.transform for column in mixture.columns)
    if summary.schema != schema and not of_numbers:
        raise InputError(
            "the columns of the summary have other families or levels than the mixture, other "
            f"transforms or other missing cells. {_FITTED_TO}"
        )
    return summary


def _in_schema(summary: MomentSummary, schema: Schema) -> MomentSummary:
    """Bring a summary to the schema of a mixture, where its rows could have that schema."""
    own = schema_of(summary)
    if own == schema or own.n_columns != schema.n_columns:
        return summary
    try:
        common = joined(own, schema)
    except InputError:
        return summary
    pairs = zip(common.columns, schema.columns, strict=True)
    if any(column.has_missing and not known.has_missing for column, known in pairs):
        return summary  # missing cells that the mixture knows nothing of
    return read_in(summary, schema)

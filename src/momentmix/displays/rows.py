"""Rows, files and summaries beside a mixture: opened with its columns, thinned, and as moments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.families.column import Column
from momentmix.findings.messages import FITTED_TO, Message
from momentmix.mixture.density import most_probable
from momentmix.mixture.mixture import Mixture
from momentmix.progress import step
from momentmix.summary.exact.schemas import in_schema
from momentmix.summary.summary import MomentSummary
from momentmix.tables.encoding import Encoded
from momentmix.tables.learning import encoded_blocks, rows_to_predict
from momentmix.tables.names import match_names
from momentmix.tables.rows import Features
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.tables.table_rows import TableRows

MOST_ROWS = 200_000  # of a histogram; more change nothing that can be seen
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


def thinned(blocks: Iterable[Float], most: int) -> Float:
    """At most `most` rows of a stream, evenly spaced."""
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


# -- rows to draw -----------------------------------------------------------------------------


class ShownRows(NamedTuple):
    """Some of the rows, evenly spaced.

    Attributes
    ----------
    values : array of shape (n_rows, n_columns)
        Numbers after their transform, counts, or codes of levels; NaN where a cell is missing.
    features : Encoded
        The same rows as the features of the mixture.
    """

    values: Float
    features: Encoded

    def components(self, mixture: Mixture) -> NDArray[np.int64]:
        """The most probable component of each row."""
        if mixture.schema is None:
            return np.asarray(mixture.predict(self.values))
        return np.asarray(mixture.table_density().map_encoded(self.features, most_probable))

    def thinned(self, most: int) -> ShownRows:
        """At most `most` of these rows."""
        step = max(1, -(-len(self.values) // most))
        features, left_out = self.features
        left_out = None if left_out is None else left_out[::step]
        return ShownRows(self.values[::step], Encoded(features[::step], left_out))


def shown_rows(mixture: Mixture, rows: Any, most: int = MOST_ROWS) -> ShownRows:
    """At most `most` rows of an array, a table, a source or files.

    Levels that the mixture does not know are taken for missing cells.
    """
    schema = mixture.schema
    if schema is None:
        table = thinned(opened(mixture, rows).blocks(), most)
        return ShownRows(table, Encoded(table, None))

    def with_gaps(encoded: Encoded) -> Float:
        features, left_out = encoded
        gaps = np.zeros((len(features), schema.n_columns)) if left_out is None else left_out
        return np.hstack([features, gaps.astype(np.float64)])

    table = thinned(map(with_gaps, encoded_rows(schema, rows)), most)
    features, left_out = np.hsplit(table, [schema.n_features])
    parts = np.hsplit(features, np.cumsum([column.n_features for column in schema.columns])[:-1])
    values = np.stack(list(map(_values, schema.columns, parts)), axis=1)
    values[left_out > 0] = np.nan
    return ShownRows(values, Encoded(features, left_out > 0 if left_out.any() else None))


def _values(column: Column, part: Float) -> Float:
    """Numbers or codes of a column, from its features."""
    found = part[:, 0] + column.center
    if column.levels:
        indicators = part[:, : column.n_values]
        is_first = indicators.max(axis=1) <= 0.5
        found = np.where(is_first, 0.0, indicators.argmax(axis=1) + 1.0)
    return np.where(part[:, -1] > 0.5, found, np.nan) if column.has_missing else found


# -- moments ----------------------------------------------------------------------------------


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


def in_order_of(mixture: Mixture, summary: MomentSummary) -> MomentSummary:
    """The summary with its features in the mixture's order, where both have the same names."""
    names, others = mixture.feature_names, _column_names(summary)
    if names is None or others is None or names == others or sorted(names) != sorted(others):
        return summary
    return summary.select(names)


def _column_names(summary: MomentSummary) -> tuple[str, ...] | None:
    return summary.feature_names if summary.schema is None else summary.schema.column_names


def matching_summary(mixture: Mixture, summary: MomentSummary) -> MomentSummary:
    """The summary with its columns in the mixture's order; raise where it has other ones.

    Missing cells are those of the mixture's schema: columns without any get the feature ``seen``,
    and sums are taken about its centers, exactly.
    """
    schema = mixture.schema
    if schema is not None:
        summary = _in_schema(in_order_of(mixture, summary), schema)
    n_features = mixture.n_features if schema is None else schema.n_features
    if summary.n_features != n_features:
        text = f"the mixture has {n_features} features, the summary {summary.n_features}. "
        raise InputError(Message(text, FITTED_TO))
    summary = in_order_of(mixture, summary)
    names = _column_names(summary)
    if mixture.feature_names is not None and names is not None:
        match_names(mixture.feature_names, names, "the mixture")
    # Families may have been given to the fit of a summary of numbers, one feature for each column.
    of_numbers = schema is not None and summary.schema is None and n_features == schema.n_columns
    of_numbers = of_numbers and not any(column.transform for column in mixture.columns)
    if summary.schema != schema and not of_numbers:
        text = "the columns of the summary have other families or levels than the mixture, other "
        raise InputError(Message(text, "transforms or other missing cells. ", FITTED_TO))
    return summary


def _in_schema(summary: MomentSummary, schema: Schema) -> MomentSummary:
    """The summary in the schema of a mixture; as it is where the rows do not have that schema."""
    own = summary.schema or plain_schema(summary.n_features, summary.feature_names)
    if own == schema or own.n_columns != schema.n_columns:
        return summary
    try:
        common = joined(own, schema)
    except InputError:
        return summary
    pairs = zip(common.columns, schema.columns, strict=True)
    if any(column.has_missing and not known.has_missing for column, known in pairs):
        return summary  # missing cells that the mixture knows nothing of
    totals = in_schema(summary._totals(), schema)
    return summary._derived(totals, schema.column_names)

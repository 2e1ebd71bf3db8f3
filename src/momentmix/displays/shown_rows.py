"""Rows as pictures show them: numbers after their transform, counts, codes of levels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.displays.data import encoded_rows, opened
from momentmix.displays.style import thinned
from momentmix.families.column import Column
from momentmix.mixture.density import most_probable
from momentmix.mixture.mixture import Mixture
from momentmix.tables.encoding import Encoded


@dataclass(frozen=True, eq=False)
class ShownRows:
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
        step = _step(len(self.values), most)
        features, left_out = self.features
        left_out = None if left_out is None else left_out[::step]
        return ShownRows(self.values[::step], Encoded(features[::step], left_out))


def shown_rows(mixture: Mixture, rows: Any, most: int) -> ShownRows:
    """At most `most` rows of an array, a table, a source or files.

    Levels that the mixture does not know are taken for missing cells.
    """
    if mixture.schema is None:
        table = thinned(opened(mixture, rows).blocks(), most)
        return ShownRows(table, Encoded(table, None))
    schema = mixture.schema
    features, left_out = np.hsplit(
        thinned(map(_with_gaps, encoded_rows(schema, rows), repeat(schema.n_columns)), most),
        [schema.n_features],
    )
    return _of_features(mixture, Encoded(features, left_out > 0 if left_out.any() else None))


def _with_gaps(encoded: Encoded, n_columns: int) -> Float:
    """Features, and beside them which cells are left out."""
    features, left_out = encoded
    gaps = np.zeros((len(features), n_columns)) if left_out is None else left_out
    return np.hstack([features, gaps.astype(np.float64)])


def _step(n_rows: int, most: int) -> int:
    return max(1, -(-n_rows // most))


def _of_features(mixture: Mixture, encoded: Encoded) -> ShownRows:
    values, start = [], 0
    for column in mixture.columns:
        values.append(_values(column, encoded.features[:, start : start + column.n_features]))
        start += column.n_features
    table = np.stack(values, axis=1)
    if encoded.left_out is not None:
        table[encoded.left_out] = np.nan
    return ShownRows(table, encoded)


def _values(column: Column, part: Float) -> Float:
    """Numbers or codes of a column, from its features."""
    found = part[:, 0] + column.center
    if column.levels:
        indicators = part[:, : column.n_values]
        is_first = indicators.max(axis=1) <= 0.5
        found = np.where(is_first, 0.0, indicators.argmax(axis=1) + 1.0)
    return np.where(part[:, -1] > 0.5, found, np.nan) if column.has_missing else found

"""Rows as pictures show them, and the columns in which the components differ most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.families.column import Column
from momentmix.mixture.density import most_probable
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import numeric_columns
from momentmix.tables.encoding import Encoded
from momentmix.tables.learning import rows_to_predict
from momentmix.tables.schema import Schema

MOST_ROWS = 200_000  # of a histogram; more change nothing that can be seen
_LEAST_RATIO = 0.05  # of the variance between components over that within, for a pair


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


def shown_rows(
    mixture: Mixture, data: Any, most: int = MOST_ROWS
) -> tuple[Float, NDArray[np.int64] | None, int]:
    """Return at most `most` rows, evenly spaced, their components, and the number of all rows.

    Rows are values of shape (n_rows, n_columns): numbers after their transform, counts, or codes of
    levels; NaN where a cell is missing or holds a level that the mixture does not have. Components
    are −1 for the background; None where the mixture has no density.
    """
    schema, n_rows = Schema(mixture.columns), 0

    def with_gaps() -> Iterator[Float]:
        nonlocal n_rows
        for block in rows_to_predict(schema, data, "the model").encoded(unseen="missing"):
            features, left_out = block.features, block.left_out
            n_rows += len(features)
            gaps = np.zeros((len(features), schema.n_columns)) if left_out is None else left_out
            yield np.hstack([features, gaps.astype(np.float64)])

    features, left_out = np.hsplit(thinned(with_gaps(), most), [schema.n_features])
    parts = np.hsplit(features, np.cumsum([column.n_features for column in schema.columns])[:-1])
    values = np.stack(list(map(_values, schema.columns, parts)), axis=1)
    values[left_out > 0] = np.nan
    if not mixture.has_density:
        return values, None, n_rows
    encoded = Encoded(features, left_out > 0 if left_out.any() else None)
    labels = mixture.row_density.map_encoded(encoded, most_probable)
    return values, np.where(labels == mixture.n_components, -1, labels), n_rows


def _values(column: Column, part: Float) -> Float:
    """Return numbers or codes of a column, from its features."""
    found = part[:, 0] + column.center
    if column.levels:
        indicators = part[:, : column.n_values]
        is_first = indicators.max(axis=1) <= 0.5
        found = np.where(is_first, 0.0, indicators.argmax(axis=1) + 1.0)
    return np.where(part[:, -1] > 0.5, found, np.nan) if column.has_missing else found


# -- columns in which the components differ -------------------------------------------------------


def separation(mixture: Mixture) -> Float:
    """Return the variance between components over that within, summed over levels, by column."""
    found = []
    for number, column in enumerate(mixture.columns):
        if column.levels:
            values = np.stack(list(mixture.level_probabilities(number).values()), axis=1)
            variances = values * (1 - values)
        else:
            values, variances = mixture.means[:, [number]], mixture.variances[:, [number]]
        known = ~np.isnan(values[:, 0])
        weights = mixture.weights[known] / max(mixture.weights[known].sum(), 1e-300)
        values, variances = values[known], variances[known]
        extent = np.abs(values) + np.sqrt(variances)  # squares of large numbers overflow
        scale = float(extent.max(initial=0.0)) or 1.0
        offsets = values / scale - weights @ (values / scale)
        between = float((weights @ offsets**2).sum())
        within = float((weights @ (np.sqrt(variances) / scale) ** 2).sum())
        found.append(between / max(within, np.finfo(float).tiny))
    return np.array(found)


def by_separation(mixture: Mixture) -> list[int]:
    """Return the numbers of all columns, the best separation first."""
    if mixture.n_components == 1:
        return list(range(mixture.n_columns))
    return [int(j) for j in np.argsort(-separation(mixture), kind="stable")]


def best_separating(mixture: Mixture, most: int) -> list[int]:
    """At most `most` columns of the best separation."""
    return sorted(by_separation(mixture)[:most])


def pairs_by_separation(mixture: Mixture, most: int) -> list[tuple[int, int]]:
    """Pairs of columns of the best separation, the best first; of numbers where there are two."""
    order, numbers = by_separation(mixture), set(numeric_columns(mixture))
    best = [j for j in order if j in numbers] if len(numbers) > 1 else order
    if mixture.n_components > 1:  # over columns that hardly differ components lie one on another
        ratios = separation(mixture)
        best = [j for place, j in enumerate(best) if place < 2 or ratios[j] > _LEAST_RATIO]
    pairs = sorted(combinations(range(len(best)), 2), key=sum)[:most]
    return [(best[a], best[b]) for a, b in pairs] or [(best[0], best[0])]

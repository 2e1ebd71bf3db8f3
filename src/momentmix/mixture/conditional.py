"""Some columns of a mixture given others: a mixture again, and its mean for many rows.

| symbol | name here | shape |
|---|---|---|
| known columns K | ``known`` | (k,) |
| ω_i p_i(y_K) / Σ_l ω_l p_l(y_K) | ``shares`` | (r,), (n, r) |
| μ_iU + Σ_iUK Σ_iKK⁻¹ (y_K − μ_iK) | `given_values`, `conditional_means` | (r, u), (n, u) |

Blocks are independent given the component, so a known column changes the means and covariances of
its own block; those of other blocks change by the weights of the components alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.arrays import is_foreign, to_numpy
from momentmix.errors import InputError, InputTypeError
from momentmix.families.gaussian_block import Regression
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.tables.block_features import gaussian_blocks
from momentmix.tables.cells import is_missing
from momentmix.tables.memory import frame_names, is_frame, rows_for
from momentmix.tables.names import feature_number

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


def column_numbers(
    columns: Sequence[int | str], n_features: int, names: Sequence[str] | None
) -> Int:
    """Numbers of columns that are given by number or name, each once."""
    d, numbers = n_features, [int(feature_number(column, names)) for column in columns]
    if not numbers or min(numbers) < -d or max(numbers) >= d:
        raise InputError(f"features must be numbers in 0…{d - 1} or names; got {columns!r}.")
    found = np.array(numbers, dtype=np.int64) % d
    if np.unique(found).size < found.size:
        raise InputError(f"features must differ from each other; got {columns!r}.")
    return found


def known_values(values: Mapping[int | str, float]) -> tuple[list[int | str], list[float]]:
    """Columns and their values of a dict, or of what has keys like one; without missing ones."""
    try:
        known = {column: x for column, x in dict(values).items() if not is_missing(x)}
        return list(known), [float(value) for value in known.values()]
    except (TypeError, ValueError):
        raise InputTypeError(
            f"values must be numbers by column, as {{0: 1.5}} or {{'length': 1.5}}; got {values!r}."
        ) from None


def known_columns(rows: Any, known: Sequence[int | str] | None) -> Sequence[int | str]:
    """Columns that rows hold: those given, or the names of a data frame or dict."""
    if known is None and isinstance(rows, Mapping):
        return [str(name) for name in rows]
    if known is None:
        known = frame_names(rows) if is_frame(rows) else None
    if known is None:
        raise InputError(
            "which columns the rows hold is not known; pass known=[…], numbers or names of the "
            "mixture's columns, or a data frame with names."
        )
    return known


def some_component_is_probable(shares: Float) -> None:
    """Raise where shares of components given known values are NaN."""
    if not np.isfinite(shares).all():
        raise InputError(
            "the values of the known columns are not finite, or so far from all components that "
            "none is probable. Check them and their units."
        )


def other_columns(known: Int, n_features: int) -> Int:
    """Columns that are not known, ascending; raise where there are none."""
    others = np.setdiff1d(np.arange(n_features), known)
    if not others.size:
        raise InputError(
            f"all {n_features} columns are known, so that none is left. Leave out those that are "
            "to be predicted."
        )
    return others


def given_values(mixture: Mixture, values: Mapping[int | str, float]) -> tuple[Parameters, Int]:
    """Parameters of the other columns of one row with these values, and which they are."""
    p, d = mixture.parameters, mixture.n_features
    columns, numbers = known_values(values)
    if not columns:
        return p, np.arange(d)
    known = column_numbers(columns, d, mixture.feature_names)
    others, row = other_columns(known, d), np.zeros(d)
    row[known] = numbers
    shares = mixture.select(known.tolist()).responsibilities(row[None, known])[0]
    some_component_is_probable(shares)
    q, number = p.restricted(others), np.zeros(d, dtype=np.int64)
    number[others] = np.arange(others.size)
    means, spread = q.means.copy(), q.spread.copy()
    for own, seen, slopes, rest in _regressions(mixture, known):
        offsets = row[seen] - p.means[:, seen]
        means[:, number[own]] += (slopes @ offsets[:, :, None])[:, :, 0]
        spread[:, q.blocks.table(number[own])] = rest
    return replace(q, weights=shares / shares.sum(), means=means).with_spread(spread), others


def conditional_means(mixture: Mixture, rows: Any, known: Sequence[int | str] | None) -> Float:
    """Means of the other columns given the known cells of each row, of shape (n, u)."""
    rows = to_numpy(rows) if is_foreign(rows) else rows
    p, d = mixture.parameters, mixture.n_features
    numbers = column_numbers(known_columns(rows, known), d, mixture.feature_names)
    others, part = other_columns(numbers, d), mixture.select(numbers.tolist())
    shares = part.responsibilities(rows)
    table = np.zeros((len(shares), d))
    table[:, numbers] = rows_for(rows, part.feature_names)
    expected = np.zeros_like(table)
    expected[:, others] = shares @ p.means[:, others]
    for own, seen, slopes, _ in _regressions(mixture, numbers):
        for i in range(p.n_components):
            offsets = table[:, seen] - p.means[i, seen]
            expected[:, own] += shares[:, [i]] * (offsets @ slopes[i].T)
    gaps = np.flatnonzero(np.isnan(table).any(axis=1))
    if gaps.size:
        cells = np.full((gaps.size, d), np.nan)
        cells[:, numbers] = table[np.ix_(gaps, numbers)]
        for block in gaussian_blocks(p, None):
            columns = list(block.columns)
            cells[:, columns] = block.expected_cells(cells[:, columns], shares[gaps])
        expected[gaps] = cells
    return expected[:, others]


def _regressions(mixture: Mixture, known: Int) -> list[Regression]:
    """What known columns say of the others, in each block that has both."""
    blocks = gaussian_blocks(mixture.parameters, None)
    found = (block.regression(known) for block in blocks if len(block.columns) > 1)
    return [regression for regression in found if regression is not None]

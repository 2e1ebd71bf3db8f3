"""Conditional mixtures: the other columns of a row given some of its cells.

| symbol | name here | shape |
|---|---|---|
| known columns K | ``known`` | (k,) |
| ω_i p_i(y_K) / Σ_l ω_l p_l(y_K) | ``shares`` | (r,) |

Blocks are independent given the component, so a known column changes the parameters of its own
block (`Block.given`); those of other blocks change by the weights of the components alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError, InputTypeError
from momentmix.families.block import Block
from momentmix.mixture.tables.block_features import selected
from momentmix.tables.columns import is_missing
from momentmix.tables.names import feature_number

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

Gaps = NDArray[np.bool_]


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


def blocks_given(
    mixture: Mixture, values: Mapping[int | str, Any]
) -> tuple[Float, tuple[Block, ...], Int]:
    """Weights and blocks of the columns of a row that these values leave unknown, and which."""
    try:
        row = {column: value for column, value in dict(values).items() if not is_missing(value)}
    except (TypeError, ValueError):
        raise InputTypeError(
            f"values must be cells by column, as {{'age': 31.0, 'plan': 'gold'}}; got {values!r}."
        ) from None
    d, names = mixture.n_columns, mixture.feature_names
    if not row:
        return mixture.weights, mixture.blocks, np.arange(d)
    known = column_numbers(list(row), d, names)
    others, cells = other_columns(known, d), list(row.values())
    shares = mixture.select(known.tolist()).responsibilities([cells])[0]
    some_component_is_probable(shares)
    by_number = dict(zip(known.tolist(), cells, strict=True))
    found = [block.given(by_number) for block in mixture.blocks]
    return shares / shares.sum(), selected(found, others), others

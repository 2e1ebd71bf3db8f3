"""Conditional mixtures: the other columns of a row given some of its cells.

| symbol | name here | shape |
|---|---|---|
| columns K with values | ``given`` | (k,) |
| ω_i p_i(y_K) / Σ_l ω_l p_l(y_K) | ``weights`` | (r,) |

Blocks are independent given the component, so the value of a column changes the parameters of its
own block (`Block.given`); those of other blocks change by the weights of the components alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError, InputTypeError
from momentmix.families.block import Block
from momentmix.mixture.tables.block_features import selected
from momentmix.tables.columns import is_missing
from momentmix.tables.names import feature_number

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


def column_numbers(
    columns: Sequence[int | str], n_columns: int, names: Sequence[str] | None
) -> Int:
    """Numbers of columns that are given by number or name, each once."""
    d, numbers = n_columns, [int(feature_number(column, names)) for column in columns]
    if not numbers or min(numbers) < -d or max(numbers) >= d:
        raise InputError(f"features must be numbers in 0…{d - 1} or names; got {columns!r}.")
    found = np.array(numbers, dtype=np.int64) % d
    if np.unique(found).size < found.size:
        raise InputError(f"features must differ from each other; got {columns!r}.")
    return found


def blocks_given(
    mixture: Mixture, values: Mapping[int | str, Any]
) -> tuple[Float, tuple[Block, ...], Int]:
    """Weights and blocks of the columns of a row that have no values here, and their numbers."""
    try:
        row = {column: value for column, value in dict(values).items() if not is_missing(value)}
    except (TypeError, ValueError):
        raise InputTypeError(
            f"values must be cells by column, as {{'age': 31.0, 'plan': 'gold'}}; got {values!r}."
        ) from None
    d, cells = mixture.n_columns, list(row.values())
    if not row:
        return mixture.weights, mixture.blocks, np.arange(d)
    given = column_numbers(list(row), d, mixture.feature_names)
    others = np.setdiff1d(np.arange(d), given)
    if not others.size:
        raise InputError(
            f"all {d} columns are known, so that none is left. Leave out those that are to be "
            "predicted."
        )
    weights = mixture.select(given.tolist()).predict_proba([cells])[0]
    if not np.isfinite(weights).all():
        raise InputError(
            "the values of the known columns are not finite, or so far from all components that "
            "none is probable. Check them and their units."
        )
    by_number = dict(zip(given.tolist(), cells, strict=True))
    blocks = [block.given(by_number) for block in mixture.blocks]
    return weights / weights.sum(), selected(blocks, others), others

"""Some columns of a table's mixture given others, of any family.

Blocks are independent given the component. A known column changes the weights of the components,
and within its own Gaussian block the means and covariances of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputTypeError
from momentmix.families.block import Block
from momentmix.mixture.conditional import (
    column_numbers,
    known_columns,
    other_columns,
    some_component_is_probable,
)
from momentmix.mixture.density import posteriors
from momentmix.mixture.tables.block_features import complete_schema, selected
from momentmix.tables.cells import is_missing

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


class Given(NamedTuple):
    """Weights and blocks of the columns `others`, given the others of them."""

    weights: Float
    blocks: tuple[Block, ...]
    others: Int


def blocks_given(mixture: Mixture, values: Mapping[int | str, Any]) -> Given:
    """The mixture of the other columns of a row with these values; missing ones are not known."""
    try:
        row = {column: value for column, value in dict(values).items() if not is_missing(value)}
    except (TypeError, ValueError):
        raise InputTypeError(
            f"values must be cells by column, as {{'age': 31.0, 'plan': 'gold'}}; got {values!r}."
        ) from None
    d, names = mixture.n_columns, mixture.feature_names
    if not row:
        return Given(mixture.weights, mixture.blocks, np.arange(d))
    known = column_numbers(list(row), d, names)
    others, cells = other_columns(known, d), list(row.values())
    shares = mixture.select(known.tolist()).responsibilities([cells])[0]
    some_component_is_probable(shares)
    by_number = dict(zip(known.tolist(), cells, strict=True))
    found = [block.given(by_number) for block in mixture.blocks]
    return Given(shares / shares.sum(), selected(found, others), others)


def expected_columns(mixture: Mixture, rows: Any, known: Sequence[int | str] | None) -> Float:
    """Means of the other columns given the known cells of each row, of shape (n, u)."""
    numbers = column_numbers(known_columns(rows, known), mixture.n_columns, mixture.feature_names)
    others, part = other_columns(numbers, mixture.n_columns), mixture.select(numbers.tolist())
    complete = complete_schema(part.columns)
    encoded = complete.encode_for_prediction(rows)
    shares = part.table_density().map_rows(rows, posteriors)
    some_component_is_probable(shares)
    cells = np.full((len(shares), mixture.n_columns), np.nan)  # numbers that are known
    for place, number in enumerate(numbers):
        cells[:, number] = encoded.features[:, complete.features_of(place)[0]]
        if encoded.left_out is not None:
            cells[encoded.left_out[:, place], number] = np.nan
    for block in mixture.blocks:
        own = list(block.columns)
        cells[:, own] = block.expected_values(cells[:, own], shares)
    return cells[:, others]

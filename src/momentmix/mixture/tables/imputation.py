"""Missing cells filled from a mixture, given what is seen in their row.

The components' shares of a row are those of its seen cells, and of which cells are missing where
the model has the probability of that. Cells of different blocks are independent given the
component; those of a joined block are regressed on its seen cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.errors import InputError
from momentmix.families.block import Block
from momentmix.mixture.density import posteriors
from momentmix.mixture.tables.rows import TableDensity
from momentmix.tables.encoding import Encoded, Unseen
from momentmix.tables.learning import encoded_blocks
from momentmix.tables.schema import Schema

_Fill = Callable[[Block, Float, NDArray[np.bool_], Int], Float]


class Imputed(NamedTuple):
    """Tables of features (n_rows, n_features), and which cells were filled (n_rows, n_columns)."""

    tables: list[Float]
    gaps: NDArray[np.bool_]


def imputed_features(
    density: TableDensity,
    blocks: tuple[Block, ...],
    complete: Schema,
    rows: Any,
    draws: tuple[int, np.random.Generator] | None,
    unseen: Unseen = "error",
) -> Imputed:
    """Features of complete rows: one table of means and most probable levels, or several draws.

    Parameters
    ----------
    density : TableDensity
    blocks : tuple of blocks
    complete : Schema
        Of the same columns without ``seen``, whose features are the values themselves.
    rows : table
    draws : (int, Generator), optional
        Number of tables to draw.
    unseen : {"error", "missing"}
        What levels get that no training row had: an error, or they are filled as well.
    """
    n_tables = 1 if draws is None else draws[0]
    tables: list[list[Float]] = [[] for _ in range(n_tables)]
    gaps: list[NDArray[np.bool_]] = []
    both = (
        encoded_blocks(schema, rows, "the mixture", unseen) for schema in (density.schema, complete)
    )
    for encoded, cells in zip(*both, strict=True):
        shares = density.map_encoded(encoded, posteriors)
        if np.isnan(shares).any():
            row = sum(map(len, gaps)) + int(np.argmax(np.isnan(shares).any(axis=1)))
            raise InputError(
                f"row {row} is so far from all components that none is probable. Check its cells "
                "and their units."
            )
        no_gaps = np.zeros((len(shares), complete.n_columns), dtype=bool)
        gaps.append(no_gaps if cells.left_out is None else cells.left_out)
        for table in tables:
            if draws is None:
                table.append(_filled(blocks, complete, cells, _expected(shares)))
            else:
                table.append(_filled(blocks, complete, cells, _drawn(shares, draws[1])))
    return Imputed([np.concatenate(table) for table in tables], np.concatenate(gaps))


def _filled(blocks: tuple[Block, ...], complete: Schema, cells: Encoded, fill: _Fill) -> Float:
    """Features where cells that are missing have been filled, block by block."""
    features = cells.features.copy()
    if cells.left_out is None:
        return features
    for block in blocks:
        gaps = cells.left_out[:, list(block.columns)]
        rows = np.flatnonzero(gaps.any(axis=1))
        numbers = [j for column in block.columns for j in complete.features_of(column)]
        own = np.array(numbers, dtype=np.int64)
        if rows.size:
            values = features[np.ix_(rows, own)]
            features[np.ix_(rows, own)] = fill(block, values, gaps[rows], rows)
    return features


def _expected(shares: Float) -> _Fill:
    return lambda block, values, gaps, rows: block.filled(values, gaps, shares[rows])


def _drawn(shares: Float, rng: np.random.Generator) -> _Fill:
    labels = _labels(shares, rng)
    return lambda block, values, gaps, rows: block.drawn_into(values, gaps, labels[rows], rng)


def _labels(shares: Float, rng: np.random.Generator) -> NDArray[np.int64]:
    """A component of each row, drawn with its shares."""
    ends = np.cumsum(shares, axis=1)
    places = (rng.random((len(shares), 1)) * ends[:, -1:] >= ends).sum(axis=1)
    return np.asarray(np.minimum(places, shares.shape[1] - 1))

"""Blocks of candidates for a component that a model lacks: old ones with other values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.tables.family_blocks import BernoulliBlock, PoissonBlock

SURE = 0.95  # probability of the level that a candidate mostly has


class Move(NamedTuple):
    """One column of a candidate with other values: a place of its mean, a level, a rate."""

    column: int
    value: float


def changed(block: Any, bases: Int, moves: list[tuple[int, Move]]) -> Any:
    """A block of candidates: rows of components, some with other values."""
    own = block.chosen(bases)
    rows = [number for number, _ in moves]
    values = np.array([move.value for _, move in moves])
    if not rows:
        return own
    if isinstance(own, GaussianBlock):
        means = own.means.copy()
        means[rows, [own.columns.index(move.column) for _, move in moves]] = values
        return replace(own, means=means)
    if isinstance(own, PoissonBlock):
        rates = own.rates.copy()
        rates[rows] = values
        return replace(own, rates=rates)
    table = own.probabilities.copy()
    if isinstance(own, BernoulliBlock):
        table[rows] = values
    else:
        others = len(own.levels) - 1
        table[rows] = (1.0 - SURE) / others if others else 0.0
        table[rows, values.astype(np.int64)] = SURE if others else 1.0
    return replace(own, probabilities=table)


def overall_block(block: Any, weights: Float, center: Float) -> Any:
    """A block of one component, with the means and levels of all rows."""
    own = block.known.chosen([0])
    if own.seen is not None:
        own = replace(own, seen=(weights @ block.seen)[None])
    if isinstance(own, GaussianBlock):
        return replace(own, means=center[list(own.columns)][None])
    values = weights @ getattr(block.known, block.parameter)
    return replace(
        own, **{block.parameter: np.atleast_1d(values)[None] if values.ndim else [values]}
    )


def with_component(block: Any, other: Any) -> Any:
    """A block with the components of another one behind its own."""
    names = ["means", "covariances"] if isinstance(block, GaussianBlock) else [block.parameter]
    if block.seen is not None:
        names.append("seen")
    return replace(
        block, **{k: np.concatenate([getattr(block, k), getattr(other, k)]) for k in names}
    )

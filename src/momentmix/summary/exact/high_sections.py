"""Sums of powers above 2 and of two squares: where each stands, and how it moves.

| symbol | name here | shape |
|---|---|---|
| P_{p,j} = Σ w z_j^p, p = 3 … 6 | section ``("power", p)`` | (d,) |
| C_{j,k} = Σ w z_j³ z_k | section ``("cubed", 1)`` | (d, d−1) |
| Q_{j,k} = Σ w z_j² z_k² | section ``("two squares", 2)`` | (C(d, 2),) |

*Reach.* A row that lies 1e41 units away is a valid row, but its sixth power leaves the range of the
sums. So each feature has a *reach*, the highest degree (2 … 6) of sums of high sections that it may
take part in: the least over all blocks of rows, so that it does not depend on the order of adding.
A sum of degree D is *present* where all its features have a reach of at least D; the others are 0.
A present sum depends on present ones alone, whatever moves: all its factors have lower degrees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Int
from momentmix.index_sets import index_sets, sets_without
from momentmix.summary.layout import (
    COMPLETE,
    NO_HIGH,
    POWER_DEGREES,
    POWERS,
    Layout,
    member_ranks,
)

LARGEST_REACH = POWER_DEGREES[-1]
_COMPLETE_DEGREE = 4


def powers_of(layout: Layout, sums: Sequence[Any], j: int, highest: int) -> list[Any]:
    """Σ w z_j^p, p = 0 … highest."""
    index = layout.index
    values = [sums[index["distinct", 0]][0], sums[index["distinct", 1]][j]]
    values.append(sums[index["squared", 0]][j, 0])
    return values + [sums[index["power", p]][j] for p in range(3, highest + 1)]


def others(layout: Layout, j: int) -> tuple[Int, Int, Int]:
    """The features i ≠ j, where j stands in row i of a (d, d−1) section, and the pairs {i, j}."""
    i = np.delete(np.arange(layout.n_features), j)
    return i, j - (j > i), member_ranks(layout.n_features, 2, j)[0]


def move_high(layout: Layout, sums: list[Any], j: int, delta: Any) -> None:
    """Move the origin of feature j by delta in the high sections; before all other sections."""
    index = layout.index
    if layout.high >= COMPLETE:
        i, place, pair = others(layout, j)
        squares, beside = (sums[index["squared", s]] for s in (0, 1))
        plain, pairs = (sums[index["distinct", t]] for t in (1, 2))
        cubed, two_squares = sums[index["cubed", 1]], sums[index["two squares", 2]]
        cubed[j] += delta * (delta * (3 * pairs[pair] - delta * plain[i]) - 3 * beside[j])
        cubed[i, place] -= delta * sums[index["power", 3]][i]
        two_squares[pair] += delta * (delta * squares[i, 0] - 2 * beside[i, place])
    if layout.high >= POWERS:
        old = powers_of(layout, sums, j, LARGEST_REACH)
        for p in POWER_DEGREES:
            value = old[p]
            for a in range(1, p + 1):
                value = value + comb(p, a) * (-delta) ** a * old[p - a]
            sums[index["power", p]][j] = value


def change_high(
    layout: Layout, sums: Sequence[Any], j: int, change: Callable[[Any, int], Any]
) -> None:
    """Replace each high sum by ``change(sums, degree of feature j in them)``."""
    for section, array in zip(layout.sections, sums, strict=True):
        if section.kind == "power":
            array[j : j + 1] = change(array[j : j + 1], section.size)
        if section.kind == "cubed":
            i, place, _ = others(layout, j)
            array[j] = change(array[j], 3)
            array[i, place] = change(array[i, place], 1)
        if section.kind == "two squares":
            _, _, pair = others(layout, j)
            array[pair] = change(array[pair], 2)


def absent(layout: Layout, reach: Sequence[int]) -> list[tuple[int, NDArray[np.bool_]]]:
    """Which sums are absent: the number of a high section and a mask of its shape."""
    if layout.high == NO_HIGH or min(reach) == LARGEST_REACH:
        return []
    degree, d = np.array(reach), layout.n_features
    masks = [(layout.index["power", p], degree < p) for p in POWER_DEGREES]
    if layout.high == COMPLETE:
        short = degree < _COMPLETE_DEGREE
        beside = short[_sets_of_one(d)]
        masks.append((layout.index["cubed", 1], short[:, None] | beside))
        either = np.asarray(short[index_sets(d, 2)].any(axis=1))
        masks.append((layout.index["two squares", 2], either))
    return masks


def _sets_of_one(n_features: int) -> Int:
    """The other features of each one, of shape (d, d−1)."""
    return np.stack([sets_without(n_features, 1, j)[:, 0] for j in range(n_features)])


def without_absent(layout: Layout, sums: Sequence[Any], reach: Sequence[int]) -> Sequence[Any]:
    """The sums with 0 in the place of those that are absent."""
    masks = absent(layout, reach)
    if masks:
        kept = list(sums)
        for number, mask in masks:
            kept[number] = np.where(mask, 0, kept[number])
        return kept
    return sums


def absent_places(layout: Layout, reach: Sequence[int]) -> Int:
    """Where the absent sums stand in the flat vector."""
    places = [
        layout.sections[number].start + np.flatnonzero(mask)
        for number, mask in absent(layout, reach)
    ]
    return np.concatenate(places) if places else np.empty(0, dtype=np.int64)

"""The plan of the work of compiled code: monomials, products of them, and where the moments stand.

| symbol | name here | shape |
|---|---|---|
| [y]_B of n rows, B ∈ 𝓑 (index sets; y_j² is {j, j}) | *table* | (n_monomials, n) |
| [y]_{A∪C} = [y]_A·[y]_C | ``Fill`` | |
| Σ w y_A·y_B = Σ w y_I, I = A ∪ B | an entry of a ``Product`` | |
| where each moment stands among all products | ``Plan.positions`` | (n_entries,) |

Write the points into a table, multiply rows of it to have the other monomials, multiply the table
by itself, and pick the moments from the products. ``half_split`` makes the plan; devices, which
prefer few large products, have ``tile_plan``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.summary.layout import Layout, products_of


class Fill(NamedTuple):
    """Rows of the table as products of rows, or of all with one; with all where it is `outer`."""

    left: slice
    right: slice
    out: slice
    outer: bool = False


class Product(NamedTuple):
    """Rows of the table times rows that carry the weights, transposed; entries from `start` on."""

    rows: slice
    columns: slice
    start: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Which monomials are formed and multiplied, and which results are the moments."""

    n_monomials: int  # rows of the table
    first_points: slice  # rows of the features; the constant 1 is between both runs
    last_points: slice
    fills: list[Fill]  # what makes the monomials that are stored
    steps: list[Fill | Product]  # products, and monomials that only the next ones need
    n_weighted: int  # rows at the head of the table among which columns of all products lie
    n_sums: int  # entries of all products together
    positions: Int  # of each moment of the flat vector of the layout among them


class Operand(NamedTuple):
    """Rows of a table, and the index sets of their monomials, degree by degree."""

    rows: slice
    sets: list[Int]


class ProductPlanner:
    """Collects products and finds the moments in them; the last product with a moment counts."""

    def __init__(self, layout: Layout) -> None:
        self._products = products_of(layout)
        self.steps: list[Fill | Product] = []
        self.n_sums = 0
        self.positions = np.full(layout.n_entries, -1, dtype=np.int64)

    def multiply(self, left: Operand, right: Operand) -> None:
        """Plan a product."""
        rows, columns = (
            np.concatenate([self._products.of_feature[sets].sum(axis=1) for sets in side.sets])
            for side in (left, right)
        )
        if not len(rows) * len(columns):
            return
        self.steps.append(Product(left.rows, right.rows, self.n_sums))
        rising = np.argsort(columns)  # rising names are found several times faster
        places = self._products.places(np.add.outer(rows, columns[rising]))
        i, j = np.nonzero(places >= 0)
        self.positions[places[i, j]] = self.n_sums + i * len(columns) + rising[j]
        self.n_sums += len(rows) * len(columns)

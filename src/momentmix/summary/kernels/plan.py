"""The plan of the work that sums rows: monomials, products of them, and where the moments stand.

| symbol | name here | shape |
|---|---|---|
| [y]_B of n rows, B ∈ 𝓑 (index sets; y_j² is {j, j}) | *table* | (n_monomials, n) |
| [y]_{A∪C} = [y]_A·[y]_C | ``Fill`` | |
| Σ w y_A·y_B = Σ w y_I, I = A ∪ B | an entry of a ``Product`` | |
| where each moment stands among all products | ``Plan.positions`` | (n_entries,) |

Every executor does the same work: write the points into a table, multiply rows of it to have the
other monomials, multiply the table by itself, and pick the moments from the products. What suits a
processor's cache does not suit a device, so the planners differ: ``half_split`` for the host,
``whole_tables`` for array libraries, ``tile_plan`` for Triton, which stores no table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from momentmix._typing import Int
from momentmix.summary.layout import Layout
from momentmix.summary.products import products_of

TableRows = slice | Int  # a range of rows of a table, or their numbers


def n_rows_of(rows: TableRows) -> int:
    """Number of rows."""
    return int(rows.stop - rows.start) if isinstance(rows, slice) else len(rows)


class Fill(NamedTuple):
    """Rows of the table as products of other rows.

    Attributes
    ----------
    left, right, out : slice
        Row by row; or all left rows times one right row.
    outer : bool
        Each left row times each right row, in place of row by row.
    pairs : (left rows, right rows), optional
        Which rows are multiplied, counted within `left` and `right`.
    """

    left: slice
    right: slice
    out: slice
    outer: bool = False
    pairs: tuple[Int, Int] | None = None


class Product(NamedTuple):
    """Rows of the table times other rows (those that carry the weights), transposed.

    `start` is the position of its first entry among the entries of all products.
    """

    rows: TableRows
    columns: TableRows
    start: int


@dataclass(frozen=True, eq=False)
class Plan:
    """Which monomials are formed and multiplied, and which results are the moments.

    Attributes
    ----------
    n_monomials : int
        Rows of the table.
    constant : int
        Row of the constant 1.
    first_points, last_points : slice
        Rows of the features, in two runs.
    fills : list of Fill
        What makes the monomials that are stored.
    steps : list of Fill or Product
        All products, and monomials that are needed by the next products only.
    n_weighted : int
        Rows at the head of the table among which the columns of all products lie.
    n_sums : int
        Entries of all products together.
    positions : array of shape (n_entries,)
        Position of each moment of the flat vector of the layout among them.
    """

    n_monomials: int
    constant: int
    first_points: slice
    last_points: slice
    fills: list[Fill]
    steps: list[Fill | Product]
    n_weighted: int
    n_sums: int
    positions: Int

    @property
    def n_first(self) -> int:
        """Number of features in the first run."""
        return n_rows_of(self.first_points)


class Operand(NamedTuple):
    """Rows of a table, and the index sets of their monomials, degree by degree.

    There may be more rows than index sets: the rest is padding.
    """

    rows: TableRows
    sets: list[Int]


def operand(table_sets: Sequence[Int], rows: slice) -> Operand:
    """Some rows of a table whose index sets are given degree by degree."""
    sets, first = [], 0
    for members in table_sets:
        start, stop = max(rows.start, first), min(rows.stop, first + len(members))
        if start < stop:
            sets.append(members[start - first : stop - first])
        first += len(members)
    return Operand(rows, sets)


class ProductPlanner:
    """Collects products and finds the moments in them.

    A moment may stand in several products; the last one that is planned counts.
    """

    def __init__(self, layout: Layout) -> None:
        self._products = products_of(layout)
        self.steps: list[Fill | Product] = []
        self.n_sums = 0
        self.positions = np.full(layout.n_entries, -1, dtype=np.int64)

    def multiply(
        self,
        left: Operand,
        right: Operand,
        *,
        tile: int | None = None,
    ) -> None:
        """Plan a product.

        Parameters
        ----------
        left, right : Operand
        tile : int, optional
            Cut it into products of at most so many entries.
        """
        n_rows, n_columns = n_rows_of(left.rows), n_rows_of(right.rows)
        if not n_rows * n_columns:
            return
        entries = np.empty((n_rows, n_columns), dtype=np.int64)
        height, width = (n_rows, n_columns) if tile is None else _cut(n_rows, n_columns, tile)
        for r in range(0, n_rows, height):
            for c in range(0, n_columns, width):
                part = entries[r : r + height, c : c + width]
                part[:] = self.n_sums + np.arange(part.size).reshape(part.shape)
                rows, columns = _part(left.rows, r, height), _part(right.rows, c, width)
                self.steps.append(Product(rows, columns, self.n_sums))
                self.n_sums += part.size
        rows_names, columns_names = (
            np.concatenate([self._products.of_feature[sets].sum(axis=1) for sets in side.sets])
            for side in (left, right)
        )
        rising = np.argsort(columns_names)  # rising names are found several times faster
        places = self._products.places(np.add.outer(rows_names, columns_names[rising]))
        kept = places >= 0
        self.positions[places[kept]] = entries[: len(rows_names), rising][kept]

    def check_complete(self) -> None:
        """Every moment stands in a product."""
        assert (self.positions >= 0).all()


def _part(rows: TableRows, start: int, length: int) -> TableRows:
    """At most `length` of some rows, from the one numbered `start` among them."""
    if isinstance(rows, slice):
        return slice(rows.start + start, min(rows.start + start + length, rows.stop))
    return rows[start : start + length]


def _cut(n_rows: int, n_columns: int, tile: int) -> tuple[int, int]:
    """Rows and columns of the tiles of a product: as few tiles as will do."""
    best = (n_rows * n_columns + 1, 0, 0)
    for splits in range(1, n_columns + 1):
        columns = -(-n_columns // splits)
        rows = min(n_rows, tile // columns) if columns <= tile else 0
        if rows:
            best = min(best, (splits * -(-n_rows // rows), rows, columns))
        if splits * n_rows > 2 * best[0] * n_columns:
            break
    _, rows, columns = best
    return -(-n_rows // -(-n_rows // rows)), columns

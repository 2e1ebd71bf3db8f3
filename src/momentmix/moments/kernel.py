"""What all ways to sum a block have in common: frame, chunks, reused memory, the flat vector.

Rows go through in chunks whose tables of monomials fit a bound; the sums of a block are always
formed in the same order, by one thread, so that they are a function of the block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from momentmix.core.labels import Int
from momentmix.moments.layout import Layout

__all__ = ["Float", "Kernel", "Workspace"]

Float = NDArray[np.float64]

_TABLE_BYTES = 1 << 26  # of one thread; longer chunks cost fewer calls, larger tables more cache


class Kernel(ABC):
    """The plan of the products for one layout.

    Attributes
    ----------
    chunk : int
        Rows handled together.
    tables : dict
        Name and number of rows of each table that a workspace holds, a column for each row of data.
    shapes : list of tuples
        Shape of each product.
    picks : list of (source, target)
        Which entries of each product count (flat positions; None for all), and where they belong in
        the flat vector of the layout.
    """

    layout: Layout
    chunk: int
    tables: dict[str, int]
    shapes: list[tuple[int, ...]]
    picks: list[tuple[Int | None, Int]]

    @abstractmethod
    def products(self, points: Float, weights: Float, out: list[Float], space: Workspace) -> None:
        """Write all products of one chunk, points of shape (n_features, n), to `out`."""

    def _plan_chunks(self) -> None:
        largest = _TABLE_BYTES // (8 * sum(self.tables.values()))
        self.chunk = int(min(1024, max(16, largest)))

    def block_sums(
        self, rows: Float, weights: Float, inverse_scale: Float, shift: Float, space: Workspace
    ) -> Float:
        """Σ over the rows of w·z_I and w·z_j²·z_I with z = rows·inverse_scale − shift.

        Parameters
        ----------
        rows : array of shape (n_rows, n_features)
        weights : array of shape (n_rows,)
        inverse_scale, shift : arrays of shape (n_features,)
            The frame: powers of two and integers.
        space : Workspace
            Overwritten.

        Returns
        -------
        array of shape (n_entries + 1,), a view into `space`
            The flat vector of the layout; its last entry is Σ w².
        """
        for start in range(0, len(rows), self.chunk):
            stop = min(start + self.chunk, len(rows))
            points = space.table("points", stop - start)
            np.multiply(rows[start:stop].T, inverse_scale[:, None], out=points)
            points -= shift[:, None]
            self.products(points, weights[start:stop], space.part if start else space.sums, space)
            if start:
                for total, part in zip(space.sums, space.part, strict=True):
                    total += part
        for (source, target), total in zip(self.picks, space.sums, strict=True):
            space.flat[target] = total if source is None else total.ravel()[source]
        space.flat[-1] = weights @ weights
        return space.flat


class Workspace:
    """The memory that one thread reuses from block to block."""

    def __init__(self, kernel: Kernel) -> None:
        self._tables = {
            name: (rows, np.empty(rows * kernel.chunk)) for name, rows in kernel.tables.items()
        }
        self.sums = [np.empty(shape) for shape in kernel.shapes]
        self.part = [np.empty(shape) for shape in kernel.shapes]
        self.flat = np.empty(kernel.layout.n_entries + 1)

    def table(self, name: str, n: int) -> Float:
        """A table with n columns, contiguous, of shape (number of its rows, n)."""
        rows, memory = self._tables[name]
        return memory[: rows * n].reshape(rows, n)

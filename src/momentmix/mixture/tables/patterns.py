"""Rows of a table by which of their cells are missing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Int


def rows_by_pattern(
    left_out: NDArray[np.bool_], chosen: NDArray[np.bool_]
) -> Iterator[tuple[NDArray[np.bool_], Int]]:
    """Patterns of missing cells (n_columns,), and which of the chosen rows have each."""
    rows = np.flatnonzero(chosen)
    if not left_out.shape[1] or not rows.size:
        if rows.size:
            yield np.zeros(0, dtype=bool), rows
        return
    patterns, group = np.unique(left_out[rows], axis=0, return_inverse=True)
    group = group.ravel()
    ends = np.cumsum(np.bincount(group))[:-1]
    members = np.split(rows[np.argsort(group, kind="stable")], ends)
    yield from zip(patterns, members, strict=True)

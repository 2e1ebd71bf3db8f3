"""Take rows out of exact sums although nobody knows which shard they came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError
from momentmix.moments.exact_sums import Sums
from momentmix.moments.rows import column_label
from momentmix.moments.totals import Totals, recentred, remove

__all__ = ["check_inside", "forget"]


def check_inside(rows: NDArray[Any], totals: Totals, feature_names: Sequence[str] | None) -> None:
    """Refuse rows outside the bounds of the summary: they cannot be in it."""
    outside = (rows < totals.minimum) | (rows > totals.maximum)
    if not outside.any():
        return
    row, column = (int(x) for x in np.argwhere(outside)[0])
    raise InputError(
        f"rows to forget must lie within the minimum and maximum of the summary; row {row}, "
        f"{column_label(column, feature_names)}, is {rows[row, column]:.6g}, outside "
        f"[{totals.minimum[column]:.6g}, {totals.maximum[column]:.6g}]. It was never added."
    )


def forget(totals: Totals, rows: Totals) -> Totals:
    """Subtract the sums of some rows, spread over the groups in proportion to their weights.

    The sums of the rows were rounded in blocks other than those they came in, so that the result
    agrees with never having seen the rows to float64 accuracy, not bit by bit.
    """
    n_left = sum(totals.n_rows) - sum(rows.n_rows)
    if n_left < 1 or totals.weight <= rows.weight:
        raise InputError(
            f"the summary holds {sum(totals.n_rows)} rows of total weight "
            f"{totals.weight / 2**96:.6g}; {sum(rows.n_rows)} rows of weight "
            f"{rows.weight / 2**96:.6g} cannot be forgotten and leave something. Make a new "
            "summary instead."
        )
    weights = [int(w) for w in totals.sums[totals.layout.index["distinct", 0]][:, 0]]
    spread = replace(
        rows,
        sums=_spread(rows.sums, weights),
        n_rows=_spread_counts(sum(rows.n_rows), totals.n_rows),
        shards=frozenset(),
        n_forgotten=-sum(rows.n_rows),
    )
    result = remove(totals, spread)
    _check_plausible(result, spread)
    return recentred(result)


def _spread(sums: Sums, weights: list[int]) -> Sums:
    """Split the total of each grouped section by the weights; no quantum is lost."""
    shares = np.array(weights, dtype=object)
    result = []
    for array in sums:
        if array.shape[0] != len(weights):
            result.append(array)
            continue
        total = array.sum(axis=0)
        parts = shares.reshape(-1, *(1,) * total.ndim) * total // sum(weights)
        parts[int(np.argmax(shares))] += total - parts.sum(axis=0)
        result.append(parts)
    return result


def _spread_counts(n_rows: int, groups: tuple[int, ...]) -> tuple[int, ...]:
    """Split a number of rows over groups in proportion, never more than a group has."""
    parts = [n_rows * n // sum(groups) for n in groups]
    for group, n in enumerate(groups):
        extra = min(n_rows - sum(parts), n - parts[group])
        parts[group] += extra
    return tuple(parts)


def _check_plausible(result: Totals, rows: Totals) -> None:
    """A sum of squares about the mean that turns negative shows that the rows were never added."""
    weight = result.weight
    for j, (s, t) in enumerate(zip(result.first, result.second, strict=True)):
        slack = (weight + rows.weight + abs(t)) >> 30
        if t * weight - s * s < -slack * weight:
            raise InputError(
                f"forgetting these rows would leave column {j} with a negative variance, so they "
                "cannot all have been added. Check the rows and the number of times each is given."
            )

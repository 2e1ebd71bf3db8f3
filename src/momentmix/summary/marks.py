"""What tells two versions of a shard apart although they have one id.

A shard that still takes rows can be read at any time, and what was read carries its id. So a
summary taken early and one taken late hold different rows under one id: they are never added, since
the ids agree, and the early one must not be subtracted from the late one as if it were the whole
shard. A mark is the row count, the weight and the means of a shard when it entered a sum.

Marks are not saved: a file of several shards has none, a file of one shard has them in its sums.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from momentmix.summary.totals import Totals

__all__ = ["Mark", "differing", "marks_of"]

_ROUNDING = 2.0**-40  # by layout, processor or device the sums of a shard differ in their last bits


class Mark(NamedTuple):
    """Row count, weight and means of a shard."""

    n_rows: int
    weight: float
    mean: NDArray[np.float64]


def marks_of(totals: Totals) -> Mapping[bytes, Mark]:
    """The marks that are known, by shard id."""
    if totals.marks or len(totals.shards) != 1 or totals.n_forgotten:
        return totals.marks
    (shard,) = totals.shards
    return {shard: Mark(sum(totals.n_rows), float(totals.weight), totals.mean)}


def differing(whole: Totals, part: Totals) -> dict[bytes, tuple[Mark, Mark]]:
    """Marks of the shards that the two hold in different versions, as far as is known."""
    left, right = marks_of(whole), marks_of(part)
    pairs = {shard: (left[shard], right[shard]) for shard in left.keys() & right.keys()}
    span = whole.maximum - whole.minimum
    return {shard: pair for shard, pair in pairs.items() if not _alike(*pair, span)}


def _alike(a: Mark, b: Mark, span: NDArray[np.float64]) -> bool:
    weights = abs(a.weight - b.weight) <= _ROUNDING * a.weight
    allowed = _ROUNDING * span + 2.0**-50 * np.abs(a.mean)
    return a.n_rows == b.n_rows and weights and bool((np.abs(a.mean - b.mean) <= allowed).all())

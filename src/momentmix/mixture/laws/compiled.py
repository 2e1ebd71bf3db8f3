"""Laws as compiled code takes them: `native/laws.h` has the same maps as the classes here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.mixture.laws.finite import Finite
from momentmix.mixture.laws.gaussian_value import GaussianValue
from momentmix.mixture.laws.law import Law
from momentmix.mixture.laws.poisson import Poisson
from momentmix.mixture.laws.seen import Seen

_FINITE, _POISSON, _SEEN_NUMBER, _SEEN_COUNT = range(4)  # kinds, in the order of laws.h


def layout_of(laws: Sequence[Law]) -> tuple[Int, Float]:
    """Kind, width and features of each law in one array, and their numbers in another."""
    kinds: list[int] = []
    numbers: list[Any] = [[]]
    for law in laws:
        kind, own = _described(law)
        kinds += [kind, len(law.features), *law.features]
        numbers += [np.ravel(part) for part in own]
    return np.array(kinds, dtype=np.int64), np.concatenate(numbers)


def _described(law: Law) -> tuple[int, tuple[Any, ...]]:
    """Kind of a law, and its numbers."""
    if isinstance(law, Finite):
        return _FINITE, (law.points, law.inverse, law.overall)
    if isinstance(law, Poisson):
        return _POISSON, (law.shift, law.scale)
    if isinstance(law, Seen):
        common = (*law.missing, law.seen, *law.overall)
        if isinstance(law.value, GaussianValue):
            return _SEEN_NUMBER, (*common, law.value.unit, law.value.least)
        if isinstance(law.value, Poisson):
            return _SEEN_COUNT, (*common, law.value.shift, law.value.scale)
    raise TypeError(f"compiled code does not know {law!r}")

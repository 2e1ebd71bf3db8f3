"""Products of features that the laws of these make linear combinations of others.

Of a yes/no answer y² = y, of two levels of a category the product is 0, and of a value u that is 0
where it is not seen, u·seen = u. Conditions on such products would be counted twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Int
from momentmix.families.law import Law

_HIGHEST = 6  # power of a feature in a condition


def laws_without(laws: tuple[Law, ...], constant: NDArray[np.bool_]) -> tuple[Law, ...]:
    """Laws of the features that are not constant, which are numbered anew."""
    number = np.cumsum(~constant) - 1
    found = []
    for law in laws:
        left: Law | None = law
        for place in reversed(range(len(law.features))):
            if left is not None and left.features and constant[law.features[place]]:
                left = left.without(place, 0.0)  # constant features are standardized to 0
        if left is not None and left.features:
            found.append(left.at(tuple(int(number[j]) for j in left.features)))
    return tuple(found)


def indicators(n_features: int, laws: tuple[Law, ...], invert: bool = False) -> NDArray[np.bool_]:
    """Which features have two values only, whatever they stand for, of shape (d,)."""
    found = np.zeros(n_features, dtype=bool)
    for law in laws:
        squares = 2 * np.eye(len(law.features), dtype=np.int64)
        found[list(law.features)] = ~law.is_new(squares)
    return ~found if invert else found


class NewProducts:
    """Which products of features are no linear combinations of others.

    No product of two features of one law is new, nor are powers that `Law.is_new` denies.
    """

    def __init__(self, n_features: int, laws: tuple[Law, ...]) -> None:
        self._laws = laws
        self._owner = -1 - np.arange(n_features)  # a number of its own without a law
        self._is_new = np.ones((_HIGHEST + 1, n_features), dtype=bool)  # of each feature's powers
        for number, law in enumerate(laws):
            self._owner[list(law.features)] = number
            for place, j in enumerate(law.features):
                exponents = np.zeros((_HIGHEST + 1, len(law.features)), dtype=np.int64)
                exponents[:, place] = np.arange(_HIGHEST + 1)
                self._is_new[:, j] = law.is_new(exponents)

    def mask(self, sets: Int, exponents: tuple[int, int]) -> NDArray[np.bool_]:
        """Which of the products of features (n, t) are new; `exponents` of the first two."""
        if not self._laws:
            return np.ones(len(sets), dtype=bool)
        found = np.diff(np.sort(self._owner[sets], axis=1), axis=1).all(axis=1)
        for column, exponent in zip(sets.T, exponents, strict=False):
            found &= self._is_new[exponent, column]
        return np.asarray(found)

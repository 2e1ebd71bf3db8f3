"""Products of features that the laws of these make linear combinations of others.

Of a yes/no answer y² = y, of two levels of a category the product is 0, and of a value u that is 0
where it is not seen, u·seen = u. Conditions on such products would be counted twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.index_sets import index_sets, sets_without
from momentmix.mixture.laws.law import Law

if TYPE_CHECKING:
    from momentmix.fitting.conditions.standard_moments import StandardMoments


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


def new_means(moments: StandardMoments, laws: tuple[Law, ...]) -> dict[str, Any]:
    """Means of products, NaN where a law makes them linear combinations of others.

    No product of two features of one law is new, nor are powers that `Law.is_new` denies.
    """
    d = moments.n_features
    owner = -1 - np.arange(d)  # a number of its own for each feature without a law
    is_new = np.ones((7, d), dtype=bool)  # of the powers of each feature
    for number, law in enumerate(laws):
        owner[list(law.features)] = number
        for place, j in enumerate(law.features):
            exponents = np.zeros((7, len(law.features)), dtype=np.int64)
            exponents[:, place] = np.arange(7)
            is_new[:, j] = law.is_new(exponents)

    def kept(values: Float, sets: Int, power: Any = True) -> Float:
        apart = np.diff(np.sort(owner[sets], axis=-1), axis=-1).all(axis=-1)
        return np.where(apart & power, values, np.nan)

    def with_square(j: int, q: int) -> Int:
        others = sets_without(d, q, j)
        return np.hstack([np.full((len(others), 1), j), others])

    found: dict[str, Any] = {
        "orders": tuple(
            kept(values, index_sets(d, s)) if s > 1 else values
            for s, values in enumerate(moments.orders)
        ),
        "squared": tuple(
            np.array([kept(values[j], with_square(j, q), is_new[2, j]) for j in range(d)]).reshape(
                values.shape
            )
            for q, values in enumerate(moments.squared)
        ),
    }
    if moments.powers is not None:
        found["powers"] = np.where(is_new[3:], moments.powers, np.nan)
    if moments.cubed is not None:
        cubed = [kept(moments.cubed[j], with_square(j, 1), is_new[3, j]) for j in range(d)]
        found["cubed"] = np.array(cubed).reshape(moments.cubed.shape)
    if moments.two_squares is not None:
        pairs = index_sets(d, 2)
        found["two_squares"] = kept(moments.two_squares, pairs, is_new[2, pairs].all(axis=1))
    return found

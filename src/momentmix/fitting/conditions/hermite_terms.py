"""Which products of Hermite polynomials each monomial holds; depends on the exponents alone."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from momentmix._typing import Int


class HermiteTerms(NamedTuple):
    """All terms of all monomials, those of one product of Hermite polynomials together.

    Attributes
    ----------
    rows : array of shape (n_terms,)
        The monomial of each term, increasing within a product.
    features, exponents, degrees : arrays of shape (n_terms, width)
        The monomial's features and exponents, and the degrees of the Hermite polynomials.
    starts, sizes : arrays of shape (n_products,)
        Where the terms of each product begin, and how many they are.
    """

    rows: Int
    features: Int
    exponents: Int
    degrees: Int
    starts: Int
    sizes: Int


def find_hermite_terms(features: Int, exponents: Int, filler: int) -> HermiteTerms:
    """The terms of monomials with these features (n, width), padded with `filler`."""
    places, degrees = _expansion(features, exponents, filler)
    row, term = np.nonzero(places >= 0)
    order = np.argsort(places[row, term], kind="stable")
    row, term = row[order], term[order]
    _, starts, sizes = np.unique(places[row, term], return_index=True, return_counts=True)
    return HermiteTerms(row, features[row], exponents[row], degrees[term], starts, sizes)


def _expansion(features: Int, exponents: Int, filler: int) -> tuple[Int, Int]:
    """Basis index of every Hermite product of each monomial; −1 where its degree is too high.

    Returns
    -------
    places : array of shape (n, n_terms)
    degrees : array of shape (n_terms, width)
    """
    width = features.shape[1]
    highest = exponents.max(axis=0)
    degrees = np.array(list(product(*[range(h + 1) for h in highest])))
    places = np.full((features.shape[0], degrees.shape[0]), -1)
    count = int(highest.max(initial=0)) + 1
    base = count * (filler + 1)
    keys = np.zeros(places.shape, dtype=np.int64)
    fits = np.all(degrees[None] <= exponents[:, None, :], axis=2)
    for term, degree in enumerate(degrees):
        rows = np.flatnonzero(fits[:, term])
        codes = np.sort(np.where(degree > 0, features[rows] * count + degree, 0), axis=1)
        key = codes[:, 0]
        for t in range(1, width):
            key = key * base + codes[:, t]
        keys[rows, term] = key
    _, index = np.unique(keys[fits], return_inverse=True)
    places[fits] = index
    return places, degrees

"""Multilinear monomials of many points at once, and their derivatives.

| paper symbol | name here | shape |
|---|---|---|
| [v]_B, B the products of a distinct coordinates | ``monomials(points, m)[a]`` | (C(h, a), B) |

In colex order the monomials whose last index is i are x_i times a prefix of the monomials one
degree lower, so every degree is filled by contiguous slice products, without gathers.

Differs from the paper: nothing.
"""

from __future__ import annotations

from math import comb

import numpy as np

from momentmix._typing import Array


def monomials(points: Array, degree: int) -> list[Array]:
    """All products of distinct coordinates, degree by degree.

    Parameters
    ----------
    points : array of shape (n_coordinates, n_points)
    degree : int
        Highest degree.

    Returns
    -------
    list of arrays of shape (C(n_coordinates, a), n_points), a = 0 … degree
        Colex order within each degree.

    Examples
    --------
    >>> import numpy as np
    >>> [block.ravel().tolist() for block in monomials(np.array([[2.0], [3.0], [5.0]]), 2)]
    [[1.0], [2.0, 3.0, 5.0], [6.0, 10.0, 15.0]]
    """
    n_coordinates, n_points = points.shape
    blocks = [np.ones((1, n_points), dtype=points.dtype)]
    for a in range(1, degree + 1):
        block = np.empty((comb(n_coordinates, a), n_points), dtype=points.dtype)
        for i in range(a - 1, n_coordinates):
            start, stop = comb(i, a), comb(i + 1, a)
            np.multiply(blocks[-1][: stop - start], points[i], out=block[start:stop])
        blocks.append(block)
    return blocks


def monomials_pullback(points: Array, blocks: list[Array], by_top: Array) -> Array:
    """Chain rule in reverse through the top degree of `monomials`.

    Parameters
    ----------
    points : array of shape (n_coordinates, n_points)
    blocks : result of ``monomials(points, degree)``
    by_top : array shaped like ``blocks[degree]``
        Derivative of a scalar by each monomial of the top degree.

    Returns
    -------
    array of shape (n_coordinates, n_points)
        Derivative of the scalar by the points.
    """
    result = np.zeros(points.shape, dtype=by_top.dtype)
    for a in range(len(blocks) - 1, 0, -1):
        by_next = np.zeros(blocks[a - 1].shape, dtype=by_top.dtype)
        for i in range(a - 1, points.shape[0]):
            start, stop = comb(i, a), comb(i + 1, a)
            outer = by_top[start:stop]
            result[i] += np.einsum("kb,kb->b", outer, blocks[a - 1][: stop - start])
            by_next[: stop - start] += outer * points[i]
        by_top = by_next
    return result


def monomials_tangent(points: Array, tangents: Array, blocks: list[Array]) -> Array:
    """Chain rule forward: derivative of the top degree of `monomials` along `tangents`."""
    change = np.zeros(blocks[0].shape, np.result_type(points, tangents))
    for a in range(1, len(blocks)):
        block = np.empty(blocks[a].shape, change.dtype)
        for i in range(a - 1, points.shape[0]):
            start, stop = comb(i, a), comb(i + 1, a)
            size = stop - start
            block[start:stop] = change[:size] * points[i] + blocks[a - 1][:size] * tangents[i]
        change = block
    return change

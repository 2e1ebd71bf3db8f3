"""Candidate means from random partitions of the features.

| paper symbol | name here | shape |
|---|---|---|
| A, B, C | ``PartitionShape.left``, ``PartitionShape.right`` features, the rest | |
| φ_A(y): products of ≤ p features of A, 1 included | rows of ``cross`` | F(a, p) |
| M = E[φ_A φ_Bᵀ] = Φ_A diag(ω) Φ_Bᵀ | ``cross`` | (F(a, p), F(b, q)) |
| E[z_c φ_A φ_Bᵀ] = Φ_A diag(ω μ_c) Φ_Bᵀ | ``slices[c]`` | (F(a, p), F(b, q)) |
| N_c = Uᵀ E[z_c φ_A φ_Bᵀ] V S⁻¹ | ``operators[c]`` | (r, r) |

The N_c share their eigenvectors P; their eigenvalues are the means' coordinates c. U P and V S P⁻ᵀ,
divided by their constant row, are Φ_A and Φ_B, whose rows of degree one are the other coordinates.

Differs from the paper: the truncated SVD of M stands in for "the first r monomials" of
Algorithm 3.4, the constant coordinate joins all orders ≤ m (and makes the leading entry 1), and
many partitions are drawn, where the paper takes one order of the coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.capacity import count_monomials
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.index_sets import colex_rank, index_sets


class PartitionShape(NamedTuple):
    """Sizes and degrees of one partition, and the number of components it can tell apart."""

    left: int
    right: int
    left_degree: int
    right_degree: int
    rank: int


def partition_shapes(n_features: int, order: int, n_components: int) -> list[PartitionShape]:
    """Partitions that can tell `n_components` apart, those of the largest rank first.

    A partition that leaves more features to C separates the eigenvalues better, so of equal rank
    the one with the largest C comes first.
    """
    best_shapes: dict[tuple[int, int], PartitionShape] = {}
    for p in range(1, order - 1):
        q = order - 1 - p
        for a in range(1, n_features - 1):
            for b in range(1, n_features - a):
                rank = min(count_monomials(a, p), count_monomials(b, q))
                rest = n_features - a - b
                best = best_shapes.get((p, rest))
                if rank >= n_components and (best is None or rank > best.rank):
                    best_shapes[p, rest] = PartitionShape(a, b, p, q, rank)
    return sorted(best_shapes.values(), key=lambda x: (-x.rank, x.left + x.right))


def draw_candidates(
    moments: StandardMoments, n_components: int, n_draws: int, rng: np.random.Generator
) -> Float:
    """Means of components proposed by `n_draws` random partitions, of shape (n, n_features).

    Candidates outside the range of the data are moved to its edge; those that are not finite are
    left out.
    """
    shapes = partition_shapes(moments.n_features, moments.order, n_components)
    if not shapes:
        return np.zeros((0, moments.n_features))
    # Rank to spare makes the singular values robust; several shapes make the draws different.
    top = shapes[0].rank
    least_rank = min(top, max(1.5 * n_components, 0.6 * top))
    shapes = [shape for shape in shapes if shape.rank >= least_rank]
    proposals = []
    for _ in range(n_draws):
        shape = shapes[int(rng.integers(len(shapes)))]
        features = rng.permutation(moments.n_features)
        proposals.append(_one_partition(moments, features, shape, n_components, rng))
    candidates = np.concatenate(proposals)
    candidates = candidates[np.isfinite(candidates).all(axis=1)]
    return np.clip(candidates, *moments.standard_range)


def _one_partition(
    moments: StandardMoments,
    features: Int,
    shape: PartitionShape,
    n_components: int,
    rng: np.random.Generator,
) -> Float:
    left, right, rest = _split(features, shape)
    left_sets, right_sets = _sets(left, shape.left_degree), _sets(right, shape.right_degree)
    cross = _gather(moments, left_sets, right_sets, None)
    u, s, vt = np.linalg.svd(cross, full_matrices=False)
    r = n_components
    u, s, v = u[:, :r], np.maximum(s[:r], 1e-12 * s[0]), vt[:r].T
    operators = u.T @ _gather(moments, left_sets, right_sets, rest) @ v / s
    mix = np.tensordot(rng.normal(size=rest.size), operators, axes=1)
    try:
        _, vectors = np.linalg.eig(mix)  # of a complex pair, both real parts are candidates
        inverse = np.linalg.inv(vectors)
    except np.linalg.LinAlgError:
        return np.zeros((0, moments.n_features))
    means = np.zeros((r, moments.n_features), dtype=complex)
    means[:, rest] = np.einsum("ij,cjk,ki->ic", inverse, operators, vectors)
    with np.errstate(all="ignore"):
        left_side, right_side = u @ vectors, v @ (s[:, None] * inverse.T)
        means[:, left] = (left_side[1 : 1 + left.size] / left_side[0]).T
        means[:, right] = (right_side[1 : 1 + right.size] / right_side[0]).T
    return np.asarray(means.real)


def cross_moments(moments: StandardMoments, features: Int, shape: PartitionShape) -> Float:
    """E[φ_A φ_Bᵀ] of one partition, of shape (F(a, p), F(b, q))."""
    left, right, _ = _split(features, shape)
    return _gather(moments, _sets(left, shape.left_degree), _sets(right, shape.right_degree), None)


def least_components(moments: StandardMoments, rng: np.random.Generator) -> int:
    """Number of components that the moments need at least: singular values far above noise.

    Where all rows are of r components, E[z_A z_Bᵀ] of features A and others B has rank r − 1 at
    most, and E[φ_A φ_Bᵀ] has rank r.
    """
    return max(_rank_of_products(moments, rng), 1 + _rank_of_covariance(moments, rng))


def _rank_of_products(moments: StandardMoments, rng: np.random.Generator) -> int:
    shapes = partition_shapes(moments.n_features, moments.order, 1)
    if not shapes:
        return 1
    counts = []
    for _ in range(8):  # the median of eight random partitions does not hang on one of them
        cross = cross_moments(moments, rng.permutation(moments.n_features), shapes[0])
        values = np.linalg.svd(cross, compute_uv=False)
        # Entries have a noise of about 2/√N each, products of heavy columns a little more. The
        # largest singular value of such noise is about 2/√N·(√rows + √columns); three times
        # that is not reached by chance.
        noise = 2.0 * (np.sqrt(cross.shape[0]) + np.sqrt(cross.shape[1]))
        counts.append(int((values > 3.0 * noise / np.sqrt(moments.n_effective)).sum()))
    return max(1, int(np.median(counts)))


def _rank_of_covariance(moments: StandardMoments, rng: np.random.Generator) -> int:
    """Largest rank of E[z_A z_Bᵀ] that twenty random halves show.

    The noise of an entry is known from E z_j² z_k². The largest singular value of noise alone is
    about √a + √b times that of an entry; twice that is not reached by chance in twenty draws.
    """
    d = moments.n_features
    if d < 2 or moments.order < 2 or moments.two_squares is None:
        return 0
    i, k = index_sets(d, 2).T
    pairs, squares = np.zeros((d, d)), np.zeros((d, d))
    pairs[i, k] = pairs[k, i] = moments.orders[2]
    squares[i, k] = squares[k, i] = moments.two_squares
    best = 0
    for _ in range(20):
        left, right = np.split(rng.permutation(d), [d // 2])
        part = np.ix_(left, right)
        largest = float(np.sqrt(np.max(squares[part] - pairs[part] ** 2)))  # NaN: not known
        noise = 2.0 * largest * (np.sqrt(left.size) + np.sqrt(right.size))
        values = np.linalg.svd(pairs[part], compute_uv=False)
        best = max(best, int((values > noise / np.sqrt(moments.n_effective)).sum()))
    return best


def _split(features: Int, shape: PartitionShape) -> tuple[Int, Int, Int]:
    left, right, rest = np.split(features, [shape.left, shape.left + shape.right])
    return np.sort(left), np.sort(right), np.sort(rest)


def _sets(features: Int, degree: int) -> list[Int]:
    """Index sets of at most `degree` of the features, by size."""
    return [features[index_sets(features.size, s)] for s in range(min(degree, features.size) + 1)]


def _gather(
    moments: StandardMoments, left: list[Int], right: list[Int], extra: Int | None
) -> Float:
    """E[φ_A φ_Bᵀ] from the moments, or E[z_c φ_A φ_Bᵀ] of each c of `extra`, (…, F_A, F_B)."""
    width = 0 if extra is None else 1
    head = () if extra is None else (extra.size,)
    table = np.empty((*head, sum(map(len, left)), sum(map(len, right))))
    start = 0
    for rows in left:
        stop, first = start + len(rows), 0
        for columns in right:
            last, p, q = first + len(columns), rows.shape[1], columns.shape[1]
            union = np.empty((*head, len(rows), len(columns), p + q + width), dtype=rows.dtype)
            union[..., :p] = rows[:, None]
            union[..., p : p + q] = columns
            if extra is not None:
                union[..., -1] = extra[:, None, None]
            union.sort(axis=-1)
            table[..., start:stop, first:last] = moments.orders[p + q + width][colex_rank(union)]
            first = last
        start = stop
    return table

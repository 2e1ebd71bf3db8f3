"""Candidate means from random partitions of the blocks of features.

| paper symbol | name here | shape |
|---|---|---|
| A, B, C | ``PartitionShape.left``, ``PartitionShape.right`` blocks, the rest | |
| φ_A(y): products of ≤ p features of different blocks of A, and 1 | rows of ``cross`` | F_A(p) |
| M = E[φ_A φ_Bᵀ] = Φ_A diag(ω) Φ_Bᵀ | ``cross`` | (F_A(p), F_B(q)) |
| E[z_c φ_A φ_Bᵀ] = Φ_A diag(ω μ_c) Φ_Bᵀ | ``slices[c]`` | (F_A(p), F_B(q)) |
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
from momentmix.capacity import block_partitions, block_sizes, count_block_monomials
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.index_sets import colex_rank, index_sets
from momentmix.mixture.blocks import Blocks, one_a_block


class PartitionShape(NamedTuple):
    """Blocks of each size in A and in B, degrees, and the number of components it tells apart."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    left_degree: int
    right_degree: int
    rank: int


def partition_shapes(blocks: Blocks, order: int, n_components: int) -> list[PartitionShape]:
    """Partitions that can tell `n_components` apart, those of the largest rank first.

    A partition that leaves more features to C separates the eigenvalues better, so of equal rank
    the one with the largest C comes first.
    """
    sizes, counts = block_sizes(blocks)
    pairs = list(block_partitions(counts))
    best_shapes: dict[tuple[int, int], PartitionShape] = {}
    for p in range(1, order - 1):
        q = order - 1 - p
        for left, right in pairs:
            rank = min(
                count_block_monomials(sizes, left, p), count_block_monomials(sizes, right, q)
            )
            inside = _n_features(sizes, left) + _n_features(sizes, right)
            best = best_shapes.get((p, inside))
            if rank >= n_components and (best is None or rank > best.rank):
                best_shapes[p, inside] = PartitionShape(left, right, p, q, rank)
    return sorted(
        best_shapes.values(),
        key=lambda x: (-x.rank, _n_features(sizes, x.left) + _n_features(sizes, x.right)),
    )


def _n_features(sizes: tuple[int, ...], counts: tuple[int, ...]) -> int:
    return sum(size * count for size, count in zip(sizes, counts, strict=True))


def draw_candidates(
    moments: StandardMoments,
    n_components: int,
    n_draws: int,
    rng: np.random.Generator,
    blocks: Blocks | None = None,
) -> Float:
    """Means of components proposed by `n_draws` random partitions, of shape (n, n_features).

    Candidates outside the range of the data are moved to its edge; those that are not finite are
    left out.
    """
    blocks = blocks or moments.alone
    shapes = partition_shapes(blocks, moments.order, n_components)
    if not shapes:
        return np.zeros((0, moments.n_features))
    # Rank to spare makes the singular values robust; several shapes make the draws different.
    top = shapes[0].rank
    least_rank = min(top, max(1.5 * n_components, 0.6 * top))
    shapes = [shape for shape in shapes if shape.rank >= least_rank]
    proposals = []
    for _ in range(n_draws):
        shape = shapes[int(rng.integers(len(shapes)))]
        parts = _split(rng.permutation(len(blocks.partition)), blocks, shape)
        proposals.append(_one_partition(moments, parts, shape, blocks, n_components, rng))
    candidates = np.concatenate(proposals)
    candidates = candidates[np.isfinite(candidates).all(axis=1)]
    return np.clip(candidates, *moments.standard_range)


def _one_partition(
    moments: StandardMoments,
    parts: tuple[Int, Int, Int],
    shape: PartitionShape,
    blocks: Blocks,
    n_components: int,
    rng: np.random.Generator,
) -> Float:
    left, right, rest = parts
    left_sets = _sets(left, shape.left_degree, blocks)
    right_sets = _sets(right, shape.right_degree, blocks)
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


def least_components(
    moments: StandardMoments, rng: np.random.Generator, blocks: Blocks | None = None
) -> int:
    """Number of components that the moments need at least: singular values far above noise.

    Where all rows are of r components, E[z_A z_Bᵀ] of features A and others B of other blocks has
    rank r − 1 at most, and E[φ_A φ_Bᵀ] has rank r.
    """
    blocks = blocks or moments.alone
    return max(
        _rank_of_products(moments, rng, blocks), 1 + _rank_of_covariance(moments, rng, blocks)
    )


def _rank_of_products(moments: StandardMoments, rng: np.random.Generator, blocks: Blocks) -> int:
    shapes = partition_shapes(blocks, moments.order, 1)
    if not shapes:
        return 1
    shape, counts = shapes[0], []
    for _ in range(8):  # the median of eight random partitions does not hang on one of them
        left, right, _ = _split(rng.permutation(len(blocks.partition)), blocks, shape)
        left_sets = _sets(left, shape.left_degree, blocks)
        right_sets = _sets(right, shape.right_degree, blocks)
        cross = _gather(moments, left_sets, right_sets, None)
        values = np.linalg.svd(cross, compute_uv=False)
        # Entries have a noise of about 2/√N each, products of heavy columns a little more. The
        # largest singular value of such noise is about 2/√N·(√rows + √columns); three times
        # that is not reached by chance.
        noise = 2.0 * (np.sqrt(cross.shape[0]) + np.sqrt(cross.shape[1]))
        counts.append(int((values > 3.0 * noise / np.sqrt(moments.n_effective)).sum()))
    return max(1, int(np.median(counts)))


def _rank_of_covariance(moments: StandardMoments, rng: np.random.Generator, blocks: Blocks) -> int:
    """Largest rank of E[z_A z_Bᵀ] that twenty random halves show.

    The noise of an entry is known from E z_j² z_k². The largest singular value of noise alone is
    about √a + √b times that of an entry; twice that is not reached by chance in twenty draws.
    """
    d, n_blocks = moments.n_features, len(blocks.partition)
    if n_blocks < 2 or moments.order < 2 or moments.two_squares is None:
        return 0
    i, k = index_sets(d, 2).T
    pairs, squares = np.zeros((d, d)), np.zeros((d, d))
    pairs[i, k] = pairs[k, i] = moments.orders[2]
    squares[i, k] = squares[k, i] = moments.two_squares
    best = 0
    for _ in range(20):
        left, right = (
            _features(part, blocks) for part in np.split(rng.permutation(n_blocks), [n_blocks // 2])
        )
        part = np.ix_(left, right)
        largest = float(np.sqrt(np.max(squares[part] - pairs[part] ** 2)))  # NaN: not known
        noise = 2.0 * largest * (np.sqrt(left.size) + np.sqrt(right.size))
        values = np.linalg.svd(pairs[part], compute_uv=False)
        best = max(best, int((values > noise / np.sqrt(moments.n_effective)).sum()))
    return best


def _split(order: Int, blocks: Blocks, shape: PartitionShape) -> tuple[Int, Int, Int]:
    """Features of A, B and C: of each size of blocks the first in `order` go to A, then to B."""
    if blocks.is_diagonal:
        a, b = shape.left[0], shape.right[0]
        left, right, rest = np.split(order, [a, a + b])
        return np.sort(left), np.sort(right), np.sort(rest)
    sizes, _ = block_sizes(blocks)
    widths = blocks.widths[order]
    parts: tuple[list[Int], list[Int], list[Int]] = [], [], []
    for size, a, b in zip(sizes, shape.left, shape.right, strict=True):
        for part, own in zip(parts, np.split(order[widths == size], [a, a + b]), strict=True):
            part.append(own)
    left, right, rest = (_features(np.concatenate(part), blocks) for part in parts)
    return left, right, rest


def _features(numbers: Int, blocks: Blocks) -> Int:
    """Features of some blocks, ascending; blocks of one in the order given."""
    if blocks.is_diagonal:
        return numbers
    return np.flatnonzero(np.isin(blocks.block_of, numbers))


def _sets(features: Int, degree: int, blocks: Blocks) -> list[Int]:
    """Index sets of at most `degree` of the features, no two of one block, by size."""
    sets = [features[index_sets(features.size, s)] for s in range(min(degree, features.size) + 1)]
    return sets if blocks.is_diagonal else [own[one_a_block(own, blocks)] for own in sets]


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

"""Candidates: means from random partitions of the blocks of features, and ranks of moments.

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
from momentmix.capacity import BlockSizes, block_partitions, count_block_monomials
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.index_sets import colex_rank, index_sets
from momentmix.mixture import gaussian
from momentmix.mixture.blocks import Blocks, one_a_block
from momentmix.mixture.parameters import Parameters

_PARTITIONS, _HALVES = 8, 20  # that a rank is found from: it does not hang on one of them
_NOISE_ROWS, _NOISE_DRAWS = 2000, 20
_CLEAR_RANK = 6.0  # deviations of the norm of noise, of which 20 draws show 85 % at least


class PartitionShape(NamedTuple):
    """Blocks of each size in A and in B, degrees, and the largest number of components."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    left_degree: int
    right_degree: int
    rank: int


def partition_shapes(blocks: Blocks, order: int, n_components: int) -> list[PartitionShape]:
    """Return partitions for `n_components`, the largest rank first, then the largest C."""
    sizes, counts = BlockSizes.of(blocks.widths.tolist())
    pairs = list(block_partitions(counts))
    best_shapes: dict[tuple[int, int], PartitionShape] = {}
    for p in range(1, order - 1):
        q = order - 1 - p
        for left, right in pairs:
            rank = min(
                count_block_monomials(sizes, left, p), count_block_monomials(sizes, right, q)
            )
            inside = int(np.dot(sizes, left) + np.dot(sizes, right))
            best = best_shapes.get((p, inside))
            if rank >= n_components and (best is None or rank > best.rank):
                best_shapes[p, inside] = PartitionShape(left, right, p, q, rank)
    found = sorted(best_shapes.items(), key=lambda item: (-item[1].rank, item[0][1]))
    return [shape for _, shape in found]


def draw_candidates(
    moments: StandardMoments,
    n_components: int,
    n_draws: int,
    rng: np.random.Generator,
    blocks: Blocks | None = None,
) -> Float:
    """Return means that random partitions propose, moved into the range of the data, (n, d)."""
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
        partition = _Partition(moments, blocks, shapes[int(rng.integers(len(shapes)))], rng)
        proposals.append(partition.means(n_components, rng))
    candidates = np.concatenate(proposals)
    candidates = candidates[np.isfinite(candidates).all(axis=1)]
    return np.clip(candidates, *moments.standard_range)


class _Partition:
    """Features A, B and C of a random partition of one shape, and M = E[φ_A φ_Bᵀ]."""

    def __init__(
        self,
        moments: StandardMoments,
        blocks: Blocks,
        shape: PartitionShape,
        rng: np.random.Generator,
    ) -> None:
        self.moments, order = moments, rng.permutation(len(blocks.partition))
        parts: tuple[list[Int], list[Int], list[Int]] = [], [], []
        sizes, _ = BlockSizes.of(blocks.widths.tolist())
        widths = blocks.widths[order]
        for size, a, b in zip(sizes, shape.left, shape.right, strict=True):
            for part, own in zip(parts, np.split(order[widths == size], [a, a + b]), strict=True):
                part.append(own)
        self.left, self.right, self.rest = (_features(np.concatenate(p), blocks) for p in parts)
        self.left_sets = _sets(self.left, shape.left_degree, blocks)
        self.right_sets = _sets(self.right, shape.right_degree, blocks)
        self.cross = _gather(moments, self.left_sets, self.right_sets, None)

    def means(self, n_components: int, rng: np.random.Generator) -> Float:
        """The means of all features that the partition proposes, (n, d)."""
        r = n_components
        u, s, vt = np.linalg.svd(self.cross, full_matrices=False)
        u, s, v = u[:, :r], np.maximum(s[:r], 1e-12 * s[0]), vt[:r].T
        slices = _gather(self.moments, self.left_sets, self.right_sets, self.rest)
        operators = u.T @ slices @ v / s
        mix = np.tensordot(rng.normal(size=self.rest.size), operators, axes=1)
        try:
            _, vectors = np.linalg.eig(mix)  # of a complex pair, both real parts are candidates
            inverse = np.linalg.inv(vectors)
        except np.linalg.LinAlgError:
            return np.zeros((0, self.moments.n_features))
        means = np.zeros((r, self.moments.n_features), dtype=complex)
        means[:, self.rest] = np.einsum("ij,cjk,ki->ic", inverse, operators, vectors)
        with np.errstate(all="ignore"):
            sides = (self.left, u @ vectors), (self.right, v @ (s[:, None] * inverse.T))
            for features, side in sides:
                means[:, features] = (side[1 : 1 + features.size] / side[0]).T
        return np.asarray(means.real)


def _features(numbers: Int, blocks: Blocks) -> Int:
    """Features of some blocks, ascending."""
    return np.flatnonzero(np.isin(blocks.block_of, numbers))


def _sets(features: Int, degree: int, blocks: Blocks) -> list[Int]:
    """Index sets of at most `degree` of the features, no two of one block, by size."""
    sets = [features[index_sets(features.size, s)] for s in range(min(degree, features.size) + 1)]
    return [own[one_a_block(own, blocks)] for own in sets]


def _gather(
    moments: StandardMoments, left: list[Int], right: list[Int], extra: Int | None
) -> Float:
    """E[φ_A φ_Bᵀ] from the moments, or E[z_c φ_A φ_Bᵀ] of each c of `extra`, (…, F_A, F_B)."""
    more = np.zeros((1, 0), dtype=np.int64) if extra is None else extra[:, None]

    def moments_of(rows: Int, columns: Int) -> Float:
        shape = len(more), len(rows), len(columns)
        parts = more[:, None, None], rows[:, None], columns
        union = np.concatenate([np.broadcast_to(x, (*shape, x.shape[-1])) for x in parts], axis=-1)
        union.sort(axis=-1)
        return moments.orders[union.shape[-1]][colex_rank(union)]

    table = np.concatenate(
        [np.concatenate([moments_of(rows, x) for x in right], axis=2) for rows in left], axis=1
    )
    return table[0] if extra is None else table


# -- ranks ----------------------------------------------------------------------------------------


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
    # Entries have a noise of about 2/√N each, products of heavy columns a little more; three times
    # the largest singular value of such noise is not reached by chance.
    tables = [_Partition(moments, blocks, shapes[0], rng).cross for _ in range(_PARTITIONS)]
    return max(1, int(np.median([_n_above(3.0 * 2.0, table, moments) for table in tables])))


def _n_above(noise: float, table: Float, moments: StandardMoments) -> int:
    """Singular values of a table (a, b) above those of such noise, noise·(√a + √b)/√N."""
    largest = noise * np.sqrt(table.shape).sum() / np.sqrt(moments.n_effective)
    return int((np.linalg.svd(table, compute_uv=False) > largest).sum())


def _rank_of_covariance(moments: StandardMoments, rng: np.random.Generator, blocks: Blocks) -> int:
    """Return the largest rank of E[z_A z_Bᵀ] in twenty random halves.

    The noise of an entry follows from E z_j² z_k². The largest singular value of noise alone is
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
    for _ in range(_HALVES):
        halves = np.split(rng.permutation(n_blocks), [n_blocks // 2])
        part = np.ix_(*(_features(half, blocks) for half in halves))
        largest = float(np.sqrt(np.max(squares[part] - pairs[part] ** 2)))  # NaN: not known
        best = max(best, _n_above(2.0 * largest, pairs[part], moments))
    return best


def shows_rank(
    moments: StandardMoments, answer: Parameters, rng: np.random.Generator, blocks: Blocks
) -> bool:
    """Whether the moments need all components of an answer that they accept.

    With one component less, E[φ_A φ_Bᵀ] would have a rank of r − 1, and its next singular value
    would be the norm of noise. Rows that follow the answer show how large that is.
    """
    r, shapes = answer.n_components, partition_shapes(blocks, moments.order, answer.n_components)
    if not shapes:
        return False
    rows, votes = gaussian.sample(answer.normalized(), _NOISE_ROWS, rng)[0], 0
    for _ in range(_PARTITIONS):
        partition = _Partition(moments, blocks, shapes[0], rng)
        u, s, vt = np.linalg.svd(partition.cross)
        x = _values(rows, partition.left_sets) @ u[:, r - 1 :]
        y = _values(rows, partition.right_sets) @ vt[r - 1 :].T
        factors = rng.standard_normal((_NOISE_DRAWS, _NOISE_ROWS, 1))
        factors -= factors.mean(axis=1, keepdims=True)
        noise = np.linalg.norm((factors * x).transpose(0, 2, 1) @ y, 2, axis=(1, 2))
        noise /= np.sqrt(_NOISE_ROWS * moments.n_effective)
        votes += s[r - 1] > noise.mean() + _CLEAR_RANK * noise.std()
    return bool(votes > _PARTITIONS // 2)


def _values(rows: Float, sets: list[Int]) -> Float:
    """Products of features of each row, of shape (n_rows, n_sets)."""
    return np.concatenate([rows[:, own].prod(axis=2) for own in sets], axis=1)

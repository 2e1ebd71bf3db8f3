"""Candidates: means from random partitions of the blocks of features, and split components.

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

*Splits* are starts with one component more: a component of a coarser answer, split where moments
disagree.

| symbol | name here | shape |
|---|---|---|
| K_jk = residual of E z_j³ z_k, on the diagonal of E z_j⁴ | ``cubes`` | (d, d) |
| Q_jk = residual of E z_j² z_k², on the diagonal of E z_j⁴ | ``squares`` | (d, d) |

Partitions of distinct features do not see clusters along one column or one line, nor components
that differ in spread alone. Where two components were taken for one that differ by δ in their
means, K is about a multiple of δ δᵀ; where they differ in their variances by ε, Q is about a
multiple of ε εᵀ. So the leading eigenvectors are the directions to split along.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from momentmix._typing import Float, Int
from momentmix.capacity import BlockSizes, block_partitions, count_block_monomials
from momentmix.fitting.em.pooling import merges_by_bound
from momentmix.fitting.inference.over_identification import HIGHEST_POWER
from momentmix.fitting.moments.conditions import (
    Conditions,
    build_conditions,
    feature_powers,
)
from momentmix.fitting.moments.efficient import (
    efficient_step,
)
from momentmix.fitting.moments.polish import Bounds
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.moments.whitening import Whitening
from momentmix.index_sets import colex_rank, index_sets
from momentmix.mixture import gaussian
from momentmix.mixture.blocks import Blocks, one_a_block
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import few_threads, map_in_order

_DIRECTIONS = 2  # eigenvectors of each kind: a plane has two
_COMPONENTS = 4  # the heaviest ones: a light one that is two is seldom what the moments show
_SHARES = (0.5, 0.25, 0.75)  # of the first half in the weight
_GAP = 0.8  # distance of the halves from the middle, in deviations: the polish finds the rest
_RATIO = 2.0  # of the halves' variances where they differ in spread
_NOISE_ROWS, _NOISE_DRAWS = 2000, 20
_CLEAR_RANK = 6.0  # deviations of the norm of noise, of which 20 draws show 85 % at least
_MERGES = 3  # that lose least likelihood, by a bound
_NEAR = 0.1  # mean of squared shifts and log ratios of variances: starts that end at one answer
# So many splits take so many steps each: a few show which of them are worth more.
SPLIT_STEPS = ((100, 1), (5, 5))
SPLIT_CONDITIONS = 500


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
    for _ in range(8):
        left, right, _ = _split(rng.permutation(len(blocks.partition)), blocks, shapes[0])
        left_sets = _sets(left, shapes[0].left_degree, blocks)
        right_sets = _sets(right, shapes[0].right_degree, blocks)
        u, s, vt = np.linalg.svd(_gather(moments, left_sets, right_sets, None))
        x = _values(rows, left_sets) @ u[:, r - 1 :]
        y = _values(rows, right_sets) @ vt[r - 1 :].T
        factors = rng.standard_normal((_NOISE_DRAWS, _NOISE_ROWS, 1))
        factors -= factors.mean(axis=1, keepdims=True)
        noise = np.linalg.norm((factors * x).transpose(0, 2, 1) @ y, 2, axis=(1, 2))
        noise /= np.sqrt(_NOISE_ROWS * moments.n_effective)
        votes += s[r - 1] > noise.mean() + _CLEAR_RANK * noise.std()
    return bool(votes > 4)


def _values(rows: Float, sets: list[Int]) -> Float:
    """Products of features of each row, of shape (n_rows, n_sets)."""
    return np.concatenate([rows[:, own].prod(axis=2) for own in sets], axis=1)


def _split(order: Int, blocks: Blocks, shape: PartitionShape) -> tuple[Int, Int, Int]:
    """Features of A, B and C: of each size of blocks the first in `order` go to A, then to B."""
    if blocks.is_diagonal:
        a, b = shape.left[0], shape.right[0]
        left, right, rest = np.split(order, [a, a + b])
        return np.sort(left), np.sort(right), np.sort(rest)
    sizes, _ = BlockSizes.of(blocks.widths.tolist())
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


# -- splits ----------------------------------------------------------------------------------------


def few_conditions(moments: StandardMoments, rng: np.random.Generator) -> Conditions:
    """Return conditions that show which of many starts are worth more."""
    conditions = build_conditions(moments, 2, 1, SPLIT_CONDITIONS, rng, HIGHEST_POWER)
    return conditions.subset(np.arange(1, conditions.size))


def best_splits(
    moments: StandardMoments,
    conditions: Conditions,
    parent: Parameters,
    bounds: Bounds,
    known: Parameters | None = None,
    n_threads: int = 1,
) -> list[Parameters]:
    """The best two starts that split a component of an answer with one component less.

    Beside a `known` answer, at most one other start that the moments may prefer as well.
    """
    # One covariance for all, or costs could not be compared.
    whitening = Whitening(conditions, parent, often=True)
    ends = _after_steps(conditions, split_starts(moments, parent), bounds, whitening, n_threads)
    if known is not None:
        error = whitening.whiten(conditions.values - conditions.model(known))
        most = float(error @ error) + known.n_free / moments.n_effective
        ends = [end for end in ends if end[0] < most and not _are_near(end[1], known)][:1]
    return [p for _, p in ends[:2]]


def best_merge(conditions: Conditions, answer: Parameters, bounds: Bounds) -> Parameters:
    """The best start that merges two components of an answer with one component more."""
    starts = [p for _, p in merges_by_bound(answer, _MERGES)]
    whitening = Whitening(conditions, answer, often=True)
    return _after_steps(conditions, starts, bounds, whitening, 1)[0][1]


def _are_near(p: Parameters, known: Parameters) -> bool:
    """Whether each component of a mixture is close to another one of a known mixture."""
    shifts = (p.means[:, None] - known.means) ** 2 / known.variances
    ratios = np.log(p.variances[:, None] / known.variances) ** 2
    gaps = (shifts + ratios).mean(axis=2)
    nearest = gaps.argmin(axis=1)
    return np.unique(nearest).size == nearest.size and float(gaps.min(axis=1).max()) < _NEAR


def _after_steps(
    conditions: Conditions,
    starts: list[Parameters],
    bounds: Bounds,
    whitening: Whitening,
    n_threads: int,
) -> list[tuple[float, Parameters]]:
    """Starts after a few steps with their costs, the best first; fewer go on after each stage."""

    def moved(p: Parameters, n_steps: int) -> tuple[float, Parameters]:
        cost = np.inf
        for _ in range(n_steps):
            p, cost, _ = efficient_step(conditions, p, bounds, whitening)
        return cost, p

    ends = [(np.inf, p) for p in starts]
    for count, n_steps in SPLIT_STEPS:
        run = partial(moved, n_steps=n_steps)
        with few_threads(n_threads > 1):
            best = map_in_order(run, [p for _, p in ends[:count]], n_threads)
            ends = sorted(best, key=lambda end: end[0])
    return ends


def split_starts(moments: StandardMoments, parent: Parameters) -> list[Parameters]:
    """Return starts with one component more than `parent`; none without the moments."""
    if moments.cubed is None or moments.two_squares is None or moments.powers is None:
        return []
    cubes, squares = _residuals(moments, parent)
    if not (np.isfinite(cubes).all() and np.isfinite(squares).all()):
        return []
    heaviest = np.argsort(-parent.weights, kind="stable")[:_COMPONENTS].tolist()
    starts = []
    for c in heaviest:
        for direction in _leading(cubes):
            offset = _GAP * direction * np.sqrt(parent.variances[c])
            factor = 1.0 - 0.7 * direction**2  # part of the spread was the gap
            starts += [_split_component(parent, c, s, offset, factor, factor) for s in _SHARES]
        for direction in _leading(squares):
            factor = _RATIO ** (direction / np.abs(direction).max())
            starts += [
                _split_component(parent, c, s, 0.0 * direction, factor, 1 / factor) for s in _SHARES
            ]
    return starts


def _residuals(moments: StandardMoments, parent: Parameters) -> tuple[Float, Float]:
    """Observed minus model, of shape (d, d) each."""
    assert moments.cubed is not None
    assert moments.two_squares is not None
    assert moments.powers is not None
    d, w = moments.n_features, parent.weights
    powers = feature_powers(parent, 4)
    cubes, squares = np.empty((d, d)), np.empty((d, d))
    for j in range(d):
        cubes[j, np.arange(d) != j] = moments.cubed[j]
    i, k = index_sets(d, 2).T
    squares[i, k] = squares[k, i] = moments.two_squares
    cubes -= (w[:, None] * powers[3]).T @ powers[1]
    squares -= (w[:, None] * powers[2]).T @ powers[2]
    for (j, k), covariance in zip(parent.blocks.pairs.tolist(), parent.covariances.T, strict=True):
        # E z_j³ z_k = E z_j³ E z_k + 3 E z_j² Σ_jk; E z_j² z_k² has 4 μ_j μ_k Σ_jk + 2 Σ_jk² more.
        cubes[j, k] -= 3 * w @ (powers[2, :, j] * covariance)
        cubes[k, j] -= 3 * w @ (powers[2, :, k] * covariance)
        more = w @ ((4 * powers[1, :, j] * powers[1, :, k] + 2 * covariance) * covariance)
        squares[j, k] -= more
        squares[k, j] -= more
    for law in parent.blocks.laws:  # features of one law are no product of two
        own = np.ix_(law.features, law.features)
        cubes[own], squares[own] = 0.0, 0.0
    diagonal = moments.powers[1] - w @ powers[4]
    np.fill_diagonal(cubes, diagonal)
    np.fill_diagonal(squares, diagonal)
    return (cubes + cubes.T) / 2, squares


def _leading(table: Float) -> list[Float]:
    """Eigenvectors of the largest eigenvalues by size."""
    values, vectors = eigh(table)
    return [vectors[:, k] for k in np.argsort(-np.abs(values))[:_DIRECTIONS]]


def _split_component(
    parent: Parameters, c: int, share: float, offset: Float, first: Float, second: Float
) -> Parameters:
    """Component c as two, their means `offset` apart from its own, their variances by factors."""
    rest = np.delete(np.arange(parent.n_components), c)
    weight, mean, variance = parent.weights[c], parent.means[c], parent.variances[c]
    j, k = parent.blocks.pairs.T
    shared = [parent.covariances[c] * np.sqrt(f[j] * f[k]) for f in (first, second)]
    # The middle of the two stays where it was.
    low, high = mean - 2 * (1 - share) * offset, mean + 2 * share * offset
    halves = Parameters(
        weight * np.array([share, 1 - share]),
        np.array([low, high]),
        np.array([variance * first, variance * second]),
        np.array(shared),
        parent.blocks,
    )
    return Parameters.concatenate([parent[rest], halves]).completed()

"""Generating matrix, multiplication matrices and their common eigenvalues (paper, section 3).

| paper symbol | name here | shape |
|---|---|---|
| 0; 1…k; k+1…n after a re-ordering of the coordinates | ``lead``, ``lower``, ``upper`` | |
| p, m−p−1 | ``degree``, ``co_degree`` | |
| (F_m)_{0·J_1·J_2} | ``SubTensors.base`` | (C(k, p), C(n−k, m−p−1)) |
| (F_m)_{J_1·J_2⁺}, one degree above J_2 | ``SubTensors.raised_upper`` | (…, C(n−k, m−p)) |
| (F_m)_{J_1⁺·J_2}, one degree above J_1 | ``SubTensors.raised_lower`` | (C(k, p+1), …) |
| B_0 (B0) | ``basis`` (positions in J_1) | (r,) |
| α = ν + e_l ∈ B_1, ν ∈ B_0 (B1) | ``basis``, ``last`` | |
| A[α, F_m], b[α, F_m] (eq: Aalpha) | rows of ``base``, ``raised_upper`` | |
| N_l(G) (eq:N) | ``multiplication_matrices(…)`` | (n−k, r, r) |
| w̃_i (w_i) | ``common_eigenvalues(…)`` | (r, n−k) |

Differs from the paper: A[α, F_m] depends on α only through its last index l, so that n−k
factorizations with r right-hand sides give all of G. B_0 is not the first r monomials but r of them
chosen by a pivoted QR factorization, which is the same at capacity and better conditioned below it.
Eigenvalues are computed as diag(V⁻¹ N_l V), not v^H N_l v, because N_l is not normal. For
`decompose` at large ranks only a few N_l are computed: they give the eigenvectors,
and these give all eigenvalues as ratios of products, without the other systems. The least squares
of section 4 (solve-G-ls, xi-est, w_hat) are the same lines: an exact tensor is the case of residual
zero.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from momentmix._typing import Array, Int
from momentmix.index_sets import binomials, colex_rank, index_sets
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.paper.ranks import Split
from momentmix.parallel import map_in_order

_EPS = float(np.finfo(float).eps)
_GATHER = 1 << 19  # ranks computed at a time, so that a gather takes about 10 MB
_RIGHT = 1024  # right-hand sides solved, or turned, at a time


@dataclass(frozen=True)
class SubTensors:
    """The three blocks of a tensor that the algorithm reads, for one order of the coordinates."""

    base: Array
    raised_upper: Array
    raised_lower: Array
    n_upper: int
    co_degree: int


def _terms(sets: Int, others: Int, n_features: int) -> Int:
    """Terms of the rank of a union that come from `sets`, by coordinate i, place t and other set.

    The t-th of a set's indices, i, has t + #{others < i} indices below it: its term is
    C(i, t + 1 + #{others < i}).
    """
    size = sets.shape[1]
    below = (others[None] < np.arange(n_features)[:, None, None]).sum(axis=2)  # (d, n_others)
    place = np.arange(1, size + 1)[:, None] + below[:, None, :]  # (d, size, n_others)
    table = binomials(n_features, size + others.shape[1])
    return np.asarray(table[np.arange(n_features)[:, None, None], place])


def _gather(tensor: IncompleteSymmetricTensor, first: Int, second: Int, n_threads: int) -> Array:
    """Entries at the unions of disjoint index sets, of shape (len(first), len(second)).

    The rank of a union is a sum over the indices of both sets, so that nothing is sorted but the
    sets themselves.
    """
    first, second = np.sort(first, axis=1), np.sort(second, axis=1)
    result = np.empty((first.shape[0], second.shape[0]), dtype=tensor.values.dtype)
    of_first = _terms(first, second, tensor.n_features)
    step = max(1, _GATHER // max(1, second.shape[0]))

    def fill(start: int) -> None:
        rows = first[start : start + step]
        of_second = _terms(second, rows, tensor.n_features)  # (d, size, n_rows)
        ranks = np.zeros((rows.shape[0], second.shape[0]), dtype=np.int64)
        for t in range(rows.shape[1]):
            ranks += of_first[rows[:, t], t]
        for t in range(second.shape[1]):
            ranks += np.take(of_second[:, t].T.copy(), second[:, t], axis=1)
        result[start : start + step] = tensor.values[ranks]

    deque(map_in_order(fill, range(0, first.shape[0], step), n_threads), maxlen=0)
    return result


def sub_tensors(
    tensor: IncompleteSymmetricTensor, split: Split, coordinates: Int, n_threads: int = 1
) -> SubTensors:
    """Gather the blocks for one order of the coordinates: the lead, k lower ones, the upper ones.

    The rows and columns are the products of label-set-J.
    """
    k, p = split.n_lower, split.degree
    co_degree = tensor.order - p - 1
    lead, lower, upper = coordinates[:1], coordinates[1 : k + 1], coordinates[k + 1 :]
    low = lower[index_sets(k, p)]  # (C(k, p), p), J_1  label-set-J
    low_raised = lower[index_sets(k, p + 1)]  # every x_j · J_1^{−j}
    up = upper[index_sets(upper.size, co_degree)]  # (C(n−k, m−p−1), m−p−1), J_2  label-set-J
    up_raised = upper[index_sets(upper.size, co_degree + 1)]
    with_lead = np.concatenate([np.broadcast_to(lead, (low.shape[0], 1)), low], axis=1)
    return SubTensors(
        base=_gather(tensor, with_lead, up, n_threads),
        raised_upper=_gather(tensor, low, up_raised, n_threads),
        raised_lower=_gather(tensor, low_raised, up, n_threads),
        n_upper=upper.size,
        co_degree=co_degree,
    )


def _reciprocal_condition(upper: Array) -> float:
    """Estimate for an upper triangular matrix."""
    return float((lapack.ztrcon if upper.dtype.kind == "c" else lapack.dtrcon)(upper)[0])


def scaled_least_squares(matrix: Array, right: Array, n_threads: int = 1) -> tuple[Array, float]:
    """Least squares with columns scaled to norm one: QR, or LU where the matrix is square.

    Fastest where both arguments are in Fortran order. May overwrite `right`. More threads than one
    share the right-hand sides after a QR factorization.

    Returns
    -------
    solution : array of shape (n_columns, n_right)
    condition : float
        Estimated condition number of the scaled matrix; infinite if a column is zero.
    """
    norms = np.linalg.norm(matrix, axis=0)
    singular = np.zeros((matrix.shape[1], right.shape[1]), np.result_type(matrix, right)), np.inf
    if not (np.isfinite(norms).all() and (norms > 0).all()):
        return singular
    scaled = matrix / norms
    if matrix.shape[0] == matrix.shape[1]:  # at capacity; LU is cheaper than QR and as accurate
        size = np.linalg.norm(scaled, 1)
        factors = linalg.lu_factor(scaled, overwrite_a=True, check_finite=False)
        estimate = lapack.zgecon if scaled.dtype.kind == "c" else lapack.dgecon
        reciprocal = float(estimate(factors[0], size)[0])
        if not reciprocal > 0:
            return singular
        solution = linalg.lu_solve(factors, right, overwrite_b=True, check_finite=False)
    else:
        q, upper = linalg.qr(scaled, overwrite_a=True, mode="economic", check_finite=False)
        reciprocal = _reciprocal_condition(upper)
        if not reciprocal > 0:
            return singular
        q = q.conj()
        solution = np.empty((right.shape[1], q.shape[1]), np.result_type(q, right)).T

        def solve(part: slice) -> None:
            turned = (right.T[part] @ q).T  # Qᴴ right, in Fortran order
            solution[:, part] = linalg.solve_triangular(
                upper, turned, overwrite_b=True, check_finite=False
            )

        parts = [slice(i, i + _RIGHT) for i in range(0, right.shape[1], _RIGHT)]
        deque(map_in_order(solve, parts, n_threads), maxlen=0)
    solution /= norms[:, None]
    return solution, 1.0 / reciprocal


def choose_basis(base: Array, rank: int) -> tuple[Int, float]:
    """Choose r monomials of J_1 whose rows of `base` are well conditioned (paper: B0).

    Returns
    -------
    basis : array of shape (rank,)
        Positions in J_1, increasing.
    margin : float
        Ratio of the r-th pivot to the first, or the reciprocal condition number where there is
        nothing to choose: near zero where the rank is below r.
    """
    if base.shape[0] == rank:  # at capacity: all, and a pivoted factorization costs many times more
        (upper,) = linalg.qr(base.T, mode="r", check_finite=False)
        margin = _reciprocal_condition(upper[:rank])
        if margin > rank * _EPS:
            return np.arange(rank), margin
    upper, pivots = linalg.qr(base.T, mode="r", pivoting=True, check_finite=False)
    sizes = np.abs(np.diag(upper))
    margin = float(sizes[rank - 1] / sizes[0]) if sizes[0] > 0 else 0.0
    return np.sort(pivots[:rank]).astype(np.int64), margin


def multiplication_matrices(
    blocks: SubTensors, basis: Int, n_threads: int = 1, n_matrices: int | None = None
) -> tuple[Array, float]:
    """Solve for the generating matrix G and arrange it as the matrices N_l(G) (paper: thm: G).

    Returns
    -------
    matrices : array of shape (n_matrices, rank, rank)
        Of the first upper coordinates; all of them by default.
    condition : float
        Largest condition number of the systems.
    """
    base, raised = blocks.base[basis], blocks.raised_upper[basis]
    sets = index_sets(blocks.n_upper, blocks.co_degree)
    rank, n_matrices = basis.size, n_matrices or blocks.n_upper
    matrices = np.empty((n_matrices, rank, rank), dtype=base.dtype)

    def solve(last: int) -> float:  # α = ν + e_last for every ν in the basis  B1
        rows = np.flatnonzero((sets != last).all(axis=1))  # (|O_α|,)  generating_mat
        joined = np.column_stack([sets[rows], np.full(rows.size, last)])
        places = colex_rank(np.sort(joined, axis=1))
        target = raised.take(places, axis=1).T  # (|O_α|, r)  eq: Aalpha
        # (r, r)  solve-G, solve-G-ls
        solution, condition = scaled_least_squares(base.take(rows, axis=1).T, target)
        matrices[last] = solution.T  # (r, r)  eq:N
        return condition

    conditions = map_in_order(solve, range(n_matrices), n_threads)
    return matrices, max(1.0, *conditions)


@dataclass(frozen=True)
class Eigenvalues:
    """Common eigenvalues of the multiplication matrices, and their conditioning."""

    values: Array
    gap: float
    condition: float


def common_eigenvalues(matrices: Array, directions: Array, n_threads: int = 1) -> Eigenvalues:
    """Eigenvalues of every N_l for the eigenvectors of one N(ξ).

    Parameters
    ----------
    matrices : array of shape (n_upper, rank, rank)
    directions : array of shape (n_directions, n_upper)
        Vectors ξ; the one with the widest gap between eigenvalues is used.

    Returns
    -------
    Eigenvalues
        ``values`` of shape (rank, n_upper): row i is w̃_i. ``gap`` is the least distance of two
        eigenvalues of N(ξ) relative to the largest, ``condition`` that of the eigenvectors.
    """
    gap, vectors, inverse = _eigenvectors(matrices, directions)
    values = np.zeros(matrices.shape[1::-1], dtype=np.result_type(vectors, matrices))
    if inverse is None:
        return Eigenvalues(values, 0.0, np.inf)
    condition = float(np.linalg.norm(vectors, 1) * np.linalg.norm(inverse, 1))
    rows = vectors.T.copy()

    def diagonal(matrix: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->i", inverse @ matrix, rows))  # (r,)  w_i, w_hat

    for last, column in enumerate(map_in_order(diagonal, matrices, n_threads)):
        values[:, last] = column
    return Eigenvalues(values, gap, condition)


def eigenvalues_from_few(
    blocks: SubTensors, basis: Int, matrices: Array, directions: Array, n_threads: int = 1
) -> Eigenvalues:
    """The same from the first few N_l: two at least.

    Rows u_i of V⁻¹ turn the rows of `base` and `raised_upper` into c_i·w̃_i^S for the products S of
    J_2 and J_2⁺, whose ratios are w̃_i. An error of u_i is one of w̃_i, which diag(V⁻¹ N_l V) would
    forgive, and eigenvectors of one N(ξ) have large ones where two eigenvalues are close. A step of
    joint diagonalization removes them: w̃_i and w̃_k of a pair are rarely close in all the N_l.
    """
    gap, vectors, inverse = _eigenvectors(matrices, directions[:, : len(matrices)])
    values = np.zeros((basis.size, blocks.n_upper), dtype=np.result_type(vectors, matrices))
    if inverse is None:
        return Eigenvalues(values, 0.0, np.inf)
    condition = float(np.linalg.norm(vectors, 1) * np.linalg.norm(inverse, 1))
    # V⁻¹ N_l V = D + E: (I − X) (D + E) (I + X) is diagonal, to first order, if E = X D − D X.
    products, sizes = np.zeros_like(values, shape=vectors.shape), np.zeros(vectors.shape)
    for turned in map_in_order(lambda matrix: inverse @ matrix @ vectors, matrices, n_threads):
        roots = np.diag(turned)
        gaps = roots - roots[:, None]
        products += turned * gaps.conj()
        sizes += np.abs(gaps) ** 2
    step = np.divide(products, sizes, out=np.zeros_like(products), where=sizes > 0)
    np.fill_diagonal(step, 0.0)
    rows = (inverse - step @ inverse).T

    def turn(part: Array) -> Array:
        return np.asarray(part.T @ rows)  # (#part, r)

    base, raised = blocks.base[basis], blocks.raised_upper[basis]
    parts = [raised[:, i : i + _RIGHT] for i in range(0, raised.shape[1], _RIGHT)]
    low, *high = map_in_order(turn, [base, *parts], n_threads)
    ratios = coordinate_ratios(low, np.concatenate(high), blocks.n_upper, blocks.co_degree)
    if ratios is None:
        return Eigenvalues(values, 0.0, np.inf)
    return Eigenvalues(ratios, gap, condition)


def coordinate_ratios(
    products: Array, raised: Array, n_coordinates: int, degree: int
) -> Array | None:
    """x_j by least squares over all S without j, from c·x^S and c·x^{S∪j}.

    Parameters
    ----------
    products : array of shape (C(n_coordinates, degree), r)
    raised : array of shape (C(n_coordinates, degree + 1), r)

    Returns
    -------
    array of shape (r, n_coordinates), or None
        None where the products do not determine it.
    """
    sets, indices = index_sets(n_coordinates, degree + 1), np.arange(n_coordinates)
    ratios = np.zeros((n_coordinates, products.shape[1]), dtype=raised.dtype)
    for t in range(degree + 1):
        rest = products[colex_rank(np.delete(sets, t, axis=1))]  # c·x^{S∖j}
        terms = np.multiply(np.conj(rest, out=rest), raised, out=rest)  # (sets, r)
        ratios += (sets[:, t] == indices[:, None]).astype(float) @ terms
    without = (index_sets(n_coordinates, degree) != indices[:, None, None]).all(axis=2)
    sizes = without.astype(float) @ np.abs(products) ** 2  # (n_coordinates, r)
    return (ratios / sizes).T if (sizes > 0).all() else None


def _eigenvectors(matrices: Array, directions: Array) -> tuple[float, Array, Array | None]:
    """The gap and the eigenvectors of the N(ξ) of the widest gap, and their inverse."""
    combined = np.tensordot(directions, matrices, axes=1)  # (…, r, r)  N_xi, xi-est
    tried = [np.linalg.eig(matrix) for matrix in combined]
    gap, vectors = max(((_gap(e[0]), e[1]) for e in tried), key=lambda pair: pair[0])
    try:
        return gap, vectors, np.linalg.inv(vectors)
    except np.linalg.LinAlgError:
        return gap, vectors, None


def _gap(roots: Array) -> float:
    """Least distance of two roots, relative to the largest."""
    size = float(np.abs(roots).max())
    distance = np.abs(roots[:, None] - roots[None, :])
    np.fill_diagonal(distance, np.inf)
    return float(distance.min() / size) if size > 0 else 0.0

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
Eigenvalues are computed as diag(V⁻¹ N_l V), not v^H N_l v, because N_l is not normal. The least
squares of section 4 (solve-G-ls, xi-est, w_hat) are the same lines: an exact tensor is the case of
residual zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import linalg
from scipy.linalg import lapack

from momentmix._typing import Array, Int
from momentmix.index_sets import binomials, colex_rank, index_sets
from momentmix.paper.incomplete_tensor import IncompleteSymmetricTensor
from momentmix.paper.ranks import Split
from momentmix.parallel import map_in_order

_EPS, _TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)
_GATHER = 1 << 19  # ranks computed at a time, so that a gather takes about 10 MB


class SubTensors(NamedTuple):
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


def _gather(tensor: IncompleteSymmetricTensor, first: Int, second: Int) -> Array:
    """Entries at the unions of disjoint index sets, of shape (len(first), len(second)).

    The rank of a union is a sum over the indices of both sets, so that nothing is sorted but the
    sets themselves.
    """
    first, second = np.sort(first, axis=1), np.sort(second, axis=1)
    result = np.empty((first.shape[0], second.shape[0]), dtype=tensor.values.dtype)
    of_first = _terms(first, second, tensor.n_features)
    step = max(1, _GATHER // max(1, second.shape[0]))
    for start in range(0, first.shape[0], step):
        rows = first[start : start + step]
        of_second = _terms(second, rows, tensor.n_features)  # (d, size, n_rows)
        ranks = np.zeros((rows.shape[0], second.shape[0]), dtype=np.int64)
        for t in range(rows.shape[1]):
            ranks += of_first[rows[:, t], t]
        for t in range(second.shape[1]):
            ranks += np.take(of_second[:, t].T.copy(), second[:, t], axis=1)
        result[start : start + step] = tensor.values[ranks]
    return result


def sub_tensors(tensor: IncompleteSymmetricTensor, split: Split, coordinates: Int) -> SubTensors:
    """Gather the blocks for one order of the coordinates: the lead, k lower ones, the upper ones.

    The rows and columns are the products of label-set-J.
    """
    k, p = split.n_lower, split.degree
    co_degree = tensor.order - p - 1
    lead, lower, upper = coordinates[:1], coordinates[1 : k + 1], coordinates[k + 1 :]
    low = lower[index_sets(k, p)]  # (C(k, p), p), J_1  label-set-J
    up = upper[index_sets(upper.size, co_degree)]  # (C(n−k, m−p−1), m−p−1), J_2  label-set-J
    with_lead = np.concatenate([np.broadcast_to(lead, (low.shape[0], 1)), low], axis=1)
    return SubTensors(
        base=_gather(tensor, with_lead, up),
        raised_upper=_gather(tensor, low, upper[index_sets(upper.size, co_degree + 1)]),
        raised_lower=_gather(tensor, lower[index_sets(k, p + 1)], up),  # every x_j · J_1^{−j}
        n_upper=upper.size,
        co_degree=co_degree,
    )


def _reciprocal_condition(upper: Array) -> float:
    """Estimate for an upper triangular matrix."""
    return float((lapack.ztrcon if upper.dtype.kind == "c" else lapack.dtrcon)(upper)[0])


def scaled_least_squares(matrix: Array, right: Array) -> tuple[Array, float]:
    """Least squares with columns scaled to norm one: QR, or LU where the matrix is square.

    Fastest where both arguments are in Fortran order. May overwrite `right`.

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
        solution = linalg.lu_solve(factors, right, overwrite_b=True, check_finite=False)
    else:
        q, upper = linalg.qr(scaled, overwrite_a=True, mode="economic", check_finite=False)
        reciprocal = _reciprocal_condition(upper)
        turned = (right.T @ q.conj()).T  # Qᴴ right, in Fortran order
        solve = lapack.ztrtrs if turned.dtype.kind == "c" else lapack.dtrtrs
        solution = solve(upper, turned, overwrite_b=True)[0]
    return (solution / norms[:, None], 1.0 / reciprocal) if reciprocal > 0 else singular


def choose_basis(base: Array, rank: int) -> tuple[Int, int]:
    """Choose r monomials of J_1 whose rows of `base` are well conditioned (paper: B0).

    Returns
    -------
    basis : array of shape (rank,)
        Positions in J_1, increasing.
    found : int
        The numerical rank of `base`, at most `rank`.
    """
    if base.shape[0] == rank:  # at capacity: all, and a pivoted factorization costs many times more
        (upper,) = linalg.qr(base.T, mode="r", check_finite=False)
        if _reciprocal_condition(upper[:rank]) > rank * _EPS:
            return np.arange(rank), rank
    upper, pivots = linalg.qr(base.T, mode="r", pivoting=True, check_finite=False)
    sizes = np.abs(np.diag(upper))[:rank]
    found = int((sizes > rank * _EPS * sizes[0]).sum())
    return np.sort(pivots[:rank]).astype(np.int64), found


def multiplication_matrices(
    blocks: SubTensors, basis: Int, n_threads: int = 1
) -> tuple[Array, float]:
    """Solve for the generating matrix G and arrange it as the matrices N_l(G) (paper: thm: G).

    Returns
    -------
    matrices : array of shape (n_upper, rank, rank)
    condition : float
        Largest condition number of the systems.
    """
    base, raised = blocks.base[basis], blocks.raised_upper[basis]
    sets = index_sets(blocks.n_upper, blocks.co_degree)
    matrices = np.empty((blocks.n_upper, basis.size, basis.size), dtype=base.dtype)

    def solve(last: int) -> float:  # α = ν + e_last for every ν in the basis  B1
        rows = np.flatnonzero((sets != last).all(axis=1))  # (|O_α|,)  generating_mat
        joined = np.column_stack([sets[rows], np.full(rows.size, last)])
        places = colex_rank(np.sort(joined, axis=1))
        target = raised.take(places, axis=1).T  # (|O_α|, r)  eq: Aalpha
        # (r, r)  solve-G, solve-G-ls
        solution, condition = scaled_least_squares(base.take(rows, axis=1).T, target)
        matrices[last] = solution.T  # (r, r)  eq:N
        return condition

    return matrices, max(1.0, *map_in_order(solve, range(blocks.n_upper), n_threads))


class Eigenvalues(NamedTuple):
    """Common eigenvalues of the multiplication matrices, and their conditioning."""

    values: Array
    gap: float
    condition: float


def common_eigenvalues(matrices: Array, xi: Array, n_threads: int = 1) -> Eigenvalues:
    """Eigenvalues of every N_l for the eigenvectors of N(ξ).

    Parameters
    ----------
    matrices : array of shape (n_upper, rank, rank)
    xi : array of shape (n_upper,)

    Returns
    -------
    Eigenvalues
        ``values`` of shape (rank, n_upper): row i is w̃_i. ``gap`` is the least distance of two
        eigenvalues of N(ξ) relative to the largest, ``condition`` that of the eigenvectors.
    """
    roots, vectors = np.linalg.eig(np.tensordot(xi, matrices, axes=1))  # (r, r)  N_xi, xi-est
    if np.isrealobj(matrices) and not np.imag(roots).any():  # NumPy may give complex arrays
        roots, vectors = roots.real, vectors.real
    distances = np.abs(roots[:, None] - roots)
    np.fill_diagonal(distances, np.inf)
    gap = float(distances.min() / max(np.abs(roots).max(), _TINY))
    try:
        inverse = np.linalg.inv(vectors)
    except np.linalg.LinAlgError:
        return Eigenvalues(np.zeros((roots.size, xi.size)), gap, np.inf)
    rows = vectors.T.copy()

    def diagonal(matrix: Array) -> Array:
        return np.asarray(np.einsum("ij,ij->i", inverse @ matrix, rows))  # (r,)  w_i, w_hat

    values = np.stack(list(map_in_order(diagonal, matrices, n_threads)), axis=1)
    condition = float(np.linalg.norm(vectors, 1) * np.linalg.norm(inverse, 1))
    return Eigenvalues(values, gap, condition)

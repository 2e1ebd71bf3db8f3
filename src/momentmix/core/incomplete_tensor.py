"""Incomplete symmetric tensors: the entries with distinct indices, and sums of powers on them.

| paper symbol | name here | shape |
|---|---|---|
| (F_m)_{Ω_m} | ``IncompleteSymmetricTensor.values`` | (C(d, m),) |
| ‖F_{Ω_m}‖ (tensor:norm:HS) | ``IncompleteSymmetricTensor.norm()`` | scalar |
| (Σ_i λ_i q_i^{⊗m})_{Ω_m} | ``power_sum(q, m, weights=λ)`` | (C(d, m),) |
| e_t(x) | ``elementary_symmetric(x, m)[t]`` | (…,) |
| ⟨(a^{⊗m})_Ω, (b^{⊗m})_Ω⟩ = m!·e_m(a∘b) | ``power_inner_products(a, b, m)`` | (r, s) |

Norms and inner products count every permutation of an index set, as the paper's Hilbert–Schmidt
norm does: a factor m! against the plain sum over sets.

Differs from the paper: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb, factorial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix.core.labels import Int, colex_rank, index_sets
from momentmix.core.monomials import monomials, monomials_pullback
from momentmix.errors import InputError, InputTypeError

Array = NDArray[Any]

__all__ = [
    "IncompleteSymmetricTensor",
    "contract",
    "elementary_symmetric",
    "power_derivative",
    "power_inner_products",
    "power_sum",
]


@dataclass(frozen=True, eq=False)
class IncompleteSymmetricTensor:
    """A symmetric tensor known only where all indices are distinct.

    Parameters
    ----------
    values : array of shape (C(n_features, order),)
        Entries on the index sets `labels`, in colex order; real or complex.
    n_features : int
        Dimension d.
    order : int
        Number of indices m.

    Examples
    --------
    >>> import numpy as np
    >>> tensor = IncompleteSymmetricTensor.from_factors(np.array([[1.0, 2.0, 3.0, 4.0]]), 3)
    >>> tensor.values.tolist()
    [6.0, 8.0, 12.0, 24.0]
    >>> tensor[3, 0, 1]
    8.0
    """

    values: Array
    n_features: int
    order: int

    def __post_init__(self) -> None:
        for name in ("n_features", "order"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int | np.integer):
                raise InputTypeError(f"{name} must be an integer; got {number!r}.")
            object.__setattr__(self, name, int(number))
        if not 1 <= self.order <= self.n_features:
            raise InputError(
                f"order must lie between 1 and n_features={self.n_features} (an entry needs that "
                f"many distinct indices); got order={self.order}."
            )
        values = np.array(self.values)
        if values.dtype.kind not in "fciu":
            raise InputTypeError(f"values must be numbers; got dtype {values.dtype}.")
        values = values.astype(complex if values.dtype.kind == "c" else float, copy=False)
        expected = comb(self.n_features, self.order)
        if values.shape != (expected,):
            raise InputError(
                f"values must have shape ({expected},): one entry for each of the "
                f"C({self.n_features}, {self.order}) index sets, in colex order (see labels); "
                f"got shape {values.shape}."
            )
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            place = tuple(int(i) for i in self.labels[bad[0]])
            raise InputError(
                f"values must be finite; the entry at {place} is {values[bad[0]]} "
                f"({bad.size} such entries). Replace or re-estimate them before decomposing."
            )
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    @classmethod
    def from_factors(
        cls, factors: ArrayLike, order: int, weights: ArrayLike | None = None
    ) -> IncompleteSymmetricTensor:
        """The tensor Σ_i weights_i · factors_i^{⊗order} on distinct indices.

        Parameters
        ----------
        factors : array of shape (rank, n_features)
        order : int
        weights : array of shape (rank,), optional
            All one by default.
        """
        factors = np.asarray(factors)
        if factors.ndim != 2:
            raise InputError(
                f"factors must have shape (rank, n_features); got {factors.ndim} dimension(s)."
            )
        if factors.dtype.kind not in "fciu":
            raise InputTypeError(f"factors must be numbers; got dtype {factors.dtype}.")
        d = factors.shape[1]
        if not 1 <= order <= d:
            raise InputError(f"order must lie between 1 and n_features={d}; got order={order}.")
        return cls(power_sum(factors, order, weights), d, order)

    @property
    def labels(self) -> Int:
        """The index set of each entry, of shape (C(n_features, order), order)."""
        return index_sets(self.n_features, self.order)

    @property
    def is_real(self) -> bool:
        """Whether the entries are real numbers."""
        return self.values.dtype.kind == "f"

    def __getitem__(self, indices: tuple[int, ...]) -> Any:
        chosen = sorted(int(i) for i in np.atleast_1d(np.asarray(indices)))
        if len(chosen) != self.order or len(set(chosen)) != self.order:
            raise InputError(f"an entry needs {self.order} distinct indices; got {indices!r}.")
        if chosen[0] < 0 or chosen[-1] >= self.n_features:
            raise InputError(f"indices must lie in 0…{self.n_features - 1}; got {indices!r}.")
        return self.values[colex_rank(chosen)].item()

    def _paired(self, other: IncompleteSymmetricTensor) -> IncompleteSymmetricTensor:
        if (self.n_features, self.order) != (other.n_features, other.order):
            raise InputError(
                f"tensors must agree in n_features and order; got ({self.n_features}, "
                f"{self.order}) and ({other.n_features}, {other.order})."
            )
        return other

    def __add__(self, other: IncompleteSymmetricTensor) -> IncompleteSymmetricTensor:
        values = self.values + self._paired(other).values
        return IncompleteSymmetricTensor(values, self.n_features, self.order)

    def __sub__(self, other: IncompleteSymmetricTensor) -> IncompleteSymmetricTensor:
        values = self.values - self._paired(other).values
        return IncompleteSymmetricTensor(values, self.n_features, self.order)

    def __mul__(self, factor: complex) -> IncompleteSymmetricTensor:
        return IncompleteSymmetricTensor(self.values * factor, self.n_features, self.order)

    __rmul__ = __mul__

    def norm(self) -> float:
        """Hilbert–Schmidt norm over all ordered labels of Ω_m (eq. tensor:norm:HS)."""
        return float(np.sqrt(factorial(self.order)) * np.linalg.norm(self.values))

    def inner(self, other: IncompleteSymmetricTensor) -> Any:
        """Inner product over all ordered labels, conjugate-linear in ``self``."""
        plain = np.vdot(self.values, self._paired(other).values)
        return (factorial(self.order) * plain).item()

    def __repr__(self) -> str:
        kind = "real" if self.is_real else "complex"
        return (
            f"IncompleteSymmetricTensor(n_features={self.n_features}, order={self.order}, "
            f"{self.values.size} {kind} entries, norm={self.norm():.4g})"
        )


def _half_split(n_features: int, order: int) -> Iterator[tuple[int, Int, int]]:
    """Blocks of Ω_m by how many indices a fall below d//2: (a, first rank of each run, run length).

    Fixing the upper indices γ, the lower ones run over a contiguous stretch of colex order.
    """
    half = n_features // 2
    for a in range(max(0, order - (n_features - half)), min(half, order) + 1):
        upper = index_sets(n_features - half, order - a) + half
        yield a, colex_rank(upper, position=a), comb(half, a)


def power_sum(factors: ArrayLike, order: int, weights: ArrayLike | None = None) -> Array:
    """Σ_i weights_i · factors_i^{⊗order} on Ω_order, of shape (C(d, order),): matrix products."""
    points = np.asarray(factors).T
    if points.dtype.kind != "c":
        points = points.astype(float, copy=False)
    half = points.shape[0] // 2
    lower, upper = monomials(points[:half], order), monomials(points[half:], order)
    scale = None if weights is None else np.asarray(weights)
    dtype = points.dtype if scale is None else np.result_type(points, scale)
    values = np.empty(comb(points.shape[0], order), dtype=dtype)
    for a, starts, length in _half_split(points.shape[0], order):
        block = upper[order - a] if scale is None else upper[order - a] * scale
        values[starts[:, None] + np.arange(length)] = block @ lower[a].T
    return values


def contract(values: Array, factors: Array, order: int) -> tuple[Array, Array]:
    """Contract a tensor on Ω_m with powers of each factor, and differentiate by the factor.

    Returns
    -------
    inner : array of shape (rank,)
        Σ_I values_I · Π_{a∈I} factors_ia, sums over index sets.
    gradient : array of shape (rank, d)
        Its derivative by each entry: Σ_{I∋a} values_I · Π_{c∈I∖a} factors_ic.
    """
    points = np.ascontiguousarray(factors.T)
    half = points.shape[0] // 2
    lower, upper = monomials(points[:half], order), monomials(points[half:], order)
    dtype = np.result_type(values, points)
    g_lower = [np.zeros(block.shape, dtype) for block in lower]
    g_upper = [np.zeros(block.shape, dtype) for block in upper]
    inner = np.zeros(points.shape[1], dtype)
    for a, starts, length in _half_split(points.shape[0], order):
        block = values[starts[:, None] + np.arange(length)]
        g_upper[order - a] += block @ lower[a]
        g_lower[a] += block.T @ upper[order - a]
        inner += np.einsum("kb,kb->b", g_lower[a], lower[a])
    gradient = np.concatenate(
        [
            monomials_pullback(points[:half], lower, g_lower),
            monomials_pullback(points[half:], upper, g_upper),
        ]
    )
    return inner, gradient.T


def power_derivative(factors: Array, directions: Array, order: int) -> Array:
    """Directional derivative of ``power_sum(factors, order)``, of shape (C(d, order),).

    Forward mode with the exact difference of a multilinear map in a nilpotent unit: the monomials
    of factors + ε·directions, first order in ε.
    """
    points, tangents = factors.T, directions.T
    half = points.shape[0] // 2
    halves = []
    for part in (slice(0, half), slice(half, None)):
        value = monomials(points[part], order)
        halves.append((value, _monomials_tangent(points[part], tangents[part], value)))
    (lower, d_lower), (upper, d_upper) = halves
    values = np.empty(comb(points.shape[0], order), np.result_type(points, tangents))
    for a, starts, length in _half_split(points.shape[0], order):
        block = d_upper[order - a] @ lower[a].T + upper[order - a] @ d_lower[a].T
        values[starts[:, None] + np.arange(length)] = block
    return values


def _monomials_tangent(points: Array, tangents: Array, blocks: list[Array]) -> list[Array]:
    result = [np.zeros(blocks[0].shape, np.result_type(points, tangents))]
    for a in range(1, len(blocks)):
        block = np.empty(blocks[a].shape, result[0].dtype)
        for i in range(a - 1, points.shape[0]):
            start, stop = comb(i, a), comb(i + 1, a)
            size = stop - start
            block[start:stop] = result[a - 1][:size] * points[i]
            block[start:stop] += blocks[a - 1][:size] * tangents[i]
        result.append(block)
    return result


def elementary_symmetric(x: Array, degree: int) -> Array:
    """Elementary symmetric polynomials e_0 … e_degree of the last axis.

    Returns
    -------
    array of shape (degree + 1, ...)

    Examples
    --------
    >>> import numpy as np
    >>> elementary_symmetric(np.array([2.0, 3.0, 5.0]), 3).tolist()
    [1.0, 10.0, 31.0, 30.0]
    """
    e = np.zeros((degree + 1, *x.shape[:-1]), dtype=x.dtype)
    e[0] = 1.0
    for i in range(x.shape[-1]):
        e[1:] += x[..., i] * e[:-1]
    return e


def power_inner_products(a: Array, b: Array, order: int) -> Array:
    """⟨(a_i^{⊗m})_Ω, (b_k^{⊗m})_Ω⟩ = m!·e_m(conj(a_i)∘b_k), of shape (r, s).

    Examples
    --------
    >>> import numpy as np
    >>> power_inner_products(np.array([[1.0, 1.0, 1.0]]), np.array([[2.0, 3.0, 5.0]]), 2).tolist()
    [[62.0]]
    """
    products = np.conj(a)[:, None, :] * b[None, :, :]
    return np.asarray(factorial(order) * elementary_symmetric(products, order)[order])

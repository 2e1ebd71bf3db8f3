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

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb, factorial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from momentmix._typing import Array, Int
from momentmix.errors import InputError, InputTypeError
from momentmix.index_sets import (
    check_countable,
    colex_rank,
    index_sets,
    monomials,
    monomials_pullback,
)
from momentmix.parallel import map_in_order

_CACHED = 1 << 16  # numbers in the blocks of `power_inner_products`, which a cache holds


@dataclass(frozen=True, eq=False)
class IncompleteSymmetricTensor:
    """A symmetric tensor whose entries are known only where all indices are distinct.

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
        check_countable(self.n_features, self.order)
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
            indices = tuple(int(i) for i in self.labels[bad[0]])
            raise InputError(
                f"values must be finite; the entry at {indices} is {values[bad[0]]} "
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
        check_countable(d, order)
        return cls(power_sum(factors, order, weights), d, order)  # (C(d, m),)  eq:tensorF, eq:cFm

    @classmethod
    def from_dense(cls, array: ArrayLike) -> IncompleteSymmetricTensor:
        """The entries with distinct indices of a symmetric tensor that is given as a whole.

        Parameters
        ----------
        array : array of shape (n_features, …, n_features), one axis for each index
            Symmetric within rounding errors. Entries with equal indices are not used, and may be
            NaN.

        Examples
        --------
        >>> import numpy as np
        >>> q = np.array([1.0, 2.0, 3.0, 4.0])
        >>> dense = np.einsum("a,b,c->abc", q, q, q)
        >>> IncompleteSymmetricTensor.from_dense(dense).values.tolist()
        [6.0, 8.0, 12.0, 24.0]
        """
        dense = np.asarray(array)
        if dense.dtype.kind not in "fciu":
            raise InputTypeError(f"array must hold numbers; got dtype {dense.dtype}.")
        if dense.ndim < 1 or len(set(dense.shape)) != 1:
            raise InputError(
                "array must have shape (d, d, …, d), one axis for each index; got shape "
                f"{dense.shape}."
            )
        d, order = dense.shape[0], dense.ndim
        if order > d:
            raise InputError(
                f"array needs at least as many features as axes, since an entry has distinct "
                f"indices; got shape {dense.shape}."
            )
        check_countable(d, order)
        tensor = cls(dense[tuple(index_sets(d, order).T)], d, order)
        eps = np.finfo(dense.dtype).eps if dense.dtype.kind in "fc" else 0.0
        most = 16 * np.sqrt(order) * float(eps) * float(np.nanmax(np.abs(dense)))
        for axis in range(order - 1):  # swaps of neighbors give every permutation
            swapped = np.swapaxes(dense, axis, axis + 1)
            apart = np.abs(np.subtract(dense, swapped, dtype=np.result_type(dense, float)))
            if np.nanmax(apart) > most:
                place = tuple(int(i) for i in np.unravel_index(np.nanargmax(apart), dense.shape))
                raise InputError(
                    f"array must be symmetric within rounding errors; the entry at {place} and "
                    f"that with indices {axis} and {axis + 1} exchanged differ by "
                    f"{np.nanmax(apart):.3g} (largest difference). Average the array over all "
                    "orders of its axes first."
                )
        return tensor

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
        return replace(self, values=self.values + self._paired(other).values)

    def __sub__(self, other: IncompleteSymmetricTensor) -> IncompleteSymmetricTensor:
        return replace(self, values=self.values - self._paired(other).values)

    def __mul__(self, factor: complex) -> IncompleteSymmetricTensor:
        return replace(self, values=self.values * factor)

    __rmul__ = __mul__

    def norm(self) -> float:
        """Hilbert–Schmidt norm over all ordered labels of Ω_m (paper: tensor:norm:HS)."""
        return float(np.sqrt(factorial(self.order)) * np.linalg.norm(self.values))

    def inner(self, other: IncompleteSymmetricTensor) -> Any:
        """Inner product over all ordered labels, conjugate-linear in ``self``."""
        over_sets = np.vdot(self.values, self._paired(other).values)
        return (factorial(self.order) * over_sets).item()

    def __repr__(self) -> str:
        kind = "real" if self.is_real else "complex"
        return (
            f"IncompleteSymmetricTensor(n_features={self.n_features}, order={self.order}, "
            f"{self.values.size} {kind} entries, norm={self.norm():.4g})"
        )


class _PivotTables:
    """Ω_m cut at its middle index: I = α ∪ {j} ∪ γ with a indices below the pivot j and b above.

    For each pivot the entries form a matrix over (γ, α) that is a product of two monomial tables;
    nothing is computed twice and no table has more than C(d, ⌈m/2⌉) rows. In colex order the lower
    monomials below j are a prefix and fill contiguous runs; the upper ones are a prefix once the
    coordinates are reversed.
    """

    def __init__(self, points: Array, order: int) -> None:
        self.points = points
        self.d = points.shape[0]
        self.a = (order - 1) // 2
        self.b = order - 1 - self.a
        self.lower = monomials(points, self.a)
        self.upper = monomials(points[::-1], self.b)

    def __iter__(self) -> Iterator[tuple[int, Int]]:
        """Yield the pivot j and the positions of its entries, (n_γ, n_α)."""
        mirrored = self.d - 1 - index_sets(self.d, self.b)[:, ::-1]  # increasing again
        starts = colex_rank(mirrored, position=self.a + 1)[:, None]
        for j in range(self.a, self.d - self.b):
            n_upper, n_lower = comb(self.d - 1 - j, self.b), comb(j, self.a)
            yield j, starts[:n_upper] + (comb(j, self.a + 1) + np.arange(n_lower))


def power_sum(
    factors: ArrayLike, order: int, weights: ArrayLike | None = None, n_threads: int = 1
) -> Array:
    """Σ_i weights_i · factors_i^{⊗order} on Ω_order, of shape (C(d, order),): matrix products."""
    points = np.asarray(factors).T
    if points.dtype.kind != "c":
        points = points.astype(float, copy=False)
    scale = points if weights is None else points * np.asarray(weights)
    tables = _PivotTables(points, order)
    lower, upper = tables.lower[-1], tables.upper[-1]
    values = np.empty(comb(tables.d, order), dtype=scale.dtype)

    def fill(pivot: tuple[int, Int]) -> None:
        j, places = pivot
        n_upper, n_lower = places.shape
        values[places] = (upper[:n_upper] * scale[j]) @ lower[:n_lower].T

    deque(map_in_order(fill, tables, n_threads), maxlen=0)
    return values


def contract(values: Array, factors: Array, order: int, n_threads: int = 1) -> Array:
    """Contract a tensor on Ω_m with powers of each factor: Σ_I values_I · Π_{a∈I} factors_ia."""
    tables = _PivotTables(factors.T, order)

    def part(pivot: tuple[int, Int]) -> Array:
        j, places = pivot
        n_upper, n_lower = places.shape
        partial = values[places] @ tables.lower[-1][:n_lower]  # (n_upper, r)
        inner = np.einsum("kb,kb->b", partial, tables.upper[-1][:n_upper])
        return np.asarray(inner * tables.points[j])

    return np.asarray(sum(map_in_order(part, tables, n_threads)))


def contract_gradient(values: Array, factors: Array, order: int) -> Array:
    """Derivative of `contract` by the factors, (r, d): Σ_{I∋a} values_I · Π_{c∈I∖a} factors_ic."""
    tables = _PivotTables(factors.T, order)
    lower, upper = tables.lower[-1], tables.upper[-1]
    dtype = np.result_type(values, factors)
    by_lower, by_upper = np.zeros(lower.shape, dtype), np.zeros(upper.shape, dtype)
    by_pivot = np.zeros(tables.points.shape, dtype)
    for j, places in tables:
        n_upper, n_lower = places.shape
        block = values[places]
        partial = block @ lower[:n_lower]  # (n_upper, r)
        by_pivot[j] = np.einsum("kb,kb->b", partial, upper[:n_upper])
        by_upper[:n_upper] += partial * tables.points[j]
        by_lower[:n_lower] += block.T @ (upper[:n_upper] * tables.points[j])
    by_pivot += monomials_pullback(tables.points, tables.lower, by_lower)
    by_pivot += monomials_pullback(tables.points[::-1], tables.upper, by_upper)[::-1]
    return by_pivot.T


def elementary_symmetric(x: Array, degree: int) -> Array:
    """Elementary symmetric polynomials e_0 … e_degree of the last axis, (degree + 1, …).

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

    >>> import numpy as np
    >>> power_inner_products(np.array([[1.0, 1.0, 1.0]]), np.array([[2.0, 3.0, 5.0]]), 2).tolist()
    [[62.0]]
    """
    result = np.empty((a.shape[0], b.shape[0]), dtype=np.result_type(a, b))
    step = max(1, _CACHED // ((order + 1) * max(1, b.shape[0])))
    for start in range(0, a.shape[0], step):
        rows = slice(start, start + step)
        products = np.conj(a[rows, None]) * b  # (step, s, d)
        result[rows] = factorial(order) * elementary_symmetric(products, order)[order]
    return result

"""Factors of a noisy tensor, one after the other, by the largest powers in what is left of it.

| paper symbol | name here | shape |
|---|---|---|
| x, ‖(x^{⊗m})_Ω‖ = 1 | rows of ``vectors`` | (n, d) |
| ⟨(x^{⊗m})_Ω, R⟩, R what is left | ``sizes`` | (n,) |
| least change of ‖R‖ if q_i goes | ``losses(…)`` | (r,) |

(x^{⊗m})_Ω is linear in each coordinate, so that the coordinate which fits R best is a ratio: the
gradient's entry over e_{m−1} of the other |x_b|². Iterated from random vectors this is a power
method, which ends at a factor of R more often than not. The largest are kept and fitted together,
and what they leave is searched again, until there are `rank`. While a power is left that noise does
not explain, it is fitted with the others, and those that explain least are left out: a factor that
stood for two others gives way.

Differs from the paper: it has no such step. Each sum here runs over C(d, m) entries, which averages
their noise; the paper's linear systems see a part of them, and are badly conditioned at capacity.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from scipy import linalg

from momentmix._typing import Array, Float
from momentmix.paper.gauss_newton import fit_powers, leave_one_out
from momentmix.paper.incomplete_tensor import (
    IncompleteSymmetricTensor,
    contract_gradient,
    elementary_symmetric,
    power_inner_products,
    power_sum,
)

_POWER_STEPS = 12
_SPARE_STARTS = 100  # besides two for each factor that is missing
_SPARE = 4  # powers beyond the rank that are fitted for a while
_ROUNDS = 16
_SIMILAR = 0.5  # cosine of two powers that are taken for one
_CLEAR = 0.5  # of the largest: smaller ones come after it is subtracted
_STEPS, _STEPS_BEYOND = 2, 5  # of Levenberg–Marquardt, and with more than `rank` powers
_LOWER = 0.999  # ratio of norms that counts as lower
_PATIENCE = 3  # changes that lower nothing
_ROUNDING = 1e-13  # relative norm of what rounding leaves
_NOISE_PEAK = 2.0  # the largest power in Gaussian noise has size 1.66σ√d (m = 3) to 2σ√d (m = 7)


def search_powers(
    tensor: IncompleteSymmetricTensor,
    rank: int,
    rng: np.random.Generator,
    start: Array | None = None,
) -> tuple[Array, bool]:
    """Factors near a minimum of (solve-F), and whether what they leave is no more than noise.

    With a start they come from it, unless others lower the residual. They are fewer than `rank`
    where nothing is left for more.
    """
    order, d = tensor.order, tensor.n_features
    factors = np.empty((0, d), tensor.values.dtype) if start is None else start
    size = float(np.linalg.norm(tensor.values))
    best, lowest, is_noise, idle = factors, np.inf, False, 0
    for _ in range(_ROUNDS):
        if len(factors) > rank:
            factors = fit_powers([tensor], factors, max_iterations=_STEPS_BEYOND).factors
            factors = factors[losses(factors, order).argsort()[-rank:]]
        if len(factors):
            factors = fit_powers([tensor], factors, max_iterations=_STEPS).factors
        left = tensor.values - power_sum(factors, order)
        missing = rank - len(factors)
        new, sizes = largest_powers(left, d, order, 2 * missing + _SPARE_STARTS, rng)
        if not missing:
            norm = float(np.linalg.norm(left))
            idle = 0 if norm < _LOWER * lowest else idle + 1
            if norm < lowest:
                best, lowest = factors, norm
                is_noise = sizes.max(initial=0.0) < noise_peak(norm, left.size, d, rank)
                is_noise |= norm < _ROUNDING * size
            if is_noise or idle > _PATIENCE:
                break
        if not sizes.size:
            break
        factors = np.concatenate([factors, new[: missing + _SPARE]])
    return (best if len(best) == rank else factors[:rank]), is_noise


def largest_powers(
    values: Array, n_features: int, order: int, n_starts: int, rng: np.random.Generator
) -> tuple[Array, Float]:
    """Different x with large ⟨x^{⊗m}, values⟩ for norm one, scaled to fit, and these sizes.

    They come largest first; any below half of the largest are left out, as are negative powers
    of even order where the entries are real.
    """
    vectors = rng.standard_normal((n_starts, n_features)).astype(values.dtype)
    if values.dtype.kind == "c":
        vectors += 1j * rng.standard_normal(vectors.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        for _ in range(_POWER_STEPS):
            vectors /= lengths(vectors, order)[:, None]
            slopes = contract_gradient(values, np.conj(vectors), order)
            inner = np.einsum("ia,ia->i", np.conj(vectors), slopes) / order
            vectors = slopes / leave_one_out(np.abs(vectors) ** 2, order - 1) / inner[:, None]
        vectors /= lengths(vectors, order)[:, None]
    vectors = vectors[np.isfinite(vectors).all(axis=1)]
    slopes = contract_gradient(values, np.conj(vectors), order)
    inner = np.einsum("ia,ia->i", np.conj(vectors), slopes) / order
    if values.dtype.kind == "f" and order % 2 == 0:
        vectors, inner = vectors[inner > 0], inner[inner > 0]
    places = np.abs(inner).argsort()[::-1]
    cosines = np.abs(power_inner_products(vectors, vectors, order)) / factorial(order)
    kept: list[int] = []
    for place in places.tolist():
        if np.abs(inner[place]) < _CLEAR * np.abs(inner[places[0]]):
            break
        if (cosines[place, kept] < _SIMILAR).all():
            kept.append(place)
    vectors, inner = vectors[kept], inner[kept]
    sizes = np.abs(inner)
    phases = inner / sizes
    roots = phases if values.dtype.kind == "f" else phases ** (1.0 / order)
    return vectors * (roots * sizes ** (1.0 / order))[:, None], sizes


def lengths(vectors: Array, order: int) -> Float:
    """The `order`-th root of ‖(x^{⊗m})_Ω‖ for each x, over index sets."""
    squares = elementary_symmetric(np.abs(vectors) ** 2, order)[order]
    return np.asarray(squares ** (0.5 / order))


def losses(factors: Array, order: int) -> Float:
    """Root of what ‖F − Σ q_i^{⊗m}‖² gains if a factor goes and the others' weights adapt.

    It is less than the norm of the power where powers are nearly dependent.
    """
    gram = power_inner_products(factors, factors, order) / factorial(order)
    inverse = linalg.pinvh(gram, check_finite=False)
    diagonal = np.maximum(np.real(np.diag(inverse)), np.finfo(float).tiny)
    return np.asarray(1.0 / np.sqrt(diagonal))


def noise_peak(residual_norm: float, n_entries: int, n_features: int, rank: int) -> float:
    """Size of the largest power in Gaussian noise that leaves a remainder of this norm."""
    free = max(n_entries - rank * n_features, 1)
    return _NOISE_PEAK * residual_norm * float(np.sqrt(n_features / free))

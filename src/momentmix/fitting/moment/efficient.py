"""Last steps of a moment fit: conditions weighted by their full covariance.

| symbol | name here | shape |
|---|---|---|
| C(θ): covariance of one row's monomials | ``Whitening(conditions, θ)`` | (n, n) |
| e = C^{-1/2} (observed − model) | ``residual`` | (n,) |
| W = C^{-1/2} ∂ model / ∂ θ | ``slopes`` | (n, n_parameters) |
| ‖e‖², the efficient criterion | ``cost`` | scalar |
| (WᵀW)⁻¹ / N = Cov θ̂ | ``Efficient.factor factorᵀ`` | (n_parameters, n_parameters) |

``polish.py`` divides each condition by its own noise, which is cheap. But the noises correlate
strongly, so that this criterion loses precision and can prefer a mixture that the test rejects.

*Instruments* combine all moments of degree 4 (``instruments.py``). The first round makes them at
the start, with the covariances that its moments can resolve, the second round at the answer of the
first. If the model is right, the efficient criterion of the start's conditions rises by about a χ²
with as many degrees of freedom as parameters at most (Hausman, 1978): after a larger rise, where
moments contradict each other, the answer is discarded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import Conditions
from momentmix.fitting.conditions.derivative import by_feature, derivative, gram
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.inference.whitening import Whitening
from momentmix.fitting.moment.instruments import CompleteMoments, Instruments
from momentmix.fitting.moment.polish import Bounds
from momentmix.fitting.moment.variances import resolvable
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters, dependent_places, parameters_from

_SUM_WEIGHT = 1e3  # of the condition Σ ω = 1, in units of one row's noise: it holds to 6 digits
_STEPS = 4  # before C is renewed: a step costs a fifth of a renewal
_DAMPINGS = (0.0, 1e-2, 1e-1, 1.0, 10.0)  # beside a diagonal of 1
TOLERANCE = 0.02  # of the statistic; a parameter then moves by a seventh of its standard error
_ROUNDS = 2  # of instruments: a third changes the fourth digit of the likelihood
_INSTRUMENT_STEPS = 6  # two or three are enough from a good start
_DRAWS = 10_000  # rows for the covariance of the instruments: its errors are a few percent
_CLEAR_RISE = 5.0  # standard deviations of the criterion's rise


class Whitens(Protocol):
    """A map of conditions to combinations of variance 1: `Whitening`, or instruments."""

    def whiten(self, columns: Float) -> Float:
        """Whitened combinations of conditions (n,) or (n, k)."""


class Efficient(NamedTuple):
    """Parameters, the whitening there, and a factor of their covariance, as `Parameters.flat`."""

    parameters: Parameters
    whitening: Whitening
    factor: Float


def efficient_polish(
    conditions: Conditions,
    start: Parameters,
    bounds: Bounds,
    n_effective: float,
    max_rounds: int,
    whitening: Whitening | None = None,
) -> Efficient:
    """Take Gauss–Newton steps on the efficient criterion, C renewed every few steps."""
    current = start.normalized()
    whitening = whitening or Whitening(conditions, current)
    least = _criterion(conditions, whitening, n_effective)
    for _ in range(max_rounds):
        moved, fallen = current, 0.0
        for _ in range(_STEPS):
            moved, _, gain = efficient_step(conditions, moved, bounds, whitening)
            fallen += gain
            if n_effective * gain < TOLERANCE:
                break
        if not fallen:
            break
        renewed = Whitening(conditions, moved)
        criterion = _criterion(conditions, renewed, n_effective)
        if criterion > least:
            break  # where the model is wrong, a step within one C can lead far away in the next
        current, whitening, least = moved, renewed, criterion
        if n_effective * fallen < TOLERANCE:
            break
    factor = factor_of_covariance(conditions, current, whitening, n_effective)
    return Efficient(current, whitening, factor)


def factor_of_covariance(
    conditions: Conditions, parameters: Parameters, whitening: Whitens, n_effective: float
) -> Float:
    """A factor of (WᵀW)⁻¹ / N, rows as `Parameters.flat`."""
    _, slopes = _linearized(conditions, parameters, whitening)
    order = by_feature(parameters)
    factor = np.empty((order.size, order.size))
    factor[order] = _inverse_root(slopes, parameters.n_components) / np.sqrt(n_effective)
    factor[dependent_places(parameters)] = 0.0
    return factor


def _criterion(conditions: Conditions, whitening: Whitening, n_effective: float) -> float:
    """−2 log of the normal density of the observed means, up to a constant."""
    residual = whitening.whiten(conditions.values - whitening.model)
    return n_effective * float(residual @ residual) + whitening.log_determinant


def efficient_step(
    conditions: Conditions,
    current: Parameters,
    bounds: Bounds,
    whitening: Whitens,
) -> tuple[Parameters, float, float]:
    """Parameters after one step, their cost, and how much it fell; bounds by projection."""
    r, order = current.n_components, by_feature(current)
    lower, upper = bounds.lower[order], bounds.upper[order]
    residual, slopes = _linearized(conditions, current, whitening)
    cost = float(residual @ residual)
    theta = np.clip(current.flat()[order], lower, upper)
    step = _step(residual, slopes, theta, lower, upper, r)
    for damping in _DAMPINGS:
        flat = np.empty_like(theta)
        flat[order] = np.clip(theta + step(damping), lower, upper)
        moved = bounds.within(parameters_from(flat, r, current.blocks).normalized())
        error = whitening.whiten(conditions.values - conditions.model(moved))
        moved_cost = float(error @ error)
        if moved_cost < cost:
            return moved, moved_cost, cost - moved_cost
    return current, cost, 0.0


def _linearized(
    conditions: Conditions, parameters: Parameters, whitening: Whitens
) -> tuple[Float, Float]:
    """Whitened residual, and whitened derivatives by feature."""
    residual = whitening.whiten(conditions.values - conditions.model(parameters))
    return residual, whitening.whiten(derivative(conditions, parameters).table())


def _step(
    residual: Float, slopes: Float, theta: Float, lower: Float, upper: Float, n_components: int
) -> Callable[[float], Float]:
    """The step as a function of the damping; parameters pushed out of their bounds stay."""
    gradient = slopes.T @ residual
    free = ~(((theta <= lower) & (gradient < 0)) | ((theta >= upper) & (gradient > 0)))
    normal = gram(slopes)
    normal[:n_components, :n_components] += _SUM_WEIGHT**2
    places = np.flatnonzero(free)
    scale = np.maximum(np.sqrt(np.diagonal(normal)[places]), 1e-150)
    scaled = normal[np.ix_(places, places)] / scale[:, None] / scale

    def damped(damping: float) -> Float:
        step = np.zeros_like(theta)
        matrix = scaled.copy()
        matrix[np.diag_indices_from(matrix)] += damping + 1e-10
        right = gradient[places] / scale
        try:
            step[places] = cho_solve(cho_factor(matrix, lower=True), right) / scale
        except LinAlgError:
            step[places] = np.linalg.lstsq(matrix, right, rcond=1e-10)[0] / scale
        return step

    return damped


def _inverse_root(slopes: Float, n_components: int) -> Float:
    """A root of (WᵀW)⁻¹ within Σ ω = 1; directions without information are bounded."""
    normal = gram(slopes)
    normal[:n_components, :n_components] += _SUM_WEIGHT**2
    scale = np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
    values, vectors = eigh(normal / scale[:, None] / scale)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-10))) / scale[:, None])


def instrumental_polish(
    moments: StandardMoments,
    tested: Conditions,
    start: Efficient,
    bounds: Bounds,
    rng: np.random.Generator,
) -> tuple[Parameters, Float] | None:
    """Parameters and a factor of their covariance; None where the model is in doubt."""
    n, complete = moments.n_effective, CompleteMoments(moments)
    conditions, solved, factor = complete.conditions, start.parameters, start.factor
    try:
        for _ in range(_ROUNDS):
            uncertainty = Uncertainty(solved, factor, on_log_scale=False)
            base = resolvable(solved, uncertainty, bounds.structure).normalized()
            instruments, solved = Instruments(complete, base), base
            for _ in range(_INSTRUMENT_STEPS):
                solved, _, gain = efficient_step(conditions, solved, bounds, instruments)
                if n * gain < TOLERANCE:
                    break
            factor = factor_of_covariance(conditions, solved, instruments, n)
        instruments.measure(gaussian.sample(base, _DRAWS, rng)[0])
        factor = factor_of_covariance(conditions, solved, instruments, n)
    except LinAlgError:
        return None
    most = solved.n_free + _CLEAR_RISE * np.sqrt(2 * solved.n_free)
    is_clear = n * _rise(tested, start, solved) > most or not np.isfinite(factor).all()
    return None if is_clear else (solved, factor)


def _rise(tested: Conditions, start: Efficient, solved: Parameters) -> float:
    """How much larger the efficient criterion of some conditions is than at their own answer."""
    before, after = (
        start.whitening.whiten(tested.values - tested.model(p)) for p in (start.parameters, solved)
    )
    return float(after @ after - before @ before)

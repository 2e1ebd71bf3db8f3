"""Last steps of a moment fit: conditions weighted by their full covariance.

| symbol | name here | shape |
|---|---|---|
| C(θ): covariance of one row's monomials | ``Whitening(conditions, θ)`` | (n, n) |
| e = C^{-1/2} (observed − model) | ``residual`` | (n,) |
| W = C^{-1/2} ∂ model / ∂ θ | ``slopes`` | (n, n_parameters) |
| ‖e‖², the efficient criterion | ``cost`` | scalar |
| (WᵀW)⁻¹ / N = Cov θ̂ | ``Efficient.uncertainty`` | (n_parameters, n_parameters) |

``polish.py`` divides each condition by its own noise, which is cheap. But the noises correlate
strongly, so that this criterion loses precision and can prefer a mixture that the test rejects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dtrtri

from momentmix._typing import Float
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.conditions import Conditions
from momentmix.fitting.moments.derivative import by_feature, derivative, gram
from momentmix.fitting.moments.polish import Bounds, damped_step
from momentmix.fitting.moments.whitening import Whitening
from momentmix.lazy import lazy_property
from momentmix.mixture.parameters import Parameters, dependent_places, parameters_from

SUM_WEIGHT = 1e3  # of the condition Σ ω = 1, in units of one row's noise: it holds to 6 digits
_STEPS = 4  # before C is renewed: a step costs a fifth of a renewal
# Of the criterion by parameter: after smaller falls the derivative is kept, and after falls of a
# share of that in all C is kept too. On average a fall of 1 moves parameters by a standard error.
_NEAR, _NO_RENEWAL = 1.0, 0.1
DAMPINGS = (0.0, 1e-2, 1e-1, 1.0, 10.0)  # beside a diagonal of 1
_DEPENDENT = 1e-4  # of a root's diagonal, where that of its square is 1
TOLERANCE = 0.02  # of the statistic; a parameter then moves by a seventh of its standard error


@dataclass(frozen=True)
class Efficient:
    """Parameters, and the whitening of the conditions there or within their standard errors."""

    parameters: Parameters
    whitening: Whitening
    n_effective: float

    @lazy_property
    def uncertainty(self) -> Uncertainty:
        """The parameters with their covariance (WᵀW)⁻¹ / N."""
        p, table = self.parameters, self.whitening.table
        factor = np.empty((p.n_places, p.n_places))
        normal = Linear.of(table, p.n_components).normal
        factor[by_feature(p)] = _inverse_root(normal) / np.sqrt(self.n_effective)
        factor[dependent_places(p)] = 0.0
        return Uncertainty(p, factor, on_log_scale=False)


class Linear(NamedTuple):
    """Whitened derivatives by feature, and their normal matrix within Σ ω = 1."""

    slopes: Float
    normal: Float

    @classmethod
    def of(cls, slopes: Float, n_components: int) -> Linear:
        """Return slopes with their normal matrix."""
        normal = gram(slopes)
        normal[:n_components, :n_components] += SUM_WEIGHT**2
        return cls(slopes, normal)


def efficient_polish(
    conditions: Conditions,
    start: Parameters,
    bounds: Bounds,
    n_effective: float,
    max_rounds: int,
    whitening: Whitening | None = None,
) -> Efficient:
    """Take Gauss–Newton steps on the efficient criterion, C renewed every few steps.

    Near the minimum neither the derivative nor C is renewed: within the errors of the parameters
    they change little.
    """
    current = start.normalized()
    whitening = whitening or Whitening(conditions, current)
    least = _criterion(conditions, whitening, n_effective)
    near = _NEAR * current.n_free / n_effective
    for _ in range(max_rounds):
        moved, fallen = current, 0.0
        linear: Linear | None = Linear.of(whitening.table, current.n_components)
        for _ in range(_STEPS):
            moved, _, gain = efficient_step(conditions, moved, bounds, whitening, linear)
            fallen += gain
            if n_effective * gain < TOLERANCE:
                break
            linear = linear if gain < near else None
        if fallen < _NO_RENEWAL * near:
            return Efficient(moved, whitening, n_effective)
        renewed = Whitening(conditions, moved)
        criterion = _criterion(conditions, renewed, n_effective)
        if criterion > least:
            break  # where the model is wrong, a step within one C can lead far away in the next
        current, whitening, least = moved, renewed, criterion
    return Efficient(current, whitening, n_effective)


def _criterion(conditions: Conditions, whitening: Whitening, n_effective: float) -> float:
    """−2 log of the normal density of the observed means, up to a constant."""
    residual = whitening.residual(conditions.values)
    return n_effective * float(residual @ residual) + whitening.log_determinant


def efficient_step(
    conditions: Conditions,
    current: Parameters,
    bounds: Bounds,
    whitening: Whitening,
    linear: Linear | None = None,
) -> tuple[Parameters, float, float]:
    """Parameters after one step, their cost, and how much it fell; bounds by projection.

    `linear` is what is known of the derivatives; they are found at the parameters otherwise.
    """
    r, order = current.n_components, by_feature(current)
    lower, upper = bounds.lower[order], bounds.upper[order]
    residual = whitening.whiten(conditions.values - conditions.model(current))
    if linear is None:
        linear = Linear.of(whitening.whiten(derivative(conditions, current).table), r)
    cost = float(residual @ residual)
    theta = np.clip(current.flat()[order], lower, upper)
    gradient = linear.slopes.T @ residual
    free = ~(((theta <= lower) & (gradient < 0)) | ((theta >= upper) & (gradient > 0)))
    for damping in DAMPINGS:
        flat = np.empty_like(theta)
        step = damped_step(linear.normal, gradient, damping, free)
        flat[order] = np.clip(theta + step, lower, upper)
        moved = bounds.within(parameters_from(flat, r, current.blocks).normalized())
        error = whitening.whiten(conditions.values - conditions.model(moved))
        moved_cost = float(error @ error)
        if moved_cost < cost:
            return moved, moved_cost, cost - moved_cost
    return current, cost, 0.0


def _inverse_root(normal: Float) -> Float:
    """A root of the inverse of a normal matrix; directions without information are bounded."""
    scale = np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
    normal = normal / scale[:, None] / scale
    triangle, failed = dpotrf(normal, lower=1, clean=1)
    if not failed and np.diagonal(triangle).min() > _DEPENDENT:
        return np.asarray(dtrtri(triangle, lower=1)[0].T / scale[:, None])
    values, vectors = eigh(normal)
    return np.asarray((vectors / np.sqrt(np.maximum(values, 1e-10))) / scale[:, None])

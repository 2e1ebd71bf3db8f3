"""Weights, means and variances together: Levenberg–Marquardt on moment conditions.

| paper symbol | name here | shape |
|---|---|---|
| ρ = (observed − model) / noise | ``residual`` | (n,) |
| JᵀJ, Jᵀρ with J = −∂ρ/∂θ | ``normal``, ``gradient`` | (n_parameters, n_parameters), … |
| ‖ρ‖² | ``Polished.cost`` | scalar |

Bounds (weights ≥ 0, means within the data, variances ≥ a floor) are kept by projection: a parameter
that sits on its bound and is pushed outwards is left out of the step.

Differs from the paper: (prob:nls-w mu) is solved there for orders m and t by a general solver.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from momentmix.fitting.conditions.conditions import Conditions, Parameters, parameters_from
from momentmix.fitting.conditions.derivative import by_feature, derivative
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.parallel import all_threads

Float = NDArray[np.float64]

__all__ = ["Bounds", "Polished", "polish"]


@dataclass(frozen=True)
class Bounds:
    """Box that holds the parameters of standardized features."""

    low: Float
    high: Float
    variance_floor: Float

    @classmethod
    def of(cls, moments: StandardMoments, floor: float) -> Bounds:
        """Means within the data; variances from the floor to the largest that the range allows."""
        low = (moments.minimum - moments.shift) / moments.scale
        high = (moments.maximum - moments.shift) / moments.scale
        return cls(low, high, np.full(moments.n_features, floor))

    def flat(self, n_components: int) -> tuple[Float, Float]:
        """Lower and upper bounds of `Parameters.flat`."""
        r = n_components
        lower = np.concatenate(
            [np.full(r, 1e-9), np.tile(self.low, r), np.tile(self.variance_floor, r)]
        )
        widest = np.maximum((self.high - self.low) ** 2, self.variance_floor)
        upper = np.concatenate([np.ones(r), np.tile(self.high, r), np.tile(widest, r)])
        return lower, upper


@dataclass(frozen=True)
class Polished:
    """Where the iteration ended: parameters, ‖ρ‖², number of steps, damping of the next."""

    parameters: Parameters
    cost: float
    n_steps: int
    damping: float


def polish(
    conditions: Conditions,
    start: Parameters,
    bounds: Bounds,
    noise: Float,
    max_steps: int = 50,
    with_variances: bool = True,
    tolerance: float = 0.01,
    damping: float = 1e-3,
    patience: float = 0.0,
) -> Polished:
    """Minimize Σ ((observed − model) / noise)².

    Parameters
    ----------
    conditions : Conditions
    start : Parameters
    bounds : Bounds
    noise : array of shape (n,)
        Standard error of each observed mean; the weights' sum 1 is the condition of order 0.
    max_steps : int
        Accepted steps at most.
    with_variances : bool
        Whether the variances move too.
    tolerance : float
        Stop when the cost falls by less than this in a nearly undamped step. The cost is a χ²: a
        fall of 0.01 moves no parameter by more than a tenth of its standard error.
    damping : float
        Of the first step; small where the start is close to the minimum.
    patience : float
        Stop too when three steps one after the other lower the cost by less than this share of it.
    """
    r, d = start.means.shape
    order = by_feature(r, d)
    moving = order.size if with_variances else order.size - start.variances.size
    lower, upper = (bound[order] for bound in bounds.flat(r))
    theta = np.clip(start.flat()[order], lower, upper)
    current = _parameters(theta, order, r)
    residual = (conditions.values - conditions.model(current)) / noise
    cost, steps = float(residual @ residual), 0
    resting, fall, slow = False, 10.0, 0
    while steps < max_steps and not resting and slow < 3:
        slope = derivative(conditions, current, noise)
        gradient = slope.transposed_times(residual, with_variances)
        x, lo, hi = theta[:moving], lower[:moving], upper[:moving]
        free = ~(((x <= lo) & (gradient < 0)) | ((x >= hi) & (gradient > 0)))
        normal = slope.normal_matrix(with_variances)
        diagonal = np.diagonal(normal).copy()
        diagonal += 1e-12 * diagonal.max()
        accepted, before = False, damping
        for _ in range(12):
            step = _damped_step(normal, gradient, diagonal * damping, free)
            trial = theta.copy()
            trial[:moving] = np.clip(x + step, lo, hi)
            parameters = _parameters(trial, order, r)
            new_residual = (conditions.values - conditions.model(parameters)) / noise
            new_cost = float(new_residual @ new_residual)
            if new_cost < cost:
                accepted = True
                break
            damping *= 4.0
            fall = 4.0  # the limit is near: approach it in smaller steps from now on
        if not accepted:
            break
        # Heavy damping makes any step small; only nearly undamped ones tell that the end is near.
        resting = cost - new_cost < tolerance and damping < 1e-6
        # Less damping where the quadratic picture foretold the gain and no try failed.
        made = trial[:moving] - x
        foretold = float(made @ (2.0 * gradient - normal @ made))
        if damping == before and cost - new_cost > 0.5 * foretold:
            damping = max(damping / fall, 1e-9)
        slow = slow + 1 if cost - new_cost < patience * cost else 0
        theta, current, residual, cost = trial, parameters, new_residual, new_cost
        steps += 1
    return Polished(current, cost, steps, damping)


def _parameters(theta: Float, order: NDArray[np.int64], n_components: int) -> Parameters:
    """Parameters from a vector ordered by feature."""
    flat = np.empty_like(theta)
    flat[order] = theta
    return parameters_from(flat, n_components)


def _damped_step(normal: Float, gradient: Float, damping: Float, free: NDArray[np.bool_]) -> Float:
    step = np.zeros_like(gradient)
    part = np.flatnonzero(free)
    matrix = normal.copy() if part.size == free.size else normal[np.ix_(part, part)]
    matrix[np.diag_indices_from(matrix)] += damping[part]
    with all_threads(part.size):
        # Symmetric, so the transpose serves, which LAPACK can overwrite.
        _, solved, failed = dposv(matrix.T, gradient[part], lower=1, overwrite_a=1)
    if failed:
        matrix = normal[np.ix_(part, part)] + np.diag(damping[part])
        solved = np.linalg.lstsq(matrix, gradient[part], rcond=None)[0]
    step[part] = solved
    return step

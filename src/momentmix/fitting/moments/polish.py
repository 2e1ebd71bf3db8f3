"""Weights, means and variances together: Levenberg–Marquardt on moment conditions.

| paper symbol | name here | shape |
|---|---|---|
| ρ = (observed − model) / noise | ``residual`` | (n,) |
| JᵀJ, Jᵀρ with J = −∂ρ/∂θ | ``normal``, ``gradient`` | (n_parameters, n_parameters), … |
| ‖ρ‖² | ``Polished.cost`` | scalar |

Bounds (weights ≥ 0, means within the data, variances ≥ a floor) are kept by projection: a parameter
that is on its bound and is pushed outwards is left out of the step. Covariances of joined features
are projected onto the positive definite ones.

``tensor/gauss_newton.py`` has a loop of its own: it runs without bounds to the limit of double
precision, while this one stops where the noise of the moments makes further digits meaningless.

Differs from the paper: (prob:nls-w mu) is solved there for orders m and t by a general solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from momentmix._typing import Float
from momentmix.fitting.moments.conditions import Conditions
from momentmix.fitting.moments.derivative import by_feature, derivative
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.parameters import Parameters, parameters_from
from momentmix.mixture.prior import Structure
from momentmix.parallel import all_threads

_MOST_TRIALS = 12  # fourfold damping each time: a step 10⁷ times shorter that fails is no descent


class Bounds(NamedTuple):
    """Bounds of `Parameters.flat`, and what covariances of joined features may be."""

    lower: Float
    upper: Float
    structure: Structure

    def within(self, parameters: Parameters) -> Parameters:
        """The parameters with covariances that are allowed; bounds of each are kept already."""
        return parameters if self.structure.is_diagonal else self.structure.raised(parameters)


def parameter_bounds(
    moments: StandardMoments, structure: Structure | float, n_components: int
) -> Bounds:
    """Bounds of the parameters; a number as structure is the least variance.

    Means lie within the data, variances between the floor and the largest that the range allows. No
    component is lighter than d + 1 rows: a lighter one could be as wide as it takes for any moments
    to pass for noise. Covariances are bounded by the variances.
    """
    structure = structure if isinstance(structure, Structure) else Structure(structure)
    r, (low, high) = n_components, moments.standard_range
    lightest = min((low.size + 1) / moments.n_effective, 0.1 / r)
    least = np.broadcast_to(structure.floor, low.size)
    largest = np.maximum((high - low) ** 2, least)
    widest = np.zeros(0)
    if structure.blocks is not None:
        j, k = structure.blocks.pairs.T
        widest = np.sqrt(largest[j] * largest[k])
    lower = [np.full(r, lightest), np.tile(low, r), np.tile(least, r), np.tile(-widest, r)]
    upper = [np.ones(r), np.tile(high, r), np.tile(largest, r), np.tile(widest, r)]
    return Bounds(np.concatenate(lower), np.concatenate(upper), structure)


class Stopping(NamedTuple):
    """When a polish ends: after so many accepted steps, or as follows.

    The cost falls by less than `tolerance` in a nearly undamped step (it is a χ²: a fall of 0.01
    moves no parameter by more than a tenth of its standard error); or three steps in a row lower it
    by less than the share `patience`.
    """

    max_steps: int = 50
    tolerance: float = 0.01
    patience: float = 0.0


@dataclass(frozen=True)
class Polished:
    """Where the iteration ended: parameters, ‖ρ‖², its noise, and the damping of the next step."""

    parameters: Parameters
    cost: float
    noise: Float
    damping: float


def polish(
    conditions: Conditions,
    start: Parameters,
    bounds: Bounds,
    noise: Float,
    stopping: Stopping,
    with_variances: bool = True,
    damping: float = 1e-3,
) -> Polished:
    """Minimize Σ ((observed − model) / noise)², with or without the variances.

    `noise` are standard errors of the observed means, (n,); the sum 1 of the weights is the
    condition of order 0. `damping` is that of the first step, small where the start is close.
    """
    order = by_feature(start)
    moving = order.size if with_variances else order.size - start.spread.size
    lower, upper = bounds.lower[order], bounds.upper[order]
    theta = np.clip(start.flat()[order], lower, upper)
    current = _parameters(theta, order, start)
    residual = (conditions.values - conditions.model(current)) / noise
    cost = float(residual @ residual)
    n_steps, n_slow, at_rest = 0, 0, False
    decrease = 10.0  # of the damping after a good step
    while n_steps < stopping.max_steps and n_slow < 3 and not at_rest:
        slope = derivative(conditions, current, noise, with_variances)
        gradient = slope.table.T @ residual
        x, low, high = theta[:moving], lower[:moving], upper[:moving]
        free = ~(((x <= low) & (gradient < 0)) | ((x >= high) & (gradient > 0)))
        normal = slope.normal_matrix()
        first_damping = damping
        for _ in range(_MOST_TRIALS):
            step = damped_step(normal, gradient, damping, free)
            trial = theta.copy()
            trial[:moving] = np.clip(x + step, low, high)
            parameters = _parameters(trial, order, start)
            if with_variances and not start.blocks.is_diagonal:
                parameters = bounds.within(parameters)
                trial = parameters.flat()[order]
            new_residual = (conditions.values - conditions.model(parameters)) / noise
            new_cost = float(new_residual @ new_residual)
            if new_cost < cost:
                break
            damping *= 4.0
            decrease = 4.0  # the limit is near: approach it in smaller steps from now on
        else:
            break  # no trial lowered the cost
        gain = cost - new_cost
        # Heavy damping makes any step small; only nearly undamped ones tell that the end is near.
        at_rest = gain < stopping.tolerance and damping < 1e-6
        # Less damping where the quadratic model predicted the gain and no trial failed.
        taken = trial[:moving] - x
        predicted = float(taken @ (2.0 * gradient - normal @ taken))
        if damping == first_damping and gain > 0.5 * predicted:
            damping = max(damping / decrease, 1e-9)
        n_slow = n_slow + 1 if gain < stopping.patience * cost else 0
        theta, current, residual, cost = trial, parameters, new_residual, new_cost
        n_steps += 1
    return Polished(current, cost, noise, damping)


def _parameters(theta: Float, order: NDArray[np.int64], like: Parameters) -> Parameters:
    """Parameters from a vector ordered by feature."""
    flat = np.empty_like(theta)
    flat[order] = theta
    return parameters_from(flat, like.n_components, like.blocks)


def damped_step(normal: Float, gradient: Float, damping: float, free: NDArray[np.bool_]) -> Float:
    """A step with a damping beside a diagonal of 1; parameters that are not free stay."""
    places = np.flatnonzero(free)
    step = np.zeros_like(gradient)
    matrix = normal if places.size == gradient.size else normal[np.ix_(places, places)]
    # A parameter that no condition names is damped too.
    least = 1e-12 * np.diagonal(matrix).max(initial=1e-288)
    scale = np.sqrt(np.maximum(np.diagonal(matrix), least))
    matrix = matrix / scale[:, None]
    matrix /= scale
    diagonal = np.diagonal(matrix) + damping + 1e-10
    np.fill_diagonal(matrix, diagonal)
    right = gradient[places] / scale
    with all_threads(places.size):
        # Symmetric, so the transpose is the same matrix, in an order that LAPACK can overwrite.
        _, solved, failed = dposv(matrix.T, right, lower=1, overwrite_a=1)
    if failed:
        lower = np.tril(matrix, -1)  # LAPACK has overwritten the rest
        matrix = lower + lower.T + np.diag(diagonal)
        solved = np.linalg.lstsq(matrix, right, rcond=1e-10)[0]
    step[places] = solved / scale
    return step

"""Weights, means and variances together: least squares on moment conditions, within bounds.

| paper symbol | name here | shape |
|---|---|---|
| ρ = (observed − model) / noise, or e = C^{-1/2} (observed − model) | ``residual`` | (n,) |
| J = ∂ model / ∂ θ in the same units, JᵀJ | `Linear` | (n, n_parameters), … |
| ‖ρ‖²; ‖e‖², the efficient criterion | ``cost`` | scalar |
| C(θ): covariance of one row's conditions | ``Whitening(conditions, θ)`` | (n, n) |
| (JᵀJ)⁻¹ / N = Cov θ̂ where the conditions are whitened | ``Efficient.uncertainty`` | |

`polish` takes steps of Levenberg and Marquardt and divides each condition by its own noise, which
is cheap. But the noises correlate strongly, so that this criterion loses precision and can prefer a
mixture that the test rejects. `efficient_polish` takes the last steps with the full covariance C.

Bounds (weights ≥ 0, means within the data, variances ≥ a floor) are kept by projection: a parameter
that is on its bound and is pushed outwards is left out of the step. Covariances of joined features
are projected onto the positive definite ones.

Differs from the paper: (prob:nls-w mu) is solved there for orders m and t by a general solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from momentmix._typing import Float
from momentmix.fitting.inference.uncertainty import Uncertainty, inverse_root
from momentmix.fitting.moments.conditions import Conditions
from momentmix.fitting.moments.derivative import by_feature, derivative, gram, normal_matrix
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.moments.whitening import Whitening
from momentmix.lazy import lazy_property
from momentmix.mixture.parameters import Parameters, dependent_places, parameters_from
from momentmix.mixture.prior import Structure
from momentmix.parallel import all_threads

_MOST_TRIALS = 12  # fourfold damping each time: a step 10⁷ times shorter that fails is no descent
_SUM_WEIGHT = 1e3  # of the condition Σ ω = 1, in units of one row's noise: it holds to 6 digits
_STEPS = 4  # before C is renewed: a step costs a fifth of a renewal
# Of the criterion by parameter: after smaller falls the derivative is kept, and after falls of a
# share of that in all C is kept too. On average a fall of 1 moves parameters by a standard error.
_NEAR, _NO_RENEWAL = 1.0, 0.1
_DAMPINGS = (0.0, 1e-2, 1e-1, 1.0, 10.0)  # beside a diagonal of 1
_TOLERANCE = 0.02  # of the statistic; a parameter then moves by a seventh of its standard error
_RIDGE = 1e-13  # of a normal matrix of diagonal 1: directions without information are bounded


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


class Linear(NamedTuple):
    """Derivatives of the conditions by feature, in the units of the residual, and JᵀJ."""

    slopes: Float
    normal: Float

    @classmethod
    def whitened(cls, slopes: Float, n_components: int) -> Linear:
        """Return whitened slopes with their normal matrix within Σ ω = 1."""
        normal = gram(slopes)
        normal[:n_components, :n_components] += _SUM_WEIGHT**2
        return cls(slopes, normal)

    def stepped(
        self, theta: Float, gradient: Float, damping: float, low: Float, high: Float
    ) -> Float:
        """Parameters after a step, clipped to their bounds."""
        free = ~(((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0)))
        return np.clip(theta + _damped_step(self.normal, gradient, damping, free), low, high)


class Stopping(NamedTuple):
    """When a polish ends: after so many accepted steps, or as follows.

    The cost falls by less than `tolerance` in a nearly undamped step (it is a χ²: a fall of 0.01
    moves no parameter by more than a tenth of its standard error); or three steps in a row lower it
    by less than the share `patience`.
    """

    max_steps: int = 50
    tolerance: float = 0.01
    patience: float = 0.0


class Polished(NamedTuple):
    """Where the iteration ended: parameters, ‖ρ‖², and the damping of the next step."""

    parameters: Parameters
    cost: float
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
    order, r, blocks = by_feature(start), start.n_components, start.blocks
    moving = order.size if with_variances else order.size - start.spread.size
    low, high = bounds.lower[order][:moving], bounds.upper[order][:moving]
    theta = np.clip(start.flat()[order], bounds.lower[order], bounds.upper[order])
    current = parameters_from(theta[np.argsort(order)], r, blocks)
    residual = (conditions.values - conditions.model(current)) / noise
    cost = float(residual @ residual)
    n_steps, n_slow, at_rest = 0, 0, False
    decrease = 10.0  # of the damping after a good step
    while n_steps < stopping.max_steps and n_slow < 3 and not at_rest:
        slopes = derivative(conditions, current, noise, with_variances)
        linear = Linear(slopes, normal_matrix(slopes, r))
        gradient, first_damping = slopes.T @ residual, damping
        for _ in range(_MOST_TRIALS):
            trial = theta.copy()
            trial[:moving] = linear.stepped(theta[:moving], gradient, damping, low, high)
            parameters = parameters_from(trial[np.argsort(order)], r, blocks)
            if with_variances and not blocks.is_diagonal:
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
        taken = (trial - theta)[:moving]
        predicted = float(taken @ (2.0 * gradient - linear.normal @ taken))
        if damping == first_damping and gain > 0.5 * predicted:
            damping = max(damping / decrease, 1e-9)
        n_slow = n_slow + 1 if gain < stopping.patience * cost else 0
        theta, current, residual, cost = trial, parameters, new_residual, new_cost
        n_steps += 1
    return Polished(current, cost, damping)


def _damped_step(normal: Float, gradient: Float, damping: float, free: NDArray[np.bool_]) -> Float:
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


# -- the efficient criterion ----------------------------------------------------------------------


@dataclass(frozen=True)
class Efficient:
    """Parameters, and the whitening of the conditions there or within their standard errors."""

    parameters: Parameters
    whitening: Whitening
    n_effective: float

    @lazy_property
    def uncertainty(self) -> Uncertainty:
        """The parameters with their covariance (JᵀJ)⁻¹ / N."""
        p = self.parameters
        normal = Linear.whitened(self.whitening.table, p.n_components).normal
        scale = np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
        root = inverse_root(normal / scale[:, None] / scale, _RIDGE)
        factor = np.empty((p.n_places, p.n_places))
        factor[by_feature(p)] = root / scale[:, None] / np.sqrt(self.n_effective)
        factor[dependent_places(p)] = 0.0
        return Uncertainty(p, factor, on_log_scale=False)


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
        linear: Linear | None = Linear.whitened(whitening.table, current.n_components)
        for _ in range(_STEPS):
            moved, _, gain = efficient_step(conditions, moved, bounds, whitening, linear)
            fallen += gain
            if n_effective * gain < _TOLERANCE:
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
    low, high = bounds.lower[order], bounds.upper[order]
    residual = whitening.whiten(conditions.values - conditions.model(current))
    if linear is None:
        linear = Linear.whitened(whitening.whiten(derivative(conditions, current)), r)
    cost, theta = float(residual @ residual), np.clip(current.flat()[order], low, high)
    gradient = linear.slopes.T @ residual
    for damping in _DAMPINGS:
        stepped = linear.stepped(theta, gradient, damping, low, high)[np.argsort(order)]
        moved = bounds.within(parameters_from(stepped, r, current.blocks).normalized())
        error = whitening.whiten(conditions.values - conditions.model(moved))
        moved_cost = float(error @ error)
        if moved_cost < cost:
            return moved, moved_cost, cost - moved_cost
    return current, cost, 0.0

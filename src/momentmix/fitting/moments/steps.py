"""Weights, means and variances together: least squares on moment conditions, within bounds.

| paper symbol | name here | shape |
|---|---|---|
| e = C^{-1/2} (observed − model), or divided by each condition's own noise | ``residual`` | (n,) |
| J = ∂ model / ∂ θ in the same units, JᵀJ | `Linear` | (n, n_parameters), … |
| ‖e‖² | ``cost`` | scalar |
| C(θ): covariance of one row's conditions | ``Whitening(conditions, θ)`` | (n, n) |
| (JᵀJ)⁻¹ / N = Cov θ̂ where the conditions are whitened | ``Efficient.uncertainty`` | |

`polish` divides each condition by its own noise, which is cheap. But the noises correlate strongly,
so that this criterion loses precision and can prefer a mixture that the test rejects.
`efficient_polish` takes the last steps with the full covariance C.

Steps are those of Gauss and Newton, damped where they do not lower the cost. Bounds (weights ≥ 0,
means within the data, variances ≥ a floor) are kept by projection: a parameter that is on its bound
and is pushed outwards is left out of the step. Covariances of joined features are projected onto
the positive definite ones. The weights sum to 1 after every step.

Differs from the paper: (prob:nls-w mu) is solved there for orders m and t by a general solver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from momentmix._typing import Float
from momentmix.fitting.inference.uncertainty import Uncertainty, inverse_root
from momentmix.fitting.moments.conditions import Conditions
from momentmix.fitting.moments.derivative import derivative, gram
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.moments.whitening import Whitening
from momentmix.lazy import lazy_property
from momentmix.mixture.parameters import Parameters, dependent_places, parameters_from
from momentmix.mixture.prior import Structure
from momentmix.parallel import all_threads

_SUM_WEIGHT = 1e3  # of the condition Σ ω = 1, in units of one row's noise: it holds to 6 digits
_STEPS = 4  # before C is renewed: a step costs a fifth of a renewal
# Of the criterion by parameter: after smaller falls the derivative is kept, and after falls of a
# share of that in all C is kept too. On average a fall of 1 moves parameters by a standard error.
_NEAR, _NO_RENEWAL = 1.0, 0.1
# Of `polish`, beside a diagonal of 1: a step 10⁷ times shorter that fails is no descent.
_FIRST_DAMPING, _HARDLY, _MOST_TRIALS = 1e-3, 1e-6, 12
_ROUGH = 0.5  # of N times the cost, while the noise is renewed or rounds compete
_PATIENCE = 1e-3  # share of the cost
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


class Noise:
    """Units of conditions that are taken as independent: their standard deviations, (n,)."""

    def __init__(self, scale: Float) -> None:
        self.scale = scale

    def whiten(self, columns: Float) -> Float:
        """Divide conditions, in the first axis, by their noise."""
        return columns / (self.scale[:, None] if columns.ndim > 1 else self.scale)


class Linear(NamedTuple):
    """Derivatives of the conditions in the units of the residual, and JᵀJ within Σ ω = 1."""

    slopes: Float
    normal: Float

    @classmethod
    def of(cls, table: Float, n_components: int) -> Linear:
        """Return derivatives in their units with their normal matrix."""
        normal, r = gram(table), n_components
        normal[:r, :r] += _SUM_WEIGHT**2
        return cls(table, normal)


class Step(NamedTuple):
    """Parameters after a step, their cost, how much it fell, and the damping.

    `is_predicted`: whether the cost fell by half of what its quadratic model says, or more.
    """

    parameters: Parameters
    cost: float
    gain: float
    damping: float
    is_predicted: bool


def step(
    conditions: Conditions,
    current: Parameters,
    bounds: Bounds,
    units: Whitening | Noise,
    linear: Linear | None = None,
    dampings: Sequence[float] = (0.0, 1e-2, 1e-1, 1.0, 10.0),
) -> Step:
    """Take one step that lowers the cost, if there is one; bounds are kept by projection.

    `linear` is what is known of the derivatives; they are found at the parameters otherwise.
    `dampings`, beside a diagonal of 1, are tried one after the other.
    """
    r, (low, high, _) = current.n_components, bounds
    residual = units.whiten(conditions.values - conditions.model(current))
    if linear is None:
        linear = Linear.of(units.whiten(derivative(conditions, current)), r)
    cost, theta = float(residual @ residual), np.clip(current.flat(), low, high)
    gradient = linear.slopes.T @ residual
    free = ~(((theta <= low) & (gradient < 0)) | ((theta >= high) & (gradient > 0)))
    for damping in dampings:
        change = _damped_step(linear.normal, gradient, damping, free)
        stepped = parameters_from(np.clip(theta + change, low, high), r, current.blocks)
        moved = bounds.within(stepped.normalized())
        error = units.whiten(conditions.values - conditions.model(moved))
        moved_cost = float(error @ error)
        if moved_cost < cost:
            taken, gain = moved.flat() - theta, cost - moved_cost
            predicted = float(taken @ (2.0 * gradient - linear.normal @ taken))
            return Step(moved, moved_cost, gain, damping, gain > 0.5 * predicted)
    return Step(current, cost, 0.0, np.inf, False)


def polish(
    conditions: Conditions,
    start: Parameters,
    bounds: Bounds,
    noise: Float,
    n_effective: float,
    max_steps: int,
    damping: float = _FIRST_DAMPING,
) -> tuple[Parameters, float]:
    """Take steps on Σ ((observed − model) / noise)², with the noise of one row, (n,).

    The damping follows Levenberg and Marquardt. Steps end where a nearly undamped one lowers N
    times the cost, a χ², by less than a half, or three in a row lower it by a small share: a slow
    start is left to the next round's candidates. The damping of a next step is returned too.
    """
    current, n_slow, decrease = start.normalized(), 0, 10.0
    for _ in range(max_steps):
        dampings = damping * 4.0 ** np.arange(_MOST_TRIALS)
        found = step(conditions, current, bounds, Noise(noise), dampings=dampings.tolist())
        current, cost, gain, used, is_predicted = found
        # Heavy damping makes any step small; only nearly undamped ones tell that the end is near.
        is_at_rest = n_effective * gain < _ROUGH and used < _HARDLY
        n_slow = n_slow + 1 if gain < _PATIENCE * (cost + gain) else 0
        if gain == 0.0 or is_at_rest or n_slow == 3:
            break
        if used > damping:
            damping, decrease = used, 4.0  # the limit is near: approach it in smaller steps
        elif is_predicted:
            damping = max(damping / decrease, 1e-9)
    return current, damping


def _damped_step(normal: Float, gradient: Float, damping: float, free: NDArray[np.bool_]) -> Float:
    """A step with a damping beside a diagonal of 1; parameters that are not free stay."""
    places = np.flatnonzero(free)
    change = np.zeros_like(gradient)
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
    change[places] = solved / scale
    return change


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
        normal = Linear.of(self.whitening.table, p.n_components).normal
        scale = np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
        root = inverse_root(normal / scale[:, None] / scale, _RIDGE)
        factor = root / scale[:, None] / np.sqrt(self.n_effective)
        factor[dependent_places(p)] = 0.0
        return Uncertainty(p, factor)


def efficient_polish(
    conditions: Conditions,
    start: Parameters,
    bounds: Bounds,
    n_effective: float,
    max_rounds: int,
    whitening: Whitening | None = None,
) -> Efficient:
    """Take steps on the efficient criterion, C renewed every few steps.

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
            moved, _, gain, *_ = step(conditions, moved, bounds, whitening, linear)
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

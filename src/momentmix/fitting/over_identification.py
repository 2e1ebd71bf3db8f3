"""Is the model wrong? A test of more moment conditions than parameters.

| paper symbol | name here | shape |
|---|---|---|
| ρ = observed − model | ``residual`` | (n,) |
| C: covariance of one row's monomials | from `monomial_covariance` | (n, n) |
| G: ∂ model / ∂ θ within Σ ω = 1 | ``jacobian`` | (n, n_parameters) |
| e = (I − P_G) C^{-1/2} ρ | ``remainder`` | (n,) |
| N‖e‖² ~ χ²(n − rank G) | ``statistic`` | scalar |

Projecting the whitened Jacobian out makes the test valid for any estimate within 1/√N of the truth,
whether it minimised these conditions or not: an error of the parameters moves ρ along G only.

Effect size: √(max(N‖e‖² − dof, 0) / (dof·N)), the root mean square misfit of a condition in units
of one row's standard deviation, free of N. Real data is never exactly a product mixture, so with
many rows every test rejects; the effect size says whether that matters.

With few rows the means of cubes are far from normal; the statistic's mean and variance then come
from a parametric bootstrap.

Differs from the paper: the paper has no such step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.stats import chi2, gamma

from momentmix.core.labels import index_sets
from momentmix.core.standard_moments import StandardMoments
from momentmix.fitting.conditions import Conditions, Parameters, build_conditions
from momentmix.fitting.monomial_covariance import monomial_covariance

Float = NDArray[np.float64]

__all__ = ["Correlation", "OverIdentification", "check_conditions"]

MOST_CONDITIONS = 2000
WITH_ORDER_4 = 1200  # conditions in all where a part of order 4 is taken in
ORDER_4_FROM = 1e4  # rows
BOOTSTRAP_BELOW = 3000
_BOOTSTRAP_DRAWS = 39


@dataclass(frozen=True)
class Correlation:
    """Correlation of two features within components, estimated from the residual."""

    first: int
    second: int
    value: float
    deviates: float


@dataclass(frozen=True)
class OverIdentification:
    """Result of the test."""

    statistic: float
    degrees_of_freedom: int
    p_value: float
    effect_size: float
    bootstrapped: bool
    condition_number: float
    correlations: list[Correlation]

    @property
    def overdispersed_model(self) -> bool:
        """Whether the moments agree too well: the model allows for far more noise than there is."""
        return (
            self.testable
            and not self.bootstrapped
            and float(chi2.cdf(self.statistic, self.degrees_of_freedom)) < 1e-6
        )

    @property
    def testable(self) -> bool:
        """Whether there are more conditions than parameters."""
        return self.degrees_of_freedom > 0


def check_conditions(
    moments: StandardMoments,
    parameters: Parameters,
    rng: np.random.Generator,
    bootstrap: bool = True,
) -> OverIdentification:
    """Test a mixture of standardised features against the moments.

    `bootstrap` allows the parametric bootstrap where rows are few; without it the χ² law is used.
    """
    conditions = _choose_conditions(moments, parameters, rng)
    frame = _Frame(conditions, parameters)
    dof = frame.degrees_of_freedom
    if dof <= 0:
        return OverIdentification(
            0.0, 0, float("nan"), float("nan"), False, frame.condition_number, []
        )
    n = moments.n_effective
    remainder = frame.remainder(conditions.values)
    statistic = n * float(remainder @ remainder)
    bootstrapped = bootstrap and n < BOOTSTRAP_BELOW
    if bootstrapped:
        p_value, centre = _bootstrap(frame, conditions, parameters, int(n), statistic, rng)
    else:
        p_value, centre = float(chi2.sf(statistic, dof)), float(dof)
    effect = float(np.sqrt(max(statistic - centre, 0.0) / (dof * n)))
    correlations = _correlations(frame, conditions, parameters, remainder, n)
    return OverIdentification(
        statistic, dof, p_value, effect, bootstrapped, frame.condition_number, correlations
    )


def _choose_conditions(
    moments: StandardMoments, parameters: Parameters, rng: np.random.Generator
) -> Conditions:
    """Orders up to 3; a part of order 4 too where rows are many or little would be left to test.

    Order 4 is what tells a pair of components from a correlation within one: both give the same
    moments up to order 3. With fewer rows its means are too far from normal.
    """
    r, d = parameters.means.shape
    # The covariance costs about n²·basis·r; stay within a second of arithmetic.
    limit = int(min(MOST_CONDITIONS, (3e10 / r) ** (1 / 3)))
    n_parameters = r * (2 * d + 1) - 1
    conditions = build_conditions(moments, 3, 1, limit=limit, rng=rng)
    scarce = conditions.size - 1 < 1.1 * n_parameters + 5
    if scarce:
        limit = int(min(MOST_CONDITIONS, max(limit, 1.5 * n_parameters)))
    elif moments.n_effective >= ORDER_4_FROM:
        limit = min(limit, max(WITH_ORDER_4, int(1.2 * conditions.size)))
    if scarce or moments.n_effective >= ORDER_4_FROM:
        conditions = build_conditions(moments, 4, 2, limit=limit, rng=rng)
    return conditions.subset(np.arange(1, conditions.size))


class _Frame:
    """Whitening and projection for one set of conditions and parameters."""

    def __init__(self, conditions: Conditions, parameters: Parameters) -> None:
        covariance = monomial_covariance(conditions, parameters)
        self.model = conditions.model(parameters)
        self.scale = np.sqrt(np.maximum(np.diagonal(covariance), 1e-12))
        correlation = covariance / self.scale[:, None] / self.scale
        correlation[np.diag_indices_from(correlation)] += 1e-9
        self.triangle = cholesky(correlation, lower=True, check_finite=False)
        jacobian = _tangent(conditions.jacobian(parameters), parameters.n_components)
        whitened = self.whiten(jacobian)
        whitened /= np.maximum(np.linalg.norm(whitened, axis=0), 1e-300)
        left, values, _ = np.linalg.svd(whitened, full_matrices=False)
        self.basis = left[:, values > 1e-6 * values[0]]
        # One direction is null by construction (the weights' sum); the next tells the condition.
        inner = values[: max(1, jacobian.shape[1] - 1)]
        self.condition_number = float(values[0] / max(inner[-1], 1e-300))
        self.degrees_of_freedom = conditions.size - self.basis.shape[1]

    def whiten(self, columns: Float) -> Float:
        scaled = (columns.T / self.scale).T
        return np.asarray(solve_triangular(self.triangle, scaled, lower=True, check_finite=False))

    def project(self, whitened: Float) -> Float:
        return np.asarray(whitened - self.basis @ (self.basis.T @ whitened))

    def remainder(self, values: Float) -> Float:
        return self.project(self.whiten(values - self.model))


def _tangent(jacobian: Float, n_components: int) -> Float:
    """Columns of the weights within Σ ω = 1."""
    by_weight = jacobian[:, :n_components]
    inside = by_weight - by_weight.mean(axis=1, keepdims=True)
    return np.concatenate([inside, jacobian[:, n_components:]], axis=1)


def _bootstrap(
    frame: _Frame,
    conditions: Conditions,
    parameters: Parameters,
    n_rows: int,
    statistic: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """p-value from a gamma law with the bootstrap's mean and variance; and that mean."""
    draws = np.empty(_BOOTSTRAP_DRAWS)
    features = conditions.features
    for b in range(_BOOTSTRAP_DRAWS):
        labels = rng.choice(parameters.n_components, size=n_rows, p=parameters.weights)
        noise = rng.standard_normal((n_rows, parameters.means.shape[1]))
        rows = parameters.means[labels] + noise * np.sqrt(parameters.variances)[labels]
        remainder = frame.remainder(_sample_means(rows, features))
        draws[b] = n_rows * remainder @ remainder
    centre, spread = draws.mean(), draws.var(ddof=1)
    shape = centre**2 / spread
    return float(gamma.sf(statistic, shape, scale=spread / centre)), float(centre)


def _sample_means(rows: Float, features: NDArray[np.int64]) -> Float:
    total = np.zeros(features.shape[0])
    columns = np.concatenate([rows.T, np.ones((1, rows.shape[0]))])
    for start in range(0, rows.shape[0], 512):
        part = columns[:, start : start + 512]
        products = part[features[:, 0]]
        for t in range(1, features.shape[1]):
            products *= part[features[:, t]]
        total += products.sum(axis=1)
    return np.asarray(total / rows.shape[0])


def _correlations(
    frame: _Frame,
    conditions: Conditions,
    parameters: Parameters,
    remainder: Float,
    n: float,
) -> list[Correlation]:
    """Score tests of a common correlation of each pair of features, most significant first."""
    pairs = index_sets(conditions.n_features, 2)
    if not pairs.size:
        return []
    directions = np.stack(
        [_pair_direction(conditions, parameters, int(a), int(b)) for a, b in pairs], axis=1
    )
    projected = frame.project(frame.whiten(directions))
    lengths = (projected**2).sum(axis=0)
    along = projected.T @ remainder
    found = [
        Correlation(int(a), int(b), float(x / l2), float(x * np.sqrt(n / l2)))
        for (a, b), x, l2 in zip(pairs, along, lengths, strict=True)
        if l2 > 1e-6
    ]
    return sorted(found, key=lambda c: -abs(c.deviates))


def _pair_direction(conditions: Conditions, parameters: Parameters, a: int, b: int) -> Float:
    """Derivative of the conditions by a correlation of features a and b within every component."""
    d = conditions.n_features
    w = parameters.weights * np.sqrt(parameters.variances[:, a] * parameters.variances[:, b])
    means = np.concatenate([parameters.means, np.ones((parameters.n_components, 1))], axis=1)
    plain, squared = conditions.plain, conditions.squared
    direction = np.zeros(conditions.size)
    has = (plain == a).any(axis=1) & (plain == b).any(axis=1)
    rest = np.where((plain[has] == a) | (plain[has] == b), d, plain[has])
    direction[: plain.shape[0]][has] = w @ means[:, rest].prod(axis=2)
    part = direction[plain.shape[0] :]
    second = np.concatenate(
        [parameters.means**2 + parameters.variances, np.ones((parameters.n_components, 1))], axis=1
    )
    for i, k in ((a, b), (b, a)):  # z_i² z_k z_I: 2 μ_i Cov(z_i, z_k)
        has = (squared[:, 0] == i) & (squared[:, 1:] == k).any(axis=1)
        rest = np.where(squared[has, 1:] == k, d, squared[has, 1:])
        part[has] += (2 * w * means[:, i]) @ means[:, rest].prod(axis=2)
    has = (squared[:, 1:] == a).any(axis=1) & (squared[:, 1:] == b).any(axis=1)
    if has.any():  # z_j² z_a z_b: (μ_j² + v_j) Cov(z_a, z_b)
        part[has] += w @ second[:, squared[has, 0]]
    return direction

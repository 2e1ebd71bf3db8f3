"""Is the model wrong? A test of more moment conditions than parameters.

| symbol | name here | shape |
|---|---|---|
| ρ = observed − model | ``residual`` | (n,) |
| e = (I − P) C^{-1/2} ρ, see ``whitening.py`` | ``remainder`` | (n,) |
| N‖e‖² ~ χ²(n − rank) | ``statistic`` | scalar |

Projecting the whitened Jacobian out makes the test valid for any estimate within 1/√N of the truth,
whether it minimized these conditions or not: an error of the parameters moves ρ within the span
of the Jacobian only.

Effect size: √(max(N‖e‖² − dof, 0) / (dof·N)), the root mean square misfit of a condition in units
of one row's standard deviation, free of N. Real data is never exactly a product mixture, so with
many rows every test rejects; the effect size says whether that matters.

With few rows the means of cubes are far from normal; the statistic's mean and variance then come
from a parametric bootstrap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2, gamma

from momentmix._typing import Float
from momentmix.fitting.conditions.conditions import Conditions, build_conditions
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.correlations import Correlation, find_correlations
from momentmix.fitting.inference.whitening import Whitening
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters

LEAST_P_VALUE = 0.01  # of a model that is accepted: a true one fails once in a hundred fits
MOST_CONDITIONS = 2000  # their covariance has n² entries, and its root costs n³ operations
MOST_WHERE_SCARCE = 5000  # where fewer would leave nothing to test; a second or two of arithmetic
WITH_ORDER_4 = 1200  # conditions in all where a part of order 4 is taken in
ORDER_4_FROM = 1e4  # rows; with fewer, means of order 4 are far from normal
BOOTSTRAP_BELOW = 3000  # rows; with fewer, means of cubes are far from normal
_BOOTSTRAP_DRAWS = 39  # for a mean and a variance, not for a quantile: few are enough


class ConditionGroup(NamedTuple):
    """Conditions of one kind, tested by themselves; the p-value is that of this test alone."""

    name: str
    statistic: float
    degrees_of_freedom: int
    p_value: float


@dataclass(frozen=True)
class OverIdentification:
    """Result of the test; a saved one has no correlations, findings name those that matter."""

    statistic: float
    degrees_of_freedom: int
    p_value: float
    effect_size: float
    bootstrapped: bool
    condition_number: float
    correlations: list[Correlation] = field(default_factory=list)
    groups: tuple[ConditionGroup, ...] = ()

    @property
    def rejected_groups(self) -> list[ConditionGroup]:
        """Groups that are rejected by Holm's procedure, the smallest p-value first."""
        ordered = sorted((g for g in self.groups if g.p_value >= 0), key=lambda g: g.p_value)
        for i, group in enumerate(ordered):
            if group.p_value * (len(ordered) - i) >= LEAST_P_VALUE:
                return ordered[:i]
        return ordered

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


_UNTESTABLE = OverIdentification(0.0, 0, float("nan"), float("nan"), False, float("nan"))


def check_conditions(
    moments: StandardMoments,
    parameters: Parameters,
    rng: np.random.Generator,
    bootstrap: bool = True,
    correlations: bool = True,
) -> OverIdentification:
    """Test a mixture of standardized features against the moments.

    `bootstrap` allows the parametric bootstrap where rows are few; without it the χ² law is used.
    `correlations` says whether correlations within components are looked for.
    """
    conditions = _choose_conditions(moments, parameters, rng)
    if conditions.size < parameters.flat().size:
        return _UNTESTABLE
    whitening = Whitening(conditions, parameters)
    dof = whitening.degrees_of_freedom
    n = moments.n_effective
    remainder = whitening.remainder(conditions.values)
    statistic = n * float(remainder @ remainder)
    bootstrapped = bootstrap and n < BOOTSTRAP_BELOW
    if bootstrapped:
        p_value, center = _bootstrap(whitening, conditions, parameters, int(n), statistic, rng)
    else:
        p_value, center = float(chi2.sf(statistic, dof)), float(dof)
    effect = float(np.sqrt(max(statistic - center, 0.0) / (dof * n)))
    result = OverIdentification(
        statistic, dof, p_value, effect, bootstrapped, whitening.condition_number
    )
    if correlations:
        columns = moments.columns.tolist()
        result.correlations.extend(
            replace(c, first=columns[c.first], second=columns[c.second])
            for c in find_correlations(whitening, conditions, parameters, remainder, n)
        )
    return result


def _choose_conditions(
    moments: StandardMoments, parameters: Parameters, rng: np.random.Generator
) -> Conditions:
    """Orders up to 3; a part of order 4 too where rows are many or little would be left to test.

    Order 4 is what tells a pair of components from a correlation within one: both give the same
    moments up to order 3. With fewer rows its means are too far from normal.
    """
    r, d = parameters.means.shape
    # The covariance costs about n³·r operations: stay within a second of arithmetic.
    limit = int(min(MOST_CONDITIONS, (3e10 / r) ** (1 / 3)))
    n_parameters = r * (2 * d + 1) - 1
    conditions = build_conditions(moments, 3, 1, limit=limit, rng=rng)
    scarce = conditions.size - 1 < 1.1 * n_parameters + 5
    if scarce:
        limit = int(max(limit, min(1.5 * n_parameters, MOST_CONDITIONS)))
        limit = int(max(limit, min(1.3 * n_parameters, MOST_WHERE_SCARCE)))
    elif moments.n_effective >= ORDER_4_FROM:
        limit = min(limit, max(WITH_ORDER_4, int(1.2 * conditions.size)))
    if scarce or moments.n_effective >= ORDER_4_FROM:
        conditions = build_conditions(moments, 4, 2, limit=limit, rng=rng)
    return conditions.subset(np.arange(1, conditions.size))


def _bootstrap(
    whitening: Whitening,
    conditions: Conditions,
    parameters: Parameters,
    n_rows: int,
    statistic: float,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """p-value from a gamma law with the bootstrap's mean and variance; and that mean."""
    draws = np.empty(_BOOTSTRAP_DRAWS)
    for b in range(_BOOTSTRAP_DRAWS):
        rows, _ = gaussian.sample(parameters.normalized(), n_rows, rng)
        remainder = whitening.remainder(_sample_means(conditions, rows))
        draws[b] = n_rows * remainder @ remainder
    center, spread = draws.mean(), draws.var(ddof=1)
    shape = center**2 / spread
    return float(gamma.sf(statistic, shape, scale=spread / center)), float(center)


def _sample_means(conditions: Conditions, rows: Float) -> Float:
    total = np.zeros(conditions.size)
    for start in range(0, rows.shape[0], 100):  # products of 100 rows fit in the cache
        block = rows[start : start + 100]
        total += conditions.products(block, block**2).sum(axis=1)
    return np.asarray(total / rows.shape[0])

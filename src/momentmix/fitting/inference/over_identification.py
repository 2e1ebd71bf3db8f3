"""Is the model wrong? A test of more moment conditions than parameters.

| symbol | name here | shape |
|---|---|---|
| ρ = observed − model | ``residual`` | (n,) |
| e = (I − P) C^{-1/2} ρ, see ``whitening.py`` | ``remainder`` | (n,) |
| N‖e‖² ~ χ²(rank C − rank of the slopes) | ``statistic`` | scalar |
| S_k = N‖e‖² of the first k kinds of conditions, S_k − S_(k−1) | ``ConditionGroup.statistic`` | |

Projecting the whitened Jacobian out makes the test valid for any estimate within 1/√N of the truth:
an error of the parameters moves ρ within the span of the Jacobian only.

*Groups.* One loud condition among two thousand quiet ones is lost in a single χ²: 7 standard errors
add 49 to a statistic whose standard deviation is 63. So three kinds are tested apart: products of
distinct features with at most one square; pairs (z_j³ z_k, z_j² z_k²) given those; powers of single
features given both, all together and column by column. The p-value is the least by Holm's rule.

*Effect size.* √(max(S − dof, 0) / (dof·N)) of the group with the least p-value: the root mean
square misfit of a condition in units of one row's standard deviation, free of N.

*Law.* The mean of N‖x̄‖² of k orthonormal variables is k, whatever their law, and its variance is
2k + (Var ‖x‖² − 2k)/N. With few rows the means of cubes are far from normal, and the last term
matters: p-values come from gamma laws with this mean and variance. Var ‖x‖² is exact for powers of
single features; for the others it is that of rows drawn from the mixture.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import gammaincc

from momentmix._typing import Float
from momentmix.fitting.moments.conditions import Conditions, build_conditions, point_powers
from momentmix.fitting.moments.covariance import MomentSpread
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.moments.whitening import (
    Correlation,
    Projection,
    Whitening,
    find_correlations,
    tested_conditions,
)
from momentmix.mixture import gaussian
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters

LEAST_P_VALUE = 0.01  # of a model that is accepted: a true one fails once in a hundred fits
NEGLIGIBLE_EFFECT = 5e-4  # standard deviations of one row; with enough rows every test rejects
CLEAR_P_VALUE = 1e-3  # below it a smaller number of components is rejected: one more needs proof
MOST_CONDITIONS = 2000  # their covariance has n² entries, and its root costs n³ operations
FEWEST_CONDITIONS = 400  # whatever the rows
MOST_WHERE_SCARCE = 5000  # where fewer would leave nothing to test; a second or two of arithmetic
MOST_WITH_BLOCKS = 3000  # the same where features are joined: moments within blocks take longer
WITH_ORDER_4 = 900  # conditions of distinct features where a part of order 4 is taken in
# The same, and times the number of parameters, after passes over the rows with joined features: no
# moment answer is at stake, and more conditions tell hardly more.
AFTER_ROWS, AFTER_ROWS_PER_PARAMETER = 500, 2
ORDER_4_FROM = 1e4  # rows; with fewer, means of order 4 are far from normal
_FEW_ROWS = 3000  # with fewer, means of cubes are far from normal
_SURE_P_VALUE = 0.05  # by χ² laws: those of larger variance accept too
# Rows drawn for a variance, and entries of whitened rows: 5000 of 2000 conditions take a second.
_DRAWN_ROWS, _DRAWN_AT_ONCE, _MOST_WORK = 5000, 500, 2e10
HIGHEST_POWER = 6  # of single features: as far as a summary holds them
_LEAST_WRITTEN = 1e-16  # of p-values in texts
_SPANNED = 1e-6  # share of a direction's length that is left where the parameters explain it


def p_value_text(p_value: float) -> str:
    """Return a p-value as text; the law of a statistic is not known far out.

    >>> p_value_text(0.2053), p_value_text(1e-307)
    ('0.21', 'below 1e-16')
    """
    return f"{p_value:.2g}" if p_value >= _LEAST_WRITTEN else f"below {_LEAST_WRITTEN:g}"


class ConditionGroup(NamedTuple):
    """The test of one kind of conditions; the p-value is corrected for the number of tests.

    `is_shape` marks powers of single columns, and `feature` is the one that they are of, if it is
    one alone; a file does not hold it.
    """

    name: str
    statistic: float
    degrees_of_freedom: int
    p_value: float
    is_shape: bool = False
    feature: int | None = None

    def __str__(self) -> str:
        value = f"{self.statistic:.{1 if self.statistic < 1e5 else 0}f}"
        return f"{self.name}: {value} on {self.degrees_of_freedom} d.o.f."


@dataclass(frozen=True)
class OverIdentification:
    """Result of the test; a saved one has no correlations, which are in the findings.

    Attributes
    ----------
    statistic, degrees_of_freedom : float, int
        Of all conditions together.
    p_value : float
        Least p-value of the groups, as in the first step of Holm's rule.
    effect_size : float
        Of the group with the least p-value.
    bootstrapped : bool
        Whether p-values come from drawn statistics, as for weighted rows.
    groups : tuple of ConditionGroup
        Kinds of conditions that can be tested, and the shape of single columns.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    effect_size: float
    bootstrapped: bool
    correlations: list[Correlation] = field(default_factory=list)
    groups: tuple[ConditionGroup, ...] = ()

    @property
    def rejected_groups(self) -> list[ConditionGroup]:
        """Groups that are rejected, the smallest p-value first."""
        rejected = [group for group in self.groups if group.p_value < LEAST_P_VALUE]
        return sorted(rejected, key=lambda group: group.p_value)

    @property
    def decisive(self) -> ConditionGroup | None:
        """The group of the least p-value; None in a record that lacks the groups."""
        return min(self.groups, key=lambda group: group.p_value, default=None)

    @property
    def p_value_words(self) -> str:
        """The p-value, the law that it comes from, and how many tests it is the least of."""
        law = "χ²"
        if self.bootstrapped:
            law = "gamma law of drawn samples"  # with their mean and variance
        elif self.decisive is not None and self.decisive.is_shape:
            law = "gamma law"  # with the variance that means of high powers have
        n = len(self.groups)
        corrected = f", the least of {n} tests, corrected for their number" if n > 1 else ""
        return f"{p_value_text(self.p_value)} ({law}{corrected})"

    @property
    def testable(self) -> bool:
        """Whether there are more conditions than parameters."""
        return self.degrees_of_freedom > 0

    @property
    def is_rejected(self) -> bool | None:
        """Whether the model is rejected, beyond chance and by an amount; None if not testable."""
        if not self.testable:
            return None
        return self.p_value < LEAST_P_VALUE and self.effect_size > NEGLIGIBLE_EFFECT


UNTESTABLE = OverIdentification(0.0, 0, float("nan"), float("nan"), False)


def check_conditions(
    moments: StandardMoments,
    parameters: Parameters,
    rng: np.random.Generator,
    draws_rows: bool = True,
    correlations: bool = True,
    conditions: Conditions | None = None,
    whitening: Whitening | None = None,
    after_rows: bool = False,
    noise: MomentSpread | None = None,
) -> OverIdentification:
    """Test a mixture of standardized features against the moments.

    `draws_rows` and `correlations` allow these steps where rows are few, and where it rejects.
    `conditions` and their `whitening` are given where they are known, `noise` for weighted rows.
    """
    if conditions is None:
        r, blocks = parameters.n_components, parameters.blocks
        conditions = choose_conditions(moments, r, rng, blocks, after_rows)
        conditions = tested_conditions(conditions, moments, parameters)
    if conditions.size <= parameters.n_free and not parameters.blocks.is_diagonal:
        return UNTESTABLE  # full covariances of many columns: the covariance would take a minute
    whitening = whitening or Whitening(conditions, parameters)
    n = moments.n_effective
    names = [moments.column_name(j) for j in range(moments.n_features)]
    group_test = _GroupTest(conditions, parameters, whitening, names)
    dof = whitening.degrees_of_freedom(whitening.projection)
    if dof <= 0:
        return UNTESTABLE
    residual = whitening.residual(conditions.values)
    statistics = n * group_test.statistics(residual)
    centers = np.array([g.degrees_of_freedom for g in group_test.groups], dtype=float)
    variances = 2.0 * centers + group_test.fourth_cumulants / n
    p_values = _corrected(statistics, centers, variances, group_test.n_tests)
    n_trusted = n
    if noise is not None:
        white = whitening.whiten(noise.draws(conditions, rng))
        draws = n * group_test.statistics(white)
        size = n * float(_squared_length(whitening.projection, white).mean())
        n_trusted = n * min(1.0, dof / size)
        centers, variances = draws.mean(axis=1), draws.var(axis=1, ddof=1)
        p_values = _corrected(statistics, centers, variances, group_test.n_tests)
    elif draws_rows and n < _FEW_ROWS and p_values.min() < _SURE_P_VALUE:
        excess = np.maximum(group_test.variances_of_rows(parameters, rng) - 2.0 * centers, 0.0)
        is_shape = [group.is_shape for group in group_test.groups]
        variances = np.where(is_shape, variances, 2.0 * centers + excess / n)
        p_values = _corrected(statistics, centers, variances, group_test.n_tests)
    groups = tuple(
        kind._replace(statistic=float(statistic), p_value=float(p_value))
        for kind, statistic, p_value in zip(group_test.groups, statistics, p_values, strict=True)
    )
    least = int(np.argmin(p_values))
    misfit = max(statistics[least] - centers[least], 0.0)
    result = OverIdentification(
        n * float(_squared_length(whitening.projection, residual)),
        dof,
        groups[least].p_value,
        float(np.sqrt(misfit / (groups[least].degrees_of_freedom * n))),
        noise is not None,
        groups=groups,
    )
    if correlations and result.p_value < LEAST_P_VALUE:
        columns = moments.columns.tolist()
        remainder = whitening.projection.project(residual)
        result.correlations.extend(
            replace(c, first=columns[c.first], second=columns[c.second])
            for c in find_correlations(whitening, conditions, parameters, remainder, n_trusted)
        )
    return result


def _corrected(statistics: Float, centers: Float, variances: Float, n_tests: Float) -> Float:
    """p-values by gamma laws (χ² where the variance is twice the mean), times numbers of tests."""
    variances = np.maximum(variances, 1e-12 * centers)
    p_values = gammaincc(centers**2 / variances, statistics * centers / variances)
    return np.minimum(1.0, np.asarray(p_values) * n_tests)


class _GroupTest:
    """Statistics of the groups of conditions, as functions of whitened residuals.

    Of each group, `n_tests` is what its p-value is multiplied by for Holm's rule, and
    `fourth_cumulants` what the variance of its statistic exceeds that of χ² by, times the rows.
    """

    def __init__(
        self, conditions: Conditions, parameters: Parameters, whitening: Whitening, names: list[str]
    ) -> None:
        self.conditions, self.whitening = conditions, whitening
        n_low = conditions.n_low
        edges = [n_low, n_low + int(conditions.is_pair.sum()), conditions.size]
        self.groups = list[ConditionGroup]()
        self._steps = list[tuple[Projection, Projection | None]]()
        before: Projection | None = None
        dof_before = 0
        kinds = (("distinct features", False), ("pairs", False), ("shape of columns", True))
        for (name, is_shape), edge in zip(kinds, edges, strict=True):
            if before is not None and before.slopes.shape[0] == edge:
                continue
            last = edge == conditions.size
            projection = whitening.projection if last else whitening.leading(edge)
            dof = whitening.degrees_of_freedom(projection)
            if dof > dof_before:
                self.groups.append(ConditionGroup(name, nan, dof - dof_before, nan, is_shape))
                self._steps.append((projection, before))
                before, dof_before = projection, dof
        self._columns = self._shape_directions()
        n_steps, n_columns = len(self.groups), len(self._columns)
        self.n_tests = np.full(n_steps + n_columns, float(n_steps + bool(n_columns)))
        self.n_tests[n_steps:] *= n_columns
        self.groups += [
            ConditionGroup(f"shape of column {names[j]}", nan, basis.shape[1], nan, True, j)
            for j, basis in self._columns.items()
        ]
        self.fourth_cumulants = np.zeros(len(self.groups))
        if self._columns:
            shape = np.flatnonzero(conditions.is_shape)
            features, powers = conditions.slots[shape, 0], conditions.slot_exponents[shape, 0]
            highest = [int(powers[features == j].max()) for j in self._columns]
            pairs = zip(self._columns, highest, strict=True)
            excess = np.array([fourth_cumulant_of_powers(parameters, j, top) for j, top in pairs])
            self.fourth_cumulants[n_steps:] = excess
            if self.groups[n_steps - 1].is_shape:
                self.fourth_cumulants[n_steps - 1] = excess.sum()

    def _shape_directions(self) -> dict[int, Float]:
        """Orthonormal directions of each column's powers, parameters projected out."""
        conditions, whitening = self.conditions, self.whitening
        shape = np.flatnonzero(conditions.is_shape)  # the last conditions
        white, feature = whitening.whiten_last(shape.size), conditions.slots[shape, 0]
        left, directions = whitening.projection.project(white), {}
        for j in np.unique(feature).tolist():
            lengths = np.linalg.norm(white[:, feature == j], axis=0)  # 0 for a redundant condition
            mine = left[:, feature == j] / np.maximum(lengths, 1e-300)
            basis, values, _ = np.linalg.svd(mine, full_matrices=False)
            kept = basis[:, values > np.sqrt(_SPANNED)]
            if kept.shape[1]:
                directions[j] = kept
        return directions

    def statistics(self, white: Float) -> Float:
        """Statistics per row of all groups, of shape (n_groups,) or (n_groups, k)."""
        results = []
        for projection, before in self._steps:
            statistic = _squared_length(projection, white)
            if before is not None:
                statistic = np.maximum(statistic - _squared_length(before, white), 0.0)
            results.append(statistic)
        results += [((basis.T @ white) ** 2).sum(axis=0) for basis in self._columns.values()]
        return np.array(results)

    def variances_of_rows(self, parameters: Parameters, rng: np.random.Generator) -> Float:
        """Variances of the statistics of single rows of the mixture, of shape (n_groups,)."""
        conditions, squares = self.conditions, list[Float]()
        n = int(min(_DRAWN_ROWS, _MOST_WORK / conditions.size**2))
        rows, _ = gaussian.sample(parameters.normalized(), n, rng)
        for start in range(0, n, _DRAWN_AT_ONCE):
            part = rows[start : start + _DRAWN_AT_ONCE]
            products = conditions.products(point_powers(part, conditions.highest_exponent))
            squares.append(self.statistics(self.whitening.residual(products)))
        return np.asarray(np.hstack(squares).var(axis=1, ddof=1))


def fourth_cumulant_of_powers(parameters: Parameters, j: int, highest: int) -> float:
    """E‖x‖⁴ − k² − 2k of the k orthonormal polynomials x of degrees 3 … `highest` of column j.

    The variance of N‖x̄‖² is 2k plus this over N: means of high powers are skewed.

    >>> normal = Parameters(np.ones(1), np.zeros((1, 1)), np.ones((1, 1)))
    >>> [round(fourth_cumulant_of_powers(normal, 0, p)) for p in (4, 6)]
    [1150, 76218]
    """
    p, k, degree = parameters, highest - 2, 4 * highest
    law = next((law for law in p.blocks.laws if j in law.features), None)
    if law is None:
        nodes, weights = _gauss_nodes(degree // 2 + 1)
        points = p.means[:, j, None] + np.sqrt(p.variances[:, j, None]) * nodes
        weights = np.broadcast_to(weights / weights.sum(), points.shape)
    else:
        points, weights = law.quadrature(law.features.index(j), *p.of_law(law), degree)
    z, shares = points.ravel(), (p.weights[:, None] * weights).ravel()
    table = np.sqrt(shares)[:, None] * np.vander(z, highest + 1, increasing=True)
    squares = np.linalg.qr(table)[0][:, 3:] ** 2  # times the shares
    positive = shares > 0
    fourth = (squares[positive].sum(axis=1) ** 2 / shares[positive]).sum()
    return float(fourth - k**2 - 2 * k)


_gauss_nodes = lru_cache(hermegauss)


def _squared_length(projection: Projection, white: Float) -> Float:
    """Squared length of what a projection leaves of its own rows."""
    left = projection.project(white[: projection.slopes.shape[0]])
    return np.asarray((left**2).sum(axis=0))


def choose_conditions(
    moments: StandardMoments,
    n_components: int,
    rng: np.random.Generator,
    blocks: Blocks | None = None,
    after_rows: bool = False,
) -> Conditions:
    """Orders up to 3; a part of order 4 too where rows are many or little would be left to test."""
    # The covariance costs about n³·r operations: stay within a second of arithmetic. And not more
    # conditions than rows: the last ones would tell nothing new.
    n, d = moments.n_effective, moments.n_features
    limit = int(min(MOST_CONDITIONS, (3e10 / n_components) ** (1 / 3), max(n, FEWEST_CONDITIONS)))
    power = HIGHEST_POWER if 4 * d < limit // 2 else 4
    blocks = blocks or moments.alone
    n_parameters = n_components * blocks.n_parameters - 1
    low_limit = max(limit // 2, limit - (power - 2) * d - limit // 4)
    conditions = build_conditions(moments, 3, 1, low_limit, rng, power)
    scarce = conditions.size - 1 < 1.1 * n_parameters + 5
    if scarce:
        low_limit = int(max(low_limit, min(1.5 * n_parameters, MOST_CONDITIONS)))
        most = MOST_WHERE_SCARCE if blocks.is_diagonal else MOST_WITH_BLOCKS
        low_limit = int(max(low_limit, min(1.3 * n_parameters, most)))
    elif n >= ORDER_4_FROM:
        low_limit = min(low_limit, max(WITH_ORDER_4, int(1.2 * conditions.n_low)))
    if after_rows and not scarce and not blocks.is_diagonal:
        low_limit = min(low_limit, max(AFTER_ROWS, AFTER_ROWS_PER_PARAMETER * n_parameters))
        conditions = build_conditions(moments, 3, 1, low_limit, rng, power)
    if scarce or n >= ORDER_4_FROM:
        conditions = build_conditions(moments, 4, 2, low_limit, rng, power)
    return conditions.subset(np.arange(1, conditions.size))


def order_after_rows(n_components: int, blocks: Blocks) -> int:
    """The order of moments that `choose_conditions` takes from after passes over the rows: 3 or 4.

    >>> pairs = [[0, 1], [2, 3]]
    >>> order_after_rows(3, Blocks.of(10, pairs)), order_after_rows(3, Blocks.of(15, pairs))
    (4, 3)
    """
    d, n_parameters = blocks.n_features, n_components * blocks.n_parameters
    enough = max(AFTER_ROWS, AFTER_ROWS_PER_PARAMETER * n_parameters)
    # Orders up to 3, squares included, have so many conditions.
    is_enough = d * (d * d + 6 * d + 5) // 6 >= enough
    return 3 if is_enough and not blocks.is_diagonal else 4

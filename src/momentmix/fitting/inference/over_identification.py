"""Is the model wrong? A test of more moment conditions than parameters.

| symbol | name here | shape |
|---|---|---|
| ρ = observed − model | ``residual`` | (n,) |
| e = (I − P) C^{-1/2} ρ, see ``moments/whitening.py`` | ``remainder`` | (n,) |
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
from momentmix.fitting.inference.correlations import Correlation, find_correlations
from momentmix.fitting.inference.tested_conditions import choose_conditions, tested_conditions
from momentmix.fitting.moments.conditions import Conditions, point_powers
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.moments.whitening import Projection, Whitening
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters

LEAST_P_VALUE = 0.01  # of a model that is accepted: a true one fails once in a hundred fits
NEGLIGIBLE_EFFECT = 5e-4  # standard deviations of one row; with enough rows every test rejects
CLEAR_P_VALUE = 1e-3  # below it a smaller number of components is rejected: one more needs proof
_FEW_ROWS = 3000  # with fewer, means of cubes are far from normal
_SURE_P_VALUE = 0.05  # by χ² laws: those of larger variance accept too
# Rows drawn for a variance, and entries of whitened rows: 5000 of 2000 conditions take a second.
_DRAWN_ROWS, _DRAWN_AT_ONCE, _MOST_WORK = 5000, 500, 2e10
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
    groups : tuple of ConditionGroup
        Kinds of conditions that can be tested, and the shape of single columns.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    effect_size: float
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
        if self.decisive is not None and self.decisive.is_shape:
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


UNTESTABLE = OverIdentification(0.0, 0, float("nan"), float("nan"))


def check_conditions(
    moments: StandardMoments,
    parameters: Parameters,
    rng: np.random.Generator,
    draws_rows: bool = True,
    correlations: bool = True,
    conditions: Conditions | None = None,
    whitening: Whitening | None = None,
    after_rows: bool = False,
) -> OverIdentification:
    """Test a mixture of standardized features against the moments.

    `draws_rows` and `correlations` allow these steps where rows are few, and where it rejects.
    `conditions` and their `whitening` are given where they are known.
    """
    if conditions is None:
        r, blocks = parameters.n_components, parameters.blocks
        conditions = choose_conditions(moments, r, rng, blocks, after_rows)
        conditions = tested_conditions(conditions, moments, parameters)
    if conditions.size <= parameters.n_free and not parameters.blocks.is_diagonal:
        return UNTESTABLE  # full covariances of many columns: the covariance would take a minute
    whitening = whitening or Whitening(conditions, parameters)
    projection, n = whitening.projection, moments.n_effective
    dof = whitening.degrees_of_freedom(projection)
    if dof <= 0:
        return UNTESTABLE
    names = [moments.column_name(j) for j in range(moments.n_features)]
    group_test = _GroupTest(conditions, parameters, whitening, names)
    residual = whitening.residual(conditions.values)
    statistics = n * group_test.statistics(residual)
    centers = np.array([g.degrees_of_freedom for g in group_test.groups], dtype=float)
    variances = 2.0 * centers + group_test.fourth_cumulants / n
    p_values = _corrected(statistics, centers, variances, group_test.n_tests)
    if draws_rows and n < _FEW_ROWS and p_values.min() < _SURE_P_VALUE:
        excess = np.maximum(group_test.variances_of_rows(parameters, rng) - 2.0 * centers, 0.0)
        is_shape = [group.is_shape for group in group_test.groups]
        variances = np.where(is_shape, variances, 2.0 * centers + excess / n)
        p_values = _corrected(statistics, centers, variances, group_test.n_tests)
    groups = tuple(
        kind._replace(statistic=float(statistic), p_value=float(p_value))
        for kind, statistic, p_value in zip(group_test.groups, statistics, p_values, strict=True)
    )
    least = min(groups, key=lambda group: group.p_value)
    misfit = max(least.statistic - least.degrees_of_freedom, 0.0)
    found = list[Correlation]()
    if correlations and least.p_value < LEAST_P_VALUE:
        columns, remainder = moments.columns.tolist(), projection.project(residual)
        found = [
            replace(c, first=columns[c.first], second=columns[c.second])
            for c in find_correlations(whitening, conditions, parameters, remainder, n)
        ]
    statistic = n * float(_squared_length(projection, residual))
    effect = float(np.sqrt(misfit / (least.degrees_of_freedom * n)))
    return OverIdentification(statistic, dof, least.p_value, effect, found, groups)


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
        self._projections = list[Projection]()
        dof_before, edge_before = 0, 0
        kinds = (("distinct features", False), ("pairs", False), ("shape of columns", True))
        for (name, is_shape), edge in zip(kinds, edges, strict=True):
            if edge == edge_before:
                continue
            is_last = edge == conditions.size
            projection = whitening.projection if is_last else whitening.leading(edge)
            dof = whitening.degrees_of_freedom(projection)
            if dof > dof_before:
                self.groups.append(ConditionGroup(name, nan, dof - dof_before, nan, is_shape))
                self._projections.append(projection)
                dof_before, edge_before = dof, edge
        self._columns = self._shape_directions()
        n_kinds, n_columns = len(self.groups), len(self._columns)
        self.n_tests = np.full(n_kinds + n_columns, float(n_kinds + bool(n_columns)))
        self.n_tests[n_kinds:] *= n_columns
        self.groups += [
            ConditionGroup(f"shape of column {names[j]}", nan, basis.shape[1], nan, True, j)
            for j, basis in self._columns.items()
        ]
        shape = np.flatnonzero(conditions.is_shape)
        features, powers = conditions.slots[shape, 0], conditions.slot_exponents[shape, 0]
        excess = np.array(
            [
                fourth_cumulant_of_powers(parameters, j, int(powers[features == j].max()))
                for j in self._columns
            ]
        )
        self.fourth_cumulants = np.concatenate([np.zeros(n_kinds), excess])
        if n_kinds and self.groups[n_kinds - 1].is_shape:
            self.fourth_cumulants[n_kinds - 1] = excess.sum()

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
        lengths = np.array([_squared_length(projection, white) for projection in self._projections])
        lengths[1:] = np.maximum(np.diff(lengths, axis=0), 0.0)
        columns = [((basis.T @ white) ** 2).sum(axis=0) for basis in self._columns.values()]
        return np.array([*lengths, *columns])

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
        points, weights = law.support(*p.of_law(law), degree)
        points = points[..., law.features.index(j)]
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

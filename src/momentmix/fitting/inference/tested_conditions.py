"""Conditions that rows can test.

| symbol | name here | shape |
|---|---|---|
| n (E m²)² / E m⁴ of a product m with an indicator: rows that carry it | `_carrying_rows` | (n,) |
| correlation within components of being seen | `pairs_together` | |

A product of indicators of probability π is 1 in nπ rows. With fewer than about five expected, χ²
laws do not hold, as in any sparse table of counts. Cells of two columns that are missing in the
same rows contradict the model, but not its values: products with such a gap are left out.
"""

from __future__ import annotations

import numpy as np

from momentmix._typing import Float
from momentmix.families.distribution import Distribution
from momentmix.fitting.moments.conditions import Conditions, build_conditions, feature_powers
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters

HIGHEST_POWER = 6  # of single features: as far as a summary holds them
MOST_CONDITIONS = 2000  # their covariance has n² entries, and its root costs n³ operations
FEWEST_CONDITIONS = 400  # whatever the rows
MOST_WHERE_SCARCE = 5000  # where fewer would leave nothing to test; a second or two of arithmetic
MOST_WITH_BLOCKS = 3000  # the same where features are joined: moments within blocks take longer
WITH_ORDER_4 = 900  # conditions of distinct features where a part of order 4 is taken in
# The same, and times the number of parameters, after passes over the rows with joined features: no
# moment answer is at stake, and more conditions tell hardly more.
AFTER_ROWS, AFTER_ROWS_PER_PARAMETER = 500, 2
ORDER_4_FROM = 1e4  # rows; with fewer, means of order 4 are far from normal
_FEWEST_ROWS = 5.0  # that carry a condition: the usual rule for cells of tables of counts
_HIGHEST_BESIDE = 3  # power of a number in a product with an indicator
_TOGETHER = 0.5  # correlation within components of two columns' being seen


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
    return conditions.without_sum


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


def tested_conditions(
    conditions: Conditions, moments: StandardMoments, parameters: Parameters
) -> Conditions:
    """The conditions that the rows can test."""
    if moments.is_number.all():
        return conditions
    is_used = _carrying_rows(conditions, moments, parameters) >= _FEWEST_ROWS
    is_used |= conditions.slot_exponents.sum(axis=1) == 1  # means: what they say is fitted
    laws = parameters.blocks.laws
    for a, b in pairs_together(moments, parameters):
        for one, other in ((laws[a], laws[b]), (laws[b], laws[a])):
            has_gap = (conditions.slots == one.features[-1]).any(axis=1)
            is_used &= ~(has_gap & np.isin(conditions.slots, other.features).any(axis=1))
    return conditions if is_used.all() else conditions.subset(np.flatnonzero(is_used))


def _carrying_rows(
    conditions: Conditions, moments: StandardMoments, parameters: Parameters
) -> Float:
    """Return the number of rows that carry each condition; infinite for numbers alone."""
    powers = feature_powers(parameters, 4 * _HIGHEST_BESIDE)
    exponents = np.minimum(np.arange(conditions.highest_exponent + 1), _HIGHEST_BESIDE)
    second, fourth = (
        conditions.products(powers[k * exponents]) @ parameters.weights for k in (2, 4)
    )
    rows = moments.n_effective * second**2 / np.maximum(fourth, 1e-300)
    has_indicator = np.append(~moments.is_number, False)[conditions.slots].any(axis=1)
    return np.where(has_indicator, rows, np.inf)


def gaps_together(moments: StandardMoments, parameters: Parameters) -> list[Distribution]:
    """Return laws whose cells are mostly missing in the same rows as another's."""
    numbers = sorted({k for pair in pairs_together(moments, parameters) for k in pair})
    return [parameters.blocks.laws[k] for k in numbers]


def pairs_together(moments: StandardMoments, parameters: Parameters) -> list[tuple[int, int]]:
    """Pairs of laws, by number, whose cells are mostly missing in the same rows."""
    p, laws = parameters, parameters.blocks.laws
    numbers = [k for k, law in enumerate(laws) if law.has_missing and not law.at_random]
    if len(numbers) < 2:
        return []
    features = [laws[k].features[-1] for k in numbers]
    means, spread = p.means[:, features], np.sqrt(p.variances[:, features])
    between = (means.T * p.weights) @ means
    within = moments.total_covariance[np.ix_(features, features)] - between
    together = np.triu(within > _TOGETHER * ((spread.T * p.weights) @ spread), 1)
    return [(numbers[i], numbers[k]) for i, k in np.argwhere(together)]

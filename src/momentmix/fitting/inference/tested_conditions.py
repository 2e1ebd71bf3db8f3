"""Which conditions a test can use: not those that a few rows carry, nor gaps that come together.

| symbol | name here | shape |
|---|---|---|
| n (E m²)² / E m⁴ of a product m with an indicator: rows that carry it | `carrying_rows` | (n,) |
| correlation within components of being seen | `pairs_together` | |

A product of indicators of probability π is 1 in nπ rows. With fewer than about five expected, one
row that has two rare levels is 30 standard errors: χ² laws do not hold, as in any sparse table of
counts. Cells of two columns that are missing in the same rows contradict the model, which has gaps
that are independent within components, but say nothing against its values: products with such a
gap are left out, those of the two values stay.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.families.law import Law
from momentmix.fitting.conditions.conditions import Conditions, feature_powers
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.parameters import Parameters

_FEWEST_ROWS = 5.0  # that carry a condition: the usual rule for cells of tables of counts
_HIGHEST_BESIDE = 3  # power of a number in a product with an indicator
_TOGETHER = 0.5  # correlation within components of two columns' being seen


def tested_conditions(
    conditions: Conditions, moments: StandardMoments, parameters: Parameters
) -> Conditions:
    """The conditions that the rows can test."""
    if moments.is_number.all():
        return conditions
    is_used = carrying_rows(conditions, moments, parameters) >= _FEWEST_ROWS
    is_used |= (conditions.slot_exponents.sum(axis=1)) == 1  # means: what they say is fitted
    laws = parameters.blocks.laws
    for a, b in pairs_together(moments, parameters):
        for one, other in ((laws[a], laws[b]), (laws[b], laws[a])):
            has_gap = (conditions.slots == one.features[-1]).any(axis=1)
            is_used &= ~(has_gap & np.isin(conditions.slots, other.features).any(axis=1))
    return conditions if is_used.all() else conditions.subset(np.flatnonzero(is_used))


def carrying_rows(
    conditions: Conditions, moments: StandardMoments, parameters: Parameters
) -> Float:
    """Rows that carry a condition; infinite for one of numbers alone, whose laws are known."""
    highest = conditions.highest_exponent
    powers = feature_powers(parameters, 4 * _HIGHEST_BESIDE)
    means = []
    for power in (2, 4):
        exponents = power * np.minimum(np.arange(highest + 1), _HIGHEST_BESIDE)
        means.append(conditions.products(powers[exponents]) @ parameters.weights)
    rows = moments.n_effective * means[0] ** 2 / np.maximum(means[1], 1e-300)
    has_indicator = np.append(~moments.is_number, False)[conditions.slots].any(axis=1)
    return np.where(has_indicator, rows, np.inf)


def gaps_together(moments: StandardMoments, parameters: Parameters) -> list[Law]:
    """Laws whose cells are mostly missing in the same rows as those of another."""
    numbers = sorted({k for pair in pairs_together(moments, parameters) for k in pair})
    return [parameters.blocks.laws[k] for k in numbers]


def pairs_together(moments: StandardMoments, parameters: Parameters) -> list[tuple[int, int]]:
    """Pairs of laws, by number, whose cells are mostly missing in the same rows."""
    gaps = [
        (number, law.features[-1])
        for number, law in enumerate(parameters.blocks.laws)
        if law.has_gaps
    ]
    if len(gaps) < 2:
        return []
    p, features = parameters, [feature for _, feature in gaps]
    means, spread = p.means[:, features], np.sqrt(p.variances[:, features])
    between = (means.T * p.weights) @ means
    within = moments.total_covariance[np.ix_(features, features)] - between
    together: NDArray[np.bool_] = within > _TOGETHER * ((spread.T * p.weights) @ spread)
    numbers = [number for number, _ in gaps]
    return [(numbers[i], numbers[k]) for i, k in np.argwhere(np.triu(together, 1))]

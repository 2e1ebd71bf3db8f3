"""Standard errors and intervals of the means, rates and levels of columns, by the delta method.

| symbol | name here | shape |
|---|---|---|
| g(θ): a number of a column within a component | ``Quantity.values`` | (r,) |
| ∂g / ∂ (μ, v) of the column's features | ``Quantity.slopes`` | (r, 2k) |
| ‖∂g · factor‖ | `_deviations` | (r,) |

A mixture is fitted in features. A category has the probabilities of its levels given that the cell
is seen, a number with missing cells its mean where it is seen. Intervals of probabilities are
symmetric in log-odds, intervals of rates and variances in logarithms. Where a probability is 0 or 1
in all rows of a component, or a rate is 0, they are one-sided: up to −log(1 − level) / n of n rows,
which for 95 % is 3/n. A weight with the error of an unknown share has neither error nor interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import ndtri

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.families.family import Quantities, Quantity
from momentmix.fitting.inference.uncertainty import LARGEST_ERROR, Uncertainty
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.parameter_table import ColumnValues, Intervals
from momentmix.mixture.parameters import parameters_from
from momentmix.tables.schema import Schema
from momentmix.wording import short_repr

_WIDEST = 3.0  # half a width on the scale of logarithms or log-odds, beyond which it says nothing
_LEAST = np.finfo(float).tiny


@short_repr
@dataclass(frozen=True)
class StandardErrors(ColumnValues):
    """Standard errors in the units of the data; shapes (r,), (r, d), (r, d).

    Where columns are joined, `covariances` has shape (r, d, d): 0 between blocks, and the variances
    on the diagonal. Otherwise it is None. For tables with families, `means` and `variances` are by
    column, NaN for categories: `levels` has (r, n_levels) for each of them by name, and `seen`
    (r, n_columns) the probabilities of being seen, NaN where no cell is missing.
    """


def normal_quantile(level: float) -> float:
    """Half the width of an interval of a normal estimate, in standard errors.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    asked: Any = level
    if isinstance(asked, bool) or not isinstance(asked, Real) or not 0 < float(asked) < 1:
        raise InputError(f"level must be a number between 0 and 1, as 0.95; got {asked!r}.")
    return float(ndtri((1 + float(level)) / 2))


def column_errors(
    uncertainty: Uncertainty, moments: StandardMoments, schema: Schema | None = None
) -> StandardErrors:
    """Standard errors of columns, in their own units."""
    return StandardErrors(**_tables(uncertainty, moments, schema, _deviations))


def column_intervals(
    uncertainty: Uncertainty,
    moments: StandardMoments,
    schema: Schema | None = None,
    level: float = 0.95,
) -> Intervals:
    """Intervals of columns, in their own units, of this level."""
    found = _tables(uncertainty, moments, schema, partial(_interval, level=level))
    levels = found.pop("levels")
    if levels is not None:
        levels = {key: (ends[0], ends[1]) for key, ends in levels.items()}
    ends: dict[str, Any] = {key: x if x is None else (x[0], x[1]) for key, x in found.items()}
    return Intervals(**ends, levels=levels)


def _tables(
    u: Uncertainty,
    moments: StandardMoments,
    schema: Schema | None,
    of: Callable[[Quantity, Float], Float],
) -> dict[str, Any]:
    """`of` all parameters, by the names of `ColumnValues`, of shapes (…, r), (…, r, n_columns)."""
    e, r, d = u.estimate, u.estimate.n_components, moments.n_features
    rows = parameters_from(np.arange(len(u.factor)), r, e.blocks)

    def of_place(values: Float, places: Any, unit: float, scale: str = "plain") -> Float:
        quantity = Quantity(unit * values, scale, slopes=np.full((r, 1), unit))
        is_known = r == 1 and scale == "logit"  # the weight of a single component
        return of(quantity, u.factor[places][:, None] * (not is_known))

    weights = of_place(e.weights, rows.weights, 1.0, "logit")
    weights = np.where(u.unknown_weights, np.nan, np.clip(weights, 0.0, 1.0))
    features: list[tuple[int, ...]] = [(j,) for j in range(d)]
    if schema is not None:
        features = [tuple(schema.features_of(number)) for number in range(schema.n_columns)]
    tables = np.full((3, *weights.shape, len(features)), np.nan)
    levels: dict[str | int, Float] = {}
    for number, own in enumerate(features):
        quantities = _quantities(u, moments, list(own))
        places = np.concatenate([rows.means[:, own], rows.variances[:, own]], axis=1)
        center = 0.0 if schema is None else schema.columns[number].center
        if center and quantities.mean is not None:
            moved = quantities.mean._replace(values=quantities.mean.values + center)
            quantities = quantities._replace(mean=moved)
        for table, quantity in zip(tables, quantities[:3], strict=True):
            if quantity is not None:
                table[..., number] = of(quantity, u.factor[places])
        if quantities.levels:
            names = None if schema is None else schema.column_names
            name = number if names is None else names[number]
            found = [of(quantity, u.factor[places]) for quantity in quantities.levels]
            levels[name] = np.stack(found, axis=-1)
    means, variances, observed = tables
    variances = np.maximum(variances, 0.0)
    covariances = None
    if e.blocks.joined:
        number_of = {own[0]: number for number, own in enumerate(features)}
        covariances = variances[..., None] * np.eye(len(features))
        for place, (j, k) in enumerate(e.blocks.pairs.tolist()):
            unit = float(moments.scale[j] * moments.scale[k])
            a, b = number_of[j], number_of[k]
            value = of_place(e.covariances[:, place], rows.covariances[:, place], unit)
            covariances[..., a, b] = covariances[..., b, a] = value
        joined = {number_of[j] for block in e.blocks.joined for j in block}
        others = [
            number
            for number, column in enumerate(() if schema is None else schema.columns)
            if not (column.model.joins and not column.has_missing) and number not in joined
        ]
        covariances[..., others, :], covariances[..., others] = np.nan, np.nan
    is_plain = schema is None or schema.modeled().is_plain  # the mixture has numbers alone
    return {
        "weights": weights,
        "means": means,
        "variances": variances,
        "covariances": covariances,
        "levels": None if is_plain else levels,
        "seen": None if is_plain else observed,
    }


def _quantities(u: Uncertainty, moments: StandardMoments, features: list[int]) -> Quantities:
    """The numbers of a column, in units of the data.

    The features of a value of a joined block whose cells may be missing are itself and ``seen``.
    """
    e, laws = u.estimate, {law.features[0]: law for law in u.estimate.blocks.laws}
    counts, value = moments.n_effective * e.weights, features[0]
    if value in laws:
        found: Quantities = laws[value].quantities(*e.of_law(laws[value]), counts)
        return found
    k, unit, observed = len(features), float(moments.scale[value]), None
    by_mean, by_variance, by_seen = np.zeros((3, e.n_components, 2 * k))
    with np.errstate(over="ignore"):  # squares of the largest units may be infinite
        by_mean[:, 0], by_variance[:, k] = unit, np.square(unit)
        variances = by_variance[:, k] * e.variances[:, value]
    if k > 1:
        law = laws[features[1]]
        observed = law.quantities(*e.of_law(law), counts).observed
    if observed is not None:
        by_seen[:, [1, 3]] = observed.slopes
        observed = observed._replace(slopes=by_seen)
    means = float(moments.shift[value]) + unit * e.means[:, value]
    return Quantities(
        Quantity(means, "plain", slopes=by_mean),
        Quantity(variances, "log", slopes=by_variance),
        observed,
    )


def _deviations(quantity: Quantity, factor: Float) -> Float:
    """Standard errors by the delta method, (r,)."""
    along = (quantity.slopes[:, None, :] @ factor)[:, 0]
    size = np.abs(along).max(axis=1, initial=_LEAST)  # whose square may be no float64 number
    with np.errstate(invalid="ignore"):
        errors = size * np.sqrt(((along / size[:, None]) ** 2).sum(axis=1))
    errors = np.where(np.isinf(size), np.inf, errors)
    for is_bound in (quantity.at_zero, quantity.at_one):
        if is_bound is not None and quantity.counts is not None:
            # Where no row shows anything else, the likelihood falls like exp(−n x).
            errors = np.where(is_bound, 1.0 / np.maximum(quantity.counts, 1e-12), errors)
    return np.asarray(np.minimum(errors, LARGEST_ERROR if quantity.scale == "logit" else np.inf))


def _interval(quantity: Quantity, factor: Float, level: float) -> Float:
    """Lower and upper ends, (2, r)."""
    x, half = quantity.values, normal_quantile(level) * _deviations(quantity, factor)
    ends = _ends(x, half, quantity.scale)
    if quantity.at_zero is None or quantity.counts is None:
        return ends
    # Less than two errors from a bound, it may be there: logarithms never reach it.
    ends[0] = np.where(half < x, ends[0], 0.0)
    farthest = -np.log1p(-level) / np.maximum(quantity.counts, 1e-12)  # 3/n for 95 %
    upward = np.stack([np.zeros_like(x), np.maximum(x, farthest)])
    ends = np.where(quantity.at_zero, upward, ends)
    if quantity.at_one is not None:
        ends[1] = np.where((half < 1 - x) | quantity.at_zero, ends[1], 1.0)
        downward = np.stack([np.minimum(x, 1.0 - farthest), np.ones_like(x)])
        ends = np.where(quantity.at_one, downward, ends)
    low, high = (0.0, 1.0) if quantity.scale == "logit" else (quantity.least, np.inf)
    return np.clip(ends, low, high)


def _ends(x: Float, half: Float, scale: str) -> Float:
    """Ends that are symmetric on a scale, or plain where those would say nothing, (2, …)."""
    ends = np.stack([x - half, x + half])
    if scale == "plain":
        return ends
    if scale == "log":
        reach = half / np.maximum(x, _LEAST)
        ratio = np.exp(np.minimum(reach, _WIDEST))
        return np.where(reach < _WIDEST, np.stack([x / ratio, x * ratio]), np.maximum(ends, 0.0))
    p = np.clip(x, 1e-12, 1 - 1e-12)
    reach, odds = half / (p * (1 - p)), np.log(p / (1 - p))
    moved = np.minimum(reach, _WIDEST)
    inner = np.stack([1 / (1 + np.exp(moved - odds)), 1 / (1 + np.exp(-moved - odds))])
    inner = np.where(half > 0, inner, ends)
    return np.where(reach < _WIDEST, inner, np.clip(ends, 0.0, 1.0))

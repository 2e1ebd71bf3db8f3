"""Standard errors and intervals: of features, and of the means, rates and levels of columns.

| symbol | name here | shape |
|---|---|---|
| g(θ): a number of a column within a component | ``Quantity.values`` | (r,) |
| ∂g / ∂ (μ, v) of the column's features | ``Quantity.slopes`` | (r, 2k) |
| ‖∂g · factor‖, the delta method | ``_deviations`` | (r,) |

A mixture is fitted in features. A category has the probabilities of its levels given that the cell
is seen, a number with missing cells its mean where it is seen. Intervals of probabilities are
symmetric in log-odds, intervals of rates and variances in logarithms. Where a probability is 0 or 1
in all rows of a component, or a rate is 0, they are one-sided: up to −log(1 − level) errors, which
for 95 % is 3/n of n rows whose component is certain. A weight whose error is larger than that of
any share is unknown: its error and its interval are NaN.
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
from momentmix.families.column import Column
from momentmix.families.distribution import Distribution
from momentmix.families.family import Quantities, Quantity
from momentmix.fitting.inference.uncertainty import LARGEST_ERROR, Uncertainty
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.parameter_table import ColumnValues, Intervals
from momentmix.mixture.parameters import Parameters, parameters_from
from momentmix.tables.schema import Schema
from momentmix.wording import short_repr

_WIDEST = 3.0  # half a width on the scale of logarithms or log-odds, beyond which it says nothing


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
    with np.errstate(over="ignore"):  # squares of the largest units may be infinite
        s = uncertainty.deviations().restored(np.zeros_like(moments.scale), moments.scale)
        matrices = s.matrices if s.blocks.joined else None
    weights = np.where(uncertainty.unknown_weights, np.nan, s.weights)
    if schema is None:
        return StandardErrors(weights, s.means, s.variances, matrices)
    by_column = _by_column(uncertainty, moments, schema)
    both = np.stack([s.means, s.variances])
    (means, variances, seen), levels = _tables(by_column, schema, both, _deviations)
    covariances = None if matrices is None else _of_columns(matrices, schema, uncertainty)
    if schema.modeled().is_plain:  # the mixture has numbers alone
        return StandardErrors(weights, means, variances, covariances)
    return StandardErrors(weights, means, variances, covariances, levels, seen)


def column_intervals(
    uncertainty: Uncertainty,
    moments: StandardMoments,
    schema: Schema | None = None,
    level: float = 0.95,
) -> Intervals:
    """Intervals of columns, in their own units, of this level."""
    plain = _feature_intervals(uncertainty, moments, level)
    if schema is None:
        return plain
    both = np.stack([plain.means, plain.variances])
    by_column = _by_column(uncertainty, moments, schema)
    tables, levels = _tables(by_column, schema, both, partial(_interval, level=level))
    means, variances, seen = ((low, high) for low, high in tables)
    covariances = None
    if plain.covariances is not None:
        low, high = (_of_columns(end, schema, uncertainty) for end in plain.covariances)
        covariances = (low, high)
    ends = {key: (values[0], values[1]) for key, values in levels.items()}
    if schema.modeled().is_plain:  # the mixture has numbers alone
        return Intervals(plain.weights, means, variances, covariances)
    return Intervals(plain.weights, means, variances, covariances, ends, seen)


def _feature_intervals(
    uncertainty: Uncertainty, moments: StandardMoments, level: float
) -> Intervals:
    """Intervals of features, in the units of the data."""
    e, on_logs = uncertainty.estimate, uncertainty.on_log_scale
    widths = normal_quantile(level) * uncertainty.deviations().flat()
    half = parameters_from(widths, e.n_components, e.blocks)
    weights = np.ones((2, 1))
    if e.n_components > 1:
        weights = _ends(e.weights, half.weights, "logit" if on_logs else "plain")
        weights = np.where(uncertainty.unknown_weights, np.nan, np.clip(weights, 0.0, 1.0))
    variances = _ends(e.variances, half.variances, "log" if on_logs else "plain")
    means = e.means - half.means, e.means + half.means
    covariances = e.covariances - half.covariances, e.covariances + half.covariances
    ends = zip(weights, means, np.maximum(variances, 0.0), covariances, strict=True)
    with np.errstate(over="ignore"):
        low, high = (
            Parameters(*end, e.blocks).restored(moments.shift, moments.scale) for end in ends
        )
    matrices = (low.matrices, high.matrices) if e.blocks.joined else None
    pairs = (low.means, high.means), (low.variances, high.variances)
    return Intervals((weights[0], weights[1]), *pairs, matrices)


def _tables(
    by_column: list[tuple[Quantities | None, Float]],
    schema: Schema,
    plain: Float,
    of: Callable[[Quantity, Float], Float],
) -> tuple[Float, dict[str | int, Float]]:
    """`of` each mean, variance and probability of being seen, (3, …, r, n_columns), and levels."""
    tables = np.full((3, *plain.shape[1:-1], schema.n_columns), np.nan)
    levels: dict[str | int, Float] = {}
    for number, (quantities, factor) in enumerate(by_column):
        if quantities is None:
            tables[:2, ..., number] = plain[..., schema.features_of(number)[0]]
            continue
        own = quantities.mean, quantities.variance, quantities.observed
        for table, quantity in zip(tables, own, strict=True):
            if quantity is not None:
                table[..., number] = of(quantity, factor)
        if quantities.levels:
            found = [of(quantity, factor) for quantity in quantities.levels]
            name = number if schema.column_names is None else schema.column_names[number]
            levels[name] = np.stack(found, axis=-1)
    return tables, levels


def _of_columns(matrices: Float, schema: Schema, uncertainty: Uncertainty) -> Float:
    """Return matrices of features (r, d, d) by column; NaN where a column has several features."""
    first = [schema.features_of(number)[0] for number in range(schema.n_columns)]
    found = matrices[:, first][:, :, first]
    joined = {j for block in uncertainty.estimate.blocks.joined for j in block}
    others = [
        number
        for number, column in enumerate(schema.columns)
        if not (column.model.joins and not column.has_missing) and first[number] not in joined
    ]
    found[:, others], found[:, :, others] = np.nan, np.nan
    return found


# -- numbers of columns -------------------------------------------------------------------------


def _by_column(
    uncertainty: Uncertainty, moments: StandardMoments, schema: Schema
) -> list[tuple[Quantities | None, Float]]:
    """The quantities of each column and a factor of the covariance of its (μ, v), (r, 2k, q)."""
    e = uncertainty.estimate
    laws = {law.features[0]: law for law in e.blocks.laws}
    rows = parameters_from(np.arange(len(uncertainty.factor)), e.n_components, e.blocks)
    found = []
    for number, column in enumerate(schema.columns):
        own = list(schema.features_of(number))
        quantities = None
        if own[0] in laws:
            law, counts = laws[own[0]], moments.n_effective * e.weights
            quantities = law.quantities(*e.of_law(law), counts)
            if column.center and quantities.mean is not None:
                mean = quantities.mean._replace(values=quantities.mean.values + column.center)
                quantities = quantities._replace(mean=mean)
        elif column.has_missing:
            quantities = _of_joined(column, own, laws[own[1]], e, moments)
        places = np.concatenate([rows.means[:, own], rows.variances[:, own]], axis=1)
        found.append((quantities, uncertainty.factor[places]))
    return found


def _of_joined(
    column: Column,
    own: list[int],
    law: Distribution,
    parameters: Parameters,
    moments: StandardMoments,
) -> Quantities:
    """Mean and variance of a value of a joined block, whose features are itself and ``seen``."""
    value = own[0]
    unit = float(moments.scale[value])
    shift = float(moments.shift[value]) + column.center
    by_mean, by_variance, by_seen = np.zeros((3, parameters.n_components, 4))
    by_mean[:, 0], by_variance[:, 2] = unit, unit**2
    seen = law.quantities(
        *parameters.of_law(law), moments.n_effective * parameters.weights
    ).observed
    if seen is not None:
        by_seen[:, [1, 3]] = seen.slopes
        seen = seen._replace(slopes=by_seen)
    return Quantities(
        Quantity(shift + unit * parameters.means[:, value], "plain", slopes=by_mean),
        Quantity(unit**2 * parameters.variances[:, value], "log", slopes=by_variance),
        seen,
    )


def _deviations(quantity: Quantity, factor: Float) -> Float:
    """Standard errors by the delta method, (r,)."""
    along = quantity.slopes[:, None, :] @ factor
    errors = np.sqrt((along[:, 0] ** 2).sum(axis=1))
    return np.asarray(np.minimum(errors, LARGEST_ERROR if quantity.scale == "logit" else np.inf))


def _interval(quantity: Quantity, factor: Float, level: float) -> Float:
    """Lower and upper ends, (2, r)."""
    x, half = quantity.values, normal_quantile(level) * _deviations(quantity, factor)
    ends = _ends(x, half, quantity.scale)
    if quantity.at_zero is None or quantity.counts is None:
        return ends
    # Less than two errors from a bound, it may be there: logarithms never reach it.
    ends[0] = np.where(half < x, ends[0], 0.0)
    error = np.maximum(half / normal_quantile(level), 1.0 / np.maximum(quantity.counts, 1e-12))
    farthest = -np.log1p(-level) * error  # three errors for 95 %
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
        reach = half / np.maximum(x, 1e-300)
        ratio = np.exp(np.minimum(reach, _WIDEST))
        return np.where(reach < _WIDEST, np.stack([x / ratio, x * ratio]), np.maximum(ends, 0.0))
    p = np.clip(x, 1e-12, 1 - 1e-12)
    reach, odds = half / (p * (1 - p)), np.log(p / (1 - p))
    moved = np.minimum(reach, _WIDEST)
    inner = np.stack([1 / (1 + np.exp(moved - odds)), 1 / (1 + np.exp(-moved - odds))])
    return np.where(reach < _WIDEST, inner, np.clip(ends, 0.0, 1.0))

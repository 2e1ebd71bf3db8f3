"""Probabilities and rates that are 0 in a component: they take no part in other parameters' errors.

| symbol | name here | shape |
|---|---|---|
| x ≥ 0: numbers of a law, `Law.positive` | ``values`` | (r, n) |
| g = ∂x / ∂ (μ, v) | ``slopes`` | (r, n, 2k) |
| C = F Fᵀ, a = g F, C − (C gᵀ)(g C) / |a|²: given x | ``factor``, ``along`` | |

Where no row of a component shows an outcome, all its rows have the same score for the outcome, as
they have for the component's weight: the two cannot be told apart, and the information matrix is
singular. Where a few rows may or may not show it, the estimate is 0 in about half of all samples,
and errors that take it for a free parameter are too large: of weights by a factor of up to 2, with
a category that is equal to the group. With it fixed they are those by simulation but for 10 to 20 %
(``python benchmarks/families.py bounds``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np

from momentmix._typing import Float, Int
from momentmix.families.law import Law
from momentmix.mixture.parameters import Parameters, component_places

# A number counts as 0 for all others below so many standard errors and so many rows, if the outcome
# is common in all rows. Of rare ones, coverage of intervals falls: a rare answer is never quite 0.
_MAYBE_ZERO, _FEW_ROWS, _COMMON = 1.0, 20.0, 0.1
# Of the information about a variance: what is left beside the mean, 1 − skewness² / (kurtosis − 1),
# is rounding where a column has two values, and half for an exponential column. Of two values that
# are equally frequent there is hardly any to begin with.
_TOLD, _LEAST_TOLD = 0.02, 1e-3
_DEPENDENT = 1e-8  # of eigenvalues of a correlation matrix: probabilities that sum to 1


def _laws(parameters: Parameters) -> Iterator[tuple[Law, Float, Float, Int]]:
    """Each law with its means and variances, (r, k) each, and their places, (r, 2k)."""
    d, places = parameters.means.shape[1], component_places(parameters)
    for law in parameters.blocks.laws:
        own = np.array(law.features)
        numbers = places[:, np.concatenate([1 + own, 1 + d + own])]
        yield law, *parameters.of_law(law), numbers


def settle_bounded(
    information: Float, parameters: Parameters, n_rows: float, together: Collection[Law] = ()
) -> None:
    """Fix numbers that no row of a component tells from 0; in place.

    They keep an error of their own. `information` is that of (μ, log v), of one row. Cells of laws
    `together` are missing in the same rows: how often is fixed too, where the scores of two columns
    are the same.
    """
    counts = np.maximum(n_rows * parameters.weights, 1e-12)
    for law, means, variances, places in _laws(parameters):
        units = np.hstack([np.ones_like(means), variances])[:, None]
        values, slopes = law.positive(means, variances)
        fixed, errors = law.at_zero(means, variances, counts), np.ones_like(values)
        for c in np.flatnonzero(fixed.any(axis=1)):
            numbers, own = np.flatnonzero(fixed[c]), np.ix_(places[c], places[c])
            turns = law.turns(means[c], variances[c], numbers) / units[c]
            known = n_rows * ((turns @ information[own]) * turns).sum(axis=1)
            own_values = np.maximum(values[c, numbers], 1e-12)  # rounding may leave less than 0
            slope = np.minimum(law.prior_positive[numbers] / own_values, counts[c])
            errors[c, numbers] = _error_at_zero(slope, known)
        if law in together:
            gap = np.clip(values[:, 0], 1e-12, 1 - 1e-12)
            alone = ~fixed[:, 0] & ~fixed[:, 1]
            fixed[alone, 0] = True
            errors[alone, 0] = np.sqrt(gap * (1 - gap) / counts)[alone]
        never, own_slopes, own_errors = law.unseen(means, variances, counts)
        fixed = np.hstack([fixed, np.repeat(never[:, None], own_slopes.shape[1], axis=1)])
        slopes = np.concatenate([slopes, own_slopes], axis=1) * units
        known_by_law = np.hstack([errors, own_errors]) ** -2.0 / n_rows
        for c in np.flatnonzero(fixed.any(axis=1)):
            _fix(information, places[c], slopes[c, fixed[c]], known_by_law[c, fixed[c]])


def _error_at_zero(slope: Float, known: Float) -> Float:
    """A third of the x at which the log-likelihood −slope · x − known · x² / 2 is −3.

    With labels that are certain the slope is the number of rows n, and x = 3/n, the rule of three;
    where the rows that show the outcome may belong to the component too, the slope is smaller.
    """
    return np.asarray(2.0 / (slope + np.sqrt(slope**2 + 6.0 * np.maximum(known, 0.0))))


def _fix(information: Float, places: Int, slopes: Float, known: Float) -> None:
    """Take numbers out of the information, and put in what is known of each by itself."""
    along = np.linalg.qr(slopes.T)[0]
    information[places] -= along @ (along.T @ information[places])
    information[:, places] -= (information[:, places] @ along) @ along.T
    information[np.ix_(places, places)] += (slopes.T * known) @ slopes


def settle_two_valued(matrices: list[Float], parameters: Parameters) -> None:
    """Fix variances of numbers that have two values within a component; in place.

    Such rows tell one number of the column, and mean and variance are two: the scores of the
    variance follow from those of the mean, of the number and of its gaps. It keeps the information
    ω/2 about log v. The first matrix is the information, which decides.
    """
    p, d, places = parameters, parameters.means.shape[1], component_places(parameters)
    columns = [[j] for j in p.blocks.single.tolist()]
    columns += [list(law.features) for law in p.blocks.laws if law.free[0]]
    for own in columns:
        for c, w in enumerate(p.weights):
            spread, others = places[c, 1 + d + own[0]], places[c, 1 + np.array(own)]
            across = matrices[0][others, spread]
            known = matrices[0][spread, spread]
            explained = (
                across
                @ np.linalg.lstsq(matrices[0][np.ix_(others, others)], across, rcond=_DEPENDENT)[0]
            )
            if known - explained < _TOLD * known or known < _LEAST_TOLD * w:
                for matrix in matrices:
                    matrix[spread] = matrix[:, spread] = 0.0
                    matrix[spread, spread] = w / 2


def apart_from_bounded(factor: Float, parameters: Parameters, n_rows: float) -> Float:
    """The factor of the covariance of (μ, v) given the numbers that may be 0.

    These are less than their own standard error, which they keep, independent of all others.
    """
    counts = n_rows * parameters.weights
    given, own_errors = [], []
    for law, means, variances, places in _laws(parameters):
        values, slopes = law.positive(means, variances)
        for c, own in enumerate(places):
            along = slopes[c] @ factor[own]  # (n, q)
            error = np.sqrt((along**2).sum(axis=1))
            maybe = (values[c] < _MAYBE_ZERO * error) & (error > 0)
            maybe &= (counts[c] * values[c] < _FEW_ROWS) & (law.prior_positive > _COMMON)
            if maybe.any():
                moved = np.zeros((len(factor), int(maybe.sum())))
                moved[own] = np.linalg.pinv(slopes[c, maybe]) * error[maybe]
                given.append(along[maybe] / error[maybe, None])
                own_errors.append(moved)
    if not given:
        return factor
    unit = np.concatenate(given)
    inverse = np.linalg.pinv(unit @ unit.T, rcond=_DEPENDENT, hermitian=True)
    rest = factor - (factor @ unit.T) @ inverse @ unit
    return np.hstack([rest, *own_errors])

"""Whether missing cells depend on the component alone, as missing="model" says, by the rows.

| symbol | name here | shape |
|---|---|---|
| x_j: s_j − q_ij of an observed cell, (y_j − μ_ij) s_j of its value | `_residuals` | (d, n) |
| M = Σ of γ_i x xᵀ; M_jk / √(M_jj M_kk) is a correlation within components | ``means`` | (d, d) |
| V = Σ of γ_i x² (x²)ᵀ; M_jk / √V_jk is about normal | ``squares`` | (d, d) |
| mean of γ_i He₃(x_j / σ_ij) where the cell is observed: skewness | ``sizes`` | |

V is at least the variance of a row's product, and parameters that were fitted make M smaller: the
tests err on the side of the fit.

Selection by a cell's own value shows where its column is correlated with another within components,
or becomes skewed. Where neither happens, no table shows it. A page that is missing may itself
become a component, given which its cells are independent: the values of its rows are then like
those of a mixture of the other components, and support no component.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import log

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from momentmix._typing import Float
from momentmix.findings.finding import FATAL, Finding, found
from momentmix.fitting.inference.correlations import CORRELATION_THAT_MATTERS
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.mixture.density import joint_densities, responsibilities
from momentmix.mixture.gaussian import coefficients, values_of
from momentmix.mixture.parameters import Parameters

_LEVEL = 0.01  # of all tests of a fit together, divided among them
_SKEWNESS_THAT_MATTERS = 0.1  # of observed cells; a mean is then off by a tenth of a deviation
_MOST_ROWS = 5000  # an effect that matters is 7 standard errors
_STEPS = 100  # of EM for the shares of other components, which have no other parameters


def about_missing(
    moments: StandardMoments,
    p: Parameters,
    features: Float,
    counts: Float | None,
    others: Iterable[Finding],
) -> Iterator[Finding]:
    """Yield findings where rows T(z), which count as `counts`, contradict missing="model".

    Where `others` name shapes of complete columns too, shapes say nothing of missing cells.
    """
    laws = [law for law in p.blocks.laws if law.has_missing and not law.at_random]
    if not laws:
        return
    step = -(-features.shape[1] // _MOST_ROWS)
    features = np.ascontiguousarray(features[:, ::step])
    weights = np.ones(features.shape[1]) if counts is None else counts[::step]
    weights = weights / weights.mean()
    shares = responsibilities(joint_densities(coefficients(p), features))[0] * weights
    values = values_of(features, p.blocks)
    yield from _about_dependence(moments, p, values, shares, weights)
    shaped = {x for f in others if f.kind == "column-shape" for x in f.columns}
    if shaped <= set(moments.columns_of(law.features[0] for law in laws)):
        yield from _about_selection(moments, p, values, shares)
    if p.n_components > 1:
        only_missing = np.flatnonzero(_differ_in_missing_alone(p, features, shares)).tolist()
        if only_missing:
            yield found(FATAL, "missing-groups", components=only_missing)


def _residuals(p: Parameters, values: Float, i: int) -> Float:
    """Values (d, n) less their means in component i, those of a cell where it is observed."""
    residuals = values - p.means[i][:, None]
    for law in p.blocks.laws:
        if law.has_missing:
            (*value, s), (shift, scale) = law.features, law.units
            mean = law.value_of(*p.of_law(law)).mean[i]
            x, observed = values[value] * scale[:-1, None] + shift[:-1, None], values[s]
            residuals[value] = x - mean[:, None] * (observed * scale[-1] + shift[-1])
    return np.asarray(residuals)


def _about_dependence(
    moments: StandardMoments, p: Parameters, values: Float, shares: Float, weights: Float
) -> Iterator[Finding]:
    """Pairs of a column with missing cells and another one that depend on each other."""
    d = p.blocks.n_features
    means, squares = np.zeros((d, d)), np.zeros((d, d))
    for i, share in enumerate(shares):
        residuals = _residuals(p, values, i)
        means += (residuals * share) @ residuals.T
        residuals **= 2
        squares += (residuals * (share * weights)) @ residuals.T
    with_missing = [law for law in p.blocks.laws if law.has_missing]
    column, observed = np.arange(d), [law.features[-1] for law in with_missing]
    for law in with_missing:
        column[list(law.features)] = law.features[-1]
    is_tested = np.zeros((d, d), dtype=bool)
    is_tested[[law.features[-1] for law in with_missing if not law.at_random]] = True
    is_tested &= column[:, None] != column
    both = np.ix_(observed, observed)
    is_tested[both] &= ~np.triu(is_tested[both] & is_tested[both].T)  # each pair once
    units = np.sqrt(np.outer(np.diag(means), np.diag(means)))
    effects = means / np.maximum(units, 1e-300)
    deviates = means / np.sqrt(np.maximum(squares, 1e-300))
    is_clear = is_tested & (np.abs(deviates) > -ndtri(_LEVEL / (2 * max(is_tested.sum(), 1))))
    pairs = np.argwhere(is_clear & (np.abs(effects) > CORRELATION_THAT_MATTERS))
    if not len(pairs):
        return
    pairs = pairs[np.argsort(-np.abs(effects[tuple(pairs.T)]), kind="stable")]
    named: dict[tuple[str, str], list[str | float]] = {}  # of levels, the pair that depends most
    for j, k in pairs.tolist():
        words = moments.part(k).words, moments.part(j).words
        value = float(effects[j, k]) * (1 if k in observed else -1)
        named.setdefault(words, [*words, value])
    columns = moments.columns_of(pairs.ravel().tolist())
    yield found(FATAL, "shared-gaps", columns, pairs=list(named.values()))


def _about_selection(
    moments: StandardMoments, p: Parameters, values: Float, shares: Float
) -> Iterator[Finding]:
    """Columns of numbers whose observed cells are skewed within components."""
    laws = [law for law in p.blocks.laws if law.value_feature is not None and law.family.joins]
    laws = [law for law in laws if not law.at_random]
    if not laws:
        return
    skewness = np.zeros((3, len(laws)))  # sums of He₃, of its squares, and of observed rows
    for i, share in enumerate(shares):
        residuals = _residuals(p, values, i)
        for number, law in enumerate(laws):
            rows = share * (values[law.features[-1]] > law.observed_middle)
            u = residuals[law.features[0]]
            u = u / np.sqrt(law.value_of(*p.of_law(law)).variance[i, 0])
            third = (u**2 - 3) * u
            skewness[:, number] += third @ rows, third**2 @ rows, rows.sum()
    sizes = skewness[0] / np.maximum(skewness[2], 1e-300)
    is_clear = np.abs(skewness[0]) > -ndtri(_LEVEL / (2 * len(laws))) * np.sqrt(skewness[1])
    chosen = np.flatnonzero(is_clear & (np.abs(sizes) > _SKEWNESS_THAT_MATTERS))
    if chosen.size:
        columns = moments.columns_of(laws[number].features[0] for number in chosen)
        asides = [f"skewness {sizes[number]:+.2f}" for number in chosen]
        yield found(FATAL, "selected-values", columns, asides=asides)


def _differ_in_missing_alone(p: Parameters, features: Float, shares: Float) -> NDArray[np.bool_]:
    """Which components BIC supports only by what is missing, (r,).

    The observed values of their rows are as probable under a mixture of the other components.
    """
    even = replace(p, weights=np.ones(p.n_components))
    laws = tuple(replace(law, at_random=True) if law.has_missing else law for law in p.blocks.laws)
    of_values = replace(even, blocks=replace(p.blocks, laws=laws))
    n_observed = sum(law.has_missing and not law.at_random for law in p.blocks.laws)
    n_values = p.blocks.n_parameters - 1 - n_observed
    is_empty = np.zeros(p.n_components, dtype=bool)
    tables = [joint_densities(coefficients(q), features) for q in (of_values, even)]
    for c, rows in enumerate(shares):
        gains = [_gain(joint, c, rows) for joint in tables]
        price = log(max(rows.sum(), 2.0))
        is_empty[c] = gains[0] < n_values * price and gains[1] - gains[0] > n_observed * price
    return is_empty


def _gain(joint: Float, c: int, rows: Float) -> float:
    """Twice the log-likelihood of rows under component c beside the best mixture of the others."""
    others = np.delete(joint, c, axis=0)
    top, mix = others.max(axis=0), np.full(len(others), 1 / len(others))
    ratios = np.exp(others - top)
    for _ in range(_STEPS):
        before, mix = mix, mix * (ratios @ (rows / np.maximum(mix @ ratios, 1e-300)))
        mix /= max(mix.sum(), 1e-300)
        if np.abs(mix - before).max() < 1e-6:
            break
    return 2 * float(rows @ (joint[c] - top - np.log(np.maximum(mix @ ratios, 1e-300))))

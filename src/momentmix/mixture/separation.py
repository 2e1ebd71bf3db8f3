"""How far components are apart: the depth of the valley between each pair, 0 to 1.

| symbol | name here | shape |
|---|---|---|
| S_i = B Bᵀ, S_k = B Λ Bᵀ of each pair, Λ diagonal | ``axes``, ``ratios`` | (n_pairs, d) |
| x(a) = m_i + B w B⁻¹ (m_k − m_i), w = a / (a + (1 − a) Λ) | `_ridgelines` | (n_pairs, n, d) |
| L = log p_i(z) / p_k(z) of rows z of component i | `_log_odds` | (r, n) |
| max_x 1 − f(x) / min(max f before x, max f after x) | `_depths` | (n_pairs,) |

Of Gaussian features f is the density of the whole mixture along the ridgeline of the pair (Ray and
Lindsay, 2005), which holds all modes of the pair alone. Of other families there is no path between
two components, and f is the density of the log-odds of rows of the pair, between the means of the
two. Both weigh the pair as the mixture does: for two Gaussians of one covariance they are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from scipy.special import expit

from momentmix._typing import Float, Int
from momentmix.mixture.density import Density, joint_densities, log_sums
from momentmix.mixture.gaussian import features_of, sample
from momentmix.mixture.parameters import Parameters

# Two Gaussians of equal weights have no valley up to 2 deviations, 0.1 at 2.4, 0.36 at 3, 0.6 at
# 3.6 and 0.73 at 4. Fits of 2 and 3 components to one cloud (Gaussian, t, logistic, gamma,
# lognormal) reach 0.05, to a uniform one 0.56: Gaussians give each part of a box a mode.
LEAST_GAP, CLEAR_GAP = 0.1, 0.6
_POINTS = 128  # of a path: deviations apart by less than a fifth, also at covariances of ratio 1e4
_FIRST_STEP = 0.05  # of a path, in deviations of the component where it begins
_ALL_DRAWS, _FEWEST_DRAWS = 12000, 1000  # of all components and of each: errors of 0.015 to 0.04
# Share of noise in the variance of smoothed log-odds. At 0.7 a yes/no column of probabilities 0.8
# and 0.2, 1.5 deviations apart, has no valley between its two values; at 0.5 it would have 0.23.
_SMOOTHED = 0.7
_REACH, _BIN = 6.0, 0.1  # deviations: of the densities of log-odds
_PAIRS = 256  # whose paths are in memory at once
_LEAST_RATIO = 1e-12  # of variances: eigenvalues below are rounding
_LEAST_DEVIATION = 1e-9  # of log-odds: those of equal components are rounding
_NOTHING = 1e-300

JointOf = Callable[[Float], Float]


def separation_words(value: float) -> str:
    """Return what the depth of the valley between two components means."""
    if np.isnan(value):
        return "unknown"
    if value >= CLEAR_GAP:
        return "clearly apart"
    return "overlap" if value >= LEAST_GAP else "no gap: a cut through a continuum"


def separation_of(parameters: Parameters, joint_of: JointOf | None = None) -> Float:
    """Return the depth of the valley between each pair of components, (r, r); NaN on the diagonal.

    `joint_of` gives the log-densities of the components at rows, (r, n), weights included, where
    `Density` does not.
    """
    r = parameters.n_components
    table = np.full((r, r), np.nan)
    i, k = np.triu_indices(r, 1)
    if i.size:
        has_laws = bool(parameters.blocks.laws)
        found = _of_log_odds(parameters, joint_of) if has_laws else _of_ridgelines(parameters)
        table[i, k] = table[k, i] = found
    return table


def below_tops(logs: Float) -> Float:
    """Log-densities (…, n) less the lower of the highest before and after; 0 outside valleys."""
    before = np.maximum.accumulate(logs, axis=-1)
    after = np.maximum.accumulate(logs[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray(logs - np.minimum(before, after))


def _depths(logs: Float) -> Float:
    """Depth of the deepest valley of each row of log-densities (n_pairs, n)."""
    return np.asarray(1.0 - np.exp(below_tops(logs).min(axis=1)))


def _ends_and_steps(first: Float, last: Float) -> Float:
    """Logits of the points of paths, (n_pairs, n), from −∞ to ∞.

    A path leaves its ends with steps of e^s · `first` and e^−s · `last`, (n_pairs,), in deviations
    of the components there.
    """
    low, high = (np.log1p(length / _FIRST_STEP) for length in (first, last))
    ends = np.full((len(low), 1), np.inf)
    return np.hstack([-ends, np.linspace(-low, high, _POINTS, axis=1), ends])


# -- Gaussian features --------------------------------------------------------------------------


def _of_ridgelines(p: Parameters) -> Float:
    """Depths along the ridgelines of all pairs, (n_pairs,)."""
    density, pairs = Density.of_mixture(p), np.array(np.triu_indices(p.n_components, 1))
    depths = []
    for start in range(0, pairs.shape[1], _PAIRS):
        paths = _ridgelines(p, *pairs[:, start : start + _PAIRS])
        logs = density.map_rows(paths.reshape(-1, paths.shape[-1]), log_sums)
        depths.append(_depths(logs.reshape(paths.shape[:-1])))
    return np.concatenate(depths)


def _ridgelines(p: Parameters, i: Int, k: Int) -> Float:
    """Points of the ridgelines of pairs, (n_pairs, n, d), with the means at their ends."""
    roots = np.sqrt(p.variances)[i]
    ratios, change = p.variances[k] / p.variances[i], (p.means[k] - p.means[i]) / roots
    axes = []
    for features, places in p.blocks.places:
        matrices = p.spread[..., places]
        roots_of_block = np.linalg.cholesky(matrices)
        inverse = np.linalg.inv(roots_of_block)[i]
        ratio, turn = np.linalg.eigh(inverse @ matrices[k] @ inverse.mT)
        ratios[:, features] = np.maximum(ratio, _LEAST_RATIO)
        axes.append((features, roots_of_block[i] @ turn))
        turned = turn.mT @ inverse @ (p.means[k] - p.means[i])[:, features, None]
        change[:, features] = turned[..., 0]
    first, last = (np.linalg.norm(x, axis=1) for x in (change / ratios, change * np.sqrt(ratios)))
    logits = _ends_and_steps(first, last)[:, :, None] - np.log(ratios)[:, None]
    moved = expit(logits) * change[:, None]
    paths = moved * roots[:, None]
    for features, axis in axes:
        paths[:, :, features] = moved[:, :, features] @ axis.mT
    paths += p.means[i][:, None]
    return np.asarray(paths)


# -- other families -----------------------------------------------------------------------------


def _of_log_odds(p: Parameters, joint_of: JointOf | None) -> Float:
    """Depths in the distribution of the log-odds of rows of each pair, (n_pairs,)."""
    i, k = np.triu_indices(p.n_components, 1)
    found = [_standardized(odds) for odds in _log_odds(p, joint_of)]
    means, deviations, curves = (np.array(part) for part in zip(*found, strict=True))
    length = np.maximum(means[i, k] + means[k, i], 0.0)  # from the mean of k to that of i
    logits = _ends_and_steps(length / deviations[k, i], length / deviations[i, k])
    total = np.full(logits.shape, _NOTHING)
    for this, other, way in ((i, k, -logits), (k, i, logits)):
        units = deviations[this, other][:, None]
        values = _values_at(curves[this, other], -expit(way) * length[:, None] / units)
        total += p.weights[this][:, None] * values / units
    return _depths(np.log(total))


def _log_odds(p: Parameters, joint_of: JointOf | None) -> Iterator[Float]:
    """log p_i / p_k of rows of component i, over k, (r, n); for each i."""
    r, density = p.n_components, Density.of_mixture(p)

    def joint(rows: Float) -> Float:
        features = features_of(rows, density.blocks, density.shift, density.inverse)
        return np.asarray(joint_densities(density.coefficients, features))

    n, logs = max(_FEWEST_DRAWS, _ALL_DRAWS // r), np.log(np.maximum(p.weights, _NOTHING))
    for i in range(r):
        # The same noise for every component: their order makes no difference.
        rows, _ = sample(replace(p[[i]], weights=np.ones(1)), n, np.random.default_rng(0))
        densities = (joint_of or joint)(rows) - logs[:, None]
        yield densities[i] - densities


def _standardized(values: Float) -> tuple[Float, Float, Float]:
    """Means and deviations (r,) of values (r, n), and smoothed densities in units of them, (r, m).

    On a grid of ±`_REACH`. They keep mean and variance: values are drawn to the mean by as much as
    noise adds.
    """
    means, deviations = values.mean(axis=1), np.maximum(values.std(axis=1), _LEAST_DEVIATION)
    r, m = len(values), round(2 * _REACH / _BIN) + 1
    grid, shrunk = np.linspace(-_REACH, _REACH, m), np.sqrt(1 - _SMOOTHED) / deviations[:, None]
    places = np.rint(((values - means[:, None]) * shrunk + _REACH) / _BIN).clip(0, m - 1)
    places += m * np.arange(r)[:, None]
    counts = np.bincount(places.astype(np.int64).ravel(), minlength=r * m).reshape(r, m)
    kernel = np.exp(-0.5 * (grid[:, None] - grid) ** 2 / _SMOOTHED)
    return means, deviations, np.asarray(counts @ kernel, dtype=np.float64)


def _values_at(curves: Float, places: Float) -> Float:
    """Values of curves on the grid, (n_pairs, m), at places (n_pairs, n), between its points."""
    at = ((places + _REACH) / _BIN).clip(0, curves.shape[1] - 1)
    left = np.minimum(at.astype(np.int64), curves.shape[1] - 2)
    low, high = (np.take_along_axis(curves, x, axis=1) for x in (left, left + 1))
    return np.asarray(low + (at - left) * (high - low))

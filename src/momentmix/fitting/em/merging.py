"""One component less: the pair whose merge costs least, then EM."""

from __future__ import annotations

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.em.em import run_batch
from momentmix.mixture.gaussian import VariancePrior
from momentmix.mixture.parameters import Parameters

_MERGES = 6  # pairs whose merge costs least by a bound: the best is among them


def one_less(
    features: Float,
    parameters: Parameters,
    floor: Float,
    n_steps: int,
    n_merges: int = _MERGES,
    n_threads: int = 1,
) -> Parameters:
    """The best mixture with one component less that EM finds from merged pairs."""
    prior = VariancePrior.of_rows(features.shape[1], parameters.n_components - 1, floor)
    start = Parameters.stack(cheapest_merges(parameters, n_merges))
    settled, values = run_batch(features, start, prior, n_steps, n_threads)
    return settled[int(values.argmax())]


def cheapest_merges(p: Parameters, count: int) -> list[Parameters]:
    """Mixtures with the pair of components merged that the density loses least by, at most.

    The bound of Runnalls (2007): ½ (ω log v − ω_i log v_i − ω_k log v_k) with the moments of the
    pair as a whole, summed over the features.
    """
    i, k = np.triu_indices(p.n_components, 1)
    w = p.weights[i] + p.weights[k]
    first, second = p.weights[i] / w, p.weights[k] / w
    means = first[:, None] * p.means[i] + second[:, None] * p.means[k]
    variances = first[:, None] * (p.variances[i] + (p.means[i] - means) ** 2)
    variances += second[:, None] * (p.variances[k] + (p.means[k] - means) ** 2)
    logs = np.log(p.variances).sum(axis=1)
    bounds = w * np.log(variances).sum(axis=1)
    bounds -= p.weights[i] * logs[i] + p.weights[k] * logs[k]
    merged = []
    for pair in np.argsort(bounds, kind="stable")[:count]:
        rest = np.delete(np.arange(p.n_components), [i[pair], k[pair]])
        one = Parameters(w[[pair]], means[[pair]], variances[[pair]])
        merged.append(Parameters.concatenate([p[rest], one]).normalized())
    return merged

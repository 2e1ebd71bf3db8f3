"""Expectation–maximization: one pass over all rows, and runs of many mixtures in memory.

The statistics are sums over rows, so passes are divided into blocks and threads. Each block's sums
are added in the order of the blocks, which makes the bits independent of the number of threads.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.density import TILE_ENTRIES, Density, mean_log_densities, statistics_of
from momentmix.mixture.gaussian import VariancePrior, coefficients, m_step
from momentmix.mixture.parameters import Parameters
from momentmix.parallel import map_in_order
from momentmix.rows.protocol import Rows


class Pass(NamedTuple):
    """Sums of one pass: statistics (r, n_statistics), total log-likelihood, number of rows."""

    statistics: Float
    log_likelihood: float
    n_rows: int


def em_pass(
    rows: Rows, moments: StandardMoments, parameters: Parameters, n_threads: int = 1
) -> Pass:
    """One pass over all rows: statistics and log-likelihood of standardized features."""
    density = Density(coefficients(parameters), moments.shift, 1.0 / moments.scale, moments.columns)
    return Pass(*rows.sum_blocks(density.em_sums, n_threads))


def run_batch(
    features: Float, start: Parameters, prior: VariancePrior, n_steps: int, n_threads: int = 1
) -> tuple[Parameters, Float]:
    """EM for a batch on rows in memory; `objectives` before the last step, of shape (k,).

    Small mixtures share their matrix products; large ones are run on threads. Which of them share
    does not depend on the number of threads, so that neither do the bits.

    Parameters
    ----------
    features : array of shape (n_statistics, n)
    start : Parameters of k mixtures
    prior : VariancePrior
    """
    k, r = start.weights.shape
    # Mixtures share a product until its tile of densities is as wide as the cache allows.
    n_groups = int(np.clip(k * r * features.shape[1] // TILE_ENTRIES, 1, k))
    edges = np.linspace(0, k, n_groups + 1).astype(int)

    def run(group: Parameters) -> tuple[Parameters, Float]:
        before, mean_log = group, np.zeros(group.weights.shape[0])
        for _ in range(n_steps):
            before = group
            statistics, mean_log = statistics_of(coefficients(group), features)
            group = m_step(statistics, prior)
        return group, mean_log + prior.log_density(before) / features.shape[1]

    groups = [start[a:b] for a, b in pairwise(edges)]
    results = list(map_in_order(run, groups, min(n_threads, n_groups)))
    batch = Parameters.concatenate([group for group, _ in results])
    return batch, np.concatenate([values for _, values in results])


def log_likelihoods(features: Float, batch: Parameters) -> Float:
    """Mean log-density of the rows under each mixture of a batch, of shape (k,)."""
    return mean_log_densities(coefficients(batch), features)


def log_likelihood(features: Float, parameters: Parameters) -> float:
    """Mean log-density of the rows under one mixture."""
    return float(log_likelihoods(features, parameters[None])[0])


def objectives(features: Float, batch: Parameters, prior: VariancePrior) -> Float:
    """What EM maximizes: mean log-density of a row plus the log prior over the rows; (k,)."""
    values = log_likelihoods(features, batch) + prior.log_density(batch) / features.shape[1]
    return np.asarray(values)

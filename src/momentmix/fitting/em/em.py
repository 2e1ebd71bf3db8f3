"""Expectation–maximisation in matrix products, for one or many mixtures at once.

| paper symbol | name here | shape |
|---|---|---|
| (z, z², 1) of the rows, one column each | ``features`` | (2d + 1, n) |
| log ω_i N(z; μ_i, v_i) = coefficients · features | ``coefficients`` | (r, 2d + 1) |
| responsibilities γ_i(z) | ``shares`` | (r, n), one tile at a time |
| Σ_z γ_i(z)·(z, z², 1) | ``statistics`` | (r, 2d + 1) |

The statistics are sums over rows, so passes are chunked and threaded; each tile's sums are added in
the order of the tiles, which makes the bits independent of the number of threads.

Differs from the paper: the paper has no such step; it is optional here.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix.fitting.conditions.conditions import Parameters
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.device_em import DeviceRows, device_statistics
from momentmix.mixture.log_densities import TILE_ENTRIES, tile_width
from momentmix.parallel import few_threads, map_in_order
from momentmix.rows.protocol import RemoteRows, RowBlocks

Float = NDArray[np.float64]

__all__ = [
    "Batch", "Pass", "block_sums", "coefficients", "em_pass", "features_of", "log_likelihoods",
    "m_step", "run_batch", "shares_of",
]  # fmt: skip

# Log of the least share that is told from this one, e^-200 = 1e-87: far below what any sum can
# hold, and far above the numbers (below 1e-308) whose products take processors ten times as long.
_FAR = -200.0


class Pass(NamedTuple):
    """Sums of one pass: statistics (r, 2d + 1), total log-likelihood, number of rows."""

    statistics: Float
    log_likelihood: float
    n_rows: int


class Batch(NamedTuple):
    """Several mixtures of r components at once: (k, r), (k, r, d), (k, r, d)."""

    weights: Float
    means: Float
    variances: Float

    def one(self, k: int) -> Parameters:
        """The k-th mixture."""
        return Parameters(self.weights[k], self.means[k], self.variances[k])


def features_of(rows: Float) -> Float:
    """(z, z², 1) of standardised rows (n, d), as columns; (2d + 1, n)."""
    n, d = rows.shape
    features = np.empty((2 * d + 1, n))
    features[:d] = rows.T
    _complete(features)
    return features


def _complete(features: Float) -> None:
    """Squares and the constant, where the rows themselves are in place."""
    d = features.shape[0] // 2
    np.multiply(features[:d], features[:d], out=features[d : 2 * d])
    features[2 * d] = 1.0


def coefficients(weights: Float, means: Float, variances: Float) -> Float:
    """Log-densities as linear functions of (z, z², 1), of shape (..., r, 2d + 1)."""
    precisions = 1.0 / variances
    # An empty component keeps a finite logarithm: products of −inf raise floating-point flags.
    constants = np.log(np.maximum(weights, 1e-300)) - 0.5 * (
        np.log(2 * np.pi * variances) + means**2 * precisions
    ).sum(axis=-1)
    parts = [means * precisions, -0.5 * precisions, constants[..., None]]
    return np.concatenate(parts, axis=-1)


def _shares(
    coefficient: Float, features: Float, n_mixtures: int, out: Float | None = None
) -> tuple[Float, Float]:
    """Responsibilities (k, r, n) and log-densities (k, n) of one tile."""
    joint = np.matmul(coefficient, features, out=out)
    joint = joint.reshape(n_mixtures, -1, features.shape[1])
    top = joint.max(axis=1)
    np.maximum(top, -1e300, out=top)
    joint -= top[:, None, :]
    np.maximum(joint, _FAR, out=joint)
    np.exp(joint, out=joint)
    total = joint.sum(axis=1)
    joint *= (1.0 / total)[:, None, :]
    return joint, np.log(total) + top


def shares_of(coefficient: Float, features: Float) -> Float:
    """Responsibilities of one mixture, of shape (r, n)."""
    return np.asarray(_shares(coefficient, features, 1)[0][0])


def _tiles(n: int, n_rows_of_coefficients: int) -> Iterator[slice]:
    width = tile_width(n_rows_of_coefficients)
    for start in range(0, n, width):
        yield slice(start, start + width)


def m_step(statistics: Float, floor: Float) -> tuple[Float, Float, Float]:
    """Weights, means and variances from statistics (..., r, 2d + 1).

    An empty component keeps mean 0, variance 1 and weight 0.
    """
    d = (statistics.shape[-1] - 1) // 2
    counts = statistics[..., -1]
    safe = np.maximum(counts, 1e-12)[..., None]
    means = statistics[..., :d] / safe
    variances = np.maximum(statistics[..., d : 2 * d] / safe - means**2, floor)
    variances = np.where(counts[..., None] > 1e-10, variances, 1.0)
    weights = counts / counts.sum(axis=-1, keepdims=True)
    return weights, means, variances


def run_batch(
    features: Float, start: Batch, floor: Float, n_steps: int, n_threads: int = 1
) -> tuple[Batch, Float]:
    """EM for several mixtures on rows in memory; log-likelihood per row before the last step.

    Small mixtures share their matrix products; large ones are run on threads. Which of them share
    does not depend on the number of threads, so that neither do the bits.
    """
    k, r = start.weights.shape
    n_groups = int(np.clip(k * r * features.shape[1] // TILE_ENTRIES, 1, k))
    edges = np.linspace(0, k, n_groups + 1).astype(int)
    groups = [Batch(*(x[a:b] for x in start)) for a, b in pairwise(edges)]

    def work(group: Batch) -> tuple[Batch, Float]:
        return _run_group(features, group, floor, n_steps)

    done = list(map_in_order(work, groups, min(n_threads, n_groups)))
    batch = Batch(*(np.concatenate(parts) for parts in zip(*(b for b, _ in done), strict=True)))
    return batch, np.concatenate([logs for _, logs in done])


def _run_group(features: Float, start: Batch, floor: Float, n_steps: int) -> tuple[Batch, Float]:
    """`run_batch` in one matrix product for all mixtures."""
    k, d = start.weights.shape[0], start.means.shape[2]
    current = start
    mean_log = np.zeros(k)
    for _ in range(n_steps):
        table = coefficients(*current).reshape(-1, 2 * d + 1)
        statistics = np.zeros_like(table)
        mean_log = np.zeros(k)
        buffer = np.empty(table.shape[0] * tile_width(table.shape[0]))
        for tile in _tiles(features.shape[1], table.shape[0]):
            part = features[:, tile]
            out = buffer[: table.shape[0] * part.shape[1]].reshape(table.shape[0], -1)
            shares, logs = _shares(table, part, k, out=out)
            statistics += shares.reshape(table.shape[0], -1) @ part.T
            mean_log += logs.sum(axis=1)
        mean_log /= features.shape[1]
        current = Batch(*m_step(statistics.reshape(k, -1, 2 * d + 1), floor))
    return current, mean_log


def log_likelihoods(features: Float, batch: Batch) -> Float:
    """Mean log-density of the rows under each mixture, of shape (k,)."""
    k = batch.weights.shape[0]
    table = coefficients(*batch).reshape(-1, features.shape[0])
    total = np.zeros(k)
    for tile in _tiles(features.shape[1], table.shape[0]):
        joint = (table @ features[:, tile]).reshape(k, -1, features[:, tile].shape[1])
        top = np.maximum(joint.max(axis=1), -1e300)
        joint -= top[:, None]
        np.maximum(joint, _FAR, out=joint)
        np.exp(joint, out=joint)
        total += (np.log(joint.sum(axis=1)) + top).sum(axis=1)
    return np.asarray(total / features.shape[1])


def block_sums(
    block: Float, table: Float, shift: Float, inverse: Float, columns: NDArray[np.int64]
) -> Pass:
    """Sums over one block of raw rows, a pure function of its arguments.

    Parameters
    ----------
    block : array of shape (n, n_columns)
    table : array of shape (r, 2d + 1)
        `coefficients` of a mixture of standardised features.
    shift, inverse : arrays of shape (d,)
        z = (y − shift)·inverse.
    columns : array of shape (d,)
        Which columns of the block the features are.
    """
    r, d = table.shape[0], columns.size
    width = tile_width(r)
    statistics, total = np.zeros_like(table), 0.0
    # Tiles stay in the cache, and buffers are reused: fresh memory costs more than arithmetic.
    features_buffer, joint_buffer = np.empty((2 * d + 1) * width), np.empty(r * width)
    for start in range(0, block.shape[0], width):
        part = block[start : start + width]
        if d < block.shape[1]:
            part = part[:, columns]
        n = part.shape[0]
        features = features_buffer[: (2 * d + 1) * n].reshape(2 * d + 1, n)
        np.subtract(part.T, shift[:, None], out=features[:d])
        features[:d] *= inverse[:, None]
        _complete(features)
        out = joint_buffer[: r * n].reshape(r, n)
        shares, logs = _shares(table, features, 1, out=out)
        statistics += shares[0] @ features.T
        total += float(logs.sum())
    return Pass(statistics, total, block.shape[0])


def em_pass(
    rows: RowBlocks, moments: StandardMoments, parameters: Parameters, n_threads: int = 1
) -> Pass:
    """One pass over all rows: statistics and log-likelihood of standardised features."""
    if isinstance(rows, DeviceRows):
        return Pass(*device_statistics(rows, moments, parameters))
    table = coefficients(parameters.weights, parameters.means, parameters.variances)
    frame = (moments.shift, 1.0 / moments.scale, moments.columns)
    statistics, log_likelihood, count = np.zeros_like(table), 0.0, 0

    def work(block: Float) -> Pass:
        return block_sums(block, table, *frame)

    if isinstance(rows, RemoteRows):
        return Pass(*rows.sum_blocks(work))
    with few_threads(True):
        for part in map_in_order(work, rows.blocks(), n_threads):
            statistics += part.statistics
            log_likelihood += part.log_likelihood
            count += part.n_rows
    return Pass(statistics, log_likelihood, count)

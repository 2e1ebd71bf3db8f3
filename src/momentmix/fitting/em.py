"""Expectation–maximisation in matrix products, for one or many mixtures at once.

| paper symbol | name here | shape |
|---|---|---|
| (z, z², 1) of the rows, one column each | ``features`` | (2d + 1, n) |
| log ω_i N(z; μ_i, v_i) = coefficients · features | ``coefficients`` | (r, 2d + 1) |
| responsibilities γ_i(z) | ``shares`` inside `e_step` | (r, n), one tile at a time |
| Σ_z γ_i(z)·(z, z², 1) | ``statistics`` | (r, 2d + 1) |

The statistics are sums over rows, so passes are chunked and threaded; each tile's sums are added in
the order of the tiles, which makes the bits independent of the number of threads.

Differs from the paper: the paper has no such step; it is optional here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from momentmix.core.row_blocks import RowBlocks
from momentmix.core.standard_moments import StandardMoments
from momentmix.core.threads import few_threads
from momentmix.fitting.conditions import Parameters

Float = NDArray[np.float64]
S = TypeVar("S")
T = TypeVar("T")

__all__ = [
    "Batch", "Pass", "coefficients", "em_pass", "features_of", "log_likelihoods", "m_step",
    "run_batch", "shares_of",
]  # fmt: skip

_TILE_ENTRIES = 1 << 16  # doubles in one tile of log-densities: half a megabyte


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


def features_of(rows: Float, out: Float | None = None) -> Float:
    """(z, z², 1) of standardised rows (n, d), as columns; (2d + 1, n)."""
    n, d = rows.shape
    features = np.empty((2 * d + 1, n)) if out is None else out
    features[:d] = rows.T
    np.multiply(features[:d], features[:d], out=features[d : 2 * d])
    features[2 * d] = 1.0
    return features


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
    np.exp(joint, out=joint)
    total = joint.sum(axis=1)
    joint /= total[:, None, :]
    return joint, np.log(total) + top


def shares_of(coefficient: Float, features: Float) -> Float:
    """Responsibilities of one mixture, of shape (r, n)."""
    return np.asarray(_shares(coefficient, features, 1)[0][0])


def _tile_width(n_rows_of_coefficients: int) -> int:
    return max(128, _TILE_ENTRIES // n_rows_of_coefficients)


def _tiles(n: int, n_rows_of_coefficients: int) -> Iterator[slice]:
    width = _tile_width(n_rows_of_coefficients)
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


def run_batch(features: Float, start: Batch, floor: Float, n_steps: int) -> tuple[Batch, Float]:
    """EM for several mixtures on rows in memory; log-likelihood per row before the last step."""
    k, _ = start.weights.shape
    d = start.means.shape[2]
    current = start
    mean_log = np.zeros(k)
    for _ in range(n_steps):
        table = coefficients(*current).reshape(-1, 2 * d + 1)
        statistics = np.zeros_like(table)
        mean_log = np.zeros(k)
        buffer = np.empty(table.shape[0] * _tile_width(table.shape[0]))
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
        total += (np.log(np.exp(joint - top[:, None]).sum(axis=1)) + top).sum(axis=1)
    return np.asarray(total / features.shape[1])


def em_pass(
    rows: RowBlocks, moments: StandardMoments, parameters: Parameters, n_threads: int = 1
) -> Pass:
    """One pass over all rows: statistics and log-likelihood of standardised features."""
    table = coefficients(parameters.weights, parameters.means, parameters.variances)
    shift, inverse = moments.shift, np.where(moments.constant, 0.0, 1.0 / moments.scale)

    r, d = parameters.means.shape
    width = max(256, min(2048, _TILE_ENTRIES // r))

    def block_sums(block: Float) -> tuple[Float, float, int]:
        # Buffers are reused: fresh memory costs more than the arithmetic.
        statistics, total = np.zeros_like(table), 0.0
        buffer, joint = np.empty((2 * d + 1) * width), np.empty(r * width)
        centred = np.empty((width, d))
        for start in range(0, block.shape[0], width):
            part = block[start : start + width]
            n = part.shape[0]
            z = np.subtract(part, shift, out=centred[:n])
            z *= inverse
            features = features_of(z, out=buffer[: (2 * d + 1) * n].reshape(2 * d + 1, n))
            shares, logs = _shares(table, features, 1, out=joint[: r * n].reshape(r, n))
            statistics += shares[0] @ features.T
            total += float(logs.sum())
        return statistics, total, block.shape[0]

    statistics, log_likelihood, count = np.zeros_like(table), 0.0, 0
    with few_threads(True):
        for part, logs, n in map_in_order(block_sums, rows.blocks(), n_threads):
            statistics += part
            log_likelihood += logs
            count += n
    return Pass(statistics, log_likelihood, count)


def map_in_order(work: Callable[[S], T], items: Iterable[S], n_threads: int) -> Iterator[T]:
    """Results in the order of the items, with at most 2·n_threads items held at once."""
    if n_threads == 1:
        yield from map(work, items)
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) >= 2 * n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

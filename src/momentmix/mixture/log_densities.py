"""Log-densities of the components of a mixture, tile by tile, in matrix products.

| paper symbol | name here | shape |
|---|---|---|
| log ω_i + log N(y; μ_i, Σ_i) | ``LogDensities.of`` | (n_components, n) |
| log Σ_i ω_i N(y; μ_i, Σ_i) | ``log_sums`` | (n,) |
| ω_i N(y; μ_i, Σ_i) / Σ_k ω_k N(y; μ_k, Σ_k) | ``shares`` | (n_components, n) |

The squares are expanded about the mixture's mean in units of its deviation: less cancellation, and
no overflow whatever the units of the data.

Differs from the paper: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError

Float = NDArray[np.float64]

__all__ = [
    "TILE_ENTRIES", "LogDensities", "centre_and_scale", "log_sums", "most_probable", "shares",
    "tile_width",
]  # fmt: skip

TILE_ENTRIES = 1 << 16  # doubles in one tile of log-densities: half a megabyte
_LEAST = -700.0  # e^-700 = 1e-304; numbers below 1e-308 take processors ten times as long
_NOTHING = 1e-303
_LOWEST = np.finfo(np.float64).min


def tile_width(n_densities: int) -> int:
    """Rows of a tile that holds so many log-densities of each."""
    return max(128, min(2048, TILE_ENTRIES // n_densities))


def centre_and_scale(weights: Float, means: Float, variances: Float) -> tuple[Float, Float]:
    """Mean and standard deviation of each feature over all components; 1 for deviation 0.

    Squares are taken in units of a power of two, so that none overflows and no bit changes.
    """
    centre = weights @ means
    offsets = means - centre
    unit = np.frexp(np.maximum(np.abs(offsets), np.sqrt(variances)).max(axis=0))[1]
    spread = weights @ (np.ldexp(variances, -2 * unit) + np.ldexp(offsets, -unit) ** 2)
    return centre, np.ldexp(np.sqrt(np.where(spread > 0, spread, 1.0)), unit)


class LogDensities:
    """Weighted log-densities as linear functions of (z, z²), z the rows about the centre."""

    def __init__(self, weights: Float, means: Float, variances: Float) -> None:
        self.n_components, self.n_features = means.shape
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            self._fill(weights, means, variances)

    def _fill(self, weights: Float, means: Float, variances: Float) -> None:
        self.centre, self.scale = centre_and_scale(weights, means, variances)
        z = (means - self.centre) / self.scale
        unit = np.frexp(self.scale)[1]
        precisions = np.ldexp(self.scale, -unit) ** 2 / np.ldexp(variances, -2 * unit)
        distances = z**2 * precisions
        constants = np.log(weights) - 0.5 * (
            self.n_features * np.log(2 * np.pi)
            + np.log(variances).sum(axis=1)
            + distances.sum(axis=1)
        )
        self.table = np.hstack([z * precisions, -0.5 * precisions, constants[:, None]])
        known = np.isfinite(distances) & np.isfinite(precisions) & np.isfinite(self.scale)
        if not known.all():
            i, j = np.argwhere(~known)[0]
            raise InputError(
                f"component {i} is too far from the others in feature {j} beside its deviation "
                f"there ({means[i, j]:.4g} ± {variances[i, j] ** 0.5:.4g}): its density is beyond "
                "the range of double precision. Rescale the feature, or leave the component out."
            )

    def tiles(self, start: int, stop: int) -> Iterator[slice]:
        """Slices from start to stop whose log-densities fit the cache."""
        width = tile_width(self.n_components)
        for first in range(start, stop, width):
            yield slice(first, min(first + width, stop))

    def of(self, rows: NDArray[Any]) -> Float:
        """log ω_i + log N(y; μ_i, Σ_i) of rows (n, d), of shape (n_components, n)."""
        d = self.n_features
        features = np.empty((2 * d + 1, rows.shape[0]))
        np.subtract(rows.T, self.centre[:, None], out=features[:d])
        features[:d] /= self.scale[:, None]
        np.multiply(features[:d], features[:d], out=features[d : 2 * d])
        features[2 * d] = 1.0
        return np.asarray(self.table @ features)


def _exponentials(logs: Float) -> tuple[Float, Float]:
    """exp(logs − top) in place of `logs`, and top: the largest of each column."""
    top = logs.max(axis=0)
    logs -= np.maximum(top, _LOWEST)  # rows so far away that every density is 0 have top −inf
    np.maximum(logs, _LEAST, out=logs)
    np.exp(logs, out=logs)
    return logs, top


def log_sums(logs: Float) -> Float:
    """log Σ_i exp of each column; overwrites `logs`."""
    terms, top = _exponentials(logs)
    return np.asarray(np.log(terms.sum(axis=0)) + top)


def shares(logs: Float) -> Float:
    """exp(logs) with columns of sum 1; overwrites `logs`."""
    terms, _ = _exponentials(logs)
    terms *= terms > _NOTHING
    terms /= terms.sum(axis=0)
    return terms


def most_probable(logs: Float) -> NDArray[np.int64]:
    """Place of the largest entry of each column; −1 where one is NaN, or all are −inf."""
    places = logs.argmax(axis=0)  # the first NaN, if there is one
    largest = np.take_along_axis(logs, places[None, :], axis=0)[0]
    return np.asarray(np.where(np.isnan(largest) | (largest == -np.inf), -1, places))

"""EM statistics of rows that lie on a device, through the array API.

| paper symbol | name here | shape |
|---|---|---|
| responsibilities γ_i(z) | ``shares`` | (S, n, r), one chunk of S slabs at a time |
| Σ_z γ_i(z)·(z, z², 1) | ``statistics`` | (r, 2d + 1) |

Rows stay where they are; per pass the host sees the statistics and the likelihood only.

Differs from the paper: the paper has no such step; it is optional here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.arrays import (
    as_float64,
    free_bytes,
    namespace,
    on_device_of,
    to_numpy,
)
from momentmix.fitting.conditions.conditions import Parameters
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.array_density import DeviceTable, shares_and_logs
from momentmix.rows.protocol import HeldRows

__all__ = ["DeviceRows", "device_statistics"]

Float = NDArray[np.float64]

_COPIES = 6  # of the features and the joint densities at once
_SLAB = 4096  # rows of one matrix of a batched product: tall thin products are slow


class DeviceRows(HeldRows):
    """Rows of an array on a device, as blocks of NumPy rows where a step needs them here.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features) of another library
    """

    def __init__(self, rows: Any, block_size: int = 1 << 20) -> None:
        self.rows, self.block_size = rows, block_size

    def blocks(self) -> Iterator[Float]:
        """Consecutive blocks of rows, copied to the host."""
        for start in range(0, self.n_rows, self.block_size):
            part = self.rows[start : min(start + self.block_size, self.n_rows), :]
            yield to_numpy(as_float64(part, namespace(part)))

    def take(self, places: NDArray[np.int64]) -> Float:
        """Some rows, copied to the host."""
        xp = namespace(self.rows)
        chosen = xp.take(self.rows, on_device_of(places, self.rows, xp), axis=0)
        return to_numpy(as_float64(chosen, xp))


def device_statistics(
    rows: DeviceRows, moments: StandardMoments, parameters: Parameters
) -> tuple[Float, float, int]:
    """One pass: statistics (r, 2d + 1), total log-likelihood of standardised rows, their number."""
    array = rows.rows
    xp = namespace(array)
    frame = (moments.shift, 1.0 / moments.scale)
    table = DeviceTable.of(
        parameters.weights, parameters.means, parameters.variances, frame, array, xp
    )
    r, d = parameters.means.shape
    step = max(1, free_bytes(array) // (8 * _COPIES * (r + 2 * d)))
    step = step // _SLAB * _SLAB or step
    statistics, log_likelihood = np.zeros((r, 2 * d + 1)), 0.0
    for start in range(0, rows.n_rows, step):
        block = as_float64(array[start : min(start + step, rows.n_rows), :], xp)
        if d < rows.n_features:
            block = xp.take(block, on_device_of(moments.columns, array, xp), axis=1)
        whole = block.shape[0] // _SLAB * _SLAB
        pieces = [(block[:whole, :], whole // _SLAB), (block[whole:, :], 1)]
        for piece, n_slabs in pieces:
            if piece.shape[0]:
                part, logs = _chunk(xp.reshape(piece, (n_slabs, -1, d)), table, xp)
                statistics += part
                log_likelihood += logs
    return statistics, log_likelihood, rows.n_rows


def _chunk(slabs: Any, table: DeviceTable, xp: Any) -> tuple[Float, float]:
    z, squares, joint = table.joint(slabs, xp)
    shares, logs = shares_and_logs(joint, xp)
    turned = xp.permute_dims(shares, (0, 2, 1))
    ones = xp.sum(shares, axis=(0, 1))[:, None]
    sums = [xp.sum(xp.matmul(turned, features), axis=0) for features in (z, squares)]
    return to_numpy(xp.concat([*sums, ones], axis=1)), float(xp.sum(logs))

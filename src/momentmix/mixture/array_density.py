"""Log-densities of rows that lie on a device, through the array API.

| paper symbol | name here | shape |
|---|---|---|
| ω_i, μ_i, diag Σ_i | ``weights``, ``means``, ``variances`` | (r,), (r, d), (r, d) |
| log ω_i + log N(y; μ_i, Σ_i) | ``joint`` inside `map_rows` | (n, r), one block at a time |

Differs from the paper: nothing.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix.arrays import (
    as_float64,
    check_real,
    free_bytes,
    namespace,
    on_device_of,
)

__all__ = ["DeviceTable", "Kind", "map_rows", "shares_and_logs"]

Float = NDArray[np.float64]
Kind = Literal["log_prob", "responsibilities", "predict"]

_COPIES = 6  # of the rows and the joint densities at once


class DeviceTable(NamedTuple):
    """Log-densities as linear functions of z and z², z = (y − shift)·inverse, on a device."""

    shift: Any  # (d,)
    inverse: Any  # (d,)
    linear: Any  # (d, r)
    quadratic: Any  # (d, r)
    constant: Any  # (r,)

    @classmethod
    def of(
        cls, weights: Float, means: Float, variances: Float, frame: tuple[Float, Float],
        rows: Any, xp: Any,
    ) -> DeviceTable:  # fmt: skip
        """Table of a mixture of the standardised features z, beside the rows."""
        precisions = 1.0 / variances
        with np.errstate(divide="ignore"):
            constant = np.log(weights) - 0.5 * (
                np.log(2 * np.pi * variances) + means**2 * precisions
            ).sum(axis=1)
        parts = (*frame, (means * precisions).T, -0.5 * precisions.T, constant)
        return cls(*(on_device_of(np.asarray(part), rows, xp) for part in parts))

    def joint(self, rows: Any, xp: Any) -> tuple[Any, Any, Any]:
        """z, z² and the log-densities, of shapes (n, d), (n, d), (n, r)."""
        z = (rows - self.shift) * self.inverse
        squares = z * z
        joint = xp.matmul(z, self.linear) + xp.matmul(squares, self.quadratic) + self.constant
        return z, squares, joint


def shares_and_logs(joint: Any, xp: Any) -> tuple[Any, Any]:
    """Posterior probabilities (…, n, r) and log-densities (…, n, 1) from joint densities."""
    top = xp.max(joint, axis=-1, keepdims=True)
    top = xp.where(xp.isinf(top), xp.zeros_like(top), top)  # all vanish: −inf − (−inf) is NaN
    shares = xp.exp(joint - top)
    total = xp.sum(shares, axis=-1, keepdims=True)
    return shares / total, xp.log(total) + top


def map_rows(
    parameters: tuple[Float, Float, Float],
    rows: Any,
    kind: Kind,
) -> Any:
    """Result for each row as an array of the rows' library, on their device.

    Parameters
    ----------
    parameters : weights, means and variances
        Of shapes (r,), (r, d), (r, d), NumPy.
    rows : array of shape (n_rows, d) of another library
    kind : what to compute
    """
    check_real(rows)
    xp = namespace(rows)
    weights, means, variances = parameters
    centre = weights @ means  # the squares are expanded about it: less cancellation
    frame = (centre, np.ones_like(centre))
    table = DeviceTable.of(weights, means - centre, variances, frame, rows, xp)
    r, d = means.shape
    n_rows = int(rows.shape[0])
    step = max(1, free_bytes(rows) // (8 * _COPIES * (r + d)))
    parts = []
    for start in range(0, max(n_rows, 1), step):
        block = as_float64(rows[start : min(start + step, n_rows), :], xp)
        with np.errstate(over="ignore", invalid="ignore"):  # libraries that rest on NumPy
            joint = table.joint(block, xp)[2]
        if kind == "predict":
            labels = xp.argmax(joint, axis=1)
            missing = xp.any(xp.isnan(joint), axis=1)  # no label for NaN, nor where all vanish
            missing = missing | xp.all(joint == -xp.inf, axis=1)
            parts.append(xp.where(missing, xp.full_like(labels, -1), labels))
            continue
        shares, logs = shares_and_logs(joint, xp)
        parts.append(shares if kind == "responsibilities" else logs[:, 0])
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)

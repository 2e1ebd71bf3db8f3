"""A block of a mixture as a value, and what its family knows: here Gaussian columns.

| symbol | name here | shape |
|---|---|---|
| μ_i of the block's columns | ``means`` | (r, k) |
| Σ_i of the block's columns | ``covariances`` | (r, k, k) |
| Σ_UK Σ_KK⁻¹, for known columns K and the others U | ``Regression.slopes`` | (r, u, k) |
| Σ_UU − Σ_UK Σ_KK⁻¹ Σ_KU | ``Regression.rest`` | (r, u, u) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError


class Regression(NamedTuple):
    """Columns of a block given others of it: μ_U + slopes · (y_K − μ_K), and covariances `rest`.

    `others` and `known` are numbers of columns of the mixture.
    """

    others: Int
    known: Int
    slopes: Float
    rest: Float


@dataclass(frozen=True, eq=False)
class GaussianBlock:
    """Columns that may be correlated within components; all others are independent of them there.

    Attributes
    ----------
    columns : tuple of int
    names : tuple of str or None
    means : array of shape (n_components, k)
    covariances : array of shape (n_components, k, k)
    family : str
        "gaussian".
    """

    columns: tuple[int, ...]
    names: tuple[str, ...] | None
    means: Float
    covariances: Float
    family: ClassVar[str] = "gaussian"

    @property
    def correlations(self) -> Float:
        """Correlations within components, of shape (n_components, k, k); 0 for variance 0."""
        deviations = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))
        unit = np.where(deviations > 0, deviations, np.inf)
        found = self.covariances / unit[:, :, None] / unit[:, None, :]
        own = np.arange(len(self.columns))
        found[:, own, own] = 1.0
        return np.clip(found, -1.0, 1.0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the model file."""
        return {
            "columns": list(self.columns),
            "family": self.family,
            "covariances": self.covariances.tolist(),
        }

    def regression(self, known: Int) -> Regression | None:
        """The columns that are not known given those that are; None where there are not both."""
        columns = np.array(self.columns, dtype=np.int64)
        is_known = np.isin(columns, known)
        k = int(is_known.sum())
        if k in (0, columns.size):
            return None
        order = np.argsort(~is_known, kind="stable")  # known columns first
        deviations = np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))[:, order]
        try:
            with np.errstate(divide="ignore", invalid="ignore"):
                ordered = self.covariances[:, order][:, :, order]
                scaled = ordered / deviations[:, :, None] / deviations[:, None, :]
            root = np.linalg.cholesky(scaled)
        except np.linalg.LinAlgError:
            raise InputError(singular_message(self)) from None
        # Σ = L Lᵀ: slopes are L_UK L_KK⁻¹, and what is left, L_UU L_UUᵀ, is never negative.
        slopes = root[:, k:, :k] @ np.linalg.inv(root[:, :k, :k])
        slopes *= deviations[:, k:, None] / deviations[:, None, :k]
        half = root[:, k:, k:] * deviations[:, k:, None]
        rest = half @ half.swapaxes(1, 2)
        rest = 0.5 * (rest + rest.swapaxes(1, 2))
        return Regression(columns[order[k:]], columns[order[:k]], np.asarray(slopes), rest)


def singular_message(block: GaussianBlock) -> str:
    """That covariances of a block have no inverse, and the cure."""
    columns = block.columns if block.names is None else tuple(map(ascii, block.names))
    listed = ", ".join(map(str, columns[:8])) + (", …" if len(columns) > 8 else "")
    return (
        f"covariances of the joined columns {listed} are singular in a component, so it has no "
        "density there; fit with a variance floor, or use with_variance_floor()."
    )

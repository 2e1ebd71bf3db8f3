"""What ``covariance_type`` of the estimator means: blocks of a fit, and attributes of a mixture.

| covariance_type | blocks | covariances_ |
|---|---|---|
| "diag" | none | (r, d) |
| "spherical" | none, one variance for all columns | (r,) |
| "tied" | one of all columns, the same in all components | (d, d) |
| "block" | those given | (r, d, d) |
| "full" | one of all columns | (r, d, d) |
| "auto" | those that pay | (r, d, d) |
"""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

import numpy as np

from momentmix._typing import Float
from momentmix.capacity.monomials import FEWEST_BLOCKS
from momentmix.errors import CapacityError, InputError
from momentmix.fitting.data import AskedBlocks
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.prior import Constraint

CovarianceType = Literal["diag", "block", "full", "auto", "tied", "spherical"]


def asked_blocks(covariance_type: CovarianceType, blocks: Any, n_features: int) -> AskedBlocks:
    """Return the blocks that `fit` is asked for."""
    if covariance_type not in get_args(CovarianceType):
        raise InputError(
            f"covariance_type must be one of {', '.join(map(repr, get_args(CovarianceType)))}; got "
            f"{covariance_type!r}."
        )
    if covariance_type == "block":
        if blocks is None:
            raise InputError(
                'covariance_type="block" needs blocks, lists of the columns that are correlated '
                'within components, as blocks=[["length", "width"], [3, 4]]. Give them, or use '
                'covariance_type="auto".'
            )
        return cast(AskedBlocks, blocks)
    if blocks is not None:
        raise InputError(
            f'blocks are for covariance_type="block"; got covariance_type={covariance_type!r}. '
            'Use covariance_type="block", or leave blocks out.'
        )
    if covariance_type in ("full", "tied"):
        return [list(range(n_features))]
    return "auto" if covariance_type == "auto" else None


def constraint_of(covariance_type: CovarianceType) -> Constraint | None:
    """Return what a fit holds equal."""
    return covariance_type if covariance_type in ("tied", "spherical") else None


def n_parameters(mixture: Mixture, covariance_type: CovarianceType) -> int:
    """Count free parameters: what is held equal counts once."""
    r, d = mixture.n_components, mixture.n_features
    if covariance_type == "tied":
        return r - 1 + r * d + d * (d + 1) // 2
    if covariance_type == "spherical":
        return r - 1 + r * d + r
    return mixture.parameters.n_free


def check_for_moments(
    covariance_type: CovarianceType, blocks: Blocks | None, n_components: Any
) -> None:
    """Raise where `partial_fit`, which keeps moments, cannot fit such components."""
    what, constraint = "partial_fit keeps moments, not rows", constraint_of(covariance_type)
    if constraint is not None:
        raise CapacityError(
            f"{what}, and {constraint} covariances are fitted by passes over the rows. Use fit() "
            'with all rows, or covariance_type="diag".'
        )
    if n_components == 1 or blocks is None or blocks.is_diagonal:
        return  # one component is known from the moments, whatever its blocks
    if len(blocks.partition) < FEWEST_BLOCKS:
        raise CapacityError(
            f"{what}, and moments alone need at least three blocks to tell components apart; these "
            f"are {len(blocks.partition)}. Use smaller blocks, or fit() with rows."
        )


def covariance_attributes(mixture: Mixture, covariance_type: CovarianceType) -> dict[str, Float]:
    """Return covariances and precisions as scikit-learn shapes them."""
    if covariance_type in ("diag", "spherical"):
        is_one = covariance_type == "spherical"
        covariances = mixture.variances[:, 0] if is_one else mixture.variances
        with np.errstate(divide="ignore"):
            precisions = 1.0 / covariances
        roots = np.sqrt(precisions)
    else:
        covariances = mixture.covariances[: 1 if covariance_type == "tied" else None]
        roots = _precision_roots(covariances)
        precisions = roots @ roots.swapaxes(1, 2)
    found = {"covariances_": covariances, "precisions_": precisions, "precisions_cholesky_": roots}
    if covariance_type == "tied":
        return {name: value[0] for name, value in found.items()}
    return found


def _precision_roots(covariances: Float) -> Float:
    """Return upper triangular P with P Pᵀ = Σ⁻¹, by way of the correlations: in any units."""
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    correlations = covariances / deviations[:, :, None] / deviations[:, None, :]
    lower = np.linalg.cholesky(correlations)
    inverse = np.linalg.solve(lower, np.broadcast_to(np.eye(lower.shape[1]), lower.shape))
    return np.triu(inverse.swapaxes(1, 2)) / deviations[:, :, None]

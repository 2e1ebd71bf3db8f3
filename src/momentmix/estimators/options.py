"""The meaning of scikit-learn's names for options of a mixture.

| name | here |
|---|---|
| ``tol``, ``max_iter`` | end of the passes over all rows, at most ``max_passes`` |
| ``n_init`` | above 1 all starts of the search are made |
| ``means_init``, ``weights_init``, ``precisions_init``, ``warm_start`` | a `Start` |
| ``verbose`` | prints the stages |
| ``n_jobs`` | threads |
| ``init_params``, ``verbose_interval`` | nothing |

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

import time
from collections.abc import Callable
from typing import Any, Literal, cast, get_args

import numpy as np

from momentmix._typing import Float
from momentmix.arrays import real_array
from momentmix.errors import InputError, check_count, warn_caller
from momentmix.fitting.data import AskedBlocks
from momentmix.fitting.em.starts import Start
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.prior import Constraint
from momentmix.parallel import usable_cores

CovarianceType = Literal["diag", "block", "full", "auto", "tied", "spherical"]
INIT_PARAMS = ("kmeans", "k-means++", "random", "random_from_data")
VERBOSE_INTERVAL = 10  # scikit-learn's default
MAX_PASSES = 100  # the default of `fit`


def threads_of(n_threads: int | None, n_jobs: int | None) -> int | None:
    """Return the number of threads by either name; −1 is all cores, −2 all but one."""
    if n_jobs is None:
        return n_threads
    _check_one(n_threads is not None, n_threads=n_threads, n_jobs=n_jobs)
    is_integer = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
    if not is_integer or n_jobs == 0:
        raise InputError(f"n_jobs must be an integer that is not 0, or None; got {n_jobs!r}.")
    return int(n_jobs) if n_jobs > 0 else max(1, usable_cores() + 1 + int(n_jobs))


def passes_of(max_passes: int, max_iter: int | None) -> int:
    """Return the largest number of passes by either name."""
    if max_iter is None:
        return check_count("max_passes", max_passes, 0)
    _check_one(max_passes != MAX_PASSES, max_passes=max_passes, max_iter=max_iter)
    return check_count("max_iter", max_iter, 0)


def _check_one(has_both: bool, **given: Any) -> None:
    """Raise where an option is given by both of its names, of which scikit-learn's is last."""
    if has_both:
        (name, value), (other, others) = given.items()
        raise InputError(
            f"{other} is scikit-learn's name of {name}; got {other}={others!r} and "
            f"{name}={value!r}. Give one of them."
        )


def progress_of(verbose: int, name: str) -> Callable[[str], None] | None:
    """Return a function that prints the stages; from 2 on, with the seconds before each."""
    level = int(verbose) if isinstance(verbose, bool) else verbose
    if not check_count("verbose", level, 0):
        return None
    begin = time.perf_counter()

    def show(stage: str) -> None:
        seconds = f", after {time.perf_counter() - begin:.2f} s" if verbose > 1 else ""
        print(f"{name}: {stage}{seconds}", flush=True)

    return show


def warn_without_effect(init_params: Any, verbose_interval: Any) -> None:
    """Warn of options that were set and have no effect; raise where they are not even known."""
    if init_params not in INIT_PARAMS:
        raise InputError(
            f"init_params must be one of {', '.join(map(repr, INIT_PARAMS))}; got {init_params!r}."
        )
    if init_params != INIT_PARAMS[0]:
        warn_caller(
            f"init_params={init_params!r} has no effect: in every fit starts from k-means++ seeds "
            "and from random responsibilities compete. Give means_init for a start of your own.",
            UserWarning,
        )
    if verbose_interval != VERBOSE_INTERVAL:
        warn_caller(
            f"verbose_interval={verbose_interval!r} has no effect: verbose prints stages, not "
            "passes.",
            UserWarning,
        )


def larger_floor(variance_floor: float, reg_covar: float | None) -> float:
    """Return the floor of the variances, as a fraction of each column's, by either name."""
    if reg_covar is None:
        return variance_floor
    if not 0 <= reg_covar < 1:
        raise InputError(
            "reg_covar must lie between 0 and 1: it is the least variance of a component, as a "
            f"fraction of the column's variance; got {reg_covar!r}."
        )
    return max(variance_floor, reg_covar)


# -- starts -----------------------------------------------------------------------------------


def start_from(
    covariance_type: str, means: Any, weights: Any, precisions: Any, shape: tuple[Any, int]
) -> Start | None:
    """Return the start of means_init and its companions; `shape` is (n_components, n_features)."""
    if means is None:
        for name, value in (("weights_init", weights), ("precisions_init", precisions)):
            if value is not None:
                warn_caller(
                    f"{name} has no effect without means_init: there would be no telling which "
                    "component it is for.",
                    UserWarning,
                )
        return None
    found = real_array("means_init", means)
    Start(found).check(*shape)
    shares = covariances = None
    if weights is not None:
        shares = real_array("weights_init", weights)
        if shares.shape != (len(found),) or (shares < 0).any() or abs(shares.sum() - 1) > 1e-6:
            raise InputError(
                f"weights_init must be {len(found)} numbers that are not negative and sum to 1; "
                f"got shape {shares.shape}, sum {shares.sum():.6g}."
            )
    if precisions is not None:
        covariances = _inverses(covariance_type, real_array("precisions_init", precisions), shape)
    return Start(found, shares, covariances)


def _inverses(covariance_type: str, precisions: Float, shape: tuple[int, int]) -> Float:
    """Return covariances (r, d, d) of precisions in scikit-learn's shape of the type."""
    r, d = shape
    expected = {"spherical": (r,), "diag": (r, d), "tied": (d, d)}.get(covariance_type, (r, d, d))
    if precisions.shape != expected:
        raise InputError(
            f"precisions_init must have shape {expected} for covariance_type={covariance_type!r}; "
            f"got {precisions.shape}."
        )
    if covariance_type in ("spherical", "diag"):
        columns = precisions.reshape(r, -1) * np.ones((r, d))
        precisions = columns[:, :, None] * np.eye(d)
    precisions = np.broadcast_to(precisions, (r, d, d))
    is_symmetric = np.allclose(precisions, precisions.swapaxes(1, 2))
    if not is_symmetric or (np.linalg.eigvalsh(precisions) <= 0).any():
        raise InputError("precisions_init must be positive, and matrices symmetric.")
    return np.asarray(np.linalg.inv(precisions))


# -- covariances --------------------------------------------------------------------------------


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
    return "auto" if covariance_type == "auto" else "diag"


def constraint_of(covariance_type: CovarianceType) -> Constraint | None:
    """Return what a fit holds equal."""
    return covariance_type if covariance_type in ("tied", "spherical") else None


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

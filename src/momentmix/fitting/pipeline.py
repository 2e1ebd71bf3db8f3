"""From rows to a fitted mixture: the order of the steps, and the result that prints itself.

| paper symbol | name here |
|---|---|
| y_1 … y_N | ``rows`` |
| r, m | ``n_components``, ``order`` |
| {(ω_i, μ_i, Σ_i)} | ``FitResult.mixture`` |

Differs from the paper: variances below a tenth of the variance that the components share (what is
left of a column's variance after the means) are raised to it. (solve-sigma) often puts variances at
zero on samples, and a component without width attracts no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from momentmix.capacity import best_split, check_count, smallest_order
from momentmix.core.mixture import DiagonalMixture
from momentmix.errors import InputError
from momentmix.fitting.paper import learn_mixture
from momentmix.fitting.row_moments import RowMoments

__all__ = ["FitResult", "fit"]

_FLOOR = 0.1  # of the variance within components


@dataclass(frozen=True)
class FitResult:
    """A fitted mixture and how it came about.

    Attributes
    ----------
    mixture : DiagonalMixture
    method : str
    order : int
        Order of the moments in use.
    n_rows : int
    residual : float
        Relative residual of the decomposed moment tensor.
    converged : bool
    seconds : float
    """

    mixture: DiagonalMixture
    method: str
    order: int
    n_rows: int
    residual: float
    converged: bool
    seconds: float

    def __str__(self) -> str:
        m = self.mixture
        state = "converged" if self.converged else "did not converge"
        return (
            f"{m.n_components} components, {m.n_features} features, from {self.n_rows} rows\n"
            f'method "{self.method}", order {self.order}: {state}, relative residual '
            f"{self.residual:.2e}, {self.seconds:.2f} s\n"
            f"weights {np.array2string(np.sort(m.weights)[::-1], precision=3)}"
        )


def fit(
    rows: ArrayLike,
    n_components: int,
    order: int | Literal["auto"] = "auto",
    method: Literal["paper"] = "paper",
    refine: None = None,
    random_state: int | np.random.Generator | None = None,
) -> FitResult:
    """Fit a mixture of Gaussians with diagonal covariances from moments.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features)
    n_components : int
    order : int or "auto"
        Order of the moments; "auto" takes the smallest that identifies `n_components`.
    method : {"paper"}
        Algorithm 5.1 as printed, on uncentred moments.
    refine : None
        No passes over the rows after the moments.
    random_state : int, Generator or None
        Same seed, same bits.

    Returns
    -------
    FitResult

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = DiagonalMixture([0.3, 0.7], 9 * rng.standard_normal((2, 6)), np.ones((2, 6)))
    >>> rows, labels = truth.sample(2000, random_state=0)
    >>> result = fit(rows, 2, random_state=0)
    >>> np.round(np.sort(result.mixture.weights), 1).tolist()
    [0.3, 0.7]
    """
    start = perf_counter()
    if method != "paper":
        raise InputError(f'method must be "paper"; got {method!r}.')
    if refine is not None:
        raise InputError(f'refine must be None with method="paper"; got {refine!r}.')
    moments = RowMoments(rows)
    n_rows, d = moments.rows.shape
    r = check_count("n_components", n_components, 1)
    if n_rows < r:
        raise InputError(f"{r} components need at least {r} rows; got {n_rows}.")
    if r == 1:
        return _one_component(moments, start)
    order = smallest_order(d, r) if order == "auto" else check_count("order", order, 3)
    best_split(d, order, r)  # raises where the order does not reach r
    found = learn_mixture(moments, r, order, random_state)
    mixture = found.mixture.with_variance_floor(_variance_floor(moments, found.mixture))
    return FitResult(
        mixture,
        method,
        order,
        n_rows,
        found.approximation.residual,
        found.approximation.converged and found.polish.converged,
        perf_counter() - start,
    )


def _one_component(moments: RowMoments, start: float) -> FitResult:
    rows = moments.rows
    variances = rows.var(axis=0)
    mixture = DiagonalMixture(np.ones(1), rows.mean(axis=0)[None], variances[None])
    return FitResult(mixture, "paper", 1, len(rows), 0.0, True, perf_counter() - start)


def _variance_floor(moments: RowMoments, mixture: DiagonalMixture) -> NDArray[np.float64]:
    """A tenth of the variance within components, feature by feature, and never zero."""
    total = moments.rows.var(axis=0)
    centred = mixture.means - mixture.weights @ mixture.means
    within = total - mixture.weights @ centred**2
    tiny = np.finfo(float).tiny
    return np.asarray(np.maximum(_FLOOR * within, np.maximum(1e-6 * total, tiny)))

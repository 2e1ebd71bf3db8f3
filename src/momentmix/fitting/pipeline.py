"""From rows to a fitted mixture: the order of the steps, and the result that prints itself.

| paper symbol | name here |
|---|---|
| y_1 … y_N | ``rows`` |
| r, m | ``n_components``, ``order`` |
| {(ω_i, μ_i, Σ_i)} | ``FitResult.mixture`` |

Differs from the paper: nothing here; see the methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from momentmix.capacity import best_split, check_count, smallest_order
from momentmix.core.mixture import DiagonalMixture
from momentmix.errors import InputError
from momentmix.fitting.paper import fit_paper
from momentmix.moments.summary import MomentSummary, summarize

__all__ = ["FitResult", "fit"]


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
    rows: ArrayLike | MomentSummary,
    n_components: int,
    order: int | Literal["auto"] = "auto",
    method: Literal["paper"] = "paper",
    refine: None = None,
    random_state: int | np.random.Generator | None = None,
) -> FitResult:
    """Fit a mixture of Gaussians with diagonal covariances from moments.

    Parameters
    ----------
    rows : array of shape (n_rows, n_features), or MomentSummary
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
    r = check_count("n_components", n_components, 1)
    summary = rows if isinstance(rows, MomentSummary) else None
    d = summary.n_features if summary is not None else int(np.asarray(rows).shape[-1])
    if r == 1:
        order = 1
    elif order == "auto":
        order = smallest_order(d, r)
    else:
        best_split(d, check_count("order", order, 3), r)  # raises where the order does not reach r
    if summary is None:
        summary = summarize(rows, order=order, squared_order=max(order - 2, 0), replicates=0)
    if summary.n_rows < r:
        raise InputError(f"{r} components need at least {r} rows; got {summary.n_rows}.")
    if r == 1:
        mixture = DiagonalMixture(np.ones(1), summary.mean[None], summary.variance[None])
        seconds = perf_counter() - start
        return FitResult(mixture, method, order, summary.n_rows, 0.0, True, seconds)
    found = fit_paper(summary, r, order, random_state)
    return FitResult(
        found.mixture,
        method,
        order,
        summary.n_rows,
        found.approximation.residual,
        found.approximation.converged and found.polish.converged,
        perf_counter() - start,
    )

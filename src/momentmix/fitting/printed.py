"""method="paper": Algorithm 5.1 as printed, from rows or a summary to a result.

| paper symbol | name here |
|---|---|
| y_1 … y_N | ``data`` |
| r, m | ``n_components``, ``order`` |
| {(ω_i, μ_i, Σ_i)} | ``mixture`` |

Differs from the paper: nothing here; see `paper`.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from momentmix.capacity import best_split, check_count, smallest_order
from momentmix.core.mixture import DiagonalMixture
from momentmix.errors import InputError
from momentmix.fitting.paper import fit_paper
from momentmix.moments.summary import MomentSummary, summarize

__all__ = ["Printed", "fit_printed"]


class Printed(NamedTuple):
    """The mixture, the summary it came from, and how the decomposition went."""

    mixture: DiagonalMixture
    summary: MomentSummary
    order: int
    residual: float
    converged: bool


def fit_printed(
    data: Any,
    n_components: int,
    order: int | Literal["auto"],
    random_state: int | np.random.Generator | None,
) -> Printed:
    """Algorithm 5.1 on uncentred moments; "auto" takes the smallest order that identifies r."""
    r = check_count("n_components", n_components, 1)
    summary = data if isinstance(data, MomentSummary) else None
    d = summary.n_features if summary is not None else int(np.asarray(data).shape[-1])
    if r == 1:
        order = 1
    elif order == "auto":
        order = smallest_order(d, r)
    else:
        best_split(d, check_count("order", order, 3), r)  # raises where the order does not reach r
    if summary is None:
        summary = summarize(data, order=order, squared_order=max(order - 2, 0), replicates=0)
    if summary.n_rows < r:
        raise InputError(f"{r} components need at least {r} rows; got {summary.n_rows}.")
    if r == 1:
        mixture = DiagonalMixture(np.ones(1), summary.mean[None], summary.variance[None])
        return Printed(mixture, summary, order, 0.0, True)
    found = fit_paper(summary, r, order, random_state)
    return Printed(
        found.mixture,
        summary,
        order,
        found.approximation.residual,
        found.approximation.converged and found.polish.converged,
    )

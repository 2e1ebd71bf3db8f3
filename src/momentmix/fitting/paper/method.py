"""method="paper": Algorithm 5.1 as printed, from rows or a summary to a result.

| paper symbol | name here |
|---|---|
| y_1 … y_N | ``data`` |
| r, m | ``n_components``, ``order`` |
| {(ω_i, μ_i, Σ_i)} | ``mixture`` |

Differs from the paper: nothing here; see `paper`.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from momentmix.capacity import (
    best_split,
    check_count,
    check_order,
    choose_order,
    largest_rank,
)
from momentmix.errors import InputError, InputTypeError
from momentmix.fitting.conditions.conditions import Parameters
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import collect_findings, find_constants
from momentmix.fitting.inference.over_identification import check_conditions
from momentmix.fitting.inputs import moments_of, rows_of, summary_of
from momentmix.fitting.paper.algorithm import fit_paper
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.summary.summary import MomentSummary

__all__ = ["Printed", "fit_as_printed", "fit_printed"]


class Printed(NamedTuple):
    """The mixture, the moments of the rows, and how the decomposition went."""

    mixture: DiagonalMixture
    moments: StandardMoments
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
    held = data.copy() if isinstance(data, MomentSummary) else rows_of(data)
    if order == "auto":
        available = held.order if isinstance(held, MomentSummary) else None
        order = choose_order(held.n_features, r, available, method="paper")
    elif r == 1:
        order = check_order(order, held.n_features)
    else:  # raises where the order does not reach r
        best_split(held.n_features, check_count("order", order, 3), r)
    if isinstance(held, MomentSummary):
        summary = held
    else:
        summary = summary_of(held, order, max(order - 2, 0), 1)
    if summary.n_rows < r:
        raise InputError(f"{r} components need at least {r} rows; got {summary.n_rows}.")
    moments = moments_of(summary)
    assert moments is not None
    if r == 1:
        mixture = DiagonalMixture(np.ones(1), summary.mean[None], summary.variance[None])
        return Printed(mixture, moments, order, 0.0, True)
    found = fit_paper(summary, r, order, random_state)
    return Printed(
        found.mixture,
        moments,
        order,
        found.approximation.residual,
        found.approximation.converged and found.polish.converged,
    )


def fit_as_printed(
    data: Any,
    n_components: int | Literal["auto"],
    order: int | Literal["auto"],
    refine: str | None,
    random_state: int | np.random.Generator | None,
    floor: float,
) -> FitResult:
    """Algorithm 5.1 as printed, with the same test of its answer as the robust method."""
    if refine == "em":
        raise InputError('refine="em" goes with method="robust"; method="paper" takes None.')
    if isinstance(n_components, str):
        raise InputError(
            f'method="paper" takes a number of components; got {n_components!r}. Give a number, or '
            'use method="robust" for n_components="auto".'
        )
    if isinstance(data, StandardMoments):
        raise InputTypeError(
            'method="paper" needs uncentred moments; pass rows or a MomentSummary, not '
            "StandardMoments."
        )
    start = time.perf_counter()
    found = fit_printed(data, n_components, order, random_state)
    seconds = time.perf_counter() - start
    moments, varying = found.moments, found.moments.varying()
    least = np.where(moments.constant, floor * moments.scale**2, 0.0)
    mixture = replace(found.mixture.with_variance_floor(least), feature_names=moments.feature_names)
    standard = varying.standardize(mixture.marginal(varying.columns))
    p = Parameters(standard.weights, standard.means, np.maximum(standard.variances, floor))
    test = check_conditions(varying, p, np.random.default_rng(0))
    capacity = largest_rank(moments.n_features, found.order) if found.order >= 3 else 1
    findings = collect_findings(varying, p, test, capacity, floor) + find_constants(moments)
    certificate = Certificate(test, float("nan"), findings, p.n_components)
    notes = [f"relative residual of the decomposed tensor {found.residual:.2e}"]
    return FitResult(
        mixture, certificate, moments.n_rows, found.order, "paper", "none",
        "the printed algorithm", [], 1, found.converged, None, [("paper", seconds)], None, moments,
        notes, found.residual,
    )  # fmt: skip

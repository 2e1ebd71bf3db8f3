"""method="paper": Algorithm 5.1 as printed, from rows or a summary to a result."""

from __future__ import annotations

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
from momentmix.fitting.context import Clock
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import collect_findings, find_constants
from momentmix.fitting.inference.over_identification import check_conditions
from momentmix.fitting.inputs import moments_of, rows_of, summary_of
from momentmix.fitting.outcome import Diagnostics, Provenance
from momentmix.fitting.paper.algorithm import fit_paper
from momentmix.fitting.result import Answer, FitResult
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
    """Algorithm 5.1 on uncentered moments; "auto" takes the smallest order that identifies r."""
    r = check_count("n_components", n_components, 1)
    source = data.copy() if isinstance(data, MomentSummary) else rows_of(data)
    if order == "auto":
        available = source.order if isinstance(source, MomentSummary) else None
        order = choose_order(source.n_features, r, available, method="paper")
    elif r == 1:
        order = check_order(order, source.n_features)
    else:  # raises where the order does not reach r
        best_split(source.n_features, check_count("order", order, 3), r)
    if isinstance(source, MomentSummary):
        summary = source
    else:
        summary = summary_of(source, order, max(order - 2, 0), 1)
    if summary.n_rows < r:
        raise InputError(f"{r} components need at least {r} rows; got {summary.n_rows}.")
    moments = moments_of(summary)
    assert moments is not None
    if r == 1:
        mixture = DiagonalMixture(np.ones(1), summary.mean[None], summary.variance[None])
        return Printed(mixture, moments, order, 0.0, True)
    fit = fit_paper(summary, r, order, random_state)
    converged = fit.approximation.converged and fit.polish.converged
    return Printed(fit.mixture, moments, order, fit.approximation.residual, converged)


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
            'method="paper" needs uncentered moments; pass rows or a MomentSummary, not '
            "StandardMoments."
        )
    clock = Clock()
    with clock.stage("paper"):
        printed = fit_printed(data, n_components, order, random_state)
    moments, varying = printed.moments, printed.moments.varying()
    least = np.where(moments.constant, floor * moments.scale**2, 0.0)
    mixture = printed.mixture.with_variance_floor(least)
    mixture = replace(mixture, feature_names=moments.feature_names)
    certificate = _certify(mixture, printed, varying, floor)
    notes = [f"relative residual of the decomposed tensor {printed.residual:.2e}"]
    return FitResult(
        Answer(mixture, moments, None),
        Provenance(
            moments.n_rows,
            printed.order,
            "paper",
            "none",
            "the printed algorithm",
            1,
            printed.converged,
        ),
        Diagnostics(None, notes, certificate, stages=clock.stages, residual=printed.residual),
    )


def _certify(
    mixture: DiagonalMixture, printed: Printed, varying: StandardMoments, floor: float
) -> Certificate:
    """The certificate of the robust method, without a predicted loss: there is no covariance."""
    standard = varying.standardize(mixture.marginal(varying.columns))
    p = Parameters(standard.weights, standard.means, np.maximum(standard.variances, floor))
    test = check_conditions(varying, p, np.random.default_rng(0))
    d, order = printed.moments.n_features, printed.order
    capacity = largest_rank(d, order) if order >= 3 else 1
    findings = collect_findings(varying, p, test, capacity, floor)
    findings += find_constants(printed.moments)
    return Certificate(test, float("nan"), findings, p.n_components)

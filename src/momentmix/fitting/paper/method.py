"""method="paper": Algorithm 5.1 as printed, from rows or a summary to a result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from momentmix.arguments import check_count
from momentmix.capacity import best_split, check_order, choose_order, largest_rank
from momentmix.errors import InputError, InputTypeError
from momentmix.findings.messages import PAPER, ROBUST, Message, options
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import Clock
from momentmix.fitting.data import moments_of, rows_of, summary_of
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import collect_findings, find_constants
from momentmix.fitting.inference.over_identification import check_conditions
from momentmix.fitting.paper.algorithm import fit_paper
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.mixture.parameters import Parameters
from momentmix.summary.summary import MomentSummary


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
        raise InputError(
            Message(options(refine="em"), " goes with ", ROBUST, "; ", PAPER, " takes none.")
        )
    if isinstance(n_components, str):
        text = f" takes a number of components; got {n_components!r}. Give a number, or use "
        raise InputError(Message(PAPER, text, ROBUST, " for 'auto'."))
    if isinstance(data, StandardMoments):
        raise InputTypeError(
            'method="paper" needs uncentered moments; pass rows or a MomentSummary, not '
            "StandardMoments."
        )
    r, clock = check_count("n_components", n_components, 1), Clock()
    with clock.stage("paper"):
        summary, order = _summarize(data, r, order)
        moments = moments_of(summary)
        assert moments is not None
        mixture, residual, converged = _solve(summary, r, order, random_state)
    least = np.where(moments.constant, floor * moments.scale**2, 0.0)
    mixture = replace(mixture.with_variance_floor(least), feature_names=moments.feature_names)
    certificate = _certify(mixture, moments, order, floor)
    notes = [f"relative residual of the decomposed tensor {residual:.2e}"]
    return FitResult(
        n_rows=moments.n_rows,
        order=order,
        method="paper",
        refine="none",
        winner="the printed algorithm",
        n_passes=1,
        converged=converged,
        log_likelihood=None,
        notes=notes,
        certificate=certificate,
        mixture=mixture,
        moments=moments,
        summary=None if isinstance(data, MomentSummary) else summary,
        stages=clock.stages,
        residual=residual,
    )


def _summarize(data: Any, r: int, order: int | Literal["auto"]) -> tuple[MomentSummary, int]:
    """Summary of the rows, and the order: asked for, or the smallest that identifies r."""
    source = data.copy() if isinstance(data, MomentSummary) else rows_of(data)
    if order == "auto":
        available = source.order if isinstance(source, MomentSummary) else None
        order = choose_order(source.n_features, r, available, method="paper")
    elif r == 1:
        order = check_order(order, source.n_features)
    else:  # raises where the order does not reach r
        best_split(source.n_features, check_count("order", order, 3), r)
    if not isinstance(source, MomentSummary):
        source = summary_of(source, order, max(order - 2, 0), 1)
    if source.n_rows < r:
        raise InputError(f"{r} components need at least {r} rows; got {source.n_rows}.")
    return source, order


def _solve(
    summary: MomentSummary, r: int, order: int, random_state: int | np.random.Generator | None
) -> tuple[DiagonalMixture, float, bool]:
    """The mixture, the relative residual of the tensor, and whether all steps converged."""
    if r == 1:
        mixture = DiagonalMixture(np.ones(1), summary.mean[None], summary.variance[None])
        return mixture, 0.0, True
    fit = fit_paper(summary, r, order, random_state)
    converged = fit.approximation.converged and fit.polish.converged
    return fit.mixture, fit.approximation.residual, converged


def _certify(
    mixture: DiagonalMixture, moments: StandardMoments, order: int, floor: float
) -> Certificate:
    """The certificate of the robust method, without a predicted loss: there is no covariance."""
    varying = moments.varying()
    standard = varying.standardize(mixture.marginal(varying.columns))
    p = Parameters(standard.weights, standard.means, np.maximum(standard.variances, floor))
    test = check_conditions(varying, p, np.random.default_rng(0))
    capacity = largest_rank(moments.n_features, order) if order >= 3 else 1
    findings = collect_findings(varying, p, test, capacity, floor) + find_constants(moments)
    return Certificate(test, float("nan"), findings, p.n_components)

"""An answer in standardized features, and its way back to the units of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from momentmix._typing import Float
from momentmix.arrays import namespace, on_device_of
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import standardized_density
from momentmix.fitting.em.passes import Refined
from momentmix.fitting.em.patterns import Layout, pattern_sums
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import find_constants
from momentmix.fitting.inference.standard_errors import Uncertainty
from momentmix.fitting.outcome import JoinedColumns, JoinReason, Trial
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import Mixture, mixture_from
from momentmix.mixture.parameters import Parameters
from momentmix.summary.summary import MomentSummary
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema


@dataclass(frozen=True)
class StandardFit:
    """A fit in standardized features, constant columns left out.

    `passes` is None where the answer is that of moments alone. Other fields are as in a
    `FitResult`, but log-likelihoods are those of standardized features, and `joined` has numbers of
    columns alone. A `layout` is that of joined columns with missing cells.
    """

    moments: StandardMoments
    parameters: Parameters
    uncertainty: Uncertainty
    certificate: Certificate
    notes: Sequence[str] = ()
    winner: str = "moments"
    passes: Refined | None = None
    candidates: Sequence[tuple[str, float]] = ()
    tried: tuple[Trial, ...] = ()
    joined: tuple[JoinedColumns, ...] = ()
    layout: Layout | None = None


def in_data_units(
    answer: StandardFit,
    all_columns: StandardMoments,
    context: FitContext,
    rows: Rows | None = None,
    summary: MomentSummary | None = None,
    schema: Schema | None = None,
) -> FitResult:
    """The result: all columns, in the units of the data.

    The heaviest component comes first, or components come in the order of a start that was given.
    `rows` are those that were used, where the log-likelihood is that of rows.
    """
    moments, floor = all_columns.truncated(answer.moments.order), context.variance_floor
    place = (answer.moments.columns, moments.n_features, floor, moments.laws)
    parameters = answer.parameters.embedded(*place)
    weights = parameters.weights / parameters.weights.sum()
    order = context.order_of(answer.parameters)
    ordered = replace(parameters, weights=weights)[order].without_seen(moments.n_rows)
    ordered = ordered.restored(moments.shift, moments.scale)
    names = moments.feature_names if schema is None else None  # a schema has those of columns
    mixture = mixture_from(ordered, names, schema)
    log_likelihood, units = None, 0.0
    if rows is not None:
        with context.clock.stage("log-likelihood"):
            log_likelihood, standardized = _log_likelihoods(rows, mixture, answer, context)
        units = standardized - log_likelihood
    findings = find_constants(moments)
    if context.checked is not None:
        findings = context.checked.outliers.findings(moments) + findings
    bic_units, passes, notes = 2.0 * answer.moments.n_counted * units, answer.passes, answer.notes
    if passes is not None and not passes.converged:
        stopped = f"stopped after max_passes={context.max_passes} passes, not converged"
        notes = [*notes, stopped]
    return FitResult(
        n_rows=answer.moments.n_rows,
        order=answer.moments.order,
        method="robust",
        refine="none" if passes is None else "em",
        winner=answer.winner,
        n_passes=1 if passes is None else 1 + passes.n_passes,
        converged=passes is None or passes.converged,
        log_likelihood=log_likelihood,
        notes=notes,
        certificate=replace(answer.certificate, findings=answer.certificate.findings + findings),
        tried=tuple(
            replace(t, log_likelihood=t.log_likelihood - units, bic=t.bic + bic_units)
            for t in answer.tried
        ),
        joined=_joined_columns(answer, moments, schema),
        mixture=mixture,
        moments=moments,
        uncertainty=answer.uncertainty.embedded(*place).reordered(order),
        summary=summary,
        schema=schema,
        candidates=[(name, score - units) for name, score in answer.candidates],
        stages=context.clock.stages,
        log_likelihoods=[] if passes is None else [x - units for x in passes.log_likelihoods],
    )


def _log_likelihoods(
    rows: Rows, mixture: Mixture, answer: StandardFit, context: FitContext
) -> tuple[float, float]:
    """Mean log-density of the rows: of the mixture, and of standardized features that vary.

    Both by one pass over the rows that a fit uses, which count as their weights say. What an EM
    pass computes has other units, and lacks constant columns, the derivatives of transforms and the
    like; their difference is the same for all mixtures of the same rows.
    """
    log_prob, layout = mixture.log_prob_of_features(), answer.layout
    moments, p = answer.moments, answer.parameters

    def sums(block: Any, counts: Float | None = None) -> tuple[float, float, float]:
        if layout is None:
            _, total, n_rows = standardized_density(moments, p).em_sums(block, counts)
        else:
            _, total, n_rows = pattern_sums(block, moments, layout, p)
        logs = log_prob(block)
        xp = namespace(logs)
        if counts is not None:
            logs = logs * on_device_of(counts, logs, xp)
        return float(xp.sum(logs)), total, n_rows

    of_rows, total, n_rows = rows.sum_blocks(sums, context.n_threads)
    return of_rows / n_rows, total / n_rows


def _joined_columns(
    answer: StandardFit, moments: StandardMoments, schema: Schema | None
) -> tuple[JoinedColumns, ...]:
    """The joined columns and why they were joined, with the names of all columns."""
    joined = answer.joined
    if not joined:
        columns = answer.moments.columns
        joined = tuple(
            JoinedColumns(tuple(columns[list(group)].tolist()), JoinReason.GIVEN)
            for group in answer.parameters.blocks.joined
        )
    if schema is None:
        return tuple(block.named(moments.feature_names) for block in joined)
    of = schema.column_of
    found = (replace(block, columns=tuple(of[j] for j in block.columns)) for block in joined)
    return tuple(block.named(schema.column_names) for block in found)

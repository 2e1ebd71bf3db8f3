"""The answer in standardized features → the result, in the units of the data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from momentmix._typing import Float
from momentmix.arrays import namespace, on_device_of
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.inference.findings import find_constants
from momentmix.fitting.outcome import Diagnostics, JoinedColumns, JoinReason, Trial
from momentmix.fitting.result import Answer, FitResult
from momentmix.fitting.robust.standard_fit import StandardFit
from momentmix.mixture.mixture import Mixture, mixture_from
from momentmix.summary.summary import MomentSummary
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema


class LogLikelihood(NamedTuple):
    """Mean log-density of the rows: of the mixture, and of standardized features that vary."""

    of_rows: float
    standardized: float


def log_likelihood_of(
    rows: Rows, mixture: Mixture, answer: StandardFit, n_threads: int
) -> LogLikelihood:
    """Both by one pass over the rows that a fit uses, which count as their weights say.

    What an EM pass computes has other units, and lacks constant columns, the derivatives of
    transforms and the like; their difference is the same for all mixtures of the same rows.
    """
    log_prob = mixture.log_prob_of_features()

    def sums(block: Any, counts: Float | None = None) -> tuple[float, float, float]:
        _, total, n_rows = answer.sums(block, counts)
        logs = log_prob(block)
        xp = namespace(logs)
        if counts is not None:
            logs = logs * on_device_of(counts, logs, xp)
        return float(xp.sum(logs)), total, n_rows

    of_rows, total, n_rows = rows.sum_blocks(sums, n_threads)
    return LogLikelihood(of_rows / n_rows, total / n_rows)


def in_data_units(
    answer: StandardFit,
    all_columns: StandardMoments,
    summary: MomentSummary | None,
    notes: list[str],
    tried: tuple[Trial, ...],
    context: FitContext,
    rows: Rows | None = None,
    schema: Schema | None = None,
) -> FitResult:
    """The result: all columns, in the units of the data.

    The heaviest component comes first, or components come in the order of a start that was given.
    `rows` are those that were used, where the log-likelihood is that of rows.
    """
    moments, floor = all_columns.truncated(answer.moments.order), context.variance_floor
    place = (answer.moments.columns, moments.n_features, floor, moments.laws)
    parameters, uncertainty = (
        answer.parameters.embedded(*place),
        answer.uncertainty.embedded(*place),
    )
    weights = parameters.weights / parameters.weights.sum()
    order = context.order_of(answer.parameters)
    ordered = replace(parameters, weights=weights)[order].without_seen(moments.n_rows)
    ordered = ordered.restored(moments.shift, moments.scale)
    names = moments.feature_names if schema is None else None  # a schema has those of columns
    mixture = mixture_from(ordered, names, schema)
    log_likelihood, units = None, 0.0
    if rows is not None:
        with context.clock.stage("log-likelihood"):
            found = log_likelihood_of(rows, mixture, answer, context.n_threads)
        log_likelihood, units = found.of_rows, found.standardized - found.of_rows
    certificate = answer.diagnostics.certificate
    findings = find_constants(moments)
    if context.checked is not None:
        findings = context.checked.outliers.findings(moments) + findings
    diagnostics = Diagnostics(
        log_likelihood,
        [*notes, *answer.diagnostics.notes],
        replace(certificate, findings=certificate.findings + findings),
        [(name, score - units) for name, score in answer.diagnostics.candidates],
        context.clock.stages,
        tried=tuple(
            replace(
                trial,
                log_likelihood=trial.log_likelihood - units,
                bic=trial.bic + 2.0 * answer.moments.n_counted * units,
            )
            for trial in tried
        ),
        joined=joined_columns(answer, moments, schema),
        log_likelihoods=[value - units for value in answer.diagnostics.log_likelihoods],
    )
    return FitResult(
        Answer(mixture, moments, uncertainty.reordered(order), summary, schema),
        answer.provenance,
        diagnostics,
    )


def joined_columns(
    answer: StandardFit, moments: StandardMoments, schema: Schema | None
) -> tuple[JoinedColumns, ...]:
    """The joined columns and why they were joined, with the names of all columns."""
    joined = answer.diagnostics.joined
    if not joined:
        columns = answer.moments.columns
        groups = answer.parameters.blocks.joined
        joined = tuple(
            JoinedColumns(tuple(columns[list(group)].tolist()), JoinReason.GIVEN)
            for group in groups
        )
    if schema is None:
        return tuple(block.named(moments.feature_names) for block in joined)
    of = schema.column_of
    found = (replace(block, columns=tuple(of[j] for j in block.columns)) for block in joined)
    return tuple(block.named(schema.column_names) for block in found)

"""The answer in standardized features → the result, in the units of the data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.inference.findings import find_constants
from momentmix.fitting.outcome import Diagnostics, JoinedColumns, JoinReason, Trial
from momentmix.fitting.result import Answer, FitResult
from momentmix.fitting.robust.standard_fit import StandardFit
from momentmix.mixture.laws.law import Law
from momentmix.mixture.mixture import mixture_from
from momentmix.rows.protocol import Rows
from momentmix.schema.schema import Schema
from momentmix.summary.summary import MomentSummary


def mean_base_measure(rows: Rows, laws: tuple[Law, ...]) -> float:
    """Mean of log y! and its like over all rows, with the sign that it has in a log-density."""
    own = [law for law in laws if law.has_base_measure]
    if not own:
        return 0.0
    total = 0.0
    for block in rows.blocks():
        values = np.asarray(block, dtype=np.float64).T
        total += sum(float(law.base_measure(values[list(law.features)]).sum()) for law in own)
    return total / rows.n_rows


def mean_log_jacobian(moments: StandardMoments, schema: Schema | None) -> float:
    """Mean over all rows of the log-derivatives of the columns' transforms: −T(y) where seen."""
    means, total = moments.shift + moments.scale * moments.orders[1], 0.0
    for number, column in enumerate(() if schema is None else schema.columns):
        if column.transform and schema is not None:
            seen = schema.seen_of(number)
            center = column.center * (1.0 if seen is None else float(means[seen]))
            total -= float(means[schema.features_of(number)[0]]) + center
    return total


def in_data_units(
    answer: StandardFit,
    all_columns: StandardMoments,
    summary: MomentSummary | None,
    notes: list[str],
    tried: tuple[Trial, ...],
    context: FitContext,
    base: float = 0.0,
    schema: Schema | None = None,
) -> FitResult:
    """The result: all columns, in the units of the data.

    The heaviest component comes first, or components come in the order of a start that was given.
    `base` is the mean over all rows of what log-densities have beside linear functions of T(z).
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
    # Log-densities of raw rows, not of standardized ones, and of the constant columns too.
    own = moments.alone.gaussian
    units = float(np.log(moments.scale[own]).sum())
    units += 0.5 * float(np.log(2 * np.pi * floor)) * int(moments.constant[own].sum())
    units -= base
    log_likelihood, certificate = answer.diagnostics.log_likelihood, answer.diagnostics.certificate
    findings = find_constants(moments)
    if context.checked is not None:
        findings = context.checked.outliers.findings(moments) + findings
    diagnostics = Diagnostics(
        None if log_likelihood is None else log_likelihood - units,
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

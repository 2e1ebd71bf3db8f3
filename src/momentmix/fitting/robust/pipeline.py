"""The robust method, stage by stage.

rows or moments → moments of the columns that vary → number of components → answer from moments
alone, or from candidates and passes over the rows → standard errors → certificate → result

Constant columns take no part in a fit: all stages work with the moments of the columns that vary,
in standardized features. `in_data_units` adds the constant columns and goes back to the units of
the data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from momentmix._typing import Float
from momentmix.arguments import check_count
from momentmix.arrays import namespace, on_device_of
from momentmix.capacity import affordable_order, check_order, choose_order, robust_rank
from momentmix.families.law import with_joined_values
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import Table, summarized
from momentmix.fitting.em.em import draw_sample, standardized_density
from momentmix.fitting.em.patterns import Layout, pattern_sums
from momentmix.fitting.inference.checked_rows import check_rows
from momentmix.fitting.inference.findings import find_constants
from momentmix.fitting.inference.over_identification import order_after_rows
from momentmix.fitting.outcome import JoinedColumns, JoinReason, StandardFit
from momentmix.fitting.result import FitResult
from momentmix.fitting.robust.answers import answer_from_rows, hear_certificate
from momentmix.fitting.robust.automatic import (
    ROWS_PER_PARAMETER,
    Choice,
    choose_by_likelihood,
    choose_by_moments,
)
from momentmix.fitting.robust.checks import (
    AskedBlocks,
    check_capacity,
    check_memory,
    check_n_rows,
    check_varying,
    check_widest,
    joined_with_missing,
    known_blocks,
    varying_blocks,
)
from momentmix.fitting.robust.from_moments import answer_from_moments, join_by_moments, renumber
from momentmix.fitting.robust.joined_missing import answer_by_patterns
from momentmix.fitting.robust.joining import choose_blocks
from momentmix.mixture.mixture import Mixture, mixture_from
from momentmix.summary.summary import MomentSummary
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema

Number = int | Literal["auto"]


def fit_robust(
    table: Table,
    n_components: Number,
    order: Number,
    refine: bool,
    context: FitContext,
    blocks: AskedBlocks = None,
) -> FitResult:
    """Fit by the robust method; `refine` allows passes over the rows, where there are rows."""
    check_memory(table, n_components)
    data, all_columns, summary, context, notes = _used(
        table, n_components, order, refine, context, blocks
    )
    rows = None if isinstance(data, StandardMoments) or not refine else data
    varying = all_columns.varying()
    with_missing = joined_with_missing(blocks, all_columns, varying, n_components)
    if with_missing:
        apart = {j for block in with_missing for j in varying.columns[list(block)].tolist()}
        blocks = [block for block in blocks or () if not apart.intersection(block)]
    joined = varying_blocks(blocks, all_columns, varying)
    if context.start is not None:
        context.start.check(n_components, all_columns.n_features)
        context = replace(context, start=context.start.standardized(varying))
    if context.constraint is not None:
        check_varying(context.constraint, all_columns)
    sample = None if rows is None else draw_sample(rows, varying, context.rng)
    choice: Choice | None = None
    # Without rows, blocks that are to be found remain None: the test of an answer names them.
    if sample is not None and joined is None:
        choice = choose_blocks(sample, n_components, context)
        joined = choice.blocks
    elif n_components == "auto" and sample is None:
        choice = choose_by_moments(varying, context, joined)
    elif n_components == "auto" and sample is not None:
        sample = sample.of_blocks(joined or varying.alone)
        choice = choose_by_likelihood(sample, context)
    r = choice.n_components if choice is not None else check_count("n_components", n_components, 1)
    moments = varying
    if n_components != "auto" and order == "auto":
        best = choose_order(varying.n_features, r, varying.order, blocks=joined)
        moments = varying.truncated(best)
    check_n_rows(moments.n_rows, r)
    if sample is None:
        check_capacity(moments, r, all_columns.n_features, joined or moments.alone)
        own = joined or moments.alone
        answer = answer_from_moments(varying, moments.order, r, context, own)
        if joined is None:
            answer = join_by_moments(varying, context, answer)
            if choice is not None:
                answer, choice = renumber(varying, context, answer, choice)
    else:
        assert joined is not None
        check_widest(joined, moments, r)
        sample = sample.of_blocks(joined)._replace(moments=moments)
        if with_missing:
            layout = Layout.of(moments, (*joined.joined, *with_missing))
            check_widest(layout.blocks, moments, r)
            answer = answer_by_patterns(sample, layout, r, context)
            values = set(varying.columns[list(layout.seen_of)].tolist())
            all_columns = replace(all_columns, laws=with_joined_values(all_columns.laws, values))
        else:
            found = () if choice is None else choice.candidates
            answer = answer_from_rows(sample, r, context, found)
        if choice is not None and n_components == "auto":
            answer, choice = hear_certificate(sample, answer, choice, context)
    if choice is not None:
        notes.append(choice.note)
        answer = replace(answer, tried=choice.tried, joined=choice.joined or answer.joined)
    answer = replace(answer, notes=[*notes, *answer.notes])
    return in_data_units(answer, all_columns, context, rows, summary, table.schema)


def _used(
    table: Table,
    n_components: Number,
    order: Number,
    refine: bool,
    context: FitContext,
    blocks: AskedBlocks,
) -> tuple[Rows | StandardMoments, StandardMoments, MomentSummary | None, FitContext, list[str]]:
    """The data that are used, moments of all columns, summary, context with checks, and notes."""
    data, notes = table.data, list(table.notes)
    wanted = None if order == "auto" else check_order(order, data.n_features)
    if isinstance(data, StandardMoments):
        moments = data if wanted is None else data.truncated(wanted)
        return data, moments.of_table(table.schema), None, context, notes

    def read(rows: Rows) -> tuple[StandardMoments, MomentSummary]:
        with context.clock.stage("moments"):
            most, squared = wanted, 2
            if most is None and refine:
                most, squared = _order_beside_rows(rows, n_components, blocks)
            most = most or choose_order(rows.n_features, n_components)
            moments, summary = summarized(rows, most, context.n_threads, squared)
        return moments.of_table(table.schema), summary

    all_columns, summary = read(data)
    with context.clock.stage("checks of rows"):
        checked = check_rows(data, all_columns)
    left_out = checked.outliers.places
    if left_out.size:
        notes.append(f"{data.n_rows - left_out.size} of {data.n_rows} rows were used")
        data = data.without(left_out)
        all_columns, summary = read(data)
    if len(checked.values):  # not of remote rows
        all_columns = all_columns.with_grids(checked.grids(all_columns))
    return data, all_columns, summary, replace(context, checked=checked), notes


def _order_beside_rows(rows: Rows, n_components: Number, blocks: AskedBlocks) -> tuple[int, int]:
    """The order of the moments, and of those beside squares, where there are passes over the rows.

    With joined columns the test alone needs the moments.
    """
    d = rows.n_features
    order = affordable_order(d, n_components, rows.expected_rows, ROWS_PER_PARAMETER)
    joined = known_blocks(blocks, d, rows.feature_names)
    if joined is not None and not joined.is_diagonal and n_components != "auto":
        enough = order_after_rows(n_components, joined)
        if robust_rank(d, enough, joined) >= n_components:
            return min(order, enough), enough - 2
    return order, 2


# -- back to the units of the data -----------------------------------------------------------------


def in_data_units(
    answer: StandardFit,
    all_columns: StandardMoments,
    context: FitContext,
    rows: Rows | None = None,
    summary: MomentSummary | None = None,
    schema: Schema | None = None,
) -> FitResult:
    """The result: all columns, in the units of the data."""
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
    """Mean log-density of the rows: of the mixture, and of standardized features that vary."""
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

"""The robust method, stage by stage.

rows or moments → moments of the columns that vary → number of components → answer from moments
alone, or from candidates and passes over the rows → standard errors → certificate → result

Constant columns take no part in a fit: all stages work with the moments of the columns that vary,
in standardized features. `in_data_units` adds the constant columns and goes back to the units of
the data.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, NamedTuple

from momentmix.arguments import check_count
from momentmix.capacity import affordable_order, check_order, choose_order, robust_rank
from momentmix.errors import InputError
from momentmix.families.law import with_joined_values
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import Table, summarized
from momentmix.fitting.em.patterns import Layout
from momentmix.fitting.em.sample import Sample, draw_sample
from momentmix.fitting.inference.of_rows.rows_checked import check_rows
from momentmix.fitting.inference.over_identification import order_after_rows
from momentmix.fitting.result import FitResult
from momentmix.fitting.robust.asked_blocks import (
    AskedBlocks,
    check_memory,
    check_widest,
    joined_with_missing,
    known_blocks,
    varying_blocks,
)
from momentmix.fitting.robust.automatic import (
    ROWS_PER_PARAMETER,
    Choice,
    choose_by_likelihood,
    choose_by_moments,
)
from momentmix.fitting.robust.constrained import check_varying
from momentmix.fitting.robust.data_units import in_data_units
from momentmix.fitting.robust.joined_missing import answer_by_patterns
from momentmix.fitting.robust.joining import choose_blocks
from momentmix.fitting.robust.moment_answers import (
    answer_from_moments,
    check_capacity,
    join_by_moments,
    renumber,
)
from momentmix.fitting.robust.row_answers import answer_from_rows, hear_certificate
from momentmix.fitting.robust.standard_fit import StandardFit
from momentmix.mixture.blocks import Blocks
from momentmix.summary.summary import MomentSummary
from momentmix.tables.rows import Rows

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
    context = with_start(context, n_components, all_columns, varying)
    if context.constraint is not None:
        check_varying(context.constraint, all_columns)
    sample = None if rows is None else draw_sample(rows, varying, context.rng)
    choice, joined, sample = _choose(varying, joined, sample, n_components, context)
    r = choice.n_components if choice is not None else check_count("n_components", n_components, 1)
    moments = varying
    if n_components != "auto" and order == "auto":
        moments = varying.truncated(
            choose_order(varying.n_features, r, varying.order, blocks=joined)
        )
    _check_rows(moments.n_rows, r)
    if rows is None or sample is None:
        check_capacity(moments, r, all_columns.n_features, joined or moments.alone)
        answer, choice = _from_moments(varying, moments.order, r, joined, choice, context)
    else:
        assert joined is not None
        check_widest(joined, moments, r)
        sample = sample.of_blocks(joined)
        if with_missing:
            layout = Layout.of(moments, (*joined.joined, *with_missing))
            check_widest(layout.blocks, moments, r)
            answer = answer_by_patterns(rows, sample, moments, layout, r, context)
            values = set(varying.columns[list(layout.seen_of)].tolist())
            all_columns = replace(all_columns, laws=with_joined_values(all_columns.laws, values))
        else:
            found = () if choice is None else choice.candidates
            answer = answer_from_rows(rows, sample, moments, r, context, found)
        if choice is not None and n_components == "auto":
            answer, choice = hear_certificate(rows, sample, answer, choice, context)
    tried = () if choice is None else choice.tried
    if choice is not None:
        notes.append(choice.note)
        if choice.joined:
            diagnostics = replace(answer.diagnostics, joined=choice.joined)
            answer = replace(answer, diagnostics=diagnostics)
    return in_data_units(answer, all_columns, summary, notes, tried, context, rows, table.schema)


class _Used(NamedTuple):
    """The data that a fit uses, and the moments of all their columns."""

    data: Rows | StandardMoments
    all_columns: StandardMoments
    summary: MomentSummary | None
    context: FitContext
    notes: list[str]


def _used(
    table: Table,
    n_components: Number,
    order: Number,
    refine: bool,
    context: FitContext,
    blocks: AskedBlocks,
) -> _Used:
    """The moments of all columns; where rows are left out, those of the others."""
    data, notes = table.data, list(table.notes)

    def read(used: Rows | StandardMoments) -> tuple[StandardMoments, MomentSummary | None]:
        moments, summary = read_moments(used, n_components, order, refine, context, blocks)
        return _with_schema(moments, table), summary

    all_columns, summary = read(data)
    if isinstance(data, Rows):
        with context.clock.stage("checks of rows"):
            checked = check_rows(data, all_columns)
            context = replace(context, checked=checked)
        left_out = checked.outliers.places
        if left_out.size:
            notes.append(f"{data.n_rows - left_out.size} of {data.n_rows} rows were used")
            data = data.without(left_out)
            all_columns, summary = read(data)
        if len(checked.values):  # not of remote rows
            all_columns = all_columns.with_grids(checked.grids(all_columns))
    return _Used(data, all_columns, summary, context, notes)


def _with_schema(moments: StandardMoments, table: Table) -> StandardMoments:
    """The moments with what a table says of their features."""
    schema = table.schema
    transformed = [] if schema is None else [j for j, c in enumerate(schema.columns) if c.transform]
    values = tuple(schema.features_of(j)[0] for j in transformed) if schema is not None else ()
    return replace(moments.of_table(schema), transformed=values)


def read_moments(
    data: Rows | StandardMoments,
    n_components: Number,
    order: Number,
    refine: bool,
    context: FitContext,
    blocks: AskedBlocks = None,
) -> tuple[StandardMoments, MomentSummary | None]:
    """Moments of all columns: those given, or from a pass over the rows, with its summary.

    With joined columns and passes over the rows, the test alone needs the moments.
    """
    wanted = None if order == "auto" else check_order(order, data.n_features)
    if isinstance(data, StandardMoments):
        return (data if wanted is None else data.truncated(wanted)), None
    with context.clock.stage("moments"):
        most_squared = 2
        if wanted is None and refine:
            known = data.expected_rows
            wanted = affordable_order(data.n_features, n_components, known, ROWS_PER_PARAMETER)
            joined = known_blocks(blocks, data.n_features, data.feature_names)
            if joined is not None and not joined.is_diagonal and n_components != "auto":
                enough = order_after_rows(n_components, joined)
                if robust_rank(data.n_features, enough, joined) >= n_components:
                    wanted, most_squared = min(wanted, enough), enough - 2
        wanted = wanted or choose_order(data.n_features, n_components)
        return summarized(data, wanted, context.n_threads, most_squared)


def with_start(
    context: FitContext,
    n_components: Number,
    all_columns: StandardMoments,
    varying: StandardMoments,
) -> FitContext:
    """The context with a start of the features that vary, standardized."""
    if context.start is None:
        return context
    context.start.check(n_components, all_columns.n_features)
    return replace(context, start=context.start.standardized(varying))


def _choose(
    moments: StandardMoments,
    joined: Blocks | None,
    sample: Sample | None,
    n_components: Number,
    context: FitContext,
) -> tuple[Choice | None, Blocks | None, Sample | None]:
    """The number of components and the blocks, where they are to be found, from rows or moments.

    Without rows, blocks that are to be found remain None: the test of an answer names them.
    """
    if sample is not None and joined is None:
        choice = choose_blocks(sample, moments, n_components, context)
        return choice, choice.blocks, sample
    if n_components != "auto":
        return None, joined, sample
    if sample is None:
        return choose_by_moments(moments, context, joined), joined, None
    sample = sample.of_blocks(joined or moments.alone)
    return choose_by_likelihood(sample, moments.n_counted, moments, context), joined, sample


def _check_rows(n_rows: int, n_components: int) -> None:
    """Raise where there are fewer rows than components."""
    if n_rows < n_components:
        raise InputError(
            f"n_components={n_components} needs at least that many rows; got {n_rows}. "
            "Ask for fewer components."
        )


def _from_moments(
    moments: StandardMoments,
    order: int,
    n_components: int,
    joined: Blocks | None,
    choice: Choice | None,
    context: FitContext,
) -> tuple[StandardFit, Choice | None]:
    """The answer without rows; where blocks are to be found, with those that its test names."""
    if joined is not None:
        return answer_from_moments(moments, order, n_components, context, joined), choice
    answer = answer_from_moments(moments, order, n_components, context, moments.alone)
    answer = join_by_moments(moments, context, answer)
    if choice is None:
        return answer, None
    return renumber(moments, context, answer, choice)

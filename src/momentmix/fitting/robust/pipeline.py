"""The robust method, stage by stage.

rows or moments → moments of the columns that vary → number of components → answer from moments
alone, or from candidates and passes over the rows → standard errors → certificate → result

Constant columns take no part in a fit: all stages work with the moments of the columns that vary,
in standardized features. `in_data_units` adds the constant columns and goes back to the units of
the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from math import isnan, nan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.arrays import namespace, on_device_of, physical_memory
from momentmix.capacity import (
    FEWEST_BLOCKS,
    affordable_order,
    choose_order,
    robust_rank,
    usable_orders,
)
from momentmix.errors import CapacityError, InputError, check_count
from momentmix.families.distribution import with_joined_values
from momentmix.findings.finding import FATAL, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import AskedBlocks, Table, known_blocks, summarized
from momentmix.fitting.em.em import Sample, bic, draw_sample, log_likelihood, row_sums
from momentmix.fitting.em.patterns import observed_covariances, observed_values
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.checked_rows import check_rows
from momentmix.fitting.inference.findings import find_constants, find_dropped
from momentmix.fitting.inference.outliers import with_others
from momentmix.fitting.inference.over_identification import UNTESTABLE, order_after_rows
from momentmix.fitting.outcome import JoinedColumns, JoinReason, StandardFit
from momentmix.fitting.result import BegunFit, FitResult
from momentmix.fitting.robust.answers import ROWS_PER_PARAMETER, answer_from_rows
from momentmix.fitting.robust.background import (
    mean_log_prob,
    rows_of,
    share_of,
    wide_density,
)
from momentmix.fitting.robust.groups import choose_number
from momentmix.fitting.robust.joining import choose_blocks
from momentmix.fitting.robust.number_of_components import (
    Choice,
    answer_without_rows,
    better_number,
    with_final,
)
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.mixture import mixture_of_parameters
from momentmix.mixture.prior import VARIANCE_FLOOR
from momentmix.summary.summary import MomentSummary
from momentmix.tables.rows import Rows
from momentmix.tables.schema import Schema
from momentmix.wording import NEED_ROWS, plural, size_text, whole_percent

Number = int | Literal["auto", "bic"]

_SQUARES, _TABLES = 6, 6  # held at once, measured with 100 to 1000 levels
# A component of so few rows, whose deviations are so many times those of all rows (geometric mean
# over columns), lies around the groups: groups are narrower than all rows, mostly by half.
_LIGHTEST_GROUP, _WIDE = 0.02, 1.2
MOST_PARAMETERS = 8000  # with blocks: the covariance of so many takes half a gigabyte


def fit_robust(
    table: Table,
    n_components: Number,
    context: FitContext,
    blocks: AskedBlocks = None,
) -> BegunFit:
    """Fit by the robust method."""
    _check_memory(table, n_components)
    asked = context
    data, all_columns, summary, context, notes = _used(table, n_components, context, blocks)
    if isinstance(table.data, StandardMoments):
        context = replace(context, background=False)
    elif context.background == "auto":
        context = replace(context, background=context.checked.outliers.places.size > 0)
    rows = None if isinstance(data, StandardMoments) else data
    varying = all_columns.varying()
    if context.start is not None:
        context.start.check(n_components, all_columns.n_features)
        context = replace(context, start=context.start.standardized(varying))
    sample = None if rows is None else draw_sample(rows, varying, context.rng)
    if sample is not None and any(law.value_feature is not None for law in varying.laws):
        features = sample.all_features
        every = np.ones((1, features.shape[1]))
        covariance = observed_covariances(features, varying, every)[0]
        varying = replace(varying, observed_covariance=covariance)
        sample = sample._replace(moments=varying)
    joined = _varying_blocks(blocks, all_columns, varying, sample)
    choice: Choice | None = None
    # Without rows, blocks that are to be found remain None: the test of an answer names them.
    if sample is not None and isinstance(n_components, str):
        choice = choose_number(sample, n_components, context, joined)
        joined = choice.blocks
    elif sample is not None and joined is None:
        assert not isinstance(n_components, str)
        choice = choose_blocks(sample, n_components, context)
        joined = choice.blocks
    moments = varying
    if choice is not None or isinstance(n_components, str):
        r = 1 if choice is None else choice.n_components
    else:
        r = check_count("n_components", n_components, 1)
        best = choose_order(varying.n_features, r, varying.order, blocks=joined)
        moments = varying.truncated(best)
    if moments.n_rows < r:
        raise InputError(
            f"n_components={r} needs at least that many rows; got {moments.n_rows}. Ask for fewer "
            "components."
        )
    if sample is None:
        _check_capacity(moments, r, all_columns.n_features, joined or moments.alone)
        answer = answer_without_rows(varying, n_components, moments.order, context, joined)
    else:
        assert joined is not None
        _check_widest(joined, moments, r)
        sample = sample.of_blocks(joined)._replace(moments=moments)
        answer = answer_from_rows(sample, r, context, () if choice is None else choice.candidates)
        values = varying.columns[[value for value, *_ in joined.missing]].tolist()
        all_columns = replace(all_columns, laws=with_joined_values(all_columns.laws, values))
    can_repeat = isinstance(rows, Rows) and not rows.is_remote and asked.far is None
    can_repeat = can_repeat and asked.background is not False
    wide = _scattered(answer)
    if can_repeat and wide.any() and not wide.all():
        assert isinstance(table.data, Rows)
        known, places = context.checked.outliers, rows_of(table.data, answer, wide)
        far = with_others(known, table.data, all_columns, places)
        if len(far.places) > len(known.places):
            again = replace(asked, far=far)
            return fit_robust(table, n_components, again, blocks)
    if choice is not None:
        notes.append(choice.note)
        tried = choice.tried
        if tried:
            assert sample is not None
            p = answer.parameters
            score = log_likelihood(sample.judges, p)
            tried = with_final(tried, (score, bic(p, moments.n_counted, score)))
        answer = replace(answer, tried=tried, joined=choice.joined or answer.joined)
    answer = replace(answer, notes=[*notes, *answer.notes])
    begun = in_data_units(answer, all_columns, context, rows, summary, table)
    if context.background is not True:
        return begun
    assert isinstance(table.data, Rows)
    return with_background(begun, table.data, answer, all_columns, context)


def _scattered(answer: StandardFit) -> NDArray[np.bool_]:
    """Which components are no groups, but light and wide: rows around all groups; (r,)."""
    p, numbers = answer.parameters, answer.parameters.blocks.gaussian
    if not len(numbers) or answer.parameters.blocks.missing:
        return np.zeros(p.n_components, np.bool_)
    spread = np.log(p.variances[:, numbers]).mean(axis=1)  # 0 is that of all rows
    return np.asarray((p.weights <= _LIGHTEST_GROUP) & (spread > 2 * np.log(_WIDE)))


def _used(
    table: Table,
    n_components: Number,
    context: FitContext,
    blocks: AskedBlocks,
) -> tuple[Rows | StandardMoments, StandardMoments, MomentSummary | None, FitContext, list[str]]:
    """The data that are used, moments of all columns, summary, context with checks, and notes."""
    data, notes = table.data, list(table.notes)
    if isinstance(data, StandardMoments):
        return data, data.of_table(table.schema), None, context, notes

    def read(rows: Rows) -> tuple[StandardMoments, MomentSummary]:
        with context.clock.stage("moments"):
            most, squared = _order_beside_rows(rows, n_components, blocks)
            moments, summary = summarized(rows, most, context.n_threads, squared)
        return moments.of_table(table.schema), summary

    all_columns, summary = read(data)
    with context.clock.stage("checks of rows"):
        takes_out = context.background is not False
        checked = check_rows(data, all_columns, takes_out, context.far)
    if checked.n_rows < data.n_rows:  # the groups are fitted without those of a background
        data = data.without(checked.outliers.places)
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
    if order == 2 and rows.row_counts is None and (rows.expected_rows or d) < d:
        return 2, 0  # nothing is tested, and moments beside squares are two thirds of all
    joined = known_blocks(blocks, d, rows.feature_names)
    if joined is not None and not joined.is_diagonal and not isinstance(n_components, str):
        enough = order_after_rows(n_components, joined)
        if robust_rank(d, enough, joined) >= n_components:
            return min(order, enough), enough - 2
    return order, 2


# -- checks ---------------------------------------------------------------------------------------


def _varying_blocks(
    asked: AskedBlocks,
    all_columns: StandardMoments,
    varying: StandardMoments,
    sample: Sample | None,
) -> Blocks | None:
    """Blocks of features that vary; None where they are to be found."""
    known = known_blocks(asked, all_columns.n_features, all_columns.feature_names)
    if known is None:
        return None
    blocks = varying.joined(known.restricted(varying.columns).joined)
    missing = {law.value_feature for law in all_columns.laws}
    constant = set(range(all_columns.n_features)) - set(varying.columns.tolist())
    for j in (j for block in known.joined for j in block):
        if j in constant & missing:
            raise InputError(
                f"column {all_columns.column_name(j)} is constant where it is seen, so that it "
                "has no correlations. Take it out of the block."
            )
    for block, _ in blocks.places if blocks.missing and sample is not None else ():
        assert sample is not None
        observed = observed_values(sample.all_features, varying, block)
        together = observed @ observed.T
        if together.min() < block.size + 1:
            j, k = np.unravel_index(int(together.argmin()), together.shape)
            names = [varying.column_name(int(block[place])) for place in (j, k)]
            raise InputError(
                f"columns {names[0]} and {names[1]} are in one block, but almost never seen in "
                f"the same row ({together.min():.0f} of {observed.shape[1]} rows), so that their "
                "covariance cannot be known. Take one of them out of the block."
            )
    return blocks


def _check_memory(table: Table, n_components: Number) -> None:
    """Raise, before any work, where a fit takes more than half of the memory."""
    d, r = table.data.n_features, 1 if isinstance(n_components, str) else n_components
    known = 0  # rows that are held, not those that their weights stand for
    if isinstance(table.data, Rows):
        counts = table.data.row_counts
        known = (table.data.expected_rows or 0) if counts is None else len(counts)

    def n_bytes(n_features: int) -> float:
        return 8.0 * (_SQUARES * (r * (1 + 2 * n_features)) ** 2 + _TABLES * n_features * known)

    budget, most = physical_memory() / 2, d
    if n_bytes(d) <= budget:
        return
    while most > 1 and n_bytes(most) > budget:
        most = most * 9 // 10
    columns = () if table.schema is None else table.schema.columns
    widest = max(columns, key=lambda column: len(column.levels or ()), default=None)
    levels = ""
    if widest is not None and widest.levels:
        levels = f", {len(widest.levels) - 1} of them levels of {widest.name!a},"
    raise InputError(
        f"{r} component{plural(r)} of {d} features{levels} need about {size_text(n_bytes(d))} of "
        f"memory; a fit may take {size_text(budget)}, half of what there is. Use up to {most} "
        "features: join rare levels to one, or leave columns out; or ask for fewer components."
    )


def _check_widest(blocks: Blocks, moments: StandardMoments, n_components: int) -> None:
    """Raise where a block has more columns than rows or memory can bear."""
    k, n, r = blocks.widest, moments.n_counted, n_components
    if k > 1 and n < r * (k + 1):
        raise InputError(
            f"a block of {k} columns needs more than {k} rows for each of {r} "
            f"component{plural(r)}, {r * (k + 1)} in all; got {n}. Use blocks of at most "
            f"{max(1, n // r - 1)} columns, fewer components, or more rows."
        )
    n_parameters = r * blocks.n_parameters
    if k > 1 and n_parameters > MOST_PARAMETERS:
        raise InputError(
            f"{r} component{plural(r)} of these blocks, the widest of {k} columns, have "
            f"{n_parameters} parameters; fits with blocks have at most {MOST_PARAMETERS}, whose "
            "standard errors take gigabytes. Use smaller blocks or fewer components."
        )


def _check_capacity(
    moments: StandardMoments, n_components: int, n_columns: int, blocks: Blocks
) -> None:
    """Raise where moments of this order cannot tell the components apart."""
    d, order = moments.n_features, moments.order
    n_blocks = len(blocks.partition)
    if n_blocks < FEWEST_BLOCKS and n_components > 1 and not blocks.is_diagonal:
        raise CapacityError(
            f"moments alone need at least three blocks to tell components apart; these are "
            f"{n_blocks} block{plural(n_blocks)} of {d} columns. Use smaller blocks, or "
            f"{NEED_ROWS}."
        )
    most = robust_rank(d, order, blocks)
    if n_components <= most:
        return
    ranks = ((m, robust_rank(d, m, blocks)) for m in usable_orders(d, d))
    sufficient = next(((m, rank) for m, rank in ranks if rank >= n_components), None)
    cure = "At"
    if sufficient is not None:
        cure = f"Summarize with order={sufficient[0]} (up to {sufficient[1]}), or at"
    kind = "features" if d == n_columns else "features that vary"
    if not blocks.is_diagonal:
        kind += f" in {n_blocks} blocks"
    raise CapacityError(
        f"order={order} with {d} {kind} identifies at most {most} component"
        f"{'s' if most > 1 else ''} from moments alone; n_components={n_components} was asked. "
        f"{cure} most {most}, or for any number {NEED_ROWS}."
    )


# -- back to the units of the data -----------------------------------------------------------------


def in_data_units(
    answer: StandardFit,
    all_columns: StandardMoments,
    context: FitContext,
    rows: Rows | None = None,
    summary: MomentSummary | None = None,
    table: Table | None = None,
) -> BegunFit:
    """The result, and what finishes it: all columns, in the units of the data."""
    schema = None if table is None else table.schema
    moments = all_columns.truncated(answer.moments.order)
    place = (answer.moments.columns, moments.n_features, VARIANCE_FLOOR, moments.laws)
    parameters = answer.parameters.embedded(*place)
    weights = parameters.weights / parameters.weights.sum()
    order = context.order_of(answer.parameters)
    ordered = replace(parameters, weights=weights)[order].without_seen(moments.n_rows)
    ordered = ordered.restored(moments.shift, moments.scale)
    names = moments.feature_names if schema is None else None  # a schema has those of columns
    mixture = mixture_of_parameters(ordered, names, schema)
    log_likelihood, units = None, 0.0
    if rows is not None:
        with context.clock.stage("log-likelihood"):
            log_prob = partial(mixture.log_prob_of_features, schema=schema)
            log_likelihood, standardized = _log_likelihoods(rows, log_prob, answer, context)
        units = standardized - log_likelihood
    findings = find_constants(moments)
    if table is not None and isinstance(table.data, Rows):
        findings += find_dropped(moments, table.data.dropped)
    if context.checked is not None:
        are_taken = context.background is not False
        findings = context.checked.outliers.findings(moments, are_taken) + findings
    n_counted, passes = answer.moments.n_counted, answer.passes
    findings += better_number(answer.tried, n_counted)
    if passes is not None and not passes.converged:
        findings.append(found(FATAL, "not-converged", max_passes=context.max_passes))
    draft = FitResult(
        n_rows=answer.moments.n_rows,
        order=answer.moments.order,
        method="robust",
        refine="none" if passes is None else "em",
        winner=answer.winner,
        n_passes=1 if passes is None else 1 + passes.n_passes,
        converged=passes is None or passes.converged,
        log_likelihood=log_likelihood,
        notes=answer.notes,
        certificate=Certificate(UNTESTABLE, nan, findings, mixture.n_components),
        tried=tuple(
            replace(t, log_likelihood=t.log_likelihood - units, bic=t.bic + 2.0 * n_counted * units)
            for t in answer.tried
        ),
        joined=_joined_columns(answer, moments, schema),
        mixture=mixture,
        moments=moments,
        summary=summary,
        schema=schema,
        stages=context.clock.stages,
        log_likelihoods=[] if passes is None else [x - units for x in passes.log_likelihoods],
    )
    rest = answer.rest

    def finish() -> FitResult:
        uncertainty, certificate = rest()
        certificate = replace(certificate, findings=certificate.findings + findings)
        uncertainty = uncertainty.embedded(*place).reordered(order)
        result = replace(draft, certificate=certificate, uncertainty=uncertainty)
        return with_final_figures(result)

    return BegunFit(draft, finish)


def with_final_figures(result: FitResult) -> FitResult:
    """The trial of the chosen number, and its note, with the figures of the final fit."""
    chosen = next((t for t in result.tried if t.chosen), None)
    if chosen is None:
        return result
    p_value, again, notes = chosen.p_value, chosen.reproducibility, list(result.notes)
    if not isnan(p_value):
        p_value = result.certificate.p_value
    least = float(result.reproducibility.min())
    if again and not isnan(least):
        again, start = tuple(result.reproducibility.tolist()), f"n_components={len(again)}: "
        words = f"; the final fit has a least reproducibility of {whole_percent(least)}"
        notes = [f"{note}{words}" if note.startswith(start) else note for note in notes]
    final = replace(chosen, p_value=p_value, reproducibility=again)
    tried = tuple(final if t.chosen else t for t in result.tried)
    return replace(result, tried=tried, notes=notes)


def with_background(
    begun: BegunFit,
    rows: Rows,
    answer: StandardFit,
    all_columns: StandardMoments,
    context: FitContext,
) -> BegunFit:
    """The same fit where a background takes its share of all rows."""
    assert context.checked is not None
    draft, moments = begun.draft, begun.draft.moments
    with context.clock.stage("background"):
        p = answer.parameters.embedded(
            answer.moments.columns, moments.n_features, VARIANCE_FLOOR, moments.laws
        ).normalized()
        far = rows.take(context.checked.outliers.places)
        wide = wide_density(far, moments, p).restored(moments.shift, moments.scale)
        names = moments.feature_names if draft.schema is None else None
        background = mixture_of_parameters(wide, names, draft.schema)
        share = share_of(rows, draft.mixture, background, draft.schema, context)
        mixture, log_likelihood = draft.mixture.with_background(background, share), None
        if draft.log_likelihood is not None:
            log_likelihood = mean_log_prob(rows, mixture, draft.schema, context)
    own: dict[str, Any] = {
        "mixture": mixture,
        "n_rows": rows.n_rows,
        "log_likelihood": log_likelihood,
    }
    return BegunFit(replace(draft, **own), lambda: replace(begun.finish(), **own))


def _log_likelihoods(
    rows: Rows, log_prob: Callable[[Any], Any], answer: StandardFit, context: FitContext
) -> tuple[float, float]:
    """Mean log-density of the rows: of the mixture, and of standardized features that vary."""
    sums_of = row_sums(answer.moments, answer.parameters)

    def sums(block: Any, counts: Float | None = None) -> tuple[float, float, float]:
        _, total, n_rows = sums_of(block, counts)
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
    found = []
    for block in joined:
        columns = tuple(schema.column_of[j] for j in block.columns)
        found.append(replace(block, columns=columns).named(schema.column_names))
    return tuple(found)

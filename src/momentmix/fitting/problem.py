"""The data of a fit after their first pass: moments, checks of rows, and a sample of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from momentmix.capacity import affordable_order, robust_rank
from momentmix.errors import InputError
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import AskedBlocks, Table, known_blocks, summarized
from momentmix.fitting.em.em import Sample, draw_sample, standardized_density
from momentmix.fitting.em.patterns import observed_covariances
from momentmix.fitting.em.starts import Start
from momentmix.fitting.inference.checked_rows import check_rows
from momentmix.fitting.inference.outliers import Outliers, with_others
from momentmix.fitting.inference.tested_conditions import order_after_rows
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.options import Number
from momentmix.mixture.density import most_probable
from momentmix.mixture.parameters import Parameters
from momentmix.summary.summary import MomentSummary
from momentmix.tables.rows import Rows

ROWS_PER_PARAMETER = 5  # with fewer, moments are too noisy for an answer that helps
# A component of so few rows, whose deviations are so many times those of all rows (geometric mean
# over columns), lies around the groups: groups are narrower than all rows, mostly by half.
_LIGHTEST_GROUP, _WIDE = 0.02, 1.2


@dataclass(frozen=True)
class Problem:
    """What a fit starts from.

    `columns` are moments of all columns, `moments` those of the columns that vary, in the groups'
    `rows`, which may lack rows far from all others. The context says what the checks of rows found.
    """

    table: Table
    context: FitContext
    columns: StandardMoments
    moments: StandardMoments
    rows: Rows | None = None  # with summary and sample None where only moments were given
    summary: MomentSummary | None = None
    sample: Sample | None = None


def read_problem(
    table: Table,
    n_components: Number,
    blocks: AskedBlocks,
    context: FitContext,
    far: Outliers | None = None,
) -> Problem:
    """Read the rows once, and again without those `far` from all others, found where None."""
    if isinstance(table.data, StandardMoments):
        if context.background is True:
            raise InputError(
                "background=True (--background true) needs rows: the share of the "
                "background is estimated from the densities of the rows."
            )
        columns = table.data.of_table(table.schema)
        moments, context = columns.varying(), replace(context, background=False)
        return Problem(
            table, _started(context, table, n_components, columns, moments), columns, moments
        )
    rows = table.data
    with context.clock.stage("moments"):
        order, squared = _order_beside_rows(rows, n_components, blocks)
        columns, summary = summarized(rows, order, context.n_threads, squared)
        columns = columns.of_table(table.schema)
    with context.clock.stage("checks of rows"):
        checked = check_rows(rows, columns, context.background is not False, far)
    if checked.n_rows < rows.n_rows:  # the groups are fitted without those of a background
        rows = rows.without(checked.outliers.places)
        with context.clock.stage("moments"):
            columns, summary = summarized(rows, order, context.n_threads, squared)
            columns = columns.of_table(table.schema)
    if len(checked.values):  # not of remote rows
        columns = columns.with_grids(checked.grids(columns))
    if context.background == "auto":
        context = replace(context, background=checked.outliers.places.size > 0)
    moments = columns.varying()
    context = _started(replace(context, checked=checked), table, n_components, columns, moments)
    sample = draw_sample(rows, moments, context.rng)
    if any(part.value_feature is not None for part in moments.laws):
        features = sample.all_features
        every = np.ones((1, features.shape[1]))
        covariance = observed_covariances(features, moments, every)[0]
        moments = replace(moments, observed_covariance=covariance)
        sample = sample._replace(moments=moments)
    return Problem(table, context, columns, moments, rows, summary, sample)


def _started(
    context: FitContext,
    table: Table,
    n_components: Number,
    columns: StandardMoments,
    moments: StandardMoments,
) -> FitContext:
    """The context with the start in standardized features; raise where it is of no use."""
    if not isinstance(n_components, str) and moments.n_rows < n_components:
        raise InputError(
            f"n_components={n_components} needs at least that many rows; got {moments.n_rows}. "
            "Ask for fewer components."
        )
    if context.start is None:
        return context
    start = Start.of(context.start, n_components, columns.n_features, moments, table.schema)
    return replace(context, start=start)


def scattered_components(p: Parameters) -> NDArray[np.bool_]:
    """Which components are no groups, but light and wide: rows around all groups, (r,)."""
    numbers = p.blocks.gaussian
    if not len(numbers) or p.blocks.missing:
        return np.zeros(p.n_components, np.bool_)
    spread = np.log(p.variances[:, numbers]).mean(axis=1)  # 0 is that of all rows
    is_wide = np.asarray((p.weights <= _LIGHTEST_GROUP) & (spread > 2 * np.log(_WIDE)))
    return is_wide & ~is_wide.all()


def scattered_rows(problem: Problem, p: Parameters, scattered: NDArray[np.bool_]) -> Outliers:
    """The far rows and those of the components that are no groups, where these are not too many."""
    rows, is_scattered = problem.table.data, list[NDArray[np.bool_]]()
    assert isinstance(rows, Rows)
    density = standardized_density(problem.moments, p)
    for block in rows.blocks():
        labels = density.map_rows(block, most_probable)
        is_scattered.append(scattered[labels] & (labels >= 0))
    numbers = np.flatnonzero(np.concatenate(is_scattered))
    return with_others(problem.context.checked.outliers, rows, problem.columns, numbers)


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

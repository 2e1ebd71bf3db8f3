"""The answer where joined columns have missing cells: EM over the rows by pattern.

candidates of columns apart, of complete rows, and of rows filled by draws of one component → EM by
pattern on a sample → the best → passes over all rows → standard errors → certificate

The draws serve to find starts, and nothing else: EM leaves them behind.

The moments of features that are 0 where a cell is missing say nothing simple of joined columns, so
that no test of them belongs to the answer: the certificate says that it is untested.
"""

from __future__ import annotations

from functools import partial
from math import log

import numpy as np

from momentmix._typing import Float
from momentmix.errors import InputError
from momentmix.findings.catalog import UNTESTED
from momentmix.findings.finding import NOTE, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Pass
from momentmix.fitting.em.passes import climb
from momentmix.fitting.em.patterns import (
    Layout,
    PatternRows,
    drawn_values,
    pattern_information,
    pattern_sums,
    run_patterns,
    single_component,
    structure_of,
)
from momentmix.fitting.em.pooling import merges_by_bound
from momentmix.fitting.em.sample import Sample, information_rows
from momentmix.fitting.em.scores import settle_floored
from momentmix.fitting.em.search import Candidate, ranked_candidates
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.component_findings import component_findings
from momentmix.fitting.inference.over_identification import UNTESTABLE
from momentmix.fitting.inference.standard_errors import Uncertainty, uncertainty_after_em
from momentmix.fitting.inference.support import Support
from momentmix.fitting.inference.tested_conditions import gaps_together
from momentmix.fitting.robust.certifying import predicted_loss, support_by_bic
from momentmix.fitting.robust.row_answers import find_candidates
from momentmix.fitting.robust.standard_fit import StandardFit
from momentmix.mixture.gaussian import features_of, values_of
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.tables.rows import Rows

_STEPS = 30  # of EM on a sample for each of them
_MOST_SAMPLED = 20000  # rows of these steps
_ROWS_PER_PARAMETER = 5  # complete rows, for starts of them alone
_MERGES = 4  # pairs whose merge costs least by a bound
_LEAST_GAIN = 1e-5  # nats a row of a step on the sample

MOST_STARTS = 3  # of each kind


def answer_by_patterns(
    rows: Rows,
    sample: Sample,
    moments: StandardMoments,
    layout: Layout,
    n_components: int,
    context: FitContext,
) -> StandardFit:
    """The answer where joined columns have missing cells.

    Starts come from the columns apart, and from searches in the samples of `start_samples`.
    """
    check_pairs(sample, moments, layout)
    candidates = find_candidates(sample, moments, n_components, context)[:MOST_STARTS]
    if n_components > 1:
        with context.clock.stage("candidates"):
            for other in start_samples(sample, layout, n_components, context):
                found = ranked_candidates(other, moments, n_components, context)
                candidates += found[:MOST_STARTS]
    return fit_patterns(rows, sample, moments, layout, candidates, context)


def check_pairs(sample: Sample, moments: StandardMoments, layout: Layout) -> None:
    """Raise where two columns of a block are hardly ever seen in the same row."""
    values = values_of(sample.all_features, sample.blocks).T
    for features in layout.wide:
        is_seen = (~layout.gaps(values, features)).astype(np.float64)
        together = is_seen.T @ is_seen
        if together.min() < features.size + 1:
            j, k = np.unravel_index(int(together.argmin()), together.shape)
            names = [moments.column_name(int(features[place])) for place in (j, k)]
            raise InputError(
                f"columns {names[0]} and {names[1]} are in one block, but almost never seen in "
                f"the same row ({together.min():.0f} of {len(values)} rows), so that their "
                "covariance cannot be known. Take one of them out of the block."
            )


def start_samples(
    sample: Sample, layout: Layout, n_components: int, context: FitContext
) -> list[Sample]:
    """Rows of the sample without gaps, where a search can begin.

    Those that are complete, where they are many, and all with draws of a single component for
    missing values. Components stay apart in the first and keep their shares in the second.
    """
    values = values_of(sample.all_features, sample.blocks).T[:_MOST_SAMPLED]
    rows = layout.rows(values)
    single = single_component(rows, context.variance_floor)
    tables = [drawn_values(rows, values, single, context.rng)]
    gaps = np.hstack([layout.gaps(values, features) for features in layout.wide])
    complete = values[~gaps.any(axis=1)]
    if len(complete) >= _ROWS_PER_PARAMETER * n_components * layout.blocks.n_parameters:
        tables.append(complete)
    found_features = (features_of(table, layout.blocks) for table in tables)
    return [Sample(features, features, True, layout.blocks) for features in found_features]


def fit_patterns(
    rows: Rows,
    sample: Sample,
    moments: StandardMoments,
    layout: Layout,
    candidates: list[Candidate],
    context: FitContext,
) -> StandardFit:
    """EM by pattern from the best of the candidates, standard errors and certificate."""
    values = values_of(sample.all_features, sample.blocks).T
    with context.clock.stage("starts by pattern"):
        few = layout.rows(values[:_MOST_SAMPLED])
        structure = structure_of(few, moments.floors(context.variance_floor))
        best, start = _best_start(few, layout, candidates, structure)
    n, r = rows.n_counted, start.n_components
    prior = VariancePrior.of_rows(n, r, structure)
    features, _ = information_rows(rows, moments, sample, start.n_places, context.rng)
    scored = values_of(features, sample.blocks).T  # standardized rows (n, d)

    def sums_of(p: Parameters) -> Pass:
        sums = partial(pattern_sums, moments=moments, layout=layout, p=p)
        return Pass(*rows.sum_blocks(sums, context.n_threads))

    def information_of(p: Parameters) -> Float:
        return pattern_information(layout, scored, p)

    with context.clock.stage("passes"):
        scoring = information_of if len(scored) >= 8 * start.n_free else None
        done = climb(sums_of, scoring, start, prior, n, context)
    p = done.parameters
    with context.clock.stage("standard errors"):
        information = information_of(p)
        settle_floored(information, p, prior.floors(p, n), structure)
        together = gaps_together(moments, p)
        uncertainty = uncertainty_after_em(p, information, moments.n_effective, together=together)
    certificate = _certificate(moments, layout, few, p, structure, uncertainty, context)
    notes = ["joined columns with missing cells: EM by missing pattern"]
    return StandardFit(
        moments, p, uncertainty, certificate, notes, best.name, passes=done, layout=layout
    )


def _best_start(
    rows: PatternRows, layout: Layout, candidates: list[Candidate], structure: Structure
) -> tuple[Candidate, Parameters]:
    """The candidate that EM by pattern makes most of, and what it makes of it."""
    r = candidates[0].parameters.n_components
    prior = VariancePrior.of_rows(rows.n_rows, r, structure)
    ends = []
    for candidate in candidates:
        start = structure.raised(layout.started(candidate.parameters))
        ends.append(run_patterns(rows, start, prior, _STEPS, _LEAST_GAIN))
    place = int(np.argmax([value for _, value in ends]))
    return candidates[place], ends[place][0]


# -- certificate --------------------------------------------------------------------------------


def _certificate(
    moments: StandardMoments,
    layout: Layout,
    rows: PatternRows,
    p: Parameters,
    structure: Structure,
    uncertainty: Uncertainty,
    context: FitContext,
) -> Certificate:
    with context.clock.stage("certificate"):
        r, support, loss = p.n_components, None, 0.0
        if r > 1:
            support = _support(rows, p, structure, moments.n_counted)
            loss = predicted_loss(
                p, uncertainty, context.rng, joint_of=lambda z: layout.rows(z).joint
            )
        findings = [
            found(NOTE, UNTESTED, remedy={"missing": "drop"}),
            *component_findings(moments, p[context.order_of(p)], context.variance_floor),
        ]
        return Certificate(UNTESTABLE, loss, findings, r, support, True)


def _support(rows: PatternRows, p: Parameters, structure: Structure, n: int) -> Support:
    """Whether BIC rejects one component less."""
    r, price = p.n_components, 0.5 * p.blocks.n_parameters * log(n) / n
    prior = VariancePrior.of_rows(rows.n_rows, r - 1, structure)
    starts = [merged.normalized() for merged in merges_by_bound(p, _MERGES)]
    smaller = [run_patterns(rows, start, prior, _STEPS, _LEAST_GAIN)[0] for start in starts]
    best = max(rows.sums(q)[1] for q in smaller) / rows.n_rows
    loss = rows.sums(p)[1] / rows.n_rows - best
    return support_by_bic(r, loss, price)

"""The robust method, stage by stage.

rows or moments → moments of the columns that vary → number of components → answer from moments
alone, or from candidates and passes over the rows → standard errors → certificate → result

Constant columns take no part in a fit: all stages work with the moments of the columns that vary,
in standardized features. `in_data_units` adds the constant columns and goes back to the units of
the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import nan
from typing import Literal

import numpy as np

from momentmix._typing import Float
from momentmix.capacity import (
    affordable_order,
    check_count,
    check_order,
    choose_order,
    robust_rank,
)
from momentmix.errors import DecompositionError, InputError
from momentmix.fitting.automatic import (
    ROWS_PER_PARAMETER,
    Choice,
    bic,
    choose_by_likelihood,
    choose_by_moments,
    chosen,
)
from momentmix.fitting.certifying import begin_test, certify
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.constrained import check_varying, constraint_findings, free_parameters
from momentmix.fitting.context import FitContext
from momentmix.fitting.data_units import in_data_units, mean_base_measure, mean_log_jacobian
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.em.patterns import Layout
from momentmix.fitting.em.sample import Sample, draw_sample, information_rows
from momentmix.fitting.em.scores import information_matrix, settle_floored
from momentmix.fitting.em.search import (
    FEW_ROWS,
    Candidate,
    Kind,
    Origin,
    given_candidate,
    ranked_candidates,
)
from momentmix.fitting.inference.of_rows.rows_checked import check_rows
from momentmix.fitting.inference.over_identification import (
    LEAST_P_VALUE,
    order_after_rows,
)
from momentmix.fitting.inference.standard_errors import (
    Uncertainty,
    uncertainty_after_em,
)
from momentmix.fitting.inputs import summarized
from momentmix.fitting.joined_missing import check_pairs, fit_patterns, start_samples
from momentmix.fitting.joining import choose_blocks
from momentmix.fitting.moment.moment_fit import START, fit_moments, one_component
from momentmix.fitting.moment_answers import (
    MOST_HEARD,
    answer_from_moments,
    check_capacity,
    join_by_moments,
    renumber,
)
from momentmix.fitting.outcome import (
    Diagnostics,
    Provenance,
    Trial,
)
from momentmix.fitting.result import FitResult
from momentmix.fitting.standard_fit import StandardFit
from momentmix.fitting.support import support_from_rows
from momentmix.fitting.tables import Table
from momentmix.mixture.blocks import Blocks, blocks_from
from momentmix.mixture.column_laws import laws_of, with_joined_values
from momentmix.mixture.laws.law import Law
from momentmix.mixture.laws.seen import Seen
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.parallel import begin
from momentmix.rows.protocol import Rows
from momentmix.summary.summary import MomentSummary
from momentmix.wording import plural

AskedBlocks = Sequence[Sequence[int | str]] | Literal["auto", "full"] | None

CLEARLY_BETTER = 1e-3  # nats a row; candidates at one optimum differ by less
MOST_PARAMETERS = 8000  # with blocks: the covariance of so many takes half a gigabyte
MOST_STARTS = 3  # of each kind, for EM by missing pattern


def fit_robust(
    table: Table,
    n_components: int | Literal["auto"],
    order: int | Literal["auto"],
    refine: bool,
    context: FitContext,
    blocks: AskedBlocks = None,
) -> FitResult:
    """Fit by the robust method; `refine` allows passes over the rows, where there are rows."""
    data, laws, notes = table.data, laws_of(table.schema), list(table.notes)
    all_columns, summary = read_moments(data, n_components, order, refine, context, blocks)
    all_columns = _with_schema(all_columns, laws, table)
    if isinstance(data, Rows):
        with context.clock.stage("checks of rows"):
            checked = check_rows(data, all_columns)
            context = replace(context, checked=checked)
            begin(lambda: checked.columns, context.n_threads)  # sorted while the search begins
        left_out = checked.outliers.places
        if left_out.size:
            notes.append(f"{data.n_rows - left_out.size} of {data.n_rows} rows were used")
            data = data.without(left_out)
            all_columns, summary = read_moments(data, n_components, order, refine, context, blocks)
            all_columns = _with_schema(all_columns, laws, table)
    rows = None if isinstance(data, StandardMoments) or not refine else data
    varying = moments = all_columns.varying()
    with_missing = joined_with_missing(blocks, all_columns, varying, n_components)
    if with_missing:
        apart = {j for block in with_missing for j in varying.columns[list(block)].tolist()}
        blocks = [block for block in blocks or () if not apart.intersection(block)]
    joined = varying_blocks(blocks, all_columns, varying)
    context = with_start(context, n_components, all_columns, varying)
    if context.constraint is not None:
        check_varying(context.constraint, all_columns)
    sample = None if rows is None else draw_sample(rows, moments, context.rng)
    choice: Choice | None = None
    if sample is not None and joined is None:
        choice = choose_blocks(sample, moments, n_components, context)
        joined = choice.blocks
    elif sample is not None and n_components == "auto":
        sample = sample.of_blocks(joined or moments.alone)
        choice = choose_by_likelihood(sample, moments.n_counted, moments, context)
    elif n_components == "auto":
        choice = choose_by_moments(moments, context, joined)
    r = choice.n_components if choice is not None else check_count("n_components", n_components, 1)
    if n_components != "auto" and order == "auto":
        highest = choose_order(varying.n_features, r, varying.order, blocks=joined)
        moments = varying.truncated(highest)
    if moments.n_rows < r:
        raise InputError(
            f"n_components={r} needs at least that many rows; got {moments.n_rows}. "
            "Ask for fewer components."
        )
    if rows is None or sample is None:
        known = joined or moments.alone
        check_capacity(moments, r, all_columns.n_features, known)
        answer = answer_from_moments(varying, moments.order, r, context, known)
        if joined is None:
            answer = join_by_moments(varying, context, answer)
            if choice is not None:
                answer, choice = renumber(varying, context, answer, choice)
    else:
        assert joined is not None
        check_widest(joined, moments, r)
        sample, found = sample.of_blocks(joined), () if choice is None else choice.candidates
        if with_missing:
            layout = Layout.of(moments, (*joined.joined, *with_missing))
            check_widest(layout.blocks, moments, r)
            answer = answer_by_patterns(rows, sample, moments, layout, r, context)
            values = set(varying.columns[list(layout.seen_of)].tolist())
            all_columns = replace(all_columns, laws=with_joined_values(all_columns.laws, values))
        else:
            answer = answer_from_rows(rows, sample, moments, r, context, found)
        if choice is not None and n_components == "auto":
            answer, choice = hear_certificate(rows, sample, answer, choice, context)
    if choice is not None:
        notes.append(choice.note)
        if choice.joined:
            found_joined = replace(answer.diagnostics, joined=choice.joined)
            answer = replace(answer, diagnostics=found_joined)
    tried = () if choice is None else choice.tried
    base = 0.0 if rows is None else mean_base_measure(rows, laws)
    base += mean_log_jacobian(all_columns, table.schema)
    return in_data_units(answer, all_columns, summary, notes, tried, context, base, table.schema)


def _with_schema(moments: StandardMoments, laws: tuple[Law, ...], table: Table) -> StandardMoments:
    """The moments with what a table says of their features."""
    schema = table.schema
    transformed = [] if schema is None else [j for j, c in enumerate(schema.columns) if c.transform]
    values = tuple(schema.features_of(j)[0] for j in transformed) if schema is not None else ()
    return replace(moments.with_laws(laws), transformed=values, coarse=table.coarse)


def read_moments(
    data: Rows | StandardMoments,
    n_components: int | Literal["auto"],
    order: int | Literal["auto"],
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
    n_components: int | Literal["auto"],
    all_columns: StandardMoments,
    varying: StandardMoments,
) -> FitContext:
    """The context with a start of the features that vary, standardized."""
    if context.start is None:
        return context
    context.start.check(n_components, all_columns.n_features)
    return replace(context, start=context.start.standardized(varying))


def known_blocks(asked: AskedBlocks, n_features: int, names: Sequence[str] | None) -> Blocks | None:
    """Blocks of all columns; None where the fit is to find them."""
    if asked == "auto":
        return None
    return blocks_from(() if asked is None else asked, n_features, names)


def varying_blocks(
    blocks: AskedBlocks, all_columns: StandardMoments, varying: StandardMoments
) -> Blocks | None:
    """The blocks of the columns that vary; None where they are to be found."""
    known = known_blocks(blocks, all_columns.n_features, all_columns.feature_names)
    if known is None:
        return None
    return Blocks.of(varying.n_features, known.restricted(varying.columns).joined, varying.laws)


def joined_with_missing(
    blocks: AskedBlocks,
    all_columns: StandardMoments,
    varying: StandardMoments,
    n_components: int | Literal["auto"],
) -> tuple[tuple[int, ...], ...]:
    """Blocks of features that vary, where values have missing cells; these are `Seen`."""
    known = known_blocks(blocks, all_columns.n_features, all_columns.feature_names)
    values = {law.features[0] for law in all_columns.laws if isinstance(law, Seen)}
    found = [] if known is None else [b for b in known.joined if values.intersection(b)]
    if not found:
        return ()
    if n_components == "auto":
        raise InputError(
            'n_components="auto" does not go with joined columns that have missing cells. Give a '
            "number of components, and compare those of several fits by BIC."
        )
    place = {int(column): number for number, column in enumerate(varying.columns)}
    for j in (j for block in found for j in block):
        if j not in place:
            raise InputError(
                f"column {all_columns.column_name(j)} is constant where it is seen, so that it "
                "has no correlations. Take it out of the block."
            )
    return tuple(tuple(place[j] for j in block) for block in found)


def check_widest(blocks: Blocks, moments: StandardMoments, n_components: int) -> None:
    """Raise where a block has more columns than rows or memory can bear."""
    widest = max(blocks.partition, key=len)
    k, n, r = len(widest), moments.n_counted, n_components
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


# -- from rows --------------------------------------------------------------------------------


def answer_from_rows(
    rows: Rows,
    sample: Sample,
    moments: StandardMoments,
    n_components: int,
    context: FitContext,
    found: Sequence[Candidate] = (),
) -> StandardFit:
    """The answer from candidates (unless `found` already); a second search where it is rejected.

    On structured data several starts may agree on a poor optimum. Few rows have more starts.
    """
    candidates = list(found) or find_candidates(sample, moments, n_components, context)
    answer = _settled(rows, sample, moments, candidates, context)
    is_rejected = answer.diagnostics.certificate.test.p_value < LEAST_P_VALUE
    can_search = n_components > 1 and context.start is None and rows.n_counted >= FEW_ROWS
    if is_rejected and can_search:
        floor = context.structure(moments, sample.blocks)
        with context.clock.stage("second search"):
            again = ranked_candidates(
                sample, None, n_components, floor, context.rng, context.n_threads, thorough=True
            )
        if again[0].objective > candidates[0].objective + CLEARLY_BETTER:
            answer = _settled(rows, sample, moments, again, context)
    return answer


def _settled(
    rows: Rows,
    sample: Sample,
    moments: StandardMoments,
    candidates: list[Candidate],
    context: FitContext,
) -> StandardFit:
    """Passes over the rows from the best candidate, standard errors and certificate."""
    clock, n_threads = context.clock, context.n_threads
    floor = context.structure(moments, sample.blocks)
    best = candidates[0]
    n_components = best.parameters.n_components
    with clock.stage("passes"):
        done = full_passes(
            rows,
            moments,
            best.parameters,
            sample,
            floor,
            context.max_passes,
            n_threads,
            scoring_first=best.origin.is_before_em,
            tol=context.tol,
        )
    p = done.parameters
    test = begin_test(moments, p, context, after_rows=True)
    with clock.stage("standard errors"):
        uncertainty = uncertainty_from_rows(rows, sample, moments, p, floor, context)
    support = None
    if n_components > 1:
        with clock.stage("support"):
            support = support_from_rows(sample, moments, p, context)
    certificate = certify(moments, p, test, uncertainty, support, context)
    if context.constraint is not None:
        found = constraint_findings(sample, moments, p, context)
        certificate = replace(certificate, findings=[*certificate.findings, *found])
    provenance = Provenance(
        moments.n_rows, moments.order, "robust", "em", best.name, 1 + done.n_passes, done.converged
    )
    notes = []
    if not done.converged:
        notes.append(f"stopped after max_passes={context.max_passes} passes, not converged")
    scores = [(c.name, c.score) for c in candidates] if n_components > 1 else []
    diagnostics = Diagnostics(
        done.log_likelihood, notes, certificate, scores, log_likelihoods=done.log_likelihoods
    )
    return StandardFit(moments, p, uncertainty, provenance, diagnostics)


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
        floor = moments.structure(context.variance_floor, layout.blocks)
        with context.clock.stage("candidates"):
            for other in start_samples(sample, layout, n_components, context):
                candidates += ranked_candidates(
                    other, None, n_components, floor, context.rng, context.n_threads,
                    thorough=context.thorough,
                )[:MOST_STARTS]  # fmt: skip
    found = fit_patterns(rows, sample, moments, layout, candidates, context)
    done = found.done
    provenance = Provenance(
        moments.n_rows, moments.order, "robust", "em", found.winner, 1 + done.n_passes,
        done.converged,
    )  # fmt: skip
    notes = ["joined columns with missing cells: EM by missing pattern"]
    if not done.converged:
        notes.append(f"stopped after max_passes={context.max_passes} passes, not converged")
    diagnostics = Diagnostics(
        done.log_likelihood, notes, found.certificate, log_likelihoods=done.log_likelihoods
    )
    return StandardFit(moments, done.parameters, found.uncertainty, provenance, diagnostics)


def uncertainty_from_rows(
    rows: Rows,
    sample: Sample,
    moments: StandardMoments,
    parameters: Parameters,
    structure: Structure,
    context: FitContext,
) -> Uncertainty:
    """Covariance of the parameters after the passes.

    Weighted rows have scores whose sum varies as the squares of the weights say, and those may
    depend on the rows: the covariance is I⁻¹ B I⁻¹, with B the mean outer product by squared
    weights.
    """
    p, n, n_threads = parameters, rows.n_counted, context.n_threads
    features, counts = information_rows(rows, moments, sample, p.flat().size, context.rng)
    weights: list[Float | None] = [counts]
    if counts is not None and not rows.is_frequency:
        weights.append(counts**2)
    prior = VariancePrior.of_rows(n, p.n_components, structure)
    matrices = []
    for of_rows in weights:
        matrix = information_matrix(features, p, n_threads, of_rows)
        settle_floored(matrix, p, prior.floors(p, n), prior.structure)
        matrices.append(matrix)
    of_scores = matrices[1] if len(matrices) > 1 else None
    free = free_parameters(p, structure)
    return uncertainty_after_em(p, matrices[0], moments.n_effective, of_scores, free)


def hear_certificate(
    rows: Rows, sample: Sample, answer: StandardFit, choice: Choice, context: FitContext
) -> tuple[StandardFit, Choice]:
    """More components while the test rejects the answer and BIC of all rows gets better.

    The number was chosen on a sample; with many rows the others may support more.
    """
    if sample.is_all:
        return answer, choice
    moments, trials = answer.moments, {trial.n_components: trial for trial in choice.tried}

    def bic_of(fit: StandardFit) -> float:
        assert fit.diagnostics.log_likelihood is not None
        return bic(fit.parameters, moments.n_counted, fit.diagnostics.log_likelihood)

    for _ in range(MOST_HEARD):
        if not answer.diagnostics.certificate.test.p_value < LEAST_P_VALUE:
            break
        r = answer.parameters.n_components + 1
        larger = answer_from_rows(rows, sample, moments, r, context)
        if bic_of(larger) >= bic_of(answer):
            break
        answer = larger
        trials[r] = Trial(
            r,
            larger.diagnostics.certificate.p_value,
            larger.diagnostics.log_likelihood or nan,
            bic_of(larger),
            True,
        )
        note = f"n_components={r}: least BIC of all rows; the test rejected {r - 1}"
        choice = Choice(r, note, chosen(trials, r), joined=choice.joined)
    return answer, choice


def find_candidates(
    sample: Sample, moments: StandardMoments, n_components: int, context: FitContext
) -> list[Candidate]:
    """Starts for the passes, best first; the moment answer competes where it can be computed.

    A start that was given is the only one.
    """
    r, d = n_components, moments.n_features
    if r == 1:
        closed_form = one_component(moments, context.variance_floor, sample.blocks)
        return [Candidate(Origin(Kind.CLOSED_FORM), closed_form, 0.0)]
    # With few rows EM from many starts finds the same, and takes less time.
    n_parameters = r * sample.blocks.n_parameters
    many_rows = moments.n_counted >= max(FEW_ROWS, ROWS_PER_PARAMETER * n_parameters)
    moment_answer, floor = None, context.structure(moments, sample.blocks)
    with context.clock.stage("candidates"):
        if context.start is not None:
            return [given_candidate(sample, context.start, floor, context.n_threads)]
        # Of wider models the moment answer takes longer than the EM starts.
        is_simple = sample.blocks.is_diagonal and context.constraint is None
        if many_rows and is_simple and r <= robust_rank(d, moments.order):
            moment_answer = begin_moment_answer(moments, r, context)
        return ranked_candidates(
            sample, moment_answer, r, floor, context.rng, context.n_threads,
            thorough=context.thorough,
        )  # fmt: skip


def begin_moment_answer(
    moments: StandardMoments, n_components: int, context: FitContext
) -> Callable[[], Parameters | None]:
    """What gives the moment answer; with several threads it shares the time of the EM starts.

    It has random numbers of its own, so that its bits do not depend on the number of threads.
    """
    rng = np.random.default_rng(context.rng.integers(2**63))

    def answer() -> Parameters | None:
        # Without a moment answer the other candidates remain.
        with suppress(DecompositionError):
            return fit_moments(moments, n_components, rng, context.variance_floor, START).parameters
        return None

    return begin(answer, context.n_threads)

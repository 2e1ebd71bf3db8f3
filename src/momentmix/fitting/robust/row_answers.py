"""Answers from rows: candidates, passes, standard errors, certificate.

The search is repeated where the test rejects the answer, and with `n_components="auto"` the number
is raised while all rows support more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import nan

import numpy as np

from momentmix._typing import Float
from momentmix.capacity import robust_rank
from momentmix.errors import DecompositionError
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.passes import Refined, full_passes
from momentmix.fitting.em.sample import Sample, information_rows
from momentmix.fitting.em.scores import information_matrix, settle_floored
from momentmix.fitting.em.search import (
    FEW_ROWS,
    Candidate,
    Kind,
    Origin,
    given_candidate,
    ranked_candidates,
)
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.inference.standard_errors import Uncertainty, uncertainty_after_em
from momentmix.fitting.inference.tested_conditions import gaps_together
from momentmix.fitting.moment.moment_fit import START, fit_moments, one_component
from momentmix.fitting.outcome import Diagnostics, Provenance, Trial
from momentmix.fitting.robust.automatic import MOST_HEARD, ROWS_PER_PARAMETER, Choice, bic, chosen
from momentmix.fitting.robust.certifying import begin_test, certify
from momentmix.fitting.robust.constrained import constraint_findings, free_parameters
from momentmix.fitting.robust.standard_fit import StandardFit
from momentmix.fitting.robust.support import support_from_rows
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.parallel import begin
from momentmix.tables.rows import Rows

CLEARLY_BETTER = 1e-3  # nats a row; candidates at one optimum differ by less


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
    scores = [(c.name, c.score) for c in candidates] if n_components > 1 else []
    return after_passes(moments, done, best.name, uncertainty, certificate, context, scores)


def after_passes(
    moments: StandardMoments,
    done: Refined,
    winner: str,
    uncertainty: Uncertainty,
    certificate: Certificate,
    context: FitContext,
    scores: Sequence[tuple[str, float]] = (),
) -> StandardFit:
    """The answer of passes that began with the candidate `winner`."""
    provenance = Provenance(
        moments.n_rows, moments.order, "robust", "em", winner, 1 + done.n_passes, done.converged
    )
    notes = []
    if not done.converged:
        notes.append(f"stopped after max_passes={context.max_passes} passes, not converged")
    diagnostics = Diagnostics(
        done.log_likelihood,
        notes,
        certificate,
        list(scores),
        log_likelihoods=done.log_likelihoods,
    )
    return StandardFit(moments, done.parameters, uncertainty, provenance, diagnostics)


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
    matrices = [information_matrix(features, p, n_threads, of_rows) for of_rows in weights]
    for k in range(len(matrices)):  # no name for a matrix: it may be large, and is given away
        settle_floored(matrices[k], p, prior.floors(p, n), prior.structure)
    of_scores = matrices[1] if len(matrices) > 1 else None
    free = free_parameters(p, structure)
    together = gaps_together(moments, p)
    return uncertainty_after_em(p, matrices.pop(0), moments.n_effective, of_scores, free, together)


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

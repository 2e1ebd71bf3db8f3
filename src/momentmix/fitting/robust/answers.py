"""Answers from rows: candidates, passes from the best, standard errors and certificate.

The search is repeated where the test rejects the answer. The M-step of `VariancePrior` obeys a
constraint, so that search and passes are those of every fit; which parameters are then free, and
whether the rows reject it, is found here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from math import log

import numpy as np

from momentmix._typing import Float
from momentmix.capacity.monomials import robust_rank
from momentmix.errors import DecompositionError
from momentmix.findings.finding import FATAL, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, information_rows, log_likelihood, run_batch
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.em.scores import information_matrix, settle_floored
from momentmix.fitting.em.search import (
    FEW_ROWS,
    Candidate,
    Kind,
    Origin,
    given_candidate,
    ranked_candidates,
)
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.inference.uncertainty import Uncertainty, uncertainty_after_em
from momentmix.fitting.inference.whitening import gaps_together
from momentmix.fitting.moment.moment_fit import START, fit_moments, one_component
from momentmix.fitting.outcome import StandardFit
from momentmix.fitting.robust.automatic import ROWS_PER_PARAMETER
from momentmix.fitting.robust.certifying import begin_test, certify, support_from_rows
from momentmix.mixture.parameters import Parameters, component_places
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.parallel import begin

_RELEASED_STEPS = 20  # of EM without a constraint: what it gains shows in the first few
CLEARLY_BETTER = 1e-3  # nats a row; candidates at one optimum differ by less


def answer_from_rows(
    sample: Sample, n_components: int, context: FitContext, found: Sequence[Candidate] = ()
) -> StandardFit:
    """The answer from candidates (unless `found` already); a second search where it is rejected.

    On structured data several starts may agree on a poor optimum. Few rows have more starts.
    """
    candidates = list(found) or find_candidates(sample, n_components, context)
    answer = _settled(sample, candidates, context)
    is_rejected = answer.certificate.test.p_value < LEAST_P_VALUE
    can_search = context.start is None and sample.rows.n_counted >= FEW_ROWS
    if is_rejected and can_search and n_components > 1:
        with context.clock.stage("second search"):
            again = ranked_candidates(sample, n_components, replace(context, thorough=True))
        if again[0].objective > candidates[0].objective + CLEARLY_BETTER:
            answer = _settled(sample, again, context)
    return answer


def _settled(sample: Sample, candidates: list[Candidate], context: FitContext) -> StandardFit:
    """Passes over the rows from the best candidate, standard errors and certificate."""
    best, moments, clock, support = candidates[0], sample.moments, context.clock, None
    with clock.stage("passes"):
        is_before_em = best.origin == Origin(Kind.MOMENTS_BEFORE_EM)
        done = full_passes(sample, best.parameters, context, is_before_em)
    p = done.parameters
    test = begin_test(moments, p, context, after_rows=True)
    with clock.stage("standard errors"):
        uncertainty = uncertainty_from_rows(sample, p, context)
    if p.n_components > 1:
        with clock.stage("support"):
            support = support_from_rows(sample, p, context)
    certificate = certify(moments, p, test, uncertainty, support, context)
    if context.constraint is not None:
        findings = [*certificate.findings, *_constraint_findings(sample, p, context)]
        certificate = replace(certificate, findings=findings)
    scores = [(c.name, c.score) for c in candidates] if p.n_components > 1 else []
    return StandardFit(
        moments, p, uncertainty, certificate, (), best.name, passes=done, candidates=scores
    )


def uncertainty_from_rows(sample: Sample, p: Parameters, context: FitContext) -> Uncertainty:
    """Covariance of the parameters after the passes.

    The scores of weighted rows vary as the squares of the weights: the covariance is I⁻¹ B I⁻¹,
    with B the mean outer product by squared weights.
    """
    moments, rows = sample.moments, sample.rows
    features, counts = information_rows(sample, p.flat().size, context.rng)
    weights: list[Float | None] = [counts]
    if counts is not None and not rows.is_frequency:
        weights.append(counts**2)
    prior = context.prior(moments, sample.blocks, rows.n_counted, p.n_components)
    matrices = [information_matrix(features, p, context.n_threads, w) for w in weights]
    for k in range(len(matrices)):  # no name for a matrix: it may be large, and is given away
        settle_floored(matrices[k], p, prior.floors(p, rows.n_counted), prior.structure)
    of_scores = matrices[1] if len(matrices) > 1 else None
    free, together = free_parameters(p, prior.structure), gaps_together(moments, p)
    return uncertainty_after_em(p, matrices.pop(0), moments.n_effective, of_scores, free, together)


def free_parameters(p: Parameters, structure: Structure) -> Float | None:
    """Which of log ω, μ and relative changes of Σ move together; (n_parameters, n_free)."""
    if structure.constraint is None:
        return None
    places = component_places(p)
    group, spread = np.arange(places.size), places[:, 1 + p.blocks.n_features :]
    group[spread] = spread[:1] if structure.constraint == "tied" else spread[:, :1]
    return np.asarray(group[:, None] == np.unique(group), dtype=np.float64)


def _constraint_findings(sample: Sample, p: Parameters, context: FitContext) -> Iterator[Finding]:
    """Whether BIC rejects the constraint: EM without it gains more than its parameters cost."""
    moments = sample.moments
    bare = moments.structure(context.variance_floor, p.blocks)
    free = VariancePrior.of_rows(sample.features.shape[1], p.n_components, bare)
    released = run_batch(sample.features, p[None], free, _RELEASED_STEPS, context.n_threads)[0][0]
    gain = log_likelihood(sample.judges, released) - log_likelihood(sample.judges, p)
    matrix = free_parameters(p, context.structure(moments, p.blocks))
    assert matrix is not None
    n, n_released = moments.n_counted, p.n_places - matrix.shape[1]
    price = 0.5 * n_released * log(n) / n
    if n_released and gain > price:
        remedy = {"covariance_type": "full" if p.blocks.joined else "diag"}
        numbers = {"constraint": context.constraint, "gain": float(gain), "price": price}
        yield found(FATAL, "constraint", remedy=remedy, **numbers)


def find_candidates(sample: Sample, n_components: int, context: FitContext) -> list[Candidate]:
    """Starts for the passes, best first; the moment answer competes where it can be computed.

    A start that was given is the only one.
    """
    r, moments, blocks = n_components, sample.moments, sample.blocks
    if r == 1:
        closed_form = one_component(moments, context.variance_floor, blocks)
        return [Candidate(Origin(Kind.CLOSED_FORM), closed_form, 0.0)]
    # With few rows EM from many starts finds the same, and takes less time.
    least = max(FEW_ROWS, ROWS_PER_PARAMETER * r * blocks.n_parameters)
    moment_answer = None
    with context.clock.stage("candidates"):
        if context.start is not None:
            return [given_candidate(sample, context.start, context)]
        # Of wider models the moment answer takes longer than the EM starts.
        is_simple = blocks.is_diagonal and context.constraint is None
        can_fit = is_simple and r <= robust_rank(moments.n_features, moments.order)
        if can_fit and moments.n_counted >= least:
            moment_answer = _begin_moment_answer(moments, r, context)
        return ranked_candidates(sample, r, context, moment_answer)


def _begin_moment_answer(
    moments: StandardMoments, n_components: int, context: FitContext
) -> Callable[[], Parameters | None]:
    """What gives the moment answer; with several threads it shares the time of the EM starts.

    It has random numbers of its own, so that its bits do not depend on the number of threads.
    """
    rng = np.random.default_rng(context.rng.integers(2**63))
    own = replace(context, rng=rng, n_threads=1)

    def answer() -> Parameters | None:
        # Without a moment answer the other candidates remain.
        with suppress(DecompositionError):
            return fit_moments(moments, n_components, own, START).parameters
        return None

    return begin(answer, context.n_threads)

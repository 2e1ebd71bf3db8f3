"""Answers from rows, by candidates and passes, and from moments alone.

The search is repeated where the test rejects the answer, and with `n_components="auto"` the number
is raised while all rows support more. The M-step of `VariancePrior` obeys a constraint, so that
search and passes are those of every fit; which parameters are then free, and whether the rows speak
against it, is found here.

From moments alone the order is raised, columns are joined and the number is chosen again while the
certificate asks for it; `momentmix.fitting.moment` makes each answer.
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
from momentmix.findings.messages import Message, options
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
from momentmix.fitting.inference.certificate import Support
from momentmix.fitting.inference.correlations import Correlation
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.inference.uncertainty import Uncertainty, uncertainty_after_em
from momentmix.fitting.inference.whitening import gaps_together
from momentmix.fitting.moment.candidates import least_components
from momentmix.fitting.moment.moment_fit import ANSWER, SMALLER, START, fit_moments, one_component
from momentmix.fitting.outcome import StandardFit, Trial
from momentmix.fitting.robust.automatic import (
    MOST_HEARD,
    ROWS_PER_PARAMETER,
    Choice,
    bic,
    choose_by_moments,
    chosen,
)
from momentmix.fitting.robust.certifying import (
    begin_test,
    certify,
    support_from_moments,
    support_from_rows,
)
from momentmix.fitting.robust.joining import blocks_of_correlations, joined_by_correlations
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters, component_places
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.parallel import begin
from momentmix.tables.rows import Rows

_RELEASED_STEPS = 20  # of EM without a constraint: what it gains shows in the first few
CLEARLY_BETTER = 1e-3  # nats a row; candidates at one optimum differ by less
MOST_JOININGS = 8  # rounds of joining columns from moments alone: each costs a fit
LEAST_FALL = 0.9  # of the effect size that joining columns has to bring from moments alone


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
    is_rejected = answer.certificate.test.p_value < LEAST_P_VALUE
    can_search = n_components > 1 and context.start is None and rows.n_counted >= FEW_ROWS
    if is_rejected and can_search:
        with context.clock.stage("second search"):
            thorough = replace(context, thorough=True)
            again = ranked_candidates(sample, moments, n_components, thorough)
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
    best, clock, support = candidates[0], context.clock, None
    is_before_em = best.origin.is_before_em
    with clock.stage("passes"):
        done = full_passes(rows, sample, moments, best.parameters, context, is_before_em)
    p = done.parameters
    test = begin_test(moments, p, context, after_rows=True)
    with clock.stage("standard errors"):
        uncertainty = uncertainty_from_rows(rows, sample, moments, p, context)
    if p.n_components > 1:
        with clock.stage("support"):
            support = support_from_rows(sample, moments, p, context)
    certificate = certify(moments, p, test, uncertainty, support, context)
    if context.constraint is not None:
        found = constraint_findings(sample, moments, p, context)
        certificate = replace(certificate, findings=[*certificate.findings, *found])
    scores = [(c.name, c.score) for c in candidates] if p.n_components > 1 else []
    return StandardFit(
        moments, p, uncertainty, certificate, (), best.name, passes=done, candidates=scores
    )


def uncertainty_from_rows(
    rows: Rows,
    sample: Sample,
    moments: StandardMoments,
    parameters: Parameters,
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
    structure = context.structure(moments, sample.blocks)
    prior = VariancePrior.of_rows(n, p.n_components, structure)
    matrices = [information_matrix(features, p, n_threads, of_rows) for of_rows in weights]
    for k in range(len(matrices)):  # no name for a matrix: it may be large, and is given away
        settle_floored(matrices[k], p, prior.floors(p, n), prior.structure)
    of_scores = matrices[1] if len(matrices) > 1 else None
    free = free_parameters(p, structure)
    together = gaps_together(moments, p)
    return uncertainty_after_em(p, matrices.pop(0), moments.n_effective, of_scores, free, together)


def free_parameters(p: Parameters, structure: Structure) -> Float | None:
    """Which of log ω, μ and relative changes of Σ move together; (n_parameters, n_free).

    Covariances that are equal change alike, whatever their units.
    """
    if structure.constraint is None:
        return None
    d = p.blocks.n_features
    places = component_places(p)
    group = np.arange(places.size)
    spread = places[:, 1 + d :]
    group[spread] = spread[:1] if structure.constraint == "tied" else spread[:, :1]
    return np.asarray(group[:, None] == np.unique(group), dtype=np.float64)


def constraint_findings(
    sample: Sample, moments: StandardMoments, p: Parameters, context: FitContext
) -> Iterator[Finding]:
    """Whether BIC rejects the constraint: EM without it gains more than its parameters cost."""
    structure = context.structure(moments, p.blocks)
    bare = moments.structure(context.variance_floor, p.blocks)
    free = VariancePrior.of_rows(sample.features.shape[1], p.n_components, bare)
    released = run_batch(sample.features, p[None], free, _RELEASED_STEPS, context.n_threads)[0][0]
    gain = log_likelihood(sample.judges, released) - log_likelihood(sample.judges, p)
    matrix = free_parameters(p, structure)
    assert matrix is not None
    n, n_released = moments.n_counted, p.n_places - matrix.shape[1]
    price = 0.5 * n_released * log(n) / n
    if n_released and gain > price:
        yield found(
            FATAL,
            "constraint",
            remedy={"covariance_type": "full" if p.blocks.joined else "diag"},
            constraint=structure.constraint,
            gain=float(gain),
            price=price,
        )


def hear_certificate(
    rows: Rows, sample: Sample, answer: StandardFit, choice: Choice, context: FitContext
) -> tuple[StandardFit, Choice]:
    """More components while the test rejects the answer and BIC of all rows gets better.

    The number was chosen on a sample; with many rows the others may support more.
    """
    if sample.is_all:
        return answer, choice
    moments, trials = answer.moments, {trial.n_components: trial for trial in choice.tried}

    def trial_of(fit: StandardFit) -> Trial:
        assert fit.passes is not None
        p, score = fit.parameters, fit.passes.log_likelihood
        value = bic(p, moments.n_counted, score)
        return Trial(p.n_components, fit.certificate.p_value, score, value, True)

    for _ in range(MOST_HEARD):
        if not answer.certificate.test.p_value < LEAST_P_VALUE:
            break
        r = answer.parameters.n_components + 1
        larger = answer_from_rows(rows, sample, moments, r, context)
        trial = trial_of(larger)
        if trial.bic >= trial_of(answer).bic:
            break
        answer, trials[r] = larger, trial
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
    moment_answer = None
    with context.clock.stage("candidates"):
        if context.start is not None:
            return [given_candidate(sample, moments, context.start, context)]
        # Of wider models the moment answer takes longer than the EM starts.
        is_simple = sample.blocks.is_diagonal and context.constraint is None
        if many_rows and is_simple and r <= robust_rank(d, moments.order):
            moment_answer = begin_moment_answer(moments, r, context)
        return ranked_candidates(sample, moments, r, context, moment_answer)


def begin_moment_answer(
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


# -- from moments alone ----------------------------------------------------------------------------


def answer_from_moments(
    moments: StandardMoments, order: int, n_components: int, context: FitContext, blocks: Blocks
) -> StandardFit:
    """The pure moment answer; the order is raised while the certificate does not pass."""
    answer = _answer_at_order(moments.truncated(order), n_components, [], context, blocks)
    notes = list[str]()
    while not answer.certificate.passed and order < moments.order:
        order += 1
        notes = [*notes, f"order raised to {order}: the certificate did not pass"]
        candidate = _answer_at_order(moments.truncated(order), n_components, notes, context, blocks)
        old, new = answer.certificate, candidate.certificate
        # An answer that cannot be tested does not stand against one that is tested and rejected.
        tested_now = new.test.testable and not old.test.testable
        if new.passed or tested_now or new.p_value > old.p_value:
            answer = candidate
    return answer


def join_by_moments(
    moments: StandardMoments, context: FitContext, answer: StandardFit
) -> StandardFit:
    """Join columns that the test finds correlated within components, while the misfit falls."""
    order, found = answer.moments.order, list[Correlation]()
    n_components = answer.parameters.n_components
    for _ in range(MOST_JOININGS):
        test = answer.certificate.test
        blocks, named = blocks_of_correlations(answer.parameters.blocks, moments, test)
        if blocks is None or robust_rank(moments.n_features, order, blocks) < n_components:
            break
        candidate = answer_from_moments(moments, order, n_components, context, blocks)
        # NaN, where nothing is left to test, is no improvement.
        if not candidate.certificate.test.effect_size < LEAST_FALL * test.effect_size:
            break
        answer, found = candidate, found + named
    joined = joined_by_correlations(answer.parameters.blocks, moments, found)
    note = "no columns joined: the test names none whose joining lowers the misfit"
    if joined:
        groups = [moments.columns_of(block) for block in answer.parameters.blocks.joined]
        note = Message(options(blocks=groups), ": found by the test of the moments")
    return replace(answer, notes=[note, *answer.notes], joined=joined)


def renumber(
    moments: StandardMoments, context: FitContext, answer: StandardFit, choice: Choice
) -> tuple[StandardFit, Choice]:
    """The number of components once more, with the blocks that were found, and these with it.

    Before columns are joined, components stand for their correlations: the number is too large.
    """
    for _ in range(MOST_HEARD):
        blocks, order = answer.parameters.blocks, answer.moments.order
        again = choose_by_moments(moments.truncated(order), context, blocks)
        if again.n_components == answer.parameters.n_components or blocks.is_diagonal:
            break
        other = answer_from_moments(moments, order, again.n_components, context, blocks)
        old, new = answer.certificate, other.certificate
        if not (new.test.effect_size < old.test.effect_size or new.passed):
            break
        notes = [*answer.notes[:1], *other.notes]
        answer, choice = replace(other, notes=notes, joined=answer.joined), again
    return answer, choice


def _answer_at_order(
    moments: StandardMoments,
    n_components: int,
    notes: list[str],
    context: FitContext,
    blocks: Blocks,
) -> StandardFit:
    r, smaller, parent = n_components, None, None
    with context.clock.stage("moment fit"):
        is_needed = r > 1 and least_components(moments, context.rng, blocks) >= r
        if r > 1 and not is_needed:
            smaller = fit_moments(moments, r - 1, context, SMALLER, blocks)
            parent = smaller.raw
        fit = fit_moments(moments, r, context, ANSWER, blocks, parent, is_needed)
    support = Support(r, True, "the rank of the moments shows it") if is_needed else None
    if smaller is not None:
        with context.clock.stage("support"):
            support = support_from_moments(moments, fit, smaller, context.rng)
    uncertainty = fit.uncertainty
    assert uncertainty is not None
    test = begin_test(moments, fit.parameters, replace(context, n_threads=1))
    certificate = certify(moments, fit.parameters, test, uncertainty, support, context, fit.usable)
    return StandardFit(moments, fit.parameters, uncertainty, certificate, notes)

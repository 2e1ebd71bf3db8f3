"""Answers from moments alone: order, columns that are joined, number of components.

The order is raised, columns are joined and the number is chosen again while the certificate asks
for it; `momentmix.fitting.moment` makes each answer.
"""

from __future__ import annotations

from dataclasses import replace

from momentmix.capacity import FEWEST_BLOCKS, robust_rank, usable_orders
from momentmix.errors import CapacityError
from momentmix.findings.messages import NEED_ROWS, Message, options
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.inference.correlations import Correlation
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.inference.support import Support
from momentmix.fitting.moment.candidates import least_components
from momentmix.fitting.moment.moment_fit import ANSWER, SMALLER, fit_moments
from momentmix.fitting.outcome import Diagnostics, Provenance
from momentmix.fitting.robust.automatic import MOST_HEARD, Choice, choose_by_moments
from momentmix.fitting.robust.certifying import begin_test, certify
from momentmix.fitting.robust.joining import blocks_of_correlations, joined_by_correlations
from momentmix.fitting.robust.standard_fit import StandardFit
from momentmix.fitting.robust.support import support_from_moments
from momentmix.mixture.blocks import Blocks
from momentmix.wording import plural

MOST_JOININGS = 8  # rounds of joining columns from moments alone: each costs a fit
LEAST_FALL = 0.9  # of the effect size that joining columns has to bring from moments alone


def check_capacity(
    moments: StandardMoments, n_components: int, n_columns: int, blocks: Blocks
) -> None:
    """Raise where moments of this order cannot tell the components apart."""
    d, order = moments.n_features, moments.order
    n_blocks = len(blocks.partition)
    if n_blocks < FEWEST_BLOCKS and n_components > 1 and not blocks.is_diagonal:
        text = (
            f"moments alone need at least three blocks to tell components apart; these are "
            f"{n_blocks} block{plural(n_blocks)} of {d} columns. Use smaller blocks, or "
        )
        raise CapacityError(Message(text, NEED_ROWS, "."))
    most = robust_rank(d, order, blocks)
    if n_components <= most:
        return
    ranks = ((m, robust_rank(d, m, blocks)) for m in usable_orders(d, d))
    sufficient = next(((m, rank) for m, rank in ranks if rank >= n_components), None)
    cure = "At"
    if sufficient is not None:
        cure = f"Use order={sufficient[0]} (up to {sufficient[1]}), or at"
    kind = "features" if d == n_columns else "features that vary"
    if not blocks.is_diagonal:
        kind += f" in {n_blocks} blocks"
    text = (
        f"order={order} with {d} {kind} identifies at most {most} component"
        f"{'s' if most > 1 else ''} from moments alone; n_components={n_components} was asked. "
        f"{cure} most {most}, or for any number "
    )
    raise CapacityError(Message(text, NEED_ROWS, "."))


def answer_from_moments(
    moments: StandardMoments, order: int, n_components: int, context: FitContext, blocks: Blocks
) -> StandardFit:
    """The pure moment answer; the order is raised while the certificate does not pass."""
    notes: list[str] = []
    answer = _answer_at_order(moments.truncated(order), n_components, notes, context, blocks)
    while not answer.diagnostics.certificate.passed and order < moments.order:
        order += 1
        notes = [*notes, f"order raised to {order}: the certificate did not pass"]
        candidate = _answer_at_order(moments.truncated(order), n_components, notes, context, blocks)
        old, new = answer.diagnostics.certificate, candidate.diagnostics.certificate
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
        blocks, named = blocks_of_correlations(answer.parameters.blocks, moments, _test_of(answer))
        if blocks is None or robust_rank(moments.n_features, order, blocks) < n_components:
            break
        candidate = answer_from_moments(moments, order, n_components, context, blocks)
        old, new = _test_of(answer), _test_of(candidate)
        # NaN, where nothing is left to test, is no improvement.
        if not new.effect_size < LEAST_FALL * old.effect_size:
            break
        answer, found = candidate, found + named
    joined = joined_by_correlations(answer.parameters.blocks, moments, found)
    notes = ["no columns joined: the test names none whose joining lowers the misfit"]
    if joined:
        groups = [moments.columns_of(block) for block in answer.parameters.blocks.joined]
        notes = [Message(options(blocks=groups), ": found by the test of the moments")]
    diagnostics = replace(
        answer.diagnostics, notes=[*notes, *answer.diagnostics.notes], joined=joined
    )
    return replace(answer, diagnostics=diagnostics)


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
        is_better = _test_of(other).effect_size < _test_of(answer).effect_size
        if not (is_better or other.diagnostics.certificate.passed):
            break
        notes = [*answer.diagnostics.notes[:1], *other.diagnostics.notes]
        joined = answer.diagnostics.joined
        diagnostics = replace(other.diagnostics, notes=notes, joined=joined)
        answer = replace(other, diagnostics=diagnostics)
        choice = again
    return answer, choice


def _test_of(answer: StandardFit) -> OverIdentification:
    return answer.diagnostics.certificate.test


def _answer_at_order(
    moments: StandardMoments,
    n_components: int,
    notes: list[str],
    context: FitContext,
    blocks: Blocks,
) -> StandardFit:
    floor, rng, r = context.variance_floor, context.rng, n_components
    n_threads = context.n_threads
    with context.clock.stage("moment fit"):
        is_needed = r > 1 and least_components(moments, rng, blocks) >= r
        smaller = parent = None
        if r > 1 and not is_needed:
            smaller = fit_moments(
                moments, r - 1, rng, floor, SMALLER, n_threads=n_threads, blocks=blocks
            )
            parent = smaller.raw
        fit = fit_moments(
            moments, r, rng, floor, ANSWER, parent, is_needed, n_threads, blocks=blocks
        )
    support = Support(r, True, "the rank of the moments shows it") if is_needed else None
    if smaller is not None:
        with context.clock.stage("support"):
            support = support_from_moments(moments, fit, smaller, rng)
    uncertainty = fit.uncertainty
    assert uncertainty is not None
    test = begin_test(moments, fit.parameters, replace(context, n_threads=1))
    certificate = certify(moments, fit.parameters, test, uncertainty, support, context, fit.usable)
    provenance = Provenance(moments.n_rows, moments.order, "robust", "none", "moments", 1, True)
    diagnostics = Diagnostics(None, notes, certificate)
    return StandardFit(moments, fit.parameters, uncertainty, provenance, diagnostics)

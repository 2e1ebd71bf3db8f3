"""Answers from moments alone; `momentmix.fitting.moment` makes each of them.

The order is raised, columns are joined and the number is chosen again while the certificate asks
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan

import numpy as np

from momentmix.capacity.monomials import robust_rank
from momentmix.findings.messages import Message, options
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.inference.certificate import Support
from momentmix.fitting.inference.correlations import (
    CORRELATION_THAT_MATTERS,
    SIGNIFICANT_DEVIATES,
    Correlation,
)
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.moment.candidates import least_components
from momentmix.fitting.moment.moment_fit import ANSWER, SMALLER, fit_moments
from momentmix.fitting.outcome import JoinedColumns, JoinReason, StandardFit
from momentmix.fitting.robust.answers import begin_test, certify, support_from_moments
from momentmix.fitting.robust.automatic import Choice, choose_by_moments
from momentmix.mixture.blocks import Blocks

MOST_RENUMBERINGS = 3  # choices of number and blocks in turn: the second mostly agrees
MOST_JOININGS = 8  # rounds of joining columns: each costs a fit
LEAST_FALL = 0.9  # of the effect size that joining columns has to bring
_SHARE_OF_STRONGEST = 0.5  # deviates of correlations that are joined at once


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


def blocks_of_correlations(
    blocks: Blocks, moments: StandardMoments, test: OverIdentification
) -> tuple[Blocks | None, list[Correlation]]:
    """Blocks joined by the strongest correlations that a test names, and these; or None."""
    places = {column: j for j, column in enumerate(moments.columns.tolist())}
    others = set(blocks.with_law.tolist())
    strong = [
        c for c in test.correlations
        if abs(c.value) > CORRELATION_THAT_MATTERS and abs(c.deviates) > SIGNIFICANT_DEVIATES
        and not {places[c.first], places[c.second]} & others
    ]  # fmt: skip
    if not strong:
        return None, []
    least = _SHARE_OF_STRONGEST * max(abs(c.deviates) for c in strong)
    strong = [c for c in strong if abs(c.deviates) >= least]
    pairs = [(places[c.first], places[c.second]) for c in strong]
    return blocks.joined_by(pairs), strong


def joined_by_correlations(
    blocks: Blocks, moments: StandardMoments, correlations: Sequence[Correlation]
) -> tuple[JoinedColumns, ...]:
    """The blocks, each with the largest of the correlations that joined it."""
    found = []
    for group in blocks.joined:
        columns = tuple(moments.columns[list(group)].tolist())
        values = [c.value for c in correlations if {c.first, c.second} <= set(columns)]
        largest = float(np.clip(max(values, key=abs, default=nan), -1.0, 1.0))
        found.append(JoinedColumns(columns, JoinReason.CORRELATION, correlation=largest))
    return tuple(found)


def renumber(
    moments: StandardMoments, context: FitContext, answer: StandardFit, choice: Choice
) -> tuple[StandardFit, Choice]:
    """The number of components once more, with the blocks that were found, and these with it."""
    for _ in range(MOST_RENUMBERINGS):
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

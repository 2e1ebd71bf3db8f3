"""Automatic number of components and answers from moments alone.

`groups` has the rules where there are rows. Without rows, the smallest number that the test
accepts; where it accepts none, the elbow of the effect size, and the certificate does not pass.
From moments alone the order is raised, columns are joined and the number is chosen again while the
certificate asks for it; `momentmix.fitting.moment` makes each answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, nan
from typing import NamedTuple

import numpy as np

from momentmix.capacity.monomials import robust_rank
from momentmix.findings.messages import Message, options
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.search import Candidate
from momentmix.fitting.inference.certificate import Support
from momentmix.fitting.inference.over_identification import (
    CLEAR_P_VALUE,
    OverIdentification,
    check_conditions,
)
from momentmix.fitting.inference.whitening import (
    CORRELATION_THAT_MATTERS,
    SIGNIFICANT_DEVIATES,
    Correlation,
)
from momentmix.fitting.moment.candidates import least_components
from momentmix.fitting.moment.moment_fit import ANSWER, SMALLER, fit_moments
from momentmix.fitting.outcome import JoinedColumns, JoinReason, Rest, StandardFit, Trial
from momentmix.fitting.robust.answers import (
    ROWS_PER_PARAMETER,
    begin_test,
    certify,
    support_from_moments,
)
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.progress import detail

MOST_RENUMBERINGS = 3  # choices of number and blocks in turn: the second mostly agrees
MOST_JOININGS = 8  # rounds of joining columns: each costs a fit
LEAST_FALL = 0.9  # of the effect size that joining columns has to bring
_SHARE_OF_STRONGEST = 0.5  # deviates of correlations that are joined at once
PATIENCE = 3  # numbers in a row that bring the moments no closer end the search without rows
LEAST_PROGRESS = 0.98  # of the effect size


class Choice(NamedTuple):
    """A number of components, a sentence that says why, what was tried, and what a search found."""

    n_components: int
    note: str
    tried: tuple[Trial, ...]
    candidates: Sequence[Candidate] = ()
    blocks: Blocks | None = None
    joined: tuple[JoinedColumns, ...] = ()


def bic(parameters: Parameters, n_rows: int, log_likelihood: float) -> float:
    """Bayesian information criterion of rows with this log-likelihood each, on average."""
    return parameters.n_free * log(n_rows) - 2.0 * n_rows * log_likelihood


def limit_note(number: int, context: FitContext) -> str:
    """The end of a note where `max_components` allows no larger number."""
    if number < context.max_components or number == 1:
        return ""
    return f"; max_components={number} allows no more"


def chosen(trials: dict[int, Trial], number: int) -> tuple[Trial, ...]:
    """All trials by number, one of them marked."""
    return tuple(replace(trials[r], chosen=r == number) for r in sorted(trials))


# -- from moments alone -------------------------------------------------------------------------


def choose_by_moments(
    moments: StandardMoments, context: FitContext, blocks: Blocks | None = None
) -> Choice:
    """The smallest number of components that the test accepts."""
    d = moments.n_features
    blocks = blocks or moments.alone
    affordable = moments.n_rows // (ROWS_PER_PARAMETER * blocks.n_parameters)
    most = max(1, min(robust_rank(d, moments.order, blocks), affordable))
    most = min(most, context.max_components)
    with context.clock.stage("number of components"):
        least = min(most, least_components(moments, context.rng, blocks))
        tested = _tested_numbers(moments, least, most, context, blocks)
    trials = {r: Trial(r, p_value, nan, nan, False) for r, (p_value, _) in tested.items()}
    accepted = [r for r, (p_value, _) in tested.items() if p_value >= CLEAR_P_VALUE]
    if accepted:
        r, note = accepted[0], "the smallest that the moments accept"
    elif all(np.isnan(p_value) for p_value, _ in tested.values()):
        r, note = least, "the least that the moments need; they cannot test it"
    else:
        effects = {r: effect for r, (_, effect) in tested.items() if not np.isnan(effect)}
        r = elbow(effects)
        note = (
            f"no number of components from {least} to {max(effects)} fits the moments; this is the "
            "elbow of the effect size"
        )
        if max(effects) == context.max_components:
            note += limit_note(max(effects), context)
        elif max(effects) == most:
            note += f", and order {moments.order} with these rows can tell no more apart"
    return Choice(r, f"n_components={r}: {note}", chosen(trials, r))


def _tested_numbers(
    moments: StandardMoments, least: int, most: int, context: FitContext, blocks: Blocks
) -> dict[int, tuple[float, float]]:
    """p-value and effect size from `least` on, up to the first number that is accepted."""
    tested: dict[int, tuple[float, float]] = {}
    best, n_idle, parent = np.inf, 0, None
    for r in range(least, most + 1):
        detail(f"{r} of at most {most}", 1.0 - 0.7 ** (r - least))
        is_needed = r == least  # the rank of the moments says so
        fit = fit_moments(moments, r, context, SMALLER, blocks, parent, is_needed)
        parent = fit.raw
        test = check_conditions(moments, parent, context.rng, correlations=False)
        tested[r] = (test.p_value, test.effect_size)
        if not test.testable or test.p_value >= CLEAR_P_VALUE:
            break
        n_idle = 0 if test.effect_size < LEAST_PROGRESS * best else n_idle + 1
        best = min(best, test.effect_size)
        if n_idle == PATIENCE:
            break
    return tested


def elbow(effects: dict[int, float]) -> int:
    """The number of components after which the effect size stops falling."""
    ranks = sorted(effects)
    if len(ranks) < 3:
        return ranks[int(np.argmin([effects[r] for r in ranks]))]
    x = np.array(ranks, dtype=float)
    y = np.log(np.maximum([effects[r] for r in ranks], 1e-6))  # an effect of 0 has no logarithm
    chord = y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0])
    return ranks[int(np.argmax(chord - y))]


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
    r = n_components
    with context.clock.stage("moment fit"):
        is_needed = r > 1 and least_components(moments, context.rng, blocks) >= r
        fit = fit_moments(moments, r, context, ANSWER, blocks, None, is_needed)
    support = Support(r, True, "the rank of the moments shows it") if fit.is_needed else None
    if fit.fewer is not None:
        with context.clock.stage("support"):
            support = support_from_moments(moments, fit, fit.fewer, context.rng)
    uncertainty = fit.uncertainty
    assert uncertainty is not None
    test = begin_test(moments, fit.parameters, replace(context, n_threads=1))
    certificate = certify(moments, fit.parameters, test, uncertainty, support, context, fit.usable)
    rest = Rest(uncertainty, certificate)
    return StandardFit(moments, fit.parameters, lambda: rest, notes)


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

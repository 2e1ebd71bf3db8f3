"""Automatic number of components and answers from moments alone.

`groups` has the rules where there are rows. Without rows, the smallest number that the test
accepts; where it accepts none, the elbow of the effect size, and the certificate does not pass.
From moments alone the order is raised, columns are joined and the number is chosen again while the
certificate asks for it; `momentmix.fitting.moment` makes each answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import NamedTuple

import numpy as np

from momentmix.capacity import robust_rank
from momentmix.findings.finding import FATAL, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.search import Candidate
from momentmix.fitting.inference.certificate import Support
from momentmix.fitting.inference.over_identification import (
    CLEAR_P_VALUE,
    OverIdentification,
)
from momentmix.fitting.inference.whitening import (
    CORRELATION_THAT_MATTERS,
    SIGNIFICANT_DEVIATES,
    Correlation,
)
from momentmix.fitting.moment.candidates import least_components
from momentmix.fitting.moment.moment_fit import ANSWER, FIRST_LOOK, SMALLER, MomentFit, fit_moments
from momentmix.fitting.outcome import JoinedColumns, JoinReason, Rest, StandardFit, Trial
from momentmix.fitting.robust.answers import (
    CERTIFICATE_SEED,
    CLEAR_LOSS,
    ROWS_PER_PARAMETER,
    begin_test,
    certify,
    support_from_moments,
)
from momentmix.mixture.blocks import Blocks
from momentmix.progress import detail
from momentmix.wording import option

MOST_JOININGS = 8  # rounds of joining columns: each costs a fit
LEAST_FALL = 0.9  # of the effect size that joining columns has to bring
_SHARE_OF_STRONGEST = 0.5  # deviates of correlations that are joined at once
PATIENCE = 3  # numbers in a row that bring the moments no closer end the search without rows
LEAST_PROGRESS = 0.98  # of the effect size
_SEED = 35
# Of BIC, very strong evidence (Kass and Raftery, 1995); and CLEAR_LOSS nats a row, by which quick
# searches of the same rows hardly differ.
_FAR = 10.0


class Choice(NamedTuple):
    """A number of components, a sentence that says why, what was tried, and what a search found."""

    n_components: int
    note: str
    tried: tuple[Trial, ...]
    candidates: Sequence[Candidate] = ()
    blocks: Blocks | None = None
    joined: tuple[JoinedColumns, ...] = ()


def with_final(tried: tuple[Trial, ...], option: tuple[float, float]) -> tuple[Trial, ...]:
    """The trials, where the chosen one has the log-likelihood and the BIC of the final fit."""
    score, value = option
    return tuple(replace(t, log_likelihood=score, bic=value) if t.chosen else t for t in tried)


def better_number(tried: tuple[Trial, ...], n_rows: float) -> list[Finding]:
    """A finding where one component more or less than chosen has a far lower BIC."""
    chosen = next((t for t in tried if t.chosen), None)
    if chosen is None:
        return []
    far = max(_FAR, 2.0 * CLEAR_LOSS * n_rows)
    beside = [t for t in tried if abs(t.n_components - chosen.n_components) == 1]
    gain, better = max(((chosen.bic - t.bic, t.n_components) for t in beside), default=(nan, 0))
    if not gain > far:
        return []
    return [found(FATAL, "better-number", better=better, gain=gain, nats=gain / (2.0 * n_rows))]


def limit_note(number: int, context: FitContext) -> str:
    """The end of a note where `max_components` allows no larger number."""
    if number < context.max_components or number == 1:
        return ""
    return f"; max_components={number} allows no more"


def chosen(trials: dict[int, Trial], number: int) -> tuple[Trial, ...]:
    """All trials by number, one of them marked."""
    return tuple(replace(trials[r], chosen=r == number) for r in sorted(trials))


# -- from moments alone -------------------------------------------------------------------------


class _Tested(NamedTuple):
    """A mixture, its test, and the correlations that joined its columns."""

    fit: MomentFit
    test: OverIdentification
    named: tuple[Correlation, ...]

    @property
    def is_accepted(self) -> bool:
        """Whether the moments do not clearly reject it, or cannot test it."""
        return not self.test.testable or self.test.p_value >= CLEAR_P_VALUE


class _NumberSearch:
    """Mixtures by number of components and by blocks, joined where those are None."""

    def __init__(
        self, moments: StandardMoments, context: FitContext, blocks: Blocks | None
    ) -> None:
        self.moments, self.context, self.joins = moments, context, blocks is None
        self.blocks = blocks or moments.alone
        self.tested: dict[tuple[int, Blocks], _Tested] = {}
        self._last: MomentFit | None = None  # with its search, which takes much memory
        self._least: dict[Blocks, int] = {}

    def least(self, blocks: Blocks) -> int:
        """The number of components that the rank of the moments shows at least."""
        if blocks not in self._least:
            self._least[blocks] = least_components(self.moments, self.context.rng, blocks)
        return self._least[blocks]

    def most(self, blocks: Blocks) -> int:
        """The most components that the moments and the rows can tell apart."""
        affordable = self.moments.n_rows // (ROWS_PER_PARAMETER * blocks.n_parameters)
        most = min(robust_rank(self.moments.n_features, self.moments.order, blocks), affordable)
        return max(1, min(most, self.context.max_components))

    def test(self, r: int, blocks: Blocks, named: tuple[Correlation, ...] = ()) -> _Tested:
        """Fit and test a number of components and blocks, once."""
        if (r, blocks) not in self.tested:
            detail(f"{r} components")
            moments, context, smaller = self.moments, self.context, self.tested.get((r - 1, blocks))
            least, parent = self.least(blocks), None if smaller is None else smaller.fit.raw
            # Columns that are not joined yet matter more than further rounds.
            effort = FIRST_LOOK if r < least or named else SMALLER
            fit = fit_moments(moments, r, context, effort, blocks, parent, r <= least)
            detail(f"{r} components, test")
            tested = _Tested(fit, fit.check(moments, context.rng, self.joins), named)
            if named and r >= least and not (tested.is_accepted or self.more_blocks(tested)[0]):
                fit = fit.more(SMALLER) if fit.more is not None else fit
                tested = _Tested(fit, fit.check(moments, context.rng, self.joins), named)
            if tested.is_accepted:
                self._last = fit
            bare = replace(fit, more=None, checked=None)
            self.tested[r, blocks] = tested._replace(fit=bare)
        return self.tested[r, blocks]

    def more_blocks(self, tested: _Tested) -> tuple[Blocks | None, list[Correlation]]:
        """Blocks that the test asks for, None if none, and the correlations that it names."""
        return blocks_of_correlations(tested.fit.raw.blocks, self.moments, tested.test)

    def join(self, r: int, most_parameters: float = inf) -> _Tested:
        """Join columns while the test of so many components names some and the misfit falls."""
        best = self.test(r, self.blocks)
        for _ in range(MOST_JOININGS if self.joins else 0):
            blocks, named = self.more_blocks(best)
            if blocks is None or r > self.most(blocks):
                break
            if most_parameters < inf and (
                r * blocks.n_parameters - 1 >= most_parameters or r < self.least(blocks)
            ):
                break
            joined = self.test(r, blocks, (*best.named, *named))
            falls = joined.test.effect_size < LEAST_FALL * best.test.effect_size
            # Where nothing is left to test, the p-value is NaN, which is no improvement.
            if not (falls or joined.test.p_value >= CLEAR_P_VALUE):
                break
            best = joined
        return best

    def choose(self) -> tuple[_Tested, str, tuple[Trial, ...]]:
        """The smallest number that the test accepts, why, and what was tried.

        Columns are joined at each number, from 1 on: further components would explain what is due
        to correlations. A number takes the place of another with fewer parameters alone, so that
        where columns apart are accepted, joined ones of fewer components have to be as few.
        """
        most = self.most(self.blocks)
        least = min(most, self.least(self.blocks))
        found: dict[int, _Tested] = {}
        lowest, n_idle, price, r = inf, 0, inf, 0
        numbers = range(1 if self.joins else least, most + 1)
        if self.joins and self.test(least, self.blocks).is_accepted:
            found[least] = first = self.join(least)
            r, price, numbers = least, first.fit.raw.n_free, range(1, least)
        for number in numbers:
            if number * self.blocks.n_parameters - 1 >= price:
                break
            if 0 < r < number < least:
                continue  # rejected by the rank of the moments
            found[number] = tested = self.join(number, price)
            if tested.is_accepted:
                r, price = number, tested.fit.raw.n_free
            if number < least:
                continue
            effect = tested.test.effect_size
            n_idle = 0 if effect < LEAST_PROGRESS * lowest else n_idle + 1
            lowest = min(lowest, effect)
            if n_idle == PATIENCE:
                break
        tests = {number: tested.test for number, tested in found.items()}
        apart = {k: self.tested[k, self.blocks].test.effect_size for k in tests if k >= least}
        effects = {k: effect for k, effect in apart.items() if not np.isnan(effect)}
        if r and tests[r].testable:
            note = "the smallest that the moments accept"
        elif not effects:
            r, note = least, "the least that the moments need; they cannot test it"
        else:
            r, last = elbow(effects), max(effects)
            # With joined columns fewer components may fit closer.
            fewer = [k for k in tests if 1 < k < r and tests[k].effect_size < tests[r].effect_size]
            r = min([r, *fewer], key=lambda k: tests[k].effect_size)
            note = (
                f"no number of components from {min(tests)} to {last} fits the moments; this is "
                f"the {'least' if fewer else 'elbow of the'} effect size"
            )
            if last == self.context.max_components:
                note += limit_note(last, self.context)
            elif last == most:
                note += f", and order {self.moments.order} with these rows can tell no more apart"
        trials = {number: Trial(number, t.p_value, nan, nan, False) for number, t in tests.items()}
        return found[r], f"n_components={r}: {note}", chosen(trials, r)

    def answer(self, tested: _Tested) -> StandardFit:
        """The answer that goes on from a mixture, with standard errors and certificate."""
        p = tested.fit.raw
        last = self._last if self._last is not None and self._last.raw is p else None
        r, smaller = p.n_components, self.tested.get((p.n_components - 1, p.blocks))
        known = None if smaller is None else (smaller.fit, smaller.test)
        return _answer_at_order(self.moments, r, [], self.context, p.blocks, last, known)


def answer_without_rows(
    moments: StandardMoments,
    n_components: int | str,
    order: int,
    context: FitContext,
    blocks: Blocks | None,
) -> StandardFit:
    """The answer from moments; the number may be "auto", and blocks None where they are found."""
    is_given = not isinstance(n_components, str)
    if is_given and blocks is not None:
        return answer_from_moments(moments, order, int(n_components), context, blocks)
    if not is_given:  # a generator of its own: the number does not depend on the seed
        context = replace(context, rng=np.random.default_rng(_SEED))
    search = _NumberSearch(moments, context, blocks)
    why, tried = list[str](), tuple[Trial, ...]()
    with context.clock.stage("blocks" if is_given else "number of components"):
        if is_given:
            tested = search.join(int(n_components))
        else:
            tested, note, tried = search.choose()
            why.append(note)
    found = tested.fit.raw.blocks
    if is_given and not found.joined:
        answer = answer_from_moments(moments, order, int(n_components), context, found)
    else:
        answer = search.answer(tested)
    if blocks is not None:
        return replace(answer, notes=[*why, *answer.notes], tried=tried)
    joined = joined_by_correlations(found, moments, tested.named)
    note = "no columns joined: the test names none whose joining lowers the misfit"
    if joined:
        groups = [moments.columns_of(block) for block in found.joined]
        note = f"{option(blocks=groups)}: found by the test of the moments"
    return replace(answer, notes=[*why, note, *answer.notes], tried=tried, joined=joined)


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
    last: MomentFit | None = None,
    smaller: tuple[MomentFit, OverIdentification] | None = None,
) -> StandardFit:
    """The answer that goes on from the `last` fit, if any; `smaller` has one component less."""
    r = n_components
    with context.clock.stage("moment fit"):
        if last is not None and last.more is not None:
            fit = last.more(ANSWER)
        else:
            is_needed = r > 1 and least_components(moments, context.rng, blocks) >= r
            parent = None if smaller is None else smaller[0].raw
            fit = fit_moments(moments, r, context, ANSWER, blocks, parent, is_needed)
    support = Support(r, True, "the rank of the moments shows it") if fit.is_needed else None
    if smaller is None and fit.fewer is not None:
        smaller = fit.fewer, fit.fewer.check(moments, context.rng)
    if support is None and smaller is not None:
        with context.clock.stage("support"):
            support = support_from_moments(fit, smaller[1], context.rng)
    uncertainty = fit.uncertainty
    assert uncertainty is not None
    test = begin_test(moments, fit.parameters, replace(context, n_threads=1))
    own = replace(context, rng=np.random.default_rng(CERTIFICATE_SEED))
    certificate = certify(moments, fit.parameters, test, uncertainty, support, own, fit.usable)
    rest = Rest(uncertainty, certificate)
    return StandardFit(moments, fit.parameters, lambda: rest, notes)


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

"""The answer from moments alone, also with a number of components and blocks that are chosen.

The number is the smallest that the test accepts; where it accepts none, the elbow of the effect
size, and the certificate does not pass. Columns are joined while the test names correlations and
the misfit falls; `momentmix.fitting.moments` makes each answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import inf, nan
from typing import NamedTuple

import numpy as np

from momentmix.capacity import robust_rank
from momentmix.fitting.checks import check_capacity, varying_blocks
from momentmix.fitting.choose import chosen, limit_note
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import AskedBlocks
from momentmix.fitting.inference.certificate import Certificate, Support
from momentmix.fitting.inference.certify import CERTIFICATE_SEED, certificate_of
from momentmix.fitting.inference.correlations import (
    CORRELATION_THAT_MATTERS,
    SIGNIFICANT_DEVIATES,
    Correlation,
)
from momentmix.fitting.inference.over_identification import (
    CLEAR_P_VALUE,
    OverIdentification,
    p_value_text,
)
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.candidates import least_components
from momentmix.fitting.moments.fit import ANSWER, FIRST_LOOK, SMALLER, MomentFit, fit_moments
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.options import Number
from momentmix.fitting.outcome import JoinedColumns, StandardFit, Trial
from momentmix.fitting.problem import ROWS_PER_PARAMETER, Problem
from momentmix.mixture.blocks import Blocks
from momentmix.progress import detail
from momentmix.wording import option

MOST_JOININGS = 8  # rounds of joining columns: each costs a fit
LEAST_FALL = 0.9  # of the effect size that joining columns has to bring
_SHARE_OF_STRONGEST = 0.5  # deviates of correlations that are joined at once
PATIENCE = 3  # numbers in a row that bring the moments no closer end the search without rows
LEAST_PROGRESS = 0.98  # of the effect size
_SEED = 35


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
            effort = FIRST_LOOK if r < least else SMALLER
            fit = fit_moments(moments, r, context, effort, blocks, parent, r <= least)
            detail(f"{r} components, test")
            test = fit.check(moments, context.rng, self.joins)
            self.tested[r, blocks] = _Tested(fit, test, named)
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


def answer_without_rows(problem: Problem, n_components: Number, asked: AskedBlocks) -> StandardFit:
    """The answer from moments; the number may be "auto", and blocks too."""
    moments, context = problem.moments, problem.context
    blocks = varying_blocks(asked, problem.columns, moments, None)
    least = 1 if isinstance(n_components, str) else n_components
    check_capacity(moments, least, problem.columns.n_features, blocks or moments.alone)
    is_given = not isinstance(n_components, str)
    if is_given and blocks is not None:
        return answer_from_moments(moments, int(n_components), context, blocks)
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
    r = tested.fit.raw.n_components
    smaller = search.tested.get((r - 1, found))
    known = None if smaller is None else (smaller.fit, smaller.test)
    answer = answer_from_moments(moments, r, context, found, known)
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


def _certify(
    fit: MomentFit, moments: StandardMoments, support: Support | None, context: FitContext
) -> tuple[Uncertainty, Certificate]:
    """Compute the certificate; standard errors are those of the fit."""
    assert fit.uncertainty is not None
    context = replace(context, rng=np.random.default_rng(CERTIFICATE_SEED))
    p, uncertainty = fit.parameters, fit.uncertainty
    tested = moments, p
    return uncertainty, certificate_of(moments, p, tested, uncertainty, support, context)


def answer_from_moments(
    moments: StandardMoments,
    n_components: int,
    context: FitContext,
    blocks: Blocks,
    smaller: tuple[MomentFit, OverIdentification] | None = None,
) -> StandardFit:
    """The answer; `smaller` has one component less."""
    r = n_components
    with context.clock.stage("moment fit"):
        is_needed = r > 1 and least_components(moments, context.rng, blocks) >= r
        parent = None if smaller is None else smaller[0].raw
        fit = fit_moments(moments, r, context, ANSWER, blocks, parent, is_needed)
    support = Support(r, True, "the rank of the moments shows it") if fit.is_needed else None
    if smaller is None and fit.fewer is not None:
        smaller = fit.fewer, fit.fewer.check(moments, context.rng)
    if support is None and smaller is not None:
        with context.clock.stage("support"):
            support = support_from_moments(r, smaller[1])
    certify = partial(_certify, fit, moments, support, context)
    return StandardFit(moments, fit.parameters, certify)


def support_from_moments(r: int, test: OverIdentification) -> Support:
    """Whether the moments need r components; the `test` is that of one less."""
    fewer = f"{r - 1} component{'s' if r > 2 else ''}"
    if test.testable and test.p_value >= CLEAR_P_VALUE:
        text = (
            f"{fewer} fit{'s' if r == 2 else ''} the moments too (least p-value "
            f"{p_value_text(test.p_value)}), so that they do not determine {r}."
        )
        return Support(r, False, text)
    if not test.testable:
        text = (
            f"the moments cannot tell whether {fewer} would do: there are not more of them than "
            "parameters."
        )
        return Support(r, None, text)
    return Support(r, True, f"the moments reject {fewer}")


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
        why = f"correlated within components by the test ({largest:+.2f})"
        found.append(JoinedColumns(columns, why))
    return tuple(found)

"""The number of components from rows: the most groups that other rows give again, or least BIC.

Quick fits say where to look. Mixtures of each number come from merges of larger ones and from cuts
of smaller ones, columns are joined where it pays, and one split of the rows in halves shows which
numbers are worth a full fit. These are fitted in full, from two above that of least BIC downwards,
and the first that passes counts. It passes if

- fits to halves of the rows give every component again (`LEAST_REPRODUCIBILITY`), and
- rows do not contradict the gaps between components (`halves`).

More is asked where cuts through one cloud come as far:

- Components without a gap need `CLEARLY`, or, in a mixture of least BIC that the test of the
  moments accepts, `WITHOUT_GAP` if all columns are numbers. One cloud with heavy tails, skewed or
  bent takes several, and its parts can be found again in nine tenths of their rows.
- More components than BIC wants need a gap between every two.
- Rows have to show the gaps where BIC hardly wants two components, and, unless `WITHOUT_GAP` is
  reached, with fewer than two rows a parameter.

Yes/no columns that one trait describes better than classes are one group. Where the number that
passes describes the rows poorly, as one group along a curve, the largest that halves give again
takes its place: the certificate calls its components segments of a continuum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.checks import check_widest, varying_blocks
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import AskedBlocks
from momentmix.fitting.em.em import Sample, settle
from momentmix.fitting.em.pooling import one_less
from momentmix.fitting.em.search import FEW_ROWS, Candidate, given_candidate, quick_fit
from momentmix.fitting.em.starts import split_starts
from momentmix.fitting.halves import CLEARLY, MOST_SPLITS, ROWS, Again, Halves
from momentmix.fitting.inference.certificate import LEAST_REPRODUCIBILITY, WITHOUT_GAP
from momentmix.fitting.inference.certify import run_test
from momentmix.fitting.inference.completed_rows import completed, is_missing_at_random
from momentmix.fitting.inference.description import describe
from momentmix.fitting.inference.findings import LEAST_ROWS_PER_PARAMETER
from momentmix.fitting.inference.one_trait import bic_of_one_trait
from momentmix.fitting.joining import BlockSearch
from momentmix.fitting.options import Number
from momentmix.fitting.outcome import JoinedColumns, Trial
from momentmix.fitting.problem import Problem
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.mixture.separation import LEAST_GAP
from momentmix.progress import detail

_ROWS_OF_A_GROUP = 6  # three in each half: of fewer, halves say nothing
_FIRST_LEVEL = 8  # numbers that are tried at least, while BIC falls
_BEYOND = 2  # numbers above that of least BIC that are tried
_PATIENCE = 4  # numbers in a row that one split does not give again end the search
_PROMISING = 0.6  # of a quick fit, by one split: full fits of it had up to 0.2 more
_LEAST_GAIN = 0.2  # of BIC a row: 300 rows of a skewed or flat cloud reach 0.1, groups 0.5
_SEED = 35
_MERGED_STEPS, _MERGES, _SPLIT_STEPS = 10, 3, 40  # EM steps after a merge and a cut


class Choice(NamedTuple):
    """A number of components and blocks, starts for the passes, why, and what was tried."""

    n_components: int
    blocks: Blocks
    candidates: Sequence[Candidate]
    note: str = ""
    tried: tuple[Trial, ...] = ()
    joined: tuple[JoinedColumns, ...] = ()
    within: Float | None = None  # covariance pooled within components, where the prior takes it
    again: Again | None = None  # how well halves give the best candidate again, where it is known


def choose(problem: Problem, n_components: Number, asked: AskedBlocks) -> Choice:
    """Choose what is not given: the number of components, blocks, and the starts of the passes.

    "auto": the largest number that other rows would give again. "bic": that of least BIC.
    """
    sample, context = problem.sample, problem.context
    assert sample is not None
    blocks = varying_blocks(asked, problem.columns, problem.moments, sample)
    if blocks is not None:
        check_widest(blocks, sample.moments, 1 if isinstance(n_components, str) else n_components)
    if isinstance(n_components, str):
        return _Numbers(sample, n_components, context, blocks).choice()
    if context.start is not None and blocks is not None and n_components > 1:
        with context.clock.stage("candidates"):
            given = given_candidate(sample.of_blocks(blocks), context.start, context)
        return Choice(n_components, blocks, [given])
    return full_fit(BlockSearch(sample, context, blocks), n_components)


def full_fit(search: BlockSearch, number: int, known: Parameters | None = None) -> Choice:
    """The best mixture of a number of components by a full search, and its blocks.

    With few rows the prior is around the covariance pooled within the components of a first search,
    or of those that are `known`.
    """
    clock = search.context.clock
    borrows = borrows_strength(search.sample, number, search.context)
    if known is None:
        with clock.stage("first fits"):
            for blocks in search.kinds(number):
                search.improve(search.start(number, blocks))
            known = search.best(number).parameters
    within = None
    if borrows:
        within = search.pooled(known)
        search = search.around(within)
    with clock.stage("full fits"):
        search.improve(search.add(known))
        blocks = search.best(number).parameters.blocks
        candidates = search.searched(number, blocks)
        best = search.improve(search.add(candidates[0].parameters))
        if best.parameters.blocks != blocks:
            blocks = best.parameters.blocks
            candidates = search.searched(number, blocks)
    check_widest(blocks, search.sample.moments, number)
    return Choice(
        number, blocks, candidates, search.note(number), (), search.joined(number), within
    )  # fmt: skip


def borrows_strength(sample: Sample, n_components: int, context: FitContext) -> bool:
    """Whether rows are so few that covariances of components borrow strength from each other."""
    moments, rows = sample.moments, sample.rows
    has_values = any(law.value_feature is not None for law in moments.laws)
    is_survey = rows.row_counts is not None and not rows.is_frequency
    is_few = sample.is_all and moments.n_counted < FEW_ROWS
    return is_few and n_components > 1 and context.start is None and not (has_values or is_survey)


def limit_note(number: int, context: FitContext) -> str:
    """The end of a note where `max_components` allows no larger number."""
    if number < context.max_components or number == 1:
        return ""
    return f"; max_components={number} allows no more"


def chosen(trials: dict[int, Trial], number: int) -> tuple[Trial, ...]:
    """All trials by number, one of them marked."""
    return tuple(replace(trials[r], chosen=r == number) for r in sorted(trials))


class _Numbers:
    """Mixtures by number of components, and how well halves of the rows give them again."""

    def __init__(
        self, sample: Sample, rule: str, context: FitContext, blocks: Blocks | None
    ) -> None:
        # A generator of its own: what is found, and so the number, does not depend on the seed.
        self.context = replace(context, rng=np.random.default_rng(_SEED))
        self.moments, self.by_halves = sample.moments, rule == "auto"
        self.search = BlockSearch(sample.ordered(), self.context, blocks)
        self.halves = Halves(sample, self.context)
        self.trials = dict[int, Trial]()
        self.one_trait = bic_of_one_trait(sample) if self.by_halves else None
        n = self.moments.n_counted
        self.most = max(1, min(context.max_components, n // _ROWS_OF_A_GROUP))

    # -- quick fits -------------------------------------------------------------------------------

    def quick_fits(self) -> int:
        """Fit numbers from 1 on quickly, until BIC or halves want no more; return the last."""
        level, number = 0, 1
        for kind in self.search.kinds(1):
            self.search.improve(self.search.start(1, kind))
        while number < min(self.most, self.wanted + _BEYOND):
            if self.by_halves and number >= _FIRST_LEVEL:
                latest = range(number, number - _PATIENCE, -1)
                if not any(map(self._is_promising, latest)):
                    break
            number += 1
            if number > level:
                level = min(self.most, max(2 * level, _FIRST_LEVEL))
                for kind in self.search.kinds(2):
                    self._merge_down(level, number, kind)
            detail(f"{number} of {min(self.most, max(self.wanted + _BEYOND, _FIRST_LEVEL))}")
            self._grow(number)
            if self.search.find(number) is None:
                return number - 1
        return number

    def _is_promising(self, number: int) -> bool:
        """Whether one split of the rows gives the quick fit of a number again, by and large."""
        if number not in self.trials:
            p, within = self.search.best(number).parameters, None
            if borrows_strength(self.search.sample, number, self.context):
                within = self.search.pooled(p)
            self._compared(p, within, 1)
        return self.trials[number].least_reproducibility >= _PROMISING

    @property
    def wanted(self) -> int:
        """The number of least BIC so far."""
        return self.search.best().parameters.n_components

    def _allowed(self, number: int, blocks: Blocks) -> bool:
        """Whether components have enough rows, of joined columns two for each of the widest."""
        rows = max(_ROWS_OF_A_GROUP, 2 * (blocks.widest + 1) if blocks.joined else 0)
        return number * rows <= self.moments.n_counted

    def _merge_down(self, level: int, lowest: int, blocks: Blocks) -> None:
        """Quick fits of so many components and, by merging, of fewer."""
        while level > 1 and not self._allowed(level, blocks):
            level -= 1
        if level < lowest:
            return
        features = self.halves.sample.of_blocks(blocks).features
        structure = self.moments.structure(blocks)
        p = quick_fit(features, level, structure, self.context)
        while True:
            self.search.add(p)
            if p.n_components <= max(lowest, 2):
                return
            n_threads = self.context.n_threads
            p = one_less(features, p, structure, _MERGED_STEPS, _MERGES, n_threads)

    def _grow(self, number: int) -> None:
        """Cut components of the mixtures of one less, and join columns."""
        for blocks in self.search.kinds(2):
            smaller = self.search.options.get((number - 1, blocks))
            if smaller is None or not self._allowed(number, blocks):
                continue
            features = self.halves.sample.of_blocks(blocks).features
            structure = self.moments.structure(blocks)
            prior = VariancePrior.of_rows(features.shape[1], number, structure)
            starts = split_starts(features, smaller.parameters, prior)
            found, values = settle(features, starts, prior, _SPLIT_STEPS, self.context.n_threads)
            self.search.improve(self.search.add(found[int(values.argmax())]))

    # -- full fits --------------------------------------------------------------------------------

    def choice(self) -> Choice:
        """The largest number that passes, by full fits, and its blocks."""
        with self.context.clock.stage("number of components"):
            top = self.quick_fits()
        segments: Choice | None = None  # of a continuum: the most that halves give again
        for number in range(top, 0, -1) if self.by_halves else [self.wanted]:
            if number > 1 and self.by_halves and not self._is_promising(number):
                continue
            choice = full_fit(self.search, number, self.search.best(number).parameters)
            if number == 1 or not self.by_halves:
                break
            p = choice.candidates[0].parameters
            with self.context.clock.stage("halves"):
                again = self._compared(p, choice.within)
            if self.search.sample.is_all and self.moments.n_counted <= ROWS:  # as the certificate
                choice = choice._replace(again=again)
            if self.passes(p, again):
                break
            if segments is None and self._may_be_segments(p, again):
                segments = choice
        why = "halves of the rows reproduced"
        if segments is not None and self._is_poor(choice):
            choice, why = segments, f"{why}, without gaps: fewer describe the rows poorly"
        single = self.search.best(1)
        self.trials[1] = Trial(1, nan, single.score, single.bic, False, (1.0,))
        return self._described(choice, why)

    def _compared(self, p: Parameters, within: Float | None, most: int = MOST_SPLITS) -> Again:
        """How well halves give a mixture again, by so many splits at most."""
        self.halves.center(within)
        again, option = self.halves.compare(p, most=most), self.search.priced(p)
        found = tuple(again.reproducibility.tolist())
        self.trials[len(found)] = Trial(len(found), nan, option.score, option.bic, False, found)
        return again

    def passes(self, p: Parameters, again: Again) -> bool:
        """Whether halves give all components again, and rows show or allow what is between."""
        number, least, n = p.n_components, again.reproducibility.min(), self.moments.n_counted
        if self._is_one_trait(p):
            return False
        if self._gain(p) < _LEAST_GAIN:
            return bool(again.is_shown and least >= WITHOUT_GAP)
        if least < LEAST_REPRODUCIBILITY or again.is_contradicted:
            return False
        if n < LEAST_ROWS_PER_PARAMETER * p.n_free and p.blocks.widest < self.moments.n_features:
            return bool(again.is_shown or least >= WITHOUT_GAP)
        if number > self.wanted:
            return again.has_gaps
        if least >= CLEARLY or np.nanmin(again.separation) >= LEAST_GAP:
            return True
        # Classes of answers overlap by nature, where one trait does not explain them.
        is_found = bool(p.blocks.laws or least >= WITHOUT_GAP)
        return number == self.wanted and is_found and self._is_exact(p)

    def _is_exact(self, p: Parameters) -> bool:
        """Whether the test of the moments accepts a mixture."""
        tested = self.moments, p
        if is_missing_at_random(p):
            tested = completed(self.moments, p, self.halves.features(p))
        return run_test(*tested, True).is_rejected is False

    def _gain(self, p: Parameters) -> float:
        """By how much BIC a row is lower than that of one component."""
        bic = self.trials[p.n_components].bic
        return (self.search.best(1).bic - bic) / self.moments.n_counted

    def _is_one_trait(self, p: Parameters) -> bool:
        """Whether one trait describes yes/no columns better than classes."""
        return self.one_trait is not None and self.one_trait < self.trials[p.n_components].bic

    def _may_be_segments(self, p: Parameters, again: Again) -> bool:
        """Whether halves give components again that are better than one.

        The less clear it is that there is a gap anywhere, the more of their rows.
        """
        is_better = self._gain(p) >= _LEAST_GAIN and not self._is_one_trait(p)
        needed = LEAST_REPRODUCIBILITY if again.n_parts > 1 else WITHOUT_GAP
        return bool(is_better and again.reproducibility.min() >= needed)

    def _is_poor(self, choice: Choice) -> bool:
        """Whether a mixture does not describe rows that it was not fitted to."""
        again = choice.again or self._compared(choice.candidates[0].parameters, choice.within)
        return describe(again.unseen, self.moments, True).level == "poor"

    def _described(self, choice: Choice, why: str) -> Choice:
        """The choice with what was tried, and the reasons in words."""
        number, n, d = choice.n_components, self.moments.n_counted, self.moments.n_features
        if not self.by_halves:
            options = {r: self.search.best(r) for r in range(1, max(self.search.numbers) + 1)}
            self.trials = {r: Trial(r, nan, o.score, o.bic, False) for r, o in options.items()}
        top = max(self.trials)
        rule = f"the largest of 1 to {top} that {why}" if self.by_halves else "least BIC"
        note = f"n_components={number}: {rule}{limit_note(number, self.context)}"
        if number == self.most < self.context.max_components:
            note += f"; {n} rows with {d} features allow no more"
        note = "; ".join(filter(None, [note, choice.note]))
        return choice._replace(note=note, tried=chosen(self.trials, number))

"""The number of components from rows: the most groups that other rows give again, or least BIC.

Mixtures of each number come from merges of larger ones and from cuts of smaller ones, and columns
are joined where it pays. For "auto" the one of least BIC of each number is fitted again to halves
of the rows. A component has to be found again with a Jaccard index of 0.75. Two exceptions come
from laws whose components are not Gaussian: BIC wants more components there than groups, and a cut
through one cloud can be found again.

- Where BIC wants more components and two have no gap between them, 0.9 is needed: cuts through
  clouds of heavy-tailed or skewed columns reach 0.75 to 0.9, groups 0.95 and more.
- Where the mixture has a gap between two components that the rows do not show, as between the
  halves of a uniform box, the number does not count.

More components than BIC wants need 0.9 and gaps.

With fewer than 4,000 rows quick fits only say where to look: each number is fitted in full, with
its own blocks and a prior around the covariance within components, from two above that of least BIC
downwards, and the first whose components are found again counts. Components that borrow strength
from each other are found again more often, groups and cuts alike. So 0.8 is enough above the number
of BIC where gaps are clear, far below it gaps have to be clear, and where BIC hardly wants more
than one component, clear gaps and 0.95 are needed.

With fewer than two rows a parameter, parts of a correlated cloud are found again, and full
covariances are out of reach. Components need gaps then that show in rows which the fits of halves
have not seen, unless all columns are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf, nan
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.checks import check_widest, varying_blocks
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import AskedBlocks
from momentmix.fitting.em.em import Sample, settle
from momentmix.fitting.em.pooling import one_less
from momentmix.fitting.em.search import (
    FEW_ROWS,
    JOINED,
    Candidate,
    given_candidate,
    quick_fit,
    ranked_candidates,
    single_component,
)
from momentmix.fitting.em.starts import split_starts
from momentmix.fitting.halves import BEYOND_BIC, CLEAR_GAP, FROM_ONE, Halves
from momentmix.fitting.inference.certificate import LEAST_REPRODUCIBILITY, WITHOUT_GAP
from momentmix.fitting.inference.findings import LEAST_ROWS_PER_PARAMETER
from momentmix.fitting.joining import BlockSearch, Option, within_components
from momentmix.fitting.options import Number
from momentmix.fitting.outcome import JoinedColumns, Trial
from momentmix.fitting.problem import Problem
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.mixture.separation import LEAST_GAP, separation_of
from momentmix.progress import detail

_ROWS_OF_A_GROUP = 6  # three in each half: of fewer, halves say nothing
_FIRST_LEVEL = 8  # numbers that are tried at least, while BIC falls
_BEYOND = 2  # with few rows numbers are fitted in full, from so far above that of BIC downwards
_LEAST_GAIN = 0.2  # of BIC a row: 300 rows of a skewed or flat cloud reach 0.1, groups 0.5
_PATIENCE = 4  # numbers in a row that fail, or where BIC rises, end the search, from there on
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


def choose(problem: Problem, n_components: Number, asked: AskedBlocks) -> Choice:
    """Choose what is not given: the number of components, blocks, and the starts of the passes.

    "auto": the largest number that other rows would give again. "bic": that of least BIC.
    """
    sample, context = problem.sample, problem.context
    assert sample is not None
    blocks = varying_blocks(asked, problem.columns, problem.moments, sample)
    if isinstance(n_components, str):
        numbers = _Numbers(sample, n_components, context, blocks)
        with context.clock.stage("number of components"):
            numbers.run()
        choice = numbers.choice()
    else:
        choice = full_fit(sample, n_components, blocks, context)
    check_widest(choice.blocks, sample.moments, choice.n_components)
    if choice.candidates:
        return choice
    found = _candidates(sample.of_blocks(choice.blocks), choice.n_components, context)
    return choice._replace(candidates=found)


def full_fit(
    sample: Sample,
    n_components: int,
    blocks: Blocks | None,
    context: FitContext,
    known: Parameters | None = None,
) -> Choice:
    """The best mixture of a number of components by a full search, and its blocks.

    With few rows the search is repeated with a prior around the covariance pooled within the
    components that were found, or are `known`.
    """
    if blocks is not None:
        check_widest(blocks, sample.moments, n_components)
    borrows = borrows_strength(sample, n_components, context)
    if known is None or not borrows:
        choice = _full_search(sample, n_components, blocks, context, known)
        if not borrows:
            return choice
        known = choice.candidates[0].parameters
    within = np.tensordot(known.weights, within_components(sample, known), 1)
    choice = _full_search(sample.around(within), n_components, blocks, context, known)
    return choice._replace(within=within)


def borrows_strength(sample: Sample, n_components: int, context: FitContext) -> bool:
    """Whether rows are so few that covariances of components borrow strength from each other."""
    moments, rows = sample.moments, sample.rows
    has_values = any(law.value_feature is not None for law in moments.laws)
    is_survey = rows.row_counts is not None and not rows.is_frequency
    is_few = sample.is_all and moments.n_counted < FEW_ROWS
    return is_few and n_components > 1 and context.start is None and not (has_values or is_survey)


def _full_search(
    sample: Sample,
    n_components: int,
    blocks: Blocks | None,
    context: FitContext,
    known: Parameters | None,
) -> Choice:
    """The best mixture of a full search, in which a mixture that is known competes."""
    if blocks is not None:
        candidates = _candidates(sample.of_blocks(blocks), n_components, context, known)
        return Choice(n_components, blocks, candidates)
    search = BlockSearch(sample, context)
    kinds = search.kinds(n_components)
    if known is not None:
        search.add(known)
        kinds = [known.blocks]
    for kind in kinds:
        with context.clock.stage("full blocks" if kind.joined else "diagonal blocks"):
            search.improve(search.start(n_components, kind))
    with context.clock.stage("blocks"):
        search.validate()
        blocks = search.best.parameters.blocks
        candidates = search.searched(n_components, blocks)
    return Choice(n_components, blocks, candidates, search.note(), (), search.joined())


def _candidates(
    sample: Sample, n_components: int, context: FitContext, known: Parameters | None = None
) -> list[Candidate]:
    """Starts for the passes, best first."""
    if n_components == 1:
        single = single_component(sample, sample.blocks, context)
        return [Candidate("closed form", single, 0.0)]
    with context.clock.stage("candidates"):
        if context.start is not None:
            return [given_candidate(sample, context.start, context)]
        return ranked_candidates(sample, n_components, context, known)


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
        self.moments, self.by_halves, self.joins = sample.moments, rule == "auto", blocks is None
        # A generator of its own: what is found, and so the number, does not depend on the seed.
        self.context = replace(context, rng=np.random.default_rng(_SEED))
        self.search = BlockSearch(sample.ordered(), self.context)
        self.halves = Halves(sample, self.context)
        self.blocks = blocks
        self.kinds = self.search.kinds(2) if blocks is None else [blocks]
        self.has_few_rows = self.by_halves and borrows_strength(sample, 2, context)
        self.found: dict[int, Float] = {}  # reproducibility by number
        self.instead: dict[int, Option] = {}  # blocks that are found again, not those of least BIC
        self.passed = [1]  # numbers whose components are found again
        n = self.moments.n_counted
        self.most = max(1, min(self.context.max_components, n // _ROWS_OF_A_GROUP))

    # -- mixtures of each number ------------------------------------------------------------------

    def run(self) -> None:
        """Try numbers from 1 on, until several in a row fail or BIC wants no more."""
        level, number = 0, 1
        for kind in self.kinds:
            self._improve(self.search.start(1, kind))
        while number < self.most:
            number += 1
            if number > level:
                level = min(self.most, max(2 * level, _FIRST_LEVEL))
                for kind in self.kinds:
                    self._merge_down(level, number, kind)
            expected = min(self.most, max(self.wanted + 2, _FIRST_LEVEL))
            detail(f"{number} of {max(number, expected)}")
            self._grow(number)
            option = self.best(number)
            if option is None:
                break
            if self.has_few_rows:
                if number > self.wanted + _BEYOND:
                    break
            elif self.by_halves:
                if not self.try_option(option):
                    self._try_other_blocks(number)
                is_idle = number >= _FIRST_LEVEL and number - self.passed[-1] >= _PATIENCE
                if is_idle or number > self.wanted + 1:
                    break
            elif number >= self.wanted + _PATIENCE:
                break

    def _improve(self, option: Option) -> None:
        if self.joins:
            self.search.improve(option)

    def _rows(self, blocks: Blocks) -> Sample:
        return self.halves.sample.of_blocks(blocks)

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
        features = self._rows(blocks).features
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
        for blocks in self.kinds:
            smaller = self.search.options.get((number - 1, blocks))
            if smaller is None or not self._allowed(number, blocks):
                continue
            features = self._rows(blocks).features
            structure = self.moments.structure(blocks)
            prior = VariancePrior.of_rows(features.shape[1], number, structure)
            starts = split_starts(features, smaller.parameters, prior)
            found, values = settle(features, starts, prior, _SPLIT_STEPS, self.context.n_threads)
            self._improve(self.search.add(found[int(values.argmax())]))

    # -- the rules --------------------------------------------------------------------------------

    def best(self, number: int) -> Option | None:
        """The option of least BIC of a number of components."""
        own = [o for (r, _), o in self.search.options.items() if r == number]
        return min(own, key=lambda option: option.bic, default=None)

    @property
    def _single(self) -> Option:
        """The option of least BIC of one component, with which every search begins."""
        single = self.best(1)
        assert single is not None
        return single

    @property
    def wanted(self) -> int:
        """The number of least BIC so far."""
        return min(self.search.options, key=lambda key: self.search.options[key].bic)[0]

    def try_option(self, option: Option) -> bool:
        """Whether halves give a mixture again."""
        p, number = option.parameters, option.parameters.n_components
        needed = self._needed(option)
        again = self.halves.compare(p, needed)
        self.found[number] = again.reproducibility
        is_found = bool(self.found[number].min() >= needed)
        if is_found and self._is_few(p) and p.blocks.widest < self.moments.n_features:
            is_found = self.halves.has_gaps(p, again.unseen)
        others = [r for r in self.passed if r != number]
        self.passed = sorted([*others, number]) if is_found else others
        return is_found

    def _try_other_blocks(self, number: int) -> None:
        """Try blocks of a larger BIC, if it is below that of smaller numbers that pass.

        The least BIC may spend a component on the tails of all others and join two of them. Only
        groups with gaps between them count here: diagonal parts of a correlated cloud have none.
        """
        passing = (self.instead.get(r, self.best(r)) for r in self.passed)
        lowest = min(option.bic for option in passing if option is not None)
        options = self.search.options.items()
        others = [o for (r, _), o in options if r == number and o.bic < lowest]
        for option in sorted(others, key=lambda option: option.bic)[1:]:
            known, has_gaps = self.found[number], _least_gap(option.parameters) >= LEAST_GAP
            if has_gaps and self.try_option(option):
                self.instead[number] = option
                return
            self.found[number] = known

    def _is_few(self, p: Parameters) -> bool:
        """Whether there are few rows for each parameter."""
        return self.moments.n_counted < LEAST_ROWS_PER_PARAMETER * p.n_free

    def _is_hardly_better_than_one(self, option: Option) -> bool:
        """Whether BIC wants one component, or more for a gain that shapes of one cloud reach."""
        gain = (self._single.bic - option.bic) / self.moments.n_counted
        return self.wanted == 1 or gain < _LEAST_GAIN

    def _needed(self, option: Option) -> float:
        """The least reproducibility that counts for a mixture."""
        p = option.parameters
        if (self.has_few_rows or p.n_components != self.wanted) and self.halves.cut(p):
            return inf
        if self.has_few_rows and self._is_hardly_better_than_one(option):
            return FROM_ONE if _least_gap(p) >= CLEAR_GAP else inf
        if p.n_components == self.wanted:
            return LEAST_REPRODUCIBILITY
        gap = _least_gap(p)
        if p.n_components > self.wanted:
            if self.has_few_rows and gap >= CLEAR_GAP:
                return BEYOND_BIC
            return WITHOUT_GAP if gap >= LEAST_GAP else inf
        # Far below the number of BIC, components are not Gaussian: cuts of flat clouds have gaps.
        is_far = (
            self.has_few_rows and p.n_components < self.wanted - _BEYOND and not self._is_few(p)
        )
        least = CLEAR_GAP if is_far else LEAST_GAP  # at 1/3 a uniform box was cut
        return LEAST_REPRODUCIBILITY if gap >= least else WITHOUT_GAP

    def choice(self) -> Choice:
        """The number, by a full search, and its blocks."""
        if self.has_few_rows:
            return self._largest_full_fit()
        search = self.search
        if not self.by_halves:
            self.passed = [self.wanted]
        candidates = None
        while candidates is None:
            number = search.number = self.passed[-1]
            with self.context.clock.stage("blocks" if self.joins else "candidates"):
                candidates = self._searched(number)
        blocks = search.best.parameters.blocks
        trials = self._trials()
        why = "the largest of {} to {} that halves of the rows reproduced in the search"
        note = (why if self.by_halves else "least BIC of {} to {}").format(1, max(trials))
        note = f"n_components={number}: {note}{limit_note(number, self.context)}"
        if any(self.found[r].min() >= LEAST_REPRODUCIBILITY for r in self.found if r > number):
            note += "; larger numbers cut groups where there is no gap"
        note += self._rows_note(number)
        joined: tuple[JoinedColumns, ...] = ()
        if self.joins:
            reasons = (
                ["halves of the rows reproduced the groups"] if number in self.instead else None
            )
            note, joined = f"{note}; {search.note(reasons)}", search.joined()
        return Choice(number, blocks, candidates, note, chosen(trials, number), joined)

    def _largest_full_fit(self) -> Choice:
        """The full fit of the most components that halves of the rows give again."""
        top = min(self.wanted + _BEYOND, max(r for r, _ in self.search.options))
        trials = dict[int, Trial]()
        for number in range(top, 0, -1):
            quick = self.best(number)
            known = None if quick is None or number == 1 else quick.parameters
            choice = full_fit(self.search.sample, number, self.blocks, self.context, known)
            if number == 1:
                break
            p = choice.candidates[0].parameters
            self.halves.center(choice.within)
            option = self.search.priced(p)
            is_chosen = self.try_option(option)
            again = tuple(self.found[number].tolist())
            trials[number] = Trial(number, nan, option.score, option.bic, False, again)
            if is_chosen:
                break
        trials[1] = Trial(1, nan, self._single.score, self._single.bic, False, (1.0,))
        note = f"n_components={number}: the largest of 1 to {top} that halves of the rows "
        note = f"{note}reproduced{limit_note(number, self.context)}{self._rows_note(number)}"
        note = "; ".join(filter(None, [note, choice.note]))
        return choice._replace(note=note, tried=chosen(trials, number))

    def _rows_note(self, number: int) -> str:
        """The end of a note where the rows allow no larger number."""
        if number < self.most or number == self.context.max_components:
            return ""
        n, d = self.moments.n_counted, self.moments.n_features
        return f"; {n} rows with {d} features allow no more"

    def _searched(self, number: int) -> list[Candidate] | None:
        """Candidates of a full search; None where halves do not give its mixture again."""
        search, instead = self.search, self.instead.get(number)
        search.preferred = instead
        if instead is not None:
            # A full search would find the mixture of larger likelihood that fails.
            return [Candidate(JOINED, instead.parameters, instead.score)]
        if self.joins:
            # The mixture of a full search may join columns that quick fits did not.
            self._improve(search.start(number, search.best.parameters.blocks))
            search.validate()
        while True:
            candidates = search.searched(number, search.best.parameters.blocks)
            is_known = number == 1 or not self.by_halves
            if is_known or self.try_option(search.priced(candidates[0].parameters)):
                return candidates
            if search.preferred is None:
                return None
            search.preferred = None

    def _trials(self) -> dict[int, Trial]:
        """The mixtures of least BIC by number, that of the answer for its own."""
        found, trials, own = {1: np.ones(1), **self.found}, {}, self.search.best
        for r in sorted({r for r, _ in self.search.options}):
            option = own if r == self.search.number else self.best(r)
            if option is not None and (r in found or not self.by_halves):
                again = tuple(found[r].tolist()) if self.by_halves else ()
                trials[r] = Trial(r, nan, option.score, option.bic, False, again)
        return trials


def _least_gap(p: Parameters) -> float:
    """The separation of the two components that are least apart."""
    return float(np.nanmin(separation_of(p)))

"""The number of components by reproducibility: the most groups that other rows would give again.

For each number the mixture of least BIC, over the blocks that are tried, is fitted again to halves
of the rows. A component has to be found again with a Jaccard index of 0.75. Two exceptions come
from laws whose components are not Gaussian: BIC wants more components there than groups, and a cut
through one cloud can be found again.

- Where BIC wants more components and two have no gap between them, 0.9 is needed: cuts through
  clouds of heavy-tailed or skewed columns reach 0.75 to 0.9, groups 0.95 and more.
- Where the mixture has a gap between two components that the rows do not show, as between the
  halves of a uniform box, the number does not count.

More components than BIC wants need 0.9 and gaps.
"""

from __future__ import annotations

from math import inf, nan

import numpy as np

from momentmix.findings.messages import Message
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, settle
from momentmix.fitting.em.pooling import one_less
from momentmix.fitting.em.search import quick_fit
from momentmix.fitting.em.starts import split_starts
from momentmix.fitting.inference.certificate import LEAST_REPRODUCIBILITY, WITHOUT_GAP
from momentmix.fitting.outcome import Trial
from momentmix.fitting.robust.halves import Halves
from momentmix.fitting.robust.joining import BlockSearch, Option
from momentmix.fitting.robust.number_of_components import Choice, chosen, limit_note
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.mixture.separation import LEAST_GAP, separation_of
from momentmix.progress import detail

_FIRST_LEVEL = 8  # numbers that are tried at least, while BIC falls
_PATIENCE = 4  # numbers in a row that fail end the search, from there on
_MERGED_STEPS, _MERGES, _SPLIT_STEPS = 10, 3, 40  # EM steps after a merge and a cut


def choose_groups(sample: Sample, context: FitContext, blocks: Blocks | None) -> Choice:
    """The largest number of components that other rows would give again; blocks None: any."""
    search = BlockSearch(sample, context)
    kinds = search.kinds(2) if blocks is None else [blocks]
    groups = _GroupSearch(search, kinds, Halves(sample, context), blocks is None)
    with context.clock.stage("number of components"):
        groups.run()
    return groups.choice()


class _GroupSearch:
    """Mixtures by number of components, and how well halves of the rows give them again."""

    def __init__(
        self, search: BlockSearch, kinds: list[Blocks], halves: Halves, joins: bool
    ) -> None:
        self.search, self.kinds, self.halves, self.joins = search, kinds, halves, joins
        self.context, self.moments = search.context, search.moments
        self.trials: dict[int, Trial] = {}
        self.needed: dict[int, float] = {}
        n, fewest = self.moments.n_counted, min(kind.n_parameters for kind in kinds)
        self.most = max(1, min(self.context.max_components, (n // 2 + 1) // fewest))

    # -- mixtures of each number ------------------------------------------------------------------

    def run(self) -> None:
        """Try numbers from 1 on, until several in a row fail or BIC wants no more."""
        level = 0
        for kind in self.kinds:
            option = self.search.start(1, kind)
            if self.joins:
                self.search.improve(option)
        number, last = 1, 1
        while number < self.most:
            number += 1
            if number > level:
                level = min(self.most, max(2 * level, _FIRST_LEVEL))
                for kind in self.kinds:
                    self._merge_down(level, number, kind)
            detail(f"{number} components")
            self._grow(number)
            if self.best(number) is None:
                break
            if self.try_number(number):
                last = number
            wanted = self.wanted
            if number > wanted + 1 or (number >= _FIRST_LEVEL and number - last >= _PATIENCE):
                break

    def _rows(self, blocks: Blocks) -> Sample:
        return self.halves.sample.of_blocks(blocks)

    def _allowed(self, number: int, blocks: Blocks) -> bool:
        return number * blocks.n_parameters - 1 <= self.moments.n_counted // 2

    def _merge_down(self, level: int, lowest: int, blocks: Blocks) -> None:
        """Quick fits of so many components and, by merging, of fewer."""
        while level > 1 and not self._allowed(level, blocks):
            level -= 1
        if level < lowest:
            return
        features = self._rows(blocks).features
        structure = self.moments.structure(self.context.variance_floor, blocks)
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
            structure = self.moments.structure(self.context.variance_floor, blocks)
            prior = VariancePrior.of_rows(features.shape[1], number, structure)
            starts = split_starts(features, smaller.parameters, prior)
            found, values = settle(features, starts, prior, _SPLIT_STEPS, self.context.n_threads)
            option = self.search.add(found[int(values.argmax())])
            if self.joins:
                self.search.improve(option)

    # -- the rule ---------------------------------------------------------------------------------

    def best(self, number: int) -> Option | None:
        """The option of least BIC of a number of components."""
        own = [o for (r, _), o in self.search.options.items() if r == number]
        return min(own, key=lambda option: option.bic, default=None)

    @property
    def wanted(self) -> int:
        """The number of least BIC so far."""
        return min(self.search.options, key=lambda key: self.search.options[key].bic)[0]

    def try_number(self, number: int, parameters: Parameters | None = None) -> bool:
        """Whether halves give the mixture of a number again."""
        option = self.best(number) if parameters is None else self.search.priced(parameters)
        assert option is not None
        p = option.parameters
        needed = self._needed(p)
        again = self.halves.compare(p, needed)
        found = tuple(again.reproducibility.tolist())
        self.trials[number] = Trial(number, nan, option.score, option.bic, False, found)
        self.needed[number] = needed
        return bool(min(found) >= needed)

    def _needed(self, p: Parameters) -> float:
        """The least reproducibility that counts for a mixture."""
        has_gaps = bool(np.nanmin(separation_of(p)) >= LEAST_GAP)
        if p.n_components == self.wanted:
            return LEAST_REPRODUCIBILITY
        if self.halves.cut(p):
            return inf
        if p.n_components > self.wanted:
            return WITHOUT_GAP if has_gaps else inf
        return LEAST_REPRODUCIBILITY if has_gaps else WITHOUT_GAP

    def passing(self) -> list[int]:
        """Numbers whose components are found again, ascending."""
        found = [r for r, t in self.trials.items() if min(t.reproducibility) >= self.needed[r]]
        return [1, *sorted(found)]

    def choice(self) -> Choice:
        """The largest number that a full search confirms, and its blocks."""
        search = self.search
        while True:
            number = self.passing()[-1]
            search.number, search.preferred = number, None
            with self.context.clock.stage("blocks" if self.joins else "candidates"):
                if self.joins:
                    search.validate()
                _, blocks = search.best.key
                candidates = search.searched(number, blocks)
            if number == 1 or self.try_number(number, candidates[0].parameters):
                break
        one = self.best(1)
        assert one is not None
        self.trials[1] = Trial(1, nan, one.score, one.bic, False, (1.0,))
        note = f"n_components={number}: the most of 1 to {max(self.trials)} that halves of the "
        note += f"rows give again{limit_note(number, self.context)}"
        if number == self.most < self.context.max_components:
            note += f"; {self.moments.n_counted} rows allow no more"
        text = Message(note, *(["; ", search.note(False)] if self.joins else []))
        joined = search.joined() if self.joins else ()
        return Choice(number, text, chosen(self.trials, number), candidates, blocks, joined)

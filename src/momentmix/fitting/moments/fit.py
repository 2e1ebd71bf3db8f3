"""A mixture from moments alone: candidates, selection, polish, efficient steps, in rounds.

| paper symbol | name here |
|---|---|
| {(ω_i, μ_i, Σ_i)} | ``MomentFit.parameters``, of standardized features |

The first round takes means that random partitions of the blocks propose, the second one splits of
an answer with one component less, and later ones further partitions. Rounds end when the test of
the moments accepts an answer, or after a fixed number.

Differs from the paper: everything after the decomposition. The last step is new: a plug-in density
with a variance far below what its estimate can resolve is useless (log-likelihoods fall by tens
of nats), so each variance is replaced by its mean given estimate, standard error and sign, and the
uncertainty of the mean is added. With exact moments both corrections vanish.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from momentmix.fitting.context import FitContext
from momentmix.fitting.inference.over_identification import (
    LEAST_P_VALUE,
    OverIdentification,
    check_conditions,
)
from momentmix.fitting.inference.tested_conditions import (
    HIGHEST_POWER,
    ORDER_4_FROM,
    choose_conditions,
)
from momentmix.fitting.inference.uncertainty import Uncertainty
from momentmix.fitting.moments.candidates import draw_candidates, shows_rank
from momentmix.fitting.moments.conditions import Conditions, build_conditions
from momentmix.fitting.moments.pool import answer_from_pool
from momentmix.fitting.moments.splits import best_merge, best_splits, few_conditions
from momentmix.fitting.moments.spread import resolvable
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.moments.steps import Bounds, Efficient, efficient_polish, parameter_bounds
from momentmix.fitting.moments.whitening import Whitening
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks, spread_of
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VARIANCE_FLOOR, Structure
from momentmix.progress import detail

_HIGHEST_PLAIN = 4  # orders that take part in selection and polish; candidates may use more
_SURE_REJECTION = 1e-12  # of one component fewer, by a quick fit: a full one would be rejected too
_DRAWS_PER_ROUND = 12  # partitions: of one alone the loss is 16 times as large (docs/method.md)
_FIRST_ROUNDS = 1  # of efficient steps, to compare options
# Of the last steps: by parameter, and at most. Where features are joined a step takes a second or
# two; else 1500 for 465 parameters, where the test has 1150, lower the loss by 40 %.
_LAST_CONDITIONS, _LAST_JOINED = (3, 2400), (16, 6000)
_LARGE = 2000  # parameters from which a round takes most of a minute: one only


class Effort(NamedTuple):
    """Rounds until the test accepts an answer, and rounds of efficient steps from the best one."""

    max_rounds: int
    last_rounds: int = 0


ANSWER = Effort(3, 2)
SMALLER = Effort(2)  # one component less, to compare with: most often it fits badly
FIRST_LOOK = Effort(1)  # of a number that the rank of the moments rejects


@dataclass(frozen=True)
class MomentFit:
    """The answer from moments, in standardized features.

    `raw` is as polished; `parameters`, and the uncertainty about them, have variances raised to
    what the moments can resolve. `fewer` has one component less, where the search needed it. The
    rank of the moments shows all components of one that `is_needed`.
    """

    parameters: Parameters
    raw: Parameters
    uncertainty: Uncertainty
    fewer: MomentFit | None = None
    is_needed: bool = False

    def check(
        self, moments: StandardMoments, rng: np.random.Generator, correlations: bool = False
    ) -> OverIdentification:
        """The test of the raw answer."""
        return check_conditions(moments, self.raw, rng, correlations=correlations)


def one_component(moments: StandardMoments, blocks: Blocks | None = None) -> Parameters:
    """One component in closed form: mean 0, variance 1, covariances of all rows within blocks."""
    mean = moments.orders[1][None, :]
    blocks = blocks or moments.alone
    if blocks.is_diagonal:
        variance = np.maximum(moments.squared[0][:, 0] - mean[0] ** 2, VARIANCE_FLOOR)
        return Parameters(np.ones(1), mean, variance[None, :])
    spread = spread_of(moments.total_covariance[None], blocks)
    start = Parameters(np.ones(1), mean, np.ones_like(mean), None, blocks).with_spread(spread)
    return moments.structure(blocks).raised(start)


def fit_moments(
    moments: StandardMoments,
    n_components: int,
    context: FitContext,
    effort: Effort = ANSWER,
    blocks: Blocks | None = None,
    parent: Parameters | None = None,
    is_needed: bool = False,
) -> MomentFit:
    """Fit weights, means, variances and covariances within blocks to moments alone.

    The components of `parent`, an answer with one component less, may be split; it is made where
    needed. With `is_needed`, the rank of the moments shows so many components: then partitions
    determine the means, and splits are tried only if that answer is not accepted.
    """
    structure = moments.structure(blocks)
    if n_components == 1:
        p = one_component(moments, structure.blocks)
        conditions = build_conditions(moments, 1 if structure.is_diagonal else 2, 0).without_sum
        found = Efficient(p, Whitening(conditions, p), moments.n_effective)
        return MomentFit(p, p, found.uncertainty)
    search = _MomentSearch(moments, n_components, context, structure, parent, is_needed)
    return search.run(effort)


class _Tried(NamedTuple):
    """An answer, its test, and its criterion.

    The criterion is −2 log of the moments' normal density: the statistic and the log-determinant of
    its covariance. The statistic alone prefers mixtures with heavy tails and large covariances.
    """

    efficient: Efficient
    test: OverIdentification
    criterion: float

    @property
    def is_accepted(self) -> bool:
        """Return whether the moments do not reject it."""
        return not self.test.testable or self.test.p_value >= LEAST_P_VALUE


class _MomentSearch:
    """Answers that were tried, and what all of them are made with."""

    def __init__(
        self,
        moments: StandardMoments,
        n_components: int,
        context: FitContext,
        structure: Structure,
        parent: Parameters | None,
        is_needed: bool,
    ) -> None:
        self.moments, self.context = moments, context
        self.parent, self.is_needed, self.is_asked = parent, is_needed, False
        self.structure, self.rng = structure, context.rng
        self.r, d = n_components, moments.n_features
        self.blocks = structure.blocks or moments.alone
        self.n_parameters = n_components * self.blocks.n_parameters
        # Conditions: time is bounded, parameters over-determined.
        limit = max(4000, 4 * self.n_parameters)
        self.plain = build_conditions(
            moments, _HIGHEST_PLAIN, limit=limit, rng=self.rng, blocks=self.blocks
        )
        full = build_conditions(moments, _HIGHEST_PLAIN, 2, limit, self.rng, HIGHEST_POWER)
        self.full = full.without_sum
        self.tested = choose_conditions(moments, n_components, self.rng, self.blocks)
        self.bounds = parameter_bounds(moments, structure, n_components)
        self.pool, self.tried, self.n_rounds = np.zeros((0, d)), list[_Tried](), 0

    def run(self, effort: Effort) -> MomentFit:
        """Rounds of partitions, the second one of splits, until an answer is accepted."""
        rounds = effort.max_rounds if self.n_parameters < _LARGE else 1
        while self.n_rounds < rounds and not self.is_settled:
            detail(f"{self.r} components, round {self.n_rounds + 1}")
            for p in self.splits() if self.n_rounds == 1 else [self.from_partitions()]:
                self.tried.append(self.tested_answer(p, self.bounds))
            self.n_rounds += 1
        # By criterion: costs in units of different noises do not compare.
        best = min(self.tried, key=lambda option: option.criterion)
        if not effort.last_rounds:
            return self.fit_of(best.efficient)
        detail(f"{self.r} components, last steps")
        # The support of the number rests on an answer with one component less.
        fewer = self.fewer if self.parent is None and not self.rank_shows else None
        return self.fit_of(self.last_steps(best.efficient, effort), fewer)

    @property
    def is_settled(self) -> bool:
        """Whether no further round is needed.

        Unless the rank shows the number, splits are tried in any case: moments may fit more than
        one mixture.
        """
        is_early = self.n_rounds == 1 and not self.rank_shows
        return not is_early and self.accepted is not None

    @property
    def accepted(self) -> Parameters | None:
        """The most likely answer that the moments accept."""
        options = [option for option in self.tried if option.is_accepted]
        best = min(options, key=lambda option: option.criterion, default=None)
        return None if best is None else best.efficient.parameters

    @property
    def rank_shows(self) -> bool:
        """Whether the rank of the moments shows so many components."""
        accepted = self.accepted
        if not self.is_needed and not self.is_asked and accepted is not None:
            self.is_asked = True
            self.is_needed = shows_rank(self.moments, accepted, self.rng, self.blocks)
        return self.is_needed

    def from_partitions(self) -> Parameters:
        """Return an answer from the means that all partitions so far propose."""
        moments, r, rng = self.moments, self.r, self.rng
        drawn = draw_candidates(moments, r, _DRAWS_PER_ROUND, rng, self.blocks)
        self.pool = np.concatenate([self.pool, drawn])
        best = min(self.tried, key=lambda option: option.criterion, default=None)
        previous = None if best is None else best.efficient.parameters
        polished = answer_from_pool(
            moments, self.plain, self.full, self.pool, self.bounds, r, rng, previous
        )
        self.pool = np.concatenate([self.pool, polished.means])
        return polished

    def splits(self) -> list[Parameters]:
        """The best splits of an answer with one component less."""
        parent = self.fewer.raw if self.parent is None else self.parent
        threads = self.context.n_threads
        return best_splits(self.moments, self.few, parent, self.bounds, self.accepted, threads)

    @lazy_property
    def few(self) -> Conditions:
        """Conditions that compare starts."""
        return few_conditions(self.moments, self.rng)

    @lazy_property
    def fewer(self) -> MomentFit:
        """An answer with one component less.

        If an answer is accepted, that is the best merge of two of its components. Unless the test
        clearly rejects it, an answer of partitions and splits takes its place.
        """
        moments, accepted = self.moments, self.accepted
        if self.r > 2 and accepted is not None:
            bounds = parameter_bounds(moments, self.structure, self.r - 1)
            tried = self.tested_answer(best_merge(self.few, accepted, bounds), bounds)
            if tried.test.testable and tried.test.p_value < _SURE_REJECTION:
                return self.fit_of(tried.efficient)
        return fit_moments(moments, self.r - 1, self.context, SMALLER, self.blocks)

    def tested_answer(self, p: Parameters, bounds: Bounds) -> _Tried:
        """Return an answer with its test after efficient steps."""
        n = self.moments.n_effective
        efficient = efficient_polish(self.tested, p, bounds, n, _FIRST_ROUNDS)
        p, whitening = efficient.parameters, efficient.whitening
        test = check_conditions(self.moments, p, self.rng, False, False, self.tested, whitening)
        return _Tried(efficient, test, test.statistic + whitening.log_determinant)

    def last_steps(self, found: Efficient, effort: Effort) -> Efficient:
        """Return the answer after the last steps, with the conditions of the test or more of them.

        A covariance within a block occurs in few conditions: those of the test would not determine
        it as well as the moments can. With more of them further rounds change the third digit of
        the errors.
        """
        n, bounds, p = self.moments.n_effective, self.bounds, found.parameters
        conditions = self.last_conditions()
        if conditions.size > self.tested.size:
            return efficient_polish(conditions, p, bounds, n, 1)
        return efficient_polish(self.tested, p, bounds, n, effort.last_rounds, found.whitening)

    def last_conditions(self) -> Conditions:
        """More conditions; where features are joined, of degree up to 3 and of few blocks first."""
        by_parameter, most = _LAST_JOINED if self.blocks.joined else _LAST_CONDITIONS
        limit = min(by_parameter * self.n_parameters, most)
        highest = (4, 2) if self.moments.n_effective >= ORDER_4_FROM else (3, 1)
        if not self.blocks.joined:
            args = *highest, limit, self.rng, HIGHEST_POWER
            return build_conditions(self.moments, *args).without_sum
        conditions = build_conditions(self.moments, *highest, highest_power=HIGHEST_POWER)
        owners = np.sort(np.append(self.blocks.block_of, -1)[conditions.slots], axis=1)
        n_blocks = (np.diff(owners, axis=1) > 0).sum(axis=1) + (owners[:, 0] >= 0)
        is_low = conditions.slot_exponents.sum(axis=1) <= 3
        order = np.where(is_low, 0, n_blocks) + self.rng.uniform(size=conditions.size)
        return conditions.subset(np.sort(np.argsort(order, kind="stable")[:limit])).without_sum

    def fit_of(self, found: Efficient, fewer: MomentFit | None = None) -> MomentFit:
        """The fit with variances that the moments can resolve."""
        raw, uncertainty = found.parameters, found.uncertainty
        answer = resolvable(raw, uncertainty, self.structure)
        uncertainty = replace(uncertainty, estimate=answer)
        return MomentFit(answer, raw, uncertainty, fewer, self.is_needed)

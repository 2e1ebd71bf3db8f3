"""Which columns to join, from rows: blocks of least BIC.

| symbol | name here | shape |
|---|---|---|
| γ_i(z) of a mixture, S_i = Σ_z γ_i (z − μ_i)(z − μ_i)ᵀ / Σ_z γ_i | ``within`` | (r, d, d) |
| n/2 Σ_i ω_i (log det S_A + log det S_B − log det S_AB) − ½ r·a·b·log n | gain of joining A, B | |

The gain is that of the likelihood if the shares of the rows stay as they are, less the price of the
covariances by BIC. Blocks are joined, the largest gain first, while there is one. Shares of a
diagonal mixture may be wrong where columns are correlated, those of full covariances where rows are
few: both are tried, EM goes on from each proposal, and BIC of the mixtures themselves decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, nan
from typing import Literal

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.automatic import Choice, bic, choose_by_likelihood, chosen
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext, structure_of
from momentmix.fitting.em.em import log_likelihood, settle
from momentmix.fitting.em.sample import Sample
from momentmix.fitting.em.search import Candidate, ranked_candidates
from momentmix.fitting.moment.moment_fit import one_component
from momentmix.fitting.outcome import Trial
from momentmix.mixture.blocks import Blocks, spread_of
from momentmix.mixture.density import statistics_of
from momentmix.mixture.gaussian import coefficients, m_step
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior

_STEPS = 60  # of EM from a proposal
_ROUNDS = 4  # of proposals: each begins with shares that know what was joined before
ROWS_PER_FULL_PARAMETER = 2  # with fewer rows full covariances are not tried
MOST_FULL_FEATURES = 60  # nor with more columns: their features do not fit the memory
MOST_MOVES = 6  # of the number of components after the blocks are found


@dataclass(frozen=True)
class Option:
    """A mixture of some blocks, its log-likelihood a row, and its BIC."""

    parameters: Parameters
    score: float
    bic: float

    @property
    def blocks(self) -> Blocks:
        """Its blocks."""
        blocks: Blocks = self.parameters.blocks
        return blocks

    @property
    def n_components(self) -> int:
        """Its number of components."""
        return self.parameters.n_components


def choose_blocks(
    sample: Sample,
    moments: StandardMoments,
    n_components: int | Literal["auto"],
    context: FitContext,
) -> Choice:
    """Blocks of least BIC, and the number of components too where it is to be found."""
    d, n = moments.n_features, moments.n_rows
    search = BlockSearch(sample, moments, context)
    r = 2 if n_components == "auto" else n_components
    kinds = [Blocks(d)]
    n_full = r * (1 + d + d * (d + 1) // 2)
    if 1 < d <= MOST_FULL_FEATURES and n >= ROWS_PER_FULL_PARAMETER * n_full:
        kinds.append(Blocks.full(d))
    for blocks in kinds:
        known: Choice | None = None
        if n_components == "auto":
            known = choose_by_likelihood(sample.of_blocks(blocks), n, moments, context)
            search.trials += known.tried
        with context.clock.stage("full blocks" if blocks.is_full else "diagonal blocks"):
            start = search.start(r if known is None else known.n_components, blocks, known)
            search.improve(start)
    with context.clock.stage("blocks"):
        if n_components == "auto":
            search.move()
        best = search.best
        candidates = search.searched(best.n_components, best.blocks)
    return Choice(
        best.n_components,
        search.note(n_components == "auto", moments),
        search.tried() if n_components == "auto" else (),
        candidates,
        best.blocks,
    )


class BlockSearch:
    """Mixtures of different blocks, by BIC.

    Parameters
    ----------
    sample : Sample
    moments : StandardMoments
        Of all rows, which BIC counts.
    context : FitContext
    """

    def __init__(self, sample: Sample, moments: StandardMoments, context: FitContext) -> None:
        self.sample, self.moments, self.context = sample, moments, context
        self.options: dict[tuple[int, Blocks], Option] = {}
        self.candidates: dict[tuple[int, Blocks], list[Candidate]] = {}
        self.trials: tuple[Trial, ...] = ()

    @property
    def best(self) -> Option:
        """The option of least BIC."""
        return min(self.options.values(), key=lambda option: option.bic)

    def add(self, parameters: Parameters) -> Option:
        """Price a mixture; of two with the same blocks and components the better one stays."""
        sample = self.sample.of_blocks(parameters.blocks)
        score = log_likelihood(sample.judges, parameters)
        option = Option(parameters, score, bic(parameters, self.moments.n_rows, score))
        key = (option.n_components, option.blocks)
        if key not in self.options or option.bic < self.options[key].bic:
            self.options[key] = option
        return self.options[key]

    def start(self, n_components: int, blocks: Blocks, known: Choice | None) -> Option:
        """The best mixture of some blocks by a full search, or as it is known from one."""
        if n_components == 1:
            floor = self.context.variance_floor
            return self.add(one_component(self.moments, floor, blocks))
        if known is not None and known.candidates:
            self.candidates[n_components, blocks] = list(known.candidates)
        return self.add(self.searched(n_components, blocks)[0].parameters)

    def searched(self, n_components: int, blocks: Blocks) -> list[Candidate]:
        """Candidates of a full search, in which the mixture that is known competes; made once."""
        key, context = (n_components, blocks), self.context
        if n_components == 1:
            return []
        if key not in self.candidates:
            known = self.options[key].parameters if key in self.options else None
            self.candidates[key] = ranked_candidates(
                self.sample.of_blocks(blocks), None, n_components,
                structure_of(self.moments, blocks, context), context.rng, context.n_threads, known,
            )  # fmt: skip
        return self.candidates[key]

    def improve(self, start: Option) -> None:
        """Join what pays by the shares of a mixture, and go on from there."""
        for _ in range(_ROUNDS):
            within = within_components(self.sample, start.parameters)
            n = self.sample.features.shape[1]
            blocks = paying_blocks(start.parameters.weights, within, n)
            if (start.n_components, blocks) in self.options:
                break
            start = self.add(self.settled(start.parameters, within, blocks))

    def settled(self, parameters: Parameters, within: Float, blocks: Blocks) -> Parameters:
        """EM from a mixture with other blocks, whose covariances are those of its own shares."""
        structure = structure_of(self.moments, blocks, self.context)
        moved = replace(parameters, covariances=None, blocks=blocks)
        moved = structure.raised(moved.with_spread(spread_of(within, blocks)))
        features = self.sample.of_blocks(blocks).features
        prior = VariancePrior.of_rows(features.shape[1], moved.n_components, structure)
        return settle(features, moved[None], prior, _STEPS, self.context.n_threads)[0][0]

    def move(self) -> None:
        """One component more or less with the same blocks, while BIC falls."""
        for _ in range(MOST_MOVES):
            best = self.best
            for r in (best.n_components - 1, best.n_components + 1):
                if r >= 1 and (r, best.blocks) not in self.options:
                    self.improve(self.start(r, best.blocks, None))
            if self.best is best:
                break

    def tried(self) -> tuple[Trial, ...]:
        """The least BIC of each number of components, whatever the blocks."""
        trials = dict[int, Trial]()
        own = [Trial(o.n_components, nan, o.score, o.bic, False) for o in self.options.values()]
        for trial in (*self.trials, *own):
            r = trial.n_components
            if r not in trials or trial.bic < trials[r].bic:
                trials[r] = trial
        return chosen(trials, self.best.n_components)

    def note(self, with_number: bool, moments: StandardMoments) -> str:
        """What was joined and why."""
        best = self.best
        groups = [[moments.column_label(j) for j in block] for block in best.blocks.joined]
        listed = ", ".join(f"[{', '.join(group)}]" for group in groups)
        text = f"blocks=[{listed}]: " if groups else "no columns joined: "
        d = moments.n_features
        others = {"diagonal": Blocks(d), "full covariances": Blocks.full(d)}
        compared = []
        for name, blocks in others.items():
            rivals = [o.bic for o in self.options.values() if o.blocks == blocks]
            if rivals and blocks != best.blocks:
                compared.append(f"{min(rivals) - best.bic:.0f} below {name}")
        text += "least BIC" + (f", {' and '.join(compared)}" if compared else "")
        return f"n_components={best.n_components}, {text}" if with_number else text


def within_components(sample: Sample, parameters: Parameters) -> Float:
    """Covariances of all pairs of features within components, of shape (r, d, d)."""
    p, full = parameters, Blocks.full(parameters.blocks.n_features)
    rows = sample.of_blocks(full)
    # The mixture as one of full covariances, so that the sums of all products are made.
    p = p.joined(full)
    statistics, _ = statistics_of(coefficients(p), rows.features, full)
    return m_step(statistics, VariancePrior(0.0, structure=_without_floor(full))).matrices


def _without_floor(blocks: Blocks) -> Structure:
    return Structure.of_total(1e-12, blocks, np.eye(blocks.n_features))


def paying_blocks(weights: Float, within: Float, n_rows: int) -> Blocks:
    """Blocks joined by the largest gain of BIC first, while there is one.

    Parameters
    ----------
    weights : array of shape (r,)
    within : array of shape (r, d, d)
        Covariances within components.
    n_rows : int
        Rows that they are estimated from.

    Examples
    --------
    >>> within = np.array([[[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    >>> paying_blocks(np.ones(1), within, 1000).joined
    ((0, 1),)
    """
    r, d = within.shape[:2]
    groups: list[tuple[int, ...]] = [(j,) for j in range(d)]
    volumes = {group: _volume(weights, within, group) for group in groups}

    def gain(first: tuple[int, ...], second: tuple[int, ...]) -> float:
        joint = tuple(sorted(first + second))
        if joint not in volumes:
            volumes[joint] = _volume(weights, within, joint)
        price: float = 0.5 * r * len(first) * len(second) * log(n_rows)
        return 0.5 * n_rows * (volumes[first] + volumes[second] - volumes[joint]) - price

    gains = {(a, b): gain(a, b) for i, a in enumerate(groups) for b in groups[i + 1 :]}
    while gains:
        (first, second), most = max(gains.items(), key=lambda item: item[1])
        if most <= 0:
            break
        joint = tuple(sorted(first + second))
        groups = [group for group in groups if group not in (first, second)]
        gains = {pair: value for pair, value in gains.items() if not {first, second} & set(pair)}
        gains.update({(group, joint): gain(group, joint) for group in groups})
        groups.append(joint)
    return Blocks.of(d, groups)


def _volume(weights: Float, within: Float, group: tuple[int, ...]) -> float:
    """Σ_i ω_i log det of some columns."""
    matrices = within[:, group][:, :, group]
    return float(weights @ np.linalg.slogdet(matrices)[1])

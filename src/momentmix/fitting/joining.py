"""Which columns to join, from rows: blocks of least BIC.

| symbol | name here | shape |
|---|---|---|
| γ_i(z) of a mixture, S_i = Σ_z γ_i (z − μ_i)(z − μ_i)ᵀ / Σ_z γ_i | ``within`` | (r, d, d) |
| n/2 Σ_i ω_i (log det S_A + log det S_B − log det S_AB) − ½ r·a·b·log n | gain of joining A, B | |

The gain is that of the likelihood if the shares of the rows stay as they are, less the price of the
covariances by BIC. It has to exceed the logarithm of the number of pairs of columns: with many of
them, some are correlated by chance. Blocks are joined, the largest gain first, while there is one.
Shares of a diagonal mixture may be wrong where columns are correlated, those of full covariances
where rows are few: both are tried, EM goes on from each proposal, and BIC of the mixtures
themselves decides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import log
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float, Int
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Sample, bic, joint_of, log_likelihood, settle
from momentmix.fitting.em.patterns import (
    MOST_PATTERNS,
    in_blocks,
    observed_covariances,
    observed_values,
)
from momentmix.fitting.em.search import Candidate, ranked_candidates, single_component
from momentmix.fitting.outcome import JoinedColumns
from momentmix.lazy import lazy_property
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.density import responsibilities
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.progress import detail
from momentmix.wording import option

_STEPS = 60  # of EM from a proposal, at most: it ends at rest, and 20 find the same blocks
_ROUNDS = 2  # of proposals: each begins with shares that know what was joined before
ROWS_PER_FULL_PARAMETER = 2  # with fewer rows full covariances are not tried
MOST_FULL_FEATURES = 60  # nor with more columns: their features do not fit the memory
_LEAST_VARIANCE = 1e-9  # of a standardized feature within a component


class Option(NamedTuple):
    """A mixture of some blocks, its log-likelihood a row, and its BIC."""

    parameters: Parameters
    score: float
    bic: float

    @property
    def key(self) -> tuple[int, Blocks]:
        """Number of components, and blocks."""
        return self.parameters.n_components, self.parameters.blocks


class BlockSearch:
    """Mixtures of different numbers and blocks, those that were asked for or any, by BIC."""

    def __init__(self, sample: Sample, context: FitContext, asked: Blocks | None = None) -> None:
        self.sample, self.moments, self.context = sample, sample.moments, context
        self.asked = asked
        self.options: dict[tuple[int, Blocks], Option] = {}
        self.candidates: dict[tuple[int, Blocks], list[Candidate]] = {}
        self.earlier: dict[tuple[int, Blocks], list[Candidate]] = {}  # of another prior
        values = (law.value_feature for law in sample.moments.laws)
        self.with_missing = {j for j in values if j is not None}

    # -- options ----------------------------------------------------------------------------------

    @lazy_property
    def full(self) -> Blocks:
        """All columns joined that may be."""
        joinable = tuple(self.moments.joinable.tolist())
        if not self.may_join(len(joinable), joinable):
            joinable = tuple(j for j in joinable if j not in self.with_missing)
        return self.moments.joined([joinable])

    def kinds(self, n_components: int) -> list[Blocks]:
        """Those asked for, or diagonal covariances and, where rows allow for them, full ones."""
        if self.asked is not None:
            return [self.asked]
        d, full = self.moments.n_features, self.full
        enough = ROWS_PER_FULL_PARAMETER * n_components * full.n_parameters
        is_full = full.joined and d <= MOST_FULL_FEATURES and self.moments.n_counted >= enough
        return [self.moments.alone, *([full] if is_full else [])]

    @property
    def numbers(self) -> set[int]:
        """Numbers of components of the options."""
        return {r for r, _ in self.options}

    def find(self, n_components: int | None = None) -> Option | None:
        """The option of least BIC, of a number of components or of all."""
        options = [o for (r, _), o in self.options.items() if n_components in (None, r)]
        return min(options, key=lambda option: option.bic, default=None)

    def best(self, n_components: int | None = None) -> Option:
        """As `find`, where there is one."""
        option = self.find(n_components)
        assert option is not None
        return option

    def add(self, parameters: Parameters) -> Option:
        """Price a mixture; of two with the same blocks and components the better one stays."""
        option = self.priced(parameters)
        known = self.options.get(option.key, option)
        self.options[option.key] = option if option.bic < known.bic else known
        return self.options[option.key]

    def priced(self, p: Parameters) -> Option:
        """A mixture with its likelihood and BIC."""
        score = log_likelihood(self.sample.of_blocks(p.blocks).judges, p)
        return Option(p, score, bic(p, self.moments.n_counted, score))

    def start(self, n_components: int, blocks: Blocks) -> Option:
        """The best mixture of some blocks by a full search."""
        return self.add(self.searched(n_components, blocks)[0].parameters)

    def searched(self, n_components: int, blocks: Blocks) -> list[Candidate]:
        """Candidates of a full search, in which the mixture that is known competes; made once."""
        key = (n_components, blocks)
        if key not in self.candidates:
            detail(f"{n_components} components")
            if n_components == 1:
                single = single_component(self.sample, blocks, self.context)
                found = [Candidate("closed form", single, 0.0)]
            else:
                known = self.options[key].parameters if key in self.options else None
                sample = self.sample.of_blocks(blocks)
                earlier = self.earlier.get(key, ())
                found = ranked_candidates(sample, n_components, self.context, known, earlier)
            self.candidates[key] = found
        return self.candidates[key]

    # -- blocks -----------------------------------------------------------------------------------

    def improve(self, start: Option) -> Option:
        """Join what pays by the shares of a mixture, and go on from there; the best option."""
        for _ in range(_ROUNDS if self.asked is None else 0):
            p, within = start.parameters, within_components(self.sample, start.parameters)
            blocks = self.paying(p, within)
            if (p.n_components, blocks) in self.options:
                break
            start = self.add(self.settled(p, within, blocks))
        return self.best(start.parameters.n_components)

    def paying(self, parameters: Parameters, within: Float) -> Blocks:
        """Blocks that pay, of no more columns than the rows of the components can bear."""
        widest = self.moments.n_counted // parameters.n_components - 1
        groups = paying_groups(
            parameters.weights, within, self.sample.features.shape[1],
            partial(self.may_join, widest), self.moments.joinable,
        )  # fmt: skip
        return self.moments.joined(groups)

    def may_join(self, widest: int, group: tuple[int, ...]) -> bool:
        """Whether a block has few enough columns, and patterns of missing cells."""
        missing = sorted(self.with_missing.intersection(group))
        if len(group) > widest or not missing:
            return len(group) <= widest
        rows = self.sample.of_blocks(self.moments.alone).features
        observed = observed_values(rows, self.moments, np.array(missing))
        n_patterns = len(np.unique(observed, axis=1).T)
        return n_patterns <= MOST_PATTERNS and bool((observed @ observed.T).min() > 2 * len(group))

    def settled(self, parameters: Parameters, within: Float, blocks: Blocks) -> Parameters:
        """EM from a mixture with other blocks, whose covariances are those of its own shares."""
        structure = self.moments.structure(blocks)
        moved = structure.raised(in_blocks(parameters, blocks, within))
        features = self.sample.of_blocks(blocks).features
        prior = VariancePrior.of_rows(features.shape[1], moved.n_components, structure)
        return settle(features, moved[None], prior, _STEPS, self.context.n_threads)[0][0]

    def pooled(self, p: Parameters) -> Float:
        """The covariance pooled within components, (d, d)."""
        return np.asarray(np.tensordot(p.weights, within_components(self.sample, p), 1))

    def around(self, within: Float) -> BlockSearch:
        """A new search with a prior around a covariance within components."""
        search = BlockSearch(self.sample.around(within), self.context, self.asked)
        search.earlier = self.candidates
        return search

    # -- words ------------------------------------------------------------------------------------

    def joined(self, n_components: int) -> tuple[JoinedColumns, ...]:
        """The blocks of the best option, and what BIC says of each."""
        p, n = self.best(n_components).parameters, self.moments.n_counted
        if p.blocks.is_diagonal or self.asked is not None:
            return ()
        within = within_components(self.sample, p)
        found = []
        for group in p.blocks.joined:
            apart = sum(_volume(p.weights, within, (j,)) for j in group)
            n_pairs = len(group) * (len(group) - 1) // 2
            gain = n * (apart - _volume(p.weights, within, group))
            columns = tuple(self.moments.columns[list(group)].tolist())
            gain -= p.n_components * n_pairs * log(n)
            found.append(JoinedColumns(columns, f"BIC falls by {gain:.0f}"))
        return tuple(found)

    def note(self, n_components: int) -> str:
        """The blocks that were joined, and why; empty where they were asked for."""
        if self.asked is not None:
            return ""
        blocks, text = self.best(n_components).parameters.blocks, "no columns joined"
        if blocks == self.full and len(blocks.joined) == 1:
            text = option(blocks="full")
        elif blocks.joined:
            text = option(blocks=[self.moments.columns_of(block) for block in blocks.joined])
        return f"{text}: least BIC"


def within_components(sample: Sample, parameters: Parameters) -> Float:
    """Covariances of all pairs of features within components, of shape (r, d, d)."""
    features = sample.of_blocks(parameters.blocks).features
    shares, _ = responsibilities(joint_of(features, parameters))
    within = observed_covariances(features, sample.moments, shares)
    if all(law.value_feature is None for law in sample.moments.laws):
        # Columns that are constant within a component have logarithms too.
        return np.asarray(within + _LEAST_VARIANCE * np.eye(within.shape[1]))
    eigenvalues, vectors = np.linalg.eigh(within)  # not all from the same rows
    eigenvalues = np.maximum(eigenvalues, _LEAST_VARIANCE)[:, None]
    return np.asarray((vectors * eigenvalues) @ vectors.swapaxes(1, 2))


def paying_groups(
    weights: Float,
    within: Float,
    n_rows: int,
    may_join: Callable[[tuple[int, ...]], bool] = lambda group: True,
    joinable: Int | None = None,
) -> list[tuple[int, ...]]:
    """Groups of features joined by the largest gain first, while there is one.

    `within` are covariances within components, (r, d, d), estimated from `n_rows` rows.

    Examples
    --------
    >>> within = np.array([[[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]])
    >>> paying_groups(np.ones(1), within, 1000)
    [(2,), (0, 1)]
    """
    r, d = within.shape[:2]
    price = 0.5 * log(n_rows)  # of a covariance in nats
    least = log(max(1, d * (d - 1) // 2))
    single = np.arange(d) if joinable is None else joinable
    groups: list[tuple[int, ...]] = [(int(j),) for j in single]
    volumes = {group: _volume(weights, within, group) for group in groups}
    pairs = single[np.stack(np.triu_indices(single.size, 1), axis=1)]
    found = weights @ _log_determinants(within[:, pairs[:, :, None], pairs[:, None, :]])
    volumes.update(zip(map(tuple, pairs.tolist()), found.tolist(), strict=True))

    def gain(first: tuple[int, ...], second: tuple[int, ...]) -> float:
        joint = tuple(sorted(first + second))
        if joint not in volumes:
            volumes[joint] = _volume(weights, within, joint)
        gained = 0.5 * n_rows * (volumes[first] + volumes[second] - volumes[joint])
        return float(gained - price * r * len(first) * len(second))

    gains = {(a, b): gain(a, b) for i, a in enumerate(groups) for b in groups[i + 1 :]}
    gains = {pair: value for pair, value in gains.items() if value > least}
    while gains:
        first, second = max(gains, key=lambda pair: gains[pair])
        joint = tuple(sorted(first + second))
        if not may_join(joint):
            del gains[first, second]
            continue
        groups = [group for group in groups if group not in (first, second)]
        gains = {pair: value for pair, value in gains.items() if not {first, second} & set(pair)}
        new = {(group, joint): gain(group, joint) for group in groups}
        gains.update({pair: value for pair, value in new.items() if value > least})
        groups.append(joint)
    return groups


def _volume(weights: Float, within: Float, group: tuple[int, ...]) -> float:
    """Σ_i ω_i log det of some columns."""
    return float(weights @ _log_determinants(within[:, group][:, :, group]))


def _log_determinants(matrices: Float) -> Float:
    return np.asarray(np.linalg.slogdet(matrices)[1])

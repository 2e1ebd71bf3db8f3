"""From rows: candidates compete on a sample, then a few EM passes over all rows.

| paper symbol | name here | shape |
|---|---|---|
| rows to work on, and to judge by | ``Sample.features``, ``Sample.judges`` | (2d + 1, n) |
| log-likelihood per row of standardised features | ``Candidate.score`` | scalar |

Short EM runs from k-means++ seeds and from random responsibilities, the moment answer, and the pool
of all their components are candidates; the best by likelihood goes on. With many rows, candidates
are made on a sample and judged on other rows; with few, on all rows, and likelihood on the same
rows is compared (every candidate has the same number of parameters).

Differs from the paper: the paper ends at the moment answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix.fitting.conditions.conditions import Parameters
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.device_em import DeviceRows
from momentmix.fitting.em.em import Batch, em_pass, features_of, log_likelihoods, m_step, run_batch
from momentmix.fitting.em.pooling import merge_copies, pool_components, pool_weights, reduce_pool
from momentmix.fitting.em.repair import repair
from momentmix.fitting.em.scores import (
    information_matrix,
    mean_score,
    scoring_step,
    settle_floored,
)
from momentmix.fitting.em.starts import random_starts, seeded_starts
from momentmix.parallel import few_threads
from momentmix.rows.protocol import ArrayRows, RemoteRows, RowBlocks

Float = NDArray[np.float64]

__all__ = [
    "Candidate",
    "Refined",
    "Sample",
    "best_candidate",
    "draw_sample",
    "full_passes",
    "information_rows",
]

ALL_ROWS_BELOW = 20000  # with fewer rows, candidates are made on all of them
SHORT_ROWS = 8000
_SHORT_STEPS = 30
_FIRST_STARTS = 4
_FURTHER_ROUNDS = 2
_SMALL = 4000


class Sample(NamedTuple):
    """Standardised rows in memory, as (z, z², 1)."""

    features: Float
    judges: Float
    is_all: bool


@dataclass(frozen=True)
class Candidate:
    """A start for the full passes and its likelihood per row on the judging rows."""

    name: str
    parameters: Parameters
    score: float


@dataclass(frozen=True)
class Refined:
    """Parameters after the passes, and how they went."""

    parameters: Parameters
    log_likelihood: float
    n_passes: int
    converged: bool
    gains: list[float]


def draw_sample(rows: RowBlocks, moments: StandardMoments, rng: np.random.Generator) -> Sample:
    """All rows if they are few; otherwise one sample to work on and one to judge by.

    Few rows are sorted before they are shuffled, so that the order they come in does not matter.
    """
    n = rows.n_rows
    wanted = n if n <= ALL_ROWS_BELOW else min(2 * ALL_ROWS_BELOW, n)
    places = np.arange(n) if wanted == n else np.sort(rng.choice(n, size=wanted, replace=False))
    standard = _standard_rows(rows, moments, places)
    if n <= ALL_ROWS_BELOW:
        standard = standard[np.lexsort(standard.T)]
    standard = standard[rng.permutation(wanted)]
    if n <= ALL_ROWS_BELOW:
        features = features_of(standard)
        return Sample(features, features, True)
    work = features_of(standard[: wanted // 2])
    return Sample(work, features_of(standard[wanted // 2 :]), False)


def _standard_rows(rows: RowBlocks, moments: StandardMoments, places: NDArray[np.int64]) -> Float:
    """Rows with these numbers, as standardised features."""
    chosen = _take(rows, places)
    if moments.n_features < chosen.shape[1]:
        chosen = chosen[:, moments.columns]
    return np.asarray((chosen - moments.shift) * (1.0 / moments.scale))


def _take(rows: RowBlocks, places: NDArray[np.int64]) -> Float:
    if isinstance(rows, ArrayRows):
        return np.asarray(rows.rows[places], dtype=np.float64)
    if isinstance(rows, RemoteRows | DeviceRows):
        return rows.take(places)
    parts, start = [], 0
    for block in rows.blocks():
        first, last = np.searchsorted(places, [start, start + block.shape[0]])
        parts.append(block[places[first:last] - start])
        start += block.shape[0]
    return np.concatenate(parts)


def best_candidate(
    sample: Sample,
    moment_answer: Parameters | None,
    n_components: int,
    floor: Float,
    rng: np.random.Generator,
    n_threads: int = 1,
) -> list[Candidate]:
    """Candidates for the full passes, best first.

    A first few starts come before the rest: when the best of them is found again by another
    candidate (or by the moments), further starts would find it once more, and are left out.
    """
    search = _Search(sample, moment_answer, n_components, floor, rng, n_threads)
    with few_threads(True):
        search.add_starts(_FIRST_STARTS)
        search.compete()
        if sample.features.shape[1] < _SMALL:
            # Few rows mean many local optima, and starts that cost next to nothing.
            search.add_starts(search.affordable_starts())
            search.compete()
        for _ in range(_FURTHER_ROUNDS):
            if search.is_settled():
                break
            search.add_starts(_FIRST_STARTS)
            search.compete()
        search.repair()
    return search.judged()


class _Search:
    """Parts found so far, and the candidates made of them."""

    def __init__(
        self,
        sample: Sample,
        moment_answer: Parameters | None,
        n_components: int,
        floor: Float,
        rng: np.random.Generator,
        n_threads: int,
    ) -> None:
        self.sample, self.floor, self.rng, self.n_threads = sample, floor, rng, n_threads
        self.moment_answer, self.n_components = moment_answer, n_components
        self.short = sample.features if sample.is_all else sample.features[:, :SHORT_ROWS]
        self.max_steps = 400 if sample.is_all else 40
        self.parts: list[Parameters] = []
        self.names: list[str] = []
        self.going: dict[str, Parameters] = {}

    def affordable_starts(self) -> int:
        """Further starts of each kind: more where they are cheap."""
        cost = self.short.shape[1] * self.n_components
        return int(np.clip(2_000_000 // cost, 4, 48))

    def add_starts(self, n_starts: int) -> None:
        """Short EM runs from both kinds of start."""
        arguments = (self.short, self.n_components, n_starts, self.floor, self.rng)
        for name, make in (("k-means++", seeded_starts), ("random", random_starts)):
            start = make(*arguments)
            batch, _ = run_batch(self.short, start, self.floor, _SHORT_STEPS, self.n_threads)
            self.parts += [batch.one(k) for k in range(n_starts)]
            first = sum(n.startswith(name) for n in self.names)
            self.names += [f"{name} start {first + k + 1}" for k in range(n_starts)]

    def pool(self) -> Parameters:
        """Components of every part, the moment answer's included."""
        extra = [] if self.moment_answer is None else [self.moment_answer]
        return pool_components(self.parts + extra)

    def compete(self) -> None:
        """EM on the sample from the best parts, the pool and the moments."""
        features, r = self.sample.features, self.n_components
        pool = merge_copies(self.pool())
        weighted = pool_weights(_thin(self.short, pool), pool)
        scores = log_likelihoods(features, _batch(self.parts))
        best = np.argsort(-scores)[: 6 if self.sample.is_all else 2]
        new = {self.names[k]: self.parts[k] for k in best if self.names[k] not in self.going}
        new[f"pool of {len(self.parts)} starts"] = reduce_pool(self.short, weighted, r, self.floor)
        if self.moment_answer is not None and "moments" not in self.going:
            new["moments"] = self.moment_answer
        filled = [_padded(p, r, features, self.rng) for p in new.values()]
        settled = self.converge(filled)
        self.going.update({name: settled.one(k) for k, name in enumerate(new)})

    def is_settled(self) -> bool:
        """Whether two candidates agree on the best likelihood."""
        scores = [c.score for c in self.judged()]
        return len(scores) > 1 and scores[1] > scores[0] - 1e-3

    def repair(self) -> None:
        """Swap components of the leader for ones of the pool."""
        leader = self.judged()[0]
        pool = merge_copies(self.pool())
        fixed, swaps = repair(
            _thin(self.short, pool),
            leader.parameters,
            pool,
            self.floor,
            self.n_components,
            self.rng,
            n_threads=self.n_threads,
        )
        if swaps:
            one = self.converge([fixed])
            plural = "s" if swaps > 1 else ""
            self.going[f"{leader.name}, {swaps} component{plural} swapped"] = one.one(0)

    def converge(self, options: list[Parameters]) -> Batch:
        """EM on the sample to its end."""
        features, floor, steps = self.sample.features, self.floor, self.max_steps
        return _converge(features, _batch(options), floor, steps, self.n_threads)

    def judged(self) -> list[Candidate]:
        """All candidates with their likelihood on the judging rows, best first."""
        options = dict(self.going)
        if self.moment_answer is not None and not self.sample.is_all:
            # Moments of all rows may know more than EM on a sample: the bare answer competes too.
            options["moments, before EM"] = self.moment_answer
        scores = log_likelihoods(self.sample.judges, _batch(list(options.values())))
        pairs = zip(options.items(), scores, strict=True)
        found = [Candidate(name, p, float(score)) for (name, p), score in pairs]
        return sorted(found, key=lambda c: -c.score)


def _batch(options: list[Parameters]) -> Batch:
    return Batch(
        np.array([p.weights for p in options]),
        np.array([p.means for p in options]),
        np.array([p.variances for p in options]),
    )


def _thin(features: Float, pool: Parameters) -> Float:
    """Fewer rows for a large pool: the table of densities is held whole."""
    return features[:, : max(2000, 6_000_000 // pool.n_components)]


def _padded(p: Parameters, r: int, features: Float, rng: np.random.Generator) -> Parameters:
    """Fill up to r components with light ones at random rows."""
    missing = r - p.n_components
    if missing <= 0:
        return p
    d = p.means.shape[1]
    places = rng.integers(features.shape[1], size=missing)
    weights = np.append(p.weights, np.full(missing, 1.0 / features.shape[1]))
    variances = np.tile(p.weights @ p.variances, (missing, 1))
    return Parameters(
        weights / weights.sum(),
        np.concatenate([p.means, features[:d, places].T]),
        np.concatenate([p.variances, variances]),
    )


def _converge(features: Float, batch: Batch, floor: Float, max_steps: int, n_threads: int) -> Batch:
    """EM in rounds of five steps; mixtures that rest, or cannot catch up, are taken out."""
    k = batch.weights.shape[0]
    arrays = [np.array(x) for x in batch]
    active, last = np.arange(k), np.full(k, -np.inf)
    for _ in range(0, max_steps, 5):
        going = Batch(*(x[active] for x in arrays))
        part, logs = run_batch(features, going, floor, 5, n_threads)
        for into, new in zip(arrays, part, strict=True):
            into[active] = new
        gains = logs - last[active]
        last[active] = logs
        in_reach = logs + 20.0 * gains >= last.max()
        active = active[(gains > 5e-5) & in_reach]
        if not active.size:
            break
    return Batch(*arrays)


def full_passes(
    rows: RowBlocks,
    moments: StandardMoments,
    start: Parameters,
    sample: Sample,
    floor: Float,
    max_passes: int,
    n_threads: int,
    scoring_first: bool = False,
) -> Refined:
    """Passes over all rows until the likelihood has no more to give than noise.

    The likelihoods at the truth and at its maximum differ by n_parameters / (2 N) nats a row; a
    pass that gains less than 2 % of that, and less than 1e-5, changes nothing that the rows can
    tell. Each pass gives an EM step and, with the information matrix of a sample, a scoring step.
    Where components are apart EM needs two or three passes; where they overlap it is slow, and
    scoring steps take over (at once with `scoring_first`). Where a scoring step lowered the
    likelihood, the EM step from the point before it is taken instead, and EM goes on alone.
    """
    n_parameters = start.flat().size - 1
    least = min(1e-5, 0.02 * n_parameters / (2 * rows.n_rows))
    features = _information_rows(sample, n_parameters)
    scoring = True
    current, fallback, last = start, start, -np.inf
    gains: list[float] = []
    for count in range(1, max_passes + 1):
        done = em_pass(rows, moments, current, n_threads)
        value = done.log_likelihood / done.n_rows
        if value < last - 1e-12 * abs(last):  # the scoring step failed: back, and EM from now on
            current, scoring = fallback, False
            continue
        if np.isfinite(last):
            gains.append(value - last)
        last = value
        fallback = Parameters(*m_step(done.statistics, floor))
        if gains and gains[-1] < least:
            return Refined(fallback, value, count, True, gains)
        slow = len(gains) > 1 and gains[-1] > 0.25 * gains[-2]
        if features is not None and scoring and (slow or scoring_first):
            with few_threads(True):
                information = information_matrix(features, current, n_threads)
                settle_floored(information, current, floor)
                score = mean_score(done.statistics, current)
                current, predicted = scoring_step(current, score, information, floor)
            if predicted < 0.5 * least:
                return Refined(fallback, value, count, True, gains)
        else:
            current = fallback
    return Refined(fallback, last, max_passes, False, gains)


def information_rows(
    rows: RowBlocks,
    moments: StandardMoments,
    sample: Sample,
    n_parameters: int,
    rng: np.random.Generator,
) -> Float:
    """Rows for the outer product of scores: all, or as many as a second of arithmetic allows."""
    wanted = int(max(2 * ALL_ROWS_BELOW, 4e9 / n_parameters**2))
    few = isinstance(rows, RemoteRows) or rows.n_rows <= 2 * ALL_ROWS_BELOW  # no more travel here
    if sample.is_all or few:
        return sample.features if sample.is_all else np.hstack([sample.features, sample.judges])
    n = rows.n_rows
    places = np.arange(n) if wanted >= n else np.sort(rng.choice(n, size=wanted, replace=False))
    return features_of(_standard_rows(rows, moments, places))


def _information_rows(sample: Sample, n_parameters: int) -> Float | None:
    """Rows for the information matrix; None where they are too few to estimate it."""
    features = sample.features if sample.is_all else np.hstack([sample.features, sample.judges])
    if features.shape[1] < 8 * n_parameters:
        return None
    return features[:, : max(8 * n_parameters, 10**10 // n_parameters**2)]

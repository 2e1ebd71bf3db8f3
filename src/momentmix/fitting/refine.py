"""From rows: candidates compete on a sample, then a few EM passes over all rows.

| symbol | name here | shape |
|---|---|---|
| rows that candidates are made on, and judged on | ``Sample.features``, ``Sample.judges`` | (2d + 1, n) |
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
from threadpoolctl import threadpool_limits

from momentmix.core.row_blocks import ArrayRows, RowBlocks
from momentmix.core.standard_moments import StandardMoments
from momentmix.fitting.conditions import Parameters
from momentmix.fitting.em import Batch, em_pass, features_of, log_likelihoods, m_step, run_batch
from momentmix.fitting.pooling import pool_components, pool_weights, reduce_pool
from momentmix.fitting.repair import repair
from momentmix.fitting.starts import random_starts, seeded_starts

Float = NDArray[np.float64]

__all__ = ["Candidate", "Refined", "Sample", "best_candidate", "draw_sample", "full_passes"]

ALL_ROWS_BELOW = 20000  # with fewer rows, candidates are made on all of them
SHORT_ROWS = 8000
_SHORT_STEPS = 30


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
    """All rows if they are few; otherwise one sample to work on and one to judge by."""
    n = rows.n_rows
    inverse = np.where(moments.constant, 0.0, 1.0 / moments.scale)
    wanted = n if n <= ALL_ROWS_BELOW else min(2 * ALL_ROWS_BELOW, n)
    places = np.arange(n) if wanted == n else np.sort(rng.choice(n, size=wanted, replace=False))
    chosen = _take(rows, places)
    standard = (chosen - moments.shift) * inverse
    if n <= ALL_ROWS_BELOW:
        features = features_of(standard)
        return Sample(features, features, True)
    standard = standard[rng.permutation(wanted)]
    work = features_of(standard[: wanted // 2])
    return Sample(work, features_of(standard[wanted // 2 :]), False)


def _take(rows: RowBlocks, places: NDArray[np.int64]) -> Float:
    if isinstance(rows, ArrayRows):
        return np.asarray(rows.rows[places], dtype=np.float64)
    parts, start = [], 0
    for block in rows.blocks():
        first, last = np.searchsorted(places, [start, start + block.shape[0]])
        parts.append(block[places[first:last] - start])
        start += block.shape[0]
    return np.concatenate(parts)


def number_of_starts(n_short: int, n_components: int) -> int:
    """Starts of each kind: more where they are cheap."""
    return int(np.clip(2_000_000 // (n_short * n_components), 4, 16))


def best_candidate(
    sample: Sample,
    moment_answer: Parameters | None,
    n_components: int,
    floor: Float,
    rng: np.random.Generator,
) -> tuple[list[Candidate], Parameters]:
    """Candidates, best first, and the pool of components they came from."""
    with threadpool_limits(1, "blas"):
        return _best_candidate(sample, moment_answer, n_components, floor, rng)


def _best_candidate(
    sample: Sample,
    moment_answer: Parameters | None,
    n_components: int,
    floor: Float,
    rng: np.random.Generator,
) -> tuple[list[Candidate], Parameters]:
    features, r = sample.features, n_components
    short = features if sample.is_all else features[:, :SHORT_ROWS]
    n_starts = number_of_starts(short.shape[1], r)
    seeded, _ = run_batch(short, seeded_starts(short, r, n_starts, floor, rng), floor, _SHORT_STEPS)
    random, _ = run_batch(short, random_starts(short, r, n_starts, floor, rng), floor, _SHORT_STEPS)
    parts = [seeded.one(k) for k in range(n_starts)] + [random.one(k) for k in range(n_starts)]
    names = ["k-means++ start"] * n_starts + ["random start"] * n_starts
    pool = pool_components(parts if moment_answer is None else [*parts, moment_answer])
    reduced = reduce_pool(short, pool_weights(_thin(features, pool), pool), r, floor)
    scores = log_likelihoods(features, _batch(parts))
    keep = [int(k) for k in np.argsort(-scores)[: 6 if sample.is_all else 2]]
    going = [parts[k] for k in keep] + [reduced]
    labels = [names[k] for k in keep] + ["pooled components"]
    if moment_answer is not None:
        going.append(moment_answer)
        labels.append("moments")
    going = [_padded(p, r, features, rng) for p in going]
    settled = _converge(features, _batch(going), floor, 400 if sample.is_all else 40)
    final = [settled.one(k) for k in range(len(going))]
    winner = int(log_likelihoods(sample.judges, settled).argmax())
    repaired, swaps = repair(features, final[winner], pool, floor, max_swaps=r)
    if swaps:
        one = _converge(features, _batch([repaired]), floor, 400 if sample.is_all else 40)
        final.append(one.one(0))
        labels.append(f"{labels[winner]}, {swaps} component{'s' * (swaps > 1)} swapped")
    if moment_answer is not None and not sample.is_all:
        # Moments of all rows may know more than EM on a sample: the bare answer competes as well.
        final.append(moment_answer)
        labels.append("moments, before EM")
    judged = log_likelihoods(sample.judges, _batch(final))
    candidates = [
        Candidate(label, p, float(s)) for label, p, s in zip(labels, final, judged, strict=True)
    ]
    return sorted(candidates, key=lambda c: -c.score), pool


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


def _converge(features: Float, batch: Batch, floor: Float, max_steps: int) -> Batch:
    """EM in rounds; a mixture whose likelihood rests is taken out of the batch."""
    k = batch.weights.shape[0]
    arrays = [np.array(x) for x in batch]
    active, last = np.arange(k), np.full(k, -np.inf)
    for _ in range(0, max_steps, 10):
        part, logs = run_batch(features, Batch(*(x[active] for x in arrays)), floor, 10)
        for into, new in zip(arrays, part, strict=True):
            into[active] = new
        moving = logs > last[active] + 1e-4
        last[active] = logs
        active = active[moving]
        if not active.size:
            break
    return Batch(*arrays)


def full_passes(
    rows: RowBlocks,
    moments: StandardMoments,
    start: Parameters,
    floor: Float,
    max_passes: int,
    n_threads: int,
) -> Refined:
    """EM passes over all rows until a pass gains less than a small part of the sampling noise.

    The likelihood at the truth and at its maximum differ by n_parameters / (2 N) nats a row; a pass
    that gains less than 2 % of that, and less than 1e-5, changes nothing that the rows can tell.
    """
    n_parameters = start.flat().size - 1
    least = min(1e-5, 0.02 * n_parameters / (2 * rows.n_rows))
    current, last, gains = start, -np.inf, []
    converged = False
    for _ in range(max_passes):
        done = em_pass(rows, moments, current, n_threads)
        value = done.log_likelihood / done.n_rows
        current = Parameters(*m_step(done.statistics, floor))
        if np.isfinite(last):
            gains.append(value - last)
            if gains[-1] < least:
                converged = True
                last = value
                break
        last = value
    return Refined(current, last, len(gains) + 1, converged, gains)

"""Passes over all rows: EM steps, and scoring steps where EM is slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.em import Pass, em_pass
from momentmix.fitting.em.sample import Sample
from momentmix.fitting.em.scores import (
    add_prior,
    information_matrix,
    mean_score,
    scoring_step,
    settle_floored,
)
from momentmix.mixture.gaussian import m_step
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.parallel import few_threads
from momentmix.progress import detail
from momentmix.rows.protocol import Rows

# Scoring steps: deviations that they change means by at most, a factor after one that failed, and
# from where on EM goes on alone.
_LONGEST, _SHORTER, _SHORTEST = 0.7, 0.3, 0.02
_MOST_LEFT = 5.0  # of the least gain of a pass, where EM is alone and slow
_LARGEST_RATIO = 0.99  # of two gains: beyond, the sum of all that follow is not known


@dataclass(frozen=True)
class Refined:
    """Parameters after the passes, and how they went."""

    parameters: Parameters
    log_likelihood: float
    n_passes: int
    converged: bool
    gains: list[float]
    log_likelihoods: list[float]  # per row, at each pass whose step was kept


def full_passes(
    rows: Rows,
    moments: StandardMoments,
    start: Parameters,
    sample: Sample,
    floor: Float | Structure,
    max_passes: int,
    n_threads: int,
    scoring_first: bool = False,
    tol: float | None = None,
) -> Refined:
    """Passes over all rows until a pass gains less likelihood than the noise of the rows."""
    n_rows = rows.n_counted
    prior = VariancePrior.of_rows(n_rows, start.n_components, floor)
    start = prior.structure.constrained(start)
    features = None
    if prior.structure.constraint is None:  # scoring steps know of no constraint
        features = sample.scoring_features(start.n_free)

    def sums_of(p: Parameters) -> Pass:
        return em_pass(rows, moments, p, n_threads)

    def information_of(p: Parameters) -> Float:
        assert features is not None
        return information_matrix(features, p, n_threads)

    scoring = None if features is None else information_of
    return climb(sums_of, scoring, start, prior, n_rows, max_passes, scoring_first, tol)


def climb(
    sums_of: Callable[[Parameters], Pass],
    information_of: Callable[[Parameters], Float] | None,
    start: Parameters,
    prior: VariancePrior,
    n_rows: int,
    max_passes: int,
    scoring_first: bool = False,
    tol: float | None = None,
) -> Refined:
    """EM and scoring steps, each from a pass of all rows.

    Likelihood here is that of the rows times the density of the `VariancePrior`.

    The likelihoods at the truth and at its maximum differ by n_parameters / (2 N) nats a row; a
    pass that gains less than 2 % of that, and less than 1e-5, changes nothing that the rows can
    tell; `tol` replaces that gain. Without any pass the start is the answer. Each pass gives an EM
    step and, with the information matrix of a sample, a scoring step. Where components are apart EM
    needs two or three passes; where they overlap it is slow, and scoring steps take over (at once
    with `scoring_first`). Where a scoring step lowered the likelihood, the EM step from the point
    before it is taken instead, and the next scoring step is shorter; after a few failures, or where
    nothing gives the information matrix, EM goes on alone. Slow steps that gain little are no end:
    what is left to gain has to be little.
    """
    least = min(1e-5, 0.02 * start.n_free / (2 * n_rows)) if tol is None else tol
    current, fallback, last = start, start, -np.inf
    gains: list[float] = []
    logs: list[float] = []
    longest = _LONGEST
    for count in range(1, max_passes + 1):
        detail(f"pass {count}")
        sums = sums_of(current)
        value = (sums.log_likelihood + float(prior.log_density(current))) / sums.n_rows
        if value < last - 1e-12 * abs(last):  # the scoring step failed: back
            current, longest = fallback, _SHORTER * longest
            if longest < _SHORTEST:
                information_of = None
            continue
        if np.isfinite(last):
            gains.append(value - last)
        last = value
        logs.append(sums.log_likelihood / sums.n_rows)
        fallback = m_step(sums.statistics, prior)
        slow = len(gains) > 1 and gains[-1] > 0.25 * gains[-2]
        left = _left_to_gain(gains) if slow and information_of is None else 0.0
        is_slow_step = slow and information_of is not None
        if gains and gains[-1] < least and not is_slow_step and left < _MOST_LEFT * least:
            return Refined(fallback, logs[-1], count, True, gains, logs)
        if information_of is not None and (slow or scoring_first):
            with few_threads(True):
                information = information_of(current)
                floors = prior.floors(current, sums.n_rows)
                settle_floored(information, current, floors, prior.structure)
                score = mean_score(sums.statistics, current)
                add_prior(score, information, current, prior, sums.n_rows)
                current, predicted = scoring_step(
                    current, score, information, prior.structure, longest
                )
            if predicted < 0.5 * least:
                return Refined(fallback, logs[-1], count, True, gains, logs)
        else:
            current = fallback
    if not logs:
        sums = sums_of(start)
        return Refined(start, sums.log_likelihood / sums.n_rows, 0, False, gains, logs)
    return Refined(fallback, logs[-1], max_passes, False, gains, logs)


def _left_to_gain(gains: list[float]) -> float:
    """What EM steps still gain in all, where each gains the same part of the one before."""
    ratio = min(gains[-1] / gains[-2], _LARGEST_RATIO)
    return gains[-1] * ratio / (1.0 - ratio)

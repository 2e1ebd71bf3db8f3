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
from momentmix.rows.protocol import Rows


@dataclass(frozen=True)
class Refined:
    """Parameters after the passes, and how they went."""

    parameters: Parameters
    log_likelihood: float
    n_passes: int
    converged: bool
    gains: list[float]


def full_passes(
    rows: Rows,
    moments: StandardMoments,
    start: Parameters,
    sample: Sample,
    floor: Float | Structure,
    max_passes: int,
    n_threads: int,
    scoring_first: bool = False,
) -> Refined:
    """Passes over all rows until a pass gains less likelihood than the noise of the rows."""
    n_rows = rows.n_counted
    prior = VariancePrior.of_rows(n_rows, start.n_components, floor)
    features = sample.scoring_features(start.n_free)

    def sums_of(p: Parameters) -> Pass:
        return em_pass(rows, moments, p, n_threads)

    def information_of(p: Parameters) -> Float:
        assert features is not None
        return information_matrix(features, p, n_threads)

    scoring = None if features is None else information_of
    return climb(sums_of, scoring, start, prior, n_rows, max_passes, scoring_first)


def climb(
    sums_of: Callable[[Parameters], Pass],
    information_of: Callable[[Parameters], Float] | None,
    start: Parameters,
    prior: VariancePrior,
    n_rows: int,
    max_passes: int,
    scoring_first: bool = False,
) -> Refined:
    """EM and scoring steps, each from a pass of all rows.

    Likelihood here is that of the rows times the density of the `VariancePrior`.

    The likelihoods at the truth and at its maximum differ by n_parameters / (2 N) nats a row; a
    pass that gains less than 2 % of that, and less than 1e-5, changes nothing that the rows can
    tell. Each pass gives an EM step and, with the information matrix of a sample, a scoring step.
    Where components are apart EM needs two or three passes; where they overlap it is slow, and
    scoring steps take over (at once with `scoring_first`). Where a scoring step lowered the
    likelihood, the EM step from the point before it is taken instead, and EM goes on alone. So it
    does where nothing gives the information matrix.
    """
    least = min(1e-5, 0.02 * start.n_free / (2 * n_rows))
    current, fallback, last, log_likelihood = start, start, -np.inf, -np.inf
    gains: list[float] = []
    for count in range(1, max_passes + 1):
        sums = sums_of(current)
        value = (sums.log_likelihood + float(prior.log_density(current))) / sums.n_rows
        if value < last - 1e-12 * abs(last):  # the scoring step failed: back, and EM from now on
            current, information_of = fallback, None
            continue
        if np.isfinite(last):
            gains.append(value - last)
        last, log_likelihood = value, sums.log_likelihood / sums.n_rows
        fallback = m_step(sums.statistics, prior)
        if gains and gains[-1] < least:
            return Refined(fallback, log_likelihood, count, True, gains)
        slow = len(gains) > 1 and gains[-1] > 0.25 * gains[-2]
        if information_of is not None and (slow or scoring_first):
            with few_threads(True):
                information = information_of(current)
                floors = prior.floors(current, sums.n_rows)
                settle_floored(information, current, floors, prior.structure)
                score = mean_score(sums.statistics, current)
                add_prior(score, information, current, prior, sums.n_rows)
                current, predicted = scoring_step(current, score, information, prior.structure)
            if predicted < 0.5 * least:
                return Refined(fallback, log_likelihood, count, True, gains)
        else:
            current = fallback
    return Refined(fallback, log_likelihood, max_passes, False, gains)

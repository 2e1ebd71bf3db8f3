"""Passes over all rows: EM steps, and scoring steps where EM is slow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.em import Pass, Sample, em_pass
from momentmix.fitting.em.scores import (
    add_prior,
    information_matrix,
    mean_score,
    scoring_step,
    settle_floored,
)
from momentmix.mixture.gaussian import m_step
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import VariancePrior
from momentmix.parallel import few_threads
from momentmix.progress import detail

# Ridge of scoring steps after one that failed, its factor after further ones and after each that
# did not, and from where on EM goes on alone.
_FIRST_RIDGE, _MORE, _LESS, _MOST_RIDGE = 0.003, 5.0, 0.5, 1.0
_LEFT = 0.002  # nats of all rows: no parameter is further than 0.06 standard errors from its end
_NEAR = 100.0  # times what may be left: a pass that gains less can be one of the last
_LEAST_PART = 0.1  # of what a scoring step predicts, up to a nat of all rows; else it is no good
_STALE = 0.1  # of what was left before a step; where more is left the matrix is out of date
_SLOW = 0.25  # of two gains: EM that is faster needs no help; 0.1 and 0.5 take as many passes
_LARGEST_RATIO = 0.99  # of two gains: beyond, the sum of all that follow is not known


class Refined(NamedTuple):
    """Parameters after the passes, their log-likelihood a row, and how the passes went."""

    parameters: Parameters
    log_likelihood: float
    n_passes: int
    converged: bool
    log_likelihoods: list[float]  # per row, at each pass whose step was kept


def full_passes(sample: Sample, start: Parameters, context: FitContext) -> Refined:
    """Passes over all rows until a pass gains less likelihood than the noise of the rows."""
    n, n_threads = sample.rows.n_counted, context.n_threads
    prior = context.prior(sample.moments, sample.blocks, n, start.n_components)
    scoring, features = None, sample.scoring_features(start.n_free)
    if features is not None:
        scoring = partial(information_matrix, features, n_threads=n_threads)
    sums_of = partial(em_pass, sample.rows, sample.moments, n_threads=n_threads)
    return climb(sums_of, scoring, start, prior, n, context)


def climb(
    sums_of: Callable[[Parameters], Pass],
    information_of: Callable[[Parameters], Float] | None,
    start: Parameters,
    prior: VariancePrior,
    n_rows: int,
    context: FitContext,
) -> Refined:
    """EM and scoring steps, each from a pass of all rows; the parameters of the last that is kept.

    Passes end when less than `_LEFT` nats of all rows are left to gain: of twice that the square
    root is the distance from the maximum in standard errors.
    What is left comes from the information matrix, and where there is none from the rate of EM's
    gains. Where EM is slow, and near the end, scoring steps take over. Where a step lowered the
    likelihood, the EM step before it is taken instead, and the next scoring step is shorter. After
    a few failures EM goes on alone.
    """
    least = _LEFT / n_rows
    scoring = None if information_of is None else _Scoring(information_of, prior)
    current, best, fallback, last = start, start, start, -np.inf
    gains: list[float] = []
    logs: list[float] = []
    by_em: list[float] = []  # gains of the EM steps since the last other step
    is_em = True
    for count in range(1, max(context.max_passes, 1) + 1):
        detail(f"pass {count}")
        sums = sums_of(current)
        value = (sums.log_likelihood + float(prior.log_density(current))) / sums.n_rows
        if scoring is not None and not is_em and not scoring.is_good(value - last, n_rows):
            scoring = None
        if value < last - 1e-12 * abs(last):  # the step failed: back
            if is_em:  # by rounding alone: there is nothing left to gain
                return Refined(best, logs[-1], count, True, logs)
            current, is_em = fallback, True
            continue
        if np.isfinite(last):
            gains.append(value - last)
            by_em = [*by_em, gains[-1]] if is_em else []
        last = value
        logs.append(sums.log_likelihood / sums.n_rows)
        best, fallback = current, m_step(sums.statistics, prior)
        slow = len(gains) > 1 and gains[-1] > _SLOW * gains[-2]
        near = bool(gains) and gains[-1] < _NEAR * least
        current, left, is_em = fallback, np.inf, True
        if scoring is None:
            left = _left_to_gain(by_em)
        elif slow or near:
            (current, left), is_em = scoring.step(best, sums), False
        if left < least:
            return Refined(best, logs[-1], count, True, logs)
    most = context.max_passes  # 0: the pass that gave the log-likelihood is not one of EM
    return Refined(best, logs[-1], most, False, logs[:most])


class _Scoring:
    """Scoring steps, and what is left to gain by them."""

    def __init__(self, information_of: Callable[[Parameters], Float], prior: VariancePrior) -> None:
        self._information_of, self._prior = information_of, prior
        self._matrix: Float | None = None
        self._ridge, self._left = 0.0, np.inf

    def step(self, p: Parameters, sums: Pass) -> tuple[Parameters, float]:
        """Parameters after a step from `p`, and the nats a row that are left to gain there."""
        with few_threads(True):
            if self._matrix is not None:
                moved, left = self._step(p, sums, self._matrix)
                if left < _STALE * self._left:
                    self._left = left
                    return moved, left
            self._matrix = self._information_of(p)
            floors = self._prior.floors(p, sums.n_rows)
            settle_floored(self._matrix, p, floors, self._prior.structure)
            moved, self._left = self._step(p, sums, self._matrix)
            return moved, self._left

    def _step(self, p: Parameters, sums: Pass, matrix: Float) -> tuple[Parameters, float]:
        score, information = mean_score(sums.statistics, p), matrix.copy()
        add_prior(score, information, p, self._prior, sums.n_rows)
        return scoring_step(p, score, information, self._prior.structure, self._ridge)

    def is_good(self, gain: float, n_rows: int) -> bool:
        """Adapt the ridge to what the last step gained a row; False where EM should go on alone."""
        if gain < _LEAST_PART * min(self._left, 1.0 / n_rows):
            self._ridge, self._matrix = max(_MORE * self._ridge, _FIRST_RIDGE), None
        else:
            self._ridge *= _LESS
        return self._ridge <= _MOST_RIDGE


def _left_to_gain(gains: list[float]) -> float:
    """Estimate the gain of all further EM steps from their rate."""
    if not gains:
        return np.inf
    ratio = _LARGEST_RATIO
    if len(gains) > 1:
        ratio = min(gains[-1] / max(gains[-2], 1e-300), _LARGEST_RATIO)
    return gains[-1] * max(ratio, 0.0) / (1.0 - ratio)

"""Automatic number of components: the smallest that the moments accept; else BIC, or an elbow."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np

from momentmix.capacity import robust_rank
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.context import FitContext
from momentmix.fitting.em.sample import draw_sample
from momentmix.fitting.em.search import ranked_candidates
from momentmix.fitting.inference.over_identification import (
    LEAST_P_VALUE,
    OverIdentification,
    check_conditions,
)
from momentmix.fitting.moment.candidates import cross_moments, partition_shapes
from momentmix.fitting.moment.moment_fit import ANSWER, fit_moments
from momentmix.rows.protocol import Rows

MOST_COMPONENTS = 12  # a test of each number takes seconds; users who expect more give a number
ROWS_PER_PARAMETER = 5  # with fewer, moments are too noisy for an answer that helps


def choose_n_components(
    rows: Rows | None, moments: StandardMoments, context: FitContext
) -> tuple[int, str]:
    """The number of components, and a sentence that says why.

    Without rows, the number where the misfit of the moments stops falling stands in for BIC.
    """
    d = moments.n_features
    affordable = moments.n_rows // (ROWS_PER_PARAMETER * (2 * d + 1))
    most = max(1, min(MOST_COMPONENTS, robust_rank(d, moments.order), affordable))

    def test(r: int) -> OverIdentification:
        fit = fit_moments(moments, r, context.rng, context.variance_floor, ANSWER)
        return check_conditions(moments, fit.parameters, context.rng, bootstrap=False)

    with context.clock.stage("number of components"):
        least = min(most, least_components(moments, context.rng))
        accepted, effects = _first_accepted(test, least, most)
    if accepted is not None:
        return accepted, f"n_components={accepted}: the smallest that the moments accept"
    if rows is not None:
        with context.clock.stage("number by BIC"):
            r = _least_bic(rows, moments, context)
        return r, f"n_components={r}: least BIC; the moments accept no number"
    if not effects:
        return 1, "n_components=1: the moments cannot test more"
    r = elbow(effects)
    return r, (
        f"n_components={r}: no number of components from {least} to {max(effects)} fits the "
        "moments; this is the elbow of the effect size"
    )


def _first_accepted(
    test: Callable[[int], OverIdentification], least: int, most: int
) -> tuple[int | None, dict[int, float]]:
    """The smallest number that the test accepts, and the effect sizes of those before it."""
    effects: dict[int, float] = {}
    for r in range(least, most + 1):
        tested = test(r)
        if not tested.testable:
            break
        effects[r] = tested.effect_size
        if tested.p_value >= LEAST_P_VALUE:
            return r, effects
    return None, effects


def least_components(moments: StandardMoments, rng: np.random.Generator) -> int:
    """Number of components that the moments need at least: singular values far above noise."""
    shapes = partition_shapes(moments.n_features, moments.order, 1)
    if not shapes:
        return 1
    counts = []
    for _ in range(8):  # the median of eight random partitions does not hang on one of them
        cross = cross_moments(moments, rng.permutation(moments.n_features), shapes[0])
        values = np.linalg.svd(cross, compute_uv=False)
        # Entries have a noise of about 2/√N each, products of heavy columns a little more. The
        # largest singular value of such noise is about 2/√N·(√rows + √columns); three times
        # that is not reached by chance.
        noise = 2.0 * (np.sqrt(cross.shape[0]) + np.sqrt(cross.shape[1]))
        counts.append(int((values > 3.0 * noise / np.sqrt(moments.n_effective)).sum()))
    return max(1, int(np.median(counts)))


def elbow(effects: dict[int, float]) -> int:
    """The number of components after which the effect size stops falling.

    On log scales, the point farthest below the chord from the first to the last.
    """
    ranks = sorted(effects)
    if len(ranks) < 3:
        return ranks[int(np.argmin([effects[r] for r in ranks]))]
    x = np.array(ranks, dtype=float)
    y = np.log(np.maximum([effects[r] for r in ranks], 1e-6))  # an effect of 0 has no logarithm
    chord = y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0])
    return ranks[int(np.argmax(chord - y))]


def _least_bic(rows: Rows, moments: StandardMoments, context: FitContext) -> int:
    """Number of components with the least BIC, likelihoods per row from candidates on a sample."""
    rng, n, d = context.rng, rows.n_rows, moments.n_features
    sample, floors = draw_sample(rows, moments, rng), np.full(d, context.variance_floor)
    best, best_r = np.inf, 1
    for r in range(1, min(MOST_COMPONENTS, n) + 1):
        best_of_r = ranked_candidates(sample, None, r, floors, rng)[0]
        bic = -2.0 * n * best_of_r.score + best_of_r.parameters.n_free * log(n)
        if bic < best:
            best, best_r = bic, r
        elif r > best_r + 1:  # twice in a row without gain
            break
    return best_r

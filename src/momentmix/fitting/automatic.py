"""Automatic number of components.

| paper symbol | name here |
|---|---|
| singular values of E[φ_A φ_Bᵀ] above their noise | ``least_components`` |

Differs from the paper: the paper has no such step.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np

from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.em.sample import draw_sample
from momentmix.fitting.em.search import ranked_candidates
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.moment.candidates import cross_moments, layouts
from momentmix.rows.protocol import Rows

__all__ = [
    "choose_by_bic",
    "choose_from_moments",
    "elbow",
    "least_components",
]


def least_components(moments: StandardMoments, rng: np.random.Generator) -> int:
    """Number of components that the moments need at least: singular values far above noise."""
    choices = layouts(moments.n_features, moments.order, 1)
    if not choices:
        return 1
    counts = []
    for _ in range(8):
        cross = cross_moments(moments, rng.permutation(moments.n_features), choices[0])
        values = np.linalg.svd(cross, compute_uv=False)
        # Entries have a noise of about 2/√N each, products of heavy columns a little more.
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
    y = np.log(np.maximum([effects[r] for r in ranks], 1e-6))
    chord = y[0] + (y[-1] - y[0]) * (x - x[0]) / (x[-1] - x[0])
    return ranks[int(np.argmax(chord - y))]


def choose_from_moments(
    moments: StandardMoments,
    most: int,
    test: Callable[[int], OverIdentification],
    rng: np.random.Generator,
) -> tuple[bool, int, str]:
    """Whether some number is accepted, the smallest such number or the elbow, and a sentence."""
    least = min(most, least_components(moments, rng))
    effects: dict[int, float] = {}
    for r in range(least, most + 1):
        found = test(r)
        if not found.testable:
            break
        effects[r] = found.effect_size
        if found.p_value >= 0.01:
            return True, r, f"n_components={r}: the smallest that the moments accept"
    if not effects:
        return False, 1, "n_components=1: the moments cannot test more"
    r = elbow(effects)
    sentence = f"no number of components from {least} to {max(effects)} fits the moments"
    return False, r, f"n_components={r}: {sentence}; this is the elbow of the effect size"


def choose_by_bic(
    rows: Rows, moments: StandardMoments, most: int, floor: float, rng: np.random.Generator
) -> tuple[int, str]:
    """Number of components with the least BIC, likelihoods per row from candidates on a sample."""
    sample, n = draw_sample(rows, moments, rng), rows.n_rows
    floors = np.full(moments.n_features, floor)
    best, best_r = np.inf, 1
    for r in range(1, min(most, n) + 1):
        best_of_r = ranked_candidates(sample, None, r, floors, rng)[0]
        bic = -2.0 * n * best_of_r.score + best_of_r.parameters.n_free * log(n)
        if bic < best:
            best, best_r = bic, r
        elif r > best_r + 1:  # twice in a row without gain
            break
    return best_r, f"n_components={best_r}: least BIC; the moments accept no number"

"""order="auto" and n_components="auto".

| paper symbol | name here |
|---|---|
| smallest m whose capacity exceeds r by a margin | ``choose_order`` |
| singular values of E[φ_A φ_Bᵀ] above their noise | ``least_components`` |

Differs from the paper: the paper has no such step.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from momentmix.capacity import robust_rank
from momentmix.core.standard_moments import StandardMoments
from momentmix.fitting.candidates import cross_moments, layouts

__all__ = ["choose_order", "elbow", "least_components"]

_MARGIN = 1.3
_HIGHEST = 7


def choose_order(n_features: int, n_components: int, available: int | None = None) -> int:
    """Smallest order ≥ 4 with a margin of capacity, clamped by features and what is available.

    Orders up to 4 cost about one EM pass, and the polish uses them all; higher ones are taken only
    where capacity asks for them.
    """
    highest = min(_HIGHEST, n_features, available or _HIGHEST)
    for order in range(min(4, highest), highest + 1):
        if robust_rank(n_features, order) >= ceil(_MARGIN * n_components):
            return order
    reach = [robust_rank(n_features, order) for order in range(1, highest + 1)]
    return max(min(4, highest), 1 + int(np.argmax(reach)))


def least_components(moments: StandardMoments, rng: np.random.Generator) -> int:
    """Number of components that the moments need at least: singular values far above noise."""
    live = np.flatnonzero(~moments.constant)
    choices = layouts(live.size, min(moments.order, live.size), 1)
    if not choices:
        return 1
    counts = []
    for _ in range(8):
        cross = cross_moments(moments, rng.permutation(live), choices[0])
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

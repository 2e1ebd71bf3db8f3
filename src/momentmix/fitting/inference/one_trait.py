"""One trait behind yes/no columns: a continuum that classes of answers would cut.

| symbol | name here | shape |
|---|---|---|
| log-odds of yes of column j at trait t: α_j + β_j t, t normal | ``curves`` | (d, 2) |
| nodes and weights of the Gauss–Hermite rule for t | ``nodes``, ``weights`` | (m,) |

Each column of a latent class has a probability of its own, and so have two classes all that one
trait has. Where the trait describes the rows better, at fewer parameters than classes, these are
segments of it. This is the two-parameter model of item response theory (Birnbaum 1968), by EM
(Bock and Aitkin 1981).
"""

from __future__ import annotations

from math import log

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.em.em import Sample
from momentmix.mixture.density import responsibilities
from momentmix.mixture.gaussian import values_of

_NODES, _STEPS, _FEWEST_COLUMNS = 15, 40, 3
_PENALTY = 0.05  # of slopes: columns that all rows answer alike have none
_AT_REST = 1e-5  # nats a row
_LARGEST = 5.0  # slope: such a column is the trait itself


def bic_of_one_trait(sample: Sample) -> float | None:
    """BIC of one trait behind yes/no columns; None where there are others."""
    laws, d = sample.moments.laws, sample.moments.n_features
    is_yes_no = all(law.family.name == "bernoulli" and not law.has_missing for law in laws)
    if not is_yes_no or len(laws) < d or d < _FEWEST_COLUMNS:
        return None
    y = values_of(sample.of_blocks(sample.moments.alone).judges, sample.moments.alone)
    y = (y > 0.5 * (y.min() + y.max())).astype(np.float64)
    n = sample.moments.n_counted
    return 2 * d * log(n) - 2.0 * n * one_trait(y)


def one_trait(y: Float) -> float:
    """Log-likelihood of a row of yes/no columns (d, n) under one trait, on average."""
    n = y.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    logs = np.log(weights / weights.sum())[:, None]
    design = np.vstack([np.ones(_NODES), nodes])  # (2, m)
    # The signs of the first principal component, so that slopes may be of either.
    centered = y - y.mean(axis=1, keepdims=True)
    axis = np.linalg.eigh(centered @ centered.T)[1][:, -1]
    share = (y.sum(axis=1) + 0.5) / (n + 1.0)
    curves = np.column_stack([np.log(share / (1.0 - share)), np.sign(axis)])
    score = 0.0
    for _ in range(_STEPS):
        odds = curves @ design  # (d, m)
        joint = odds.T @ y - np.logaddexp(0.0, odds).sum(axis=0)[:, None] + logs  # (m, n)
        shares, totals = responsibilities(joint)
        before, score = score, float(totals.mean())
        if abs(score - before) < _AT_REST:
            break
        counts, yes = shares.sum(axis=1), y @ shares.T  # (m,), (d, m)
        chances = 1.0 / (1.0 + np.exp(-odds))
        slope = (yes - counts * chances) @ design.T
        slope[:, 1] -= _PENALTY * curves[:, 1]
        curvature = np.einsum("am,bm,jm->jab", design, design, counts * chances * (1 - chances))
        curvature += _PENALTY * np.eye(2)
        curves = curves + np.linalg.solve(curvature, slope[..., None])[..., 0]
        curves[:, 1] = np.clip(curves[:, 1], -_LARGEST, _LARGEST)
    return score

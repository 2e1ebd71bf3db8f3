"""Noise of means from replicate groups, against that of independent rows."""

from __future__ import annotations

import numpy as np
from scipy import stats

from momentmix.summary.summary import MomentSummary

_LEVEL = 1e-3  # of calling rows dependent


def noise_ratio(a: MomentSummary, b: MomentSummary) -> float:
    """Variance of means by groups over that of independent rows; 1 unless it is surely more.

    Columns are correlated, so that their average counts as one of them: the ratio has the law
    χ²/f with the degrees of freedom f of the groups of both summaries, or of the one that has them.
    """
    ratios, freedom = [], 0
    for summary in (a, b):
        noise = summary.noise() if summary.replicates else None
        varies = summary.deviation > 0
        if noise is None or not varies.any():
            continue
        ratios.append(summary.effective_rows * float((noise.distinct[1][varies] ** 2).mean()))
        filled = len(summary.replicate_moments())
        freedom += filled - 1
    if not ratios:
        return 1.0
    ratio = float(np.mean(ratios))
    return ratio if stats.chi2.sf(ratio * freedom, freedom) < _LEVEL else 1.0

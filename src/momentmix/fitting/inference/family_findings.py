"""Findings about columns that are not Gaussian: counts, levels, missing cells."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import chdtrc

from momentmix.findings.finding import NOTE, WARNING, Finding, found
from momentmix.fitting.conditions.conditions import feature_powers
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.laws.law import Law
from momentmix.mixture.laws.poisson import Poisson
from momentmix.mixture.laws.seen import Seen
from momentmix.mixture.parameters import Parameters

DISPERSION_THAT_MATTERS = 0.1  # of the variance of a count beside its mean
_SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many columns are tested
_CHANCE = 1e-4  # that a probability of being seen is said to differ where it does not
_DIFFERENCE_THAT_MATTERS = 0.02  # between probabilities of being seen
_NO_INFORMATION = 1e-3  # share of a column's variance that lies between components


def family_findings(moments: StandardMoments, parameters: Parameters) -> Iterator[Finding]:
    """Findings about the laws of features, in the names of `moments`."""
    laws = parameters.blocks.laws
    if not laws:
        return
    yield from _about_dispersion(moments, parameters)
    if parameters.n_components > 1:
        yield from _about_missing(moments, parameters)
        yield from _about_never_seen(moments, parameters)
        yield from _about_information(moments, parameters)


def _about_dispersion(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Counts that vary more or less within components than Poisson's law says."""
    places = [_count_feature(law) for law in p.blocks.laws]
    counts = [j for j in places if j is not None]
    if not counts or not len(moments.squared):
        return
    powers = feature_powers(p, 4)
    second, fourth = p.weights @ powers[2], p.weights @ powers[4]
    noise = np.sqrt(np.maximum(fourth - second**2, 1e-300) / moments.n_effective)
    excess = moments.squared[0][:, 0] - second
    within = p.weights @ p.variances  # of the counts themselves where none is missing
    for j in counts:
        ratio = 1.0 + excess[j] / within[j]
        is_clear = abs(excess[j]) > _SIGNIFICANT_DEVIATES * noise[j]
        if is_clear and abs(ratio - 1.0) > DISPERSION_THAT_MATTERS:
            yield found(WARNING, "dispersion", moments.columns_of([j]), ratio=float(ratio))


def _count_feature(law: Law) -> int | None:
    """The feature of a count."""
    value = law.value if isinstance(law, Seen) else law
    return law.features[0] if isinstance(value, Poisson) else None


def _about_missing(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Columns whose cells are missing more often in some components than in others."""
    gaps = []
    for law in p.blocks.laws:
        own = list(law.features)
        q = law.probability_seen(p.means[:, own], p.variances[:, own])
        if q is not None:
            mean = float(p.weights @ q)
            statistic = moments.n_effective * float(p.weights @ (q - mean) ** 2)
            statistic /= max(mean * (1 - mean), 1e-12)
            is_clear = chdtrc(p.n_components - 1, statistic) < _CHANCE
            if is_clear and np.ptp(q) > _DIFFERENCE_THAT_MATTERS:
                place = law.features[0]
                gaps.append((float(np.ptp(q)), place, float(q.min()), float(q.max())))
    if gaps:
        gaps.sort(reverse=True)
        _, worst, low, high = gaps[0]
        columns = moments.columns_of(j for _, j, _, _ in gaps)
        name = moments.column_name(worst)
        yield found(NOTE, "missing-by-component", columns, worst=name, low=low, high=high)


def _about_never_seen(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Columns of which a component has no cell."""
    for law, which in zip(p.blocks.laws, p.never_seen(moments.n_effective), strict=True):
        if which.any():
            columns = moments.columns_of(law.features[:1])
            yield found(WARNING, "never-seen", columns, count=int(which.sum()))


def _about_information(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Columns whose features are nearly the same in all components."""
    between = p.weights @ (p.means - p.weights @ p.means) ** 2  # of features of variance 1
    silent = [
        law.features[0]
        for law in p.blocks.laws
        if between[list(law.features)].max() < _NO_INFORMATION
    ]
    if silent:
        yield found(NOTE, "no-information", moments.columns_of(silent))

"""Findings about components, and about columns that are not Gaussian: counts, levels, gaps."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from momentmix.families.count import DISPERSION_THAT_MATTERS
from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, found
from momentmix.fitting.conditions.conditions import feature_powers
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.parameters import Parameters

LEAST_ROWS_PER_COMPONENT = 50  # with fewer, a mean is off by 1/√50 = 0.14 deviations or more
_SIGNIFICANT_DEVIATES = 6  # not reached by chance, however many columns are tested
_CHANCE = 1e-4  # that a probability of being seen is said to differ where it does not
_DIFFERENCE_THAT_MATTERS = 0.02  # between probabilities of being seen
_NO_INFORMATION = 1e-3  # share of a column's variance that lies between components


def at_floor(parameters: Parameters, floor: float) -> NDArray[np.bool_]:
    """Which variances are at the floor, of shape (r, d); those of Gaussian features."""
    floored = parameters.variances <= 1.01 * floor
    floored[:, parameters.blocks.with_law] = False
    return np.asarray(floored)


def component_findings(
    moments: StandardMoments, p: Parameters, floor: float, coarse: Collection[int] = ()
) -> Iterator[Finding]:
    """Findings about the components and their laws; `coarse` are features whose values repeat.

    A likelihood without bound draws components to a few rows: such a maximum says nothing about
    the rows to come, and a certificate must not pass it.
    """
    d, rows = moments.n_features, moments.n_effective * p.weights
    floored = at_floor(p, floor)
    repeating = np.isin(np.arange(d), list(coarse))
    shrunk = (floored & ~repeating).sum(axis=1) > 1
    light = rows < LEAST_ROWS_PER_COMPONENT
    spurious = (rows < d + 1) | (light & shrunk)
    if p.n_components == 1:
        spurious[:] = False
    light &= ~spurious
    kinds = ((FATAL, "spurious-components", spurious), (WARNING, "light-components", light))
    for severity, kind, which in kinds:
        if which.any():
            few = np.flatnonzero(which).tolist()
            asides = [f"{rows[i]:.0f} rows" for i in few]
            yield found(severity, kind, components=few, asides=asides, n_features=d)
    equal = np.flatnonzero((floored & repeating).any(axis=0)).tolist()
    if equal:
        yield found(WARNING, "variance-floor", moments.columns_of(equal), floor=floor)
    others = np.flatnonzero((floored & ~repeating).any(axis=0)).tolist()
    if others:
        count = int((floored & ~repeating).sum())
        columns = moments.columns_of(others)
        yield found(NOTE, "variance-floor", columns, count=count, floor=floor)
    yield from _about_dispersion(moments, p)
    if p.n_components > 1:
        yield from _about_missing(moments, p)
        yield from _about_never_seen(moments, p)
        yield from _about_information(moments, p)


def _about_dispersion(moments: StandardMoments, p: Parameters) -> Iterator[Finding]:
    """Values that vary more or less within components than their means say."""
    counts = {law.features[0]: law.dispersion for law in p.blocks.laws if law.dispersion}
    if not counts or not len(moments.squared):
        return
    powers = feature_powers(p, 4)
    second, fourth = p.weights @ powers[2], p.weights @ powers[4]
    noise = np.sqrt(np.maximum(fourth - second**2, 1e-300) / moments.n_effective)
    excess = moments.squared[0][:, 0] - second
    within = p.weights @ p.variances  # of the counts themselves where none is missing
    for j, words in counts.items():
        ratio = 1.0 + excess[j] / within[j]
        is_clear = abs(excess[j]) > _SIGNIFICANT_DEVIATES * noise[j]
        if is_clear and abs(ratio - 1.0) > DISPERSION_THAT_MATTERS:
            columns = moments.columns_of([j])
            yield found(WARNING, "dispersion", columns, ratio=float(ratio), law=words)


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

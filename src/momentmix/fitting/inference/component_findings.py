"""Findings about single components: too few rows, variances at the floor."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from momentmix.findings.finding import FATAL, NOTE, WARNING, Finding, found
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.mixture.parameters import Parameters

LEAST_ROWS_PER_COMPONENT = 50  # with fewer, a mean is off by 1/√50 = 0.14 deviations or more


def at_floor(parameters: Parameters, floor: float) -> NDArray[np.bool_]:
    """Which variances are at the floor, of shape (r, d); those of Gaussian features."""
    floored = parameters.variances <= 1.01 * floor
    floored[:, parameters.blocks.with_law] = False
    return np.asarray(floored)


def component_findings(
    moments: StandardMoments, p: Parameters, floor: float, coarse: Collection[int] = ()
) -> Iterator[Finding]:
    """Findings about the components; `coarse` are features whose values repeat.

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

"""Findings about single components: too few rows, variances at the floor."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.inference.finding import (
    Finding,
    column_names,
    fatal,
    note,
    warning,
)
from momentmix.mixture.parameters import Parameters
from momentmix.wording import plural

LEAST_ROWS_PER_COMPONENT = 50  # with fewer, a mean is off by 1/√50 = 0.14 deviations or more
_LISTED = 5  # components in a sentence


def at_floor(parameters: Parameters, floor: float) -> NDArray[np.bool_]:
    """Which variances are at the floor, of shape (r, d); those of Gaussian features."""
    found = parameters.variances <= 1.01 * floor
    found[:, parameters.blocks.with_law] = False
    return np.asarray(found)


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
    if spurious.any():
        listed = _components(rows, np.flatnonzero(spurious))
        yield fatal(
            "spurious-components",
            f"{listed} hold{'s' if spurious.sum() == 1 else ''} fewer rows than a component of "
            f"{d} features needs, or almost no variance: a maximum of the likelihood that fits "
            "these rows alone. Use fewer components.",
        )
    light &= ~spurious
    if light.any():
        yield warning(
            "light-components",
            f"{_components(rows, np.flatnonzero(light))} hold{'s' if light.sum() == 1 else ''} few "
            "rows: means and variances are rough.",
        )
    equal = np.flatnonzero((floored & repeating).any(axis=0))
    if equal.size:
        yield warning(
            "variance-floor",
            f"a variance of {column_names(moments, equal)} is at the floor ({floor:.1g} of the "
            "column's): a component holds one of the values that repeat there.",
        )
    others = np.flatnonzero((floored & ~repeating).any(axis=0))
    if others.size:
        count = int((floored & ~repeating).sum())
        yield note(
            "variance-floor",
            f"{count} variance{plural(count)} at the floor ({floor:.1g} of the feature's "
            f"variance), in {column_names(moments, others)}.",
        )


def _components(rows: np.ndarray, which: np.ndarray) -> str:
    listed = ", ".join(f"{i} ({rows[i]:.0f} rows)" for i in which[:_LISTED])
    return f"component{plural(len(which))} {listed}" + ", …" * (len(which) > _LISTED)

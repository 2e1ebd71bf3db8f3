"""Moments of many summaries about one origin: ``readings.py`` for hundreds of groups at once.

What is exact is done group by group, by compiled code: units and origins. The rest of the way, by
at most half a unit, and the scale are float64 numbers, for all groups together.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np

from momentmix._typing import Float
from momentmix.summary.exact.high_sections import absent
from momentmix.summary.exact.integers.frames import degrees_of, lines_of
from momentmix.summary.exact.integers.packed import PackedSums
from momentmix.summary.exact.totals import Totals
from momentmix.summary.layout import Layout
from momentmix.summary.readings import near_sums

MOST_ENTRIES = 1 << 13  # as in frames.py: tables of more take long to make


def readings_of_many(totals: Sequence[Totals], shift: Float, scale: Float) -> Float:
    """Moments of totals of one layout, of shape (n, n_entries).

    The order is that of ``Layout.sections``. NaN where moments are absent or overflow:
    `readings.moments` says which.
    """
    layout = totals[0].layout
    values = np.empty((layout.n_entries, len(totals)))
    rests, factors = np.empty((2, layout.n_features, len(totals)))
    for g, own in enumerate(totals):
        near = near_sums(own, shift, scale)
        rests[:, g], factors[:, g] = near.rests, near.factors
        values[:, g] = np.nan if absent(layout, own.reach) else _floats(near.sums)
        values[:, g] /= own.weight
    with np.errstate(over="ignore", invalid="ignore"):
        _move(layout, values, rests)
        _scale(layout, values, factors)
    values[:, ~np.isfinite(values).all(axis=0)] = np.nan
    return values.T


def _floats(sums: Sequence[object]) -> Float:
    if isinstance(sums, PackedSums):
        return sums.floats()
    try:
        parts = [np.asarray(array, dtype=np.float64).ravel() for array in sums]
    except OverflowError:
        return np.full(1, np.nan)
    return np.concatenate(parts)


def _move(layout: Layout, values: Float, deltas: Float) -> None:
    """Move the origins of all features, in place; values are of shape (n_entries, n)."""
    for delta, steps in zip(deltas, lines_of(layout), strict=True):
        for rows in steps:
            p = rows.shape[1] - 1
            change = comb(p, 0) * (-delta) ** p * values[rows[:, 0]]
            for i in range(1, p):
                change += comb(p, i) * (-delta) ** (p - i) * values[rows[:, i]]
            values[rows[:, p]] += change


def _scale(layout: Layout, values: Float, factors: Float) -> None:
    """Multiply features by factors of shape (d, n), in place."""
    for own, degree in zip(factors, degrees_of(layout).T, strict=True):
        for p in range(1, int(degree.max()) + 1):
            values[degree == p] *= own**p

"""The cuts of a column of numbers or counts that sort most rows rightly.

| symbol | name here | shape |
|---|---|---|
| F_i: share of rows of component i that are observed and lie below points | ``below`` | (r, n) |
| D_i = F_i − Σ_k≠i w_k F_k / Σ_k≠i w_k, with its ends | ``apart`` | (r, n + 2) |
| max D, D(∞) − min D, max_a<b D(b) − D(a), D(∞) + max_a<b D(a) − D(b) | ``gains`` | (r, 4) |

The last are those of numbers below, above, inside and outside of the best cuts.
"""

from __future__ import annotations

from math import ceil, floor, inf, isfinite
from typing import NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.families.column import Column, restored, transformed
from momentmix.wording import roundest

# Difference that an interval must add to that of one cut, and all numbers outside of one: tails of
# distributions are the part that rows follow least.
_INSIDE, _OUTSIDE = 0.1, 0.2
_EQUALLY_WELL = 0.01  # difference that a cut may lose to be a round number
_COARSE = 5.0  # deviation up to which whole numbers pile up: cuts between them are better


class Interval(NamedTuple):
    """Numbers between two ends, or those outside of them, in the units of the data."""

    first: float  # −inf and inf at the ends of all numbers
    last: float
    is_inside: bool
    true: Float  # (r,), the shares of the rows of all components that lie there


class Cuts:
    """The best cuts of a column for each component.

    From means and deviations (r,), and shares of observed cells; `rest` (r, r) has the weights of
    the others for each component.
    """

    def __init__(
        self, column: Column, means: Float, deviations: Float, observed: Float, rest: Float
    ) -> None:
        points, below = column.model.distribution(means[:, None], deviations[:, None])
        self.column, self.means, self.deviations = column, means, deviations
        self.observed, self.points = observed, points
        self.below = observed[:, None] * np.nan_to_num(below)
        end = (observed - rest @ observed)[:, None]
        self.apart = apart = np.hstack([0 * end, self.below - rest @ self.below, end])
        low, high = (f.accumulate(apart, axis=1) for f in (np.minimum, np.maximum))
        self.rises = {True: apart - low, False: high - apart}
        gains = np.stack([
            apart.max(axis=1), (end - apart).max(axis=1),
            self.rises[True].max(axis=1) - _INSIDE,
            end[:, 0] + self.rises[False].max(axis=1) - _OUTSIDE,
        ])  # fmt: skip
        self.rules, self.gains = gains.argmax(axis=0), gains.max(axis=0)

    def best(self, i: int) -> Interval:
        """The interval that sorts the rows of a component best."""
        rule, first, last, is_inside = self.rules[i], -inf, inf, True
        means = restored(self.means, self.column.transform)
        if rule == 0:
            last = self._end(i, int(self.apart[i].argmax()), 1)
        elif rule == 1:
            first = self._end(i, int(self.apart[i].argmin()), -1)
        else:
            is_inside = bool(rule == 2)
            sign, b = (1 if is_inside else -1), int(self.rises[is_inside][i].argmax())
            first = self._end(i, int((sign * self.apart[i, : b + 1]).argmin()), -sign)
            last = self._end(i, b, sign)
            # An end beyond which no other has its mean is in the tail of a wide distribution, which
            # rows may not have: below 0, of sizes.
            others = np.delete(means, i)
            if is_inside:
                ends = -inf if np.nanmin(others) > last else first, last
                first, last = (ends[0], inf) if np.nanmax(others) < first else ends
            elif not first <= means[i] <= last:
                is_inside = True
                first, last = (last, inf) if means[i] > last else (-inf, first)
        true = self._share_below(last) - self._share_below(first)
        return Interval(first, last, is_inside, true if is_inside else self.observed - true)

    def _end(self, i: int, place: int, sign: int) -> float:
        """The roundest number about a place where `apart` is largest, or least for sign −1."""
        values, points, column = sign * self.apart[i, 1:-1], self.points, self.column
        worse = np.flatnonzero(values < values[place - 1] - _EQUALLY_WELL)
        k = np.searchsorted(worse, place - 1)
        left, right = np.concatenate([[-1], worse, [values.size]])[k : k + 2]
        ends = points[[left + 1, right - 1]]
        if left + 2 == right and not column.model.is_whole:  # one point: half-way to the next ones
            ends = 0.5 * (ends + points[np.clip([left, right], 0, values.size - 1)])
        least, most = restored(ends, column.transform).tolist()
        if column.model.is_whole:
            return 0.5 + roundest(ceil(least - 0.5), floor(most - 0.5))
        # Whole numbers in a column of numbers are many at one place: cuts are between them.
        is_coarse = not column.transform and max(self.deviations[i], most - least) < _COARSE
        between = floor(points[place - 1]) + 0.5 if is_coarse else inf
        return between if least <= between <= most else roundest(least, most)

    def _share_below(self, value: float) -> Float:
        if not isfinite(value):
            return self.observed * (value > 0)
        place = transformed([value], self.column.transform)[0]
        return np.array([np.interp(place, self.points, below) for below in self.below])

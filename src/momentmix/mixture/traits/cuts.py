"""The cuts of a column of numbers or counts that sort most rows rightly.

| symbol | name here | shape |
|---|---|---|
| F_i: share of rows of component i that are seen and lie below points | ``below`` | (r, n) |
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
# laws are the part that rows follow least.
_INSIDE, _OUTSIDE = 0.1, 0.2
_EQUALLY_WELL = 0.01  # difference that a cut may lose to be a round number
_COARSE = 5.0  # deviation up to which whole numbers pile up: cuts between them are better
_INWARD = np.array([1, -1])


class Interval(NamedTuple):
    """Numbers between two ends, or those outside of them, in the units of the data."""

    first: float  # −inf and inf at the ends of all numbers
    last: float
    is_inside: bool
    true: Float  # (r,), the shares of the rows of all components that lie there


class Cuts:
    """The best cuts of a column for each component.

    From means and deviations (r,), and shares of seen cells; `rest` (r, r) has the weights of the
    others for each component.
    """

    def __init__(
        self, column: Column, means: Float, deviations: Float, seen: Float, rest: Float
    ) -> None:
        points, below = column.model.below(means[:, None], deviations[:, None])
        self.column, self.means, self.deviations = column, means, deviations
        self.seen, self.points = seen, points
        self.below = seen[:, None] * np.nan_to_num(below)
        end = (seen - rest @ seen)[:, None]
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
        rule, first, last = self.rules[i], -inf, inf
        is_inside = rule != 3
        if rule == 0:
            last = self._end(i, int(self.apart[i].argmax()), 1)
        elif rule == 1:
            first = self._end(i, int(self.apart[i].argmin()), -1)
        else:
            sign, b = (1 if is_inside else -1), int(self.rises[is_inside][i].argmax())
            first = self._end(i, int((sign * self.apart[i, : b + 1]).argmin()), -sign)
            last = self._end(i, b, sign)
            if is_inside:
                first, last = self._beside(i, first, last)
            else:
                first, last, is_inside = self._beyond(i, first, last)
        true = self._share_below(last) - self._share_below(first)
        return Interval(first, last, is_inside, true if is_inside else self.seen - true)

    def _beside(self, i: int, first: float, last: float) -> tuple[float, float]:
        """The interval without the end at which no other has its mean.

        There it is the tail of a wide law, which rows may not have: below 0, of sizes.
        """
        others = np.delete(self.means, i)
        least, most = restored(
            np.array([np.nanmin(others), np.nanmax(others)]), self.column.transform
        ).tolist()
        if least > last:
            return -inf, last
        return first, inf if most < first else last

    def _beyond(self, i: int, first: float, last: float) -> tuple[float, float, bool]:
        """All numbers beyond the end where the mean lies, in place of those outside of both."""
        (mean,) = restored(self.means[[i]], self.column.transform).tolist()
        if mean > last:
            return last, inf, True
        return (-inf, first, True) if mean < first else (first, last, False)

    def _end(self, i: int, place: int, sign: int) -> float:
        """The roundest number about a place where `apart` is largest, or least for sign −1."""
        own, points, column = sign * self.apart[i, 1:-1], self.points, self.column
        worse = np.flatnonzero(own < own[place - 1] - _EQUALLY_WELL)
        k = np.searchsorted(worse, place - 1)
        ends = np.concatenate([[-1], worse, [own.size]])[k : k + 2] + _INWARD
        least, most = points[ends]
        if least == most and not column.model.is_whole:
            near = np.clip(ends - _INWARD, 0, own.size - 1)
            least, most = 0.5 * (points[ends] + points[near])
        least, most = restored(np.array([least, most]), column.transform).tolist()
        if column.model.is_whole:
            return 0.5 + roundest(ceil(least - 0.5), floor(most - 0.5))
        # Whole numbers in a column of numbers are many at one place: cuts are between them.
        is_coarse = not column.transform and max(self.deviations[i], most - least) < _COARSE
        between = floor(points[place - 1]) + 0.5 if is_coarse else inf
        return between if least <= between <= most else roundest(least, most)

    def _share_below(self, value: float) -> Float:
        if not isfinite(value):
            return self.seen * (value > 0)
        at = transformed([value], self.column.transform)[0]
        return np.array([np.interp(at, self.points, own) for own in self.below])

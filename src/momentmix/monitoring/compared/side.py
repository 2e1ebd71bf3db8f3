"""One of two summaries that are compared: moments of its values where they are seen.

| symbol | name here | shape |
|---|---|---|
| v, s: a value (0 where missing) and whether it is seen | ``value``, ``seen`` | (k,) |
| p = E s, m = E v / p | ``share``, ``mean`` | (k,) |
| E (v − m s)^t / p, t = 0 … 4 | ``central`` | (5, k) |

A value is a number, or the indicator of a level; s is 1 in columns without missing cells. Numbers
are in units of the spread of both summaries together, about the mean of their own one. A moment
that the summary does not keep is NaN.
"""

from __future__ import annotations

from math import comb

import numpy as np

from momentmix._typing import Float, Int
from momentmix.lazy import lazy_property
from momentmix.summary.column_facts import schema_of
from momentmix.summary.readings import flat_moments
from momentmix.summary.summary import MomentSummary


class Side:
    """One summary of a comparison: its k values in the units of the data, then in common ones.

    Each value has its `column`, the feature `value`, the feature `seen` (the number of features for
    the constant 1) and whether it is a `number`. `share` of its cells are seen, with mean `center`
    and `deviation`. The summary counts as `n` independent rows, a value as `n_seen`.
    """

    def __init__(self, summary: MomentSummary) -> None:
        self.summary, self.schema, self.n = summary, schema_of(summary), summary.effective_rows
        columns, d = self.schema.columns, self.schema.n_features
        self.column = np.repeat(np.arange(len(columns)), [column.n_values for column in columns])
        self.value: Int = np.array(self.schema.value_features)
        seen = [self.schema.seen_of(i) for i in self.column.tolist()]
        self.seen: Int = np.array([d if s is None else s for s in seen])
        self.number = np.array([not columns[i].model.has_levels for i in self.column.tolist()])
        means, spreads = np.append(summary.mean, 1.0), summary.deviation[self.value]
        self.share = share = means[self.seen]
        self.center = means[self.value] / share
        # v is 0 where a cell is missing.
        square = (spreads**2 - means[self.value] * self.center * (1 - share)) / share
        deviation = np.sqrt(np.maximum(square, 0.0))
        self.deviation = np.where(self.seen == d, spreads, deviation)
        self.n_seen = np.asarray(self.n * share)

    def use_units(self, spread: Float) -> None:
        """Read the moments in units of `spread` (k,), which is 0 for a constant."""
        d, totals = self.schema.n_features, self.summary._totals()
        shift, scale = np.zeros(d), np.ones(d)
        own = self.number & (self.seen == d)
        shift[self.value[own]] = self.center[own]
        size = np.where(spread > 0, spread, np.maximum(np.abs(self.center), 1e-300))
        size = np.where(np.isfinite(size), size, 1.0)
        scale[self.value[self.number]] = size[self.number]
        flat, layout = flat_moments(totals, shift, scale), totals.layout
        sections = [layout.section("distinct", 1), layout.section("squared", 0)]
        sections += [layout.section("power", 3), layout.section("power", 4)]
        powers = [flat[section.place][self.value] for section in sections]
        self.mean = np.asarray(powers[0] / self.share)
        raw = np.vstack([self.share, *powers])
        raw[2:] = np.where(self.number, raw[2:], raw[1])  # powers of 0 and 1
        parts = [
            sum(comb(t, s) * (-self.mean) ** s * raw[t - s] for s in range(t + 1)) for t in range(5)
        ]
        self.central = np.asarray(np.asarray(parts) / self.share)

    @lazy_property
    def location(self) -> Float:
        """Means of the values with the centers of their columns, of shape (k,)."""
        centers = np.array([self.schema.columns[i].center for i in self.column.tolist()])
        return np.asarray(self.center + centers)


def common_spread(a: Side, b: Side) -> Float:
    """Deviation of each value within both summaries together; 0 for constants."""
    weights = np.stack([a.n_seen, b.n_seen])
    largest = np.fmax(np.fmax(a.deviation, b.deviation), 1e-300)
    ratios = np.stack([a.deviation / largest, b.deviation / largest])
    ratios = np.where(weights > 0, ratios, 0.0)
    total = np.maximum(weights.sum(axis=0), 1e-300)
    return np.asarray(largest * np.sqrt((weights * ratios**2).sum(axis=0) / total))

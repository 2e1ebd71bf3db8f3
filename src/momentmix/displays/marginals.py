"""One column at a time: its law in each component, and how the rows are distributed.

| what | numbers | counts | levels |
|---|---|---|---|
| ``grid`` | points | integers | codes 0, 1, … |
| ``heights`` | density times share | probability times share | probability times share |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import axis_names_of, short_name
from momentmix.families.column import Column
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.tables.block_features import column_seen
from momentmix.summary.column_facts import ColumnFacts

_FEWEST_BINS, _MOST_BINS = 8, 60
_MOST_INTEGERS = 60  # bars of counts; more of them are bars of several counts each
_DEVIATIONS = 3.3  # half width of a component in a picture
_RARE = 0.002  # share of rows at each end that may lie beyond the picture


@dataclass(frozen=True, eq=False)
class Marginal:
    """One column: its law in each component, and how the rows are distributed, if there are any.

    Attributes
    ----------
    column : Column
    name : str
    grid : array of shape (n_points,)
    heights : array of shape (n_components, n_points)
        Their sum is the density, or the probability, of the column where it is seen.
    limits : tuple of float
        Ends of the axis.
    missing : float or None
        Share of missing cells of the rows or, without any, by the model.
    edges, shares : arrays of shape (n_bins + 1,) and (n_bins,), or None
        Bins, and the share of rows in each.
    center, spread : float or None
        Mean and standard deviation of the rows, where only their moments are known.
    """

    column: Column
    name: str
    grid: Float
    heights: Float
    limits: tuple[float, float]
    missing: float | None = None
    edges: Float | None = None
    shares: Float | None = None
    center: float | None = None
    spread: float | None = None

    @property
    def has_rows(self) -> bool:
        """Whether anything is known of rows."""
        return self.shares is not None or self.center is not None

    @property
    def is_count(self) -> bool:
        """Whether the column holds counts."""
        return self.column.model.is_whole

    @property
    def levels(self) -> list[str]:
        """Names of the levels, if there are any."""
        return [short_name(str(level), 18) for level in self.column.levels]


# -- the law -----------------------------------------------------------------------------------


def marginal_of(mixture: Mixture, number: int, values: Float | None = None) -> Marginal:
    """The law of a column, with the histogram of values (n_rows,) as in `ShownRows`."""
    column, name = mixture.columns[number], axis_names_of(mixture)[number]
    seen, missing = np.ones(mixture.n_components), None
    if column.has_missing:
        seen = np.nan_to_num(column_seen(mixture.blocks, mixture.n_columns)[:, number], nan=1.0)
        missing = 1.0 - float(mixture.weights @ seen)
    shares = mixture.weights * seen
    shares = (shares / max(shares.sum(), np.finfo(float).tiny))[:, None]
    means, deviations = mixture.means[:, [number]], np.sqrt(mixture.variances[:, [number]])
    if column.levels:
        heights = np.stack(list(mixture.level_probabilities(number).values()), axis=1)
        limits, grid = (-0.5, len(column.levels) - 0.5), np.arange(float(len(column.levels)))
    else:
        limits = _limits(means, deviations, values, column.model.is_whole)
        grid, heights = column.model.curve(means, deviations, limits)
    law = Marginal(column, name, grid, np.nan_to_num(shares * heights), limits, missing)
    return law if values is None else _with_rows(law, values)


def _limits(
    means: Float, deviations: Float, values: Float | None, is_count: bool
) -> tuple[float, float]:
    """Ends of the axis of numbers or counts: all components, and nearly all rows."""
    low = float(np.nanmin(means - _DEVIATIONS * deviations))
    high = float(np.nanmax(means + _DEVIATIONS * deviations))
    seen = np.empty(0) if values is None else values[np.isfinite(values)]
    if seen.size:
        ends = np.quantile(seen, [_RARE, 1 - _RARE])
        low, high = min(low, float(ends[0])), max(high, float(ends[1]))
    if is_count:
        return max(0.0, np.floor(low)) - 0.5, np.ceil(high) + 0.5
    if high - low <= 1e-12 * abs(high):  # a constant column
        pad = max(0.5, 1e-6 * abs(high))
        return low - pad, high + pad
    return low, high


# -- the rows ----------------------------------------------------------------------------------


def _with_rows(marginal: Marginal, values: Float) -> Marginal:
    """The same with a histogram: of integers for counts, of levels for categories."""
    seen = values[np.isfinite(values)]
    missing = 1.0 - len(seen) / max(len(values), 1)
    low, high = marginal.limits
    if not len(seen):
        return replace(marginal, edges=np.array([low, high]), shares=np.zeros(1), missing=missing)
    if marginal.levels or marginal.is_count:
        step = max(1.0, np.ceil((high - low) / _MOST_INTEGERS)) if marginal.is_count else 1.0
        edges = np.arange(low, high + step, step)
    else:
        edges = _edges(seen, low, high)
    counts = np.histogram(seen, edges)[0]
    return replace(marginal, edges=edges, shares=counts / len(seen), missing=missing)


def _edges(values: Float, low: float, high: float) -> Float:
    """Bins as wide as the rule of Freedman and Diaconis says, whole steps where values are rounded.

    Bins that hold now two and now three of the values that occur would look like a comb.
    """
    quarter = np.subtract(*np.quantile(values, [0.75, 0.25]))
    width = 2 * quarter / len(values) ** (1 / 3) or (high - low) / _FEWEST_BINS
    width = float(np.clip(width, (high - low) / _MOST_BINS, (high - low) / _FEWEST_BINS))
    different = np.unique(values)
    steps = np.diff(different)
    if 1 < len(different) <= 4 * _MOST_BINS and len(different) < len(values):
        step = float(steps.min())
        if step * 4 * _MOST_BINS > high - low:
            width = step * max(1.0, np.round(width / step))
            low = different[0] - 0.5 * step - width * np.ceil((different[0] - low) / width)
    return np.asarray(low + width * np.arange(np.ceil((high - low) / width) + 1))


def with_moments(marginal: Marginal, facts: ColumnFacts) -> Marginal:
    """The same with mean and deviation of the column, or the shares of its levels."""
    law = replace(marginal, missing=0.0 if facts.seen is None else 1.0 - facts.seen)
    if not marginal.levels:
        return replace(law, center=facts.mean, spread=facts.deviation)
    shares = facts.shares or (() if facts.mean is None else (1.0 - facts.mean, facts.mean))
    if not shares:
        return law
    return replace(law, edges=np.arange(len(shares) + 1.0) - 0.5, shares=np.array(shares))

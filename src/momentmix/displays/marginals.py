"""One column: its distribution in each component, that of the rows, and their panel.

| what | numbers | counts | levels |
|---|---|---|---|
| ``grid`` | points | integers | codes 0, 1, … |
| ``heights`` | density times share | probability times share | probability times share |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import (
    GRAY,
    axis_names_of,
    component_styles,
    ink,
    percent_axis,
    short_name,
)
from momentmix.families.column import Column, restored, transformed
from momentmix.html.palette import COLORS
from momentmix.mixture.columns import column_seen
from momentmix.mixture.mixture import Mixture
from momentmix.wording import percent

_FEWEST_BINS, _MOST_BINS = 8, 60
_DEVIATIONS = 3.3  # half width of a component in a picture
_RARE = 0.002  # share of rows at each end that may lie beyond the picture
_MOST_LEVELS = 12  # bars of levels that are drawn one by one; the rarest others share one bar
_MOST_TICKS = 4  # of a logarithmic axis; more numbers would touch one another
_LONGEST = 9  # letters of a number at an axis
_BAR: dict[str, Any] = {"color": GRAY, "alpha": 0.45, "linewidth": 0}
_HATCHES = ("", "////", "....", "xxxx")  # of bars whose colors repeat
_HIGHEST = 1.8  # height of the axis, relative to the highest bar of the rows: a curve may be cut


@dataclass(frozen=True, eq=False)
class Marginal:
    """One column: its distribution in each component, and that of the rows, if there are any."""

    column: Column
    name: str
    grid: Float  # (n_points,)
    heights: Float  # (n_components, n_points); their sum is the distribution of observed cells
    limits: tuple[float, float]  # ends of the axis
    missing: float | None = None  # share of missing cells of the rows or, without any, by the model
    edges: Float | None = None  # (n_bins + 1,)
    shares: Float | None = None  # (n_bins,), of the rows

    @property
    def is_count(self) -> bool:
        """Whether the column holds counts."""
        return self.column.model.is_whole


def marginal_of(mixture: Mixture, number: int, values: Float | None = None) -> Marginal:
    """Return the distribution of a column, with the histogram of values (n_rows,)."""
    column, name = mixture.columns[number], axis_names_of(mixture)[number]
    observed, missing = np.ones(mixture.n_components), None
    if column.has_missing:
        seen = column_seen(mixture.blocks, mixture.n_columns)[:, number]
        observed = np.nan_to_num(seen, nan=1.0)
        missing = 1.0 - float(mixture.weights @ observed)
    shares = mixture.weights * observed
    shares = (shares / max(shares.sum(), np.finfo(float).tiny))[:, None]
    means, deviations = mixture.means[:, [number]], np.sqrt(mixture.variances[:, [number]])
    if column.levels:
        heights = np.stack(list(mixture.level_probabilities(number).values()), axis=1)
        limits, grid = (-0.5, len(column.levels) - 0.5), np.arange(float(len(column.levels)))
    else:
        limits = _limits(means, deviations, values, column)
        grid, heights = column.model.curve(means, deviations, limits)
    found = Marginal(column, name, grid, np.nan_to_num(shares * heights), limits, missing)
    return found if values is None else _with_rows(found, values)


def _limits(
    means: Float, deviations: Float, values: Float | None, column: Column
) -> tuple[float, float]:
    """Return the ends of an axis of numbers or counts: all components, and nearly all rows.

    It does not go below zero where no row does, nor beyond what the column can hold.
    """
    model = column.model
    low = float(np.nanmin(means - _DEVIATIONS * deviations))
    high = float(np.nanmax(means + _DEVIATIONS * deviations))
    seen = np.empty(0) if values is None else values[np.isfinite(values)]
    if seen.size:
        ends = np.quantile(seen, [_RARE, 1 - _RARE])
        low, high = min(low, float(ends[0])), max(high, float(ends[1]))
    if column.transform != "log" and (seen.min() >= 0 if seen.size else column.transform):
        low = max(low, 0.0)
    if model.is_whole:
        return max(model.least, np.floor(low)) - 0.5, np.ceil(high) + 0.5
    if high - low <= 1e-12 * abs(high):  # a constant column
        pad = max(0.5, 1e-6 * abs(high))
        return low - pad, high + pad
    return low, high


def _with_rows(marginal: Marginal, values: Float) -> Marginal:
    """Add a histogram: of integers for counts, of levels for categories."""
    seen, (low, high) = values[np.isfinite(values)], marginal.limits
    step = 1.0
    if not len(seen):
        edges = np.array([low, high])
    elif marginal.column.levels or marginal.is_count:
        step = max(1.0, np.ceil((high - low) / _MOST_BINS)) if marginal.is_count else 1.0
        edges = np.arange(low, high + step, step)
    else:
        edges = _edges(seen, low, high)
    shares = np.histogram(seen, edges)[0] / max(len(seen), 1)
    missing = 1.0 - len(seen) / max(len(values), 1)
    # Bars of rounded values stand half a step on each side.
    limits = (min(low, float(edges[0])) if low == 0 else low, high)
    return replace(marginal, limits=limits, edges=edges, shares=shares, missing=missing)


def _edges(values: Float, low: float, high: float) -> Float:
    """Return bins by the rule of Freedman and Diaconis, whole steps where values are rounded."""
    quarter = np.subtract(*np.quantile(values, [0.75, 0.25]))
    width = 2 * quarter / len(values) ** (1 / 3) or (high - low) / _FEWEST_BINS
    width = float(np.clip(width, (high - low) / _MOST_BINS, (high - low) / _FEWEST_BINS))
    different = np.unique(values)
    if 1 < len(different) <= 4 * _MOST_BINS and len(different) < len(values):
        step = float(np.diff(different).min())
        if step * 4 * _MOST_BINS > high - low:
            width = step * max(1.0, np.round(width / step))
            low = different[0] - 0.5 * step - width * np.ceil((different[0] - low) / width)
    return np.asarray(low + width * np.arange(np.ceil((high - low) / width) + 1))


# -- the panel ---------------------------------------------------------------------------------


def draw_marginal(ax: Any, marginal: Marginal) -> None:
    """Draw one column: the rows, and each component, as shares of the rows."""
    ax.tick_params(labelsize="small")
    if marginal.missing:
        ax.set_title(f"{percent(marginal.missing)} missing", fontsize="small", loc="right")
    if marginal.column.levels:
        _draw_levels(ax, marginal)
        return
    unit = 1.0
    if marginal.edges is not None and marginal.shares is not None:
        edges, shares = marginal.edges, marginal.shares
        unit = float(edges[1] - edges[0])
        if marginal.is_count and unit == 1:  # bars with gaps
            edges = (edges[:-1, None] + [0.07, 0.93]).ravel()
            shares = np.column_stack([shares, np.zeros(len(shares))]).ravel()[:-1]
        # One shape: a patch for each bar takes ten times as long.
        ax.stairs(shares, edges, fill=True, zorder=1, **_BAR)
    heights = unit * marginal.heights
    few = marginal.is_count and len(marginal.grid) <= 40
    marker = {"marker": "o", "markersize": 2.5} if few else {}
    ax.plot(marginal.grid, heights.sum(axis=0), color=ink(), linewidth=1.0, zorder=2, **marker)
    for height, (color, dash) in zip(heights, component_styles(len(heights)), strict=True):
        ax.plot(marginal.grid, height, dash, color=color, linewidth=1.7, zorder=3, **marker)
    highest = 1.05 * float(ax.dataLim.ymax)
    if marginal.shares is not None and marginal.shares.any():
        highest = min(highest, _HIGHEST * float(marginal.shares.max()), 1.0)
    ax.set_ylim(0, highest or 1.0)
    set_axis(ax.xaxis, marginal)
    percent_axis(ax.yaxis, 4)
    if marginal.shares is None and not marginal.is_count:
        ax.set_yticks([])  # densities have units that nobody asks for


def _draw_levels(ax: Any, marginal: Marginal) -> None:
    """Draw a wide bar of the rows at each level, and on it the components one after the other."""
    names = [short_name(str(level), 18) for level in marginal.column.levels]
    heights, shares = marginal.heights, marginal.shares
    if len(names) > _MOST_LEVELS:  # the rarest share a bar
        common = heights.sum(axis=0) if shares is None else shares
        kept = np.sort(np.argsort(-common, kind="stable")[: _MOST_LEVELS - 1])
        rest = np.setdiff1d(np.arange(len(names)), kept)
        names = [names[j] for j in kept] + [f"{len(rest)} others"]
        heights = np.column_stack([heights[:, kept], heights[:, rest].sum(axis=1)])
        shares = None if shares is None else np.append(shares[kept], shares[rest].sum())
    places = np.arange(float(len(names)))
    if shares is not None:
        ax.barh(places, shares, 0.88, zorder=1, **_BAR)
    starts, styles = np.cumsum(heights, axis=0) - heights, component_styles(len(heights))
    for k, (height, start, (color, _)) in enumerate(zip(heights, starts, styles, strict=True)):
        hatch = _HATCHES[k // len(COLORS) % len(_HATCHES)]
        ax.barh(places, height, 0.5, left=start, color=color, zorder=2, hatch=hatch)
    ax.set_yticks(places, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    percent_axis(ax.xaxis, 4)


def set_axis(axis: Any, marginal: Marginal) -> None:
    """Set limits and ticks of an axis along a column: some of many levels, round numbers."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_view_interval(*marginal.limits, ignore=True)
    if levels := marginal.column.levels:
        step = -(-len(levels) // _MOST_LEVELS)
        names = [short_name(str(x), 12) for x in levels[::step]]
        axis.set_ticks(marginal.grid[::step], names)
        if sum(map(len, names)) > 22 and axis.axis_name == "x":
            axis.set_tick_params(labelrotation=90)
    elif marginal.column.transform:
        _set_log_ticks(axis, marginal.limits, marginal.column.transform)
    else:
        axis.set_major_locator(MaxNLocator(5, integer=marginal.is_count, steps=[1, 2, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: _number(value)))


def _set_log_ticks(axis: Any, limits: tuple[float, float], transform: str) -> None:
    """Label an axis after a transform with round numbers in the units of the data."""
    ends = restored(np.linspace(*limits, 7), transform)
    tenths = np.unique(np.round(3 * np.log10(ends[ends > 0]))).astype(int)  # 1, 2, 5, 10, …
    numbers = 10.0 ** (tenths // 3) * np.array([1.0, 2.0, 5.0])[tenths % 3]
    places = transformed(np.append(0.0, numbers) if transform == "log1p" else numbers, transform)
    inside = (places >= limits[0]) & (places <= limits[1])
    places = places[inside][:: -(-int(inside.sum()) // _MOST_TICKS) or 1]
    if len(places) < 2:
        places = np.linspace(*limits, 4)[1:-1]
    axis.set_ticks(places, [_number(float(f"{x:.3g}")) for x in restored(places, transform)])


def _number(value: float) -> str:
    """A number at an axis, with separators where it is short enough."""
    text = f"{value:,.10g}"
    return (text if len(text) <= _LONGEST else f"{value:.3g}").replace("-", "−")


def legend_of_marginals(marginals: Sequence[Marginal]) -> list[Any]:
    """Return entries of a legend for bars and lines."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries = list[Any]()
    if any(marginal.shares is not None for marginal in marginals):
        entries.append(Patch(label="gray bars: rows", **_BAR))
    if not all(marginal.column.levels for marginal in marginals):
        label = "curves: fitted components, thin: their sum"
        entries.append(Line2D([], [], color=ink(), linewidth=1.0, label=label))
    return entries

"""One column: its law in each component, the distribution of the rows, and their panel.

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
from momentmix.summary.column_facts import ColumnFacts

_FEWEST_BINS, _MOST_BINS = 8, 60
_MOST_INTEGERS = 60  # bars of counts; more of them are bars of several counts each
_DEVIATIONS = 3.3  # half width of a component in a picture
_RARE = 0.002  # share of rows at each end that may lie beyond the picture
_MOST_LEVELS = 12  # bars of levels that are drawn one by one; the rarest others share one bar
_MOST_DIGITS = 14  # letters of all ticks of a logarithmic axis; more would touch one another
_BAR: dict[str, Any] = {"color": GRAY, "alpha": 0.45, "linewidth": 0}
_HATCHES = ("", "////", "....", "xxxx")  # of bars whose colors repeat
_HIGHEST = 1.8  # height of the axis, relative to the highest bar of the rows: a curve may be cut


@dataclass(frozen=True, eq=False)
class Marginal:
    """One column: its law in each component, and the distribution of the rows, if there are any."""

    column: Column
    name: str
    grid: Float  # (n_points,)
    heights: Float  # (n_components, n_points); their sum is the law where the column is seen
    limits: tuple[float, float]  # ends of the axis
    missing: float | None = None  # share of missing cells of the rows or, without any, by the model
    edges: Float | None = None  # (n_bins + 1,)
    shares: Float | None = None  # (n_bins,), of the rows
    center: float | None = None  # mean and deviation of the rows, where only moments are known
    spread: float | None = None

    @property
    def is_count(self) -> bool:
        """Whether the column holds counts."""
        return self.column.model.is_whole

    @property
    def levels(self) -> list[str]:
        """Names of the levels, if there are any."""
        return [short_name(str(level), 18) for level in self.column.levels]


def marginal_of(mixture: Mixture, number: int, values: Float | None = None) -> Marginal:
    """Return the law of a column, with the histogram of values (n_rows,) as of `shown_rows`."""
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
        limits = _limits(means, deviations, values, column)
        grid, heights = column.model.curve(means, deviations, limits)
    law = Marginal(column, name, grid, np.nan_to_num(shares * heights), limits, missing)
    return law if values is None else _with_rows(law, values)


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


def _with_rows(law: Marginal, values: Float) -> Marginal:
    """Add a histogram: of integers for counts, of levels for categories."""
    seen, (low, high) = values[np.isfinite(values)], law.limits
    if not len(seen):
        edges = np.array([low, high])
    elif law.levels or law.is_count:
        step = max(1.0, np.ceil((high - low) / _MOST_INTEGERS)) if law.is_count else 1.0
        edges = np.arange(low, high + step, step)
    else:
        edges = _edges(seen, low, high)
    shares = np.histogram(seen, edges)[0] / max(len(seen), 1)
    missing = 1.0 - len(seen) / max(len(values), 1)
    # Bars of rounded values stand half a step on each side.
    limits = (min(low, float(edges[0])) if low == 0 else low, high)
    return replace(law, limits=limits, edges=edges, shares=shares, missing=missing)


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


def with_moments(law: Marginal, facts: ColumnFacts) -> Marginal:
    """Add mean and deviation of the column, or the shares of its levels."""
    law = replace(law, missing=0.0 if facts.seen is None else 1.0 - facts.seen)
    if not law.levels:
        if facts.minimum is not None and facts.minimum >= 0 and not law.column.transform:
            low = -0.5 if law.is_count else 0.0
            law = replace(law, limits=(max(law.limits[0], low), law.limits[1]))
        return replace(law, center=facts.mean, spread=facts.deviation)
    if not facts.shares:
        return law
    edges = np.arange(len(facts.shares) + 1.0) - 0.5
    return replace(law, edges=edges, shares=np.array(facts.shares))


# -- the panel ---------------------------------------------------------------------------------


def draw_marginal(ax: Any, law: Marginal, *, lying: bool = False, is_tinted: bool = True) -> None:
    """Draw one column: the rows, and the law of each component, as shares of the rows."""
    if law.levels:
        _draw_levels(ax, law, lying)
        percent_axis(ax.xaxis if lying else ax.yaxis, 4)
        return
    unit = 1.0
    if law.edges is not None and law.shares is not None:
        widths = np.diff(law.edges)
        unit = float(widths[0])
        edges, shares = law.edges, law.shares
        if law.is_count and unit == 1:  # bars with gaps
            edges = (edges[:-1, None] + [0.07, 0.93]).ravel()
            shares = np.column_stack([shares, np.zeros(len(shares))]).ravel()[:-1]
        # One shape: a patch for each bar takes ten times as long.
        ax.stairs(shares, edges, fill=True, zorder=1, **_BAR)
    _draw_curves(ax, law, unit, is_tinted)
    highest = 1.05 * float(ax.dataLim.ymax)
    if law.shares is not None and law.shares.any():
        highest = min(highest, _HIGHEST * float(law.shares.max()), 1.0)
    ax.set_ylim(0, highest or 1.0)
    if law.center is not None:  # mean and deviation of the rows
        ax.errorbar(
            law.center, 0.06, xerr=law.spread, fmt="D", color=ink(), markersize=4, capsize=3,
            linewidth=1, transform=ax.get_xaxis_transform(), zorder=4,
        )  # fmt: skip
    set_axis(ax.xaxis, law)
    percent_axis(ax.yaxis, 4)
    if law.shares is None and not law.is_count:
        ax.set_yticks([])  # densities have units that nobody asks for


def _draw_curves(ax: Any, law: Marginal, unit: float, is_tinted: bool) -> None:
    """Draw a curve for each component, and their sum."""
    heights = unit * law.heights
    few = law.is_count and len(law.grid) <= 40
    marker = {"marker": "o", "markersize": 2.5} if few else {}
    ax.plot(law.grid, heights.sum(axis=0), color=ink(), linewidth=1.0, zorder=2, **marker)
    for height, (color, dash) in zip(heights, component_styles(len(heights)), strict=True):
        ax.plot(law.grid, height, dash, color=color, linewidth=1.7, zorder=3, **marker)
        if is_tinted and not few:
            ax.fill_between(law.grid, height, color=color, alpha=0.10, linewidth=0, zorder=2)


def _draw_levels(ax: Any, law: Marginal, lying: bool) -> None:
    """Draw a wide bar of the rows at each level, and on it the components one after the other."""
    names, heights, shares = law.levels, law.heights, law.shares
    if lying and len(names) > _MOST_LEVELS:  # the rarest share a bar
        common = heights.sum(axis=0) if shares is None else shares
        kept = np.sort(np.argsort(-common, kind="stable")[: _MOST_LEVELS - 1])
        rest = np.setdiff1d(np.arange(len(names)), kept)
        names = [names[j] for j in kept] + [f"{len(rest)} others"]
        heights = np.column_stack([heights[:, kept], heights[:, rest].sum(axis=1)])
        shares = None if shares is None else np.append(shares[kept], shares[rest].sum())
    bars, side = (ax.barh, "left") if lying else (ax.bar, "bottom")
    places = np.arange(float(len(names)))
    if shares is not None:
        bars(places, shares, 0.88, zorder=1, **_BAR)
    starts, styles = np.cumsum(heights, axis=0) - heights, component_styles(len(heights))
    for k, (height, start, (color, _)) in enumerate(zip(heights, starts, styles, strict=True)):
        hatch = _HATCHES[k // len(COLORS) % len(_HATCHES)]
        bars(places, height, 0.5, color=color, zorder=2, hatch=hatch, **{side: start})
    if lying:
        ax.set_yticks(places, names)
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.tick_params(axis="y", length=0)
    else:
        set_axis(ax.xaxis, law)


def set_axis(axis: Any, law: Marginal) -> None:
    """Set limits and ticks of an axis along a column: some of many levels, round numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_view_interval(*law.limits, ignore=True)
    if law.levels:
        step = -(-len(law.levels) // _MOST_LEVELS)
        names = [short_name(str(x), 12) for x in law.column.levels[::step]]
        crowded = sum(map(len, names)) > 22 and axis.axis_name == "x"
        axis.set_ticks(law.grid[::step], names, **({"rotation": 90} if crowded else {}))
    elif law.column.transform:
        _set_log_ticks(axis, law)
    else:
        axis.set_major_locator(MaxNLocator(5, integer=law.is_count, steps=[1, 2, 5, 10]))


def _set_log_ticks(axis: Any, law: Marginal) -> None:
    """Label an axis after a transform with round numbers in the units of the data."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    transform, (low, high) = law.column.transform, law.limits
    values = restored(np.linspace(low, high, 7), transform)
    thirds = np.unique(np.round(3 * np.log10(values[values > 0]))).astype(int)
    numbers = 10.0 ** (thirds // 3) * np.array([1.0, 2.0, 5.0])[thirds % 3]
    places = transformed(np.append(numbers, 0.0), transform)
    places = np.sort(places[(places >= low) & (places <= high)])

    def written(place: float) -> str:
        value = float(restored(np.array(place), transform))
        text = f"{float(f'{value:.3g}'):,.10g}"
        return text if len(text) <= 10 else f"{value:.3g}"

    while len(places) > 2 and sum(map(len, map(written, places))) > _MOST_DIGITS:
        places = places[::2]
    if len(places) < 2:
        places = np.linspace(low, high, 4)[1:-1]
    axis.set_major_locator(FixedLocator(places.tolist()))
    axis.set_major_formatter(FuncFormatter(lambda place, _: written(place)))


def legend_of_marginals(laws: Sequence[Marginal]) -> list[Any]:
    """Return entries of a legend for bars, lines and markers."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries = list[Any]()
    if any(law.shares is not None for law in laws):
        entries.append(Patch(label="gray bars: rows", **_BAR))
    if any(law.center is not None for law in laws):
        label = "diamond: mean and standard deviation of the rows"
        entries.append(Line2D([], [], color=ink(), marker="D", markersize=4, label=label))
    if not all(law.levels for law in laws):
        label = "curves: fitted components, thin: their sum"
        entries.append(Line2D([], [], color=ink(), linewidth=1.0, label=label))
    return entries

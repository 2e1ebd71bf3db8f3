"""Draws one column on given axes: bars of the rows, curves or bars of the components."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.marginals import Marginal
from momentmix.displays.style import GRAY, component_styles, ink, percent_axis, short_name
from momentmix.families.transforms import restored, transformed

_MOST_LEVELS = 12  # bars of levels that are drawn one by one; the rarest others share one bar
_MOST_DIGITS = 14  # letters of all ticks of a logarithmic axis; more would touch one another
_BAR: dict[str, Any] = {"color": GRAY, "alpha": 0.45, "linewidth": 0}
_HIGHEST = 1.8  # height of the axis, relative to the highest bar of the rows: a curve may be cut


def draw_marginal(ax: Any, marginal: Marginal, *, lying: bool = False) -> None:
    """Draw one column: what the rows are like, and the law of each component.

    Heights are shares of the rows: in a bar, of a count, of a level. Bars of levels that are
    `lying` stand one below the other, with room for their names.
    """
    if marginal.levels:
        (_lying_levels if lying else _standing_levels)(ax, marginal)
        percent_axis(ax.xaxis if lying else ax.yaxis, 4)
        return
    unit = _bars_of_rows(ax, marginal)
    _curves(ax, marginal, unit or 1.0)
    highest = 1.05 * float(ax.dataLim.ymax)
    if marginal.shares is not None and marginal.shares.any():
        highest = min(highest, _HIGHEST * float(marginal.shares.max()))
    ax.set_ylim(0, highest or 1.0)
    if marginal.center is not None:  # mean and deviation of the rows
        ax.errorbar(
            marginal.center, 0.06, xerr=marginal.spread, fmt="D", color=ink(), markersize=4,
            capsize=3, linewidth=1, transform=ax.get_xaxis_transform(), zorder=4,
        )  # fmt: skip
    set_axis(ax.xaxis, marginal)
    percent_axis(ax.yaxis, 4)
    if unit is None and not marginal.is_count:
        ax.set_yticks([])  # densities have units that nobody asks for


def set_axis(axis: Any, marginal: Marginal) -> None:
    """Limits and ticks of an axis along a column."""
    axis.set_view_interval(*marginal.limits, ignore=True)
    (_level_ticks if marginal.levels else _ticks_in_data_units)(axis, marginal)


def _ticks_in_data_units(axis: Any, marginal: Marginal) -> None:
    """Label an axis after a transform with round numbers in the units of the data."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    transform, (low, high) = marginal.column.transform, marginal.limits
    if not transform:
        axis.set_major_locator(MaxNLocator(5, integer=marginal.is_count, steps=[1, 2, 5, 10]))
        return
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


# -- numbers and counts ------------------------------------------------------------------------


def _bars_of_rows(ax: Any, marginal: Marginal) -> float | None:
    """Draw the histogram; the width of its bars, None without."""
    if marginal.edges is None or marginal.shares is None:
        return None
    widths = np.diff(marginal.edges)
    slim = 0.86 if marginal.is_count and widths[0] == 1 else 1.0  # of counts: bars with gaps
    middle = marginal.edges[:-1] + 0.5 * widths
    ax.bar(middle, marginal.shares, widths * slim, zorder=1, **_BAR)
    return float(widths[0])


def _curves(ax: Any, marginal: Marginal, unit: float) -> None:
    """One curve for each component, and their sum."""
    heights = unit * marginal.heights
    few = marginal.is_count and len(marginal.grid) <= 40
    marker = {"marker": "o", "markersize": 2.5} if few else {}
    total = heights.sum(axis=0)
    ax.plot(marginal.grid, total, color=ink(), linewidth=1.0, zorder=2, **marker)
    for height, (color, dash) in zip(heights, component_styles(len(heights)), strict=True):
        ax.plot(marginal.grid, height, dash, color=color, linewidth=1.7, zorder=3, **marker)
        if not few:
            ax.fill_between(marginal.grid, height, color=color, alpha=0.10, linewidth=0, zorder=2)


# -- levels ------------------------------------------------------------------------------------


def _shown_levels(marginal: Marginal) -> tuple[list[str], Float, Any]:
    """Names, heights and shares of levels; the rarest are one where there are many."""
    names, heights, shares = marginal.levels, marginal.heights, marginal.shares
    if len(names) <= _MOST_LEVELS:
        return names, heights, shares
    common = heights.sum(axis=0) if shares is None else shares
    kept = np.sort(np.argsort(-common, kind="stable")[: _MOST_LEVELS - 1])
    rest = np.setdiff1d(np.arange(len(names)), kept)
    names = [names[j] for j in kept] + [f"{len(rest)} others"]
    heights = np.column_stack([heights[:, kept], heights[:, rest].sum(axis=1)])
    return names, heights, None if shares is None else np.append(shares[kept], shares[rest].sum())


def _lying_levels(ax: Any, marginal: Marginal) -> None:
    names, heights, shares = _shown_levels(marginal)
    places = np.arange(float(len(names)))
    _stacked(ax.barh, "left", places, heights, shares)
    ax.set_yticks(places, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _standing_levels(ax: Any, marginal: Marginal) -> None:
    _stacked(ax.bar, "bottom", marginal.grid, marginal.heights, marginal.shares)
    set_axis(ax.xaxis, marginal)


def _stacked(bars: Any, side: str, places: Float, heights: Float, shares: Float | None) -> None:
    """A wide bar of the rows at each place, and on it the components one after the other."""
    if shares is not None:
        bars(places, shares, 0.88, zorder=1, **_BAR)
    starts = np.cumsum(heights, axis=0) - heights
    for height, start, (color, _) in zip(
        heights, starts, component_styles(len(heights)), strict=True
    ):
        bars(places, height, 0.5, color=color, zorder=2, **{side: start})


def _level_ticks(axis: Any, marginal: Marginal) -> None:
    """Names of levels along an axis; of many levels, some."""
    step = -(-len(marginal.levels) // _MOST_LEVELS)
    names = [short_name(str(x), 12) for x in marginal.column.levels[::step]]
    crowded = sum(map(len, names)) > 22 and axis.axis_name == "x"
    turned = {"rotation": 90} if crowded else {}
    axis.set_ticks(marginal.grid[::step], names, **turned)


def legend_of_marginals(laws: Sequence[Marginal]) -> list[Any]:
    """What bars, lines and markers are, as entries of a legend."""
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

"""Draws one column on given axes: bars of the rows, curves or bars of the components."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.marginals import Marginal, Observed
from momentmix.displays.style import GRAY, component_styles, ink, percent, short_name
from momentmix.families.transforms import restored, transformed

_MOST_LEVELS = 12  # bars of levels that are drawn one by one; the rarest others share one bar
_MOST_DIGITS = 14  # letters of all ticks of a logarithmic axis; more would touch one another
_BAR: dict[str, Any] = {"color": GRAY, "alpha": 0.45, "linewidth": 0}
_HIGHEST = 1.8  # height of the axis, relative to the highest bar of the rows: a curve may be cut


def draw_marginal(
    ax: Any, marginal: Marginal, observed: Observed | None = None, *, lying: bool = False
) -> None:
    """Draw one column: what the rows are like, and the law of each component.

    Heights are shares of the rows: in a bar, of a count, of a level.

    Parameters
    ----------
    ax : matplotlib axes
    marginal : Marginal
    observed : Observed, optional
    lying : bool
        Whether the bars of levels lie, one below the other, with room for their names.
    """
    if marginal.levels:
        (_lying_levels if lying else _standing_levels)(ax, marginal, observed)
        _ticks_of_shares(ax.xaxis if lying else ax.yaxis)
        return
    unit = _bars_of_rows(ax, marginal, observed)
    _curves(ax, marginal, unit or 1.0)
    highest = 1.05 * float(ax.dataLim.ymax)
    if observed is not None and observed.shares is not None and observed.shares.any():
        highest = min(highest, _HIGHEST * float(observed.shares.max()))
    ax.set_ylim(0, highest or 1.0)
    if observed is not None and observed.center is not None:
        _mean_and_spread(ax, observed)
    ax.set_xlim(*marginal.limits)
    ticks_in_data_units(ax.xaxis, marginal)
    _ticks_of_shares(ax.yaxis)
    if unit is None and not marginal.is_count:
        ax.set_yticks([])  # densities have units that nobody asks for


def _ticks_of_shares(axis: Any) -> None:
    """A few ticks in percent."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))


def ticks_in_data_units(axis: Any, marginal: Marginal) -> None:
    """Label an axis after a transform with round numbers in the units of the data."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

    transform, (low, high) = marginal.column.transform, marginal.limits
    if not transform:
        axis.set_major_locator(MaxNLocator(5, integer=marginal.is_count, steps=[1, 2, 5, 10]))
        return
    values = _round_numbers(*restored(np.array([low, high]), transform))
    places = transformed(values, transform)
    inside = (places >= low) & (places <= high)
    places = places[inside]
    if len(places) < 2:
        places = np.linspace(low, high, 4)[1:-1]
    axis.set_major_locator(FixedLocator(places.tolist()))
    axis.set_major_formatter(
        FuncFormatter(lambda t, _: _written(float(restored(np.array(t), transform))))
    )


def _written(value: float) -> str:
    """A number with three digits, without exponent where it is short enough."""
    text = f"{float(f'{value:.3g}'):,.10g}"
    return text if len(text) <= 10 else f"{value:.3g}"


def _round_numbers(low: float, high: float) -> Float:
    """A few round numbers between two positive ones, evenly in their logarithm; and 0."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return np.empty(0)
    first = np.floor(np.log10(max(low, 1e-3 * high, 1e-300)))
    decades = np.arange(first, np.ceil(np.log10(max(high, 1e-300))) + 1)
    for mantissas in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        numbers = np.ravel(10.0 ** decades[:, None] * np.array(mantissas))
        numbers = numbers[(numbers >= low) & (numbers <= high)]
        if sum(len(_written(x)) for x in numbers) <= _MOST_DIGITS:
            break
    while len(numbers) > 2 and sum(len(_written(x)) for x in numbers) > _MOST_DIGITS:
        numbers = numbers[::2]
    return np.concatenate([[0.0], numbers]) if low <= 0 <= high else numbers


# -- numbers and counts ------------------------------------------------------------------------


def _bars_of_rows(ax: Any, marginal: Marginal, observed: Observed | None) -> float | None:
    """Draw the histogram; the width of its bars, None without."""
    if observed is None or observed.edges is None or observed.shares is None:
        return None
    widths = np.diff(observed.edges)
    slim = 0.86 if marginal.is_count and widths[0] == 1 else 1.0  # of counts: bars with gaps
    middle = observed.edges[:-1] + 0.5 * widths
    ax.bar(middle, observed.shares, widths * slim, zorder=1, **_BAR)
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


def _mean_and_spread(ax: Any, observed: Observed) -> None:
    """A marker at the mean of the rows, with one standard deviation to each side."""
    ax.errorbar(
        observed.center, 0.06, xerr=observed.spread, fmt="D", color=ink(), markersize=4, capsize=3,
        linewidth=1, transform=ax.get_xaxis_transform(), zorder=4,
    )  # fmt: skip


# -- levels ------------------------------------------------------------------------------------


def _shown_levels(marginal: Marginal, observed: Observed | None) -> tuple[list[str], Float, Any]:
    """Names, heights and shares of levels; the rarest are one where there are many."""
    names, heights = marginal.levels, marginal.heights
    shares = None if observed is None else observed.shares
    if len(names) <= _MOST_LEVELS:
        return names, heights, shares
    common = heights.sum(axis=0) if shares is None else shares
    kept = np.sort(np.argsort(-common, kind="stable")[: _MOST_LEVELS - 1])
    rest = np.setdiff1d(np.arange(len(names)), kept)
    names = [names[j] for j in kept] + [f"{len(rest)} others"]
    heights = np.column_stack([heights[:, kept], heights[:, rest].sum(axis=1)])
    return names, heights, None if shares is None else np.append(shares[kept], shares[rest].sum())


def _lying_levels(ax: Any, marginal: Marginal, observed: Observed | None) -> None:
    names, heights, shares = _shown_levels(marginal, observed)
    places = np.arange(len(names))
    if shares is not None:
        ax.barh(places, shares, 0.88, zorder=1, **_BAR)
    start = np.zeros(len(names))
    for height, (color, _) in zip(heights, component_styles(len(heights)), strict=True):
        ax.barh(places, height, 0.5, left=start, color=color, zorder=2)
        start = start + height
    ax.set_yticks(places, names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _standing_levels(ax: Any, marginal: Marginal, observed: Observed | None) -> None:
    places = marginal.grid
    if observed is not None and observed.shares is not None:
        ax.bar(places, observed.shares, 0.88, zorder=1, **_BAR)
    start = np.zeros(len(places))
    for height, (color, _) in zip(
        marginal.heights, component_styles(len(marginal.heights)), strict=True
    ):
        ax.bar(places, height, 0.5, bottom=start, color=color, zorder=2)
        start = start + height
    ax.set_xlim(*marginal.limits)
    level_ticks(ax.xaxis, marginal)


def level_ticks(axis: Any, marginal: Marginal) -> None:
    """Names of levels along an axis; of many levels, some."""
    step = -(-len(marginal.levels) // _MOST_LEVELS)
    names = [short_name(str(x), 12) for x in marginal.column.levels[::step]]
    crowded = sum(map(len, names)) > 22 and axis.axis_name == "x"
    turned = {"rotation": 90} if crowded else {}
    axis.set_ticks(marginal.grid[::step], names, **turned)


# -- texts -------------------------------------------------------------------------------------


def missing_note(marginal: Marginal, observed: Observed | None) -> str:
    """What is said of missing cells below the name of a column; empty without any."""
    share = marginal.missing if observed is None else observed.missing
    return f"{percent(share)} missing" if share else ""


def texts_of_marginals(
    observed: bool, curves: bool, levels: bool, moments: bool = False
) -> dict[str, str]:
    """What bars and lines are, by kind."""
    texts = {
        "rows": "gray bars: rows" if observed else "",
        "curves": "curves: fitted components, thin: their sum" if curves else "",
        "levels": "colored bars: fitted components" if levels else "",
        "moments": "diamond: mean and standard deviation of the rows" if moments else "",
    }
    return {kind: text for kind, text in texts.items() if text}


def legend_of_marginals(observed: bool, curves: bool, levels: bool) -> list[Any]:
    """The same as entries of a legend."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: list[Any] = []
    for kind, label in texts_of_marginals(observed, curves, levels).items():
        if kind == "rows":
            entries.append(Patch(label=label, **_BAR))
        elif kind == "curves":
            entries.append(Line2D([], [], color=ink(), linewidth=1.0, label=label))
        else:
            entries.append(Patch(facecolor=component_styles(1)[0][0], label=label))
    return entries

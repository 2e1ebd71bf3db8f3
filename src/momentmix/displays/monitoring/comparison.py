"""Changes between two summaries: means, spreads and correlations."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import GRAY, TURNED, Display, need_matplotlib, short_name
from momentmix.errors import InputTypeError
from momentmix.html.palette import COLORS
from momentmix.monitoring.compared.changes import Change
from momentmix.monitoring.comparison import Comparison

_MOST_ROWS, _MOST_IN_MAP = 25, 20
_LEVEL = 0.05
_LEAST_SHADE = 0.1  # a smaller largest change of correlation does not get the darkest color
_SURE, _CHANCE = COLORS[1], GRAY


@dataclass
class ComparisonDisplay(Display):
    """Changes of means and shares with intervals, ratios of spreads, changes of correlations.

    Left: changes from the first summary to the second in standard deviations, the largest first;
    shares of levels and of missing cells are in standard deviations of an answer, √(p(1 − p)).
    Filled orange diamonds are beyond chance at 5 %, with all tests taken into account; open gray
    circles may be. Columns that cannot be judged have no mark. Middle: ratios of standard
    deviations. Right: changes of correlations, those beyond chance in bold.
    """

    comparison: Comparison

    @classmethod
    def from_comparison(cls, comparison: Comparison) -> ComparisonDisplay:
        """Draw a comparison, as `compare` gives it."""
        need_matplotlib()
        if not isinstance(comparison, Comparison):
            raise InputTypeError(
                f"comparison must be a Comparison, as compare(a, b) gives it; got "
                f"{type(comparison).__name__}."
            )
        return cls(comparison).plot()

    def plot(self) -> ComparisonDisplay:
        """Draw."""
        from matplotlib import pyplot

        shifts = _largest_shifts(self.comparison)
        names, map_ = _correlation_map(self.comparison)
        panels = [3.4, 1.8] + [max(3.0, 0.34 * len(names) + 1.4)] * (len(names) > 1)
        height = max(3.0, 0.28 * len(shifts) + 1.3, 0.3 * len(names) + 1.6 if names else 0.0)
        self.figure_, axes = pyplot.subplots(
            1, len(panels), figsize=(sum(panels) + 1.5, height), layout="constrained",
            width_ratios=panels,
        )  # fmt: skip
        self.axes_, self.ax_ = list(axes), axes[0]
        self._draw_changes(shifts)
        if len(names) > 1:
            self._draw_map(names, map_)
        return self

    def _draw_changes(self, shifts: list[tuple[Change, Change | None]]) -> None:
        left, right = self.axes_[:2]
        for y, (change, spread) in enumerate(shifts):
            if self._unjudged(change):
                continue
            if isfinite(change.effect):
                values = [x / change.unit for x in (change.effect, change.low, change.high)]
                _dot(left, y, values, change.corrected <= _LEVEL)
            if spread is not None and isfinite(spread.effect) and abs(spread.effect) < 300:
                values = [exp(x) for x in (spread.effect, spread.low, spread.high)]
                _dot(right, y, values, spread.corrected <= _LEVEL)
        labels = [
            short_name(change.value_name) + (" (not judged)" if self._unjudged(change) else "")
            for change, _ in shifts
        ]
        for ax, texts, same in ((left, labels, 0), (right, [""] * len(shifts), 1)):
            ax.set_yticks(range(len(shifts)), texts)
            ax.set_ylim(len(shifts) - 0.5, -0.5)
            ax.axvline(same, color=GRAY, linewidth=0.8, zorder=0)
        left.set_xlabel("change of mean or share,\nin standard deviations")
        right.set_xlabel("ratio of\nstandard deviations")
        a, b = self.comparison.n_rows
        text = "they differ" if self.comparison.differs(_LEVEL) else "no difference shows"
        left.set_title(f"{a:,} rows → {b:,} rows: {text}", fontsize="medium", loc="left")
        self.figure_.legend(
            [_mark(left, True), _mark(left, False)], ["beyond chance at 5 %", "may be chance"],
            loc="outside lower left", ncols=2, fontsize="small", frameon=False,
        )  # fmt: skip

    def _unjudged(self, change: Change) -> bool:
        return change.column in self.comparison.unjudged and change.what != "missing"

    def _draw_map(self, names: list[str], map_: Float) -> None:
        ax, k = self.axes_[2], len(names)
        most = max(float(np.nanmax(np.abs(map_), initial=0.0)), _LEAST_SHADE)
        image = ax.imshow(map_, cmap="PuOr_r", vmin=-most, vmax=most)
        ax.set_facecolor("0.85")
        sure = {frozenset((c.column, c.other)) for c in self.comparison.pairs
                if c.corrected <= _LEVEL}  # fmt: skip
        for i, j in np.argwhere(np.isfinite(map_)).tolist():
            color = "white" if abs(map_[i, j]) > 0.65 * most else "black"
            weight = "bold" if frozenset((names[i], names[j])) in sure else "normal"
            style = {"size": 6.5, "color": color, "weight": weight, "ha": "center", "va": "center"}
            ax.text(j, i, f"{map_[i, j]:+.2f}", **style)
        labels = [short_name(name) for name in names]
        ax.set_xticks(range(k), labels, **TURNED)
        ax.set_yticks(range(k), labels)
        title = "change of correlation" + ("\n(bold: beyond chance)" if sure else "")
        ax.set_title(title, fontsize="medium", loc="left")
        self.figure_.colorbar(image, ax=ax, shrink=0.8)


def _dot(ax: Any, y: int, values: list[float], sure: bool) -> None:
    """A change with its interval: a filled diamond, or an open circle where it may be chance."""
    x, low, high = values
    if isfinite(low + high):
        color = _SURE if sure else _CHANCE
        ax.plot((low, high), [y, y], color=color, linewidth=2.0 if sure else 1.2, zorder=2)
    mark = _mark(ax, sure)
    mark.set_data([x], [y])
    ax.add_line(mark)


def _mark(ax: Any, sure: bool) -> Any:
    from matplotlib.lines import Line2D

    color = _SURE if sure else _CHANCE
    inside = color if sure else ax.get_facecolor()
    style: dict[str, Any] = {"markerfacecolor": inside, "markeredgecolor": color}
    style["markersize"] = 7 if sure else 5.5
    return Line2D([], [], marker="D" if sure else "o", linestyle="", zorder=3, **style)


def _largest_shifts(found: Comparison) -> list[tuple[Change, Change | None]]:
    """Means and shares with the changes of spread; the largest first."""
    rows = [
        (change, column.change("spread") if change.what == "mean" else None)
        for column in found.columns
        for change in column.changes
        if change.what in ("mean", "share", "missing")
    ]

    def size(row: tuple[Change, Change | None]) -> float:
        sizes = row[0].size / row[0].unit, row[1].size if row[1] is not None else 0.0
        return max(x if isfinite(x) else 0.0 for x in sizes)

    return sorted(rows, key=size, reverse=True)[:_MOST_ROWS]


def _correlation_map(found: Comparison) -> tuple[list[str], Float]:
    """Names of the values whose correlations changed most, and the changes."""
    largest: dict[str, float] = {}
    for c in found.pairs:
        for name in (c.column, str(c.other)):
            largest[name] = max(largest.get(name, 0.0), c.size)
    kept = sorted(largest, key=lambda name: -largest[name])[:_MOST_IN_MAP]
    names = [name for name in largest if name in kept]
    places = {name: i for i, name in enumerate(names)}
    table = np.full((len(names), len(names)), np.nan)
    for c in found.pairs:
        if c.column in places and c.other in places:
            i, j = places[c.column], places[str(c.other)]
            table[i, j] = table[j, i] = c.effect
    return names, table

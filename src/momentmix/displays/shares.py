"""Shares of components over groups: lines with bands where groups have an order, else points."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.displays.style import Display, need_matplotlib, percent_axis, short_name
from momentmix.errors import InputTypeError
from momentmix.groups.track import Tracking, key_text, looks_ordered
from momentmix.html.palette import component_color
from momentmix.wording import percent

_MOST_PANELS, _MOST_GROUPS = 12, 40  # more panels, or more points without an order, are not legible
_MOST_TICKS = 8  # of an order
_LETTERS = 28
_MISFIT: dict[str, Any] = {"color": "0.45", "linewidth": 1, "linestyle": ":", "zorder": 0}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


@dataclass
class SharesDisplay(Display):
    """Shares of a model's components over groups, with their intervals.

    Groups that the components do not fit are marked by a cross and a dotted line. Where the last of
    several keys is an order, as times are, the other keys have a panel each.
    """

    tracking: Tracking

    @classmethod
    def from_tracking(cls, tracking: Tracking) -> SharesDisplay:
        """Draw the result of `track`."""
        need_matplotlib()
        if not isinstance(tracking, Tracking):
            raise InputTypeError(
                f"a picture of shares needs what mm.track gives; got {type(tracking).__name__}."
            )
        return cls(tracking).plot()

    def plot(self) -> SharesDisplay:
        """Draw."""
        t, misfits = self.tracking, self.tracking.misfits()
        is_ordered = looks_ordered([key[-1] for key in t.keys]) and len(t) > 1
        if is_ordered:
            series, most = t.series(), _MOST_PANELS
            first = [name for name in series if not set(misfits).isdisjoint(series[name])]
            kept = [*dict.fromkeys([*first, *series])][:most]
            panels = {name: groups for name, groups in series.items() if name in kept}
            count = f"{len(kept)} of {len(series)} series" if len(kept) < len(series) else ""
        else:
            groups = sorted([*dict.fromkeys([*misfits, *range(len(t))])][:_MOST_GROUPS])
            panels = {(): groups}
            count = f"{len(groups)} of {len(t)} groups" if len(groups) < len(t) else ""
        size = (7.5, 3.4) if len(panels) == 1 else (4.0, 2.8)
        axes = self._grid(len(panels), size, self._entries(), f"{percent(t.level)} intervals")
        for ax, (name, groups) in zip(axes, panels.items(), strict=True):
            self._panel(ax, groups, is_ordered)
            ax.set_title(short_name(key_text(name), 40) if name else "", fontsize="medium")
        axes[0].set_ylabel("share of rows")
        if count:
            which = "misfits, and the first others" if misfits else "the first"
            self.figure_.suptitle(f"{count}: {which}", fontsize="small")
        return self

    def _panel(self, ax: Any, groups: list[int], is_ordered: bool) -> None:
        t, r = self.tracking, len(self.tracking.names)
        keys = [t.keys[g] if not is_ordered else t.keys[g][-1:] for g in groups]
        x, labels = _positions(keys, is_ordered)
        for c in range(r):
            y, low, high = (table[groups, c] for table in (t.weights, t.low, t.high))
            if is_ordered:
                ax.fill_between(x, low, high, color=component_color(c), alpha=0.2, linewidth=0)
                ax.plot(x, y, linewidth=1.6, markersize=4, **_style(c))
            else:
                ends = np.maximum([y - low, high - y], 0.0)
                beside = x + 0.6 * ((c + 0.5) / r - 0.5)
                ax.errorbar(beside, y, ends, linestyle="", markersize=4, **_style(c))
        top = 1.12 * min(1.0, float(np.nanmax(t.high, initial=0.0)))
        for place, g in zip(x, groups, strict=True):
            if not t.fits[g]:
                ax.axvline(place, **_MISFIT)
                ax.plot(place, 0.97 * top, "x", color=_MISFIT["color"], markersize=7)
        ax.set_ylim(0.0, top)
        percent_axis(ax.yaxis, 6)
        ax.set_xlabel(short_name(", ".join(t.key_names[-1:] if is_ordered else t.key_names)))
        if labels:
            step = -(-len(labels) // _MOST_TICKS) if is_ordered else 1
            ax.set_xticks(range(0, len(labels), step), labels[::step], rotation=40, ha="right")
        elif isinstance(x[0], np.datetime64):
            from matplotlib import dates

            locator = dates.AutoDateLocator(maxticks=_MOST_TICKS)  # type: ignore[no-untyped-call]
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        else:
            ax.locator_params("x", nbins=_MOST_TICKS, integer=bool((x == np.round(x)).all()))

    def _entries(self) -> list[Any]:
        """Entries of a legend for the components and for misfits."""
        from matplotlib.lines import Line2D

        names = [f"{c} {short_name(name, 40)}" for c, name in enumerate(self.tracking.names)]
        lines = [Line2D([], [], markersize=5, label=x, **_style(c)) for c, x in enumerate(names)]
        if not self.tracking.fits.all():
            lines.append(Line2D([], [], marker="x", label="components do not fit", **_MISFIT))
        return lines


def _style(component: int) -> dict[str, Any]:
    """Color and marker of a component; markers repeat after ten."""
    return {"color": component_color(component), "marker": _MARKERS[component % len(_MARKERS)]}


def _positions(keys: list[tuple[Any, ...]], is_ordered: bool) -> tuple[NDArray[Any], list[str]]:
    """Where groups stand on the axis, and their labels where these are texts."""
    values = [key[0] for key in keys] if is_ordered else []
    if values and all(isinstance(value, date | np.datetime64) for value in values):
        return np.array(values, dtype="datetime64[s]"), []
    if values and all(isinstance(x, Real) and not isinstance(x, bool) for x in values):
        return np.array(values, dtype=np.float64), []
    return np.arange(float(len(keys))), [short_name(key_text(key), _LETTERS) for key in keys]

"""Shares of components over groups: lines with bands in ordered groups, else dots."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.displays.style import Display, need_matplotlib, percent_axis, short_name
from momentmix.errors import InputTypeError
from momentmix.groups.keys import natural_order
from momentmix.groups.track import Tracking, key_text
from momentmix.html.palette import component_color
from momentmix.wording import percent

_MOST_PANELS = 12
_MOST_GROUPS = 60  # without an order: more dots cannot be read
_MOST_TICKS = 8
_LETTERS = 28
_MISFIT: dict[str, Any] = {"color": "0.45", "linewidth": 1, "linestyle": ":", "zorder": 0}
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


@dataclass
class SharesDisplay(Display):
    """Shares of a model's components over groups, with their intervals.

    Groups that the components do not fit are marked by a cross and a dotted line. Where the groups
    have several keys and the last is an order, the other keys have a panel each.
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
        t = self.tracking
        if t.is_ordered and len({key[-1] for key in t.keys}) > 1:
            self._lines()
        else:
            self._dots()
        self.ax_ = self.axes_.flat[0]
        return self

    def _lines(self) -> None:
        t, series = self.tracking, self.tracking.series()
        misfits = set(t.misfits())
        order = sorted(series, key=lambda name: misfits.isdisjoint(series[name]))
        shown = [name for name in series if name in order[:_MOST_PANELS]]
        across = 2 if len(shown) == 4 else min(3, len(shown))
        size = (7.5, 3.4) if across == 1 else (4.0, 2.8)
        axes = self._grid((-(-len(shown) // across), across), size, self._entries(), self._title())
        for i, (ax, name) in enumerate(zip(axes, shown, strict=False)):
            self._panel(ax, series[name])
            ax.set_title(short_name(key_text(name), 40) if name else "", fontsize="medium")
            ax.tick_params(labelbottom=i + across >= len(shown), labelleft=i % across == 0)
            if i + across >= len(shown):  # no panel below
                ax.set_xlabel(short_name(t.key_names[-1], _LETTERS))
            if i % across == 0:
                ax.set_ylabel("share of rows")
        for ax in axes[len(shown) :]:
            ax.set_visible(False)
        self._say_rest(len(shown), len(series), "series")

    def _panel(self, ax: Any, groups: list[int]) -> None:
        t = self.tracking
        places, labels = _positions([key[-1] for key in t.keys])
        x = places[groups]
        for c in range(t.n_components):
            band: Any = {"color": component_color(c), "alpha": 0.2, "linewidth": 0}
            ax.fill_between(x, t.low[groups, c], t.high[groups, c], **band)
            ax.plot(x, t.weights[groups, c], linewidth=1.6, markersize=4, **_style(c))
        top = 1.12 * min(1.0, float(np.nanmax(t.high, initial=0.0)))
        bad = [i for i, g in enumerate(groups) if not t.fits[g]]
        for i in bad:
            ax.axvline(x[i], **_MISFIT)
            ax.plot(x[i], 0.97 * top, "x", color=_MISFIT["color"], markersize=7)
        ax.set_ylim(0.0, top)
        percent_axis(ax.yaxis, 6)
        if labels:
            step = -(-len(labels) // _MOST_TICKS)
            ax.set_xticks(range(0, len(labels), step), labels[::step], rotation=30, ha="right")
        elif isinstance(x[0], np.datetime64):
            from matplotlib import dates

            locator = dates.AutoDateLocator(maxticks=_MOST_TICKS)  # type: ignore[no-untyped-call]
            ax.xaxis.set_major_locator(locator)
            ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        else:
            ax.locator_params("x", nbins=_MOST_TICKS, integer=bool((x == np.round(x)).all()))

    def _dots(self) -> None:
        t, r = self.tracking, self.tracking.n_components
        first = [*t.misfits(), *range(len(t))]
        groups = sorted([*dict.fromkeys(first)][:_MOST_GROUPS])
        n = len(groups)
        size = 7.0, 0.8 + n * max(0.32, 0.13 * r)
        (ax,) = self._grid((1, 1), size, self._entries(), self._title())
        places = np.arange(n)[::-1]
        for c in range(r):
            y, values = places + 0.6 * (0.5 - (c + 0.5) / r), t.weights[groups, c]
            bars = np.stack([values - t.low[groups, c], t.high[groups, c] - values])
            style: Any = {"linestyle": "", "markersize": 4, "elinewidth": 1.6, **_style(c)}
            ax.errorbar(values, y, xerr=np.maximum(bars, 0.0), **style)
        names = [short_name(key_text(t.keys[g]), _LETTERS) for g in groups]
        crosses = ["" if t.fits[g] else "  ×" for g in groups]
        ax.set_yticks(places, map(str.__add__, names, crosses))
        for place, cross in zip(places, crosses, strict=True):
            if cross:
                ax.axhline(place, **_MISFIT)
        ax.set_ylim(-0.6, n - 0.4)
        ax.set_xlim(0.0, min(1.0, 1.05 * float(np.nanmax(t.high, initial=0.0))))
        percent_axis(ax.xaxis, 6)
        ax.set_xlabel("share of rows")
        ax.set_ylabel(short_name(", ".join(t.key_names), _LETTERS))
        self._say_rest(n, len(t), "groups")

    def _say_rest(self, n: int, n_all: int, what: str) -> None:
        if n < n_all:
            which = "the first" if self.tracking.fits.all() else "misfits, and the first others"
            self.figure_.suptitle(f"{n} of {n_all} {what}: {which}", fontsize="small")

    def _title(self) -> str:
        return f"{percent(self.tracking.level)} intervals"

    def _entries(self) -> list[Any]:
        """Return entries of a legend for the components and for misfits."""
        from matplotlib.lines import Line2D

        t = self.tracking
        names = [f"{c} {short_name(name, 40)}" for c, name in enumerate(t.names)]
        lines = [Line2D([], [], markersize=5, label=x, **_style(c)) for c, x in enumerate(names)]
        if not t.fits.all():
            lines.append(Line2D([], [], marker="x", label="components do not fit", **_MISFIT))
        return lines


def _style(component: int) -> dict[str, Any]:
    """Color and marker of a component; markers repeat after ten."""
    return {"color": component_color(component), "marker": _MARKERS[component % len(_MARKERS)]}


def _positions(keys: list[Any]) -> tuple[NDArray[Any], list[str]]:
    """Where groups stand on the axis, and their labels where these are texts."""
    if all(isinstance(key, date | np.datetime64) for key in keys):
        return np.array(keys, dtype="datetime64[s]"), []
    if all(isinstance(key, Real) and not isinstance(key, bool) for key in keys):
        return np.array(keys, dtype=np.float64), []
    different = sorted(set(keys), key=natural_order)
    texts = [short_name("missing" if key is None else str(key), 12) for key in different]
    return np.array([float(different.index(key)) for key in keys]), texts

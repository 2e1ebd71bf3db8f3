"""Shares of components over groups: lines with bands in ordered groups, else dots."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.displays.style import (
    Display,
    component_marker,
    need_matplotlib,
    percent_axis,
    short_name,
)
from momentmix.errors import InputTypeError
from momentmix.groups.keys import natural_order
from momentmix.groups.track import Tracking, key_text
from momentmix.html.palette import component_color
from momentmix.wording import percent

_MOST_PANELS = 12
_MOST_GROUPS = 60  # without an order: more dots cannot be read
_MOST_TICKS = 8
_LETTERS = 28
_MISFIT = "0.45"


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
        if self.tracking.is_ordered and len({key[-1] for key in self.tracking.keys}) > 1:
            self._lines()
        else:
            self._dots()
        self.ax_ = self.axes_[0]
        self._legend()
        return self

    # -- lines --------------------------------------------------------------------------------

    def _lines(self) -> None:
        from matplotlib import pyplot

        series = self.tracking.series()
        places = {g: number for number, own in enumerate(series.values()) for g in own}
        first = dict.fromkeys(places[g] for g in self.tracking.misfits())
        shown = [list(series)[i] for i in _some(len(series), list(first), _MOST_PANELS)]
        n_columns = 2 if len(shown) == 4 else min(3, len(shown))
        n_lines = -(-len(shown) // n_columns)
        size = (7.5 if n_columns == 1 else 4.0 * n_columns, 3.8 if n_lines == 1 else 2.8 * n_lines)
        self.figure_, axes = pyplot.subplots(
            n_lines, n_columns, figsize=size, layout="constrained", squeeze=False,
            sharex=n_lines * n_columns > 1, sharey=True,
        )  # fmt: skip
        self.axes_ = axes.ravel()
        for ax, name in zip(self.axes_, shown, strict=False):
            self._panel(ax, series[name])
            if name:
                ax.set_title(short_name(key_text(name), 40), fontsize="medium")
        for ax in self.axes_[len(shown) :]:
            ax.set_visible(False)
        for ax in axes[:, 0]:
            ax.set_ylabel("share of rows")
        for ax in self.axes_[: len(shown)][-n_columns:]:  # those with no panel below
            ax.set_xlabel(short_name(self.tracking.key_names[-1], _LETTERS))
            ax.tick_params(labelbottom=True)
        if len(series) > len(shown):
            self._say_rest(len(shown), f"{len(series)} series")

    def _panel(self, ax: Any, groups: list[int]) -> None:
        t = self.tracking
        places, labels = _positions([key[-1] for key in t.keys])
        x = places[groups]
        for c in range(t.n_components):
            band: Any = {"color": component_color(c), "alpha": 0.2, "linewidth": 0}
            ax.fill_between(x, t.low[groups, c], t.high[groups, c], **band)
            ax.plot(x, t.weights[groups, c], linewidth=1.6, markersize=4, **_style(c))
        bad = [i for i, g in enumerate(groups) if not t.fits[g]]
        for i in bad:
            ax.axvline(x[i], color=_MISFIT, linewidth=1, linestyle=":", zorder=0)
        top = 1.12 * self._highest()
        if bad:
            ax.plot(x[bad], np.full(len(bad), 0.97 * top), "x", color=_MISFIT, markersize=7)
        ax.set_ylim(0.0, top)
        percent_axis(ax.yaxis, 6)
        if labels is not None:
            step = -(-len(labels) // _MOST_TICKS)
            numbers = range(0, len(labels), step)
            ax.set_xticks(numbers, labels[::step], rotation=30, ha="right")
            return
        from matplotlib import dates, ticker

        if isinstance(x[0], np.datetime64):
            untyped: Any = dates
            locator = untyped.AutoDateLocator(maxticks=_MOST_TICKS)
            ax.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))
        else:
            locator = ticker.MaxNLocator(_MOST_TICKS, integer=bool((x == np.round(x)).all()))
        ax.xaxis.set_major_locator(locator)

    # -- dots ---------------------------------------------------------------------------------

    def _dots(self) -> None:
        from matplotlib import pyplot

        t, r = self.tracking, self.tracking.n_components
        groups = _some(len(t), t.misfits(), _MOST_GROUPS)
        n = len(groups)
        height = 1.2 + n * max(0.32, 0.13 * r)
        self.figure_, ax = pyplot.subplots(figsize=(7.0, height), layout="constrained")
        self.axes_ = np.array([ax])
        places = np.arange(n)[::-1]
        for c in range(r):
            y = places + 0.5 * (0.5 - (c + 0.5) / r) * 1.2
            values = t.weights[groups, c]
            bars = np.stack([values - t.low[groups, c], t.high[groups, c] - values])
            style: Any = {"linestyle": "", "markersize": 4, "elinewidth": 1.6, **_style(c)}
            ax.errorbar(values, y, xerr=np.maximum(bars, 0.0), **style)
        labels = [
            short_name(key_text(t.keys[g]), _LETTERS) + ("" if t.fits[g] else "  ×") for g in groups
        ]
        ax.set_yticks(places, labels)
        for place, g in zip(places, groups, strict=True):
            if not t.fits[g]:
                ax.axhline(place, color=_MISFIT, linewidth=1, linestyle=":", zorder=0)
        ax.set_ylim(-0.6, n - 0.4)
        ax.set_xlim(0.0, min(1.0, 1.05 * self._highest()))
        percent_axis(ax.xaxis, 6)
        ax.set_xlabel("share of rows")
        ax.set_ylabel(short_name(", ".join(t.key_names), _LETTERS))
        if len(t) > n:
            self._say_rest(n, f"{len(t)} groups")

    # -- both ---------------------------------------------------------------------------------

    def _highest(self) -> float:
        return min(1.0, float(np.nanmax(self.tracking.high, initial=0.0)))

    def _say_rest(self, n: int, what: str) -> None:
        said = (
            "the first" if self.tracking.fits.all() else "the largest misfits, and the first others"
        )
        self.figure_.suptitle(f"{n} of {what}: {said}", fontsize="small")

    def _legend(self) -> None:
        from matplotlib.lines import Line2D

        t = self.tracking
        handles = [
            Line2D([], [], **_style(c), markersize=5, label=f"{c} {short_name(t.names[c], 40)}")
            for c in range(t.n_components)
        ]
        if not t.fits.all():
            style: Any = {"color": _MISFIT, "linestyle": ":", "marker": "x", "markersize": 6}
            handles.append(Line2D([], [], label="components do not fit", **style))
        self.figure_.legend(
            handles=handles, loc="outside upper left", ncols=2, fontsize="small", frameon=False,
            title=f"{percent(t.level)} intervals", title_fontsize="small", alignment="left",
        )  # fmt: skip


def _style(component: int) -> dict[str, Any]:
    """Color and marker of a component."""
    return {"color": component_color(component), "marker": component_marker(component)}


def _some(n: int, first: list[int], most: int) -> list[int]:
    """At most so many of n numbers in their order: some first, then those from 0 on."""
    return sorted(list(dict.fromkeys([*first, *range(n)]))[:most])


def _positions(keys: list[Any]) -> tuple[NDArray[Any], list[str] | None]:
    """Where groups stand on the axis, and their labels where these are texts."""
    if all(isinstance(key, date | datetime | np.datetime64) for key in keys):
        return np.array(keys, dtype="datetime64[s]"), None
    if all(isinstance(key, Real) and not isinstance(key, bool) for key in keys):
        return np.array(keys, dtype=np.float64), None
    different = sorted(set(keys), key=natural_order)
    number = {key: float(place) for place, key in enumerate(different)}
    texts = [short_name("missing" if key is None else str(key), 12) for key in different]
    return np.array([number[key] for key in keys]), texts

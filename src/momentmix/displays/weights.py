"""Weights of the components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from momentmix._typing import Float
from momentmix.displays.style import (
    component_names,
    component_styles,
    error_bars,
    ink,
    intervals_of,
    mixture_of,
    need_matplotlib,
    new_axes,
    percent,
    short_name,
)


@dataclass
class WeightsDisplay:
    """Shares of the components with 95 % intervals, one bar each in the component's color.

    Attributes
    ----------
    weights : array of shape (n_components,)
    low, high : arrays of shape (n_components,) or None
        Ends of the 95 % intervals.
    ax_, figure_
        Axes and figure of matplotlib.
    component_names : sequence of str
        Names of the components; empty where they have none.
    """

    weights: Float
    low: Float | None = None
    high: Float | None = None
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    component_names: Sequence[str] = ()

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> WeightsDisplay:
        """Draw the weights of a model, in the order of its components."""
        need_matplotlib()
        mixture, intervals = mixture_of(model), intervals_of(model)
        low, high = (None, None) if intervals is None else intervals.weights
        names = component_names(mixture)
        return cls(mixture.weights, low, high, component_names=names).plot(ax)

    def plot(self, ax: Any = None) -> WeightsDisplay:
        """Draw."""
        from matplotlib.ticker import FuncFormatter

        r = len(self.weights)
        width = 6.0 + 0.05 * max(map(len, self.component_names), default=0)
        self.ax_ = ax = new_axes(ax, (width, 0.34 * r + 1.4))
        self.figure_ = ax.figure
        interval = None if self.low is None or self.high is None else (self.low, self.high)
        bars = error_bars(self.weights, interval)
        colors = [color for color, _ in component_styles(r)]
        ax.barh(range(r), self.weights, color=colors, height=0.66)
        ends = self.weights if self.high is None else self.high
        for k, weight in enumerate(self.weights):
            at = (max(weight, ends[k]), k)
            ax.annotate(percent(weight), at, (5, 0), textcoords="offset points", va="center")
        if bars is not None:
            style: Any = {"fmt": "none", "ecolor": ink(), "elinewidth": 1, "capsize": 3}
            ax.errorbar(self.weights, range(r), xerr=bars, **style)
        names = [f"{k}: {short_name(name, 40)}" for k, name in enumerate(self.component_names)]
        ax.set_yticks(range(r), names or [str(k) for k in range(r)])
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(r - 0.4, -0.6)
        ax.set_xlim(0, 1.15 * max(float(max(ends)), float(max(self.weights))))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))
        ax.spines[["top", "right"]].set_visible(False)
        label = "share of rows" if bars is None else "share of rows; lines: 95 % intervals"
        ax.set(xlabel=label, ylabel="component", title="Shares of the components")
        return self

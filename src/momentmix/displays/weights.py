"""Weights of the components."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from momentmix._typing import Float
from momentmix.displays.style import (
    error_bars,
    intervals_of,
    mixture_of,
    need_matplotlib,
    new_axes,
)
from momentmix.html.palette import COLORS


@dataclass
class WeightsDisplay:
    """Weights of the components with 95 % intervals."""

    weights: Float
    low: Float | None = None
    high: Float | None = None
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> WeightsDisplay:
        """Draw the weights of a model, in the order of its components."""
        need_matplotlib()
        intervals = intervals_of(model)
        low, high = (None, None) if intervals is None else intervals.weights
        return cls(mixture_of(model).weights, low, high).plot(ax)

    def plot(self, ax: Any = None) -> WeightsDisplay:
        """Draw."""
        r = len(self.weights)
        self.ax_ = ax = new_axes(ax, (max(4.0, 0.4 * r + 1.5), 3.5))
        self.figure_ = ax.figure
        interval = None if self.low is None or self.high is None else (self.low, self.high)
        bars = error_bars(self.weights, interval)
        ax.bar(range(r), self.weights, color=COLORS[0], alpha=0.35, width=0.7)
        ax.errorbar(range(r), self.weights, bars, fmt="o", color=COLORS[0], capsize=3)
        ax.set_xticks(range(r), [str(k) for k in range(r)])
        label = "weight" if bars is None else "weight, 95 % interval"
        ax.set(xlabel="component", ylabel=label, ylim=(0, None))
        return self

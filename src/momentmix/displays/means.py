"""Means of the components over the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.heat import draw_heat_map, heat_map_size, is_tall
from momentmix.displays.levels import LevelsDisplay
from momentmix.displays.probabilities import Probabilities, all_probabilities
from momentmix.displays.style import (
    GRAY,
    MOST_LINES,
    component_labels,
    component_names,
    component_styles,
    drawable,
    error_bars,
    intervals_of,
    mixture_of,
    names_of,
    need_matplotlib,
    new_axes,
)
from momentmix.errors import InputError
from momentmix.fitting.inference.standard_errors import Intervals
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import numeric_columns, overall_spread


@dataclass
class MeansDisplay:
    """Means of the components over the features.

    Parallel coordinates with 95 % intervals for up to three components, a heat map for more: colors
    are deviations from the overall mean, numbers are means in the units of the data. Means whose
    interval contains the overall mean are crossed out.

    Of a table with families, the means are those of numbers and counts where they are seen; below
    them is a heat map of the probabilities of levels, and of cells being seen.

    Attributes
    ----------
    mixture : Mixture or None
        With the numeric columns of the model alone.
    names : list of str
        Names of these.
    low, high : arrays of shape (n_components, n_features) or None
        Ends of the 95 % intervals of the means.
    groups : sequence of Probabilities
        Probabilities of levels and of cells being seen.
    weights : array of shape (n_components,)
    ax_, axes_, figure_
        Axes and figure of matplotlib; ``ax_`` are those of the means, where there are any.
    component_names : sequence of str
        Names of the components; empty where they have none.
    """

    mixture: Mixture | None
    names: list[str]
    low: Float | None = None
    high: Float | None = None
    groups: Sequence[Probabilities] = ()
    weights: Float = field(default_factory=lambda: np.empty(0))
    ax_: Any = field(default=None, repr=False)
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    component_names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.mixture is not None:
            self.weights = self.mixture.weights

    @classmethod
    def from_estimator(cls, model: Any, *, kind: str = "auto", ax: Any = None) -> MeansDisplay:
        """Draw the means of a model, as deviations from the overall mean in overall deviations.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        kind : {"auto", "lines", "heat map"}
        ax : matplotlib axes, optional
            For the means; the probabilities of a table are then left out.
        """
        need_matplotlib()
        if kind not in ("auto", "lines", "heat map"):
            raise InputError(f'kind must be "auto", "lines" or "heat map"; got {kind!r}.')
        return cls.of_mixture(mixture_of(model), intervals_of(model)).plot(kind, ax)

    @classmethod
    def of_mixture(cls, mixture: Mixture, ends: Intervals | None = None) -> MeansDisplay:
        """The display of a mixture, not yet drawn."""
        numbers = numeric_columns(drawable(mixture))
        names = [names_of(mixture)[j] for j in numbers]
        part = mixture if mixture.schema is None else None
        if mixture.schema is not None and numbers:
            part = mixture.select(numbers)
        low, high = (None, None) if ends is None else (end[:, numbers] for end in ends.means)
        groups = all_probabilities(mixture, ends)
        return cls(
            part, names, low, high, groups, mixture.weights,
            component_names=component_names(mixture),
        )  # fmt: skip

    def plot(self, kind: str = "lines", ax: Any = None) -> MeansDisplay:
        """Draw; `kind` as for `from_estimator`."""
        if self.mixture is None and ax is not None:
            raise InputError(
                "the mixture has no columns of numbers or counts, so that there are no means to "
                "draw. Use LevelsDisplay."
            )
        if self.mixture is None:
            self._levels(None)
            return self
        if kind == "auto":
            kind = "lines" if len(self.weights) <= MOST_LINES else "heat map"
        if self.groups and ax is None:
            figure, top, bottom = self._two_panels(kind)
            self._means(top, kind)
            self._levels(bottom)
            self.axes_, self.figure_ = [top, bottom], figure
        else:
            self._means(new_axes(ax, self._size(kind)), kind)
            self.axes_ = [self.ax_]
        return self

    def _size(self, kind: str) -> tuple[float, float]:
        """Width and height of the picture of the means."""
        labels = component_labels(self.weights, self.component_names)
        if kind == "lines":
            return max(5.0, 0.55 * len(self.names) + 2 + 0.06 * max(map(len, labels))), 4.5
        return heat_map_size(self.names, self.weights, self.component_names)

    def _two_panels(self, kind: str) -> Any:
        from matplotlib import pyplot

        (width, height), (other, below) = self._size(kind), self._levels_display().size
        figure = pyplot.figure(figsize=(max(width, other), height + below), layout="constrained")
        parts: Any = figure.subfigures(2, 1, height_ratios=[height, below])
        return figure, parts[0].subplots(), parts[1].subplots()

    def _levels_display(self) -> LevelsDisplay:
        names = self.component_names
        return LevelsDisplay(self.weights, list(self.groups), component_names=names)

    def _levels(self, ax: Any) -> None:
        """Draw the probabilities."""
        display = self._levels_display().plot("heat map", ax)
        if ax is None:
            self.ax_, self.axes_, self.figure_ = display.ax_, [display.ax_], display.figure_

    def _means(self, ax: Any, kind: str) -> None:
        m = self.mixture
        assert m is not None
        self.ax_, self.figure_ = ax, ax.figure
        center, spread = overall_spread(m)
        means = (m.means - center) / spread
        ends = None
        if self.low is not None and self.high is not None:
            ends = (self.low - center) / spread, (self.high - center) / spread
        (self._lines if kind == "lines" else self._heat_map)(ax, means, ends)

    def _lines(self, ax: Any, means: Float, ends: Any) -> None:
        r, d = means.shape
        labels = component_labels(self.weights, self.component_names)
        for k, (color, dash) in enumerate(component_styles(r)):
            x = np.arange(d) + 0.3 * ((k + 0.5) / r - 0.5)  # side by side, so that bars are visible
            bars = error_bars(means[k], None if ends is None else (ends[0][k], ends[1][k]))
            ax.errorbar(
                x, means[k], bars, color=color, linestyle=dash, marker="o", markersize=5,
                capsize=2, label=labels[k],
            )  # fmt: skip
        ax.axhline(0, color=GRAY, linewidth=0.8, zorder=0)
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(range(d), self.names, **turned)
        ax.set_ylabel("mean − overall mean,\nin overall standard deviations")
        ax.set_title("Means of the components" + ("" if ends is None else ", 95 % intervals"))
        ax.legend(
            title="component: share of rows", fontsize="small", title_fontsize="small",
            bbox_to_anchor=(1.01, 1), loc="upper left", frameon=False, alignment="left",
        )  # fmt: skip

    def _heat_map(self, ax: Any, means: Float, ends: Any) -> None:
        assert self.mixture is not None
        largest = float(np.nanmax(np.abs(means))) or 1.0
        texts = [
            ["–" if np.isnan(x) else f"{x:.3g}".replace("-", "−") for x in row]
            for row in self.mixture.means
        ]
        image = draw_heat_map(
            ax, means, self.names, self.weights, self.component_names, texts=texts, cmap="PuOr_r",
            vmin=-largest, vmax=largest,
        )  # fmt: skip
        ax.set_facecolor("0.75")  # where a component never sees a column
        title = "Means of the components"
        if ends is not None:
            contains_zero = (ends[0] < 0) & (ends[1] > 0)
            for k, j in np.argwhere(contains_zero):
                x, y = (k, j) if is_tall(len(self.names)) else (j, k)
                ax.plot([x - 0.45, x + 0.45], [y + 0.45, y - 0.45], color="0.4", linewidth=0.8)
            if contains_zero.any():
                title += "\n(crossed out: 95 % interval contains the overall mean)"
        ax.set_title(title, fontsize="medium")
        label = "mean − overall mean,\nin overall standard deviations"
        ax.figure.colorbar(image, ax=ax, label=label)

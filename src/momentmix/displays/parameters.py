"""Pictures of the table of parameters: weights, means, probabilities of levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.heat import draw_heat_map, heat_map_size, is_tall
from momentmix.displays.style import (
    GRAY,
    SMALL,
    TURNED,
    Display,
    component_handles,
    component_labels,
    component_names,
    component_styles,
    drawable,
    error_bars,
    ink,
    parameters_of,
    percent_axis,
    short_name,
)
from momentmix.errors import InputError
from momentmix.mixture.conditional import column_numbers
from momentmix.mixture.parameter_table import (
    Parameter,
    ParameterTable,
    numeric_columns,
    overall_spread,
)
from momentmix.wording import percent

_MOST_LINES = 3  # lines over all features; more of them cross too often to be followed
_MOST_BARS = 16  # of a narrow picture
_MOST_LABELS = 12  # of a panel with bars


@dataclass
class WeightsDisplay(Display):
    """Shares of the components with 95 % intervals, one bar each in the component's color.

    Attributes
    ----------
    weights : Parameter
        Estimates, and the ends of the intervals where they are known.
    component_names : sequence of str
        Names of the components; empty where they have none.
    """

    weights: Parameter
    component_names: Sequence[str] = ()

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> WeightsDisplay:
        """Draw the weights of a model, in the order of its components."""
        table = parameters_of(model)
        return cls(table.weights(), component_names(table.mixture)).plot(ax)

    def plot(self, ax: Any = None) -> WeightsDisplay:
        """Draw."""
        weights, high = self.weights.estimate, self.weights.high
        r = len(weights)
        width = 6.0 + 0.05 * max(map(len, self.component_names), default=0)
        ax = self._on(ax, (width, 0.34 * r + 1.4))
        ax.barh(range(r), weights, color=[color for color, _ in component_styles(r)], height=0.66)
        ends = np.fmax(weights, high)
        for k, weight in enumerate(weights):
            place = (ends[k], k), (5, 0)
            ax.annotate(percent(weight), *place, textcoords="offset points", va="center")
        bars = error_bars(weights, self.weights.low, high)
        if bars is not None:
            style: Any = {"fmt": "none", "ecolor": ink(), "elinewidth": 1, "capsize": 3}
            ax.errorbar(weights, range(r), xerr=bars, **style)
        names = [f"{k}: {short_name(name, 40)}" for k, name in enumerate(self.component_names)]
        ax.set_yticks(range(r), names or [str(k) for k in range(r)])
        ax.tick_params(axis="y", length=0)
        ax.set_ylim(r - 0.4, -0.6)
        ax.set_xlim(0, 1.15 * float(ends.max()))
        percent_axis(ax.xaxis, 9)
        ax.spines[["top", "right"]].set_visible(False)
        label = "share of rows" if bars is None else "share of rows; lines: 95 % intervals"
        ax.set(xlabel=label, ylabel="component", title="Shares of the components")
        return self


@dataclass
class LevelsDisplay(Display):
    """Probabilities of levels within components, and of cells being seen.

    A heat map with a row for each component and a block of cells for each column, or bars with
    95 % intervals. Where there are more than 16 probabilities, they are the rows of the heat map
    and the components its columns. Yes/no columns show the probability of the second level. All
    probabilities of levels are those where the cell is seen.

    Attributes
    ----------
    table : ParameterTable
    parameters : list of Parameter
        The probabilities that are shown.
    """

    table: ParameterTable
    parameters: list[Parameter]

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        columns: Sequence[int | str] | None = None,
        kind: str = "heat map",
        ax: Any = None,
    ) -> LevelsDisplay:
        """Draw the probabilities of a model.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        columns : sequence of int or str, optional
            Columns to show, by number or name; all by default.
        kind : {"heat map", "bars"}
        ax : matplotlib axes, optional
            For the heat map; bars take a figure of their own.
        """
        table = parameters_of(model)
        if kind not in ("heat map", "bars"):
            raise InputError(f'kind must be "heat map" or "bars"; got {kind!r}.')
        if kind == "bars" and ax is not None:
            raise InputError('kind="bars" draws several panels; leave ax out.')
        mixture, shown = table.mixture, table.probabilities()
        if columns is not None:
            chosen = column_numbers(columns, mixture.n_columns, mixture.feature_names).tolist()
            shown = [p for p in shown if p.columns[0] in chosen]
        if not shown:
            raise InputError(
                "the columns are numbers without missing cells, which have no probabilities. "
                "Use MeansDisplay."
            )
        return cls(table, shown).plot(kind, ax)

    def plot(self, kind: str = "heat map", ax: Any = None) -> LevelsDisplay:
        """Draw; `kind` as for `from_estimator`."""
        weights, names = self.table.mixture.weights, component_names(self.table.mixture)
        if kind == "heat map":
            size = heat_map_size(self.labels, weights, names)
            draw_probabilities(self._on(ax, size), self.parameters, weights, names)
            return self
        n = len(self.parameters)
        panels = [self.parameters[k : k + _MOST_LABELS] for k in range(0, n, _MOST_LABELS)]
        known = any(p.has_interval for p in self.parameters)
        entries = component_handles(weights, names)
        title = "component: share of rows" + ("; lines: 95 % intervals" if known else "")
        size = (8.6 if n * len(weights) > _MOST_BARS else 4.6), 3.4
        axes = self._grid(len(panels), 1, size, entries, title)
        for panel, shown in zip(axes, panels, strict=True):
            _draw_bars(panel, shown)
        self.figure_.suptitle(_TITLE_OF_LEVELS)
        return self

    @property
    def values(self) -> Float:
        """All probabilities, of shape (n_components, n_labels)."""
        return np.stack([p.estimate for p in self.parameters], axis=1)

    @property
    def labels(self) -> list[str]:
        """What the probabilities belong to."""
        return [p.label for p in self.parameters]


_TITLE_OF_LEVELS = "Levels: probabilities within components"


def draw_probabilities(
    ax: Any, shown: Sequence[Parameter], weights: Float, names: Sequence[str]
) -> None:
    """Draw a heat map of probabilities, with lines between columns."""
    values = np.stack([p.estimate for p in shown], axis=1)
    draw_heat_map(
        ax, values, [p.label for p in shown], weights, names, written=values, form=".2f",
        meaning="probability", cmap="Blues", vmin=0, vmax=1,
    )  # fmt: skip
    line = ax.axhline if is_tall(len(shown)) else ax.axvline
    groups = [p.name if p.name == "seen" else p.columns[0] for p in shown]
    for end in range(1, len(groups)):
        if groups[end] != groups[end - 1]:
            line(end - 0.5, color=GRAY, linewidth=1.5)
    ax.set_title(_TITLE_OF_LEVELS)


def _draw_bars(ax: Any, shown: Sequence[Parameter]) -> None:
    """Draw probabilities of the components side by side."""
    values, low, high = (
        np.stack([getattr(p, end) for p in shown], axis=1) for end in ("estimate", "low", "high")
    )
    r, n = values.shape
    for k, (color, _) in enumerate(component_styles(r)):
        x = np.arange(n) + 0.8 * ((k + 0.5) / r - 0.5)
        ax.bar(
            x, values[k], 0.8 / r, yerr=error_bars(values[k], low[k], high[k]), color=color,
            error_kw={"ecolor": ink(), "elinewidth": 0.8, "capsize": min(2.0, 8.0 / r)},
        )  # fmt: skip
    ax.set_xticks(range(n), [short_name(p.label) for p in shown], **TURNED)
    ax.set(ylabel="probability", ylim=(0, 1.05))


@dataclass
class MeansDisplay(Display):
    """Means of the components over the features.

    Parallel coordinates with 95 % intervals for up to three components, a heat map for more: colors
    are deviations from the overall mean, numbers are means in the units of the data. Means whose
    interval contains the overall mean are crossed out.

    Of a table with families, the means are those of numbers and counts where they are seen; below
    them is a heat map of the probabilities of levels, and of cells being seen.

    Attributes
    ----------
    table : ParameterTable
    means, probabilities : list of Parameter
        Those that are shown.
    """

    table: ParameterTable
    means: list[Parameter]
    probabilities: list[Parameter]

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
        table = parameters_of(model)
        if kind not in ("auto", "lines", "heat map"):
            raise InputError(f'kind must be "auto", "lines" or "heat map"; got {kind!r}.')
        means = [table.mean(j) for j in numeric_columns(drawable(table.mixture))]
        return cls(table, means, table.probabilities()).plot(kind, ax)

    @property
    def names(self) -> list[str]:
        """Names of the columns that have means, for an axis."""
        return [short_name(p.label) for p in self.means]

    def plot(self, kind: str = "auto", ax: Any = None) -> MeansDisplay:
        """Draw; `kind` as for `from_estimator`."""
        weights, names = self.table.mixture.weights, component_names(self.table.mixture)
        labels = [p.label for p in self.probabilities]
        size_of_levels = heat_map_size(labels, weights, names)
        if not self.means:
            if ax is not None:
                raise InputError(
                    "the mixture has no columns of numbers or counts, so that there are no means "
                    "to draw. Use LevelsDisplay."
                )
            draw_probabilities(self._on(ax, size_of_levels), self.probabilities, weights, names)
            return self
        if kind == "auto":
            kind = "lines" if len(weights) <= _MOST_LINES else "heat map"
        width, height = heat_map_size(self.names, weights, names)
        if kind == "lines":
            longest = max(map(len, component_labels(weights, names)))
            width, height = max(5.0, 0.55 * len(self.names) + 2 + 0.06 * longest), 4.5
        if self.probabilities and ax is None:
            from matplotlib import pyplot

            both = max(width, size_of_levels[0]), height + size_of_levels[1]
            figure = pyplot.figure(figsize=both, layout="constrained")
            parts: Any = figure.subfigures(2, 1, height_ratios=[height, size_of_levels[1]])
            top, bottom = (part.subplots() for part in parts)
            self.ax_, self.axes_, self.figure_ = top, [top, bottom], figure
            draw_probabilities(bottom, self.probabilities, weights, names)
        else:
            self._on(ax, (width, height))
        self._draw_means(kind, names)
        return self

    def _draw_means(self, kind: str, names: Sequence[str]) -> None:
        numbers = [p.columns[0] for p in self.means]
        center, spread = (x[numbers] for x in overall_spread(self.table.mixture))
        means = np.stack([p.estimate for p in self.means], axis=1)
        ends = [np.stack([getattr(p, end) for p in self.means], axis=1) for end in ("low", "high")]
        low, high = ((end - center) / spread for end in ends)
        if kind == "lines":
            self._lines((means - center) / spread, low, high, names)
            return
        ax, relative = self.ax_, (means - center) / spread
        largest = float(np.nanmax(np.abs(relative))) or 1.0
        draw_heat_map(
            ax, relative, self.names, self.table.mixture.weights, names, written=means, form=".3g",
            meaning=_MEANING, cmap="PuOr_r", vmin=-largest, vmax=largest,
        )  # fmt: skip
        title, contains_zero = "Means of the components", (low < 0) & (high > 0)
        for k, j in np.argwhere(contains_zero):
            x, y = (k, j) if is_tall(len(self.means)) else (j, k)
            ax.plot([x - 0.45, x + 0.45], [y + 0.45, y - 0.45], color="0.4", linewidth=0.8)
        if contains_zero.any():
            title += "\n(crossed out: 95 % interval contains the overall mean)"
        ax.set_title(title, fontsize="medium")

    def _lines(self, means: Float, low: Float, high: Float, names: Sequence[str]) -> None:
        (r, d), ax = means.shape, self.ax_
        labels = component_labels(self.table.mixture.weights, names)
        for k, (color, dash) in enumerate(component_styles(r)):
            x = np.arange(d) + 0.3 * ((k + 0.5) / r - 0.5)  # side by side, so that bars are visible
            ax.errorbar(
                x, means[k], error_bars(means[k], low[k], high[k]), color=color, linestyle=dash,
                marker="o", markersize=5, capsize=2, label=labels[k],
            )  # fmt: skip
        ax.axhline(0, color=GRAY, linewidth=0.8, zorder=0)
        ax.set_xticks(range(d), self.names, **TURNED)
        ax.set_ylabel(_MEANING)
        known = any(p.has_interval for p in self.means)
        ax.set_title("Means of the components" + (", 95 % intervals" if known else ""))
        place: Any = {"bbox_to_anchor": (1.01, 1), "loc": "upper left", "alignment": "left"}
        ax.legend(title="component: share of rows", **place, **SMALL)


_MEANING = "mean − overall mean,\nin overall standard deviations"

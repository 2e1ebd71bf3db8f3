"""Pictures of the table of parameters: weights, means, probabilities of levels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.displays.heat import (
    TITLE_OF_LEVELS,
    draw_heat_map,
    draw_probabilities,
    heat_map_size,
    is_tall,
)
from momentmix.displays.style import (
    GRAY,
    SMALL,
    TURNED,
    Components,
    Display,
    component_shape,
    component_styles,
    drawable,
    error_bars,
    ink,
    parameters_of,
    percent_axis,
    short_name,
)
from momentmix.errors import InputError
from momentmix.html.palette import ink_on
from momentmix.mixture.parameter_table import (
    Parameter,
    ParameterTable,
    numeric_columns,
    overall_spread,
)
from momentmix.mixture.tables.conditional import column_numbers
from momentmix.wording import percent

_MOST_LINES = 3  # markers joined by lines; more of them cross too often to be followed
_MOST_BARS = 16  # of a narrow picture
_MOST_LABELS = 12  # of a panel with bars
_LEAST_SEEN = 0.25  # standard deviations by which seen cells differ, where that is worth a line
_MEANING = "difference from all rows, in overall standard deviations"


def _check_kind(kind: str, kinds: tuple[str, ...]) -> None:
    if kind not in kinds:
        listed = ", ".join(f'"{x}"' for x in kinds[:-1])
        raise InputError(f'kind must be {listed} or "{kinds[-1]}"; got {kind!r}.')


def _columns_of(shown: Sequence[Parameter], *names: str) -> list[Float]:
    """Return attributes of parameters, of shape (n_components, n_parameters) each."""
    return [np.stack([getattr(p, name) for p in shown], axis=1) for name in names]


class Compared(NamedTuple):
    """Means of numbers and probabilities of levels beside those of all rows."""

    parameters: list[Parameter]
    relative: Float  # (r, n): differences, in standard deviations of all rows
    low: Float  # ends of intervals
    high: Float

    @classmethod
    def of(cls, table: ParameterTable, columns: Iterable[int] | None = None) -> Compared:
        """Return those of the columns, all by default, in their order."""
        m, shown, centers, spreads = table.mixture, list[Parameter](), list[float](), list[float]()
        center, spread = overall_spread(drawable(m))
        numbers = set(numeric_columns(m))
        for j in range(m.n_columns) if columns is None else columns:
            rows = table.of_column(j)
            own = [p for p in rows if p.name == "probability"]
            seen = [p for p in rows if p.name == "seen"]
            shares = m.weights * (np.nan_to_num(seen[0].estimate, nan=1.0) if seen else 1.0)
            if j in numbers:
                shown.append(table.mean(j))
                centers.append(float(center[j]))
                spreads.append(float(spread[j]))
            for p, weights in [(p, shares) for p in own] + [(p, m.weights) for p in seen]:
                weights = weights * ~np.isnan(p.estimate)
                mean = float(weights @ np.nan_to_num(p.estimate) / max(weights.sum(), 1e-300))
                shown.append(p)
                centers.append(mean)
                spreads.append(max(mean * (1 - mean), 1e-12) ** 0.5)
        values = _columns_of(shown, "estimate", "low", "high")
        return cls(shown, *((x - np.array(centers)) / np.array(spreads) for x in values))

    def telling(self, most: int | None = None) -> Compared:
        """Return at most so many, without cells that are about as often seen in all components."""
        size = np.nan_to_num(np.abs(self.relative)).max(axis=0, initial=0.0)
        pairs = enumerate(self.parameters)
        kept = [k for k, p in pairs if p.name != "seen" or size[k] >= _LEAST_SEEN][:most]
        return Compared([self.parameters[k] for k in kept], *(x[:, kept] for x in self[1:]))

    def draw(self, ax: Any) -> None:
        """Draw a line of the picture for each parameter, with a marker for each component."""
        r, n = self.relative.shape
        for k, (color, dash) in enumerate(component_styles(r)):
            y = np.arange(n) + 0.4 * ((k + 0.5) / r - 0.5)  # side by side, so that all are visible
            bars = error_bars(self.relative[k], self.low[k], self.high[k])
            style: Any = {"color": color, "linestyle": dash if r <= _MOST_LINES else "none"}
            ax.errorbar(self.relative[k], y, xerr=bars, linewidth=0.8, elinewidth=1.2, **style)
            number: Any = {"marker": f"${k}$", "markeredgewidth": 0, "zorder": 4}
            shape: Any = {"marker": component_shape(k), "zorder": 3, "color": color}
            ax.plot(self.relative[k], y, linestyle="none", markersize=9, **shape)
            ax.plot(
                self.relative[k], y, linestyle="none", markersize=5, color=ink_on(color), **number
            )
        ax.axvline(0, color=GRAY, linewidth=0.8, zorder=0)
        ax.set_yticks(range(n), [short_name(p.label) for p in self.parameters], fontsize="small")
        ax.set_ylim(n - 0.4, -0.6)
        ax.grid(axis="y", color=GRAY, alpha=0.25, linewidth=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(_MEANING.replace(", ", ",\n"))


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
        return cls(table.weights(), Components.of(table.mixture).names).plot(ax)

    def plot(self, ax: Any = None) -> WeightsDisplay:
        """Draw."""
        weights, high = self.weights.estimate, self.weights.high
        r, ends = len(weights), np.fmax(weights, high)
        width = 6.0 + 0.05 * max(map(len, self.component_names), default=0)
        ax = self._on(ax, (width, 0.34 * r + 1.4))
        ax.barh(range(r), weights, color=[color for color, _ in component_styles(r)], height=0.66)
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
    95 % intervals. More than 16 probabilities are the rows of the heat map, and the components its
    columns. Yes/no columns show the probability of the second level. All probabilities of levels
    are given that the cell is seen.

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
        _check_kind(kind, ("heat map", "bars"))
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
        own = Components.of(self.table.mixture)
        if kind == "heat map":
            size = heat_map_size(self.labels, own)
            draw_probabilities(self._on(ax, size), self.parameters, own)
            return self
        n = len(self.parameters)
        panels = [self.parameters[k : k + _MOST_LABELS] for k in range(0, n, _MOST_LABELS)]
        known = any(p.has_interval for p in self.parameters)
        title = "component: share of rows" + ("; lines: 95 % intervals" if known else "")
        size = (8.6 if n * len(own.weights) > _MOST_BARS else 4.6), 3.4
        axes = self._grid(len(panels), 1, size, own.handles, title)
        for ax, shown in zip(axes, panels, strict=True):
            _draw_bars(ax, shown)
        self.figure_.suptitle(TITLE_OF_LEVELS)
        return self

    @property
    def values(self) -> Float:
        """All probabilities, of shape (n_components, n_labels)."""
        return _columns_of(self.parameters, "estimate")[0]

    @property
    def labels(self) -> list[str]:
        """Labels of the probabilities, as ``plan=gold``."""
        return [p.label for p in self.parameters]


def _draw_bars(ax: Any, shown: Sequence[Parameter]) -> None:
    """Draw probabilities of the components side by side."""
    values, low, high = _columns_of(shown, "estimate", "low", "high")
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

    Lines with 95 % intervals for up to three components, a heat map for more: colors are deviations
    from the overall mean, numbers are means in the units of the data. Means whose interval contains
    the overall mean are crossed out.

    For a table with families, the means are those of numbers and counts where they are seen; lines
    go over the probabilities of levels and of cells being seen as well, and a heat map of these
    stands below that of the means.

    Attributes
    ----------
    table : ParameterTable
    means, probabilities : list of Parameter
        The parameters that are shown.
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
        _check_kind(kind, ("auto", "lines", "heat map"))
        means = [table.mean(j) for j in numeric_columns(drawable(table.mixture))]
        return cls(table, means, table.probabilities()).plot(kind, ax)

    @property
    def names(self) -> list[str]:
        """Names of the columns that have means, for an axis."""
        return [short_name(p.label) for p in self.means]

    def plot(self, kind: str = "auto", ax: Any = None) -> MeansDisplay:
        """Draw; `kind` as for `from_estimator`."""
        own = Components.of(self.table.mixture)
        if kind == "auto":
            few = len(own.weights) <= _MOST_LINES and self.means
            kind = "lines" if few else "heat map"
        below = heat_map_size([p.label for p in self.probabilities], own)
        width, height = heat_map_size(self.names, own)
        if kind == "lines" and self.means:
            return self._plot_lines(ax, own)
        if not self.means:
            if ax is not None:
                raise InputError(
                    "the mixture has no columns of numbers or counts, so that there are no means "
                    "to draw. Use LevelsDisplay."
                )
            draw_probabilities(self._on(ax, below), self.probabilities, own)
            return self
        if self.probabilities and ax is None:
            from matplotlib import pyplot

            size = max(width, below[0]), height + below[1]
            self.figure_ = pyplot.figure(figsize=size, layout="constrained")
            parts = self.figure_.subfigures(2, 1, height_ratios=[height, below[1]])
            self.axes_ = [part.subplots() for part in parts]
            self.ax_ = self.axes_[0]
            draw_probabilities(self.axes_[1], self.probabilities, own)
        else:
            self._on(ax, (width, height))
        compared = Compared.of(self.table, [p.columns[0] for p in self.means])
        are_means = [p.name == "mean" for p in compared.parameters]
        relative, low, high = (x[:, are_means] for x in compared[1:])
        means = _columns_of(self.means, "estimate")[0]
        largest = float(np.nanmax(np.abs(relative))) or 1.0
        draw_heat_map(
            self.ax_, relative, self.names, own, written=means, form=".3g", meaning=_MEANING,
            cmap="PuOr_r", vmin=-largest, vmax=largest,
        )  # fmt: skip
        title, contains_zero = "Means of the components", (low < 0) & (high > 0)
        for k, j in np.argwhere(contains_zero):
            x, y = (k, j) if is_tall(len(self.means)) else (j, k)
            self.ax_.plot([x - 0.45, x + 0.45], [y + 0.45, y - 0.45], color="0.4", linewidth=0.8)
        if contains_zero.any():
            title += "\n(crossed out: 95 % interval contains the overall mean)"
        self.ax_.set_title(title, fontsize="medium")
        return self

    def _plot_lines(self, ax: Any, own: Components) -> MeansDisplay:
        compared = Compared.of(self.table)
        longest = max(map(len, own.labels))
        size = 5.0 + 0.06 * longest, 1.2 + 0.3 * len(compared.parameters)
        ax = self._on(ax, size)
        compared.draw(ax)
        known = any(p.has_interval for p in compared.parameters)
        ax.set_title("Means of the components" + (", 95 % intervals" if known else ""))
        place: Any = {"bbox_to_anchor": (1.01, 1), "loc": "upper left", "alignment": "left"}
        ax.legend(handles=own.handles, title="component: share of rows", **place, **SMALL)
        return self

"""Means and probabilities of the components, compared with those of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import (
    MOST_LETTERS,
    SMALL,
    Components,
    Display,
    component_styles,
    drawable,
    parameters_of,
    short_name,
)
from momentmix.mixture.parameter_table import Parameter, ParameterTable, overall_spread
from momentmix.wording import percent

_ON_LIGHT, _ON_DARK = "#111111", "#FFFFFF"  # numbers in cells: on their color, not on the page
_CELL = (0.62, 0.24)  # width and height, in inches
_MEANING = "difference from all rows, in overall standard deviations"


class Compared(NamedTuple):
    """A parameter of all components beside that of all rows."""

    parameter: Parameter  # a mean, the probability of a level, or of a cell being observed
    overall: float
    relative: Float  # (r,): differences, in standard deviations of all rows


def compared(table: ParameterTable, column: int) -> list[Compared]:
    """Compare the mean of a column, or its probabilities, with all rows."""
    m, parameters = table.mixture, table.of_column(column)
    observed = next((p for p in parameters if p.name == "seen"), None)
    weights = m.weights if observed is None else m.weights * np.nan_to_num(observed.estimate, nan=1)
    rows = [_compared_probability(p, weights) for p in parameters if p.name == "probability"]
    if not m.columns[column].levels:
        mean, (center, spread) = table.mean(column), overall_spread(m)
        relative = (mean.estimate - center[column]) / spread[column]
        rows.append(Compared(mean, float(center[column]), relative))
    if observed is not None:
        rows.append(_compared_probability(observed, m.weights))
    return rows


def _compared_probability(p: Parameter, weights: Float) -> Compared:
    weights = weights * ~np.isnan(p.estimate)
    overall = float(weights @ np.nan_to_num(p.estimate) / max(weights.sum(), 1e-300))
    deviation = max(overall * (1 - overall), 1e-12) ** 0.5
    return Compared(p, overall, (p.estimate - overall) / deviation)


@dataclass
class MeansDisplay(Display):
    """Means of the components as a heat map, a row for each column and one column a component.

    Colors are differences from the mean of all rows, numbers are means in the units of the data.
    Columns of levels have a row for each level with its probabilities, columns with missing cells
    one with the probability that a cell is observed. What has a 95 % interval that contains the
    value of all rows is crossed out.

    Attributes
    ----------
    rows : list of Compared
        What is shown: parameters, their values in all rows, and the differences.
    components : Components
        Shares and names of the components.
    """

    rows: list[Compared]
    components: Components

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> MeansDisplay:
        """Draw means and probabilities of a model beside those of all rows.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        ax : matplotlib axes, optional
        """
        table = parameters_of(model)
        columns = range(drawable(table.mixture).n_columns)
        rows = [row for column in columns for row in compared(table, column)]
        return cls(rows, Components.of(table.mixture)).plot(ax)

    @property
    def names(self) -> list[str]:
        """Names of the rows, for an axis."""
        return [short_name(row.parameter.label) for row in self.rows]

    def plot(self, ax: Any = None) -> MeansDisplay:
        """Draw."""
        n, r = len(self.rows), len(self.components.weights)
        longest = min(MOST_LETTERS, max(map(len, self.names)))
        legend = 0.2 * r if self.components.names else 0.0
        ax = self._on(ax, (max(4.5, 2.4 + 0.08 * longest + _CELL[0] * r), 1.6 + legend + 0.24 * n))
        relative = np.stack([row.relative for row in self.rows])
        largest = float(np.nanmax(np.abs(relative), initial=0.0)) or 1.0
        image = ax.imshow(relative, aspect="auto", cmap="PuOr_r", vmin=-largest, vmax=largest)
        ax.set_facecolor("0.75")  # where there is no value
        ax.spines[:].set_visible(False)
        ax.set_yticks(range(n), self.names, fontsize="small")
        ax.xaxis.tick_top()
        heads = [f"{k}\n{percent(weight)}" for k, weight in enumerate(self.components.weights)]
        ax.set_xticks(range(r), heads, fontsize="small")
        for tick, (color, _) in zip(ax.get_xticklabels(), component_styles(r), strict=True):
            tick.set(color=color, fontweight="bold")
        if self.components.names:
            place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.01)}
            ax.legend(handles=self.components.handles, **place, **SMALL)
        self._write(image)
        title, is_crossed = "Means of the components", False
        for y, (parameter, overall, _) in enumerate(self.rows):
            for x in np.flatnonzero((parameter.low < overall) & (overall < parameter.high)):
                ax.plot([x - 0.45, x + 0.45], [y + 0.45, y - 0.45], color="0.4", linewidth=0.8)
                is_crossed = True
        if is_crossed:
            title += "\n(crossed out: 95 % interval contains that of all rows)"
        ax.set_title(title, fontsize="medium")
        ax.figure.colorbar(image, ax=ax, label=_MEANING)
        return self

    def _write(self, image: Any) -> None:
        """Write the values into the cells, where there is room."""
        width, height = self.ax_.figure.bbox.size / self.ax_.figure.dpi
        if width / len(self.components.weights) < 0.4 or height / len(self.rows) < 0.16:
            return
        for y, (parameter, _, relative) in enumerate(self.rows):
            is_share = parameter.name in ("probability", "seen")
            for x, (value, shade) in enumerate(zip(parameter.estimate, relative, strict=True)):
                bright = image.cmap(image.norm(shade))[:3] @ np.array([0.299, 0.587, 0.114]) > 0.55
                text = percent(value) if is_share else f"{value:.3g}".replace("-", "−")
                text, color = ("–", _ON_LIGHT) if np.isnan(value) else (text, _ON_DARK)
                self.ax_.text(
                    x, y, text, ha="center", va="center", fontsize=8,
                    color=_ON_LIGHT if bright else color,
                )  # fmt: skip

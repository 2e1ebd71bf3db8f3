"""Means and probabilities of the components, compared with those of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import (
    SMALL,
    Display,
    component_entries,
    component_styles,
    mixture_of,
    short_name,
)
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import Parameter, ParameterTable, overall_spread
from momentmix.wording import percent

_CELL = (0.62, 0.24)  # width and height, in inches
_MEANING = "standard deviations from all rows"


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
    one with the probability that a cell is observed.

    Attributes
    ----------
    mixture : Mixture
    rows : list of Compared
        What is shown: parameters, their values in all rows, and the differences.
    """

    mixture: Mixture
    rows: list[Compared]

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> MeansDisplay:
        """Draw means and probabilities of a model beside those of all rows.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        ax : matplotlib axes, optional
        """
        mixture = mixture_of(model)
        table = ParameterTable(mixture)
        rows = [row for j in range(mixture.n_columns) for row in compared(table, j)]
        return cls(mixture, rows).plot(ax)

    @property
    def names(self) -> list[str]:
        """Names of the rows, for an axis."""
        return [short_name(row.parameter.label) for row in self.rows]

    def plot(self, ax: Any = None) -> MeansDisplay:
        """Draw."""
        n, r, longest = len(self.rows), self.mixture.n_components, max(map(len, self.names))
        legend = 0.2 * r if r > 1 else 0.0
        width, height = max(4.5, 2.4 + 0.08 * longest + _CELL[0] * r), 1.6 + legend + _CELL[1] * n
        ax = self._on(ax, (width, height))
        relative = np.stack([row.relative for row in self.rows])
        largest = float(np.nanmax(np.abs(relative), initial=0.0)) or 1.0
        image = ax.imshow(relative, aspect="auto", cmap="PuOr_r", vmin=-largest, vmax=largest)
        ax.set_facecolor("0.75")  # where there is no value
        ax.spines[:].set_visible(False)
        ax.set_yticks(range(n), self.names, fontsize="small")
        ax.xaxis.tick_top()
        heads = [f"{k}\n{percent(weight)}" for k, weight in enumerate(self.mixture.weights)]
        ax.set_xticks(range(r), heads, fontsize="small")
        for tick, (color, _) in zip(ax.get_xticklabels(), component_styles(r), strict=True):
            tick.set(color=color, fontweight="bold")
        if r > 1:
            place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.01)}
            ax.legend(handles=component_entries(self.mixture), **place, **SMALL)
        self._write(image)
        ax.set_title("Means of the components", fontsize="medium")
        ax.figure.colorbar(image, ax=ax, label=_MEANING)
        return self

    def _write(self, image: Any) -> None:
        """Write the values into the cells, where there is room."""
        width, height = self.ax_.figure.bbox.size / self.ax_.figure.dpi
        if width / self.mixture.n_components < 0.4 or height / len(self.rows) < 0.16:
            return
        for y, (parameter, _, relative) in enumerate(self.rows):
            is_share = parameter.name in ("probability", "seen")
            for x, (value, shade) in enumerate(zip(parameter.estimate, relative, strict=True)):
                text = percent(value) if is_share else f"{value:.3g}".replace("-", "−")
                bright = image.cmap(image.norm(shade))[:3] @ np.array([0.299, 0.587, 0.114]) > 0.55
                is_dark = bright or np.isnan(value)  # letters that stand on the color of the cell
                self.ax_.text(
                    x, y, "–" if np.isnan(value) else text, ha="center", va="center", fontsize=8,
                    color="#111111" if is_dark else "#FFFFFF",
                )  # fmt: skip

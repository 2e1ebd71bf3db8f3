"""Means and probabilities of the components, compared with those of all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix.displays.heat import (
    draw_heat_map,
    draw_probabilities,
    heat_map_size,
    is_tall,
)
from momentmix.displays.style import (
    Components,
    Display,
    drawable,
    parameters_of,
    short_name,
)
from momentmix.mixture.parameter_table import (
    Parameter,
    ParameterTable,
    numeric_columns,
    overall_spread,
)

_MEANING = "difference from all rows, in overall standard deviations"


@dataclass
class MeansDisplay(Display):
    """Means of the components over the features, as a heat map.

    Colors are deviations from the overall mean, numbers are means in the units of the data. Means
    whose 95 % interval contains the overall mean are crossed out.

    For a table with families, the means are those of numbers and counts where they are seen; a heat
    map of the probabilities of levels and of cells being seen stands below.

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
    def from_estimator(cls, model: Any, *, ax: Any = None) -> MeansDisplay:
        """Draw the means of a model, as deviations from the overall mean in overall deviations.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        ax : matplotlib axes, optional
            For the means; the probabilities of a table are then left out.
        """
        table = parameters_of(model)
        means = [table.mean(j) for j in numeric_columns(drawable(table.mixture))]
        return cls(table, means, table.probabilities()).plot(ax)

    @property
    def names(self) -> list[str]:
        """Names of the columns that have means, for an axis."""
        return [short_name(p.label) for p in self.means]

    def plot(self, ax: Any = None) -> MeansDisplay:
        """Draw."""
        own = Components.of(self.table.mixture)
        below = heat_map_size([p.label for p in self.probabilities], own)
        width, height = heat_map_size(self.names, own)
        if not self.means:
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
        means, low, high = (
            np.stack([getattr(p, name) for p in self.means], axis=1)
            for name in ("estimate", "low", "high")
        )
        columns = [p.columns[0] for p in self.means]
        center, spread = (x[columns] for x in overall_spread(self.table.mixture))
        relative = (means - center) / spread
        largest = float(np.nanmax(np.abs(relative))) or 1.0
        draw_heat_map(
            self.ax_, relative, self.names, own, written=means, form=".3g", meaning=_MEANING,
            cmap="PuOr_r", vmin=-largest, vmax=largest,
        )  # fmt: skip
        title, contains_zero = "Means of the components", (low < center) & (high > center)
        for k, j in np.argwhere(contains_zero):
            x, y = (k, j) if is_tall(len(self.means)) else (j, k)
            self.ax_.plot([x - 0.45, x + 0.45], [y + 0.45, y - 0.45], color="0.4", linewidth=0.8)
        if contains_zero.any():
            title += "\n(crossed out: 95 % interval contains the overall mean)"
        self.ax_.set_title(title, fontsize="medium")
        return self

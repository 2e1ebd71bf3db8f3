"""Each column alone: the rows and the fitted components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from momentmix.displays.marginals import (
    Marginal,
    draw_marginal,
    legend_of_marginals,
    marginal_of,
)
from momentmix.displays.rows import best_separating, shown_rows
from momentmix.displays.style import Display, component_entries, mixture_of
from momentmix.mixture.columns import column_numbers
from momentmix.mixture.mixture import Mixture

_MOST_COLUMNS = 36  # panels in one picture
_PANEL = (3.1, 2.2)  # width and height, in inches


@dataclass
class ColumnsDisplay(Display):
    """Each column alone: the distribution of the rows, and the fitted components.

    Numbers have a histogram and curves, counts bars at the integers, yes/no answers and categories
    one bar for each level. Heights are shares of the rows, where the column is observed. The part
    of each component has its color; the thin line in the color of the text is their sum.

    Attributes
    ----------
    mixture : Mixture
    marginals : dict of int to Marginal
        Distributions of the columns, by number, with histograms of the rows.
    """

    mixture: Mixture
    marginals: dict[int, Marginal]

    @classmethod
    def from_estimator(
        cls, model: Any, rows: Any = None, columns: Sequence[int | str] | None = None
    ) -> ColumnsDisplay:
        """Draw one panel for each column.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        rows : array, data frame, path, list of paths or source; optional
            Drawn as gray bars. Without, there are the components alone.
        columns : sequence of int or str, optional
            Columns to show, by number or name; by default all, or the 36 that separate the
            components best.
        """
        mixture = mixture_of(model)
        chosen = best_separating(mixture, _MOST_COLUMNS)
        if columns is not None:
            chosen = column_numbers(columns, mixture.n_columns, mixture.feature_names).tolist()
        values = None if rows is None else shown_rows(mixture, rows)[0]
        marginals = {
            j: marginal_of(mixture, j, None if values is None else values[:, j]) for j in chosen
        }
        return cls(mixture, marginals).plot()

    def plot(self) -> ColumnsDisplay:
        """Draw a grid of all columns, with title and legend."""
        marginals = list(self.marginals.values())
        entries = component_entries(self.mixture) + legend_of_marginals(marginals)
        axes = self._grid(len(marginals), _PANEL, entries, "component: share of rows")
        for ax, marginal in zip(axes, marginals, strict=True):
            draw_marginal(ax, marginal)
            ax.set_title(marginal.name, fontsize="medium", loc="left")
        has_rows = any(marginal.shares is not None for marginal in marginals)
        what = "rows and fitted components" if has_rows else "fitted components"
        self.figure_.suptitle(f"Columns: {what}")
        return self

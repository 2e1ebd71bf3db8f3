"""Each column alone: the rows and the fitted components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from momentmix.displays.marginal_panels import draw_marginal, missing_note, texts_of_marginals
from momentmix.displays.marginals import (
    Marginal,
    Observed,
    best_separating,
    marginal_of,
    observed_moments,
    observed_rows,
)
from momentmix.displays.residuals import matching_summary
from momentmix.displays.shown_rows import shown_rows
from momentmix.displays.style import (
    LETTER_WIDTH,
    component_handles,
    component_names,
    drawable,
    entries_in_a_row,
    mixture_of,
    need_matplotlib,
)
from momentmix.errors import InputError
from momentmix.mixture.conditional import column_numbers
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary

MOST_ROWS = 200_000  # of a histogram; more change nothing that can be seen
_MOST_COLUMNS = 36  # panels in one picture
_WIDTH, _HEIGHT = 3.1, 2.2  # of a panel, in inches


@dataclass
class ColumnsDisplay:
    """Each column alone: how the rows are distributed, and the fitted components.

    Numbers have a histogram and curves, counts bars at the integers, yes/no answers and categories
    one bar for each level. Heights are shares of the rows, where the column is seen. The part of
    each component has its color; the thin line in the color of the text is their sum.

    Attributes
    ----------
    mixture : Mixture
    marginals : dict of int to Marginal
        Laws of the columns, by number.
    observed : dict of int to Observed
        Histograms of the rows, or means and deviations of a summary; empty without.
    axes_, figure_
        Axes and figure of matplotlib.
    """

    mixture: Mixture
    marginals: dict[int, Marginal]
    observed: dict[int, Observed] = field(default_factory=dict)
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls, model: Any, rows: Any = None, columns: Sequence[int | str] | None = None
    ) -> ColumnsDisplay:
        """Draw one panel for each column.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        rows : array, data frame, path, list of paths, source or MomentSummary; optional
            Drawn as gray bars. Of a summary, a marker shows mean and standard deviation of numbers
            and counts, and bars the shares of levels. Without, there are the components alone.
        columns : sequence of int or str, optional
            Columns to show, by number or name; by default all, or the 36 that separate the
            components best.
        """
        need_matplotlib()
        return cls.of_model(model, rows, columns).plot()

    @classmethod
    def of_model(
        cls, model: Any, rows: Any = None, columns: Sequence[int | str] | None = None
    ) -> ColumnsDisplay:
        """The display of a model, not yet drawn; parameters as for `from_estimator`.

        `draw_column` draws its columns one by one.
        """
        mixture = drawable(mixture_of(model))
        if columns is None:
            chosen = best_separating(mixture, _MOST_COLUMNS)
        else:
            numbers = column_numbers(columns, mixture.n_columns, mixture.feature_names)
            chosen = [int(j) for j in numbers]
        if rows is None:
            return cls(mixture, {j: marginal_of(mixture, j) for j in chosen})
        if isinstance(rows, MomentSummary):
            summary = matching_summary(mixture, rows.copy())
            laws = {j: marginal_of(mixture, j) for j in chosen}
            return cls(mixture, laws, {j: observed_moments(laws[j], summary, j) for j in chosen})
        values = shown_rows(mixture, rows, MOST_ROWS).values
        laws = {j: marginal_of(mixture, j, values[:, j]) for j in chosen}
        return cls(mixture, laws, {j: observed_rows(laws[j], values[:, j]) for j in chosen})

    def draw_column(self, column: int | str, ax: Any) -> None:
        """Draw one column on given axes, with its name as title and without legend.

        Parameters
        ----------
        column : int or str
            One of the columns of the display, by number or name.
        ax : matplotlib axes
        """
        names = self.mixture.feature_names
        number = int(column_numbers([column], self.mixture.n_columns, names)[0])
        if number not in self.marginals:
            shown = ", ".join(marginal.name for marginal in self.marginals.values())
            raise InputError(f"the display has no column {column!a}; it shows {shown}.")
        marginal, observed = self.marginals[number], self.observed.get(number)
        draw_marginal(ax, marginal, observed, lying=True)
        ax.set_title(marginal.name, fontsize="medium", loc="left")
        note = missing_note(marginal, observed)
        ax.set_title(note, fontsize="small", loc="right")
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize="small")

    def plot(self) -> ColumnsDisplay:
        """Draw a grid of all columns, with title and legend."""
        from matplotlib import pyplot

        n = len(self.marginals)
        across = 2 if n == 4 else min(n, 4 if n > 9 else 3)
        down = -(-n // across)
        width = max(4.6, _WIDTH * across)
        weights, names = self.mixture.weights, component_names(self.mixture)
        entries = component_handles(weights, names, line=False)
        in_a_row = entries_in_a_row(entries, width)
        explained = self._explained(width)
        legend_rows = len(explained) - (-len(entries) // in_a_row)
        size = width, _HEIGHT * down + 0.18 * legend_rows + 0.5
        self.figure_, self.axes_ = pyplot.subplots(
            down, across, figsize=size, squeeze=False, layout="constrained"
        )
        for ax in self.axes_.flat[n:]:
            ax.set_visible(False)
        for ax, number in zip(self.axes_.flat, self.marginals, strict=False):
            self.draw_column(number, ax)
        what = "rows and fitted components" if self.observed else "fitted components"
        self.figure_.suptitle(f"Columns: {what}")
        self.figure_.legend(
            handles=entries, loc="outside lower center", ncols=in_a_row, fontsize="small",
            title="\n".join(explained), title_fontsize="small", frameon=False,
        )  # fmt: skip
        return self

    def _explained(self, width: float) -> list[str]:
        """What bars and curves are, in lines of at most so many inches."""
        levels = [bool(marginal.levels) for marginal in self.marginals.values()]
        bars = any(x.shares is not None for x in self.observed.values())
        moments = any(x.center is not None for x in self.observed.values())
        lines: list[str] = []
        for text in texts_of_marginals(bars, not all(levels), any(levels), moments).values():
            if lines and (len(lines[-1]) + len(text)) * LETTER_WIDTH < width - 0.3:
                lines[-1] += "; " + text
            else:
                lines.append(text)
        return lines

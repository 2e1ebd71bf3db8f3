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
    with_moments,
)
from momentmix.displays.rows import matching_summary, shown_rows
from momentmix.displays.separation import best_separating
from momentmix.displays.style import Components, Display, drawable, mixture_of
from momentmix.errors import InputError
from momentmix.mixture.columns import column_numbers
from momentmix.mixture.mixture import Mixture
from momentmix.summary.column_facts import column_facts
from momentmix.summary.summary import MomentSummary
from momentmix.wording import percent

_MOST_COLUMNS = 36  # panels in one picture
_PANEL = (3.1, 2.2)  # width and height, in inches


@dataclass
class ColumnsDisplay(Display):
    """Each column alone: the distribution of the rows, and the fitted components.

    Numbers have a histogram and curves, counts bars at the integers, yes/no answers and categories
    one bar for each level. Heights are shares of the rows, where the column is seen. The part of
    each component has its color; the thin line in the color of the text is their sum.

    Attributes
    ----------
    mixture : Mixture
    marginals : dict of int to Marginal
        Laws of the columns, by number, with histograms of the rows, or with means and deviations of
        a summary.
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
        rows : array, data frame, path, list of paths, source or MomentSummary; optional
            Drawn as gray bars. Of a summary, a marker shows mean and standard deviation of numbers
            and counts, and bars the shares of levels. Without, there are the components alone.
        columns : sequence of int or str, optional
            Columns to show, by number or name; by default all, or the 36 that separate the
            components best.
        """
        return cls.of_model(model, rows, columns).plot()

    @classmethod
    def of_model(
        cls, model: Any, rows: Any = None, columns: Sequence[int | str] | None = None
    ) -> ColumnsDisplay:
        """Return the display without drawing it; parameters as for `from_estimator`.

        `draw_column` draws its columns one by one.
        """
        mixture = drawable(mixture_of(model))
        chosen = best_separating(mixture, _MOST_COLUMNS)
        if columns is not None:
            chosen = column_numbers(columns, mixture.n_columns, mixture.feature_names).tolist()
        if rows is None or isinstance(rows, MomentSummary):
            laws = {j: marginal_of(mixture, j) for j in chosen}
        else:
            values = shown_rows(mixture, rows)[0]
            laws = {j: marginal_of(mixture, j, values[:, j]) for j in chosen}
        if isinstance(rows, MomentSummary):
            facts = column_facts(matching_summary(mixture, rows.copy()))
            laws = {j: with_moments(law, facts[j]) for j, law in laws.items()}
        return cls(mixture, laws)

    def draw_column(self, column: int | str, ax: Any) -> None:
        """Draw one column on given axes, with its name as title and without legend.

        Parameters
        ----------
        column : int or str
            One of the columns of the display, by number or name.
        ax : matplotlib axes
        """
        names = self.mixture.feature_names
        law = self.marginals.get(int(column_numbers([column], self.mixture.n_columns, names)[0]))
        if law is None:
            shown = ", ".join(marginal.name for marginal in self.marginals.values())
            raise InputError(f"the display has no column {column!a}; it shows {shown}.")
        draw_panel(ax, law)
        ax.set_title(law.name, fontsize="medium", loc="left")

    def plot(self) -> ColumnsDisplay:
        """Draw a grid of all columns, with title and legend."""
        laws = list(self.marginals.values())
        n = len(laws)
        entries = Components.of(self.mixture).handles + legend_of_marginals(laws)
        across = 2 if n == 4 else min(n, 4 if n > 9 else 3)
        axes = self._grid(n, across, _PANEL, entries, "component: share of rows")
        for ax, number in zip(axes, self.marginals, strict=True):
            self.draw_column(number, ax)
        has_rows = any(law.shares is not None or law.center is not None for law in laws)
        what = "rows and fitted components" if has_rows else "fitted components"
        self.figure_.suptitle(f"Columns: {what}")
        return self


def draw_panel(ax: Any, law: Marginal, *, is_tinted: bool = True) -> None:
    """Draw one column on given axes, with the share of missing cells above."""
    draw_marginal(ax, law, lying=True, is_tinted=is_tinted)
    if law.missing:
        ax.set_title(f"{percent(law.missing)} missing", fontsize="small", loc="right")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize="small")

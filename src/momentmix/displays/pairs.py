"""Rows and components over pairs of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.displays.marginals import (
    Marginal,
    draw_marginal,
    legend_of_marginals,
    marginal_of,
)
from momentmix.displays.pair_panels import draw_pair, legend_of_pairs
from momentmix.displays.rows import labels_of, shown_rows
from momentmix.displays.separation import best_separating
from momentmix.displays.style import (
    FEW_COMPONENTS,
    LETTER_WIDTH,
    SMALL,
    Display,
    component_handles,
    component_names,
    drawable,
    mixture_of,
)
from momentmix.mixture.conditional import column_numbers
from momentmix.mixture.mixture import Mixture

# Panels shrink with the number of features, and ellipses cover one another with many components.
_MOST_FEATURES, _MOST_FEATURES_CROWDED = 6, 4
_MOST_LEVELS = 8  # of a column that is shown unasked
_MOST_NAMED_OF_THREE = 5  # components with names in the legend beside three columns
_LINE = 0.17  # height of a line of the legend, in inches
MOST_POINTS = 5000  # more points hide one another


@dataclass
class PairsDisplay(Display):
    """Rows and components over pairs of columns, and each column alone on the diagonal.

    Rings are ellipses at one and two standard deviations of a component. Where both columns are
    Gaussian, they hold 39 % and 86 % of its rows. A column of levels beside one of numbers has bars
    in place of rings, two columns of levels have disks. The diagonal is as in `ColumnsDisplay`.

    Attributes
    ----------
    mixture : Mixture
    marginals : dict of int to Marginal
        Laws of the columns shown, by number, with histograms of the rows.
    rows : array of shape (n_rows, n_columns) or None
        Rows drawn as points: numbers after their transform, counts, or codes of levels; NaN where a
        cell is missing.
    labels : array of shape (n_rows,) or None
        Components of these rows.
    axes_ : array of shape (n_shown, n_shown)
        Axes of matplotlib: row i and column j show column i over column j.
    """

    mixture: Mixture
    marginals: dict[int, Marginal]
    rows: Float | None = None
    labels: NDArray[np.int64] | None = None

    @property
    def names(self) -> list[str]:
        """Names of the columns shown."""
        return [marginal.name for marginal in self.marginals.values()]

    @classmethod
    def from_estimator(
        cls, model: Any, rows: Any = None, *, features: Sequence[int | str] | None = None
    ) -> PairsDisplay:
        """Draw a model over pairs of columns.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        rows : array, data frame, path, list of paths or source; optional
            Shown as points in the color of their component, at most 5,000, and as histograms. Rows
            with a missing cell are left out of the panels of its column. A column with a transform
            is drawn after it; the axes have the units of the data.
        features : sequence of int or str, optional
            Columns to show, of any family; by default the six that separate the components best,
            or four if there are more than eight components. Columns of more than eight levels are
            shown only when asked for.
        """
        mixture = drawable(mixture_of(model))
        if features is None:
            few = mixture.n_components <= FEW_COMPONENTS
            most = _MOST_FEATURES if few else _MOST_FEATURES_CROWDED
            chosen = best_separating(mixture, most, most_levels=_MOST_LEVELS)
        else:
            chosen = column_numbers(features, mixture.n_columns, mixture.feature_names).tolist()
        if rows is None:
            return cls(mixture, {j: marginal_of(mixture, j) for j in chosen}).plot()
        values, encoded = shown_rows(mixture, rows)
        laws = {j: marginal_of(mixture, j, values[:, j]) for j in chosen}
        step = -(-len(values) // MOST_POINTS)
        labels = labels_of(mixture, encoded)[::step] if mixture.has_density else None
        return cls(mixture, laws, values[::step], labels).plot()

    def plot(self) -> PairsDisplay:
        """Draw."""
        from matplotlib import pyplot

        d = len(self.marginals)
        size = {1: 5.0, 2: 7.4, 3: 9.0}.get(d, max(1.9, 10.5 / d) * d)
        self.figure_, self.axes_ = pyplot.subplots(
            d, d, figsize=(size, size + 0.3 if d > 1 else 4.0), squeeze=False, layout="constrained"
        )
        own = list(self.marginals.items())
        for j, (x, across) in enumerate(own):
            draw_marginal(self.axes_[j, j], across)
            for i, (y, up) in enumerate(own):
                if i < j:
                    self.axes_[i, j].set_axis_off()
                elif i > j:
                    both = self.axes_[i, j], self.mixture, (x, y), (across, up)
                    draw_pair(*both, self.rows, self.labels)
        self._label_axes()
        self._explain()
        return self

    def _label_axes(self) -> None:
        names, d = self.names, len(self.names)
        for i, j in zip(*np.tril_indices(d), strict=True):
            ax = self.axes_[i, j]
            is_diagonal = i == j and d > 1
            ax.tick_params(labelsize="small", labelbottom=bool(i == d - 1))
            if i == d - 1:
                ax.set_xlabel(names[j])
            if is_diagonal:
                ax.tick_params(left=False)
                ax.spines[["top", "right", "left"]].set_visible(False)
            elif j == 0:
                ax.set_ylabel(names[i] if d > 1 else "share of rows")
            ax.tick_params(labelleft=bool(j == 0 and not is_diagonal))

    def _explain(self) -> None:
        """Add title and legend; the legend has the empty corner for itself."""
        laws, r = list(self.marginals.values()), self.mixture.n_components
        d, has_rows = len(laws), self.rows is not None
        most_named = _MOST_NAMED_OF_THREE if d == 3 else FEW_COMPONENTS
        names = component_names(self.mixture) if r <= most_named else []
        entries = component_handles(self.mixture.weights, names)
        entries += legend_of_pairs(laws, has_rows) + legend_of_marginals(laws)
        style: Any = {"title": "component: share of rows", "alignment": "left", **SMALL}
        if d == 1:
            width, height = self.figure_.get_size_inches()
            self.figure_.set_size_inches(width, height + 0.09 * len(entries))
            columns = 1 if names else 2
            self.figure_.legend(handles=entries, loc="outside lower center", ncols=columns, **style)
        else:
            columns = 1 if r <= FEW_COMPONENTS else 2 if r <= 2 * FEW_COMPONENTS else 3
            columns += columns == 1 and self._is_long(entries)
            corner: Any = {"loc": "upper right", "borderaxespad": 0, "ncols": columns}
            legend = self.axes_[0, -1].legend(handles=entries, **corner, **style)
            legend.set_in_layout(False)
        what = "Components and rows" if has_rows else "Components"
        over = f"over pairs of {d} columns" if d > 1 else f"in {self.names[0]}"
        self.figure_.suptitle(f"{what} {over}")

    def _is_long(self, entries: Sequence[Any]) -> bool:
        """Whether a legend of one column would reach the panels of the diagonal."""
        d = len(self.names)
        width, height = self.figure_.get_size_inches() / d  # of a panel
        lines = [line for entry in entries for line in entry.get_label().split("\n")]
        longest = LETTER_WIDTH * max(map(len, lines)) + 0.5
        free = max(1, d - int(np.ceil(longest / width)))  # rows whose panels lie left of the legend
        return bool(_LINE * (len(lines) + 2) > free * height) and d > 2

"""Rows and components over pairs of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.displays.columns import numeric_columns, overall_spread
from momentmix.displays.style import (
    FEW_COMPONENTS,
    component_styles,
    drawable,
    mixture_of,
    names_of,
    need_matplotlib,
)
from momentmix.errors import InputError
from momentmix.mixture.density import most_probable
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.tables.family_blocks import PoissonBlock
from momentmix.rows.names import feature_number
from momentmix.rows.validation import rows_for
from momentmix.schema.cells import CellTable, read_cells
from momentmix.schema.encoding import encode_cells

# Panels shrink with the number of features, and ellipses cover one another with many components.
_MOST_FEATURES, _MOST_FEATURES_CROWDED = 6, 4
MOST_POINTS = 5000  # more points hide one another


@dataclass
class PairsDisplay:
    """Rows and components over pairs of features: ellipses at one and two standard deviations.

    Attributes
    ----------
    mixture : Mixture
    names : list of str
        Names of the features shown.
    rows : array of shape (n_rows, n_features) or None
    axes_, figure_
        Axes and figure of matplotlib.
    """

    mixture: Mixture
    names: list[str]
    rows: Float | None = None
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(
        cls, model: Any, rows: Any = None, *, features: Sequence[int | str] | None = None
    ) -> PairsDisplay:
        """Draw a model over pairs of features.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        rows : array or data frame of shape (n_rows, n_features), optional
            Shown as points in the color of their component, at most 5,000. Rows with a missing
            cell are left out of the panels of its column. A column with a transform is drawn after
            it.
        features : sequence of int or str, optional
            Features to show, numbers or counts; by default the six that separate the components
            best, or four if there are more than eight components.
        """
        need_matplotlib()
        mixture = drawable(mixture_of(model))
        names = names_of(mixture)
        if features is None:
            few = mixture.n_components <= FEW_COMPONENTS
            chosen = _separating(mixture, _MOST_FEATURES if few else _MOST_FEATURES_CROWDED)
        else:
            chosen = [int(feature_number(f, mixture.feature_names or names)) for f in features]
        _check_numeric(mixture, names, chosen)
        points = labels = None
        if rows is not None:
            points, labels = _points(mixture, rows, chosen)
        display = cls(mixture.marginal(chosen), [names[j] for j in chosen], points)
        return display.plot(labels)

    def plot(self, labels: NDArray[np.int64] | None = None) -> PairsDisplay:
        """Draw; `labels` are the components of the rows."""
        from matplotlib import pyplot

        d = self.mixture.n_features
        size = 4.5 if d <= 2 else max(2.0, 10.0 / (d - 1)) * (d - 1)
        n = max(d - 1, 1)
        self.figure_, axes = pyplot.subplots(
            n, n, figsize=(size, size), squeeze=False, layout="constrained"
        )
        self.axes_ = axes
        if d == 1:
            self._density(axes[0, 0])
            return self
        for i in range(n):
            for j in range(n):
                ax = axes[i, j]
                if j > i:
                    ax.set_visible(False)
                    continue
                self._pair(ax, j, i + 1, labels)
                if i == n - 1:
                    ax.set_xlabel(self.names[j])
                else:
                    ax.tick_params(labelbottom=False)
                if j == 0:
                    ax.set_ylabel(self.names[i + 1])
                else:
                    ax.tick_params(labelleft=False)
        return self

    def _pair(self, ax: Any, x: int, y: int, labels: Any) -> None:
        from matplotlib.patches import Ellipse

        m = self.mixture
        styles = component_styles(m.n_components)
        if self.rows is not None:
            colors = "0.6" if labels is None else [styles[k][0] for k in labels]
            ax.scatter(
                self.rows[:, x], self.rows[:, y], s=3, c=colors, alpha=0.25, linewidths=0,
                rasterized=True,
            )  # fmt: skip
        deviations, pair = np.sqrt(m.variances), m.select([x, y]).covariances
        for k, (color, dash) in enumerate(styles):
            center = m.means[k, [x, y]]
            if np.isnan(center).any():  # it never sees one of the columns
                continue
            width, height, angle = _ellipse(*pair[k].flat[[0, 3, 1]])
            for times, thickness in ((1, 1.6), (2, 0.8)):
                ax.add_patch(
                    Ellipse(
                        (float(center[0]), float(center[1])),
                        2 * times * width, 2 * times * height, angle=angle,
                        fill=False, edgecolor=color, linestyle=dash, linewidth=thickness,
                    )
                )  # fmt: skip
            _number(ax, center, k, color)
        for axis, j in (("x", x), ("y", y)):
            low = np.nanmin(m.means[:, j] - 2.2 * deviations[:, j])
            high = np.nanmax(m.means[:, j] + 2.2 * deviations[:, j])
            if high - low <= 1e-12 * abs(high):  # a constant feature
                pad = max(0.5, 1e-6 * abs(high))
                low, high = low - pad, high + pad
            getattr(ax, f"set_{axis}lim")(low, high)

    def _density(self, ax: Any) -> None:
        block = self.mixture.blocks[0]
        seen = np.ones(self.mixture.n_components) if block.seen is None else block.seen
        shares = self.mixture.weights * seen
        shares = shares / shares.sum()
        counts = isinstance(block, PoissonBlock)
        grid, heights = (_count_law if counts else _normal_law)(self.mixture)
        heights = shares[:, None] * heights
        if self.rows is not None:
            values = self.rows[~np.isnan(self.rows[:, 0]), 0]
            bins: Any = np.append(grid - 0.5, grid[-1] + 0.5) if counts else 60
            ax.hist(values, bins=bins, density=True, color="0.85")
        marker = "." if counts else ""
        ax.plot(grid, np.nansum(heights, axis=0), marker=marker, color="black", label="mixture")
        for k, (color, dash) in enumerate(component_styles(self.mixture.n_components)):
            ax.plot(grid, heights[k], dash, marker=marker, color=color, label=str(k))
        ax.set(xlabel=self.names[0], ylabel="probability" if counts else "density")
        ax.legend(fontsize="small")


def _normal_law(mixture: Mixture) -> tuple[Float, Float]:
    """A grid, and the density of each component of one Gaussian column there."""
    mean, deviation = mixture.means[:, :1], np.sqrt(mixture.variances[:, :1])
    grid = np.linspace(np.nanmin(mean - 4 * deviation), np.nanmax(mean + 4 * deviation), 500)
    with np.errstate(divide="ignore", invalid="ignore"):
        heights = np.exp(-0.5 * ((grid - mean) / deviation) ** 2) / deviation
    return grid, heights / np.sqrt(2 * np.pi)


def _count_law(mixture: Mixture) -> tuple[Float, Float]:
    """A grid of counts, and the probability in each component of a column of counts."""
    from scipy.special import gammaln, xlogy

    rates = mixture.means[:, :1]
    ends = np.nanmin(rates - 4 * np.sqrt(rates)), np.nanmax(rates + 5 * np.sqrt(rates)) + 2
    first, last = max(0.0, np.floor(ends[0])), np.ceil(ends[1])
    grid = np.arange(first, last + 1, max(1.0, np.floor((last - first) / 500)))
    return grid, np.exp(xlogy(grid, rates) - rates - gammaln(grid + 1))


def _check_numeric(mixture: Mixture, names: list[str], chosen: list[int]) -> None:
    """Raise where a column has no mean and no spread to draw."""
    if not chosen:
        raise InputError(
            "the mixture has no columns of numbers or counts, so that there are no pairs to draw. "
            "Use LevelsDisplay."
        )
    others = [j for j in chosen if j not in numeric_columns(mixture)]
    if others:
        raise InputError(
            f"pairs are drawn of numbers and counts; {names[others[0]]} is "
            f"{mixture.columns[others[0]].family}. Use LevelsDisplay for it."
        )


def _points(
    mixture: Mixture, rows: Any, chosen: list[int]
) -> tuple[Float, NDArray[np.int64] | None]:
    """Some of the rows in the columns chosen, and the components of all of these."""
    if mixture.schema is None:
        table = rows_for(rows, mixture.feature_names).astype(np.float64, copy=False)
        table = table[:: max(1, -(-len(table) // MOST_POINTS))]
        return table[:, chosen], mixture.predict(table)
    cells = read_cells(rows, mixture.feature_names, mixture.n_columns, "the mixture")
    step = max(1, -(-cells.n_rows // MOST_POINTS))
    parts = [replace(column, values=column.values[::step]) for column in cells.columns]
    encoded = encode_cells(mixture.columns, CellTable(parts, cells.names))
    labels = mixture.table_density().map_encoded(encoded, most_probable)
    numbers = [mixture.columns[j].transformed(parts[j].values) for j in chosen]
    return np.stack(numbers, axis=1), labels


def _ellipse(first: float, second: float, covariance: float) -> tuple[float, float, float]:
    """Half axes of the ellipse of one standard deviation, and the angle of the first, in degrees.

    In closed form: eigenvalues of columns in very different units would lose the shorter axis.
    """
    if covariance == 0:
        return first**0.5, second**0.5, 0.0
    longest = 0.5 * (first + second) + np.hypot(0.5 * (first - second), covariance)
    correlation = covariance / first**0.5 / second**0.5
    shortest = max(first / longest * second * (1.0 - correlation**2), 0.0)
    angle = 0.5 * np.degrees(np.arctan2(2 * covariance, first - second))
    return float(longest**0.5), shortest**0.5, float(angle)


def _number(ax: Any, center: Any, k: int, color: str) -> None:
    """Write the number of a component in a small disk at its center."""
    ax.annotate(
        str(k), center, ha="center", va="center", fontsize=7, color="white", clip_on=True,
        bbox={"boxstyle": "circle,pad=0.15", "facecolor": color, "edgecolor": "white",
              "linewidth": 0.5},
    )  # fmt: skip


def _separating(mixture: Mixture, most: int) -> list[int]:
    """Numeric columns whose means differ most, relative to the spread within components."""
    numbers = numeric_columns(mixture)
    if len(numbers) <= most:
        return numbers
    center, scale = overall_spread(mixture)
    offsets = np.nan_to_num((mixture.means - center) / scale)
    between = mixture.weights @ offsets**2
    within = mixture.weights @ (np.sqrt(np.nan_to_num(mixture.variances)) / scale) ** 2
    ratio = (between / np.maximum(within, np.finfo(float).tiny))[numbers]
    return sorted(numbers[i] for i in np.argsort(-ratio, kind="stable")[:most])

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
    set_axis,
)
from momentmix.displays.rows import best_separating, shown_rows
from momentmix.displays.style import (
    FEW_COMPONENTS,
    GRAY,
    Display,
    component_entries,
    component_styles,
    ink,
    mixture_of,
)
from momentmix.html.palette import COLORS
from momentmix.mixture.columns import column_numbers
from momentmix.mixture.mixture import Mixture

# Panels shrink with the number of features, and ellipses cover one another with many components.
_MOST_FEATURES, _MOST_FEATURES_CROWDED = 6, 4
_MOST_LEVELS = 8  # of a column that is shown unasked
_MOST_POINTS = 5000  # more points hide one another
_BOXES = ("circle", "square", "round", "sawtooth")  # of numbers, another where colors repeat
_RINGS = ((1, 1.9), (2, 1.1))  # standard deviations, and the thickness of the ring
_LARGEST_DISK = 600.0  # area in points² of the largest share of rows in a pair of levels
_THICKEST = 7.0  # width in points of the bar of the largest share of rows in a level


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
        Distributions of the columns shown, by number, with histograms of the rows.
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
        mixture = mixture_of(model)
        if features is None:
            few = mixture.n_components <= FEW_COMPONENTS
            most = _MOST_FEATURES if few else _MOST_FEATURES_CROWDED
            chosen = best_separating(mixture, most, most_levels=_MOST_LEVELS)
        else:
            chosen = column_numbers(features, mixture.n_columns, mixture.feature_names).tolist()
        if rows is None:
            return cls(mixture, {j: marginal_of(mixture, j) for j in chosen}).plot()
        values, labels, _ = shown_rows(mixture, rows)
        marginals = {j: marginal_of(mixture, j, values[:, j]) for j in chosen}
        step = -(-len(values) // _MOST_POINTS)
        shown = None if labels is None else labels[::step]
        return cls(mixture, marginals, values[::step], shown).plot()

    def plot(self) -> PairsDisplay:
        """Draw."""
        own, d = list(self.marginals.items()), len(self.marginals)
        marginals, has_rows = list(self.marginals.values()), self.rows is not None
        entries = component_entries(self.mixture) + legend_of_marginals(marginals)
        entries += _legend(marginals, has_rows)
        side = {1: 4.6, 2: 3.6, 3: 3.0}.get(d, max(1.9, 10.5 / d))
        self._grid((d, d), (side, side), entries, "component: share of rows")
        for j, (x, across) in enumerate(own):
            draw_marginal(self.axes_[j, j], across)
            for i, (y, up) in enumerate(own):
                ax = self.axes_[i, j]
                if i < j:
                    ax.set_axis_off()
                elif i > j:
                    draw_pair(ax, self.mixture, (x, y), (across, up), self.rows, self.labels)
                is_diagonal = i == j and d > 1
                ax.tick_params(labelsize="small", labelbottom=i == d - 1)
                ax.tick_params(left=not is_diagonal, labelleft=j == 0 and not is_diagonal)
                if i == d - 1:
                    ax.set_xlabel(across.name)
                if is_diagonal:
                    ax.spines[["top", "right", "left"]].set_visible(False)
                elif j == 0:
                    ax.set_ylabel(up.name if d > 1 else "share of rows")
        what = "Components and rows" if has_rows else "Components"
        over = f"over pairs of {d} columns" if d > 1 else f"in {self.names[0]}"
        self.figure_.suptitle(f"{what} {over}")
        return self


def _legend(marginals: Sequence[Marginal], has_rows: bool) -> list[Any]:
    """Return entries of a legend for points, rings, bars and disks."""
    from matplotlib.lines import Line2D

    n_levels = sum(bool(marginal.column.levels) for marginal in marginals)
    n_numbers, texts = len(marginals) - n_levels, dict[str, str]()
    if has_rows and n_numbers and len(marginals) > 1:
        texts["."] = "a row, in the color of its component"
    if n_numbers > 1:
        about = "about " if any(marginal.is_count for marginal in marginals) else ""
        texts["o"] = f"rings: {about}39 % and 86 % of a component's rows"
    if n_levels and n_numbers:
        texts["|"] = "bar: mean ± one standard deviation, thin: two"
    if n_levels > 1:
        texts["8"] = "disk: fitted share of rows with both levels"
    style: Any = {"linestyle": "", "color": ink(), "fillstyle": "none"}
    return [Line2D([], [], marker=marker, label=text, **style) for marker, text in texts.items()]


# -- the panel of two columns -------------------------------------------------------------------


def draw_pair(
    ax: Any,
    mixture: Mixture,
    columns: tuple[int, int],
    marginals: tuple[Marginal, Marginal],
    rows: Float | None = None,
    components: NDArray[np.int64] | None = None,
) -> None:
    """Draw two columns, the first along x, with the values of rows as points."""
    across, up = (bool(marginal.column.levels) for marginal in marginals)
    if rows is not None and not (across and up):
        _draw_points(ax, rows[:, columns], components, marginals, mixture.n_components)
    if across and up:
        _draw_disks(ax, mixture, *marginals)
    elif across or up:
        _draw_strips(ax, mixture, marginals[not across], columns[across], across)
    else:
        _draw_rings(ax, mixture, columns)
    set_axis(ax.xaxis, marginals[0])
    set_axis(ax.yaxis, marginals[1])


def _draw_points(
    ax: Any,
    values: Float,
    components: NDArray[np.int64] | None,
    marginals: tuple[Marginal, Marginal],
    n_components: int,
) -> None:
    """Draw rows as points, few large and many small; equal counts and levels are moved a little."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(values))  # so that no component covers the others
    places, colors = values[order].copy(), np.full(len(values), GRAY, dtype=object)
    width = 0.32
    if components is not None:
        components, width = components[order], 0.36 / n_components
        palette = [color for color, _ in component_styles(n_components)] + [GRAY]  # background
        colors = np.array(palette, dtype=object)[components]
    for j, marginal in enumerate(marginals):
        if marginal.column.levels and components is not None:  # beside the bar of the component
            places[:, j] += np.append(_level_offsets(n_components), 0.0)[components]
            places[:, j] += rng.uniform(-width, width, len(places))
        elif marginal.column.levels or marginal.is_count:
            places[:, j] += rng.uniform(-0.32, 0.32, len(places))
    relative = 150 / max(len(values), 1)
    size, alpha = np.clip(17 * relative**0.5, 2.2, 17), np.clip(relative**0.3, 0.3, 0.85)
    style: Any = {"s": float(size), "alpha": float(alpha), "linewidths": 0, "rasterized": True}
    ax.scatter(places[:, 0], places[:, 1], c=colors.tolist(), zorder=1, **style)


def _draw_rings(ax: Any, mixture: Mixture, columns: tuple[int, int]) -> None:
    """Draw ellipses at one and two standard deviations, and the number of each component."""
    from matplotlib.patches import Ellipse

    pair, centers = mixture.select(columns).covariances, mixture.means[:, columns]
    for k, (color, dash) in enumerate(component_styles(mixture.n_components)):
        if np.isnan(centers[k]).any():  # it never sees one of the columns
            continue
        width, height, angle = ellipse(*pair[k].flat[[0, 3, 1]])
        style: Any = {"fill": False, "edgecolor": color, "linestyle": dash, "zorder": 2}
        for times, thickness in _RINGS:
            size = 2 * times * width, 2 * times * height
            ax.add_patch(Ellipse(centers[k], *size, angle=angle, linewidth=thickness, **style))
        box = {"boxstyle": f"{_BOXES[k // len(COLORS) % len(_BOXES)]},pad=0.15"}
        box |= {"facecolor": color, "edgecolor": "#FFFFFF"}
        place: Any = {"ha": "center", "va": "center", "clip_on": True, "zorder": 3}
        ax.annotate(str(k), centers[k], fontsize=7, color="#FFFFFF", bbox=box, **place)


def ellipse(first: float, second: float, covariance: float) -> tuple[float, float, float]:
    """Return half axes and angle of one standard deviation, in closed form for any two units."""
    if covariance == 0:
        return first**0.5, second**0.5, 0.0
    longest = 0.5 * (first + second) + np.hypot(0.5 * (first - second), covariance)
    correlation = covariance / first**0.5 / second**0.5
    shortest = max(first / longest * second * (1.0 - correlation**2), 0.0)
    angle = 0.5 * np.degrees(np.arctan2(2 * covariance, first - second))
    return float(longest**0.5), shortest**0.5, float(angle)


def _level_offsets(n_components: int) -> Float:
    """Return the place of each component beside the others at a level."""
    return np.asarray(0.8 * ((np.arange(n_components) + 0.5) / n_components - 0.5))


def _draw_strips(ax: Any, mixture: Mixture, levels: Marginal, number: int, across: bool) -> None:
    """Draw a bar of ±1 and a thin one of ±2 deviations at each level, the thicker the more rows."""
    means, deviations = mixture.means[:, number], np.sqrt(mixture.variances[:, number])
    relative = levels.heights / max(float(levels.heights.max(initial=0.0)), 1e-300)
    bars = ax.vlines if across else ax.hlines
    for k, (color, _) in enumerate(component_styles(mixture.n_components)):
        places = levels.grid + _level_offsets(mixture.n_components)[k]
        for times, thickness in ((2, 1.0), (1, _THICKEST)):
            ends = means[k] - times * deviations[k], means[k] + times * deviations[k]
            widths = np.maximum(0.3, thickness * relative[k] ** 0.5)
            bars(places, *ends, color=color, linewidth=widths, alpha=0.9, zorder=2)


def _draw_disks(ax: Any, mixture: Mixture, x: Marginal, y: Marginal) -> None:
    """Draw a disk for each component at each pair of levels, as large as the fitted share."""
    weights = np.maximum(mixture.weights, 1e-300)
    joint = x.heights[:, :, None] * y.heights[:, None, :] / weights[:, None, None]
    largest = max(float(joint.max(initial=0.0)), 1e-300)
    for k, (color, _) in enumerate(component_styles(mixture.n_components)):
        offset = _level_offsets(mixture.n_components)[k]
        across, up = np.meshgrid(x.grid, y.grid, indexing="ij")
        area = _LARGEST_DISK / mixture.n_components * joint[k] / largest
        ax.scatter(across + offset, up, s=area, color=color, linewidths=0, zorder=2)

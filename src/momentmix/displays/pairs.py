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
from momentmix.displays.rows import labels_of, shown_rows
from momentmix.displays.separation import best_separating
from momentmix.displays.style import (
    FEW_COMPONENTS,
    GRAY,
    LETTER_WIDTH,
    SMALL,
    Components,
    Display,
    component_shape,
    component_styles,
    drawable,
    ink,
    mixture_of,
)
from momentmix.mixture.columns import column_numbers
from momentmix.mixture.mixture import Mixture

# Panels shrink with the number of features, and ellipses cover one another with many components.
_MOST_FEATURES, _MOST_FEATURES_CROWDED = 6, 4
_MOST_LEVELS = 8  # of a column that is shown unasked
_MOST_NAMED_OF_THREE = 5  # components with names in the legend beside three columns
_LINE = 0.17  # height of a line of the legend, in inches
MOST_POINTS = 5000  # more points hide one another
_BOXES = {"o": "circle", "s": "square", "D": "round", "^": "sawtooth"}  # by shape
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
        own = Components.of(self.mixture, is_named=r <= most_named)
        entries = own.handles + legend_of_pairs(laws, has_rows) + legend_of_marginals(laws)
        style: Any = {"title": "component: share of rows", "alignment": "left", **SMALL}
        if d == 1:
            width, height = self.figure_.get_size_inches()
            self.figure_.set_size_inches(width, height + 0.09 * len(entries))
            columns = 1 if own.names else 2
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


# -- the panel of two columns -------------------------------------------------------------------


def draw_pair(
    ax: Any,
    mixture: Mixture,
    columns: tuple[int, int],
    laws: tuple[Marginal, Marginal],
    rows: Float | None = None,
    components: NDArray[np.int64] | None = None,
) -> None:
    """Draw two columns, the first along x, with the values of rows as points."""
    across, up = (bool(law.levels) for law in laws)
    if rows is not None and not (across and up):
        _draw_points(ax, rows[:, columns], components, laws, mixture.n_components)
    if across and up:
        _draw_disks(ax, mixture, *laws)
    elif across or up:
        _draw_strips(ax, mixture, laws[not across], columns[across], across)
    else:
        _draw_rings(ax, mixture, columns)
    set_axis(ax.xaxis, laws[0])
    set_axis(ax.yaxis, laws[1])


def _draw_points(
    ax: Any,
    values: Float,
    components: NDArray[np.int64] | None,
    laws: tuple[Marginal, Marginal],
    n_components: int,
) -> None:
    """Draw rows as points, few large and many small; equal counts and levels are moved a little."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(values))  # so that no component covers the others
    places = values[order].copy()
    for j, law in enumerate(laws):
        if law.levels and components is not None:  # beside the bar of the component
            places[:, j] += _level_offsets(n_components)[components[order]]
            places[:, j] += rng.uniform(-0.36, 0.36, len(places)) / n_components
        elif law.levels or law.is_count:
            places[:, j] += rng.uniform(-0.32, 0.32, len(places))
    colors: Any = GRAY
    if components is not None:
        styles = component_styles(n_components)
        colors = [styles[k][0] for k in components[order]]
    size, alpha = point_style(len(values))
    ax.scatter(
        places[:, 0], places[:, 1], s=size, c=colors, alpha=alpha, linewidths=0, rasterized=True,
        zorder=1,
    )  # fmt: skip


def point_style(n_points: int) -> tuple[float, float]:
    """Return area in points² and opacity of so many points."""
    relative = 150 / max(n_points, 1)
    return float(np.clip(17 * relative**0.5, 2.2, 17)), float(np.clip(relative**0.3, 0.3, 0.85))


def _draw_rings(ax: Any, mixture: Mixture, columns: tuple[int, int]) -> None:
    """Draw ellipses at one and two standard deviations, and the number of each component."""
    from matplotlib.patches import Ellipse

    pair, centers = mixture.select(columns).covariances, mixture.means[:, columns]
    for k, (color, dash) in enumerate(component_styles(mixture.n_components)):
        if np.isnan(centers[k]).any():  # it never sees one of the columns
            continue
        width, height, angle = ellipse(*pair[k].flat[[0, 3, 1]])
        for times, thickness in _RINGS:
            ax.add_patch(
                Ellipse(
                    (float(centers[k, 0]), float(centers[k, 1])),
                    2 * times * width, 2 * times * height, angle=angle, zorder=2,
                    fill=False, edgecolor=color, linestyle=dash, linewidth=thickness,
                )
            )  # fmt: skip
        box = f"{_BOXES[component_shape(k)]},pad=0.15"
        ax.annotate(
            str(k), centers[k], ha="center", va="center", fontsize=7, color="#FFFFFF", clip_on=True,
            zorder=3, bbox={"boxstyle": box, "facecolor": color,
                            "edgecolor": "#FFFFFF", "linewidth": 0.5},
        )  # fmt: skip


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
    means = mixture.means[:, number]
    deviations = np.sqrt(mixture.variances[:, number])
    relative = levels.heights / max(float(levels.heights.max(initial=0.0)), 1e-300)
    for k, (color, _) in enumerate(component_styles(mixture.n_components)):
        if np.isnan(means[k]):
            continue
        places = levels.grid + _level_offsets(mixture.n_components)[k]
        for place, share in zip(places, relative[k], strict=True):
            for times, thickness in ((2, 1.0), (1, _THICKEST)):
                along = means[k] + times * deviations[k] * np.array([-1.0, 1.0])
                line = ([place, place], along) if across else (along, [place, place])
                ax.plot(
                    *line, color=color, linewidth=max(0.3, thickness * share**0.5), alpha=0.9,
                    solid_capstyle="butt", zorder=2,
                )  # fmt: skip


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


def legend_of_pairs(laws: Sequence[Marginal], has_rows: bool) -> list[Any]:
    """Return entries of a legend for points, rings, bars and disks."""
    from matplotlib.lines import Line2D

    def entry(label: str, **style: Any) -> Any:
        return Line2D([], [], linestyle="", label=label, color=ink(), **style)

    found, n_levels = [], sum(bool(law.levels) for law in laws)
    n_numbers = len(laws) - n_levels
    if has_rows and n_numbers and len(laws) > 1:
        found.append(entry("point: a row, in the color of its component", marker=".", alpha=0.6))
    if n_numbers > 1:
        shares = "39 % and 86 % of a component's rows"
        shares = f"about {shares}" if any(law.is_count for law in laws) else shares
        text = f"rings: one and two standard deviations,\n{shares}"
        found.append(entry(text, marker="o", fillstyle="none"))
        found.append(entry("number: the mean of a component", marker="$0$", markersize=5))
    if n_levels and n_numbers:
        text = "bar: mean ± one standard deviation; thin: two;\n"
        text += "thick where many rows have the level"
        found.append(entry(text, marker="|", markeredgewidth=2.5))
    if n_levels > 1:
        found.append(entry("disk: fitted share of rows with both levels", marker="o", alpha=0.6))
    return found

"""Rows and components over pairs of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.displays.marginals import Marginal, marginal_of, set_axis
from momentmix.displays.rows import pairs_by_separation, shown_rows
from momentmix.displays.style import (
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

_MOST_PAIRS = 6
_MOST_POINTS = 5000  # more points hide one another
_SIDE = (3.4, 3.1)  # width and height of a panel, in inches
_BOXES = ("circle", "square", "round", "sawtooth")  # of numbers, another where colors repeat
_RINGS = ((1, 1.9), (2, 1.1))  # standard deviations, and the thickness of the ring
_LARGEST_DISK = 600.0  # area in points² of the largest share of rows


@dataclass
class PairsDisplay(Display):
    """Rows and components over pairs of columns.

    Rings are ellipses at one and two standard deviations of a component. Where both columns are
    Gaussian, they hold 39 % and 86 % of its rows. Columns of levels have disks in place of rings.

    Attributes
    ----------
    mixture : Mixture
    pairs : list of (int, int)
        Columns that are shown, along the axis and up.
    rows : array of shape (n_rows, n_columns) or None
        Rows drawn as points: numbers after their transform, counts, or codes of levels; NaN where a
        cell is missing.
    labels : array of shape (n_rows,) or None
        Components of these rows.
    """

    mixture: Mixture
    pairs: list[tuple[int, int]]
    rows: Float | None = None
    labels: NDArray[np.int64] | None = None

    @classmethod
    def from_estimator(
        cls, model: Any, rows: Any = None, *, features: Sequence[int | str] | None = None
    ) -> PairsDisplay:
        """Draw a model over pairs of columns.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        rows : array, data frame, path, list of paths or source; optional
            Shown as points in the color of their component, at most 5,000. Rows with a missing cell
            are left out of the panels of its column. A column with a transform is drawn after it;
            the axes have the units of the data.
        features : sequence of int or str, optional
            Columns of any family whose pairs are shown; by default the six pairs that separate the
            components best.
        """
        mixture = mixture_of(model)
        pairs = pairs_by_separation(mixture, _MOST_PAIRS)
        if features is not None:
            chosen = column_numbers(features, mixture.n_columns, mixture.feature_names).tolist()
            pairs = list(combinations(chosen, 2)) or [(chosen[0], chosen[0])]
        if rows is None:
            return cls(mixture, pairs).plot()
        values, labels, _ = shown_rows(mixture, rows)
        step = -(-len(values) // _MOST_POINTS)
        return cls(
            mixture, pairs, values[::step], None if labels is None else labels[::step]
        ).plot()

    def plot(self) -> PairsDisplay:
        """Draw."""
        marginals = {j: self._marginal(j) for pair in self.pairs for j in pair}
        entries = component_entries(self.mixture)
        entries += _legend(list(marginals.values()), self.rows is not None)
        axes = self._grid(len(self.pairs), _SIDE, entries, "component: share of rows")
        for ax, (x, y) in zip(axes, self.pairs, strict=True):
            shown = marginals[x], marginals[y]
            draw_pair(ax, self.mixture, (x, y), shown, self.rows, self.labels)
            ax.set(xlabel=shown[0].name, ylabel=shown[1].name)
            ax.tick_params(labelsize="small")
        what = "Components and rows" if self.rows is not None else "Components"
        self.figure_.suptitle(f"{what} over pairs of columns")
        return self

    def _marginal(self, number: int) -> Marginal:
        return marginal_of(
            self.mixture, number, None if self.rows is None else self.rows[:, number]
        )


def _legend(marginals: list[Marginal], has_rows: bool) -> list[Any]:
    """Entries of a legend for rings, disks and points."""
    from matplotlib.lines import Line2D

    texts = dict[str, str]()
    if has_rows:
        texts["."] = "points: rows, in the color of their component"
    if any(not marginal.column.levels for marginal in marginals):
        texts["o"] = "rings: about 39 % and 86 % of a component's rows"
    if any(marginal.column.levels for marginal in marginals):
        texts["8"] = "disks: shares of rows"
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
    has_levels = [bool(marginal.column.levels) for marginal in marginals]
    if rows is not None and not all(has_levels):
        _draw_points(ax, rows[:, columns], components, marginals, mixture.n_components)
    if any(has_levels):
        _draw_disks(ax, mixture, columns, marginals)
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
    if components is not None:
        palette = [color for color, _ in component_styles(n_components)] + [GRAY]  # background
        colors = np.array(palette, dtype=object)[components[order]]
    for j, marginal in enumerate(marginals):
        if marginal.column.levels or marginal.is_count:
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
    """Half axes and angle of one standard deviation, in closed form for any two units."""
    if covariance == 0:
        return first**0.5, second**0.5, 0.0
    longest = 0.5 * (first + second) + np.hypot(0.5 * (first - second), covariance)
    correlation = covariance / first**0.5 / second**0.5
    shortest = max(first / longest * second * (1.0 - correlation**2), 0.0)
    angle = 0.5 * np.degrees(np.arctan2(2 * covariance, first - second))
    return float(longest**0.5), shortest**0.5, float(angle)


def _draw_disks(
    ax: Any, mixture: Mixture, columns: tuple[int, int], marginals: tuple[Marginal, Marginal]
) -> None:
    """Draw a disk for each component at its levels and its mean, as large as the share of rows."""
    r = mixture.n_components
    offsets = 0.8 * ((np.arange(r) + 0.5) / r - 0.5)  # beside one another
    for k, (color, _) in enumerate(component_styles(r)):
        places, shares = [], []
        for j, marginal in zip(columns, marginals, strict=True):
            is_level = bool(marginal.column.levels)
            places.append(marginal.grid + offsets[k] if is_level else mixture.means[k, [j]])
            total = max(float(marginal.heights[k].sum()), 1e-300)
            shares.append(marginal.heights[k] / total if is_level else np.ones(1))
        across, up = np.meshgrid(*places, indexing="ij")
        area = _LARGEST_DISK * mixture.weights[k] * np.outer(*shares)
        style: Any = {"edgecolors": "#FFFFFF", "linewidths": 0.5, "zorder": 2}
        ax.scatter(across, up, s=area, color=color, **style)

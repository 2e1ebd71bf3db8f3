"""Rows and components over pairs of features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.displays.style import (
    FEW_COMPONENTS,
    component_styles,
    drawable,
    mixture_of,
    names_of,
    need_matplotlib,
)
from momentmix.mixture.gaussian import center_and_scale
from momentmix.mixture.mixture import DiagonalMixture, Mixture
from momentmix.rows.names import feature_number
from momentmix.rows.validation import rows_for

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
        model : MomentGaussianMixture, FitResult or Mixture
        rows : array or data frame of shape (n_rows, n_features), optional
            Shown as points in the color of their component, at most 5,000.
        features : sequence of int or str, optional
            Features to show; by default the six that separate the components best, or four if
            there are more than eight components.
        """
        need_matplotlib()
        mixture = drawable(mixture_of(model))
        names = names_of(mixture)
        if features is None:
            few = mixture.n_components <= FEW_COMPONENTS
            chosen = _separating(mixture, _MOST_FEATURES if few else _MOST_FEATURES_CROWDED)
        else:
            chosen = [int(feature_number(f, mixture.feature_names or names)) for f in features]
        points = labels = None
        if rows is not None:
            table = rows_for(rows, mixture.feature_names).astype(np.float64, copy=False)
            table = table[:: max(1, -(-len(table) // MOST_POINTS))]
            labels = mixture.predict(table)
            points = table[:, chosen]
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
            low = (m.means[:, j] - 2.2 * deviations[:, j]).min()
            high = (m.means[:, j] + 2.2 * deviations[:, j]).max()
            if high - low <= 1e-12 * abs(high):  # a constant feature
                pad = max(0.5, 1e-6 * abs(high))
                low, high = low - pad, high + pad
            getattr(ax, f"set_{axis}lim")(low, high)

    def _density(self, ax: Any) -> None:
        m = self.mixture
        deviations = np.sqrt(m.variances[:, 0])
        grid = np.linspace(
            (m.means[:, 0] - 4 * deviations).min(), (m.means[:, 0] + 4 * deviations).max(), 500
        )
        if self.rows is not None:
            ax.hist(self.rows[:, 0], bins=60, density=True, color="0.85")
        ax.plot(grid, np.exp(m.log_prob(grid[:, None])), color="black", label="mixture")
        for k, (color, dash) in enumerate(component_styles(m.n_components)):
            alone = DiagonalMixture(np.ones(1), m.means[[k]], m.variances[[k]])
            height = m.weights[k] * np.exp(alone.log_prob(grid[:, None]))
            ax.plot(grid, height, dash, color=color, label=str(k))
        ax.set(xlabel=self.names[0], ylabel="density")
        ax.legend(fontsize="small")


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
    """Features whose means differ most, relative to the spread within components."""
    if mixture.n_features <= most:
        return list(range(mixture.n_features))
    center, scale = center_and_scale(mixture)
    between = mixture.weights @ ((mixture.means - center) / scale) ** 2
    within = mixture.weights @ (np.sqrt(mixture.variances) / scale) ** 2
    ratio = between / np.maximum(within, np.finfo(float).tiny)
    return sorted(np.argsort(-ratio, kind="stable")[:most].tolist())

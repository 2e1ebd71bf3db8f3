"""Means of the components over the features."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import (
    FEW_COMPONENTS,
    component_styles,
    drawable,
    error_bars,
    intervals_of,
    mixture_of,
    names_of,
    need_matplotlib,
    new_axes,
)
from momentmix.errors import InputError
from momentmix.mixture.gaussian import center_and_scale
from momentmix.mixture.mixture import Mixture


@dataclass
class MeansDisplay:
    """Means of the components over the features.

    Parallel coordinates with 95 % intervals for up to eight components, a heat map for more. In the
    heat map, means whose interval contains the overall mean are crossed out.
    """

    mixture: Mixture
    names: list[str]
    low: Float | None = None
    high: Float | None = None
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(cls, model: Any, *, kind: str = "auto", ax: Any = None) -> MeansDisplay:
        """Draw the means of a model, as deviations from the overall mean in overall deviations.

        Parameters
        ----------
        model : MomentGaussianMixture, FitResult or Mixture
        kind : {"auto", "lines", "heat map"}
        ax : matplotlib axes, optional
        """
        need_matplotlib()
        if kind not in ("auto", "lines", "heat map"):
            raise InputError(f'kind must be "auto", "lines" or "heat map"; got {kind!r}.')
        mixture = drawable(mixture_of(model))
        intervals = intervals_of(model)
        low, high = (None, None) if intervals is None else intervals.means
        return cls(mixture, names_of(mixture), low, high).plot(kind, ax)

    def plot(self, kind: str = "lines", ax: Any = None) -> MeansDisplay:
        """Draw; `kind` as for `from_estimator`."""
        m = self.mixture
        if kind == "auto":
            kind = "lines" if m.n_components <= FEW_COMPONENTS else "heat map"
        width = max(5.0, 0.55 * m.n_features + 2)
        height = 4.5 if kind == "lines" else max(3.0, 0.32 * m.n_components + 1.5)
        self.ax_ = ax = new_axes(ax, (width, height))
        self.figure_ = ax.figure
        center, spread = center_and_scale(m)
        means = (m.means - center) / spread
        ends = None
        if self.low is not None and self.high is not None:
            ends = (self.low - center) / spread, (self.high - center) / spread
        (self._lines if kind == "lines" else self._heat_map)(ax, means, ends)
        ax.set_xticks(range(m.n_features), self.names, rotation=45, ha="right")
        return self

    def _lines(self, ax: Any, means: Float, ends: Any) -> None:
        r, d = means.shape
        for k, (color, dash) in enumerate(component_styles(r)):
            x = np.arange(d) + 0.3 * ((k + 0.5) / r - 0.5)  # side by side, so that bars are visible
            bars = error_bars(means[k], None if ends is None else (ends[0][k], ends[1][k]))
            label = f"{k} ({self.mixture.weights[k]:.1%})"
            ax.errorbar(
                x, means[k], bars, color=color, linestyle=dash, marker="o", markersize=4,
                capsize=2, label=label,
            )  # fmt: skip
        ax.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        ax.set_ylabel("mean, in overall deviations")
        ax.legend(title="component", fontsize="small", bbox_to_anchor=(1.01, 1), loc="upper left")

    def _heat_map(self, ax: Any, means: Float, ends: Any) -> None:
        r = len(means)
        largest = float(np.abs(means).max()) or 1.0
        image = ax.imshow(means, cmap="PuOr_r", vmin=-largest, vmax=largest, aspect="auto")
        if ends is not None:
            contains_zero = (ends[0] < 0) & (ends[1] > 0)
            for k, j in np.argwhere(contains_zero):
                ax.plot([j - 0.4, j + 0.4], [k + 0.4, k - 0.4], color="0.4", linewidth=0.8)
            note = "(crossed out: 95 % interval contains the overall mean)"
            ax.set_title(note, fontsize="small")
        labels = [f"{k}  {w:.1%}" for k, w in enumerate(self.mixture.weights)]
        ax.set_yticks(range(r), labels)
        ax.set_ylabel("component and weight")
        ax.figure.colorbar(image, ax=ax, label="mean, in overall deviations")

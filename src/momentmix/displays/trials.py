"""What n_components="auto" tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentmix.displays.style import GRAY, LARGEST_DRAWN, legend_below, need_matplotlib, new_axes
from momentmix.errors import InputError
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.outcome import FitFacts, Trial
from momentmix.html.palette import COLORS

_LEAST_DRAWN = 1e-16  # p-values below are drawn at it; a logarithmic axis has no 0


@dataclass
class TrialsDisplay:
    """BIC and p-value of each number of components that "auto" tried; the chosen one is marked.

    Unlike `ChoiceDisplay`, it makes no fits: it shows ``tried`` of a result.
    """

    tried: Sequence[Trial]
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> TrialsDisplay:
        """Draw what a fit with n_components="auto" tried.

        Parameters
        ----------
        model : MomentGaussianMixture, FitResult or FitRecord
        ax : matplotlib axes, optional
        """
        need_matplotlib()
        result = model if isinstance(model, FitFacts) else getattr(model, "result_", None)
        if not isinstance(result, FitFacts) or not result.tried:
            raise InputError(
                'there is nothing to draw: only a fit with n_components="auto" tries several '
                "numbers of components."
            )
        return cls(result.tried).plot(ax)

    def plot(self, ax: Any = None) -> TrialsDisplay:
        """Draw."""
        from matplotlib.ticker import MaxNLocator

        self.ax_ = ax = new_axes(ax, (6.0, 4.0))
        self.figure_ = ax.figure
        numbers = np.array([t.n_components for t in self.tried], dtype=np.float64)
        bic = np.array([t.bic for t in self.tried])
        bic[~(np.abs(bic) <= LARGEST_DRAWN)] = np.nan
        p_values = np.array([t.p_value for t in self.tried])
        for number in numbers[[t.chosen for t in self.tried]]:
            ax.axvline(number, color=GRAY, alpha=0.35, linewidth=8, zorder=0, label="chosen")
        handles, labels = ax.get_legend_handles_labels()
        curves = []
        if np.isfinite(bic).any():
            curves.append((ax, bic, "s-", COLORS[0], "BIC, lower is better"))
        if np.isfinite(p_values).any():
            right = ax.twinx() if curves else ax
            right.set_yscale("log")
            right.axhline(LEAST_P_VALUE, color=COLORS[1], linestyle=":", linewidth=1)
            least = np.maximum(p_values, _LEAST_DRAWN)
            curves.append((right, least, "o--", COLORS[1], "p-value (dotted: 0.01)"))
        for axes, values, style, color, label in curves:
            handles += axes.plot(numbers, values, style, color=color, markersize=5, linewidth=1)
            labels.append(label)
            axes.set_ylabel(label, color=color)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("number of components")
        ax.set_title("Numbers of components that were tried")
        if handles:
            legend_below(ax, handles, labels)
        return self

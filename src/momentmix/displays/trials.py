"""The numbers of components that n_components="auto" tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix.displays.style import GRAY, LARGEST_DRAWN, SMALL, Display, need_matplotlib
from momentmix.errors import InputError
from momentmix.fitting.inference.certificate import LEAST_REPRODUCIBILITY
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.outcome import Trial
from momentmix.fitting.result import FitResult
from momentmix.html.palette import COLORS

_LEAST_DRAWN = 1e-16  # p-values below are drawn at it; a logarithmic axis has no 0


@dataclass
class TrialsDisplay(Display):
    """Numbers of components that "auto" tried: BIC and least reproducibility; the chosen is marked.

    Where the reproducibility is unknown, as without rows, the p-value stands in its place.
    """

    tried: Sequence[Trial]

    @classmethod
    def from_estimator(cls, model: Any, *, ax: Any = None) -> TrialsDisplay:
        """Draw the trials of a fit with n_components="auto".

        Parameters
        ----------
        model : MomentGaussianMixture, FitResult
        ax : matplotlib axes, optional
        """
        need_matplotlib()
        result = model if isinstance(model, FitResult) else getattr(model, "result_", None)
        if not isinstance(result, FitResult) or not result.tried:
            raise InputError(
                'there is nothing to draw: only a fit with n_components="auto" tries several '
                "numbers of components."
            )
        return cls(result.tried).plot(ax)

    def plot(self, ax: Any = None) -> TrialsDisplay:
        """Draw."""
        from matplotlib.ticker import MaxNLocator

        ax = self._on(ax, (6.0, 4.0))
        ax.set(xlabel="number of components", title="Numbers of components that were tried")
        numbers = [float(t.n_components) for t in self.tried]
        chosen = [t.n_components for t in self.tried if t.chosen]
        for number in chosen:
            ax.axvline(number, color=GRAY, alpha=0.35, linewidth=8, zorder=0, label="chosen")
        bic = np.array([t.bic for t in self.tried])
        bic[~(np.abs(bic) <= LARGEST_DRAWN)] = np.nan
        other = np.array([t.least_reproducibility for t in self.tried])
        limit, name = LEAST_REPRODUCIBILITY, "least reproducibility"
        if is_p := not np.isfinite(other).any():
            other = np.maximum([t.p_value for t in self.tried], _LEAST_DRAWN)
            limit, name = LEAST_P_VALUE, "p-value"
        handles = ax.get_legend_handles_labels()[0][:1]
        styles: dict[str, Any] = {"markersize": 5, "linewidth": 1}
        if np.isfinite(bic).any():
            ax.set_ylabel("BIC, lower is better", color=COLORS[0])
            handles += ax.plot(numbers, bic, "s-", color=COLORS[0], label=ax.get_ylabel(), **styles)
        if np.isfinite(other).any():
            right = ax.twinx() if np.isfinite(bic).any() else ax
            right.set_ylabel(f"{name} (dotted: {limit:g})", color=COLORS[1])
            right.axhline(limit, color=COLORS[1], linestyle=":", linewidth=1)
            styles |= {"color": COLORS[1], "label": right.get_ylabel()}
            handles += right.plot(numbers, other, "o--", **styles)
            right.set(yscale="log") if is_p else right.set(ylim=(-0.02, 1.02))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": len(handles)}
        ax.legend(handles=handles, **place, **SMALL)
        return self

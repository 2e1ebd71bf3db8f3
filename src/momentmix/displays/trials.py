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
from momentmix.fitting.outcome import FitFacts, Trial
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

        ax = self._on(ax, (6.0, 4.0))
        for t in self.tried:
            if t.chosen:
                ax.axvline(
                    t.n_components, color=GRAY, alpha=0.35, linewidth=8, zorder=0, label="chosen"
                )
        ax.set(xlabel="number of components", title="Numbers of components that were tried")
        numbers = [float(t.n_components) for t in self.tried]
        bic = np.array([t.bic for t in self.tried])
        bic[~(np.abs(bic) <= LARGEST_DRAWN)] = np.nan
        p_values = np.maximum([t.p_value for t in self.tried], _LEAST_DRAWN)
        again = np.array([t.least_reproducibility for t in self.tried])
        other, limit, name = p_values, LEAST_P_VALUE, "p-value"
        if np.isfinite(again).any():
            other, limit, name = again, LEAST_REPRODUCIBILITY, "least reproducibility"
        axes, lines = ax, list[Any]()
        for values, style, color, label in (
            (bic, "s-", COLORS[0], "BIC, lower is better"),
            (other, "o--", COLORS[1], f"{name} (dotted: {limit:g})"),
        ):
            if not np.isfinite(values).any():
                continue
            axes = ax.twinx() if lines else ax
            if values is other:
                axes.axhline(limit, color=color, linestyle=":", linewidth=1)
            if values is p_values:
                axes.set_yscale("log")
            if values is again:
                axes.set_ylim(-0.02, 1.02)
            axes.set_ylabel(label, color=color)
            lines += axes.plot(
                numbers, values, style, color=color, markersize=5, linewidth=1, label=label
            )
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        handles = list(dict.fromkeys([*ax.get_legend_handles_labels()[0], *lines]))
        columns = len(handles) if len(handles) <= 3 else 2
        place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": columns}
        ax.legend(handles=handles, **place, **SMALL)
        return self

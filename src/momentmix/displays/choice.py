"""The number of components: misfits of several fits, and the trials of n_components="auto"."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import GRAY, LARGEST_DRAWN, SMALL, Display, need_matplotlib
from momentmix.errors import CapacityError, InputError
from momentmix.fitting.api import fit
from momentmix.fitting.inference.certificate import LEAST_REPRODUCIBILITY, Verdict
from momentmix.fitting.inference.over_identification import LEAST_P_VALUE
from momentmix.fitting.outcome import FitFacts, Trial
from momentmix.fitting.result import FitResult
from momentmix.html.palette import COLORS
from momentmix.progress import counting

_MARKERS: dict[Verdict, tuple[str, str]] = {
    "passed": ("o", COLORS[0]),
    "useful": ("P", COLORS[4]),
    "not passed": ("X", COLORS[1]),
    "untested": ("d", COLORS[3]),
}
_LOWEST = -3e-4  # end of the axis of effect sizes, so that a marker at 0 is seen whole
_LEAST_DRAWN = 1e-16  # p-values below are drawn at it; a logarithmic axis has no 0
_MORE = 3  # numbers of components beyond the chosen one that are tried by default


def _start(display: Display, ax: Any, chosen: Iterable[float], title: str) -> Any:
    """Return axes over the number of components, with a bar at the chosen numbers."""
    ax = display._on(ax, (6.0, 4.0))
    for number in chosen:
        ax.axvline(number, color=GRAY, alpha=0.35, linewidth=8, zorder=0, label="chosen")
    ax.set(xlabel="number of components", title=title)
    return ax


def _finish(ax: Any, lines: Sequence[Any]) -> None:
    """Put a legend below the axes: of what is drawn on them, and of lines on other axes."""
    handles = list(dict.fromkeys([*ax.get_legend_handles_labels()[0], *lines]))
    if handles:
        columns = len(handles) if len(handles) <= 3 else 2
        place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": columns}
        ax.legend(handles=handles, **place, **SMALL)


@dataclass
class ChoiceDisplay(Display):
    """Certificates over the number of components: the curve to choose the number by.

    A bar marks the number that was `chosen`, where one is given.
    """

    n_components: list[int]
    effect_sizes: Float
    verdicts: list[Verdict]
    scores: Float
    chosen: int | None = None

    @classmethod
    def from_data(
        cls,
        data: Any,
        n_components: Iterable[int] | None = None,
        *,
        chosen: int | None = None,
        ax: Any = None,
        **options: Any,
    ) -> ChoiceDisplay:
        """Fit each number of components to rows or a summary, and draw the misfits.

        Parameters
        ----------
        data : rows or MomentSummary
        n_components : iterable of int, optional
            By default 1 to 8, or to three more than `chosen`, as far as the moments tell
            components apart.
        chosen : int, optional
            The number of components to mark.
        ax : matplotlib axes, optional
        **options
            As for `fit`.
        """
        need_matplotlib()
        numbers = range(1, 9 if chosen is None else chosen + _MORE + 1)
        wanted, results = list(numbers if n_components is None else n_components), []
        with counting("Fits", len(wanted), "fits") as count:
            for number in wanted:
                try:
                    results.append(fit(data, number, **options))
                except CapacityError:
                    if n_components is not None or not results:
                        raise
                    break
                count(1)
        return cls.from_results(results, ax=ax, chosen=chosen)

    @classmethod
    def from_results(
        cls, results: Sequence[FitResult], *, ax: Any = None, chosen: int | None = None
    ) -> ChoiceDisplay:
        """Draw the misfits of existing fits, and mark the number of components that was chosen."""
        need_matplotlib()
        if not results:
            raise InputError("at least one fit is needed.")
        ordered = sorted(results, key=lambda result: result.mixture.n_components)
        scores = [np.nan if x.log_likelihood is None else x.log_likelihood for x in ordered]
        return cls(
            [x.mixture.n_components for x in ordered],
            np.array([x.certificate.effect_size for x in ordered]),
            [x.certificate.verdict for x in ordered],
            np.array(scores),
            chosen,
        ).plot(ax)

    @property
    def passed(self) -> list[bool]:
        """Whether each certificate passed."""
        return [verdict == "passed" for verdict in self.verdicts]

    def plot(self, ax: Any = None) -> ChoiceDisplay:
        """Draw."""
        chosen = [] if self.chosen is None else [self.chosen]
        ax = _start(self, ax, chosen, "Misfit by number of components")
        numbers, lines = np.array(self.n_components), list[Any]()
        ax.plot(numbers, self.effect_sizes, color=GRAY, zorder=1)
        heights = np.nan_to_num(self.effect_sizes, nan=_LOWEST)  # nothing to test: on the axis
        for verdict, (marker, color) in _MARKERS.items():
            own = np.array(self.verdicts) == verdict
            if own.any():
                ax.scatter(
                    numbers[own], heights[own], marker=marker, color=color, s=45,
                    label=f"certificate {verdict}", zorder=2, clip_on=False,
                )  # fmt: skip
        ax.set_yscale("symlog", linthresh=1e-3)  # it is zero where chance explains the misfit
        ax.set_ylim(_LOWEST, max(1e-3, ax.get_ylim()[1]))
        ax.set_xticks(numbers)
        ax.set_ylabel("misfit of the moments (effect size)")
        if np.isfinite(self.scores).any():
            other, style = ax.twinx(), {"color": COLORS[2], "markersize": 4, "linewidth": 1}
            lines = other.plot(numbers, self.scores, "s--", label="log-likelihood", **style)
            other.set_ylabel("log-likelihood per row", color=COLORS[2])
        _finish(ax, lines)
        return self


@dataclass
class TrialsDisplay(Display):
    """Numbers of components that "auto" tried: BIC and least reproducibility; the chosen is marked.

    Where the reproducibility is unknown, as without rows, the p-value stands in its place. Unlike
    `ChoiceDisplay`, it makes no fits: it shows ``tried`` of a result.
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

        chosen = [float(t.n_components) for t in self.tried if t.chosen]
        ax = _start(self, ax, chosen, "Numbers of components that were tried")
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
        _finish(ax, lines)
        return self

"""Misfit of the moments over the number of components."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import GRAY, legend_below, need_matplotlib, new_axes
from momentmix.errors import InputError
from momentmix.fitting.api import fit
from momentmix.fitting.inference.certificate import Verdict
from momentmix.fitting.result import FitResult
from momentmix.html.palette import COLORS
from momentmix.progress import counting

_MARKERS: tuple[tuple[Verdict, str, str], ...] = (
    ("passed", "o", COLORS[0]),
    ("not passed", "X", COLORS[1]),
    ("untested", "d", COLORS[3]),
)
_LOWEST = -3e-4  # end of the axis of effect sizes, so that a marker at 0 is seen whole


@dataclass
class ChoiceDisplay:
    """Certificates over the number of components: the curve to choose the number by.

    A bar marks the number that was `chosen`, where one is given.
    """

    n_components: list[int]
    effect_sizes: Float
    verdicts: list[Verdict]
    scores: Float
    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)
    chosen: int | None = None

    @classmethod
    def from_data(
        cls, data: Any, n_components: Iterable[int] = range(1, 9), *, ax: Any = None, **options: Any
    ) -> ChoiceDisplay:
        """Fit each number of components to rows or a summary, and draw the misfits.

        Parameters
        ----------
        data : rows or MomentSummary
        n_components : iterable of int
        ax : matplotlib axes, optional
        **options
            As for `fit`.
        """
        need_matplotlib()
        numbers, results = list(n_components), []
        with counting("Fits", len(numbers), "fits") as count:
            for number in numbers:
                results.append(fit(data, number, **options))
                count(1)
        return cls.from_results(results, ax=ax)

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
            chosen=chosen,
        ).plot(ax)

    @property
    def passed(self) -> list[bool]:
        """Whether each certificate passed."""
        return [verdict == "passed" for verdict in self.verdicts]

    def plot(self, ax: Any = None) -> ChoiceDisplay:
        """Draw."""
        self.ax_ = ax = new_axes(ax, (6.0, 4.0))
        self.figure_ = ax.figure
        numbers, verdicts = np.array(self.n_components), np.array(self.verdicts)
        if self.chosen is not None:
            ax.axvline(self.chosen, color=GRAY, alpha=0.35, linewidth=8, zorder=0, label="chosen")
        ax.plot(numbers, self.effect_sizes, color=GRAY, zorder=1)
        heights = np.nan_to_num(self.effect_sizes, nan=_LOWEST)  # nothing to test: on the axis
        for verdict, marker, color in _MARKERS:
            chosen = verdicts == verdict
            if chosen.any():
                ax.scatter(
                    numbers[chosen], heights[chosen], marker=marker, color=color, s=45,
                    label=f"certificate {verdict}", zorder=2, clip_on=False,
                )  # fmt: skip
        ax.set_yscale("symlog", linthresh=1e-3)  # it is zero where chance explains the misfit
        ax.set_ylim(_LOWEST, max(1e-3, ax.get_ylim()[1]))
        ax.set_xticks(numbers)
        ax.set(xlabel="number of components", ylabel="misfit of the moments (effect size)")
        handles, labels = ax.get_legend_handles_labels()
        if np.isfinite(self.scores).any():
            other = ax.twinx()
            line = other.plot(
                numbers, self.scores, "s--", color=COLORS[2], markersize=4, linewidth=1
            )
            other.set_ylabel("log-likelihood per row", color=COLORS[2])
            handles, labels = [*handles, *line], [*labels, "log-likelihood"]
        ax.set_title("Misfit by number of components")
        legend_below(ax, handles, labels)
        return self

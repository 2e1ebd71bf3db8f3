"""Moments of the rows against moments of the mixture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.displays.pairs import point_style
from momentmix.displays.rows import matching_summary, summary_of_rows
from momentmix.displays.style import (
    GRAY,
    LARGEST_DRAWN,
    TURNED,
    Display,
    component_marker,
    drawable,
    mixture_of,
)
from momentmix.errors import InputError, InputTypeError
from momentmix.findings.messages import FITTED_TO, Message
from momentmix.fitting.result import FitResult
from momentmix.html.palette import component_color
from momentmix.index_sets import index_sets, sets_without
from momentmix.mixture.gaussian import product_moments
from momentmix.mixture.mixture import Mixture
from momentmix.summary.summary import MomentSummary

SIZE = (11.0, 4.5)  # inches


@dataclass
class MomentResidualsDisplay(Display):
    """Moments of the rows against moments of the mixture, standardized, colored by order.

    Left: moments on the diagonal agree. Right: the differences, order by order; "squared" marks
    moments in which one feature occurs twice.
    """

    observed: dict[str, Float]
    fitted: dict[str, Float]

    @classmethod
    def from_estimator(
        cls, model: Any, summary: MomentSummary | None = None, *, rows: Any = None
    ) -> MomentResidualsDisplay:
        """Draw the moments of a summary or of rows, order by order.

        Parameters
        ----------
        model : estimator, FitResult or Mixture
        summary : MomentSummary, optional
            By default the estimator's ``summary_``, or that of the rows of a result.
        rows : array, data frame, path, list of paths, or source; optional
            Rows in place of a summary: a pass over them gives moments up to order 4. Rows with a
            missing cell in a column that had none in the fit are left out.
        """
        mixture = drawable(mixture_of(model))
        if rows is not None:
            if summary is not None:
                raise InputError("residuals are of a summary or of rows; pass one of them.")
            summary = summary_of_rows(mixture, rows)
        if summary is None:
            name = "summary" if isinstance(model, FitResult) else "summary_"
            summary = getattr(model, name, None)
        if not isinstance(summary, MomentSummary):
            raise InputTypeError(
                "residuals of moments need a MomentSummary or rows; pass summary= or rows=."
            )
        summary = matching_summary(mixture, summary.copy())  # other threads may add rows meanwhile
        return cls(*moments_of_both(mixture, summary)).plot()

    def plot(self, figure: Any = None) -> MomentResidualsDisplay:
        """Draw, on a new figure by default."""
        if figure is None:
            from matplotlib import pyplot

            figure = pyplot.figure(figsize=SIZE, layout="constrained")
        self.figure_, self.axes_ = figure, figure.subplots(1, 2)
        left, right = self.axes_
        rng = np.random.default_rng(0)
        names = list(self.observed)
        size, alpha = point_style(sum(map(len, self.observed.values())))
        for i, name in enumerate(names):
            style: dict[str, Any] = {"s": max(8.0, 1.8 * size), "alpha": max(0.5, alpha)}
            style |= {"marker": component_marker(i), "color": component_color(i)}
            style |= {"linewidths": 0, "rasterized": len(self.fitted[name]) > 2000}
            style["zorder"] = 2 + len(names) - i  # the few moments of low orders on top
            left.scatter(self.fitted[name], self.observed[name], **style)
            difference = self.observed[name] - self.fitted[name]
            right.scatter(i + rng.uniform(-0.3, 0.3, difference.size), difference, **style)
        ends = np.concatenate([*self.observed.values(), *self.fitted.values()])
        limits = [float(ends.min()), float(ends.max())]
        left.plot(limits, limits, color=GRAY, linewidth=1, zorder=1, label="line: they agree")
        left.set(xlabel="moment of the fitted mixture", ylabel="moment of the rows")
        left.set_title("Each point is one moment", fontsize="medium")
        left.legend(fontsize="small", frameon=False)
        right.axhline(0, color=GRAY, linewidth=1, zorder=1)
        right.set_xticks(range(len(names)), names, **TURNED | {"rotation": 30})
        right.set_ylabel("rows − fitted, standardized features")
        right.set_title("Differences, order by order; 0: they agree", fontsize="medium")
        self.figure_.suptitle("Moments of the rows and of the fitted mixture")
        return self


@np.errstate(over="ignore", invalid="ignore")
def moments_of_both(
    mixture: Mixture, summary: MomentSummary
) -> tuple[dict[str, Float], dict[str, Float]]:
    """Return moments of the rows and of the mixture, in features standardized by the rows."""
    shift = summary.mean
    scale = np.where(summary.deviation > 0, summary.deviation, 1.0)
    scaled, d = mixture.parameters.standardized(shift, scale), summary.n_features
    column_of = None if mixture.schema is None else np.array(mixture.schema.column_of)
    observed, fitted = {}, {}

    def compare(name: str, values: Float, sets: Int) -> None:
        if column_of is not None:
            # Products of levels, and of a value with ``seen``, are known without a mixture.
            same = column_of[sets][:, :, None] == column_of[sets][:, None, :]
            known = (same & (sets[:, :, None] != sets[:, None, :])).any(axis=(1, 2))
            values, sets = values[~known], sets[~known]
        if len(sets):
            observed[name], fitted[name] = values, product_moments(scaled, sets)

    for order in range(1, summary.order + 1):
        moments = summary.tensor(order, shift, scale).values
        compare(f"order {order}", moments, index_sets(d, order))
    for order in range(min(summary.squared_order, d - 1) + 1):
        moments = np.concatenate([summary.squared(j, order, shift, scale) for j in range(d)])
        sets = [np.insert(sets_without(d, order, j), 0, [[j], [j]], axis=1) for j in range(d)]
        compare(f"order {order + 2}, squared", moments, np.concatenate(sets))
    largest = np.abs(np.concatenate([*fitted.values()])).max()
    if not largest <= LARGEST_DRAWN:
        text = (
            f"moments of the mixture reach {largest:.3g} deviations of the summary's features; "
            f"pictures show numbers up to {LARGEST_DRAWN:.0e}. "
        )
        raise InputError(Message(text, FITTED_TO))
    return observed, fitted

"""Moments of the rows against moments of the mixture."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float, Int
from momentmix.displays.data import summary_of_rows
from momentmix.displays.pair_panels import point_style
from momentmix.displays.style import (
    GRAY,
    LARGEST_DRAWN,
    column_names_of,
    drawable,
    in_order_of,
    mixture_of,
    need_matplotlib,
)
from momentmix.errors import InputError, InputTypeError
from momentmix.fitting.result import FitResult
from momentmix.html.palette import COLORS
from momentmix.index_sets import index_sets, sets_without
from momentmix.mixture.gaussian import product_moments
from momentmix.mixture.mixture import Mixture
from momentmix.summary.exact.schemas import in_schema
from momentmix.summary.summary import MomentSummary
from momentmix.tables.names import match_names
from momentmix.tables.schema import Schema, joined, plain_schema

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")


@dataclass
class MomentResidualsDisplay:
    """Moments of the rows against those of the mixture, standardized, colored by order.

    Left: moments on the diagonal agree. Right: the differences, order by order; "squared" marks
    moments in which one feature occurs twice.
    """

    observed: dict[str, Float]
    fitted: dict[str, Float]
    axes_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)

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
            cell that is missing where the mixture knows of none are left out.
        """
        need_matplotlib()
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
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(*_moments_of_both(mixture, summary)).plot()

    def plot(self) -> MomentResidualsDisplay:
        """Draw."""
        from matplotlib import pyplot

        self.figure_, self.axes_ = pyplot.subplots(1, 2, figsize=(11.0, 4.5), layout="constrained")
        left, right = self.axes_
        rng = np.random.default_rng(0)
        names = list(self.observed)
        size, alpha = point_style(sum(map(len, self.observed.values())))
        for i, name in enumerate(names):
            style = {
                "s": max(8.0, 1.8 * size),
                "marker": _MARKERS[i % len(_MARKERS)],
                "color": COLORS[i % len(COLORS)],
                "alpha": max(0.5, alpha),
                "linewidths": 0,
                "rasterized": len(self.fitted[name]) > 2000,
                "zorder": 2 + len(names) - i,  # the few moments of low orders on top
            }
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
        turned = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"}
        right.set_xticks(range(len(names)), names, **turned)
        right.set_ylabel("rows − fitted, standardized features")
        right.set_title("Differences, order by order; 0: they agree", fontsize="medium")
        self.figure_.suptitle("Moments of the rows and of the fitted mixture")
        return self


def matching_summary(mixture: Mixture, summary: MomentSummary) -> MomentSummary:
    """The summary with its columns in the mixture's order; raise where it has other ones.

    Missing cells are those of the mixture's schema: columns without any get the feature ``seen``,
    and sums are taken about its centers, exactly.
    """
    schema = mixture.schema
    if schema is not None:
        summary = _in_schema(in_order_of(mixture, summary), schema)
    n_features = mixture.n_features if schema is None else schema.n_features
    if summary.n_features != n_features:
        raise InputError(
            f"the mixture has {n_features} features, the summary "
            f"{summary.n_features}. Use the summary that it was fitted to."
        )
    summary = in_order_of(mixture, summary)
    names = column_names_of(summary)
    if mixture.feature_names is not None and names is not None:
        match_names(mixture.feature_names, names, "the mixture")
    # Families may have been given to the fit of a summary of numbers, one feature for each column.
    of_numbers = schema is not None and summary.schema is None and n_features == schema.n_columns
    of_numbers = of_numbers and not any(column.transform for column in mixture.columns)
    if summary.schema != schema and not of_numbers:
        raise InputError(
            "the columns of the summary have other families or levels than the mixture, other "
            "transforms or other missing cells. Use the summary that it was fitted to."
        )
    return summary


def _in_schema(summary: MomentSummary, schema: Schema) -> MomentSummary:
    """The summary in the schema of a mixture; as it is where the rows do not have that schema."""
    own = summary.schema or plain_schema(summary.n_features, summary.feature_names)
    if own == schema or own.n_columns != schema.n_columns:
        return summary
    try:
        common = joined(own, schema)
    except InputError:
        return summary
    pairs = zip(common.columns, schema.columns, strict=True)
    if any(column.has_missing and not known.has_missing for column, known in pairs):
        return summary  # missing cells that the mixture knows nothing of
    totals = in_schema(summary._totals(), schema)
    return summary._derived(totals, schema.column_names)


def _moments_of_both(
    mixture: Mixture, summary: MomentSummary
) -> tuple[dict[str, Float], dict[str, Float]]:
    """Moments of the rows and of the mixture, in features standardized by the rows."""
    shift = summary.mean
    scale = np.where(summary.deviation > 0, summary.deviation, 1.0)
    scaled, d = mixture.parameters.standardized(shift, scale), summary.n_features
    column_of = None if mixture.schema is None else np.array(mixture.schema.column_of)
    observed, fitted = {}, {}

    def compare(name: str, values: Float, sets: Int) -> None:
        kept = _of_different_columns(sets, column_of)
        if kept.any():
            observed[name] = values[kept]
            fitted[name] = product_moments(scaled, sets[kept])

    for order in range(1, summary.order + 1):
        moments = summary.tensor(order, shift, scale).values
        compare(f"order {order}", moments, index_sets(d, order))
    for order in range(min(summary.squared_order, d - 1) + 1):
        moments = np.concatenate([summary.squared(j, order, shift, scale) for j in range(d)])
        sets = [np.insert(sets_without(d, order, j), 0, [[j], [j]], axis=1) for j in range(d)]
        compare(f"order {order + 2}, squared", moments, np.concatenate(sets))
    largest = np.abs(np.concatenate([*fitted.values()])).max()
    if not largest <= LARGEST_DRAWN:
        raise InputError(
            f"moments of the mixture reach {largest:.3g} deviations of the summary's features; "
            f"pictures show numbers up to {LARGEST_DRAWN:.0e}. Use the summary that it was "
            "fitted to."
        )
    return observed, fitted


def _of_different_columns(sets: Int, column_of: Int | None) -> NDArray[np.bool_]:
    """Which sets have no two different features of one column of a table.

    Products of levels, and of a value with ``seen``, are known without a mixture.
    """
    if column_of is None:
        return np.ones(len(sets), dtype=bool)
    columns = column_of[sets]
    same = columns[:, :, None] == columns[:, None, :]
    different = sets[:, :, None] != sets[:, None, :]
    return np.asarray(~(same & different).any(axis=(1, 2)))

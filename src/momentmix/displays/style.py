"""What all displays share: colors, numbers, names, axes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, InputTypeError, MissingDependencyError, printable
from momentmix.fitting.result import FitResult
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.summary.summary import MomentSummary

__all__ = [
    "COLORS",
    "LARGEST_DRAWN",
    "component_styles",
    "drawable",
    "error_bars",
    "in_order_of",
    "intervals_of",
    "mixture_of",
    "names_of",
    "need_matplotlib",
    "new_axes",
    "thinned",
]

Float = NDArray[np.float64]

# Okabe and Ito's palette without black and yellow, which vanish on dark and on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
LARGEST_DRAWN = 1e150  # squares of larger numbers overflow, in matplotlib as well
_DASHES = ("-", "--", ":", "-.")


def need_matplotlib() -> Any:
    """``matplotlib``, or an error that says how to get it."""
    try:
        import matplotlib
        import matplotlib.pyplot
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "pictures need matplotlib, which is not installed: pip install momentmix[plot]"
        ) from None
    return matplotlib


def component_styles(n_components: int) -> list[tuple[str, str]]:
    """A color and a kind of line for each component; pairs repeat after 24."""
    n = len(COLORS)
    return [(COLORS[i % n], _DASHES[i // n % len(_DASHES)]) for i in range(n_components)]


def thinned(blocks: Iterable[Float], most: int) -> Float:
    """At most so many rows of a stream, evenly spread over it."""
    kept: list[Float] = []
    step = 1
    count = n_kept = 0
    for block in blocks:
        first = -count % step
        part = block[first::step]
        count += len(block)
        kept.append(part)
        n_kept += len(part)
        while n_kept > 2 * most:
            kept = [np.concatenate(kept)[::2]]
            n_kept, step = len(kept[0]), 2 * step
    if not kept:
        raise InputError("there are no rows to show.")
    rows = np.concatenate(kept)
    return rows[:: -(-len(rows) // most)]


# -- what can be drawn ------------------------------------------------------------------------


def mixture_of(model: Any) -> DiagonalMixture:
    """The mixture of an estimator, a result or a mixture."""
    if isinstance(model, DiagonalMixture):
        return model
    found = model.mixture if isinstance(model, FitResult) else getattr(model, "mixture_", None)
    if not isinstance(found, DiagonalMixture):
        raise InputTypeError(
            "a display needs a fitted MomentGaussianMixture, a FitResult or a DiagonalMixture; "
            f"got {type(model).__name__}."
        )
    return found


def in_order_of(mixture: DiagonalMixture, summary: MomentSummary) -> MomentSummary:
    """The summary with its features in the mixture's order, where both have the same names."""
    known, given = mixture.feature_names, summary.feature_names
    if known is None or given is None or known == given or sorted(known) != sorted(given):
        return summary
    return summary.select(known)


def drawable(mixture: DiagonalMixture) -> DiagonalMixture:
    """The same mixture; raise where its numbers are beyond the axes of a picture."""
    extent = np.abs(mixture.means) + np.sqrt(mixture.variances)
    if extent.max() > LARGEST_DRAWN:
        i, j = np.argwhere(extent > LARGEST_DRAWN)[0]
        raise InputError(
            f"component {i} reaches {extent[i, j]:.3g} in feature {j}; pictures show numbers up to "
            f"{LARGEST_DRAWN:.0e}. Rescale the feature and fit again, or draw the others "
            "(DiagonalMixture.marginal)."
        )
    return mixture


def intervals_of(model: Any) -> Any:
    """95 % intervals where the model has them, else None."""
    result = model if isinstance(model, FitResult) else getattr(model, "result_", None)
    if isinstance(result, FitResult) and result.uncertainty is not None:
        return result.intervals()
    return None


def names_of(mixture: DiagonalMixture) -> list[str]:
    """Names of the features, short and safe to print."""
    if mixture.feature_names is None:
        return [f"feature {j}" for j in range(mixture.n_features)]
    return [_short(name) for name in mixture.feature_names]


def _short(name: str, most: int = 16) -> str:
    text = printable(name).replace("$", r"\$")
    return text if len(text) <= most else text[: most - 1] + "…"


def new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """The given axes, or new ones of this size."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def error_bars(values: Float, interval: Any) -> Float | None:
    """Lengths of error bars below and above, of shape (2, n), from an interval or nothing."""
    if interval is None:
        return None
    low, high = (np.asarray(x, dtype=np.float64) for x in interval)
    return np.stack([np.maximum(values - low, 0), np.maximum(high - values, 0)])

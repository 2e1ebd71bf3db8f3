"""Colors, names, axes and checks that all displays use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, MissingDependencyError, printable
from momentmix.fitting.result import FitResult
from momentmix.html.palette import COLORS, component_color
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import column_names
from momentmix.summary.summary import MomentSummary

LARGEST_DRAWN = 1e150  # squares of larger numbers overflow, in matplotlib as well
FEW_COMPONENTS = 8  # more ellipses or groups of bars in one picture are hard to tell apart
MOST_LINES = 3  # lines over all features; more of them cross too often to be followed
GRAY = "0.55"  # of what belongs to no component: visible on white and on dark pages
MOST_LETTERS = 24  # of a name at an axis
LETTER_WIDTH = 0.07  # of small letters, in inches, on average
_MOST_LETTERS_OF_COMPONENT = 36  # of the name of a component in a legend
_DASHES = ("-", "--", ":", "-.")


def need_matplotlib() -> Any:
    """Import matplotlib, or raise an error that says how to install it."""
    try:
        import matplotlib
        import matplotlib.pyplot
    except ModuleNotFoundError:
        raise MissingDependencyError(
            "pictures need matplotlib, which is not installed: pip install momentmix[plot]"
        ) from None
    return matplotlib


def component_styles(n_components: int) -> list[tuple[str, str]]:
    """A color and a line style for each component; they repeat after 48."""
    n = len(COLORS)
    return [(component_color(i), _DASHES[i // n % len(_DASHES)]) for i in range(n_components)]


def ink() -> Any:
    """Color of texts and of what belongs to all components."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def percent(share: float) -> str:
    """A share of rows: 25 %, or 0.4 % where it is small."""
    small = 0 < share < 0.0095
    return f"{100 * share:.1g} %" if small else f"{100 * share:.0f} %"


def component_labels(weights: Float, names: Sequence[str] = ()) -> list[str]:
    """Number, share and name of each component, for legends and axes."""
    labels = [f"{k}: {percent(weight)}" for k, weight in enumerate(weights)]
    if not names:
        return labels
    most = _MOST_LETTERS_OF_COMPONENT
    return [f"{x}, {short_name(name, most)}" for x, name in zip(labels, names, strict=True)]


def component_names(mixture: Mixture) -> list[str]:
    """Names of the components by what makes them different; none where there is one only."""
    return list(mixture.profile().names) if mixture.n_components > 1 else []


def component_handles(weights: Float, names: Sequence[str] = (), *, line: bool = True) -> list[Any]:
    """Entries of a legend, one for each component."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    pairs = zip(component_styles(len(weights)), component_labels(weights, names), strict=True)
    if not line:
        return [Patch(facecolor=color, label=label) for (color, _), label in pairs]
    styles: list[dict[str, Any]] = [
        {"color": color, "linestyle": dash, "label": label} for (color, dash), label in pairs
    ]
    return [Line2D([], [], linewidth=2, **style) for style in styles]


def entries_in_a_row(entries: Sequence[Any], width: float) -> int:
    """How many entries of a legend of small letters stand beside one another in so many inches."""
    longest = max(len(entry.get_label()) for entry in entries)
    return int(np.clip(width // (0.6 + LETTER_WIDTH * longest), 1, len(entries)))


def thinned(blocks: Iterable[Float], most: int) -> Float:
    """At most `most` rows of a stream, evenly spaced."""
    kept: list[Float] = []
    step = 1
    n_rows = n_kept = 0
    for block in blocks:
        chosen = block[-n_rows % step :: step]
        n_rows += len(block)
        kept.append(chosen)
        n_kept += len(chosen)
        while n_kept > 2 * most:
            kept = [np.concatenate(kept)[::2]]
            n_kept, step = len(kept[0]), 2 * step
    if not kept:
        raise InputError("there are no rows to show.")
    rows = np.concatenate(kept)
    return rows[:: -(-len(rows) // most)]


# -- models -----------------------------------------------------------------------------------


def mixture_of(model: Any) -> Mixture:
    """The mixture of an estimator, a result or a mixture."""
    if isinstance(model, Mixture):
        return model
    mixture = model.mixture if isinstance(model, FitResult) else getattr(model, "mixture_", None)
    if not isinstance(mixture, Mixture):
        raise InputTypeError(
            "a display needs a fitted estimator, a FitResult or a Mixture; "
            f"got {type(model).__name__}."
        )
    return mixture


def column_names_of(summary: MomentSummary) -> tuple[str, ...] | None:
    """Names of the columns that a summary was made of."""
    return summary.feature_names if summary.schema is None else summary.schema.column_names


def in_order_of(mixture: Mixture, summary: MomentSummary) -> MomentSummary:
    """The summary with its features in the mixture's order, where both have the same names."""
    names, others = mixture.feature_names, column_names_of(summary)
    if names is None or others is None or names == others or sorted(names) != sorted(others):
        return summary
    return summary.select(names)


def drawable(mixture: Mixture) -> Mixture:
    """The same mixture; raise if its numbers are too large for the axes of a picture."""
    extent = np.abs(mixture.means) + np.sqrt(mixture.variances)  # NaN: there is nothing to draw
    if (extent > LARGEST_DRAWN).any():
        i, j = np.argwhere(extent > LARGEST_DRAWN)[0]
        raise InputError(
            f"component {i} reaches {extent[i, j]:.3g} in feature {j}; pictures show numbers up to "
            f"{LARGEST_DRAWN:.0e}. Rescale the feature and fit again, or draw the others "
            "(Mixture.select)."
        )
    return mixture


def intervals_of(model: Any) -> Any:
    """95 % intervals if the model has them, else None."""
    result = model if isinstance(model, FitResult) else getattr(model, "result_", None)
    if isinstance(result, FitResult) and result.uncertainty is not None:
        return result.intervals()
    return None


def value_names_of(mixture: Mixture) -> list[str]:
    """Names of what means and spreads are of: ``log income`` where a column has a transform."""
    pairs = zip(mixture.columns, column_names(mixture), strict=True)
    return [column.value_name(name) for column, name in pairs]


def names_of(mixture: Mixture) -> list[str]:
    """`value_names_of`, shortened, with characters escaped that matplotlib would interpret."""
    return [short_name(name) for name in value_names_of(mixture)]


def axis_names_of(mixture: Mixture) -> list[str]:
    """Names for axes in the units of the data, shortened: ``income, log scale``."""
    pairs = zip(mixture.columns, column_names(mixture), strict=True)
    return [short_name(name) + (", log scale" if c.transform else "") for c, name in pairs]


def joined_columns(mixture: Mixture) -> list[str]:
    """Names of the columns of each block of several, in one text each."""
    names = value_names_of(mixture)
    joined = [block.columns for block in mixture.blocks if len(block.columns) > 1]
    return [", ".join(names[j] for j in columns) for columns in joined]


def strongest_pairs(mixture: Mixture, most: int) -> NDArray[np.int64]:
    """Places of at most `most` pairs of joined columns, the largest correlation first."""
    largest = np.abs(mixture.parameters.correlations).max(axis=0, initial=0.0)
    return np.argsort(-largest, kind="stable")[:most]


def short_name(name: str, most: int = MOST_LETTERS) -> str:
    """A name for the axes of a picture, of at most so many letters."""
    text = printable(name)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.replace("$", r"\$")


def new_axes(ax: Any, size: tuple[float, float]) -> Any:
    """The given axes, or new ones of this size."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(figsize=size, layout="constrained")[1]


def legend_below(ax: Any, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """A legend below the axes, clear of the title and of the curves."""
    place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
    columns = len(labels) if len(labels) <= 3 else 2
    ax.legend(handles, labels, fontsize="small", frameon=False, ncols=columns, **place)


def error_bars(values: Float, interval: Any) -> Float | None:
    """Lengths of error bars below and above the values, of shape (2, n); None without interval."""
    if interval is None:
        return None
    low, high = (np.asarray(x, dtype=np.float64) for x in interval)
    return np.stack([np.maximum(values - low, 0), np.maximum(high - values, 0)])

"""Colors, names, axes and legends of all displays, and the model that they draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from momentmix.errors import InputError, InputTypeError, needed, printable
from momentmix.html.palette import COLORS, component_color
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import column_names
from momentmix.wording import cut, percent

LARGEST_DRAWN = 1e150  # squares of larger numbers overflow, in matplotlib as well
GRAY = "0.55"  # of what belongs to no component: visible on white and on dark pages
SMALL: dict[str, Any] = {"fontsize": "small", "title_fontsize": "small", "frameon": False}
_LETTER_WIDTH = 0.07  # of small letters, in inches, on average
_MOST_LETTERS = 24  # of a name at an axis
_MOST_LETTERS_OF_COMPONENT = 36  # of the name of a component in a legend
_DASHES = ("-", "--", ":", "-.")


def need_matplotlib() -> Any:
    """Import matplotlib, or raise an error that says how to install it."""
    words = "pictures need matplotlib", "momentmix[plot]"
    needed("matplotlib.figure", *words)  # reports do without pyplot, which takes long to import
    return needed("matplotlib", *words)


@dataclass
class Display:
    """Base of displays: axes and figure of matplotlib; ``ax_`` are the first axes of several."""

    ax_: Any = field(default=None, repr=False, kw_only=True)
    axes_: Any = field(default=None, repr=False, kw_only=True)
    figure_: Any = field(default=None, repr=False, kw_only=True)

    def _on(self, ax: Any, size: tuple[float, float]) -> Any:
        """Keep the given axes, or make new ones of this size."""
        if ax is None:
            from matplotlib import pyplot

            ax = pyplot.subplots(figsize=size, layout="constrained")[1]
        self.ax_, self.axes_, self.figure_ = ax, [ax], ax.figure
        return ax

    def _grid(
        self, n_panels: int, panel: tuple[float, float], entries: list[Any], title: str
    ) -> list[Any]:
        """Make panels of this size, and a legend below; return their axes."""
        from matplotlib import pyplot

        across = 2 if n_panels == 4 else min(n_panels, 4 if n_panels > 9 else 3)
        down, width = -(-n_panels // across), max(4.6, panel[0] * across)
        longest = max(len(entry.get_label()) for entry in entries)
        in_a_row = int(np.clip(width // (0.6 + _LETTER_WIDTH * longest), 1, len(entries)))
        size = width, panel[1] * down + 0.7 + 0.2 * -(-len(entries) // in_a_row)
        self.figure_, self.axes_ = pyplot.subplots(
            down, across, figsize=size, squeeze=False, layout="constrained"
        )
        self.ax_ = self.axes_[0, 0]
        for ax in self.axes_.flat:
            ax.spines[["top", "right"]].set_visible(False)
        for ax in self.axes_.flat[n_panels:]:
            ax.set_visible(False)
        place: Any = {"loc": "outside lower center", "ncols": in_a_row}
        self.figure_.legend(handles=entries, title=title, **place, **SMALL)
        return list(self.axes_.flat)[:n_panels]


# -- components -------------------------------------------------------------------------------


def component_styles(n_components: int) -> list[tuple[str, str]]:
    """Return a color and a line style for each component; they repeat after 48."""
    n = len(COLORS)
    return [(component_color(i), _DASHES[i // n % len(_DASHES)]) for i in range(n_components)]


def component_entries(mixture: Mixture, is_named: bool = True) -> list[Any]:
    """Return an entry of a legend for each component: number, share and name."""
    from matplotlib.lines import Line2D

    r = mixture.n_components
    names = mixture.profile().names if is_named and r > 1 else [""] * r
    entries, styles = [], component_styles(r)
    for k, (weight, name) in enumerate(zip(mixture.weights, names, strict=True)):
        label = f"{k}: {percent(weight)}"
        label += f", {short_name(name, _MOST_LETTERS_OF_COMPONENT)}" if name else ""
        color, dash = styles[k]
        entries.append(Line2D([], [], color=color, linestyle=dash, linewidth=4, label=label))  # type: ignore[arg-type]
    return entries


# -- models -----------------------------------------------------------------------------------


def mixture_of(model: Any) -> Mixture:
    """The mixture of an estimator, a result or a mixture, if it can be drawn."""
    need_matplotlib()
    mixture = getattr(model, "mixture_", getattr(model, "mixture", model))
    if not isinstance(mixture, Mixture):
        raise InputTypeError(
            "a display needs a fitted estimator, a FitResult or a Mixture; "
            f"got {type(model).__name__}."
        )
    check_drawable(mixture)
    return mixture


def check_drawable(mixture: Mixture) -> None:
    """Raise where numbers are too large for pictures."""
    extent = np.abs(mixture.means) + np.sqrt(mixture.variances)  # NaN: there is nothing to draw
    if (extent > LARGEST_DRAWN).any():
        i, j = np.argwhere(extent > LARGEST_DRAWN)[0]
        raise InputError(
            f"component {i} reaches {extent[i, j]:.3g} in feature {j}; pictures show numbers up to "
            f"{LARGEST_DRAWN:.0e}. Rescale the feature, or draw the others (Mixture.select)."
        )


def axis_names_of(mixture: Mixture) -> list[str]:
    """Return short names for axes in the units of the data: ``income, log scale``."""
    pairs = zip(mixture.columns, column_names(mixture), strict=True)
    return [short_name(name) + (", log scale" if c.transform else "") for c, name in pairs]


def short_name(name: str, most: int = _MOST_LETTERS) -> str:
    """Return at most `most` letters of a name; dollars, which start formulas, are escaped."""
    return cut(printable(name), most).replace("$", r"\$")


# -- axes -------------------------------------------------------------------------------------


def ink() -> Any:
    """Return the color of texts, used for lines that belong to all components."""
    from matplotlib import rcParams

    return rcParams["text.color"]


def percent_axis(axis: Any, ticks: int) -> None:
    """Set at most so many ticks, in percent, none beyond 0 and 100."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    class TicksOfShares(MaxNLocator):
        def tick_values(self, vmin: float, vmax: float) -> Any:
            return [x for x in super().tick_values(vmin, vmax) if 0 <= x <= 1]

    axis.set_major_locator(TicksOfShares(ticks, steps=[1, 2, 2.5, 5, 10]))
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.3g} %"))

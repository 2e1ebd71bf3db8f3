"""Pictures of a report as SVG in data URLs; the same input gives the same bytes."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.displays.marginals import draw_marginal, marginal_of
from momentmix.displays.pairs import draw_pair
from momentmix.displays.rows import by_separation, pairs_by_separation
from momentmix.displays.style import axis_names_of
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import value_names

_MOST_PAIRS = 3
# Fewer columns are drawn where groups are many: the table of columns × groups has all of them.
_MOST_COLUMNS, _FEWEST_COLUMNS, _MOST_CURVES = 24, 12, 240
MOST_POINTS = 1000  # of rows in a picture of a pair
_MOST_PATHS = 200  # more points are smaller as an image
_SMALL, _SQUARE = (3.4, 2.1), (3.4, 3.0)  # inches, of pictures in a grid

# Lines and texts in _INK follow the light or dark scheme of the reader, all else stays as it is.
# Text stays text: it is small, can be searched, and has letters that matplotlib's font lacks.
_INK, _DARK_INK, _AXES = "#1b1b1b", "#e8e8e8", "#8a8a8a"
_SCHEMES = (
    f"<style>svg{{color:{_INK}}}@media (prefers-color-scheme:dark){{svg{{color:{_DARK_INK}}}}}"
    "</style>"
)
SETTINGS = {
    "svg.hashsalt": "momentmix",
    "svg.fonttype": "none",
    "savefig.dpi": 80,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": _AXES,
    "axes.spines.top": False,
    "axes.titley": 1.0,  # the place of a title needs no search for what is in its way
    "axes.spines.right": False,
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _AXES,
    "xtick.labelcolor": _INK,
    "ytick.color": _AXES,
    "ytick.labelcolor": _INK,
}
_DECIMALS = re.compile(r"(\.\d)\d+")
_PATHS = re.compile(r' (?:d|x|y|transform)="[^"]*"')
_SAFE = " =:/;,.()+*!?@$[]{}|^~-"  # in the attribute of an image


@dataclass(frozen=True)
class Picture:
    """A small picture; `name` is unique within the page, `address` a data URL."""

    name: str
    title: str
    alt: str
    caption: str
    address: str


def draw_columns(mixture: Mixture, rows: Float | None) -> list[Picture]:
    """Draw columns, the best separation first: rows, where there are any, and components."""
    names, pictures = value_names(mixture), list[Picture]()
    most = min(_MOST_COLUMNS, max(_FEWEST_COLUMNS, _MOST_CURVES // mixture.n_components))
    for place, j in enumerate(by_separation(mixture)[:most]):
        ax = _axes(_SMALL)
        draw_marginal(ax, marginal_of(mixture, j, None if rows is None else rows[:, j]))
        family = mixture.columns[j].model.noun
        of_rows = "" if rows is None else " and of the rows"
        alt = f"Distribution of {names[j]} ({family}) in each group{of_rows}."
        caption = "" if family == "numbers" else family
        pictures.append(Picture(f"column-{place}", names[j], alt, caption, _finished(ax)))
    return pictures


def draw_pairs(
    mixture: Mixture, rows: Float | None, components: NDArray[Any] | None
) -> list[Picture]:
    """Draw the pairs of columns of the best separation, with some of the rows as points."""
    names, labels, pictures = value_names(mixture), axis_names_of(mixture), list[Picture]()
    if mixture.n_components == 1 or mixture.n_columns == 1:
        return []
    if rows is not None:
        step = -(-len(rows) // MOST_POINTS)
        rows, components = rows[::step], None if components is None else components[::step]
    for place, (x, y) in enumerate(pairs_by_separation(mixture, _MOST_PAIRS)):
        ax = _axes(_SQUARE)
        across, up = (marginal_of(mixture, j, None if rows is None else rows[:, j]) for j in (x, y))
        draw_pair(ax, mixture, (x, y), (across, up), rows, components)
        for number in ax.texts:
            number.set_fontsize(8.5)
        ax.set(xlabel=labels[x], ylabel=labels[y])
        title = f"{names[x]} and {names[y]}"
        alt = f"Groups over {title}" + (", with rows as points." if rows is not None else ".")
        pictures.append(Picture(f"pair-{place}", title, alt, "", _finished(ax)))
    return pictures


def _axes(size: tuple[float, float]) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=size).add_subplot()


def _finished(ax: Any) -> str:
    """Make room for the numbers or levels at the axes, and return the picture as a data URL.

    Search for a layout, as matplotlib does it, takes as long as all else.
    """
    ticks, (width, height) = ax.yaxis, ax.figure.get_size_inches()
    texts = ticks.get_major_formatter().format_ticks(ticks.get_majorticklocs())
    label = 0.2 if ax.get_xlabel() else 0.0  # inches
    left = label + max(0.44 - label, 0.12 + 0.08 * max(map(len, texts), default=0))
    ends = {"right": 1 - 0.15 / width, "top": 1 - 0.2 / height}
    ax.figure.subplots_adjust(left / width, (label + 0.25) / height, **ends)
    across, up = ax.get_position().size * (width, height)
    ax.xaxis.set_label_coords(0.5, -0.25 / up)
    ax.yaxis.set_label_coords((label - left) / across, 0.5)
    for points in ax.collections:
        points.set_rasterized(len(points.get_offsets()) > _MOST_PATHS)
    stream = io.StringIO()
    with warnings.catch_warnings():
        # Letters that the font lacks: the browser has other fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        ax.figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    start, body = svg[svg.index("<svg") :].split(">", 1)
    body = _PATHS.sub(lambda path: _DECIMALS.sub(r"\1", path[0]), body)  # tenths of a point
    body = re.sub(r"\s+", " ", body.replace(_INK, "currentColor"))
    return "data:image/svg+xml," + quote(f"{start}>{_SCHEMES}{body}", safe=_SAFE)

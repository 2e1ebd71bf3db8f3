"""Pictures of a report as SVG in data URLs; the same input gives the same bytes."""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from momentmix.displays.columns import ColumnsDisplay, draw_panel
from momentmix.displays.marginals import marginal_of
from momentmix.displays.pairs import draw_pair
from momentmix.displays.rows import labels_of, shown_rows
from momentmix.displays.separation import by_separation, pairs_by_separation
from momentmix.displays.style import axis_names_of, need_matplotlib
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import value_names

_MOST_PAIRS = 4
# Fewer columns are drawn where groups are many: the table of columns × groups has all of them.
_MOST_COLUMNS, _FEWEST_COLUMNS, _MOST_CURVES = 24, 12, 240
_MOST_POINTS = 1000  # of rows in a picture of a pair
_MOST_PATHS = 200  # more points are smaller as an image
_SMALL, _SQUARE = (3.4, 2.1), (3.4, 3.0)  # inches, of pictures in a grid
# Inches around axes: what a layout of matplotlib takes as long to find as all else to draw.
_LEFT, _BOTTOM, _LABEL = 0.44, 0.25, 0.2
_TOP_AND_RIGHT = {_SMALL: (0.19, 0.2), _SQUARE: (0.08, 0.1)}
_TICK = 0.12  # from a number to its axis
_MOST_LETTERS = 9  # of a number at an axis

# Lines and texts in _INK follow the light or dark scheme of the reader, all else stays as it is.
# Text stays text: it is small, can be searched, and has letters that matplotlib's font lacks.
_INK, _DARK_INK, _AXES = "#1b1b1b", "#e8e8e8", "#8a8a8a"
_SCHEMES = (
    f"<style>svg{{color:{_INK}}}@media (prefers-color-scheme:dark){{svg{{color:{_DARK_INK}}}}}"
    "</style>"
)
_SETTINGS = {
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
class Shown:
    """Rows for pictures, as an array or a dict of columns, or a summary."""

    data: Any
    n_rows: int = 0  # 0 of a summary

    @property
    def n_points(self) -> int:
        """Rows in the picture of a pair."""
        return min(self.n_rows, _MOST_POINTS)


@dataclass(frozen=True)
class Picture:
    """A small picture; `name` is unique within the page, `address` a data URL."""

    name: str
    title: str
    alt: str
    caption: str
    address: str


def draw(mixture: Mixture, shown: Shown | None) -> tuple[list[Picture], list[Picture]]:
    """Draw columns and pairs of columns, the best separation first."""
    need_matplotlib()
    from matplotlib import style

    with style.context(["default", _SETTINGS]):
        return _columns(mixture, shown), _pairs(mixture, shown)


def _columns(mixture: Mixture, shown: Shown | None) -> list[Picture]:
    """Draw each column: its rows, where there are rows, and the fitted components."""
    names, pictures = value_names(mixture), list[Picture]()
    most = min(_MOST_COLUMNS, max(_FEWEST_COLUMNS, _MOST_CURVES // mixture.n_components))
    chosen = by_separation(mixture)[:most]
    display = ColumnsDisplay.of_model(mixture, shown and shown.data, chosen)
    for place, j in enumerate(chosen):
        ax = _axes(_SMALL)
        draw_panel(ax, display.marginals[j], is_tinted=False)
        _plain_ticks(ax.xaxis)
        family = mixture.columns[j].model.noun
        of_rows = " and of the rows" if shown else ""
        alt = f"Distribution of {names[j]} ({family}) in each group{of_rows}."
        pictures.append(Picture(f"column-{place}", names[j], alt, family, _finished(ax)))
    return pictures


def _pairs(mixture: Mixture, shown: Shown | None) -> list[Picture]:
    """Draw the pairs of columns of the best separation."""
    pairs = pairs_by_separation(mixture, _MOST_PAIRS)
    names, labels, pictures = value_names(mixture), axis_names_of(mixture), list[Picture]()
    rows = components = None
    if pairs and shown and shown.n_rows and mixture.has_density:
        rows, encoded = shown_rows(mixture, shown.data, _MOST_POINTS)
        components = labels_of(mixture, encoded)
    for place, (x, y) in enumerate(pairs):
        ax = _axes(_SQUARE)
        marginals = [marginal_of(mixture, j, None if rows is None else rows[:, j]) for j in (x, y)]
        draw_pair(ax, mixture, (x, y), (marginals[0], marginals[1]), rows, components)
        for number in ax.texts:
            number.set_fontsize(8.5)
        _plain_ticks(ax.xaxis)
        _plain_ticks(ax.yaxis)
        ax.set(xlabel=labels[x], ylabel=labels[y])
        title = f"{names[x]} and {names[y]}"
        alt = f"Groups over {title}" + (", with rows as points." if rows is not None else ".")
        pictures.append(Picture(f"pair-{place}", title, alt, "", _finished(ax)))
    return pictures


def _axes(size: tuple[float, float]) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=size).add_subplot()


def _finished(ax: Any) -> str:
    """Make room for the numbers or levels at the axes, and return the picture as a data URL."""
    ticks, (width, height) = ax.yaxis, ax.figure.get_size_inches()
    texts = ticks.get_major_formatter().format_ticks(ticks.get_majorticklocs())
    is_pair = bool(ax.get_xlabel())
    letter, least, label = (0.085, 0.0, _LABEL) if is_pair else (0.07, _LEFT, 0.0)
    left = label + max(least, _TICK + letter * max(map(len, texts), default=0))
    bottom, (top, right) = label + _BOTTOM, _TOP_AND_RIGHT[width, height]
    ax.figure.subplots_adjust(left / width, bottom / height, 1 - right / width, 1 - top / height)
    across, up = ax.get_position().size * (width, height)
    ax.xaxis.set_label_coords(0.5, -_BOTTOM / up)
    ax.yaxis.set_label_coords((_LABEL - left) / across, 0.5)
    for points in ax.collections:
        points.set_rasterized(len(points.get_offsets()) > _MOST_PATHS)
    return _data_url(ax.figure)


def _plain_ticks(axis: Any) -> None:
    """Write numbers with separators, where they are short enough."""
    from matplotlib.ticker import FuncFormatter, ScalarFormatter

    def written(value: float) -> str:
        return f"{value:,.10g}".replace("-", "−")

    is_plain = isinstance(axis.get_major_formatter(), ScalarFormatter)
    if is_plain and all(len(written(x)) <= _MOST_LETTERS for x in axis.get_majorticklocs()):
        axis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))


def _data_url(figure: Any) -> str:
    """The figure as a data URL; coordinates are rounded to a tenth of a point."""
    stream = io.StringIO()
    with warnings.catch_warnings():
        # Letters that the font lacks: the browser has other fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    svg = stream.getvalue()
    start, body = svg[svg.index("<svg") :].split(">", 1)
    body = _PATHS.sub(lambda path: _DECIMALS.sub(r"\1", path[0]), body)
    body = re.sub(r"\s+", " ", body.replace(_INK, "currentColor"))
    return "data:image/svg+xml," + quote(f"{start}>{_SCHEMES}{body}", safe=_SAFE)

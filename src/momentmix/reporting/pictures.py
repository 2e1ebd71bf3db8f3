"""Pictures of a report as SVG in data URLs; the same input gives the same bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from momentmix.displays.columns import ColumnsDisplay, draw_panel
from momentmix.displays.marginals import marginal_of
from momentmix.displays.pairs import draw_pair
from momentmix.displays.rows import labels_of, shown_rows
from momentmix.displays.separation import by_separation, pairs_by_separation
from momentmix.displays.style import axis_names_of, need_matplotlib
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import value_names
from momentmix.reporting.data_facts import DataFacts
from momentmix.reporting.svg import SETTINGS, data_url

_MOST_PAIRS = 4
# Fewer columns are drawn where groups are many: the table of columns × groups has all of them.
_MOST_COLUMNS, _FEWEST_COLUMNS, _MOST_CURVES = 24, 12, 240
MOST_POINTS = 1000  # of rows in a picture of a pair
_SMALL, _SQUARE = (3.4, 2.1), (3.4, 3.0)  # inches, of pictures in a grid
# Inches around axes: what a layout of matplotlib takes as long to find as all else to draw.
_LEFT, _BOTTOM, _LABEL = 0.44, 0.25, 0.2
_TOP_AND_RIGHT = {_SMALL: (0.19, 0.2), _SQUARE: (0.08, 0.1)}
_TICK = 0.12  # from a number to its axis
_MOST_LETTERS = 9  # of a number at an axis


@dataclass(frozen=True)
class Picture:
    """A small picture; `name` is unique within the page, `address` a data URL."""

    name: str
    title: str
    alt: str
    caption: str
    address: str


@dataclass(frozen=True)
class Pictures:
    """Small pictures, the best separation first."""

    columns: list[Picture] = field(default_factory=list)
    pairs: list[Picture] = field(default_factory=list)


def draw(mixture: Mixture, facts: DataFacts | None) -> Pictures:
    """Draw the pictures for which there are data."""
    need_matplotlib()
    from matplotlib import style

    with style.context(["default", SETTINGS]):
        return Pictures(_columns(mixture, facts), _pairs(mixture, facts))


# -- columns ----------------------------------------------------------------------------------


def _columns(mixture: Mixture, facts: DataFacts | None) -> list[Picture]:
    """Draw each column: its rows, where there are rows, and the fitted components."""
    names, found, rows = value_names(mixture), list[Picture](), None
    most = min(_MOST_COLUMNS, max(_FEWEST_COLUMNS, _MOST_CURVES // mixture.n_components))
    chosen = by_separation(mixture)[:most]
    if facts is not None:
        rows = facts.summary if facts.shown is None else facts.shown
    display = ColumnsDisplay.of_model(mixture, rows, chosen)
    for place, j in enumerate(chosen):
        ax = _axes(_SMALL)
        draw_panel(ax, display.marginals[j], is_tinted=False)
        _plain_ticks(ax.xaxis)
        family = mixture.columns[j].model.noun
        of_rows = "" if rows is None else " and of the rows"
        alt = f"Distribution of {names[j]} ({family}) in each group{of_rows}."
        found.append(Picture(f"column-{place}", names[j], alt, family, _finished(ax)))
    return found


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
    return data_url(ax.figure)


def _plain_ticks(axis: Any) -> None:
    """Write numbers with separators, where they are short enough."""
    from matplotlib.ticker import FuncFormatter, ScalarFormatter

    def written(value: float) -> str:
        return f"{value:,.10g}".replace("-", "−")

    is_plain = isinstance(axis.get_major_formatter(), ScalarFormatter)
    if is_plain and all(len(written(x)) <= _MOST_LETTERS for x in axis.get_majorticklocs()):
        axis.set_major_formatter(FuncFormatter(lambda value, _: written(value)))


# -- pairs ------------------------------------------------------------------------------------


def _pairs(mixture: Mixture, facts: DataFacts | None) -> list[Picture]:
    """Draw the pairs of columns of the best separation."""
    pairs = pairs_by_separation(mixture, _MOST_PAIRS)
    names, labels, found = value_names(mixture), axis_names_of(mixture), []
    values = components = None
    if pairs and facts is not None and facts.counts is not None:
        values, encoded = shown_rows(mixture, facts.shown, MOST_POINTS)
        components = labels_of(mixture, encoded)
    for place, (x, y) in enumerate(pairs):
        ax = _axes(_SQUARE)
        own = [None if values is None else values[:, j] for j in (x, y)]
        laws = marginal_of(mixture, x, own[0]), marginal_of(mixture, y, own[1])
        draw_pair(ax, mixture, (x, y), laws, values, components)
        for number in ax.texts:
            number.set_fontsize(8.5)
        _plain_ticks(ax.xaxis)
        _plain_ticks(ax.yaxis)
        ax.set(xlabel=labels[x], ylabel=labels[y])
        alt = f"Groups over {names[x]} and {names[y]}"
        alt += ", with rows as points." if values is not None else "."
        title = f"{names[x]} and {names[y]}"
        found.append(Picture(f"pair-{place}", title, alt, "", _finished(ax)))
    return found

"""Pictures of a report as SVG in data URLs; the same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from momentmix.displays import (
    ColumnsDisplay,
    MomentResidualsDisplay,
    TrialsDisplay,
    need_matplotlib,
)
from momentmix.displays.marginals import marginal_of
from momentmix.displays.pairs import draw_pair
from momentmix.displays.rows import labels_of, shown_rows
from momentmix.displays.separation import by_separation, pairs_by_separation
from momentmix.displays.style import axis_names_of
from momentmix.fitting.outcome import Trial
from momentmix.html.markup import escaped
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.parameter_table import value_names
from momentmix.reporting.data_facts import DataFacts
from momentmix.reporting.svg import SETTINGS, data_url

_MOST_PAIRS = 6
MOST_POINTS = 1500  # of rows in a picture of a pair
_SMALL, _SQUARE = (3.4, 2.1), (3.4, 3.0)  # inches, of pictures in a grid
_MARGINS = {"left": 0.13, "right": 0.94, "bottom": 0.12, "top": 0.91}
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
    """Small pictures, the best separation first, and HTML of pictures of the full width."""

    columns: list[Picture] = field(default_factory=list)
    pairs: list[Picture] = field(default_factory=list)
    residuals: str = ""
    tried: str = ""


def draw(mixture: Mixture, facts: DataFacts | None, tried: Sequence[Trial] = ()) -> Pictures:
    """Draw the pictures for which there are data."""
    need_matplotlib()
    from matplotlib import style

    with style.context(["default", SETTINGS]):
        return Pictures(
            _columns(mixture, facts),
            _pairs(mixture, facts),
            "" if facts is None else _residuals(mixture, facts),
            _tried(tried) if tried else "",
        )


# -- columns ----------------------------------------------------------------------------------


def _columns(mixture: Mixture, facts: DataFacts | None) -> list[Picture]:
    """Draw each column: its rows, where there are rows, and the fitted components."""
    from matplotlib import pyplot

    names, found, rows = value_names(mixture), [], None
    if facts is not None:
        rows = facts.summary if facts.shown is None else facts.shown
    display = ColumnsDisplay.of_model(mixture, rows, range(mixture.n_columns))
    for place, j in enumerate(by_separation(mixture)):
        # Only names of levels need a layout that makes room for them, which takes long.
        layout: Any = "constrained" if mixture.columns[j].levels else None
        figure, ax = pyplot.subplots(figsize=_SMALL, layout=layout)
        if layout is None:
            figure.subplots_adjust(**_MARGINS)
        display.draw_column(j, ax)
        _plain_ticks(ax.xaxis)
        ax.set_title("", loc="left")  # the page has the name
        family = mixture.columns[j].model.noun
        of_rows = "" if rows is None else " and of the rows"
        alt = f"Distribution of {names[j]} ({family}) in each group{of_rows}."
        found.append(Picture(f"column-{place}", names[j], alt, family, data_url(figure)))
    return found


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
    from matplotlib import pyplot

    pairs = pairs_by_separation(mixture, _MOST_PAIRS)
    names, labels, found = value_names(mixture), axis_names_of(mixture), []
    values = components = None
    if pairs and facts is not None and facts.counts is not None:
        values, encoded = shown_rows(mixture, facts.shown, MOST_POINTS)
        components = labels_of(mixture, encoded)
    for place, (x, y) in enumerate(pairs):
        figure, ax = pyplot.subplots(figsize=_SQUARE, layout="constrained")
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
        found.append(Picture(f"pair-{place}", title, alt, "", data_url(figure)))
    return found


# -- for experts ------------------------------------------------------------------------------


def _residuals(mixture: Mixture, facts: DataFacts) -> str:
    caption = (
        "Each point is the mean of a product of features. Left: means of the data against those of "
        "the model; they agree on the line. Right: the differences, order by order; they scatter "
        "about zero by chance, and a large one shows a misfit. “Squared”: one feature of the "
        "product occurs twice."
    )
    alt = "Moments of the data against those of the model, and their differences by order."
    figure = MomentResidualsDisplay.from_estimator(mixture, facts.summary).figure_
    return full_width("residuals", alt, data_url(figure), caption)


def _tried(tried: Sequence[Trial]) -> str:
    numbers = ", ".join(str(t.n_components) for t in tried)
    caption = (
        "For each number of components that was tried: BIC and how well other rows give its least "
        "reproducible group again, where rows were at hand, else the p-value of the test of the "
        "moments. The bar marks the number that was chosen."
    )
    alt = f"BIC and reproducibility, or p-value, over the number of components: {numbers}."
    return full_width("tried", alt, data_url(TrialsDisplay(tried).plot().figure_), caption)


def full_width(name: str, alt: str, address: str, caption: str = "") -> str:
    """Return a picture of the full width of the page, as HTML."""
    below = f"<figcaption>{escaped(caption)}</figcaption>" if caption else ""
    image = f'<img src="{address}" alt="{escaped(alt)}">'
    return f'<figure id="picture-{name}" class="full">{image}{below}</figure>'

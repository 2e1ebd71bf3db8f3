"""Pictures of a report as SVG in data URLs; the same input gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from momentmix.displays import MomentResidualsDisplay, TrialsDisplay, need_matplotlib
from momentmix.displays.style import value_names_of
from momentmix.fitting.outcome import Trial
from momentmix.mixture.mixture import Mixture
from momentmix.reporting.data_facts import DataFacts
from momentmix.reporting.temp_draw import draw_column, draw_pair
from momentmix.reporting.separation import by_separation, pairs_by_separation
from momentmix.reporting.svg import SETTINGS, data_url
from momentmix.schema.column import BERNOULLI, CATEGORICAL, POISSON

_MOST_PAIRS = 6
_SMALL, _SQUARE = (3.4, 2.1), (3.4, 3.0)  # inches, of pictures in a grid
_FAMILIES = {BERNOULLI: "yes/no", CATEGORICAL: "categories", POISSON: "counts"}


@dataclass(frozen=True)
class Picture:
    """A picture and its description.

    Attributes
    ----------
    name : str
        Identifier within the page.
    title, alt, caption : str
    address : str
        Data URL, ``data:image/svg+xml;base64,…``.
    """

    name: str
    title: str
    alt: str
    caption: str
    address: str


@dataclass(frozen=True)
class Pictures:
    """The pictures of a report.

    Attributes
    ----------
    columns : list of Picture
        One for each column, those that separate the components best first.
    pairs : list of Picture
        Pairs of columns, in the same order.
    residuals, tried : Picture or None
    """

    columns: list[Picture] = field(default_factory=list)
    pairs: list[Picture] = field(default_factory=list)
    residuals: Picture | None = None
    tried: Picture | None = None


def draw(mixture: Mixture, facts: DataFacts | None, tried: Sequence[Trial] = ()) -> Pictures:
    """The pictures that the model and the data allow to draw."""
    need_matplotlib()
    from matplotlib import style

    with style.context(["default", SETTINGS]):
        return Pictures(
            _columns(mixture, facts),
            _pairs(mixture, facts),
            None if facts is None else _residuals(mixture, facts),
            _tried(tried) if tried else None,
        )


# -- columns ----------------------------------------------------------------------------------


def _columns(mixture: Mixture, facts: DataFacts | None) -> list[Picture]:
    """A picture of each column: its rows, where there are rows, and the fitted components."""
    from matplotlib import pyplot

    names, found = value_names_of(mixture), []
    for place, j in enumerate(by_separation(mixture)):
        figure, ax = pyplot.subplots(figsize=_SMALL, layout="constrained")
        draw_column(ax, mixture, j, None if facts is None else facts.shown_column(j))
        family = _FAMILIES.get(mixture.columns[j].family, "numbers")
        rows = "" if facts is None or facts.shown is None else " and of the rows"
        alt = f"Distribution of {names[j]} ({family}) in each group{rows}."
        found.append(Picture(f"column-{place}", names[j], alt, "", data_url(figure)))
    return found


# -- pairs ------------------------------------------------------------------------------------


def _pairs(mixture: Mixture, facts: DataFacts | None) -> list[Picture]:
    """Pictures of the pairs of columns that separate the components best."""
    from matplotlib import pyplot

    names, found = value_names_of(mixture), []
    rows = None if facts is None or facts.counts is None else facts.shown
    pairs = pairs_by_separation(mixture, _MOST_PAIRS) if mixture.n_components > 1 else []
    for place, pair in enumerate(pairs):
        figure, ax = pyplot.subplots(figsize=_SQUARE, layout="constrained")
        draw_pair(ax, mixture, pair, rows)
        x, y = (names[j] for j in pair)
        alt = f"Groups over {x} and {y}" + (", with rows as points." if rows is not None else ".")
        found.append(Picture(f"pair-{place}", f"{x} and {y}", alt, "", data_url(figure)))
    return found


# -- for experts ------------------------------------------------------------------------------


def _residuals(mixture: Mixture, facts: DataFacts) -> Picture:
    display = MomentResidualsDisplay.from_estimator(mixture, facts.summary)
    caption = (
        "Each point is the mean of a product of features. Left: means of the data against those of "
        "the model; they agree on the line. Right: the differences, order by order; they scatter "
        "about zero by chance, and a large one shows a misfit. “Squared”: one feature of the "
        "product occurs twice."
    )
    alt = "Moments of the data against those of the model, and their differences by order."
    address = data_url(display.figure_)
    return Picture("residuals", "Residuals of the moments", alt, caption, address)


def _tried(tried: Sequence[Trial]) -> Picture:
    numbers = ", ".join(str(t.n_components) for t in tried)
    caption = (
        "BIC, where rows were at hand, and p-value of the test of the moments, for each number of "
        "components that was tried. The bar marks the number that was chosen."
    )
    alt = f"BIC and p-value over the number of components: {numbers}."
    address = data_url(TrialsDisplay(tried).plot().figure_)
    return Picture("tried", "Numbers of components tried", alt, caption, address)

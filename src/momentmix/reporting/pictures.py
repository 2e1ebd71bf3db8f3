"""Pictures of a report as SVG in data URLs; the same input gives the same bytes."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from momentmix.displays import (
    LevelsDisplay,
    MeansDisplay,
    MomentResidualsDisplay,
    PairsDisplay,
    TrialsDisplay,
    need_matplotlib,
)
from momentmix.displays.columns import numeric_columns
from momentmix.displays.probabilities import Probabilities, all_probabilities
from momentmix.displays.style import FEW_COMPONENTS
from momentmix.fitting.inference.standard_errors import Intervals
from momentmix.fitting.outcome import Trial
from momentmix.mixture.mixture import Mixture
from momentmix.reporting.data_facts import DataFacts

_MOST_BARS = 40  # levels; more of them are a heat map


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


def draw(
    mixture: Mixture,
    ends: Intervals | None,
    facts: DataFacts | None,
    tried: Sequence[Trial] = (),
) -> list[Picture]:
    """The pictures that the model and the data allow to draw."""
    need_matplotlib()
    from matplotlib import style

    settings = {"svg.hashsalt": "momentmix", "svg.fonttype": "path", "font.size": 10.0}
    with style.context(["default", settings]):
        pictures = []
        if numeric_columns(mixture):
            pictures += [_pairs(mixture, facts), _means(mixture, ends)]
        groups = all_probabilities(mixture, ends)
        if groups:
            pictures.append(_levels(mixture, groups))
        if facts is not None:
            pictures.append(_residuals(mixture, facts))
        if tried:
            pictures.append(_tried(tried))
    return pictures


def _pairs(mixture: Mixture, facts: DataFacts | None) -> Picture:
    rows = None if facts is None or facts.counts is None else facts.shown
    facts_shown = 0 if facts is None else facts.n_shown
    display = PairsDisplay.from_estimator(mixture, rows)
    shown = len(display.names)
    what = "one feature" if shown == 1 else f"each pair of {shown} features"
    caption = "Ellipses at one and two standard deviations; the number marks the center."
    if shown == 1:
        caption = "Density of the mixture and of its components."
    n_numbers = len(numeric_columns(mixture))
    if shown < n_numbers:
        caption += f" Shown are the {shown} features that separate the components best."
    if n_numbers < mixture.n_features:
        caption += " Columns of levels are in a picture of their own."
    if rows is not None and shown > 1:
        caption += f" Points are {facts_shown:,} rows, in the color of their component."
    alt = f"Components over {what}" + (", with rows as points." if rows is not None else ".")
    return _picture("pairs", "Pairs of features", alt, caption, display.figure_)


def _means(mixture: Mixture, ends: Intervals | None) -> Picture:
    display = replace(MeansDisplay.of_mixture(mixture, ends), groups=())
    caption = "Means as deviations from the overall mean, in overall standard deviations."
    if ends is not None and mixture.n_components <= FEW_COMPONENTS:
        caption += " Bars are 95 % intervals."
    alt = f"Means of {mixture.n_components} components over {len(display.names)} features."
    return _picture("means", "Means", alt, caption, display.plot("auto").figure_)


def _levels(mixture: Mixture, groups: list[Probabilities]) -> Picture:
    display = LevelsDisplay(mixture.weights, groups)
    few = mixture.n_components <= FEW_COMPONENTS and len(display.labels) <= _MOST_BARS
    caption = "Probabilities of levels within components, where the cell is seen."
    if not groups[-1].title:
        caption += " The last ones are the probabilities that the cell is seen."
    if few and groups[0].low is not None:
        caption += " Bars have 95 % intervals."
    alt = f"Probabilities of {len(display.labels)} levels in {mixture.n_components} components."
    figure = display.plot("bars" if few else "heat map").figure_
    return _picture("levels", "Levels and missing cells", alt, caption, figure)


def _residuals(mixture: Mixture, facts: DataFacts) -> Picture:
    display = MomentResidualsDisplay.from_estimator(mixture, facts.summary)
    caption = (
        "Each point is the mean of a product of features. Left: means of the data against those of "
        "the model; they agree on the line. Right: the differences, order by order; they scatter "
        "about zero by chance, and a large one shows a misfit. “Squared”: one feature of the "
        "product occurs twice."
    )
    alt = "Moments of the data against those of the model, and their differences by order."
    return _picture("residuals", "Residuals of the moments", alt, caption, display.figure_)


def _tried(tried: Sequence[Trial]) -> Picture:
    numbers = ", ".join(str(t.n_components) for t in tried)
    caption = (
        "BIC, where rows were at hand, and p-value of the test of the moments, for each number of "
        "components that was tried. The bar marks the number that was chosen."
    )
    alt = f"BIC and p-value over the number of components: {numbers}."
    return _picture(
        "tried", "Numbers of components tried", alt, caption, TrialsDisplay(tried).plot().figure_
    )


def _picture(name: str, title: str, alt: str, caption: str, figure: Any) -> Picture:
    from matplotlib import pyplot

    stream = io.BytesIO()
    metadata = {"Date": None, "Creator": None}
    with warnings.catch_warnings():
        # Letters that the font lacks are drawn as boxes; the tables show the name itself.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(stream, format="svg", metadata=metadata, dpi=130)
    pyplot.close(figure)
    data = base64.b64encode(stream.getvalue()).decode("ascii")
    return Picture(name, title, alt, caption, f"data:image/svg+xml;base64,{data}")

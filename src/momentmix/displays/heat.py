"""Heat maps with a row for each component, or a column where there are many labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import (
    GRAY,
    MOST_LETTERS,
    SMALL,
    TURNED,
    Components,
    component_styles,
    short_name,
)
from momentmix.mixture.parameter_table import Parameter
from momentmix.wording import percent

_MOST_UPRIGHT = 16  # labels beside one another; more of them stand below one another
_ON_LIGHT, _ON_DARK = "#111111", "#FFFFFF"  # numbers in cells: on their color, not on the page
_CELL = (0.56, 0.3)  # least width and height of a cell, in inches
_LEAST_ROOM = (0.4, 0.16)  # width and height of a cell that has room for a number, in inches


def is_tall(n_labels: int) -> bool:
    """Return whether labels stand below one another, and components beside one another."""
    return n_labels > _MOST_UPRIGHT


def heat_map_size(labels: Sequence[str], components: Components) -> tuple[float, float]:
    """Return width and height of a heat map of components × labels, in inches."""
    r, n = len(components.weights), len(labels)
    longest = min(MOST_LETTERS, max(map(len, labels), default=0))
    if is_tall(n):
        legend = 0.2 * r if components.names else 0.0
        return max(4.5, 2.2 + 0.08 * longest + _CELL[0] * r), 1.4 + legend + 0.24 * n
    beside = 0.08 * max(map(len, components.labels))
    return max(5.0, 1.8 + beside + _CELL[0] * n), 1.2 + 0.06 * longest + max(1.0, _CELL[1] * r)


def draw_heat_map(
    ax: Any,
    values: Float,
    labels: Sequence[str],
    components: Components,
    *,
    written: Float,
    form: str,
    meaning: str,
    **style: Any,
) -> None:
    """Draw values (n_components, n_labels) as colors, NaN gray, `written` where there is room."""
    tall, r = is_tall(len(labels)), len(components.weights)
    shown, written = (values.T, written.T) if tall else (values, written)
    image = ax.imshow(shown, aspect="auto", **style)
    ax.set_facecolor("0.75")  # where there is no value
    _mark_components(ax, r, tall)
    shortened = [short_name(label) for label in labels]
    if tall:
        ax.set_yticks(range(len(labels)), shortened, fontsize="small")
        ax.xaxis.tick_top()
        heads = [f"{k}\n{percent(weight)}" for k, weight in enumerate(components.weights)]
        ax.set_xticks(range(r), heads, fontsize="small")
        if components.names:
            place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.01)}
            ax.legend(handles=components.handles, **place, **SMALL)
    else:
        ax.set_xticks(range(len(labels)), shortened, **TURNED)
        ax.set_yticks(range(r), components.labels)
    ax.spines[:].set_visible(False)
    width, height = ax.figure.bbox.size / ax.figure.dpi * ax.get_position().size
    n_rows, n_columns = shown.shape
    if width / n_columns >= _LEAST_ROOM[0] and height / n_rows >= _LEAST_ROOM[1]:
        colors = image.cmap(image.norm(shown))[..., :3]
        bright = colors @ np.array([0.299, 0.587, 0.114]) > 0.55
        for (row, column), value in np.ndenumerate(written):
            text = "–" if np.isnan(value) else f"{value:{form}}".replace("-", "−")
            color = _ON_LIGHT if bright[row, column] or np.isnan(value) else _ON_DARK
            ax.text(column, row, text, ha="center", va="center", fontsize=8, color=color)
    ax.figure.colorbar(image, ax=ax, label=meaning)


def _mark_components(ax: Any, r: int, tall: bool) -> None:
    """Draw a square in the color of each component, between the cells and its label."""
    from matplotlib.transforms import ScaledTranslation

    right, up = (0, 7) if tall else (-7, 0)  # points
    edge = ax.get_xaxis_transform() if tall else ax.get_yaxis_transform()
    shifted = edge + ScaledTranslation(right / 72, up / 72, ax.figure.dpi_scale_trans)
    places = (range(r), np.ones(r)) if tall else (np.zeros(r), range(r))
    colors = [color for color, _ in component_styles(r)]
    ax.scatter(*places, marker="s", s=38, c=colors, clip_on=False, linewidths=0, transform=shifted)
    ax.tick_params(axis="x" if tall else "y", length=0, pad=13)


def draw_probabilities(ax: Any, shown: Sequence[Parameter], components: Components) -> None:
    """Draw a heat map of probabilities, with lines between columns."""
    values = np.stack([p.estimate for p in shown], axis=1)
    draw_heat_map(
        ax, values, [p.label for p in shown], components, written=values, form=".2f",
        meaning="probability", cmap="Blues", vmin=0, vmax=1,
    )  # fmt: skip
    line = ax.axhline if is_tall(len(shown)) else ax.axvline
    groups = [p.name if p.name == "seen" else p.columns[0] for p in shown]
    for end in range(1, len(groups)):
        if groups[end] != groups[end - 1]:
            line(end - 0.5, color=GRAY, linewidth=1.5)
    ax.set_title("Levels: probabilities within components")

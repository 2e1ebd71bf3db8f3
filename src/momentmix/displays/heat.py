"""Heat maps with a row for each component, or a column where there are many labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import (
    MOST_LETTERS,
    component_handles,
    component_labels,
    component_styles,
    percent,
    short_name,
)

_MOST_UPRIGHT = 16  # labels beside one another; more of them stand below one another
_ON_LIGHT, _ON_DARK = "#111111", "#FFFFFF"  # numbers in cells: on their color, not on the page
_CELL = (0.56, 0.3)  # least width and height of a cell, in inches
_LEAST_ROOM = (0.4, 0.16)  # width and height of a cell that has room for a number, in inches


def is_tall(n_labels: int) -> bool:
    """Whether labels stand below one another, and components beside one another."""
    return n_labels > _MOST_UPRIGHT


def heat_map_size(
    labels: Sequence[str], weights: Float, names: Sequence[str] = ()
) -> tuple[float, float]:
    """Width and height of a heat map of components × labels, in inches."""
    r, n = len(weights), len(labels)
    longest = min(MOST_LETTERS, max(map(len, labels), default=0))
    if is_tall(n):
        legend = 0.2 * r if names else 0.0
        return max(4.5, 2.2 + 0.08 * longest + _CELL[0] * r), 1.4 + legend + 0.24 * n
    beside = 0.08 * max(map(len, component_labels(weights, names)))
    return max(5.0, 1.8 + beside + _CELL[0] * n), 1.2 + 0.06 * longest + max(1.0, _CELL[1] * r)


def draw_heat_map(
    ax: Any,
    values: Float,
    labels: Sequence[str],
    weights: Float,
    names: Sequence[str] = (),
    *,
    texts: Sequence[Sequence[str]],
    **style: Any,
) -> Any:
    """Draw values as colors, with texts in the cells where there is room.

    Parameters
    ----------
    ax : matplotlib axes
    values : array of shape (n_components, n_labels)
    labels : sequence of str
    weights, names
        Shares and names of the components.
    texts : nested sequence of str, of the shape of values
    **style
        Of ``imshow``: colors and their range.
    """
    tall, r = is_tall(len(labels)), len(weights)
    shown = values.T if tall else values
    image = ax.imshow(shown, aspect="auto", **style)
    shortened = [short_name(label) for label in labels]
    _mark_components(ax, r, tall)
    if tall:
        ax.set_yticks(range(len(labels)), shortened, fontsize="small")
        ax.xaxis.tick_top()
        heads = [f"{k}\n{percent(weight)}" for k, weight in enumerate(weights)]
        ax.set_xticks(range(r), heads, fontsize="small")
        if names:
            place: Any = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.01)}
            handles = component_handles(weights, names, line=False)
            ax.legend(handles=handles, fontsize="small", frameon=False, **place)
    else:
        turned: Any = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(range(len(labels)), shortened, **turned)
        ax.set_yticks(range(r), component_labels(weights, names))
    for side in ax.spines.values():
        side.set_visible(False)
    if _has_room(ax, shown.shape):
        _write(ax, image, shown, np.array(texts, dtype=object).reshape(values.shape), tall)
    return image


def _mark_components(ax: Any, r: int, tall: bool) -> None:
    """A square in the color of each component, between the cells and its label."""
    colors = [color for color, _ in component_styles(r)]
    style: Any = {"marker": "s", "s": 38, "c": colors, "clip_on": False, "linewidths": 0}
    if tall:
        ax.scatter(range(r), np.full(r, 1.0), transform=_shifted(ax, 0, 7), **style)
        ax.tick_params(axis="x", length=0, pad=13)
    else:
        ax.scatter(np.full(r, 0.0), range(r), transform=_shifted(ax, -7, 0), **style)
        ax.tick_params(axis="y", length=0, pad=13)


def _shifted(ax: Any, right: float, up: float) -> Any:
    """Data along one axis and the edge of the axes along the other, moved by some points."""
    from matplotlib.transforms import ScaledTranslation

    edge = ax.get_xaxis_transform() if up else ax.get_yaxis_transform()
    return edge + ScaledTranslation(right / 72, up / 72, ax.figure.dpi_scale_trans)


def _has_room(ax: Any, shape: tuple[int, int]) -> bool:
    """Whether cells are large enough for numbers."""
    width, height = ax.figure.bbox.size / ax.figure.dpi * ax.get_position().size
    return bool(width / shape[1] >= _LEAST_ROOM[0] and height / shape[0] >= _LEAST_ROOM[1])


def _write(ax: Any, image: Any, shown: Float, texts: Any, tall: bool) -> None:
    """Write the texts into their cells, dark on light colors and light on dark ones."""
    colors = image.cmap(image.norm(shown))[..., :3]
    bright = colors @ np.array([0.299, 0.587, 0.114]) > 0.55
    texts = texts.T if tall else texts
    for (row, column), text in np.ndenumerate(texts):
        unknown = np.isnan(shown[row, column])
        color = _ON_LIGHT if bright[row, column] or unknown else _ON_DARK
        ax.text(column, row, text, ha="center", va="center", fontsize=8, color=color)

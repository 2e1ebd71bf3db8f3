"""Heat maps with a row for each component, or a column where there are many labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.displays.style import component_styles, short_name

_MOST_UPRIGHT = 16  # labels beside one another; more of them stand below one another
_ON_LIGHT, _ON_DARK = "#111111", "#FFFFFF"  # numbers in cells: on their color, not on the page
_CELL = (0.56, 0.3)  # least width and height of a cell, in inches
_LEAST_ROOM = (0.4, 0.16)  # width and height of a cell that has room for a number, in inches


def is_tall(n_labels: int) -> bool:
    """Whether labels stand below one another, and components beside one another."""
    return n_labels > _MOST_UPRIGHT


def heat_map_size(n_components: int, labels: Sequence[str], names: Sequence[str]) -> Any:
    """Width and height of a heat map of components × labels, in inches."""
    longest = max(map(len, names), default=0)
    if is_tall(len(labels)):
        head = 0.9 if longest <= 8 else 0.9 + 0.05 * longest
        width = 3.2 + _CELL[0] * n_components
        return max(4.5, width), head + 0.5 + max(2.0, 0.24 * len(labels))
    foot = 0.9 + 0.05 * max(map(len, labels), default=0)
    width = 1.6 + 0.07 * longest + _CELL[0] * len(labels)
    return max(5.0, width), foot + 0.5 + max(1.2, _CELL[1] * n_components)


def draw_heat_map(
    ax: Any,
    values: Float,
    labels: Sequence[str],
    components: Sequence[str],
    *,
    texts: Sequence[Sequence[str]],
    **style: Any,
) -> Any:
    """Draw values as colors, with texts in the cells where there is room.

    Parameters
    ----------
    ax : matplotlib axes
    values : array of shape (n_components, n_labels)
    labels, components : sequences of str
    texts : nested sequence of str, of the shape of values
    **style
        Of ``imshow``: colors and their range.
    """
    tall = is_tall(len(labels))
    shown = values.T if tall else values
    image = ax.imshow(shown, aspect="auto", **style)
    names = [short_name(label) for label in labels]
    _mark_components(ax, len(components), tall)
    if tall:
        ax.set_yticks(range(len(labels)), names, fontsize="small")
        ax.xaxis.tick_top()
        long = max(map(len, components), default=0) > 8
        turned = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if long else {}
        ax.set_xticks(range(len(components)), components, **turned)
    else:
        turned = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(range(len(labels)), names, **turned)
        ax.set_yticks(range(len(components)), components)
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
    width, height = ax.figure.get_size_inches() * ax.get_position().size
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

"""Colors of components can be told apart, also by color-blind readers, on white and dark pages."""

import re

import numpy as np
import pytest

from momentmix.displays.style import component_styles
from momentmix.html.palette import COLORS, component_color, ink_on

# Linear sRGB to XYZ, white point D65.
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
     [0.0193339, 0.1191920, 0.9503041]]
)  # fmt: skip
# Simulation of color vision in linear RGB: Machado, Oliveira and Fernandes (2009), severity 1.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
}  # fmt: skip
LEAST_DIFFERENCE = {"normal": 20.0, "protanopia": 11.0, "deuteranopia": 11.0}
WHITE, DARK = "#FFFFFF", "#15181C"


def linear(color):
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    relative = (TO_XYZ @ rgb) / TO_XYZ.sum(axis=1)
    x, y, z = np.where(
        relative > (6 / 29) ** 3, np.cbrt(relative), relative / (3 * (6 / 29) ** 2) + 4 / 29
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def smallest_difference(colors, vision):
    """Smallest distance in CIELAB of two of the colors, as a reader of this vision sees them."""
    seen = np.array([lab(np.clip(VISION[vision] @ linear(color), 0, 1)) for color in colors])
    distances = np.linalg.norm(seen[:, None] - seen, axis=-1)
    return distances[np.triu_indices(len(colors), 1)].min()


def contrast(color, other):
    low, high = sorted(TO_XYZ[1] @ linear(x) for x in (color, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("vision", VISION)
def test_twelve_colors_are_distinct(vision):
    assert len(COLORS) == 12
    assert all(re.fullmatch("#[0-9A-F]{6}", color) for color in COLORS)
    assert smallest_difference(COLORS, vision) > LEAST_DIFFERENCE[vision]


@pytest.mark.parametrize("page", [WHITE, DARK])
def test_colors_are_visible_on_white_and_on_dark_pages(page):
    assert min(contrast(color, page) for color in COLORS) >= 2.5
    assert contrast("#F0E442" if page == WHITE else "#000080", page) < 2.5  # yellow, navy
    assert min(contrast(color, ink_on(color)) for color in COLORS) >= 4.5  # numbers on them


def test_from_the_thirteenth_component_on_the_line_style_changes():
    styles = component_styles(48)
    assert len(set(styles)) == 48
    assert styles[12] == (COLORS[0], "--")
    assert component_color(13) == COLORS[1]

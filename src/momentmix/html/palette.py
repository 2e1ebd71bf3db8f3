"""Colors of components: the same in pictures, reports and notebooks, on white and on dark pages."""

from __future__ import annotations

# The palette of Okabe and Ito for color-blind readers, without black and yellow, which are hard to
# see on dark and on white pages.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def component_color(component: int) -> str:
    """Color of a component by its number; colors repeat after the last."""
    return COLORS[component % len(COLORS)]


def ink_on(color: str) -> str:
    """Black or white, whichever is easier to read on a color: the larger contrast of WCAG."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#ffffff"

"""Colors of components: the same in pictures, reports and notebooks, on white and on dark pages."""

from __future__ import annotations

# The palette of Okabe and Ito for color-blind readers, without black and yellow, which are hard to
# see on dark and on white pages.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def component_color(component: int) -> str:
    """Color of a component by its number; colors repeat after the last."""
    return COLORS[component % len(COLORS)]

"""Colors of components: the same in pictures, reports and notebooks, on white and on dark pages."""

from __future__ import annotations

# The first six are close to the palette of Okabe and Ito, without black and yellow. The others were
# searched for: the smallest difference of two colors is as large as was found, also for readers who
# see no red or no green, with a contrast of at least 2.5 to white and to a dark page.
COLORS = (
    "#0072B2",  # blue
    "#D55E00",  # vermilion
    "#009E73",  # green
    "#CC79A7",  # pink
    "#E19300",  # orange
    "#4DADDF",  # sky blue
    "#8470FC",  # violet
    "#B12506",  # brick red
    "#016842",  # dark green
    "#FF496B",  # coral
    "#685561",  # gray
    "#3B8284",  # teal
)


def component_color(component: int) -> str:
    """Color of a component by its number; colors repeat after the last."""
    return COLORS[component % len(COLORS)]


def ink_on(color: str) -> str:
    """Black or white, whichever is easier to read on a color: the larger contrast of WCAG."""
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#ffffff"

"""Figures of matplotlib as small SVG that follow the light or dark scheme of the reader."""

from __future__ import annotations

import io
import re
import warnings
from functools import cache
from typing import Any
from urllib.parse import quote

_INK, _PAPER = 0x1B, 0xFF  # grays of text and page in the light scheme
_DARK_INK, _DARK_PAPER = 0xE8, 0x15  # and in the dark one
_DPI = 80  # of points
_MOST_POINTS = 200  # more of them are smaller as an image
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"

# Colors of axes and texts are grays, which the dark scheme mirrors. Text stays text: it is small,
# can be searched, and has letters that the font of matplotlib lacks.
SETTINGS = {
    "svg.hashsalt": "momentmix",
    "svg.fonttype": "none",
    "font.size": 10.0,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": "#8a8a8a",
    "axes.spines.top": False,
    "axes.titley": 1.0,  # the place of a title needs no search for what is in its way
    "axes.spines.right": False,
    "axes.labelcolor": "#1b1b1b",
    "text.color": "#1b1b1b",
    "xtick.color": "#8a8a8a",
    "xtick.labelcolor": "#1b1b1b",
    "ytick.color": "#8a8a8a",
    "ytick.labelcolor": "#1b1b1b",
    "legend.facecolor": "none",
    "legend.edgecolor": "#8a8a8a",
}
_GRAY = re.compile(r"#([0-9a-f]{2})\1\1\b")
_STYLE = re.compile(r'style="[^"]*"')
_DECIMALS = re.compile(r"\d+\.\d+")
_UNSAFE = re.compile(r"[^\w =:/;,.()+*'!?@$\[\]{}|^~-]+", re.ASCII)  # in the attribute of an image
_PATHS = re.compile(r' (?:d|x|y|transform)="[^"]*"')


def data_url(figure: Any) -> str:
    """The figure as a data URL."""
    for ax in figure.axes:
        _keep_colors(ax)
        for drawn in ax.collections:
            if len(drawn.get_offsets()) > _MOST_POINTS:
                drawn.set_rasterized(True)
    stream = io.StringIO()
    with warnings.catch_warnings():
        # Letters that the font lacks: the browser has other fonts.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None}, dpi=_DPI)
    escaped = _UNSAFE.sub(lambda found: _quote(found[0]), adapted(stream.getvalue()))
    return f"data:image/svg+xml,{escaped}"


_quote = cache(quote)


def _keep_colors(ax: Any) -> None:
    """Texts in boxes keep their gray: what lies below does not change."""
    from matplotlib.colors import to_rgb

    for drawn in (x for x in ax.texts if x.get_bbox_patch() is not None):
        rgb = to_rgb(drawn.get_color())
        if len(set(rgb)) == 1:
            level = round(255 * rgb[0])
            drawn.set_color(f"#{level:02x}{level:02x}{level - 1 if level else 1:02x}")


def adapted(svg: str) -> str:
    """The SVG without what browsers do not need, with grays that follow the reader's scheme."""
    start = svg.index("<svg")
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[start:], flags=re.DOTALL)
    svg = re.sub(r' transform="rotate\(-0 [^"]*"', "", svg)
    svg = re.sub(r' id="[\w.]+_\d+"', "", svg)  # numbers of elements, which nothing refers to
    svg = _PATHS.sub(lambda found: _rounded(found[0]), svg)
    svg = re.sub(r">\s+<", "><", svg)
    used: set[int] = set()

    def variable(found: re.Match[str]) -> str:
        used.add(int(found[1], 16))
        return f"var(--g{found[1]})"

    def restyled(found: re.Match[str]) -> str:
        style = re.sub(r"font-family: [^;\"]*;? ?", "", found[0])
        style = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", style)
        return _GRAY.sub(variable, style)

    svg = _STYLE.sub(restyled, svg)
    used.add(_INK)
    light = "".join(f"--g{level:02x}:#{level:02x}{level:02x}{level:02x};" for level in sorted(used))
    dark = "".join(f"--g{level:02x}:{_mirrored(level)};" for level in sorted(used))
    style = (
        f"<style>svg{{{light}}}text{{font-family:{FONT};fill:var(--g{_INK:02x})}}"
        f"@media (prefers-color-scheme:dark){{svg{{{dark}}}}}</style>"
    )
    place = svg.index(">") + 1
    return svg[:place] + style + svg[place:]


def _rounded(attribute: str) -> str:
    """Coordinates to a tenth of a point, lines joined."""
    attribute = _DECIMALS.sub(lambda found: f"{float(found[0]):.1f}", attribute)
    return re.sub(r"\.0\b", "", re.sub(r"\s+", " ", attribute)).replace(' "', '"')


def _mirrored(level: int) -> str:
    """The gray of the dark scheme: ink becomes ink, paper becomes paper."""
    share = (level - _INK) / (_PAPER - _INK)
    dark = round(_DARK_INK + share * (_DARK_PAPER - _DARK_INK))
    return f"#{max(0, min(255, dark)):02x}" + f"{max(0, min(255, dark)):02x}" * 2

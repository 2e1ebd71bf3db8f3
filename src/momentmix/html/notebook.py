"""HTML for notebooks: tables, colors of components, folded parts. Styles stand in the elements.

Notebooks show a fragment among others, on white or on dark, and keep neither style sheets nor
scripts. So text has the color of the page, and lines are half transparent.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from momentmix.errors import printable
from momentmix.html.palette import COLORS, component_color
from momentmix.wording import percent

_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"padding:.15em .7em .15em 0;text-align:left;vertical-align:top;border-bottom:{_LINE}"
_TONES = {"good": "#2e8b57", "bad": "#c0392b", "plain": "#7f8c8d"}


class Markup(str):
    """Text that is HTML already; other text is escaped."""


def _escaped(text: object) -> str:
    """Return text for HTML: markup and control characters are escaped."""
    return html.escape(printable(str(text)), quote=True)


def _element(tag: str, *parts: object, style: str = "", between: str = "") -> Markup:
    """Return an element; parts are escaped unless they are `Markup`."""
    inner = between.join(part if isinstance(part, Markup) else _escaped(part) for part in parts)
    start = f'{tag} style="{style}"' if style else tag
    return Markup(f"<{start}>{inner}</{tag}>")


def chip(component: int) -> Markup:
    """Return the number of a component in its color."""
    radius = 0.75 if component < len(COLORS) else 0  # square where colors repeat
    style = (
        f"display:inline-block;min-width:1.5em;text-align:center;border-radius:{radius}em;color:#fff;"
        f"background:{component_color(component)};font-weight:600;padding:0 .3em"
    )
    return _element("span", component, style=style)


def bar(share: float, component: int) -> Markup:
    """Return a share in percent, with a bar in the color of the component."""
    width = round(100 * min(max(share, 0.0), 1.0))
    style = (
        f"display:block;height:.35em;width:{width}%;min-width:1px;"
        f"background:{component_color(component)}"
    )
    own = _element("span", style=style)
    return _element("span", percent(share), own, style="display:inline-block;min-width:6em")


def tag(text: str, tone: str) -> Markup:
    """Return a word in a box: `tone` is "good", "bad" or "plain"."""
    style = f"background:{_TONES[tone]};color:#fff;border-radius:.3em;padding:.1em .5em"
    return _element("span", text, style=style)


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """Return a table without a style sheet."""
    head = (_element("th", text, style=_CELL) for text in headings)
    body = (_element("tr", *(_element("td", cell, style=_CELL) for cell in row)) for row in rows)
    parts = _element("thead", _element("tr", *head)), _element("tbody", *body)
    style = "border-collapse:collapse;color:inherit;background:transparent"
    return _element("table", *parts, style=style)


def folded(title: str, *parts: object) -> Markup:
    """Return parts that open on a click."""
    return _element("details", _element("summary", title, style="cursor:pointer"), *parts)


def paragraph(*parts: object) -> Markup:
    """Return parts in a line of their own."""
    return _element("div", *parts, between=" ")


def bullets(texts: Iterable[object]) -> Markup:
    """Return a list."""
    lines = (_element("li", text) for text in texts)
    return _element("ul", *lines, style="margin:.2em 0 .2em 1.2em")


def box(title: object, *parts: object) -> Markup:
    """Return a titled fragment."""
    style = "border-left:.25em solid rgba(128,128,128,.4);padding-left:.8em"
    return _element("div", _element("div", _element("strong", title)), *parts, style=style)

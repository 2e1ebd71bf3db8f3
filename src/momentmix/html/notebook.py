"""HTML for notebooks: tables, colors of components, folded parts. Styles stand in the elements.

Notebooks show a fragment among others, on white or on dark, and keep neither style sheets nor
scripts. So text has the color of the page, and lines are half transparent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from momentmix.html.markup import escaped
from momentmix.html.palette import component_color
from momentmix.wording import percent

_LINE = "1px solid rgba(128,128,128,.35)"
_CELL = f"padding:.15em .7em .15em 0;text-align:left;vertical-align:top;border-bottom:{_LINE}"
_TONES = {"good": "#2e8b57", "bad": "#c0392b", "plain": "#7f8c8d"}


class Markup(str):
    """Text that is HTML already; other text is escaped."""


def inner(value: object) -> str:
    """HTML of a value: escaped unless it is `Markup`."""
    return value if isinstance(value, Markup) else escaped(value)


def chip(component: int) -> Markup:
    """The number of a component in its color."""
    style = (
        f"display:inline-block;min-width:1.5em;text-align:center;border-radius:.75em;color:#fff;"
        f"background:{component_color(component)};font-weight:600;padding:0 .3em"
    )
    return Markup(f'<span style="{style}">{component}</span>')


def bar(share: float, component: int) -> Markup:
    """A share in percent, with a bar in the color of the component."""
    width = round(100 * min(max(share, 0.0), 1.0))
    style = (
        f"display:block;height:.35em;width:{width}%;min-width:1px;"
        f"background:{component_color(component)}"
    )
    return Markup(
        f'<span style="display:inline-block;min-width:6em">{escaped(percent(share))}'
        f'<span style="{style}"></span></span>'
    )


def tag(text: str, tone: str) -> Markup:
    """A word in a box: `tone` is "good", "bad" or "plain"."""
    style = f"background:{_TONES[tone]};color:#fff;border-radius:.3em;padding:.1em .5em"
    return Markup(f'<span style="{style}">{escaped(text)}</span>')


def plain_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> Markup:
    """A table without a style sheet."""
    head = "".join(f'<th style="{_CELL}">{escaped(text)}</th>' for text in headings)
    body = "".join(
        "<tr>" + "".join(f'<td style="{_CELL}">{inner(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return Markup(
        '<table style="border-collapse:collapse;color:inherit;background:transparent">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def folded(title: str, *parts: object) -> Markup:
    """Parts that open on a click."""
    text = "".join(inner(part) for part in parts)
    return Markup(
        f'<details><summary style="cursor:pointer">{escaped(title)}</summary>{text}</details>'
    )


def paragraph(*parts: object) -> Markup:
    """Parts in a line of their own."""
    return Markup(f"<div>{' '.join(inner(part) for part in parts)}</div>")


def bullets(texts: Iterable[object]) -> Markup:
    """A list."""
    return Markup(
        '<ul style="margin:.2em 0 .2em 1.2em">'
        + "".join(f"<li>{inner(text)}</li>" for text in texts)
        + "</ul>"
    )


def box(title: object, *parts: object) -> Markup:
    """A titled fragment."""
    text = "".join(inner(part) for part in parts)
    return Markup(
        f'<div style="border-left:.25em solid rgba(128,128,128,.4);padding-left:.8em">'
        f"<div><strong>{inner(title)}</strong></div>{text}</div>"
    )

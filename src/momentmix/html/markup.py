"""Functions that return HTML; they pass all text through `escaped`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from momentmix.errors import printable
from momentmix.html.palette import COLORS


class Markup(str):
    """Text that is HTML already; other text is escaped."""


def escaped(text: object) -> str:
    """Return text for HTML: markup and control characters are escaped."""
    return html.escape(printable(str(text)), quote=True)


class Cell(NamedTuple):
    """A cell of a table."""

    text: str  # not yet escaped
    aside: str = ""  # in small print after the text
    kind: str = ""  # CSS class; numbers need none


def text_cell(text: object, aside: str = "") -> Cell:
    """Return a cell that is aligned left."""
    return Cell(str(text), aside, "text")


def _cell(cell: Cell, start: str) -> str:
    kind = f' class="{cell.kind}"' if cell.kind else ""
    aside = f"<small>{escaped(cell.aside)}</small>" if cell.aside else ""
    return f"<{start}{kind}>{escaped(cell.text)}{aside}</{start[:2]}>"


def classes_of(component: int) -> str:
    """Return the classes of a component: its color and, where colors repeat, its mark."""
    turn, color = divmod(component, len(COLORS))
    return f"c{color} m{turn}" if turn else f"c{color}"


def chip(component: int) -> Markup:
    """Return the number of a component in its color, by classes of the style sheet."""
    return Markup(f'<span class="chip {classes_of(component)}">{component}</span>')


def bar(kind: str, share: float) -> str:
    """Return a bar of a class and share; the page forbids styles in elements."""
    width = 100 * min(max(share, 0.0), 1.0)
    box = 'viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"'
    rest = '<rect class="rest" width="100" height="4"/>'
    own = f'<rect class="{kind}" width="{width:.1f}" height="4"/>'
    return f'<svg class="bar" {box}>{rest}{own}</svg>'


def folded(title: str, *parts: str, name: str = "") -> str:
    """Return parts that open on a click."""
    start = f'<details id="{name}">' if name else "<details>"
    inner = "\n".join(parts)
    return f"{start}<summary>{escaped(title)}</summary>\n{inner}\n</details>"


def table(name: str, caption: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """Return a table in a box that scrolls; the first cell of each row is its heading."""
    rows = list(rows)
    kinds = [' class="text"' if cell.kind == "text" else "" for cell in rows[0]]
    texts = (text if isinstance(text, Markup) else escaped(text) for text in headings)
    pairs = zip(texts, kinds, strict=True)
    head = "".join(f'<th scope="col"{kind}>{text}</th>' for text, kind in pairs)
    starts = ['th scope="row"'] + ["td"] * (len(headings) - 1)
    body = "\n".join(f"<tr>{''.join(map(_cell, row, starts))}</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(caption)}">\n'
        f'<table id="{name}"><caption>{escaped(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def definition_table(name: str, caption: str, entries: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and values."""
    body = "\n".join(
        f'<tr><th scope="row" class="text">{escaped(key)}</th>'
        f'<td class="long">{escaped(value)}</td></tr>'
        for key, value in entries
    )
    return (
        f'<div class="scroll"><table id="{name}"><caption>{escaped(caption)}</caption>\n'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def items(texts: Iterable[str]) -> str:
    """Return a list of texts."""
    return "<ul>" + "".join(f"<li>{escaped(text)}</li>" for text in texts) + "</ul>"

"""Functions that return HTML; they pass all text through `escaped`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from momentmix.errors import printable
from momentmix.html.palette import COLORS

_MOST_NARROW = 4  # columns of a table that fit on a phone; cells of wider ones stand in lines


def escaped(text: object) -> str:
    """Return text for HTML: markup and control characters are escaped."""
    return html.escape(printable(str(text)), quote=True)


@dataclass(frozen=True)
class Cell:
    """A cell of a table."""

    text: str  # not yet escaped
    value: float | str  # to sort by; floats in full precision
    aside: str = ""  # in small print after the text
    chip: int | None = None  # number of a component, in its color before the text
    # Width of the space after the text, in digits, so that decimal points are aligned; that of a
    # point is added where the text has none.
    digits_after: int = 0


def _kind(cell: Cell) -> str:
    """Return the CSS class of a cell: text is aligned left."""
    return ' class="text"' if isinstance(cell.value, str) else ""


def _cell(cell: Cell, start: str, label: str) -> str:
    start += f' data-value="{escaped(cell.value)}"{_kind(cell)}'
    start += f' data-label="{escaped(label)}"' if label else ""
    aside = f' <span class="interval">{escaped(cell.aside)}</span>' if cell.aside else ""
    space = "&#x2007;" * cell.digits_after
    space += "&#x2008;" if space and "." not in cell.text else ""
    own = "" if cell.chip is None else chip(cell.chip)
    return f"<{start}>{own}{escaped(cell.text)}{space}{aside}</{start[:2]}>"


def chip(component: int) -> str:
    """Return the number of a component in its color, by a class of the style sheet."""
    return f'<span class="chip c{component % len(COLORS)}">{component}</span>'


def folded(title: str, *parts: str, name: str = "") -> str:
    """Return parts that open on a click."""
    start = f'<details id="{name}">' if name else "<details>"
    inner = "\n".join(parts)
    return f"{start}<summary>{escaped(title)}</summary>\n{inner}\n</details>"


def sortable_table(
    name: str, caption: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> str:
    """Return a table in a box; the first cell of each row is its heading.

    A table of more than four columns has the class ``stack``, and its cells carry their headings,
    so that a style sheet can set them in lines on a narrow page.
    """
    rows = list(rows)
    head = "".join(
        f'<th scope="col"{_kind(cell)}>{escaped(heading)}</th>'
        for heading, cell in zip(headings, rows[0], strict=True)
    )
    is_wide = len(headings) > _MOST_NARROW
    labels = headings if is_wide else [""] * len(headings)
    starts = ['th scope="row"'] + ["td"] * (len(headings) - 1)
    body = "\n".join(f"<tr>{''.join(map(_cell, row, starts, labels))}</tr>" for row in rows)
    kind = "sortable stack" if is_wide else "sortable"
    return (
        f'<div class="scroll box" tabindex="0" role="region" aria-label="{escaped(caption)}">\n'
        f'<table class="{kind}" id="{name}"><caption>{escaped(caption)}</caption>\n'
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

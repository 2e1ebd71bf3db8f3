"""Functions that return HTML; they pass all text through `escaped`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from momentmix.errors import printable
from momentmix.html.palette import COLORS

_MOST_NARROW = 4  # columns of a table that fit on a phone; cells of wider ones stand in lines


def escaped(text: object) -> str:
    """Text for HTML: markup and control characters are escaped."""
    return html.escape(printable(str(text)), quote=True)


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text : str
        Text to show, not yet escaped.
    value : float or str
        Value to sort by; floats in full precision.
    aside : str
        Shown in small print after the text.
    chip : int or None
        Number of a component, shown in its color before the text.
    digits_after : int
        Width of the space after the text, in digits, so that decimal points are aligned; that of
        a point is added where the text has none.
    """

    text: str
    value: float | str
    aside: str = ""
    chip: int | None = None
    digits_after: int = 0

    @classmethod
    def number(cls, value: float, digits: int) -> Cell:
        """A number; nothing for NaN."""
        return cls("" if value != value else f"{value:.{digits}g}", float(value))


def _kind(cell: Cell) -> str:
    """CSS class of a cell: text is aligned left."""
    return ' class="text"' if isinstance(cell.value, str) else ""


def _cell(cell: Cell, column: int, label: str = "") -> str:
    value = repr(cell.value) if isinstance(cell.value, float) else cell.value
    attributes = f' data-value="{escaped(value)}"{_kind(cell)}'
    attributes += f' data-label="{escaped(label)}"' if label else ""
    aside = f' <span class="interval">{escaped(cell.aside)}</span>' if cell.aside else ""
    space = "&#x2007;" * cell.digits_after
    space += "&#x2008;" if space and "." not in cell.text else ""
    inner = ("" if cell.chip is None else chip(cell.chip)) + escaped(cell.text) + space + aside
    if column == 0:
        return f'<th scope="row"{attributes}>{inner}</th>'
    return f"<td{attributes}>{inner}</td>"


def chip(component: int) -> str:
    """The number of a component in its color; the style sheet has a class for each color."""
    return f'<span class="chip c{component % len(COLORS)}">{component}</span>'


def folded(title: str, *parts: str, name: str = "") -> str:
    """Parts that open on a click."""
    inner = "\n".join(part for part in parts if part)
    identifier = f' id="{name}"' if name else ""
    return f"<details{identifier}><summary>{escaped(title)}</summary>\n{inner}\n</details>"


def sortable_table(
    name: str, caption: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> str:
    """A table in a box; the first cell of each row is its heading.

    A table of more than four columns has the class ``stack``, and its cells carry their headings,
    so that a style sheet can set them in lines on a narrow page.
    """
    rows = list(rows)
    kinds = [_kind(cell) for cell in rows[0]]
    head = "".join(
        f'<th scope="col"{kind}>{escaped(heading)}</th>'
        for heading, kind in zip(headings, kinds, strict=True)
    )
    is_wide = len(headings) > _MOST_NARROW
    labels = headings if is_wide else [""] * len(headings)
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, i, labels[i]) for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    kind = "sortable stack" if is_wide else "sortable"
    return (
        f'<div class="scroll box" tabindex="0" role="region" aria-label="{escaped(caption)}">\n'
        f'<table class="{kind}" id="{name}"><caption>{escaped(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def definition_table(name: str, caption: str, entries: Iterable[tuple[str, object]]) -> str:
    """A table of names and values."""
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
    """A list of texts."""
    return "<ul>" + "".join(f"<li>{escaped(text)}</li>" for text in texts) + "</ul>"


def section(name: str, heading: str, *parts: str) -> str:
    """A section of the page with its heading."""
    inner = "\n".join(part for part in parts if part)
    return (
        f'<section id="{name}" aria-labelledby="{name}-heading">\n'
        f'<h2 id="{name}-heading">{escaped(heading)}</h2>\n{inner}\n</section>'
    )

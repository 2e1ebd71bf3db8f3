"""Pieces of HTML; every text that comes from outside passes through `escaped`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from momentmix.errors import printable

__all__ = ["Cell", "definition_table", "escaped", "items", "section", "sortable_table"]

_MOST_PRINTED = 8  # columns of a table on paper


def escaped(text: object) -> str:
    """Text that a browser shows as it is: markup disarmed, control characters written out."""
    return html.escape(printable(str(text)), quote=True)


@dataclass(frozen=True)
class Cell:
    """A cell of a table.

    Attributes
    ----------
    text : str
        As shown, not yet escaped.
    value : float or str
        To sort by; floats in full precision.
    aside : str
        Shown smaller behind the text.
    """

    text: str
    value: float | str
    aside: str = ""

    @classmethod
    def number(cls, value: float, low: float | None = None, high: float | None = None) -> Cell:
        """A number, with the interval it lies in where that is known."""
        known = low is not None and high is not None and low == low and high == high
        aside = f"({low:.5g} … {high:.5g})" if known else ""
        return cls(f"{value:.5g}", float(value), aside)


def _kind(cell: Cell, column: int) -> str:
    """Class of a cell: text to the left; columns that paper has no room for."""
    if isinstance(cell.value, str):
        return ' class="text"'
    return ' class="wide"' if column >= _MOST_PRINTED else ""


def _cell(cell: Cell, column: int) -> str:
    value = repr(cell.value) if isinstance(cell.value, float) else cell.value
    attributes = f' data-value="{escaped(value)}"{_kind(cell, column)}'
    aside = f' <span class="interval">{escaped(cell.aside)}</span>' if cell.aside else ""
    inner = escaped(cell.text) + aside
    if column == 0:
        return f'<th scope="row"{attributes}>{inner}</th>'
    return f"<td{attributes}>{inner}</td>"


def sortable_table(
    name: str, caption: str, headings: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> str:
    """A table in a box that scrolls by itself; the first cell of each row is its heading."""
    rows = list(rows)
    kinds = [_kind(cell, i) for i, cell in enumerate(rows[0])]
    head = "".join(
        f'<th scope="col"{kind}>{escaped(heading)}</th>'
        for heading, kind in zip(headings, kinds, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, i) for i, cell in enumerate(row)) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll box" tabindex="0" role="region" aria-label="{escaped(caption)}">\n'
        f'<table class="sortable" id="{name}"><caption>{escaped(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    )


def definition_table(name: str, caption: str, entries: Iterable[tuple[str, object]]) -> str:
    """Names and values, one pair to a line."""
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
    """A part of the page with its heading."""
    inner = "\n".join(part for part in parts if part)
    return (
        f'<section id="{name}" aria-labelledby="{name}-heading">\n'
        f'<h2 id="{name}-heading">{escaped(heading)}</h2>\n{inner}\n</section>'
    )

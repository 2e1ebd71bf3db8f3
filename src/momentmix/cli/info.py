"""The command: which kind of file it is, and its facts as text or JSON."""

from __future__ import annotations

from typing import Any

import click

from momentmix.cli.options import delimiter_option, header_option, json_option
from momentmix.cli.output import say, say_json
from momentmix.errors import printable
from momentmix.wording import cut

_LARGE = 1e15
_WIDEST = 40  # letters of a cell of text


@click.argument("file")
@delimiter_option
@header_option
@json_option
def info_command(file: str, delimiter: str | None, header: bool | None, as_json: bool) -> None:
    """Print the contents of a file.

    A summary, a cube, a model, a schema, or data. Nothing is fitted, and of data only the first
    rows are read.
    """
    from momentmix.cli.file_facts import facts_of

    facts = facts_of(file, delimiter, header)
    if as_json:
        say_json(facts)
    else:
        say(*_lines(facts))


# -- text -------------------------------------------------------------------------------------


def _lines(facts: dict[str, Any]) -> list[str]:
    """Facts that are known, one in a line, and a table of the columns; dicts are for JSON."""
    shown = ((k, v) for k, v in facts.items() if k != "columns" and not isinstance(v, dict))
    known = {k: v for k, v in shown if v not in (None, [])}
    width = max(map(len, known))
    lines = []
    for name, value in known.items():
        # sentences and names of files have lines of their own
        texts = value if isinstance(value, list) and isinstance(value[0], str) else [value]
        for i, text in enumerate(texts):
            label = "" if i else name.replace("_", " ")
            lines.append(f"{label:<{width}}  {_text(text)}")
    return [*lines, "", *_table(facts["columns"])] if facts["columns"] else lines


def _table(columns: list[dict[str, Any]]) -> list[str]:
    """A line for each column of the data, without facts that none of them has."""
    names = [name for name in columns[0] if any(c[name] not in (None, []) for c in columns)]
    cells = [[name] + [cut(_text(_cell(c, name)), _WIDEST) for c in columns] for name in names]
    is_number = [any(isinstance(c[name], float) for c in columns) for name in names]
    padded = [
        [f"{x:>{max(map(len, texts))}}" if right else f"{x:<{max(map(len, texts))}}" for x in texts]
        for texts, right in zip(cells, is_number, strict=True)
    ]
    return ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]


def _cell(column: dict[str, Any], name: str) -> Any:
    """A fact of a column; its name is that of its logarithm where means are those of it."""
    from momentmix.families.family import named

    if name == "name" and "mean" in column and named(column["family"]).transform:
        return f"{column['family']} {column['name']}"
    return column[name]


def _text(value: Any) -> str:
    """A value for people."""
    if value is None or value == []:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return f"{value:,.0f}" if abs(value) < _LARGE else f"{value:.5g}"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return printable(str(value))

"""``momentmix schema``: what the columns of a table are, as a file that people can edit."""

from __future__ import annotations

from typing import Any

import click

from momentmix.cli.files import check_output, rows_source, say, say_json, say_notes
from momentmix.cli.options import families_option, json_option, output_option, table_options
from momentmix.progress import step
from momentmix.tables.learning import recorded, table_rows
from momentmix.tables.opening import Reading
from momentmix.tables.schema import Schema
from momentmix.wording import aligned, cut

_WIDEST = 60  # characters of the levels that are printed


@click.command("schema")
@click.argument("inputs", nargs=-1, required=True)
@output_option("File of the schema (.json).")
@json_option
@families_option
@table_options
def schema_command(
    inputs: tuple[str, ...], output: str | None, as_json: bool, families: Any, reading: Reading
) -> None:
    """Print the kind of each column of a table, and write them to a file.

    The file fixes families and levels, so that summaries of shards can be added up. Edit it, and
    give it to `summarize` and `fit` with --schema. "has_missing": true makes missing cells part of
    the model; a pass over the rows finds the columns that have some.

    \b
    momentmix schema table.csv -o schema.json
    """  # noqa: D301, click does not rewrap what follows a backspace
    check_output(output, inputs, ".json")
    with step("Reading columns"):
        rows = table_rows(rows_source(inputs), families, "model", reading)
        schema = recorded(rows, reading)
    if output is not None:
        schema.save(output)
    if as_json:
        say_json({"output": output, **schema.to_dict(), "notes": list(rows.notes)})
        return
    say(*schema_table(schema))
    say_notes(rows.notes)
    if output is not None:
        say(f"schema written to {output}")


def schema_table(schema: Schema) -> list[str]:
    """A line for each column."""
    lines = [["column", "family", "missing", "levels"]]
    for number, column in enumerate(schema.columns):
        name = str(number) if column.name is None else column.name
        levels = cut(", ".join(map(str, column.levels)), _WIDEST)
        levels += f" ({len(column.levels)} levels)" if levels.endswith("…") else ""
        lines.append([name, column.family_name, "yes" if column.has_missing else "no", levels])
    return aligned(lines)

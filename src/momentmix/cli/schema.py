"""``momentmix schema``: what the columns of a table are, as a file that people can edit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import ReadOptions, data_options, families_options, output_options
from momentmix.cli.output import Target, say, say_json, say_notes
from momentmix.progress import step

if TYPE_CHECKING:
    from momentmix.tables.schema import Schema

_WIDEST = 60  # characters of the levels that are printed


@click.argument("inputs", nargs=-1, required=True)
@output_options("File of the schema (JSON).", quiet=True)
@families_options
@partial(data_options, missing="model")
def schema_command(
    inputs: tuple[str, ...],
    target: Target,
    families: Any,
    read_options: ReadOptions,
) -> None:
    """Print the kind of each column of a table, and write them to a file.

    The file fixes families and levels, so that summaries of shards can be added up. Edit it, and
    give it to `summarize` and `fit` with --schema. "has_missing": true makes missing cells part of
    the model. A pass over the rows finds the columns that have some; with --missing error or drop
    they are not looked for.
    """
    from momentmix.tables.learning import learn

    output = target.path
    if output is not None:
        target.check(inputs, "give a file to --output; --json prints the schema.")
    with step("Reading columns"):
        rows = learn(read_options.open(inputs), families, read_options.missing)
    if output is not None:
        rows.learned.save(output)
    if target.as_json:
        say_json({"output": output, **rows.learned.to_dict(), "notes": list(rows.notes)})
        return
    say(*_table(rows.learned, "no" if read_options.missing == "model" else "unknown"))
    if not target.quiet:
        say_notes(rows.notes)
    if output is not None:
        say(f"schema written to {output}")


def _table(schema: Schema, complete: str) -> list[str]:
    """A line for each column; `complete` is printed for columns without missing cells."""
    names = [str(i) if c.name is None else c.name for i, c in enumerate(schema.columns)]
    width = max(6, *(len(name) for name in names))
    lines = [f"{'column':<{width}}  {'family':<12}  {'missing':<8}  levels"]
    for name, column in zip(names, schema.columns, strict=True):
        levels = ", ".join(map(str, column.levels))
        if len(levels) > _WIDEST:
            levels = f"{levels[:_WIDEST]}… ({len(column.levels)} levels)"
        missing = "yes" if column.has_missing else complete
        family = column.family_name
        lines.append(f"{name:<{width}}  {family:<12}  {missing:<8}  {levels}".rstrip())
    return lines

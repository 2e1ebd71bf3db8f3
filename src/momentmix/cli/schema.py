"""``momentmix schema``: what the columns of a table are, as a file that people can edit."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import (
    ReadOptions,
    data_options,
    families_options,
    force_option,
    json_option,
    quiet_option,
)
from momentmix.cli.output import check_output, say, say_json
from momentmix.findings.messages import in_shell
from momentmix.progress import step

if TYPE_CHECKING:
    from momentmix.tables.schema import Schema

_WIDEST = 60  # characters of the levels that are printed


@click.command("schema", short_help="What the columns are: families and levels, to edit.")
@click.argument("inputs", nargs=-1, required=True)
@click.option("-o", "--output", help="File of the schema (JSON), for --schema of other commands.")
@click.option(
    "--rare",
    type=click.FloatRange(min=0, max=1, max_open=True),
    default=0.0,
    help="Join levels of text with a smaller share of the rows into one level, 'other', which also "
    "takes texts that come later.",
)
@families_options
@partial(data_options, missing="model")
@force_option
@quiet_option
@json_option
def schema_command(
    inputs: tuple[str, ...],
    output: str | None,
    rare: float,
    families: Any,
    read_options: ReadOptions,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Print what each column of a table is taken as, and write it to a file.

    The file fixes families and levels, so that summaries of shards can be added up. Edit it, and
    give it to `summarize` and `fit` with --schema. "has_missing": true makes missing cells part of
    the model. A pass over the rows finds the columns that have some; with --missing error or drop
    they are not looked for.
    """
    from momentmix.tables.learning import learn

    if output is not None:
        if output == "-":
            raise click.UsageError("give a file to --output; --json prints the schema.")
        check_output(output, inputs, force)
    with step("Reading columns"):
        rows = learn(read_options.open(inputs), families, read_options.missing, rare)
    if output is not None:
        rows.learned.save(output)
    if as_json:
        say_json({"output": output, **rows.learned.to_dict(), "notes": list(rows.notes)})
        return
    say(*_table(rows.learned, "no" if read_options.missing == "model" else "unknown"))
    if not quiet:
        say(*(f"note: {in_shell(note)}" for note in rows.notes), err=True)
    if output is not None:
        say(f"schema written to {output}")


def _table(schema: Schema, complete: str) -> list[str]:
    """A line for each column; `complete` is printed where the schema knows of no missing cell."""
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

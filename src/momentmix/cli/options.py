"""Options that several commands share, each declared once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any

import click

from momentmix.tables.opening import Reading

Command = Callable[..., Any]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
where_option = click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Groups of a cube: week=2026-01-05, store=3..17.",
)
rollup_option = click.option(
    "--rollup", metavar="KEYS", help="Merge groups of a cube that agree in these."
)
seed_option = click.option(
    "--seed", metavar="N", type=click.IntRange(min=0), default=0, help="Seed of the random numbers."
)


def output_option(help: str, **options: Any) -> Callable[[Command], Command]:
    """-o with this help."""
    return click.option("-o", "--output", help=help, **options)


def missing_option(default: str | None) -> Callable[[Command], Command]:
    """--missing with this default."""
    return click.option(
        "--missing",
        metavar="POLICY",
        type=click.Choice(["error", "drop", "mar", "model"]),
        default=default,
        help="Missing cells: error, drop their rows, mar (at random), or model (informative).",
    )


def split(text: str | None) -> list[str] | None:
    """The parts of a text between commas."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def _column(text: str) -> str | int:
    # More than 18 digits can only be a name.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def parse_columns(text: str | None) -> list[str | int] | None:
    """Names and numbers of columns, separated by commas."""
    return None if text is None else list(map(_column, split(text) or []))


def columns_option(name: str, help: str) -> Callable[[Command], Command]:
    """An option that takes columns by name or number, separated by commas."""
    return click.option(name, callback=lambda *given: parse_columns(given[-1]), help=help)


_CSV_OPTIONS = (
    click.option(
        "--na-values",
        callback=lambda *given: split(given[-1]),
        help="Texts of missing cells in CSV, in place of NA, …",
    ),
    click.option(
        "--delimiter",
        callback=lambda *given: "\t" if given[-1] in ("\\t", "tab") else given[-1],
        help="Character between fields of CSV; default: comma.",
    ),
    click.option("--decimal", default=".", help="Decimal character of CSV."),
    click.option(
        "--header/--no-header", default=None, help="Whether the first line has names; guessed."
    ),
)
_COLUMN_OPTIONS = (
    columns_option("--columns", "Columns to use: names, patterns (A*) or numbers."),
    columns_option("--exclude", "Columns to leave out."),
)


def _collected(command: Command, *options: Callable[[Command], Command]) -> Command:
    """A command with options that become one argument, `reading`."""

    @wraps(command)
    def with_reading(**values: Any) -> Any:
        names = [field.name for field in fields(Reading) if field.name in values]
        reading = Reading(**{name: values.pop(name) for name in names})
        return command(reading=reading, **values)

    made: Command = with_reading
    for option in reversed(options):
        made = option(made)
    return made


def csv_options(command: Command) -> Command:
    """Add options that say how CSV is read."""
    return _collected(command, *_CSV_OPTIONS)


def table_options(command: Command) -> Command:
    """Add options that choose columns, and say how CSV is read."""
    return _collected(command, *_COLUMN_OPTIONS, *_CSV_OPTIONS)


def _families(context: Any, option: Any, text: str | None) -> dict[str | int, str] | None:
    """Families by name or number of a column, separated by commas."""
    families: dict[str | int, str] = {}
    for part in split(text) or []:
        column, _, family = (x.strip() for x in part.rpartition("="))
        if not column or not family:
            raise click.BadParameter(
                f"columns and their families, as in 'income=log,plan=categorical'; got {part!r}."
            )
        families[_column(column)] = family
    return families or None


families_option = click.option(
    "--families", callback=_families, help="As in 'plan=categorical,A*=log'; others guessed."
)


def families_options(command: Command) -> Command:
    """Add options that say what columns are; the command gets `families`: dict, schema or None."""

    @wraps(command)
    def chosen(families: Any, schema: str | None, **values: Any) -> Any:
        if schema is not None:
            from momentmix.tables.schema import Schema

            if families is not None:
                raise click.UsageError(
                    "give --schema or --families, not both: a schema has families."
                )
            families = Schema.load(schema)
        return command(families=families, **values)

    help = "File of `momentmix schema`, with families and levels."
    return families_option(click.option("--schema", help=help)(chosen))

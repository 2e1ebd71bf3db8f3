"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from momentmix.rows.source import RowSource

__all__ = [
    "by_name_option",
    "data_options",
    "force_option",
    "json_option",
    "open_inputs",
    "parse_columns",
    "quiet_option",
    "seed_option",
]

Command = Callable[..., Any]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
force_option = click.option("--force", is_flag=True, help="Replace the output if it exists.")
by_name_option = click.option(
    "--by-name", is_flag=True, help="Files with equal contents are different data."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress, no notes.")
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Same seed, same bits."
)


def data_options(command: Command) -> Command:
    """Options of a command that reads rows."""
    options = [
        click.option(
            "--columns",
            help="Columns to take, by name or number from 0, separated by commas; all by default.",
        ),
        click.option(
            "--missing",
            type=click.Choice(["error", "drop"]),
            default="error",
            show_default=True,
            help="What to do with rows that hold missing or infinite values.",
        ),
        click.option("--delimiter", help="Between the fields of CSV; by default a comma."),
        click.option(
            "--decimal", default=".", show_default=True, help="Decimal character of CSV."
        ),
        click.option("--thousands", help="Between groups of digits in CSV, as in 17,405."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def parse_columns(text: str | None) -> list[str | int] | None:
    """Names and numbers from the text of ``--columns``."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if _is_number(part) else part for part in parts if part]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19  # a number of a column, not a name


def _dialect(delimiter: str | None, decimal: str, thousands: str | None) -> dict[str, Any]:
    """Options for CSV as `open_rows` takes them; an impossible one is wrong use."""
    from momentmix.errors import InputError
    from momentmix.rows.csv.dialect import Dialect

    if delimiter in ("\\t", "tab"):
        delimiter = "\t"
    try:
        return asdict(Dialect(delimiter, decimal, thousands))
    except InputError as error:
        raise click.UsageError(str(error)) from None


def open_inputs(
    inputs: tuple[str, ...],
    columns: str | None,
    missing: Any,
    delimiter: str | None,
    decimal: str,
    thousands: str | None,
    expected: tuple[str, ...] | None = None,
    by_name: bool = False,
) -> RowSource:
    """The rows that a command's arguments name; ``-`` is standard input.

    Without `columns` the expected names are taken where the input has names.
    """
    from momentmix.errors import NoInputError
    from momentmix.rows.opening import open_rows

    source: Any = list(inputs)
    if "-" in inputs:
        if len(inputs) > 1:
            raise click.UsageError("standard input (-) cannot be combined with files.")
        if sys.stdin is None:
            raise NoInputError("standard input is closed; give a file, or pipe rows to -.")
        source = sys.stdin.buffer
    wanted = parse_columns(columns)
    dialect = _dialect(delimiter, decimal, thousands)
    return open_rows(source, wanted, missing, expected=expected, by_name=by_name, **dialect)

"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from momentmix.sources.source import RowSource

__all__ = [
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


def _character(name: str, text: str | None) -> str | None:
    if text is None:
        return None
    text = {"\\t": "\t", "tab": "\t"}.get(text, text)
    if len(text) != 1:
        raise click.BadParameter(f"expected one character; got {text!r}.", param_hint=name)
    return text


def open_inputs(
    inputs: tuple[str, ...],
    columns: str | None,
    missing: Any,
    delimiter: str | None,
    decimal: str,
    expected: tuple[str, ...] | None = None,
) -> RowSource:
    """The rows that a command's arguments name; ``-`` is standard input.

    Without `columns` the expected names are taken where the input has names.
    """
    from momentmix.sources.opening import open_rows

    source: Any = list(inputs)
    if "-" in inputs:
        if len(inputs) > 1:
            raise click.UsageError("standard input (-) cannot be combined with files.")
        source = sys.stdin.buffer
    wanted = parse_columns(columns)
    delimiter, point = _character("--delimiter", delimiter), _character("--decimal", decimal)
    if point == (delimiter or ","):
        raise click.UsageError(
            f"--delimiter and --decimal must differ; both are {point!r}. Pass --delimiter ';'."
        )
    return open_rows(
        source, wanted, missing, expected=expected, delimiter=delimiter, decimal=point or "."
    )

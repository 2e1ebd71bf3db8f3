"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, cast

import click

if TYPE_CHECKING:
    from momentmix.rows.source import RowSource


Command = Callable[..., Any]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
force_option = click.option("--force", is_flag=True, help="Replace the output if it exists.")
by_name_option = click.option(
    "--by-name", is_flag=True, help="Accept files with equal contents as different data."
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print no progress and no notes.")
seed_option = click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Random seed; the same seed gives the same result, bit for bit.",
)


@dataclass(frozen=True)
class ReadOptions:
    """How the rows of a command are read: the values of the options of `data_options`.

    Attributes
    ----------
    columns : list of str or int, or None
        Columns to use, by name or number; None for all.
    missing : {"error", "drop", "model"}
    delimiter, decimal, thousands : str or None
        Characters of CSV.
    """

    columns: list[str | int] | None
    missing: Any
    delimiter: str | None
    decimal: str
    thousands: str | None

    def open(
        self,
        inputs: tuple[str, ...],
        expected: tuple[str, ...] | None = None,
        by_name: bool = False,
    ) -> RowSource:
        """The rows that a command's arguments name; ``-`` is standard input.

        Without columns, those named `expected` are used where the input has names.
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
        options = {"expected": expected, "by_name": by_name, **self._dialect()}
        return open_rows(source, self.columns, self.missing, **options)

    def _dialect(self) -> dict[str, Any]:
        """Options for CSV as `open_rows` takes them; an impossible one is a usage error."""
        from momentmix.errors import InputError
        from momentmix.rows.csv.dialect import Dialect

        delimiter = "\t" if self.delimiter in ("\\t", "tab") else self.delimiter
        try:
            return asdict(Dialect(delimiter, self.decimal, self.thousands))
        except InputError as error:
            raise click.UsageError(str(error)) from None


def data_options(command: Command) -> Command:
    """Options of a command that reads rows; the command gets them as `read_options`."""

    @wraps(command)
    def collected(**values: Any) -> Any:
        chosen = {field.name: values.pop(field.name) for field in fields(ReadOptions)}
        chosen["columns"] = parse_columns(chosen["columns"])
        return command(read_options=ReadOptions(**chosen), **values)

    options = [
        click.option(
            "--columns",
            help="Columns to use, by name or number from 0, separated by commas; all by default.",
        ),
        click.option(
            "--missing",
            type=click.Choice(["error", "drop", "model"]),
            default="error",
            show_default=True,
            help="What to do with rows that contain missing or infinite values. model: missing "
            "cells are part of the model; a model that knows of missing cells takes them.",
        ),
        click.option("--delimiter", help="Character between the fields of CSV; default: comma."),
        click.option(
            "--decimal", default=".", show_default=True, help="Decimal character of CSV."
        ),
        click.option("--thousands", help="Character between groups of digits, as in 17,405."),
    ]  # fmt: skip
    for option in reversed(options):
        collected = option(collected)
    return collected


families_option = click.option(
    "--families",
    help="Families of columns that are not Gaussian within components, as in "
    "'visits=poisson,member=bernoulli,plan=categorical'; log or log1p where the logarithm is "
    "Gaussian, as in 'income=log'. Columns hold numbers, and levels are integers.",
)


def parse_families(text: str | None) -> dict[str | int, str] | None:
    """Families by name or number of a column, from a list separated by commas."""
    if text is None:
        return None
    families: dict[str | int, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        column, _, family = (x.strip() for x in part.rpartition("="))
        if not column or not family:
            raise click.UsageError(
                "--families takes columns and their families, as in 'visits=poisson,plan="
                f"categorical'; got {part!r}."
            )
        families[int(column) if _is_column_number(column) else column] = family
    return families


def parse_columns(text: str | None) -> list[str | int] | None:
    """Names and numbers from a list separated by commas."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    return [int(part) if _is_column_number(part) else part for part in parts if part]


def parse_blocks(text: str | None) -> list[list[str | int]] | Literal["auto", "full"] | None:
    """Blocks of columns, separated by semicolons; "auto" and "full" as they are."""
    if text is None or text == "auto" or text == "full":
        return cast(Literal["auto", "full"] | None, text)
    blocks = [parse_columns(part) or [] for part in text.rstrip("; ").split(";")]
    if not all(blocks):
        raise click.UsageError(
            "--blocks takes columns separated by commas and blocks separated by semicolons, as in "
            f"'length,width;x,y'; got {text!r}."
        )
    return blocks


def _is_column_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19  # longer digits can only be a name

"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from momentmix.findings.messages import in_shell

if TYPE_CHECKING:
    from momentmix.tables.opening import Reading
    from momentmix.tables.table_rows import TableRows


Command = Callable[..., Any]

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
force_option = click.option("--force", is_flag=True, help="Replace the output if it exists.")
by_name_option = click.option(
    "--by-name", is_flag=True, help="Accept files with equal contents as different data."
)
quiet_option = click.option(
    "-q", "--quiet", is_flag=True, help="Show no progress bar, print no notes."
)
header_option = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line of CSV or Excel holds the names of the columns, or is a row; by "
    "default as it seems.",
)
where_option = click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Of cubes: take the groups with this value of a key, or with values in a range, as in "
    "week=2026-01-05..2026-03-30. Can be given more than once.",
)
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
    columns, exclude : list of str or int, or None
        Columns to use or to leave out, by name or number.
    numeric_only : bool
    missing : {"error", "drop", "model"}
    na_values : list of str, or None
    delimiter, decimal, thousands : str or None
        Characters of CSV.
    header : bool or None
        Whether the first line holds names.
    """

    columns: list[str | int] | None
    exclude: list[str | int] | None
    numeric_only: bool
    missing: Any
    na_values: list[str] | None
    delimiter: str | None
    decimal: str
    thousands: str | None
    header: bool | None

    def source(self, inputs: tuple[str, ...]) -> Any:
        """What a command's arguments name: paths, or standard input for ``-``."""
        from momentmix.errors import NoInputError

        if "-" not in inputs:
            return list(inputs)
        if len(inputs) > 1:
            raise click.UsageError("standard input (-) cannot be combined with files.")
        if sys.stdin is None:
            raise NoInputError("standard input is closed; give a file, or pipe rows to -.")
        return sys.stdin.buffer

    def open(
        self,
        inputs: tuple[str, ...],
        expected: tuple[str, ...] | None = None,
        by_name: bool = False,
    ) -> TableRows:
        """The rows that a command's arguments name.

        Without columns, those named `expected` are used where the input has names.
        """
        return self.reading(by_name).open(self.source(inputs), self.missing, expected=expected)

    def reading(self, by_name: bool = False) -> Reading:
        """The options as `fit` and `summarize` take them; impossible ones are usage errors."""
        from momentmix.errors import InputError
        from momentmix.tables.opening import Reading

        options = {name: value for name, value in asdict(self).items() if name != "missing"}
        if self.delimiter in ("\\t", "tab"):
            options["delimiter"] = "\t"
        reading = Reading(**options, by_name=by_name)
        try:
            reading.dialect  # noqa: B018 - is checked
        except InputError as error:
            raise click.UsageError(in_shell(error)) from None
        return reading


def data_options(command: Command, missing: str = "error") -> Command:
    """Options of a command that reads rows; the command gets them as `read_options`.

    `missing` is the default of --missing.
    """

    @wraps(command)
    def collected(**values: Any) -> Any:
        chosen = {field.name: values.pop(field.name) for field in fields(ReadOptions)}
        for name in ("columns", "exclude"):
            chosen[name] = parse_columns(chosen[name])
        if chosen["na_values"] is not None:
            chosen["na_values"] = chosen["na_values"].split(",")
        return command(read_options=ReadOptions(**chosen), **values)

    options = [
        click.option(
            "--columns",
            help="Columns to use, by name or number from 0, separated by commas; all by default.",
        ),
        click.option("--exclude", help="Columns to leave out, by name or number."),
        click.option(
            "--numeric-only", is_flag=True, help="Leave out columns that are not numbers."
        ),
        click.option(
            "--missing",
            type=click.Choice(["error", "drop", "model"]),
            default=missing,
            show_default=True,
            help="What to do with rows that contain missing or infinite values. model: missing "
            "cells are part of the model; a model that knows of missing cells takes them.",
        ),
        click.option(
            "--na-values",
            help="Texts that stand for a missing cell in CSV, separated by commas, in place of NA, "
            "NaN, null and their like; an empty field is always missing.",
        ),
        click.option("--delimiter", help="Character between the fields of CSV; default: comma."),
        click.option(
            "--decimal", default=".", show_default=True, help="Decimal character of CSV."
        ),
        click.option("--thousands", help="Character between groups of digits, as in 17,405."),
        header_option,
    ]  # fmt: skip
    for option in reversed(options):
        collected = option(collected)
    return collected


def families_options(command: Command) -> Command:
    """Options that say what columns are; the command gets `families`, a dict, a schema or None."""

    @wraps(command)
    def chosen(families: str | None, schema: str | None, **values: Any) -> Any:
        return command(families=_families(families, schema), **values)

    options = [
        click.option(
            "--families",
            help="Families of columns, as in 'visits=poisson,member=bernoulli,plan=categorical,"
            "income=log'; others are guessed: text of few levels is categorical, numbers are "
            "Gaussian, dates and ids are left out.",
        ),
        click.option("--schema", help="File of `momentmix schema`: families and levels."),
    ]
    for option in reversed(options):
        chosen = option(chosen)
    return chosen


def _families(text: str | None, path: str | None) -> Any:
    if path is None:
        return parse_families(text)
    from momentmix.tables.schema import Schema

    if text is not None:
        raise click.UsageError("give --schema or --families, not both: a schema has families.")
    return Schema.load(path)


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

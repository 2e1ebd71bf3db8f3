"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import click

from momentmix.cli.output import Target

if TYPE_CHECKING:
    from momentmix.tables.opening import Reading
    from momentmix.tables.table_rows import TableRows


Command = Callable[..., Any]


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
force_option = click.option("--force", is_flag=True, help="Replace the output if it exists.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress bar, no notes.")
delimiter_option = click.option(
    "--delimiter",
    callback=lambda *given: "\t" if given[-1] in ("\\t", "tab") else given[-1],
    help="Character between fields of CSV; default: comma.",
)
header_option = click.option(
    "--header/--no-header",
    default=None,
    help="Whether the first line has names; guessed.",
)
where_option = click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    help="Groups of a cube: week=2026-01-05, store=3..17.",
)
seed_option = click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    help="Seed of the random numbers.",
)


def parse_columns(text: str | None) -> list[str | int] | None:
    """Parse names and numbers of columns, separated by commas."""
    if text is None:
        return None
    return [_column(part.strip()) for part in text.split(",") if part.strip()]


def _column(text: str) -> str | int:
    # More than 18 digits can only be a name.
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text


def columns_option(name: str, help: str) -> Command:
    """Return an option that takes columns by name or number, separated by commas."""
    return click.option(name, callback=lambda *given: parse_columns(given[-1]), help=help)


@dataclass(frozen=True)
class ReadOptions:
    """Values of the options of `data_options`, as `open_rows` takes them."""

    columns: list[str | int] | None
    exclude: list[str | int] | None
    missing: Any
    na_values: list[str] | None
    delimiter: str | None
    decimal: str
    header: bool | None

    def source(self, inputs: tuple[str, ...]) -> Any:
        """Return the paths of a command's arguments, or standard input for ``-``."""
        if "-" not in inputs:
            return list(inputs)
        if len(inputs) > 1:
            raise click.UsageError("standard input (-) cannot be combined with files.")
        return sys.stdin.buffer

    def open(self, inputs: tuple[str, ...], expected: tuple[str, ...] | None = None) -> TableRows:
        """Open rows; without columns, those named `expected` where the input has names."""
        return self.reading().open(self.source(inputs), self.missing, expected=expected)

    @property
    def keywords(self) -> dict[str, Any]:
        """The options as keywords of `fit`, beside `missing`; wrong ones are usage errors."""
        self.reading()
        return {name: value for name, value in vars(self).items() if name != "missing"}

    def reading(self) -> Reading:
        """The options as the tables take them; wrong ones are usage errors."""
        from momentmix.errors import InputError
        from momentmix.tables.opening import Reading

        try:
            return Reading(**{k: v for k, v in vars(self).items() if k != "missing"})
        except InputError as error:
            raise click.UsageError(str(error)) from None


def data_options(command: Command, missing: str = "error") -> Command:
    """Add options that read rows, with this default of --missing."""

    @wraps(command)
    def collected(**values: Any) -> Any:
        chosen = {field.name: values.pop(field.name) for field in fields(ReadOptions)}
        return command(read_options=ReadOptions(**chosen), **values)

    return with_options(
        collected,
        columns_option("--columns", "Columns to use: names, patterns (A*) or numbers."),
        columns_option("--exclude", "Columns to leave out."),
        click.option(
            "--missing",
            metavar="POLICY",
            type=click.Choice(["error", "drop", "mar", "model"]),
            default=missing,
            help="Missing cells: error, drop their rows, mar (at random), or model (informative).",
        ),
        click.option(
            "--na-values",
            callback=lambda *given: None if given[-1] is None else given[-1].split(","),
            help="Texts of missing cells in CSV, in place of NA, …",
        ),
        delimiter_option,
        click.option("--decimal", default=".", help="Decimal character of CSV."),
        header_option,
    )


def _families(context: Any, option: Any, text: str | None) -> dict[str | int, str] | None:
    """Parse families by name or number of a column, separated by commas."""
    if text is None:
        return None
    families: dict[str | int, str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        column, _, family = (x.strip() for x in part.rpartition("="))
        if not column or not family:
            raise click.UsageError(
                "--families takes columns and their families, as in 'visits=poisson,plan="
                f"categorical'; got {part!r}."
            )
        families[_column(column)] = family
    return families


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

    return with_options(
        chosen,
        click.option(
            "--families", callback=_families, help="As in 'visits=poisson,A*=log'; others guessed."
        ),
        click.option("--schema", help="File of `momentmix schema`, with families and levels."),
    )


def output_options(
    help: str, required: bool = False, default: str | None = None, quiet: bool = False
) -> Callable[[Command], Command]:
    """Add -o with this help, --force and --json, with `quiet` -q; the command gets a `Target`."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def collected(
            output: str | None, force: bool, as_json: bool, quiet: bool = False, **values: Any
        ) -> Any:
            return command(target=Target(output, force, as_json, quiet), **values)

        # For click, a default of None would be a value for an option that is required.
        shown: dict[str, Any] = {} if default is None else {"default": default}
        output = click.option("-o", "--output", help=help, required=required, **shown)
        own = [quiet_option] if quiet else []
        return with_options(collected, output, force_option, *own, json_option)

    return decorate


def with_options(command: Command, *options: Command) -> Command:
    """Add options in this order."""
    for option in reversed(options):
        command = option(command)
    return command


Named = Literal["auto", "diag", "full"]  # kinds of blocks


def parse_blocks(text: str | None) -> list[list[str | int]] | Named | None:
    """Parse blocks of columns, separated by semicolons; names of kinds stay."""
    if text is None or text in get_args(Named):
        return cast(Named | None, text)
    blocks = [parse_columns(part) or [] for part in text.rstrip("; ").split(";")]
    if not all(blocks):
        raise click.UsageError(
            "--blocks takes columns separated by commas and blocks separated by semicolons, as in "
            f"'length,width;x,y'; got {text!r}."
        )
    return blocks

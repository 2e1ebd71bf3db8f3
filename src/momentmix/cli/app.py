"""The lazy group of commands; an error of the library becomes one line and exit code 1."""

from __future__ import annotations

import io
import shlex
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from momentmix import __version__
from momentmix.errors import MomentmixError, printable, without_secrets

# After a line with a backspace, click does not rewrap the paragraph.
_HELP = """Find the groups in a table and know whether to believe them.

\b
momentmix fit table.csv -o model.json   groups, and whether to believe them
momentmix predict model.json new.csv    the group of every row
"""
_EPILOG = "Exit codes: 0 success, 1 error, 2 usage, 4 not passed or a difference."

_COMMANDS = {  # in the order of work; each has a module of its name, loaded when it is used
    "fit": "Fit a model to rows or summaries.",
    "summarize": "Moments of rows, in one pass.",
    "merge": "Add summaries, or subtract some.",
    "predict": "Component and log-density of each row.",
    "report": "A model as one HTML page.",
    "schema": "Families and levels of the columns, to edit.",
    "info": "Contents of a file.",
    "compare": "Whether two summaries differ, and in what.",
    "track": "Shares of a model's components in the groups of a cube.",
    "reproduce": "Experiments of the paper.",
}


class _Commands(click.Group):
    """Commands that are imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"momentmix.cli.{cmd_name}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            vars(error)["message"] = printable(error.message)  # which has arguments as given
            raise
        except (click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.params["debug"]:
                raise
            raise click.ClickException(printable(_message(error))) from None


def _message(error: Exception) -> str:
    """The message of an error, with what to do for lack of memory and for bugs."""
    if isinstance(error, MomentmixError | OSError):
        return without_secrets(str(error))
    if isinstance(error, MemoryError):
        return (
            f"not enough memory ({str(error) or 'the system gave no more'}). Use a lower --order, "
            "fewer --columns, or allow more memory (ulimit -v)."
        )
    return (
        f"internal error: {type(error).__name__}: {error}. This is a bug; run `momentmix --debug` "
        "with the command, and report it."
    )


def _print_version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from momentmix.native import code

    engine = "no compiled code: NumPy does the work" if code is None else "compiled code in use"
    click.echo(f"momentmix, version {__version__} ({engine})")
    context.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
    help=_HELP,
    epilog=_EPILOG,
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def cli(debug: bool) -> None:
    """The group of commands."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit the process with its code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = lambda message, *rest, **more: click.echo(
        printable(without_secrets(f"Warning: {message}")), err=True
    )
    if isinstance(sys.stdout, io.TextIOWrapper):  # as standard error is by default
        sys.stdout.reconfigure(errors="backslashreplace")
    line = shlex.join(["momentmix", *map(without_secrets, arguments)])  # for the record of a fit
    cli.main(arguments, prog_name="momentmix", obj=line)

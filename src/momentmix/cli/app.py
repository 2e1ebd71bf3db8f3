"""The group of subcommands; errors become one line on standard error and an exit code."""

from __future__ import annotations

import io
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import click

from momentmix import __version__, errors
from momentmix.cli.compare import compare_command
from momentmix.cli.info import info_command
from momentmix.cli.merge import merge_command
from momentmix.cli.models.fit import fit_command
from momentmix.cli.models.predict import predict_command
from momentmix.cli.models.report import report_command
from momentmix.cli.output import say
from momentmix.cli.reproduce import reproduce_command
from momentmix.cli.schema import schema_command
from momentmix.cli.summarize import summarize_command
from momentmix.cli.track import track_command

# After a line with a backspace, click does not rewrap the paragraph.
_HELP = """Find the groups in a table and know whether to believe them.

\b
momentmix fit table.csv -o model.json   groups, and whether to believe them
momentmix predict model.json new.csv    the group of every row
"""
_EPILOG = "Exit codes: 0 success, 1 error, 2 usage, 4 not passed or a difference."

# What to use instead of options and commands that were deleted.
_INSTEAD = {
    "score": "predict --density writes the log-density of each row",
    "subtract": "merge ALL --minus PART subtracts",
    "forget": "in Python, MomentSummary.forget takes rows out of a summary",
    "sample": "in Python, Mixture.sample draws rows",
    "plot": "report draws pictures; in Python, momentmix.displays",
    "plan": "in Python, smallest_order says which order identifies a number of components",
    "--method": "in Python, momentmix.paper.fit is Algorithm 5.1",
    "--order": "summarize --order, and fit the summary",
    "--refine": "summarize, and fit the summary: that is a fit from moments alone",
    "--checkpoint": "summarize each file, and merge the summaries",
    "--rows": "predict --density writes the log-density of each row",
    "--before": "compare prints the changes",
    "--cube": "track prints the shares of the groups",
}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of work, not alphabetical


def _print_version(context: click.Context, parameter: click.Parameter, asked: bool) -> None:
    if not asked or context.resilient_parsing:
        return
    from momentmix.native import code

    engine = "no compiled code: NumPy does the work" if code is None else "compiled code in use"
    say(f"momentmix, version {__version__} ({engine})")
    context.exit()


@click.group(
    cls=_Group,
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


_COMMANDS: dict[Any, str] = {
    fit_command: "Fit a model to rows or summaries.",
    summarize_command: "Moments of rows, in one pass.",
    merge_command: "Add summaries, or subtract some.",
    predict_command: "Component and log-density of each row.",
    report_command: "A model as one HTML page.",
    schema_command: "Families and levels of the columns, to edit.",
    info_command: "Contents of a file.",
    compare_command: "Whether two summaries differ, and in what.",
    track_command: "Shares of a model's components in the groups of a cube.",
    reproduce_command: "Experiments of the paper.",
}
for _command, _help in _COMMANDS.items():
    cli.command(_command.__name__.removesuffix("_command"), short_help=_help)(_command)


def _complain(error: object) -> None:
    say(f"momentmix: {error}", err=True)


def _show_misuse(error: click.ClickException) -> None:
    """Print what click would, with unprintable characters of the arguments escaped."""
    context = getattr(error, "ctx", None)
    text = error.format_message()
    if context is not None and text == context.get_help():  # no arguments at all
        click.echo(text, err=True)
        return
    if context is not None:
        usage = context.get_usage().split("\n")
        say(*usage, f"Try '{context.command_path} --help' for help.", "", err=True)
    text = text.replace("\n\t", " ")  # between the choices that click lists
    unknown = re.match(r"No such (?:command|option):? '?([\w-]+)", text)
    if unknown:
        gone = {name: f"Instead: {cure}." for name, cure in _INSTEAD.items()}
        if unknown[1] in gone:
            text = f"{unknown[1]} is gone. {gone[unknown[1]]}"
    say("Error: " + text, err=True)


def _message(error: Exception) -> object:
    """The message of an error, with what to do for lack of memory and for bugs."""
    if isinstance(error, MemoryError):
        return (
            f"not enough memory ({str(error) or 'the system gave no more'}). Use a lower --order, "
            "fewer --columns, or allow more memory (ulimit -v)."
        )
    if isinstance(error, errors.MomentmixError | OSError):
        return error
    return (
        f"internal error: {type(error).__name__}: {error}. This is a bug; run again with --debug "
        "and report it."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit the process with its code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    warnings.showwarning = lambda message, *rest, **more: _complain(f"warning: {message}")
    if isinstance(sys.stdout, io.TextIOWrapper):  # as standard error is by default
        sys.stdout.reconfigure(errors="backslashreplace")
    code: Any
    try:
        given = [argument for argument in arguments if argument != "--debug"]
        # For the record of the fit.
        line = shlex.join(["momentmix", *map(errors.without_secrets, given)])
        code = cli.main(given, prog_name="momentmix", standalone_mode=False, obj=line)
        sys.stdout.flush()
    except click.ClickException as error:
        _show_misuse(error)
        code = error.exit_code
    except click.Abort:
        _complain("interrupted")
        code = 1
    except Exception as error:
        if "--debug" in arguments:
            raise
        _complain(_message(error))
        code = 1
    sys.exit(code if isinstance(code, int) else 0)

"""The group of subcommands; errors become one line on standard error and an exit code."""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Sequence
from threading import Timer
from types import FrameType
from typing import Any

import click

from momentmix import __version__, errors
from momentmix.cli.info import info_command
from momentmix.cli.models.fit import fit_command
from momentmix.cli.models.plot import plot_command
from momentmix.cli.models.predict import predict_command, sample_command
from momentmix.cli.models.report import report_command
from momentmix.cli.models.score import score_command
from momentmix.cli.monitoring.compare import compare_command
from momentmix.cli.monitoring.track import track_command
from momentmix.cli.options import GroupedCommand
from momentmix.cli.output import say
from momentmix.cli.plan import plan_command
from momentmix.cli.reproduce import reproduce_command
from momentmix.cli.schema import schema_command
from momentmix.cli.summarizing.arithmetic import forget_command, merge_command, subtract_command
from momentmix.cli.summarizing.command import summarize_command
from momentmix.findings.messages import in_shell

# After a line with a backspace, click does not rewrap the paragraph.
_HELP = """Mixture models from one pass over the data.

\b
momentmix summarize part-*.parquet -o all.mms   moments of the rows, in one pass
momentmix fit all.mms -r 5 -o model.json        a mixture, from the moments alone
momentmix predict model.json new.csv            the component of every row
"""
_EPILOG = """\b
Exit codes: 0 success · 1 a difference (compare) · 2 wrong usage · 4 a fit did
not pass (`fit --help` says when), or a group does not fit (track --strict) ·
65 bad data · 66 no input · 70 bug · 73 cannot create output · 74 input/output
or memory · 130 interrupted · 141 closed pipe · 143 terminated.

\b
Shell completion (zsh_source or fish_source for other shells):
eval "$(_MOMENTMIX_COMPLETE=bash_source momentmix)"
"""


# Other errors that mean a lack of memory: a library is not loaded, a thread is not started.
_NO_MEMORY = ("failed to map segment from shared object", "can't start new thread")


class _Terminated(BaseException):
    """SIGTERM arrived."""


class _ClosedPipe(BaseException):
    """The reader of standard output is gone; click would turn BrokenPipeError into code 1."""


class _Group(click.Group):
    command_class = GroupedCommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)  # in the order of work, not alphabetical

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _ClosedPipe from None


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
    plan_command: "The order of moments that is needed, and its cost.",
    schema_command: "Families and levels of the columns, to edit.",
    summarize_command: "Moments of rows, in one pass.",
    merge_command: "Add summaries.",
    subtract_command: "Take summaries out of a sum.",
    forget_command: "Take rows out of a summary.",
    fit_command: "Fit a model to rows or summaries.",
    predict_command: "Component of each row.",
    score_command: "Log-likelihood of rows, BIC, AIC; anomalies.",
    sample_command: "Rows drawn from a model.",
    compare_command: "Whether two summaries differ, and in what.",
    track_command: "Shares of a model's components in the groups of a cube.",
    plot_command: "Pictures of a model.",
    report_command: "A model as one HTML page.",
    info_command: "Contents of a file.",
    reproduce_command: "Experiments of the paper.",
}
for _command, _help in _COMMANDS.items():
    cli.command(_command.__name__.removesuffix("_command"), short_help=_help)(_command)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise _Terminated


def _send_again(ignored: Any) -> None:
    """Repeat a signal that came while Python finalized an object, where exceptions are ignored."""
    numbers = {_Terminated: signal.SIGTERM, KeyboardInterrupt: signal.SIGINT}
    kind: Any = ignored.exc_type
    if kind not in numbers:
        sys.__unraisablehook__(ignored)
        return
    while kind is not None:
        try:
            Timer(0.05, os.kill, (os.getpid(), numbers[kind])).start()
            kind = None
        except tuple(numbers) as error:  # on a busy machine it comes before this function is left
            kind = type(error)


def _complain(error: object) -> None:
    say(f"momentmix: {in_shell(error)}", err=True)


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
    say("Error: " + text.replace("\n\t", " "), err=True)  # between the choices that click lists


def _code_and_message(error: Exception) -> tuple[int, object]:
    """Return exit code and message of an error; 70 for an unexpected one."""
    no_memory = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    if isinstance(error, ImportError | RuntimeError):
        no_memory |= any(text in str(error) for text in _NO_MEMORY)
    if no_memory:
        return 74, (
            f"not enough memory ({str(error) or 'the system gave no more'}). Use a lower --order, "
            "fewer --columns or fewer threads, or allow more memory (ulimit -v)."
        )
    codes: dict[Any, int] = {
        errors.NoInputError: 66,
        errors.OutputError: 73,
        errors.CapacityError | errors.MissingDependencyError: 2,
        errors.MomentmixError: 65,
        FileNotFoundError | PermissionError: 66,
        OSError: 74,
    }
    for kinds, code in codes.items():
        if isinstance(error, kinds):
            return code, error
    return 70, (
        f"internal error: {type(error).__name__}: {error}. This is a bug; run again with --debug "
        "and report it."
    )


def _check_streams() -> None:
    """Reserve the descriptors of closed standard streams, so that no file gets them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:
        raise errors.OutputError("standard output is closed; send it to a file or to /dev/null.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit the process with its code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _send_again
    warnings.showwarning = lambda message, *rest, **more: _complain(f"warning: {in_shell(message)}")
    if isinstance(sys.stdout, io.TextIOWrapper):  # as standard error is by default
        sys.stdout.reconfigure(errors="backslashreplace")
    code: Any
    try:
        _check_streams()
        given = [argument for argument in arguments if argument != "--debug"]
        # For the record of the fit.
        line = shlex.join(["momentmix", *map(errors.without_secrets, given)])
        code = cli.main(given, prog_name="momentmix", standalone_mode=False, obj=line)
        sys.stdout.flush()
    except click.ClickException as error:
        _show_misuse(error)
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted")
        code = 130
    except _Terminated:
        _complain("terminated")
        code = 143
    except (BrokenPipeError, _ClosedPipe):
        # The reader is gone, as with `| head`: print nothing, and flush nothing at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except Exception as error:
        if debug:
            raise
        code, text = _code_and_message(error)
        _complain(text)
    sys.exit(code if isinstance(code, int) else 0)

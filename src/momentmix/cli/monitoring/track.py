"""``momentmix track``: the shares of a model's components in the groups of a cube."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from momentmix.cli.options import force_option, json_option, where_option
from momentmix.cli.output import check_output, output_stream, say, say_json

if TYPE_CHECKING:
    from momentmix.monitoring.tracking import Tracking

DOES_NOT_FIT = 4  # exit code with --strict
_ENDINGS = ("csv", "json", "png", "svg", "pdf")


@click.command("track", short_help="Shares of a model's components in the groups of a cube.")
@click.argument("model")
@click.argument("cube")
@click.option(
    "-o", "--output", help="Also write the table (.csv, .json) or a picture (.png, .svg, .pdf)."
)
@where_option
@click.option("--rollup", metavar="KEYS", help="Merge all groups that agree in these keys first.")
@click.option(
    "--prior",
    type=click.Choice(["none", "whole"]),
    default="none",
    show_default=True,
    help="whole: shrink the shares of small groups to the mean of all groups.",
)
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    show_default=True,
    help="Of the intervals.",
)
@click.option("--strict", is_flag=True, help="Exit with 4 where the components do not fit a group.")
@force_option
@json_option
def track_command(
    model: str,
    cube: str,
    output: str | None,
    where: tuple[str, ...],
    rollup: str | None,
    prior: str,
    level: float,
    strict: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Print the share of each component of MODEL in each group of CUBE, from moments alone.

    CUBE is a file of `momentmix summarize --by`. Shares have intervals, and each group a test
    whether the components of the model still fit it. Below the table stand the shares that
    changed, and the columns that moved in groups that do not fit.
    """
    from momentmix.cli.cubes import load_groups
    from momentmix.monitoring.track import track
    from momentmix.monitoring.tracking_text import tracking_lines
    from momentmix.tables.opening import missing_input

    ending = "" if output is None else output.rpartition(".")[2].lower()
    if output is not None:
        if ending not in _ENDINGS:
            raise click.UsageError(
                f"--output must end in {', '.join('.' + e for e in _ENDINGS)}; got {output!r}."
            )
        check_output(output, [model, cube], force)
    if not Path(model).exists():
        raise missing_input(model)
    groups = load_groups([cube], where, rollup)
    found = track(model, groups, prior="whole" if prior == "whole" else None, level=level)
    if output is not None:
        _write(found, output, ending)
    if as_json:
        said = {} if output is None else {"output": output}
        say_json({**said, **found.to_dict()})
    else:
        say(*tracking_lines(found, "--json prints all, and -o shares.csv writes them"))
        if output is not None:
            say(f"written to {output}")
    if strict and not found.fits.all():
        click.get_current_context().exit(DOES_NOT_FIT)


def _write(found: Tracking, output: str, ending: str) -> None:
    import csv
    import io

    from momentmix.cli.tables import guarded
    from momentmix.strict_json import format_strict

    if ending == "json":
        text = format_strict(found.to_dict(), indent=1) + "\n"
    elif ending == "csv":
        names, rows = found.to_rows()
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([guarded(cell) for cell in row] for row in (names, *rows))
        text = buffer.getvalue()
    else:
        from momentmix.displays import SharesDisplay

        display = SharesDisplay.from_tracking(found)
        with output_stream(output) as stream:
            display.figure_.savefig(stream, format=ending, dpi=150, bbox_inches="tight")
        return
    with output_stream(output) as stream:
        stream.write(text.encode())

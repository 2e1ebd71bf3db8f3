"""``momentmix track``: the shares of a model's components in the groups of a cube."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import output_options, where_option
from momentmix.cli.output import Target, output_stream, say, say_json

if TYPE_CHECKING:
    from momentmix.monitoring.tracking import Tracking

DOES_NOT_FIT = 4  # exit code with --strict


@click.argument("model")
@click.argument("cube")
@output_options("Table (.csv) or picture (.png, .svg, .pdf).")
@where_option
@click.option("--rollup", metavar="KEYS", help="Merge groups that agree in these.")
@click.option(
    "--level",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.95,
    help="Of the intervals.",
)
@click.option("--strict", is_flag=True, help="Exit with 4 where the components do not fit a group.")
def track_command(
    model: str,
    cube: str,
    target: Target,
    where: tuple[str, ...],
    rollup: str | None,
    level: float,
    strict: bool,
) -> None:
    """Print the share of each component of MODEL in each group of CUBE, from moments alone.

    CUBE is a file of `momentmix summarize --by`. Shares have intervals, and each group a test
    whether the components of the model still fit it. Below the table stand the shares that
    changed, and the groups that do not fit.
    """
    from momentmix.cli.cubes import load_groups
    from momentmix.monitoring.track import track
    from momentmix.monitoring.tracking import tracking_lines
    from momentmix.tables.opening import missing_input

    if target.path is not None:
        target.check_ending("csv", "png", "svg", "pdf")
        target.check([model, cube])
    if not Path(model).exists():
        raise missing_input(model)
    groups = load_groups([cube], where, rollup)
    found = track(model, groups, level=level)
    if target.path is not None:
        _write(found, target)
    if target.as_json:
        said = {} if target.path is None else {"output": target.path}
        say_json({**said, **found.to_dict()})
    else:
        written = [] if target.path is None else [f"written to {target.path}"]
        say(*tracking_lines(found, "--json prints all, and -o shares.csv writes them"), *written)
    if strict and not found.fits.all():
        click.get_current_context().exit(DOES_NOT_FIT)


def _write(found: Tracking, target: Target) -> None:
    import csv
    import io

    if target.ending == "csv":
        names, rows = found.to_rows()
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([_guarded(cell) for cell in row] for row in (names, *rows))
        with output_stream(str(target.path)) as stream:
            stream.write(buffer.getvalue().encode())
    else:
        from momentmix.displays import SharesDisplay

        target.save_picture(SharesDisplay.from_tracking(found))


def _guarded(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would compute; other cells stay.

    >>> _guarded("=HYPERLINK(1)"), _guarded("-5"), _guarded("a=b"), _guarded(-5.0)
    ("'=HYPERLINK(1)", '-5', 'a=b', -5.0)
    """
    if not isinstance(cell, str) or not cell.lstrip().startswith(("=", "+", "-", "@")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell

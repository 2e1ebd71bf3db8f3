"""``momentmix track``: the shares of a model's components in the groups of a cube."""

from __future__ import annotations

from pathlib import Path

import click

from momentmix.cli.options import output_options, where_option
from momentmix.cli.output import Target, output_stream, say, say_json

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
    whether the components of the model still fit it. Groups that do not fit stand above the
    table.
    """
    from momentmix.cli.cubes import load_groups
    from momentmix.groups.track import track
    from momentmix.tables.opening import missing_input

    if target.path is not None:
        target.check_ending("csv", "png", "svg", "pdf")
        target.check([model, cube])
    if not Path(model).exists():
        raise missing_input(model)
    groups = load_groups([cube], where, rollup)
    found = track(model, groups, level=level)
    if target.ending == "csv":
        with output_stream(str(target.path)) as stream:
            stream.write(found.to_frame().to_csv(index=False, lineterminator="\n").encode())
    elif target.path is not None:
        from momentmix.displays import SharesDisplay

        target.save_picture(SharesDisplay.from_tracking(found))
    if target.as_json:
        said = {} if target.path is None else {"output": target.path}
        say_json({**said, **found.to_dict()})
    else:
        written = [] if target.path is None else [f"written to {target.path}"]
        say(*found.lines("--json prints all, and -o shares.csv writes them"), *written)
    if strict and not found.fits.all():
        click.get_current_context().exit(DOES_NOT_FIT)

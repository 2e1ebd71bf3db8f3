"""``momentmix track``: the shares of a model's components in the groups of a cube."""

from __future__ import annotations

import click

from momentmix.cli.files import check_output, load_cube, output_stream, say, say_json
from momentmix.cli.options import json_option, output_option, rollup_option, where_option
from momentmix.groups.track import track

DOES_NOT_FIT = 4  # exit code with --strict


@click.command("track")
@click.argument("model")
@click.argument("cube")
@output_option("Table (.csv) or picture (.png, .svg, .pdf).")
@json_option
@where_option
@rollup_option
@click.option("--strict", is_flag=True, help="Exit with 4 where the components do not fit a group.")
def track_command(
    model: str,
    cube: str,
    output: str | None,
    as_json: bool,
    where: tuple[str, ...],
    rollup: str | None,
    strict: bool,
) -> None:
    """Print the share of each component of MODEL in each group of CUBE, from moments alone.

    CUBE is a file of `momentmix summarize --by`. Shares have 95 % intervals, and each group a test
    whether the components of the model still fit it. Groups that do not fit stand above the
    table.

    \b
    momentmix track model.json weeks.parquet -o shares.png
    """  # noqa: D301, click does not rewrap what follows a backspace
    check_output(output, [model, cube], ".csv", ".png", ".svg", ".pdf")
    tracking = track(model, load_cube(cube, where, rollup))
    if output is not None:
        with output_stream(output) as stream:
            if output.lower().endswith(".csv"):
                table = tracking.to_frame().to_csv(index=False, lineterminator="\n")
                stream.write(table.encode())
            else:
                from momentmix.displays import SharesDisplay

                figure, ending = SharesDisplay.from_tracking(tracking).figure_, output[-3:].lower()
                figure.savefig(stream, format=ending, dpi=150, bbox_inches="tight")
    if as_json:
        say_json({"output": output, **tracking.to_dict()})
    else:
        say(*tracking.lines())
        say(*([] if output is None else [f"written to {output}"]))
    if strict and not tracking.fits.all():
        click.get_current_context().exit(DOES_NOT_FIT)

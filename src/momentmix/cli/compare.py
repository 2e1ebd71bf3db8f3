"""``momentmix compare``: whether two summaries differ, and in what."""

from __future__ import annotations

from typing import Any

import click

from momentmix.cli.files import are_summaries, load_summary, rows_source, say, say_json
from momentmix.cli.options import json_option
from momentmix.errors import InputError
from momentmix.groups.compare import compare
from momentmix.summary.column_facts import schema_of
from momentmix.summary.summarize import summarize
from momentmix.tables.learning import learn
from momentmix.tables.opening import READ_ALL

DIFFERS = 4  # exit code


@click.command("compare")
@click.argument("first")
@click.argument("second", required=False)
@click.option(
    "--first", "where_first", multiple=True, metavar="KEY=VALUE", help="Groups of the first cube."
)
@click.option(
    "--second", "where_second", multiple=True, metavar="KEY=VALUE", help="Groups of the second."
)
@click.option(
    "--least-effect",
    metavar="SIZE",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Neglect changes of less than this, in standard deviations.",
)
@json_option
def compare_command(
    first: str,
    second: str | None,
    where_first: tuple[str, ...],
    where_second: tuple[str, ...],
    least_effect: float,
    as_json: bool,
) -> None:
    """Compare two summaries (.mms), cubes or data files, or parts of one cube.

    Data files get the columns of the other side; `momentmix summarize` has options to read them.
    Prints the changes of means, shares and missing cells, the largest first. The exit code is 4
    where something changed.

    \b
    momentmix compare may.mms june.csv --least-effect 0.1
    momentmix compare cube.parquet --first week=2026-03-02 --second week=2026-03-09
    """  # noqa: D301, click does not rewrap what follows a backspace
    if second is None and not (where_first and where_second):
        raise click.UsageError(
            f"there is nothing to compare {first} with; give a second file, or choose groups of a "
            "cube with --first and --second."
        )
    sides = (first, where_first), (second or first, where_second)
    given = [
        load_summary(path, where) if where or are_summaries([path]) else None
        for path, where in sides
    ]
    like: Any = next(filter(None, given), None)
    order = None if like is None else like.order
    if like is not None:
        schema = schema_of(like)
    elif any(path.lower().endswith(".json") for path, _ in sides):
        raise InputError("a model is no data; `momentmix track` says whether rows fit a model.")
    else:  # levels and missing cells of both files together
        schema = learn(READ_ALL.open([first, second], "model"), None, "model").learned
    missing: Any = "model" if any(column.has_missing for column in schema.columns) else "error"
    names = schema.column_names
    left, right = (
        summarize(READ_ALL.open(rows_source([path]), missing, names), order, families=schema)
        if summary is None
        else summary
        for (path, _), summary in zip(sides, given, strict=True)
    )
    found = compare(left, right, least_effect=least_effect)
    if as_json:
        say_json({"first": first, "second": second or first, **found.to_dict()})
    else:
        say(*found.lines())
    click.get_current_context().exit(DIFFERS if found.differs else 0)

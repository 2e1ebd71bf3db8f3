"""``momentmix summarize``: rows → a summary or a cube, in one pass."""

from __future__ import annotations

from typing import Any

import click

from momentmix.capacity import usual_order
from momentmix.cli.files import check_output, rows_source, say, say_json, say_notes
from momentmix.cli.options import (
    families_options,
    json_option,
    missing_option,
    output_option,
    table_options,
)
from momentmix.progress import step
from momentmix.summary.summarize import shards_of, summarize_parts
from momentmix.tables.learning import table_rows
from momentmix.tables.opening import Reading
from momentmix.wording import plural


@click.command("summarize")
@click.argument("inputs", nargs=-1, required=True)
@output_option("File of the summary (.mms), or with --by of the cube (.parquet).", required=True)
@json_option
@click.option(
    "-m",
    "--order",
    metavar="N",
    type=click.IntRange(min=1),
    help="Most features in a product; default: 4.",
)
@click.option("--by", metavar="KEYS", help="Keys of a cube, as in 'region,week(ts)'.")
@click.option(
    "--min-rows",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    help="Leave smaller groups of a cube out.",
)
@families_options
@missing_option("error")
@table_options
def summarize_command(
    inputs: tuple[str, ...],
    output: str,
    as_json: bool,
    order: int | None,
    by: str | None,
    min_rows: int,
    families: Any,
    missing: Any,
    reading: Reading,
) -> None:
    """Sum the moments of rows in one pass over files, folders, globs, or from - (CSV).

    With --by, the output is a cube: a table of keys, numbers of rows and summaries that merge, fit,
    compare and track read. Keys are names of columns, or year, quarter, month, week, day or hour
    of a column of dates.

    \b
    momentmix summarize 'day-*.csv' -o all.mms
    """  # noqa: D301, click does not rewrap what follows a backspace
    check_output(output, inputs, ".mms" if by is None else ".parquet")
    if by is None and min_rows > 1:
        raise click.UsageError("--min-rows goes with --by.")
    made: Any
    with step("Summarizing"):
        if by is None:
            rows = table_rows(rows_source(inputs), families, missing, reading)
            say_notes(rows.notes)
            wanted = usual_order(rows.n_features) if order is None else order
            made = summarize_parts(rows, shards_of(rows, wanted))
            if not made.n_rows:
                raise rows.without_rows()
        else:
            from momentmix.groups.summarize_by import grouped

            if "-" in inputs:
                raise click.UsageError(
                    "--by needs files; standard input has no name for its shards."
                )
            rows, whole = grouped(list(inputs), by, order, families, missing, reading)
            say_notes(rows.notes)
            made = whole.at_least(min_rows)
        made.save(output)
    n, d = made.n_rows, rows.n_features
    order = usual_order(d) if order is None else order
    facts = {"n_rows": n, "n_dropped": rows.n_dropped, "order": order}
    facts |= {"feature_names": rows.feature_names}
    said = f"{n:,} row{plural(n)}{f', {rows.n_dropped:,} dropped' if rows.n_dropped else ''}"
    said += f", {d} feature{plural(d)}, moments up to order {order}"
    if by is not None:
        facts |= {"n_groups": len(made), "n_groups_left_out": len(whole) - len(made)}
        said += f", {len(made):,} group{plural(len(made))} by {', '.join(made.key_names)}"
        gone = f"{len(whole) - len(made):,} small groups ({whole.n_rows - n:,} rows) left out"
        said += f"; {gone}" if len(whole) > len(made) else ""
    if as_json:
        say_json({"output": output, **facts})
    else:
        say(f"{output}: {said}")

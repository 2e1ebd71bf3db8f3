"""``momentmix merge``: summaries → one summary; `--minus` takes some out."""

from __future__ import annotations

import operator
from typing import Any

import click

from momentmix.cli.files import added, check_output, load_cube, load_summary, say, say_json
from momentmix.cli.options import json_option, output_option, rollup_option, where_option


@click.command("merge")
@click.argument("summaries", nargs=-1, required=True)
@output_option("File of the sum: .mms, or .parquet for a cube.", required=True)
@json_option
@click.option("--minus", multiple=True, metavar="FILE", help="Subtract this one; repeatable.")
@where_option
@rollup_option
@click.option("--truncate", is_flag=True, help="Reduce all to the lowest order.")
def merge_command(
    summaries: tuple[str, ...],
    output: str,
    as_json: bool,
    minus: tuple[str, ...],
    where: tuple[str, ...],
    rollup: str | None,
    truncate: bool,
) -> None:
    """Add summaries of different rows. The sum is exact, in whatever order they are merged.

    Cubes are added group by group where the output is a cube, else all their groups are added.
    Summaries of --minus must have been added before; what is left is exact.

    \b
    momentmix merge monday.mms tuesday.mms -o week.mms
    """  # noqa: D301, click does not rewrap what follows a backspace
    paths, n = [*summaries, *minus], len(summaries)
    check_output(output, paths, ".mms", ".parquet")
    loaded: list[Any]
    if output.lower().endswith(".parquet"):
        loaded = [load_cube(path, where, rollup) for path in paths]
    else:
        loaded = [load_summary(path, where) for path in paths]
        if truncate:
            order = min(summary.order for summary in loaded)
            squared = min(summary.squared_order for summary in loaded)
            loaded = [summary.truncate(order, squared) for summary in loaded]
    total = added(summaries, loaded[:n])
    made = added([output, *minus], [total, *loaded[n:]], operator.sub)
    made.save(output)
    if as_json:
        say_json({"output": output, "n_rows": made.n_rows})
    else:
        say(f"{output}: {made}")

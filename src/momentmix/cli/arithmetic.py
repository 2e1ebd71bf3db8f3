"""``momentmix merge``, ``subtract``, ``forget``: summaries → one summary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from momentmix.cli.options import (
    ReadOptions,
    by_name_option,
    data_options,
    force_option,
    json_option,
    quiet_option,
    where_option,
)
from momentmix.cli.output import check_output, say, say_json
from momentmix.findings.messages import in_shell
from momentmix.progress import step

if TYPE_CHECKING:
    from momentmix.cube.cube import SummaryCube
    from momentmix.summary.summary import MomentSummary
    from momentmix.tables.table_rows import TableRows

truncate_option = click.option(
    "--truncate", is_flag=True, help="Reduce summaries of different orders to the lowest."
)


@click.command("merge", short_help="Add summaries.")
@click.argument("summaries", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    required=True,
    help="File of the merged summary; .parquet or .arrow for a cube of cubes.",
)
@where_option
@click.option("--rollup", metavar="KEYS", help="Of cubes: merge all groups that agree in these.")
@truncate_option
@force_option
@json_option
def merge_command(
    summaries: tuple[str, ...],
    output: str,
    where: tuple[str, ...],
    rollup: str | None,
    truncate: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Add summaries of different rows. The sum is exact, in whatever order they are merged.

    Cubes are added group by group where the output is a cube, else all their groups are added.
    """
    from momentmix.cli.cubes import load_groups, names_cube
    from momentmix.cli.summaries import load_sum

    check_output(output, summaries, force)
    to_cube = names_cube(output)
    if not (where or rollup or to_cube):
        _finish(load_sum(summaries, truncate), output, as_json)
        return
    cube = load_groups(summaries, where, rollup)
    if to_cube:
        _finish_cube(cube, output, as_json)
    else:
        _finish(cube.total(), output, as_json)


@click.command("subtract", short_help="Take summaries out of a sum.")
@click.argument("summary")
@click.argument("parts", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="File of what is left.")
@truncate_option
@force_option
@json_option
def subtract_command(
    summary: str,
    parts: tuple[str, ...],
    output: str,
    truncate: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Take summaries out of one that they were added to. What is left is exact.

    A summary that was never added is refused; `momentmix forget` takes away single rows.
    """
    from momentmix.cli.cubes import are_cubes, names_cube
    from momentmix.cli.summaries import load_cubes, load_difference

    check_output(output, [summary, *parts], force)
    if names_cube(output):
        if not are_cubes([summary, *parts]):
            raise click.UsageError("an output .parquet or .arrow is for cubes; an input is none.")
        _finish_cube(load_cubes([summary]) - load_cubes(parts), output, as_json)
        return
    _finish(load_difference(summary, parts, truncate), output, as_json)


@click.command("forget", short_help="Take rows out of a summary.")
@click.argument("summary")
@click.argument("inputs", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="File of what is left.")
@data_options
@by_name_option
@force_option
@quiet_option
@json_option
def forget_command(
    summary: str,
    inputs: tuple[str, ...],
    output: str,
    read_options: ReadOptions,
    by_name: bool,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Take rows of data files out of a summary that they were added to, in bounded memory.

    It cannot be verified that the rows were added, only that count, range and variances allow it.
    `momentmix subtract` is exact, where there is a summary of these rows alone.
    """
    from momentmix.cli.predict import open_columns
    from momentmix.cli.summaries import load_sum
    from momentmix.summary.column_facts import columns_of

    check_output(output, [summary, *inputs], force)
    total = load_sum([summary])
    rows = open_columns("the summary", columns_of(total), inputs, read_options, by_name)
    with step("Forgetting", False if quiet else None):
        _forget(total, rows)
    _finish(total, output, as_json)


def _forget(total: MomentSummary, rows: TableRows) -> None:
    """Take rows away."""
    from momentmix.errors import InputError

    n_before = total.n_rows
    for table, block in rows.placed_blocks():
        if len(block.features):
            try:
                total.forget(rows.summand(block.features))
            except InputError as error:
                source = rows.sources[table]
                place = f"{source.name}, rows from {source.where(block.first_row)} on"
                raise InputError(f"{place}: {in_shell(error)}") from None
    if total.n_rows == n_before:
        raise InputError(f"{rows.sources[0].name} holds no rows.")


def _finish_cube(cube: SummaryCube, output: str, as_json: bool) -> None:
    """Save a cube, and print what it holds."""
    cube.save(output)
    if as_json:
        keys = list(cube.key_names)
        say_json({"output": output, "n_rows": cube.n_rows, "n_groups": len(cube), "keys": keys})
    else:
        say(f"{output}: {cube}")


def _finish(summary: MomentSummary, output: str, as_json: bool) -> None:
    """Save a summary, and print what it holds."""
    summary.save(output)
    report = {
        "output": output,
        "n_rows": summary.n_rows,
        "n_features": summary.n_features,
        "order": summary.order,
        "n_shards": len(summary.shard_ids),
    }
    if summary.n_forgotten:
        report["n_forgotten"] = summary.n_forgotten
    if as_json:
        say_json(report)
    else:
        say(f"{output}: {summary}")

"""``momentmix merge``, ``subtract``, ``forget``: summaries → one summary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import ReadOptions, data_options, output_options, where_option
from momentmix.cli.output import BINARY, Target
from momentmix.findings.messages import in_shell
from momentmix.progress import step

if TYPE_CHECKING:
    from momentmix.cube.cube import SummaryCube
    from momentmix.summary.summary import MomentSummary
    from momentmix.tables.table_rows import TableRows

truncate_option = click.option(
    "--truncate", is_flag=True, help="Reduce summaries of different orders to the lowest."
)


@click.argument("summaries", nargs=-1, required=True)
@output_options(
    "File of the merged summary; .parquet or .arrow for a cube of cubes.", required=True
)
@where_option
@click.option("--rollup", metavar="KEYS", help="Of cubes: merge all groups that agree in these.")
@truncate_option
def merge_command(
    summaries: tuple[str, ...],
    target: Target,
    where: tuple[str, ...],
    rollup: str | None,
    truncate: bool,
) -> None:
    """Add summaries of different rows. The sum is exact, in whatever order they are merged.

    Cubes are added group by group where the output is a cube, else all their groups are added.
    """
    from momentmix.cli.cubes import load_groups, names_cube
    from momentmix.cli.summaries import load_sum

    to_cube = names_cube(target.check(summaries, BINARY))
    if not (where or rollup or to_cube):
        _finish(load_sum(summaries, truncate), target)
        return
    cube = load_groups(summaries, where, rollup)
    _finish(cube if to_cube else cube.total(), target)


@click.argument("summary")
@click.argument("parts", nargs=-1, required=True)
@output_options("File of what is left.", required=True)
@truncate_option
def subtract_command(summary: str, parts: tuple[str, ...], target: Target, truncate: bool) -> None:
    """Take summaries out of one that they were added to. What is left is exact.

    A summary that was never added is refused; `momentmix forget` takes away single rows.
    """
    from momentmix.cli.cubes import are_cubes, names_cube
    from momentmix.cli.summaries import load_cubes, load_difference

    if not names_cube(target.check([summary, *parts], BINARY)):
        _finish(load_difference(summary, parts, truncate), target)
        return
    if not are_cubes([summary, *parts]):
        raise click.UsageError("an output .parquet or .arrow is for cubes; an input is none.")
    _finish(load_cubes([summary]) - load_cubes(parts), target)


@click.argument("summary")
@click.argument("inputs", nargs=-1, required=True)
@output_options("File of what is left.", required=True, quiet=True)
@data_options
def forget_command(
    summary: str, inputs: tuple[str, ...], target: Target, read_options: ReadOptions
) -> None:
    """Take rows of data files out of a summary that they were added to, in bounded memory.

    It cannot be verified that the rows were added, only that count, range and variances allow it.
    `momentmix subtract` is exact, where there is a summary of these rows alone.
    """
    from momentmix.cli.models.predict import open_for
    from momentmix.cli.summaries import load_sum
    from momentmix.summary.column_facts import schema_of

    target.check([summary, *inputs], BINARY)
    total = load_sum([summary])
    rows = open_for(schema_of(total).columns, inputs, read_options, owner="the summary")
    with step("Forgetting", target.progress):
        _forget(total, rows)
    _finish(total, target)


def _forget(total: MomentSummary, rows: TableRows) -> None:
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


def _finish(made: MomentSummary | SummaryCube, target: Target) -> None:
    """Save a summary or a cube, and print what it holds."""
    from momentmix.cube.cube import SummaryCube

    made.save(str(target.path))
    facts: dict[str, Any] = {"n_rows": made.n_rows}
    if isinstance(made, SummaryCube):
        facts |= {"n_groups": len(made), "keys": list(made.key_names)}
    else:
        facts |= {"n_features": made.n_features, "order": made.order}
        facts |= {"n_shards": len(made.shard_ids)}
        facts |= {"n_forgotten": made.n_forgotten} if made.n_forgotten else {}
    target.report(facts, f"{target.path}: {made}")

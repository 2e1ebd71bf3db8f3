"""``momentmix summarize``: rows → a summary or a cube, in one pass."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import ReadOptions, data_options, families_options, output_options
from momentmix.cli.output import BINARY, Target, say_notes
from momentmix.progress import step
from momentmix.wording import plural

if TYPE_CHECKING:
    from momentmix.groups.cube import SummaryCube
    from momentmix.summary.summary import MomentSummary
    from momentmix.tables.table_rows import TableRows


@click.argument("inputs", nargs=-1, required=True)
@output_options("File of the summary.", required=True, quiet=True)
@click.option(
    "-m",
    "--order",
    metavar="N",
    type=click.IntRange(min=1),
    help="Most features in a product; default: 4.",
)
@click.option(
    "--squared-order",
    metavar="N",
    type=click.IntRange(min=0),
    help="Features beside a squared one; default: 2.",
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
@data_options
@click.option(
    "--n-threads", metavar="N", type=click.IntRange(min=1), help="Threads; all cores by default."
)
def summarize_command(
    inputs: tuple[str, ...],
    target: Target,
    order: int | None,
    squared_order: int | None,
    by: str | None,
    min_rows: int,
    families: Any,
    read_options: ReadOptions,
    n_threads: int | None,
) -> None:
    """Sum the moments of rows in one pass over files, folders, globs, or from - (CSV).

    With --by, the output is a cube: a table (.parquet) of keys, numbers of rows and
    summaries that merge, fit, compare and track read. Keys are names of columns, or
    year, quarter, month, week, day or hour of a column of dates.
    """
    from momentmix.capacity import usual_order
    from momentmix.cli.cubes import names_cube

    output = target.check(inputs, BINARY)
    if by is None and min_rows > 1:
        raise click.UsageError("--min-rows goes with --by.")
    if by is not None and not names_cube(output):
        raise click.UsageError("--by makes a cube; --output must end in .parquet.")
    settings = {"squared_order": squared_order, "n_threads": n_threads}
    begin = time.monotonic()
    made: MomentSummary | SummaryCube
    small = 0, 0  # groups, and their rows
    with step("Summarizing", target.progress):
        if by is None:
            rows, made = _summary(inputs, order, settings, families, read_options, target)
        else:
            rows, whole = _grouped(inputs, by, order, settings, families, read_options)
            _say_notes(rows, target)
            made = whole.at_least(min_rows)
            small = len(whole) - len(made), whole.n_rows - made.n_rows
        made.save(output)
    order = usual_order(rows.n_features) if order is None else order
    _report(made, small, rows, order, target, time.monotonic() - begin)


def _summary(
    inputs: tuple[str, ...],
    order: int | None,
    settings: dict[str, Any],
    families: Any,
    read_options: ReadOptions,
    target: Target,
) -> tuple[TableRows, MomentSummary]:
    from momentmix.capacity import usual_order
    from momentmix.summary.summarize import shards_of, summarize_parts
    from momentmix.tables.learning import learn

    rows = learn(read_options.open(inputs), families, read_options.missing)
    _say_notes(rows, target)
    order = usual_order(rows.n_features) if order is None else order
    summary = summarize_parts(rows, shards_of(rows, order, **settings))
    if not summary.n_rows:
        raise rows.without_rows()
    return rows, summary


def _grouped(
    inputs: tuple[str, ...],
    by: str,
    order: int | None,
    settings: dict[str, Any],
    families: Any,
    read_options: ReadOptions,
) -> tuple[TableRows, SummaryCube]:
    from momentmix.groups.summarize_by import grouped

    if not by.strip(" ,"):
        raise click.UsageError(
            "--by needs names of columns, as in --by region, or --by 'region,week(ts)'."
        )
    if "-" in inputs:
        raise click.UsageError("--by needs files; standard input has no name for its shards.")
    missing, reading = read_options.missing, read_options.reading()
    return grouped(list(inputs), by, order, families, missing, reading, **settings)


def _say_notes(rows: TableRows, target: Target) -> None:
    if not (target.quiet or target.as_json):
        say_notes(rows.notes)


def _report(
    made: MomentSummary | SummaryCube,
    small: tuple[int, int],
    rows: TableRows,
    order: int,
    target: Target,
    seconds: float,
) -> None:
    """Print what was read and written."""
    from momentmix.groups.cube import SummaryCube

    n, d, n_dropped = made.n_rows, rows.n_features, rows.n_dropped
    facts: dict[str, Any] = {"n_rows": n, "n_dropped": n_dropped, "n_features": d, "order": order}
    facts |= {"feature_names": rows.feature_names}
    dropped = f", {n_dropped:,} dropped" if n_dropped else ""
    said = f"{n:,} row{plural(n)}{dropped}, {d} feature{plural(d)}, moments up to order {order}"
    if isinstance(made, SummaryCube):
        (gone, gone_rows), keys = small, list(made.key_names)
        facts |= {"keys": keys, "n_groups": len(made)}
        facts |= {"n_groups_left_out": gone, "n_rows_left_out": gone_rows}
        left_out = f"; {gone:,} small groups ({gone_rows:,} rows) left out" if gone else ""
        said += f", {len(made):,} group{plural(len(made))} by {', '.join(keys)}{left_out}"
    else:
        facts |= {"n_shards": len(made.shard_ids)}
    target.report(facts | {"seconds": seconds}, f"{target.path}: {said}")

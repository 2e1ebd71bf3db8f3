"""``momentmix summarize``: rows → a summary, in one pass that can be interrupted and resumed."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import ReadOptions, data_options, families_options, output_options
from momentmix.cli.output import BINARY, Target, check_output, say_notes
from momentmix.progress import step

if TYPE_CHECKING:
    from momentmix.cube.summarize_by import CubeJob


@click.argument("inputs", nargs=-1, required=True)
@output_options("File of the summary.", required=True, quiet=True)
@click.option(
    "-m",
    "--order",
    type=click.IntRange(min=1),
    help="Highest order of products of different features; by default 4, or the number of features "
    "if that is less. Powers up to 6 of single features are kept in any case. "
    "`momentmix plan` prints which order a number of components needs.",
)
@click.option(
    "--squared-order",
    type=click.IntRange(min=0),
    help="Number of features beside a squared one; default: 2. `fit --method paper` needs "
    "order − 2.",
)
@click.option(
    "--by",
    help="Keys, separated by commas: one summary for each group of rows, in a cube (.parquet or "
    ".arrow). Names of columns or of folders (region=EU/), or week(column) and its like (year, "
    "quarter, month, week, day, hour) of dates.",
)
@click.option(
    "--min-rows",
    type=click.IntRange(min=1),
    default=1,
    help="With --by: leave out groups of fewer rows.",
)
@families_options
@data_options
@click.option(
    "--checkpoint",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the state of the pass; if it exists, the pass resumes from it.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0),
    default=10.0,
    help="Least number of seconds between checkpoints.",
)
@click.option("--part-rows", type=click.IntRange(min=1), hidden=True)
@click.option(
    "--n-threads", "--threads", type=click.IntRange(min=1), help="Threads; all cores by default."
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
    checkpoint: Path | None,
    every: float,
    part_rows: int | None,
    n_threads: int | None,
) -> None:
    """Sum the moments of rows in one pass over files, folders, globs, or from - (stdin).

    Reads .npy, .parquet, .arrow, .feather, .xlsx, .csv, .tsv, .jsonl and .ndjson, the last four
    also with .gz, .bz2, .xz, .zip or .zst. With --checkpoint, a pass that was interrupted can be
    resumed, and the result has the same bytes.

    With --by, the output is a cube: a table of keys, numbers of rows and summaries that DuckDB or
    polars can filter, and that merge, fit, compare and track read.
    """
    from momentmix.cli.cubes import names_cube
    from momentmix.cli.summarizing.checkpoint import locked

    output = str(target.path)
    if output == "-":
        raise click.UsageError(BINARY)
    if by is None and min_rows > 1:
        raise click.UsageError("--min-rows goes with --by.")
    if by is not None and not names_cube(output):
        raise click.UsageError("--by makes a cube; --output must end in .parquet or .arrow.")
    if checkpoint is not None:
        check_output(str(checkpoint), inputs, force=True, outputs=[output])
    with locked(checkpoint) if checkpoint is not None else nullcontext():
        resumable = checkpoint is not None and checkpoint.exists()
        check_output(output, inputs, target.force or resumable)
        with step("Summarizing", target.progress):
            from momentmix.cli.summarizing.passes import SummaryPass
            from momentmix.tables.learning import learn

            options = (order, squared_order, part_rows, n_threads)
            job: SummaryPass
            if by is None:
                rows = learn(read_options.open(inputs), families, read_options.missing)
                job = SummaryPass(rows, *options)
            else:
                from momentmix.cli.summarizing.cube_pass import CubePass

                job = CubePass(_cube_job(inputs, by, families, read_options), min_rows, *options)
            if not (target.quiet or target.as_json):
                say_notes(job.rows.notes)
            job.run(target, checkpoint, every)
        target.report(job.facts(), f"{output}: {job.sentence()}")


def _cube_job(
    inputs: tuple[str, ...], by: str, families: Any, read_options: ReadOptions
) -> CubeJob:
    from momentmix.cube.keys import parse_keys
    from momentmix.cube.summarize_by import cube_job

    if not by.strip(" ,"):
        raise click.UsageError(
            "--by needs names of columns, as in --by region, or --by 'region,week(ts)'."
        )
    if "-" in inputs:
        raise click.UsageError("--by needs files; standard input has no name for its shards.")
    reading = read_options.reading()
    return cube_job(list(inputs), parse_keys(by), families, read_options.missing, reading)

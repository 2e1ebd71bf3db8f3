"""``momentmix summarize``: rows → a summary, in one pass that can be interrupted and resumed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import (
    ReadOptions,
    by_name_option,
    data_options,
    families_options,
    force_option,
    json_option,
    quiet_option,
)
from momentmix.cli.output import check_output, say, say_json, say_message
from momentmix.progress import erase, step
from momentmix.wording import plural

if TYPE_CHECKING:
    from momentmix.cli.checkpoint import Checkpoint
    from momentmix.tables.table_rows import TableRows


@click.command("summarize", short_help="Moments of rows, in one pass.")
@click.argument("inputs", nargs=-1, required=True)
@click.option("-o", "--output", required=True, help="File of the summary.")
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
    show_default=True,
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
    show_default=True,
    help="Least number of seconds between checkpoints.",
)
@by_name_option
@click.option("--part-rows", type=click.IntRange(min=1), hidden=True)
@click.option(
    "--threads", type=click.IntRange(min=1), help="Number of threads; default: all cores."
)
@force_option
@quiet_option
@json_option
def summarize_command(
    inputs: tuple[str, ...],
    output: str,
    order: int | None,
    squared_order: int | None,
    by: str | None,
    min_rows: int,
    families: Any,
    read_options: ReadOptions,
    checkpoint: Path | None,
    every: float,
    by_name: bool,
    part_rows: int | None,
    threads: int | None,
    force: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Sum the moments of rows in one pass over files, folders, globs, or from - (stdin).

    Reads .npy, .parquet, .arrow, .feather, .xlsx, .csv, .tsv, .jsonl and .ndjson, the last four
    also with .gz, .bz2, .xz, .zip or .zst. With --checkpoint, a pass that was interrupted can be
    resumed, and the result has the same bytes.

    With --by, the output is a cube: a table of keys, numbers of rows and summaries that DuckDB or
    polars can filter, and that merge, fit, compare and track read.
    """
    from momentmix.cli.checkpoint import locked

    if output == "-":
        raise click.UsageError("a summary is a binary file; give a path to --output.")
    if by is None and min_rows > 1:
        raise click.UsageError("--min-rows goes with --by.")
    if by is not None:
        from momentmix.cli.cubes import names_cube

        if not names_cube(output):
            raise click.UsageError("--by makes a cube; --output must end in .parquet or .arrow.")
    if checkpoint is not None:
        check_output(str(checkpoint), inputs, force=True, outputs=[output])
    with locked(checkpoint) if checkpoint is not None else nullcontext():
        resumable = checkpoint is not None and checkpoint.exists()
        check_output(output, inputs, force or resumable)
        with step("Summarizing", False if quiet else None):
            job: Job
            if by is None:
                rows = read_options.open(inputs, by_name=by_name)
                rows = _learned(rows, families, read_options.missing, quiet or as_json)
                job = Job(rows, {}, threads)
            else:
                from momentmix.cli.cubes import cube_job_of

                job = cube_job_of(inputs, by, families, read_options, by_name, quiet or as_json)
                job.threads, job.min_rows = threads, min_rows
            job.settings |= job.settings_of(order, part_rows)
            job.settings["squared_order"] = squared_order
            if job.rows.schema is not None:
                job.settings["schema"] = job.rows.schema.to_dict()
            job.output, job.force = Path(output), force
            job.checkpoint, job.every = checkpoint, every
            job.run()
        if as_json:
            say_json(job.facts())
        else:
            say(job.sentence())


def _learned(rows: TableRows, families: Any, missing: Any, quiet: bool) -> TableRows:
    """The rows as features; notes say which columns were left out."""
    from momentmix.tables.learning import learn

    found = learn(rows, families, missing)
    if not quiet:
        erase()
        say_message(*(f"note: {note}" for note in found.notes))
    return found


@dataclass
class Job:
    """One run of the command, which can be interrupted and resumed."""

    rows: TableRows
    settings: dict[str, Any]
    threads: int | None
    output: Path = Path()
    force: bool = False
    checkpoint: Path | None = None
    every: float = 10.0
    min_rows: int = 1
    resumed_at: int = 0
    n_dropped: int = 0
    seconds: float = 0.0
    result: Any = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.rows.n_features

    def settings_of(self, order: int | None, part_rows: int | None) -> dict[str, Any]:
        """What the bytes of the result depend on, beside the rows."""
        from momentmix.capacity import usual_order
        from momentmix.errors import InputError

        d = self.n_features
        if order is not None and order > d:
            raise InputError(
                f"order={order} needs that many features; there are {d}. Use at most --order {d}."
            )
        return {
            "order": usual_order(d) if order is None else order,
            "part_rows": part_rows or self.usual_part_rows(),
            "by_name": self.rows.by_name,
        }

    def run(self) -> None:
        """Make the pass, or the rest of it, and write the result."""
        from momentmix.cli.checkpoint import Fingerprint
        from momentmix.errors import InputError

        state, fingerprint = self.start(), None
        if self.checkpoint is not None:
            fingerprint = Fingerprint.of(self.rows)
            state = self._resumed(state, fingerprint)
        begin = last = time.monotonic()
        self.resumed_at = state.n_rows + state.n_dropped
        for state in self.states(state):  # noqa: B020
            if self.checkpoint is not None and time.monotonic() - last >= self.every:
                self._state(state, fingerprint).save(self.checkpoint)
                last = time.monotonic()
        for source in self.rows.sources:
            source.check_unchanged()
        self.n_dropped = state.n_dropped
        if not state.n_rows:
            raise InputError(
                f"{self.rows.sources[0].name} holds no rows"
                f"{f' besides the {self.n_dropped} dropped' if self.n_dropped else ''}."
            )
        if self.checkpoint is not None:
            self._state(state, fingerprint, finished=True).save(self.checkpoint)
        self.result = self.made(state)
        self.result.save(self.output)
        if self.checkpoint is not None:
            self.checkpoint.unlink(missing_ok=True)
        self.seconds = time.monotonic() - begin

    def _state(self, state: Any, fingerprint: Any, finished: bool = False) -> Checkpoint:
        from momentmix.cli.checkpoint import Checkpoint

        place = (state.table, state.row, state.n_dropped, state.read)
        return Checkpoint(fingerprint, self.settings, *place, self.packed(state), finished)

    def _resumed(self, state: Any, fingerprint: Any) -> Any:
        from momentmix.cli.checkpoint import Checkpoint

        assert self.checkpoint is not None
        if not self.checkpoint.exists():
            return state
        found = Checkpoint.load(self.checkpoint)
        found.check(self.checkpoint, fingerprint, self.settings)
        written = found.finished and self.output.exists()
        if not (written and self.is_written(found.summary)):
            check_output(str(self.output), (), self.force)
        return self.unpacked(state, found)

    # -- what is made: one summary ------------------------------------------------------------

    def usual_part_rows(self) -> int:
        """Rows of a part."""
        from momentmix.summary.parts import PART_ROWS

        return PART_ROWS

    def _new_shard(self) -> Any:
        from momentmix.summary.summary import MomentSummary

        return partial(
            MomentSummary,
            self.n_features,
            self.settings["order"],
            self.rows.feature_names if self.rows.schema is None else None,
            self.settings["squared_order"],
            n_threads=self.threads,
            schema=self.rows.schema,
        )

    def start(self) -> Any:
        """The state before the first row."""
        from momentmix.summary.parts import Progress

        return Progress(self._new_shard()(), 0, 0, 0)

    def states(self, state: Any) -> Iterator[Any]:
        """States after each part."""
        from momentmix.summary.parts import summarize_parts

        part_rows = self.settings["part_rows"]
        return summarize_parts(self.rows, state, self._new_shard(), part_rows)

    def packed(self, state: Any) -> bytes:
        """A state as bytes."""
        return bytes(state.summary.to_bytes())

    def unpacked(self, state: Any, found: Checkpoint) -> Any:
        """The state of a checkpoint."""
        from momentmix.summary.parts import Progress
        from momentmix.summary.summary import MomentSummary

        summary = state.summary + MomentSummary.from_bytes(found.summary)
        return Progress(summary, found.piece, found.row, found.n_dropped, found.read)

    def is_written(self, state: bytes) -> bool:
        """Whether the output is that of a finished pass."""
        return self.output.read_bytes() == state

    def made(self, state: Any) -> Any:
        """What is saved."""
        return state.summary

    def facts(self) -> dict[str, Any]:
        """What the command prints as JSON."""
        n_read = self.result.n_rows + self.n_dropped - self.resumed_at
        return {
            "output": str(self.output),
            "n_rows": self.result.n_rows,
            "n_dropped": self.n_dropped,
            "n_features": self.n_features,
            "order": self.settings["order"],
            "feature_names": self.result.feature_names,
            **self.own_facts(),
            "resumed_at_row": self.resumed_at,
            "seconds": self.seconds,
            "rows_per_second": n_read / self.seconds if self.seconds else None,
        }

    def own_facts(self) -> dict[str, Any]:
        """Facts of this kind of result."""
        return {"n_shards": len(self.result.shard_ids)}

    def sentence(self) -> str:
        """What the command prints."""
        dropped = f", {self.n_dropped:,} dropped" if self.n_dropped else ""
        return (
            f"{self.output}: {self.result.n_rows:,} row{plural(self.result.n_rows)}{dropped}, "
            f"{self.n_features} feature{plural(self.n_features)}, "
            f"moments up to order {self.settings['order']}"
        )

"""``momentmix summarize``: rows → a summary, in one pass that can be interrupted and resumed."""

from __future__ import annotations

import time
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
from momentmix.cli.output import check_output, say, say_json
from momentmix.progress import erase, step

if TYPE_CHECKING:
    from momentmix.cli.checkpoint import Checkpoint
    from momentmix.rows.source import RowSource
    from momentmix.schema.schema import Schema
    from momentmix.summary.parts import Progress
    from momentmix.summary.summary import MomentSummary


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
    "--replicates",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Number of groups of rows summed apart, for standard errors of moments; no fit uses them.",
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
    replicates: int,
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
    """
    from momentmix.cli.checkpoint import locked

    if output == "-":
        raise click.UsageError("a summary is a binary file; give a path to --output.")
    if checkpoint is not None and "-" in inputs:
        raise click.UsageError("standard input cannot be read again; --checkpoint needs files.")
    if checkpoint is not None:
        check_output(str(checkpoint), inputs, force=True, outputs=[output])
    with locked(checkpoint) if checkpoint is not None else nullcontext():
        resumable = checkpoint is not None and checkpoint.exists()
        check_output(output, inputs, force or resumable)
        with step("Summarizing", False if quiet else None):
            source = read_options.open(inputs, by_name=by_name)
            source, schema = _schema(source, families, read_options.missing, quiet or as_json)
            n_features = source.n_features if schema is None else schema.n_features
            job = _Job(source, _settings(source, n_features, order, part_rows), threads, schema)
            job.settings |= {"replicates": replicates, "squared_order": squared_order}
            if schema is not None:
                job.settings["schema"] = schema.to_dict()
            job.output, job.force = Path(output), force
            job.checkpoint, job.every = checkpoint, every
            summary = job.run()
        _report(job, summary, as_json)


def _schema(
    source: RowSource, families: Any, missing: Any, quiet: bool
) -> tuple[RowSource, Schema | None]:
    """The columns that are used, and how they become features, if they are not these."""
    from momentmix.schema.sources import encode_rows, needs_pass

    once = not all(table.reopens for table in source.tables)
    if once and needs_pass(source, families, missing):
        raise click.UsageError(
            "standard input cannot be read again, as text, --families and --missing model need; "
            "give files, a --schema, or --numeric-only."
        )
    found = encode_rows(source, families, missing)
    if not quiet:
        erase()
        say(*(f"note: {note}" for note in found.notes), err=True)
    rows: Any = found.rows
    return rows, None if found.schema.is_plain else found.schema


def _settings(
    source: RowSource, n_features: int, order: int | None, part_rows: int | None
) -> dict[str, Any]:
    from momentmix.capacity import usual_order
    from momentmix.errors import InputError
    from momentmix.summary.parts import PART_ROWS

    d = n_features
    if order is not None and order > d:
        raise InputError(
            f"order={order} needs that many features; there are {d}. Use at most --order {d}."
        )
    return {
        "order": usual_order(d) if order is None else order,
        "part_rows": part_rows or PART_ROWS,
        "by_name": source.by_name,
    }


@dataclass
class _Job:
    """One run of the command."""

    source: RowSource
    settings: dict[str, Any]
    threads: int | None
    schema: Schema | None = None
    output: Path = Path()
    force: bool = False
    checkpoint: Path | None = None
    every: float = 10.0
    resumed_at: int = 0
    n_dropped: int = 0
    seconds: float = 0.0

    def run(self) -> MomentSummary:
        from momentmix.errors import InputError
        from momentmix.summary.parts import Progress, summarize_parts
        from momentmix.summary.summary import MomentSummary

        new_shard = partial(
            MomentSummary,
            self.source.n_features if self.schema is None else self.schema.n_features,
            self.settings["order"],
            self.source.feature_names if self.schema is None else None,
            self.settings["squared_order"],
            replicates=self.settings["replicates"], n_threads=self.threads, schema=self.schema,
        )  # fmt: skip
        state = Progress(new_shard(), 0, 0, 0)
        fingerprint = None
        if self.checkpoint is not None:
            fingerprint = self.source.fingerprint()
            state = self._resumed(state, fingerprint)
        begin = last = time.monotonic()
        self.resumed_at = state.summary.n_rows + state.n_dropped
        options = (self.settings["part_rows"], self._encode())
        for state in summarize_parts(self.source, state, new_shard, *options):  # noqa: B020
            if self.checkpoint is not None and time.monotonic() - last >= self.every:
                self._state(state, fingerprint).save(self.checkpoint)
                last = time.monotonic()
        for table in self.source.tables:
            table.check_unchanged()
        summary, self.n_dropped = state.summary, state.n_dropped
        if not summary.n_rows:
            raise InputError(
                f"{self.source.tables[0].name} holds no rows"
                f"{f' besides the {self.n_dropped} dropped' if self.n_dropped else ''}."
            )
        if self.checkpoint is not None:
            self._state(state, fingerprint, finished=True).save(self.checkpoint)
        summary.save(self.output)
        if self.checkpoint is not None:
            self.checkpoint.unlink(missing_ok=True)
        self.seconds = time.monotonic() - begin
        return summary

    def _encode(self) -> Any:
        """Rows as read → what a summary adds; None where that is the same."""
        from momentmix.schema.rows import EncodedRows

        return None if self.schema is None else EncodedRows(self.source, self.schema).summand_of

    def _state(self, state: Progress, fingerprint: Any, finished: bool = False) -> Checkpoint:
        from momentmix.cli.checkpoint import Checkpoint

        data = state.summary.to_bytes()
        place = (state.table, state.row, state.n_dropped, state.read)
        return Checkpoint(fingerprint, self.settings, *place, data, finished)

    def _resumed(self, state: Progress, fingerprint: Any) -> Progress:
        from momentmix.cli.checkpoint import Checkpoint
        from momentmix.summary.parts import Progress
        from momentmix.summary.summary import MomentSummary

        assert self.checkpoint is not None
        if not self.checkpoint.exists():
            return state
        found = Checkpoint.load(self.checkpoint)
        found.check(self.checkpoint, fingerprint, self.settings)
        written = found.finished and self.output.exists()
        if not (written and self.output.read_bytes() == found.summary):
            check_output(str(self.output), (), self.force)
        summary = state.summary + MomentSummary.from_bytes(found.summary)
        return Progress(summary, found.piece, found.row, found.n_dropped, found.read)


def _report(job: _Job, summary: MomentSummary, as_json: bool) -> None:
    n_read = summary.n_rows + job.n_dropped - job.resumed_at
    report = {
        "output": str(job.output),
        "n_rows": summary.n_rows,
        "n_dropped": job.n_dropped,
        "n_features": summary.n_features,
        "order": summary.order,
        "feature_names": summary.feature_names,
        "n_shards": len(summary.shard_ids),
        "resumed_at_row": job.resumed_at,
        "seconds": job.seconds,
        "rows_per_second": n_read / job.seconds if job.seconds else None,
    }
    if as_json:
        say_json(report)
        return
    dropped = f", {job.n_dropped:,} dropped" if job.n_dropped else ""
    say(
        f"{job.output}: {summary.n_rows:,} rows{dropped}, {summary.n_features} "
        f"features, moments up to order {summary.order}"
    )

"""``momentmix score``: how probable rows are under a model, all together and one by one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from math import log
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.models.predict import (
    keep_option,
    load_model,
    load_verdict,
    open_for,
    options_of,
    unseen_option,
)
from momentmix.cli.options import ReadOptions, data_options, output_options
from momentmix.cli.output import Target, say, say_json
from momentmix.progress import step

if TYPE_CHECKING:
    from momentmix.cli.tables import Answers
    from momentmix.mixture.mixture import Mixture
    from momentmix.tables.table_rows import TableRows


@click.argument("model")
@click.argument("inputs", nargs=-1, required=True)
@click.option("--rows", "each_row", is_flag=True, help="Write the log-density of each row.")
@output_options("With --rows: CSV or .parquet; by default CSV on standard output.", quiet=True)
@keep_option
@click.option(
    "--quantile",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Rows are anomalies if their log-density lies below this quantile of the rows' own. "
    "Needs 8 bytes of memory for each row.",
)
@click.option(
    "--threshold",
    type=float,
    help="Rows are anomalies if their log-density lies below this number, such as the threshold "
    "that --quantile found for other rows.",
)
@unseen_option
@data_options
def score_command(
    model: str,
    inputs: tuple[str, ...],
    each_row: bool,
    target: Target,
    keep: list[str | int] | None,
    quantile: float | None,
    threshold: float | None,
    unseen: str,
    read_options: ReadOptions,
) -> None:
    """Print the mean log-likelihood of rows under a model, with BIC and AIC.

    The verdict of the certificate that `momentmix fit` saved with the model is printed as well.
    With --quantile or --threshold the number of anomalies is added; with --rows the log-density of
    each row is written, and whether it is an anomaly. With --missing drop, a row with missing
    values stays in that output with empty fields.
    """
    for name, value in (("--output", target.path), ("--keep", keep)):
        if not each_row and value is not None:
            raise click.UsageError(f"{name} goes with --rows, which writes a line for each row.")
    if quantile is not None and threshold is not None:
        raise click.UsageError(
            "--quantile finds a threshold, and --threshold gives one; pass one of them."
        )
    if threshold is not None and threshold != threshold:
        raise click.UsageError("--threshold must be a number; got nan.")
    import numpy as np

    from momentmix.cli.tables import KeptColumns

    output = target.check([model, *inputs]) if each_row else None
    mixture = load_model(model)
    rows = open_for(mixture.columns, inputs, options_of(read_options, model))
    has_bound = quantile is not None or threshold is not None
    names = ["log_density", "anomaly"] if has_bound else ["log_density"]
    kept = KeptColumns(rows, keep, names)
    n_rows, n_anomalies, total = 0, 0, 0.0

    def counted(scored: Answers) -> Answers:
        nonlocal n_rows, n_anomalies, total
        for others, values in scored:
            known = ~np.isnan(values)
            n_rows += int(known.sum())
            total += float(values[known].sum())
            columns = [values]
            if threshold is not None:
                below = values < threshold
                n_anomalies += int(below.sum())
                columns.append(np.where(known, below, np.nan))
            yield others, np.column_stack(columns)

    with step("Scoring", False if output == "-" else target.progress):
        scored = _scored(mixture, rows, kept.numbers, unseen)
        if quantile is not None:
            stored = list(_scored(mixture, rows, [], unseen))
            values = np.concatenate([values for _, values in stored])
            values = values[~np.isnan(values)]
            place = int(np.ceil(quantile * (values.size - 1)))  # at or above np.quantile
            threshold = float(np.partition(values, place)[place])
            # Kept columns are read in a second pass: only numbers are held in memory.
            scored = scored if kept.names else iter(stored)
        if output is not None:
            kept.write(output, names, ["number", "bool"][: len(names)], counted(scored))
        else:
            deque(counted(scored), maxlen=0)
    n_parameters = mixture.parameters.n_free
    facts: dict[str, Any] = {
        "n_rows": n_rows,
        "log_likelihood_per_row": total / n_rows,
        "bic": n_parameters * log(n_rows) - 2 * total,
        "aic": 2 * n_parameters - 2 * total,
    }
    if threshold is not None:
        facts |= {"threshold": threshold, "n_anomalies": n_anomalies}
    _print(facts, load_verdict(model), output, target.as_json)


def _scored(
    mixture: Mixture, rows: TableRows, others: Sequence[Sequence[int]], unseen: Any
) -> Iterator[tuple[list[list[Any]], Any]]:
    """Yield other columns and log-densities of rows, NaN for rows that were dropped."""
    import numpy as np

    from momentmix.errors import InputError
    from momentmix.mixture.density import log_sums

    density, n_rows = mixture.table_density(), 0
    for _, block in rows.placed_blocks(others, unseen):
        values = np.full(block.n_read, np.nan)
        whole = slice(None) if block.kept is None else block.kept
        values[whole] = density.map_encoded(block.encoded, log_sums)
        n_rows += len(block.features)
        yield block.others, values
    if not n_rows:  # while an output can still be given up
        raise InputError(f"{rows.sources[0].name} holds no rows.")


def _print(facts: dict[str, Any], verdict: str | None, output: str | None, as_json: bool) -> None:
    """Print the facts; beside rows on standard output, only what the rows do not tell."""
    if as_json:
        written = {"output": output} if output is not None else {}
        say_json({**written, **facts, "verdict": verdict})
        return
    anomalies = []
    if "threshold" in facts:  # all its digits: the same rows lie below it when it is given back
        anomalies = [
            f"{facts['n_anomalies']:,} of {facts['n_rows']:,} rows have a log-density below the "
            f"threshold {facts['threshold']!r}"
        ]
    if output == "-":
        say(*(f"momentmix: {line}" for line in anomalies), err=True)
        return
    for name in ("n_rows", "log_likelihood_per_row", "bic", "aic"):
        say(f"{name.replace('_', ' '):<24} {facts[name]:.10g}")
    if verdict is not None:
        say(f"{'certificate of the model':<24} {verdict}")
    say(*anomalies, *([] if output is None else [f"scores written to {output}"]))

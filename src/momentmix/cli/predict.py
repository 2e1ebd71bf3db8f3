"""``momentmix predict``: components and log-densities of rows."""

from __future__ import annotations

import csv
import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import click
import numpy as np
import pyarrow as pa

from momentmix.cli.files import check_output, output_stream, rows_source, say, say_json
from momentmix.cli.options import (
    columns_option,
    csv_options,
    json_option,
    missing_option,
    output_option,
)
from momentmix.errors import InputError, printable
from momentmix.mixture.density import log_sums, most_probable, posteriors
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.model_file import load_model
from momentmix.parallel import read_ahead
from momentmix.progress import step
from momentmix.tables.encoding import Encoded
from momentmix.tables.learning import rows_with
from momentmix.tables.opening import READ_ALL, Reading, warn_of_header
from momentmix.tables.schema import Schema
from momentmix.tables.source import Source, choose_columns, match_columns
from momentmix.tables.table_rows import TableRows


@click.command("predict")
@click.argument("model")
@click.argument("inputs", nargs=-1, required=True)
@output_option("CSV (.csv) or .parquet; standard output by default.")
@json_option
@click.option("-p", "--probabilities", is_flag=True, help="Probabilities of the components, too.")
@click.option("--density", is_flag=True, help="The log-density of each row, too.")
@columns_option("--keep", "Columns of the input to copy to the output.")
@click.option(
    "--unseen",
    type=click.Choice(["error", "missing"]),
    default="error",
    help="Levels that no row of the fit had.",
)
@missing_option(None)
@csv_options
def predict_command(
    model: str,
    inputs: tuple[str, ...],
    output: str | None,
    as_json: bool,
    probabilities: bool,
    density: bool,
    keep: list[str | int] | None,
    unseen: Any,
    missing: Any,
    reading: Reading,
) -> None:
    """Write the most probable component of each row, in bounded memory; -1 is the background.

    Rows are read as those of the fit were, unless options say otherwise. With --missing drop, a row
    with missing values stays in the output with an empty label.

    \b
    momentmix predict model.json new.csv --keep id -o groups.csv
    """  # noqa: D301, click does not rewrap what follows a backspace
    check_output(output, [model, *inputs], ".csv", ".parquet")
    if as_json and output is None:
        raise click.UsageError("--json reports on the work; give a file to --output for the rows.")
    mixture, rows = _rows_of(model, inputs, missing, reading)
    counts, total = np.zeros(mixture.n_components + 1, dtype=np.int64), 0.0  # −1 is the first

    def tables() -> Iterator[pa.Table]:
        nonlocal total
        for kept, source, block in _blocks(rows, keep, unseen):
            answers = _answers(mixture, block, source, probabilities, density)
            labels = answers["label"][~np.isnan(answers["label"])].astype(np.int64)
            counts[:] += np.bincount(labels + 1, minlength=len(counts))
            total += float(np.nansum(answers.get("log_density", 0.0)))
            columns = {name: pa.array(x, from_pandas=True) for name, x in answers.items()}
            columns["label"] = columns["label"].cast(pa.int32())
            if twice := {*kept} & {*columns}:
                raise InputError(
                    f"the output has a column {twice.pop()!a} of its own; rename that of the "
                    "input, or do not keep it."
                )
            yield pa.table(kept | columns)

    with step("Predicting", False if output is None else None):
        _write(output or "-", tables())
    if output is None:
        return
    n, facts = int(counts.sum()), {"rows_per_component": counts[1:].tolist()}
    score = {"log_likelihood_per_row": total / n} if density and n else {}
    if as_json:
        say_json({"output": output, "n_rows": n, **facts, **score})
    else:
        text = "".join(f", log-likelihood {x:.10g} a row" for x in score.values())
        say(f"labels of {n:,} rows written to {output}{text}")


def _rows_of(
    model: str, inputs: tuple[str, ...], missing: Any, reading: Reading
) -> tuple[Mixture, TableRows]:
    """A model, and rows with its columns: by name where both have names, read as in its fit."""
    mixture, record = load_model(model)
    options = dict[str, Any]()
    with suppress(KeyError, TypeError):  # no record of a fit, or a damaged one
        options = dict((record or {})["options"])
    names = [field.name for field in fields(Reading) if field.name not in ("columns", "exclude")]
    same = {name: options[name] for name in names if name in options}
    given = {x: getattr(reading, x) for x in names if getattr(reading, x) != getattr(READ_ALL, x)}
    usual = "model" if any(column.has_missing for column in mixture.columns) else "error"
    schema = Schema(mixture.columns)
    rows = replace(READ_ALL, **same | given).open(
        rows_source(inputs), missing or options.get("missing", usual), schema.column_names
    )
    warn_of_header(rows.sources, schema.column_names)
    with warnings.catch_warnings():  # commands take columns of a model without names by place
        warnings.filterwarnings("ignore", "the rows have feature names", UserWarning)
        return mixture, rows_with(schema, rows, "the model")


def _blocks(
    rows: TableRows, keep: list[str | int] | None, unseen: Any
) -> Iterator[tuple[dict[str, pa.Array], Source, Encoded]]:
    """Columns that are kept, and blocks of rows; files are read ahead."""
    first = rows.sources[0]
    chosen = [] if keep is None else choose_columns(first, keep)
    names = [f"column_{j}" if first.column_names is None else first.column_names[j] for j in chosen]
    for part in rows.parts:
        source = part.sources[0]
        others = chosen if source is first else match_columns(first, chosen, source, False)
        blocks: Any = part.encoded(others, unseen)
        for block in read_ahead(blocks, n_ahead=1) if not source.in_memory else blocks:
            yield dict(zip(names, map(_arrow, block.others), strict=True)), source, block


def _arrow(column: Any) -> pa.Array:
    """A column as an Arrow array without a dictionary."""
    array = column if isinstance(column, pa.Array) else pa.array(column, from_pandas=True)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _answers(
    mixture: Mixture, block: Encoded, source: Source, probabilities: bool, density: bool
) -> dict[str, Any]:
    """Label, probabilities and log-density, NaN for rows that were dropped."""
    model = mixture.row_density
    found = model.map_encoded(block, posteriors if probabilities else most_probable)
    lost = np.isnan(found) | (found < 0)
    lost = lost.any(axis=1) if probabilities else lost
    places = np.arange(block.n_read) if block.kept is None else np.flatnonzero(block.kept)
    if lost.any():
        raise InputError(
            f"{source.name}, {source.where(block.first_row + int(places[lost][0]))} lies more than "
            "1e154 standard deviations away from the model, so that no component is its most "
            "probable one. Drop the row, or bring the columns to the units of the model."
        )
    labels, n_groups, columns = found, model.n_groups, dict[str, Any]()
    if probabilities:
        columns = {f"probability_{k}": found[:, k] for k in range(found.shape[1])}
        labels = found.argmax(axis=1)
        if n_groups is not None:
            labels = model.density.of_groups(found, most_probable)
    columns = {"label": np.where(labels == n_groups, -1, labels), **columns}
    if density:
        columns["log_density"] = model.map_encoded(block, log_sums)
    answers = {name: np.full(block.n_read, np.nan) for name in columns}
    for name, values in columns.items():
        answers[name][places] = values
    return answers


def _write(path: str, tables: Iterator[pa.Table]) -> None:
    """Write tables one after the other, as Parquet or CSV; "-" is standard output."""
    first = next(tables)
    every = (table.cast(first.schema) for table in chain([first], tables))
    with output_stream(path) as stream:
        try:
            if path.lower().endswith(".parquet"):
                from pyarrow import parquet

                with parquet.ParquetWriter(stream, first.schema) as writer:
                    for table in every:
                        writer.write_table(table)
                return
            text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
            lines = csv.writer(text, lineterminator="\n")
            lines.writerow(first.column_names)
            for table in every:
                columns = (column.cast(pa.string()).to_pylist() for column in table.columns)
                rows: Iterator[Any] = zip(*columns, strict=True)
                if path == "-" and sys.stdout.isatty():  # a terminal obeys control characters
                    rows = ([x and printable(x) for x in row] for row in rows)
                lines.writerows(rows)
            text.detach()
        except pa.ArrowException as error:
            raise InputError(
                f"columns to keep cannot be written to {path}: {error}. Keep others, or convert "
                "them."
            ) from None

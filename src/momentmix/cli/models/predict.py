"""``momentmix predict``: components and log-densities of rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import ReadOptions, columns_option, data_options, output_options
from momentmix.cli.output import Target
from momentmix.progress import step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from momentmix.cli.tables import Answers, KeptColumns
    from momentmix.families.column import Column
    from momentmix.mixture.mixture import Mixture
    from momentmix.mixture.rows import RowDensity
    from momentmix.tables.source import Source
    from momentmix.tables.table_rows import RowBlock, TableRows


def load_model(path: str) -> Mixture:
    """Load a model; a missing file is no input."""
    from momentmix.mixture.mixture import Mixture
    from momentmix.tables.opening import missing_input

    if not Path(path).exists():
        raise missing_input(path)
    return Mixture.load(path)


def options_of(read_options: ReadOptions, path: str, may_drop: bool = False) -> ReadOptions:
    """The options for rows of a model: it takes gaps where its fit took cells missing at random.

    Where it `may_drop` rows, it also leaves those with gaps out as the fit did.
    """
    from momentmix.mixture.model_file import load_model

    if read_options.missing != "error":
        return read_options
    try:
        record = load_model(path)[1] or {}
        found = record["certificate"]["findings"]
        at_random = any(finding["name"] == "missing-at-random" for finding in found)
        drops = may_drop and (record["options"] or {}).get("missing") == "drop"
    except (AttributeError, KeyError, TypeError):  # no record of a fit, or a damaged one
        return read_options
    if at_random or drops:
        return replace(read_options, missing="mar" if at_random else "drop")
    return read_options


def open_for(
    columns: Sequence[Column], inputs: tuple[str, ...], read_options: ReadOptions
) -> TableRows:
    """Open rows with the columns that the model has: by name where both have names."""
    from momentmix.tables.learning import rows_with
    from momentmix.tables.opening import warn_of_header
    from momentmix.tables.schema import Schema

    schema = Schema(tuple(columns))
    if read_options.missing == "error" and any(column.has_missing for column in columns):
        read_options = replace(read_options, missing="model")
    rows = read_options.open(inputs, schema.column_names)
    warn_of_header(rows.sources, schema.column_names)
    with warnings.catch_warnings():  # commands take columns of a model without names by place
        warnings.filterwarnings("ignore", "the rows have feature names", UserWarning)
        return rows_with(schema, rows, "the model")


@click.argument("model")
@click.argument("inputs", nargs=-1, required=True)
@output_options("CSV or .parquet; - is standard output.", default="-", quiet=True)
@click.option("-p", "--probabilities", is_flag=True, help="Probabilities of the components, too.")
@click.option("--density", is_flag=True, help="The log-density of each row, too.")
@click.option(
    "--digits", metavar="N", type=click.IntRange(0, 17), help="Decimal digits of probabilities."
)
@columns_option("--keep", "Columns of the input to copy to the output.")
@click.option(
    "--unseen",
    type=click.Choice(["error", "missing"]),
    default="error",
    help="Levels that no row of the fit had.",
)
@data_options
def predict_command(
    model: str,
    inputs: tuple[str, ...],
    target: Target,
    probabilities: bool,
    density: bool,
    digits: int | None,
    keep: list[str | int] | None,
    unseen: str,
    read_options: ReadOptions,
) -> None:
    """Write the most probable component of each row, in bounded memory; -1 is the background.

    With --missing drop, a row with missing values stays in the output with an empty label.
    """
    import numpy as np

    from momentmix.cli.tables import KeptColumns

    output = target.check([model, *inputs])
    mixture = load_model(model)
    rows = open_for(mixture.columns, inputs, options_of(read_options, model))
    probabilities = probabilities or digits is not None
    names = ["label"]
    if probabilities:
        names += [f"probability_{i}" for i in range(mixture.n_components)]
    if density:
        names.append("log_density")
    kept = KeptColumns(rows, keep, names)
    n_rows, n_known, total = 0, 0, 0.0
    counts = np.zeros(mixture.n_components, dtype=np.int64)

    def answers() -> Answers:
        nonlocal n_rows, n_known, total, counts
        for columns, answer in _predicted(mixture, rows, kept, probabilities, density, unseen):
            labels = answer[:, 0]
            found = labels[labels >= 0].astype(np.int64)  # neither NaN nor the background's
            counts += np.bincount(found, minlength=mixture.n_components)
            if digits is not None:
                shares = slice(1, 1 + mixture.n_components)
                answer[:, shares] = answer[:, shares].round(digits)
            n_rows += len(answer)
            known = ~np.isnan(labels)
            n_known += int(known.sum())
            total += float(answer[known, -1].sum())
            yield columns, answer

    with step("Predicting", target.progress):
        kept.write(output, names, ["label"] + ["number"] * (len(names) - 1), answers())
    if not (target.as_json or (output != "-" and not target.quiet)):
        return
    facts: dict[str, Any] = {"n_rows": n_rows, "rows_per_component": counts.tolist()}
    said = ""
    if density and n_known:
        facts["log_likelihood_per_row"] = total / n_known
        said = f", log-likelihood {total / n_known:.10g} a row"
    target.report(facts, f"labels of {n_rows:,} rows written to {output}{said}")


def _predicted(
    mixture: Mixture,
    rows: TableRows,
    kept: KeptColumns,
    probabilities: bool,
    density: bool,
    unseen: Any,
) -> Answers:
    """Yield kept columns and answers, NaN for dropped rows; files are read ahead."""
    from momentmix.parallel import read_ahead

    model = mixture.row_density
    for i, source in enumerate(rows.sources):
        others = kept.numbers[i] if kept.numbers else ()
        blocks = rows.source_blocks(i, others=others, unseen=unseen)
        answers = (
            (block.others, _answer(model, block, source, probabilities, density))
            for block in blocks
        )
        yield from read_ahead(answers, n_ahead=1) if not source.in_memory else answers


def _answer(
    model: RowDensity, block: RowBlock, source: Source, probabilities: bool, density: bool
) -> NDArray[np.float64]:
    """Return labels, probabilities and log-densities.

    Raises for a row that is finite, with squares not.
    """
    import numpy as np

    from momentmix.errors import InputError
    from momentmix.mixture.density import log_sums, most_probable, posteriors

    found = model.map_encoded(block.encoded, posteriors if probabilities else most_probable)
    found = found if probabilities else found[:, None]
    lost = np.isnan(found).any(axis=1) | (found < 0).any(axis=1)
    whole = np.arange(block.n_read) if block.kept is None else np.flatnonzero(block.kept)
    if lost.any():
        raise InputError(
            f"{source.name}, {source.where(block.first_row + int(whole[lost][0]))} lies more than "
            "1e154 standard deviations away from the model, so that no component is its most "
            "probable one. Drop the row, or bring the columns to the units of the model."
        )
    answer = np.full((block.n_read, found.shape[1] + probabilities + density), np.nan)
    labels, n_groups = found[:, 0], model.n_groups
    if probabilities:
        answer[whole, 1 : 1 + found.shape[1]] = found
        labels = found.argmax(axis=1)
        if n_groups is not None:
            labels = model.density.of_groups(found, most_probable)
    answer[whole, 0] = np.where(labels == n_groups, -1, labels)
    if density:
        answer[whole, -1] = model.map_encoded(block.encoded, log_sums)
    return answer

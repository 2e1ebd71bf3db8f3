"""``momentmix predict`` and ``sample``: components of rows, and rows from a model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import (
    ReadOptions,
    columns_option,
    data_options,
    output_options,
    seed_option,
)
from momentmix.cli.output import Target, say
from momentmix.findings.messages import in_shell
from momentmix.progress import counting, step

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from momentmix.cli.tables import Answers, KeptColumns
    from momentmix.families.column import Column
    from momentmix.mixture.mixture import Mixture
    from momentmix.mixture.tables.rows import TableDensity
    from momentmix.tables.source import Source
    from momentmix.tables.table_rows import RowBlock, TableRows

_BLOCK = 65536

keep_option = columns_option(
    "--keep",
    "Columns of the input to copy to the output, by name or number, separated by commas. "
    "They may hold text or dates.",
)

unseen_option = click.option(
    "--unseen",
    type=click.Choice(["error", "missing"]),
    default="error",
    help="What a level gets that no row of the fit had: an error, or its cell is left out.",
)


def load_model(path: str) -> Mixture:
    """Load a model; a missing file is no input."""
    from momentmix.mixture.mixture import Mixture
    from momentmix.tables.opening import missing_input

    if not Path(path).exists():
        raise missing_input(path)
    return Mixture.load(path)


def load_verdict(path: str) -> str | None:
    """Verdict of the certificate of a model; None where the file holds no record of a fit."""
    from momentmix.errors import ModelFileError
    from momentmix.mixture.model_file import read_model

    if read_model(path).get("fit") is None:
        return None  # without loading what reads a record, which takes longer than all else
    from momentmix.fitting.record import load_fit

    try:
        record = load_fit(path)[1]
    except ModelFileError as error:  # the mixture was loaded: rows can be scored all the same
        say(f"momentmix: warning: {in_shell(error)}", err=True)
        return None
    return None if record is None else record.certificate.verdict


def options_of(read_options: ReadOptions, path: str, may_drop: bool = False) -> ReadOptions:
    """The options for rows of a model: it takes gaps where its fit took cells missing at random.

    Where it `may_drop` rows, it also leaves those with gaps out as the fit did.
    """
    from momentmix.mixture.model_file import read_model

    if read_options.missing != "error":
        return read_options
    try:
        record = read_model(path)["fit"]
        found = record["certificate"]["findings"]
        at_random = any(finding["name"] == "missing-at-random" for finding in found)
        drops = may_drop and (record["options"] or {}).get("missing") == "drop"
    except (AttributeError, KeyError, TypeError):  # no record of a fit, or a damaged one
        return read_options
    if at_random or drops:
        return replace(read_options, missing="mar" if at_random else "drop")
    return read_options


def open_for(
    columns: Sequence[Column],
    inputs: tuple[str, ...],
    read_options: ReadOptions,
    by_name: bool = False,
    owner: str = "the model",
) -> TableRows:
    """Open rows with the columns that `owner` has: by name where both have names."""
    from momentmix.tables.learning import rows_with
    from momentmix.tables.opening import warn_of_header
    from momentmix.tables.schema import Schema

    schema = Schema(tuple(columns))
    if read_options.missing == "error" and any(column.has_missing for column in columns):
        read_options = replace(read_options, missing="model")
    rows = read_options.open(inputs, schema.column_names, by_name)
    warn_of_header(rows.sources, schema.column_names)
    with warnings.catch_warnings():  # commands take columns of a model without names by place
        warnings.filterwarnings("ignore", "the rows have feature names", UserWarning)
        return rows_with(schema, rows, owner, drops=read_options.missing == "drop")


@click.argument("model")
@click.argument("inputs", nargs=-1, required=True)
@output_options("CSV or .parquet; - is standard output.", default="-", quiet=True)
@click.option(
    "-p", "--probabilities", is_flag=True, help="Also write the probability of each component."
)
@click.option(
    "--digits",
    type=click.IntRange(0, 17),
    help="Decimal digits of the probabilities, which are then written; all by default.",
)
@keep_option
@unseen_option
@data_options
def predict_command(
    model: str,
    inputs: tuple[str, ...],
    target: Target,
    probabilities: bool,
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
    kept = KeptColumns(rows, keep, names)
    n_rows, counts = 0, np.zeros(mixture.n_components, dtype=np.int64)

    def answers() -> Answers:
        nonlocal n_rows, counts
        for columns, answer in _predicted(mixture, rows, kept, probabilities, unseen):
            labels = answer[:, 0]
            found = labels[labels >= 0].astype(np.int64)  # neither NaN nor the background's
            counts += np.bincount(found, minlength=mixture.n_components)
            if digits is not None:
                answer[:, 1:] = answer[:, 1:].round(digits)
            n_rows += len(answer)
            yield columns, answer

    with step("Predicting", target.progress):
        kept.write(output, names, ["label"] + ["number"] * (len(names) - 1), answers())
    if target.as_json or (output != "-" and not target.quiet):
        facts = {"n_rows": n_rows, "rows_per_component": counts.tolist()}
        target.report(facts, f"labels of {n_rows:,} rows written to {output}")


def _predicted(
    mixture: Mixture, rows: TableRows, kept: KeptColumns, probabilities: bool, unseen: Any
) -> Answers:
    """Yield kept columns, labels and probabilities, NaN for dropped rows; files are read ahead."""
    from momentmix.parallel import read_ahead

    density = mixture.table_density()
    for i, source in enumerate(rows.sources):
        others = kept.numbers[i] if kept.numbers else ()
        blocks = rows.source_blocks(i, others=others, unseen=unseen)
        answers = (
            (block.others, _answer(density, block, source, probabilities)) for block in blocks
        )
        yield from read_ahead(answers, n_ahead=1) if source.reads_ahead else answers


def _answer(
    density: TableDensity, block: RowBlock, source: Source, probabilities: bool
) -> NDArray[np.float64]:
    """Return labels and probabilities; raise for a row that is finite, with squares not."""
    import numpy as np

    from momentmix.errors import InputError
    from momentmix.mixture.density import most_probable, posteriors

    found = density.map_encoded(block.encoded, posteriors if probabilities else most_probable)
    found = found if probabilities else found[:, None]
    lost = np.isnan(found).any(axis=1) | (found < 0).any(axis=1)
    whole = np.arange(block.n_read) if block.kept is None else np.flatnonzero(block.kept)
    if lost.any():
        raise InputError(
            f"{source.name}, {source.where(block.first_row + int(whole[lost][0]))} lies more than "
            "1e154 standard deviations away from the model, so that no component is its most "
            "probable one. Drop the row, or bring the columns to the units of the model."
        )
    answer = np.full((block.n_read, found.shape[1] + probabilities), np.nan)
    labels, n_groups = found[:, 0], density.density.n_groups
    if probabilities:
        answer[whole, 1:] = found
        labels = found.argmax(axis=1)
        if n_groups is not None:
            labels = density.density.of_groups(found, most_probable)
    answer[whole, 0] = np.where(labels == n_groups, -1, labels)
    return answer


@click.argument("model")
@click.option("-n", "--n-rows", required=True, type=click.IntRange(min=1), help="Number of rows.")
@output_options("CSV or .parquet; - is standard output.", default="-")
@click.option("--labels", is_flag=True, help="Add the component of each row, as a first column.")
@seed_option
def sample_command(model: str, n_rows: int, target: Target, labels: bool, seed: int) -> None:
    """Draw rows from a model; missing cells are empty fields.

    In a CSV file, text that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    from momentmix.cli.tables import guarded, kind_of, table_writer

    output = target.check([model])
    mixture = load_model(model)
    features = mixture.feature_names or tuple(f"x{i}" for i in range(mixture.n_features))
    guard = output != "-" and not output.endswith(".parquet")
    names = [*(["label"] if labels else []), *(map(guarded, features) if guard else features)]
    kinds = ["label"] * labels + [kind_of(column) for column in mixture.columns]
    with (
        table_writer(output, names, kinds, guard) as write,
        counting("Sampling", n_rows, "rows", target.progress) as count,
    ):
        for columns in _drawn(mixture, n_rows, seed):
            write(columns if labels else columns[1:])
            count(len(columns[0]))
    if output != "-":
        target.report({"n_rows": n_rows, "seed": seed}, f"{n_rows:,} rows written to {output}")


def _drawn(mixture: Mixture, n_rows: int, seed: int) -> Iterator[list[Any]]:
    """Draw rows block by block: their components, and the columns."""
    import numpy as np

    rng = np.random.default_rng(seed)
    for start in range(0, n_rows, _BLOCK):
        drawn, chosen = mixture.sample(min(_BLOCK, n_rows - start), rng)
        yield [chosen, *(drawn.values() if isinstance(drawn, dict) else drawn.T)]

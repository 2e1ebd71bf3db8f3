"""``momentmix plot``: pictures of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import (
    ReadOptions,
    data_options,
    force_option,
    json_option,
    parse_columns,
    seed_option,
)
from momentmix.cli.output import check_output, output_stream, say, say_json
from momentmix.progress import step

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


@click.command("plot", short_help="Pictures of a model.")
@click.argument("model")
@click.argument("inputs", nargs=-1)
@click.option("-o", "--output", required=True, help="File of the picture: .png, .svg or .pdf.")
@click.option(
    "--kind",
    type=click.Choice(
        ["pairs", "columns", "means", "levels", "weights", "residuals", "trials", "choice"]
    ),
    default="pairs",
    show_default=True,
    help="What to draw. pairs shows two columns at a time and columns each one alone, with the "
    "rows of data files; columns and residuals also take summaries; residuals are those of the "
    "moments; levels are probabilities of levels and of cells being seen; trials are the numbers "
    "of components that `fit -r auto` tried; choice fits other numbers of components to data files "
    "or summaries.",
)
@click.option(
    "--features",
    help="Columns to show in pairs, columns and levels, by name or number, separated by commas.",
)
@click.option(
    "-r",
    "--components",
    type=click.IntRange(min=1),
    help="Largest number of components for choice; default: three more than the model has.",
)
@seed_option
@data_options
@force_option
@json_option
def plot_command(
    model: str,
    inputs: tuple[str, ...],
    output: str,
    kind: str,
    features: str | None,
    components: int | None,
    seed: int,
    read_options: ReadOptions,
    force: bool,
    as_json: bool,
) -> None:
    """Draw a model: its components, their fit to data, or the choice of their number."""
    from momentmix.cli.predict import load_model
    from momentmix.fitting.record import load_fit

    ending = output.rpartition(".")[2].lower()
    if ending not in ("png", "svg", "pdf"):
        raise click.UsageError(f"--output must end in .png, .svg or .pdf; got {output!r}.")
    if components is not None and kind != "choice":
        raise click.UsageError("--components goes with --kind choice.")
    if kind in ("residuals", "choice") and not inputs:
        raise click.UsageError(
            f"--kind {kind} needs data files or summaries (.mms) beside the model."
        )
    check_output(output, [model, *inputs], force)
    mixture, data = load_model(model), None
    from momentmix import displays

    displays.need_matplotlib()
    if inputs and kind in ("pairs", "columns", "residuals", "choice"):
        data = _data(mixture, inputs, read_options, summaries=kind != "pairs")
    if kind == "trials":
        display: Any = displays.TrialsDisplay.from_estimator(load_fit(model)[1])
    elif kind == "choice":
        display = _choice(mixture, data, components, seed)
    else:
        display = _drawn(kind, mixture, data, parse_columns(features))
    with output_stream(output) as stream:
        display.figure_.savefig(stream, format=ending, dpi=150, bbox_inches="tight")
    if as_json:
        say_json({"output": output, "kind": kind})
    else:
        say(f"picture written to {output}")


def _data(
    mixture: Mixture, inputs: tuple[str, ...], read_options: ReadOptions, summaries: bool
) -> Any:
    """The sum of the summaries, or a source of rows."""
    from momentmix.cli.predict import open_for
    from momentmix.cli.summaries import are_summaries, load_sum

    if summaries and are_summaries(inputs):
        return load_sum(inputs)
    return open_for(mixture, inputs, read_options, by_name=True)


def _drawn(kind: str, mixture: Mixture, data: Any, columns: list[str | int] | None) -> Any:
    """A picture of the model, and of the data beside it."""
    from momentmix import displays
    from momentmix.summary.summary import MomentSummary

    if kind == "means":
        return displays.MeansDisplay.from_estimator(mixture)
    if kind == "weights":
        return displays.WeightsDisplay.from_estimator(mixture)
    if kind == "levels":
        return displays.LevelsDisplay.from_estimator(mixture, columns=columns)
    if kind == "residuals":
        given = {"summary" if isinstance(data, MomentSummary) else "rows": data}
        return displays.MomentResidualsDisplay.from_estimator(mixture, **given)
    with step("Reading rows"):
        if kind == "columns":
            return displays.ColumnsDisplay.from_estimator(mixture, data, columns)
        return displays.PairsDisplay.from_estimator(mixture, data, features=columns)


def _choice(mixture: Mixture, data: Any, most: int | None, seed: int) -> Any:
    """Fits of 1, 2, … components with the columns, families and blocks of the model."""
    from momentmix.displays import ChoiceDisplay
    from momentmix.summary.summary import MomentSummary

    joined = [list(block.columns) for block in mixture.blocks if len(block.columns) > 1]
    options: dict[str, Any] = {"blocks": joined or None, "random_state": seed}
    if mixture.schema is not None and not isinstance(data, MomentSummary):
        options |= {"families": mixture.schema, "missing": data.missing}
    numbers = None if most is None else range(1, most + 1)
    return ChoiceDisplay.from_data(data, numbers, chosen=mixture.n_components, **options)

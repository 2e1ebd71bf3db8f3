"""``momentmix plot``: pictures of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import (
    ReadOptions,
    columns_option,
    data_options,
    output_options,
    seed_option,
)
from momentmix.cli.output import Target
from momentmix.progress import step

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


@click.argument("model")
@click.argument("inputs", nargs=-1)
@output_options("File of the picture: .png, .svg or .pdf.", required=True)
@click.option(
    "--kind",
    type=click.Choice(
        ["pairs", "columns", "means", "levels", "weights", "residuals", "trials", "choice"]
    ),
    default="pairs",
    help="What to draw. pairs shows two columns at a time and columns each one alone, with the "
    "rows of data files; columns and residuals also take summaries; residuals are those of the "
    "moments; levels are probabilities of levels and of cells being seen; trials are the numbers "
    "of components that `fit -r auto` tried; choice fits other numbers of components to data files "
    "or summaries.",
)
@columns_option(
    "--features",
    "Columns to show in pairs, columns and levels, by name or number, separated by commas.",
)
@click.option(
    "-r",
    "--n-components",
    type=click.IntRange(min=1),
    help="Largest number of components for choice; default: three more than the model has.",
)
@seed_option
@data_options
def plot_command(
    model: str,
    inputs: tuple[str, ...],
    target: Target,
    kind: str,
    features: list[str | int] | None,
    n_components: int | None,
    seed: int,
    read_options: ReadOptions,
) -> None:
    """Draw a model: its components, their fit to data, or the choice of their number."""
    from momentmix.cli.models.predict import load_model
    from momentmix.fitting.record import load_fit

    target.check_ending("png", "svg", "pdf")
    if n_components is not None and kind != "choice":
        raise click.UsageError("--n-components goes with --kind choice.")
    if kind in ("residuals", "choice") and not inputs:
        raise click.UsageError(
            f"--kind {kind} needs data files or summaries (.mms) beside the model."
        )
    target.check([model, *inputs])
    mixture, data = load_model(model), None
    from momentmix import displays

    displays.need_matplotlib()
    if inputs and kind in ("pairs", "columns", "residuals", "choice"):
        data = _data(mixture, inputs, read_options, summaries=kind != "pairs")
    if kind == "trials":
        display: Any = displays.TrialsDisplay.from_estimator(load_fit(model)[1])
    elif kind == "choice":
        display = _choice(mixture, data, n_components, seed)
    else:
        display = _drawn(kind, mixture, data, features)
    target.save_picture(display)
    target.report({"kind": kind}, f"picture written to {target.path}")


def _data(
    mixture: Mixture, inputs: tuple[str, ...], read_options: ReadOptions, summaries: bool
) -> Any:
    """Open summaries, which are added up, or rows."""
    from momentmix.cli.models.predict import open_for
    from momentmix.cli.summaries import are_summaries, load_sum

    if summaries and are_summaries(inputs):
        return load_sum(inputs)
    return open_for(mixture.columns, inputs, read_options)


def _drawn(kind: str, mixture: Mixture, data: Any, columns: list[str | int] | None) -> Any:
    """Draw the model, and the data beside it."""
    from momentmix import displays
    from momentmix.summary.summary import MomentSummary

    if kind in ("means", "weights"):
        own = displays.MeansDisplay if kind == "means" else displays.WeightsDisplay
        return own.from_estimator(mixture)
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

"""``momentmix plot``: pictures of a model."""

from __future__ import annotations

from typing import Any

import click

from momentmix.cli.options import (
    ReadOptions,
    data_options,
    force_option,
    json_option,
    parse_columns,
)
from momentmix.cli.output import check_output, output_stream, say, say_json


@click.command("plot", short_help="Pictures of a model.")
@click.argument("model")
@click.argument("inputs", nargs=-1)
@click.option("-o", "--output", required=True, help="File of the picture: .png, .svg or .pdf.")
@click.option(
    "--kind",
    type=click.Choice(["pairs", "means", "levels", "weights", "residuals", "trials"]),
    default="pairs",
    show_default=True,
    help="What to draw. residuals needs a summary as input; pairs shows the rows of data files; "
    "levels are probabilities of levels and of cells being seen; trials are the numbers of "
    "components that `fit -r auto` tried.",
)
@click.option("--features", help="Features to show, by name or number, separated by commas.")
@data_options
@force_option
@json_option
def plot_command(
    model: str,
    inputs: tuple[str, ...],
    output: str,
    kind: str,
    features: str | None,
    read_options: ReadOptions,
    force: bool,
    as_json: bool,
) -> None:
    """Draw a model: pairs of features, means, levels, weights, residuals of moments, or trials."""
    from momentmix.cli.predict import load_model, open_for

    ending = output.rpartition(".")[2].lower()
    if ending not in ("png", "svg", "pdf"):
        raise click.UsageError(f"--output must end in .png, .svg or .pdf; got {output!r}.")
    check_output(output, [model, *inputs], force)
    mixture = load_model(model)
    from momentmix import displays
    from momentmix.displays.pairs import MOST_POINTS

    displays.need_matplotlib()
    display: Any
    if kind == "residuals":
        from momentmix.cli.summaries import are_summaries, load_sum

        if not inputs or not are_summaries(inputs):
            raise click.UsageError("--kind residuals needs a summary (.mms) beside the model.")
        display = displays.MomentResidualsDisplay.from_estimator(mixture, load_sum(inputs))
    elif kind == "pairs":
        rows = None
        if inputs:
            source = open_for(mixture, inputs, read_options, by_name=True)
            rows = displays.thinned(source.blocks(), MOST_POINTS)
        display = displays.PairsDisplay.from_estimator(
            mixture, rows, features=parse_columns(features)
        )
    elif kind == "trials":
        from momentmix.fitting.record import load_fit

        display = displays.TrialsDisplay.from_estimator(load_fit(model)[1])
    elif kind == "levels":
        display = displays.LevelsDisplay.from_estimator(mixture, columns=parse_columns(features))
    elif kind == "means":
        display = displays.MeansDisplay.from_estimator(mixture)
    else:
        display = displays.WeightsDisplay.from_estimator(mixture)
    with output_stream(output) as stream:
        display.figure_.savefig(stream, format=ending, dpi=150, bbox_inches="tight")
    if as_json:
        say_json({"output": output, "kind": kind})
    else:
        say(f"picture written to {output}")

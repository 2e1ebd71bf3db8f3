"""``momentmix plot``: pictures of a model."""

from __future__ import annotations

from dataclasses import dataclass
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
from momentmix.progress import counting, step

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

_MORE = 3  # numbers of components beyond the model's own that `choice` tries


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
    request = _Request(model, load_model(model), inputs, read_options)
    from momentmix import displays

    displays.need_matplotlib()
    chosen = parse_columns(features)
    display: Any
    if kind == "residuals":
        display = request.residuals()
    elif kind == "pairs":
        display = request.pairs(chosen)
    elif kind == "columns":
        display = request.columns(chosen)
    elif kind == "trials":
        display = request.trials()
    elif kind == "choice":
        display = request.choice(components, seed)
    elif kind == "levels":
        display = displays.LevelsDisplay.from_estimator(request.mixture, columns=chosen)
    elif kind == "means":
        display = displays.MeansDisplay.from_estimator(request.mixture)
    else:
        display = displays.WeightsDisplay.from_estimator(request.mixture)
    with output_stream(output) as stream:
        display.figure_.savefig(stream, format=ending, dpi=150, bbox_inches="tight")
    if as_json:
        say_json({"output": output, "kind": kind})
    else:
        say(f"picture written to {output}")


@dataclass(frozen=True)
class _Request:
    """A model, and the data beside it."""

    path: str
    mixture: Mixture
    inputs: tuple[str, ...]
    read_options: ReadOptions

    def data(self) -> Any:
        """The sum of the summaries, or a source of rows."""
        from momentmix.cli.predict import open_for
        from momentmix.cli.summaries import are_summaries, load_sum

        if are_summaries(self.inputs):
            return load_sum(self.inputs)
        return open_for(self.mixture, self.inputs, self.read_options, by_name=True)

    def pairs(self, features: list[str | int] | None) -> Any:
        from momentmix.cli.predict import open_for
        from momentmix.displays import PairsDisplay

        rows = None
        if self.inputs:
            rows = open_for(self.mixture, self.inputs, self.read_options, by_name=True)
        with step("Reading rows"):
            return PairsDisplay.from_estimator(self.mixture, rows, features=features)

    def columns(self, features: list[str | int] | None) -> Any:
        from momentmix.displays import ColumnsDisplay

        data = self.data() if self.inputs else None
        with step("Reading rows"):
            return ColumnsDisplay.from_estimator(self.mixture, data, features)

    def residuals(self) -> Any:
        from momentmix.displays import MomentResidualsDisplay
        from momentmix.summary.summary import MomentSummary

        data = self.data()
        if isinstance(data, MomentSummary):
            return MomentResidualsDisplay.from_estimator(self.mixture, data)
        return MomentResidualsDisplay.from_estimator(self.mixture, rows=data)

    def trials(self) -> Any:
        from momentmix.displays import TrialsDisplay
        from momentmix.fitting.record import load_fit

        return TrialsDisplay.from_estimator(load_fit(self.path)[1])

    def choice(self, most: int | None, seed: int) -> Any:
        """Fits of 1, 2, … components with the columns, families and blocks of the model."""
        from momentmix.displays import ChoiceDisplay
        from momentmix.errors import CapacityError
        from momentmix.fitting.api import fit
        from momentmix.summary.summary import MomentSummary

        data, mixture = self.data(), self.mixture
        joined = [list(block.columns) for block in mixture.blocks if len(block.columns) > 1]
        options: dict[str, Any] = {"blocks": joined or None, "random_state": seed}
        if mixture.schema is not None and not isinstance(data, MomentSummary):
            options |= {"families": mixture.schema, "missing": data.missing}
        results, highest = [], most or mixture.n_components + _MORE
        with counting("Fits", highest, "fits") as count:
            for number in range(1, highest + 1):
                try:
                    results.append(fit(data, number, **options))
                except CapacityError:
                    if most is not None or not results:  # else as many as the summary tells apart
                        raise
                    break
                count(1)
        return ChoiceDisplay.from_results(results, chosen=mixture.n_components)

"""``momentmix report``: a model as one HTML page."""

from __future__ import annotations

from typing import Any

import click

from momentmix.cli.options import (
    ReadOptions,
    by_name_option,
    data_options,
    force_option,
    json_option,
)
from momentmix.cli.output import check_output, say, say_json
from momentmix.errors import without_secrets


@click.command("report", short_help="A model as one HTML page.")
@click.argument("model")
@click.option(
    "--data",
    multiple=True,
    help="Data files, folders, globs, or summaries (.mms), for rows in the pictures, residuals, "
    "and the quality of the data. Can be given more than once.",
)
@click.option(
    "--names",
    help="Names of the groups, one for each, separated by commas, in the order of their numbers.",
)
@click.option(
    "--cube",
    help="A cube (momentmix summarize --by): the report tells how the shares of the groups differ.",
)
@click.option(
    "--before",
    multiple=True,
    help="Summaries of earlier rows: the report tells what changed. --data are then summaries too.",
)
@click.option("-o", "--output", required=True, help="File of the page (.html).")
@data_options
@by_name_option
@force_option
@json_option
def report_command(
    model: str,
    data: tuple[str, ...],
    names: str | None,
    cube: str | None,
    before: tuple[str, ...],
    output: str,
    read_options: ReadOptions,
    by_name: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Write a report on a model: its groups in words, pictures, whether it fits, what to do next.

    The report is one HTML file that needs no network and no scripts. The certificate and the
    intervals are those that `momentmix fit` saved with the model. Its date is today, or that of
    SOURCE_DATE_EPOCH.
    """
    from momentmix.cli.cubes import load_groups
    from momentmix.cli.predict import load_model, load_verdict, open_for
    from momentmix.cli.summaries import are_summaries, load_sum

    if output == "-":
        raise click.UsageError("a report is an HTML file; give a file to --output.")
    named = [cube] if cube else []
    check_output(output, [model, *data, *before, *named], force)
    mixture = load_model(model)
    summary_or_rows: Any = None
    if data and are_summaries(data):
        summary_or_rows = load_sum(data)
    elif data:
        summary_or_rows = open_for(mixture, data, read_options, by_name)
    from momentmix.monitoring.compare import compare
    from momentmix.monitoring.track import track
    from momentmix.reporting.report import report
    from momentmix.summary.summary import MomentSummary

    comparison = None
    if before:
        if not isinstance(summary_or_rows, MomentSummary):
            raise click.UsageError("--before compares summaries; give summaries (.mms) to --data.")
        comparison = compare(load_sum(before), summary_or_rows)
    report(
        model,
        output,
        summary_or_rows,
        names=None if names is None else [name.strip() for name in names.split(",")],
        tracking=None if cube is None else track(model, load_groups([cube], (), None)),
        comparison=comparison,
        command=click.get_current_context().obj,
        data_name=", ".join(map(without_secrets, data)) or None,
    )
    verdict = load_verdict(model)
    if as_json:
        named = [without_secrets(name) for name in data]
        say_json({"output": output, "model": model, "data": named, "verdict": verdict})
    else:
        said = "" if verdict is None else f" (certificate: {verdict})"
        say(f"report written to {output}{said}")

"""``momentmix report``: a model as one HTML page."""

from __future__ import annotations

import os
from typing import Any

import click

from momentmix.cli.options import ReadOptions, named_data_options, output_options
from momentmix.cli.output import Target
from momentmix.errors import without_secrets


@click.argument("model")
@click.option(
    "--data",
    multiple=True,
    help="Data files, folders, globs, or summaries (.mms), for rows in the pictures. Can be given "
    "more than once.",
)
@click.option(
    "--names",
    help="Names of the groups, one for each, separated by commas, in the order of their numbers.",
)
@output_options("File of the page (.html).", required=True)
@named_data_options
def report_command(
    model: str,
    data: tuple[str, ...],
    names: str | None,
    target: Target,
    read_options: ReadOptions,
) -> None:
    """Write a report on a model: its groups in words, pictures, whether it fits, what to do next.

    The report is one HTML file that needs no network and no scripts. The certificate and the
    intervals are those that `momentmix fit` saved with the model. Its date is today, or that of
    SOURCE_DATE_EPOCH.
    """
    from momentmix.cli.models.predict import load_model, load_verdict, open_for, options_of
    from momentmix.cli.summaries import are_summaries, load_sum

    output = target.check([model, *data], "a report is an HTML file; give a file to --output.")
    mixture = load_model(model)
    summary_or_rows: Any = None
    if data and are_summaries(data):
        summary_or_rows = load_sum(data)
    elif data:
        summary_or_rows = open_for(
            mixture.columns, data, options_of(read_options, model, may_drop=True)
        )
    named = [without_secrets(name) for name in data]
    from momentmix.reporting.report import report

    report(
        model,
        output,
        summary_or_rows,
        names=None if names is None else [name.strip() for name in names.split(",")],
        command=click.get_current_context().obj,
        data_name=", ".join(os.path.basename(os.path.normpath(x)) for x in named) or None,
    )
    verdict = load_verdict(model)
    said = "" if verdict is None else f" (certificate: {verdict})"
    facts = {"model": model, "data": named, "verdict": verdict}
    target.report(facts, f"report written to {output}{said}")

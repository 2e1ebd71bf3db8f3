"""``momentmix report``: a model as one HTML page."""

from __future__ import annotations

import os
from typing import Any

import click

from momentmix.cli.options import ReadOptions, data_options, output_options
from momentmix.cli.output import Target
from momentmix.errors import without_secrets


@click.argument("model")
@click.option(
    "--data", multiple=True, metavar="FILE", help="Data or summaries for the pictures; repeatable."
)
@click.option("--names", help="Names of the groups, separated by commas.")
@output_options("File of the page (.html).", required=True)
@data_options
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
    from momentmix.cli.models.predict import load_model, open_for, options_of
    from momentmix.cli.summaries import are_summaries, load_sum
    from momentmix.fitting.record import load_fit
    from momentmix.reporting.report import report
    from momentmix.tables.source import check_different

    output = target.check([model, *data], "a report is an HTML file; give a file to --output.")
    mixture = load_model(model)
    summary_or_rows: Any = None
    if data and are_summaries(data):
        summary_or_rows = load_sum(data)
    elif data:
        own_options = options_of(read_options, model, may_drop=True)
        summary_or_rows = open_for(mixture.columns, data, own_options)
        check_different(summary_or_rows.sources)
    named = [without_secrets(name) for name in data]
    report(
        model,
        output,
        summary_or_rows,
        names=None if names is None else [name.strip() for name in names.split(",")],
        command=click.get_current_context().obj,
        data_name=", ".join(os.path.basename(os.path.normpath(x)) for x in named) or None,
    )
    record = load_fit(model)[1]
    verdict = None if record is None else record.certificate.verdict
    said = "" if verdict is None else f" (certificate: {verdict})"
    facts = {"model": model, "data": named, "verdict": verdict}
    target.report(facts, f"report written to {output}{said}")

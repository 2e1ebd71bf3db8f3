"""``momentmix report``: a model as one HTML page."""

from __future__ import annotations

import click

from momentmix.cli.files import check_output, say
from momentmix.cli.options import output_option, split
from momentmix.errors import without_secrets
from momentmix.reporting.report import report


@click.command("report")
@click.argument("model")
@click.option("--data", multiple=True, metavar="FILE", help="Rows for the pictures; repeatable.")
@click.option(
    "--names",
    callback=lambda *given: split(given[-1]),
    help="Names of the groups, separated by commas.",
)
@output_option("File of the page (.html).", required=True)
def report_command(model: str, data: tuple[str, ...], names: list[str] | None, output: str) -> None:
    """Write a report on a model: its groups in words, pictures, whether it fits, what to do next.

    The report is one HTML file that needs no network and no scripts. The certificate and the
    intervals are those that `momentmix fit` saved with the model, and data are read as in its fit.

    \b
    momentmix report model.json --data table.csv -o page.html
    """  # noqa: D301, click does not rewrap what follows a backspace
    check_output(output, [model, *data], ".html")
    command = click.get_current_context().obj
    report(model, output, list(data) or None, names=names, command=command)
    say(f"report on {without_secrets(model)} written to {output}")

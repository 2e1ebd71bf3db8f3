"""``momentmix fit``: rows or summaries → a model, and whether to believe it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from momentmix.cli.files import are_summaries, check_output, load_sum, rows_source, say, say_json
from momentmix.cli.options import (
    families_options,
    json_option,
    missing_option,
    output_option,
    parse_columns,
    seed_option,
    table_options,
    where_option,
)
from momentmix.fitting.api import fit
from momentmix.fitting.result import FitResult
from momentmix.tables.opening import Reading

NOT_PASSED = 4  # exit code with --strict


def _components(context: click.Context, parameter: click.Parameter, text: str) -> int | str:
    if text in ("auto", "bic"):
        return text
    if not text.isdecimal() or not int(text):
        raise click.BadParameter(f"expected a number from 1, 'auto' or 'bic'; got {text!r}.")
    return int(text)


def _blocks(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> list[list[str | int]] | str | None:
    """Blocks of columns, separated by semicolons, or the name of a kind of blocks."""
    if text is None or text in ("auto", "diag", "full"):
        return text
    blocks = [parse_columns(part) or [] for part in text.rstrip("; ").split(";")]
    if not all(blocks):
        raise click.BadParameter(
            "columns are separated by commas and blocks by semicolons, as in "
            f"'length,width;x,y'; got {text!r}."
        )
    return blocks


@click.command("fit")
@click.argument("inputs", nargs=-1, required=True)
@click.option(
    "-r",
    "--n-components",
    metavar="N",
    default="auto",
    callback=_components,
    help="Number of components, auto or bic.",
)
@click.option(
    "--max-components",
    metavar="N",
    type=click.IntRange(min=1),
    default=20,
    help="Most components of auto and bic.",
)
@output_option("File of the model (.json).")
@click.option("--report", metavar="FILE", help="File of a report (.html) on the model.")
@json_option
@click.option("--blocks", callback=_blocks, help="Joined columns: 'a,b;x,y', auto, full or diag.")
@click.option(
    "--background",
    metavar="WHEN",
    type=click.Choice(["auto", "true", "false"]),
    default="auto",
    help="Rows far from all others: auto, true, false.",
)
@click.option(
    "--max-passes",
    metavar="N",
    type=click.IntRange(min=0),
    default=100,
    help="Most EM passes over the rows.",
)
@click.option("-v", "--verbose", is_flag=True, help="Print parameters and details, too.")
@click.option("--strict", is_flag=True, help="Exit with 4 where the verdict is 'not passed'.")
@where_option
@families_options
@seed_option
@missing_option("error")
@table_options
def fit_command(
    inputs: tuple[str, ...],
    output: str | None,
    report: str | None,
    as_json: bool,
    background: str,
    verbose: bool,
    strict: bool,
    where: tuple[str, ...],
    seed: int,
    reading: Reading,
    **options: Any,
) -> None:
    """Fit a mixture to data files, or to summaries, which are added up.

    Prints the verdict and a line for each group. For rows, 'auto' is the largest number of
    components that other rows would give again, for groups, and 'bic' the number of least BIC, for
    densities; for summaries both are the smallest number that the moments accept.

    \b
    momentmix fit table.csv -o model.json --report page.html
    """  # noqa: D301, click does not rewrap what follows a backspace
    check_output(output, inputs, ".json")
    check_output(report, inputs, ".html")
    is_sum = bool(where) or are_summaries(inputs)
    data = load_sum(inputs, where) if is_sum else rows_source(inputs)
    options |= vars(reading) | {
        "background": {"true": True, "false": False}.get(background, background),
        "random_state": seed,
    }
    result = fit(data, **options)
    command = click.get_current_context().obj
    if output is not None:
        result.save(output, command=command)
    if report is not None:
        from momentmix.reporting.report import report as write_report

        rows = list(inputs) if not is_sum and "-" not in inputs else None
        write_report(output or result, report, rows, command=command)
    if as_json:
        say_json(_document(result, output, command))
    else:
        if verbose:
            say(*result.to_frame().to_string().split("\n"), "")
            say(*result.details().split("\n"), "")
        say(*str(result).split("\n"))
        saved = f"Model written to {output}" if output else "Not saved: -o model.json saves it"
        say(f"{saved} (seed {seed}).", *([f"Report written to {report}."] if report else []))
    if strict and result.certificate.verdict == "not passed":
        click.get_current_context().exit(NOT_PASSED)


def _document(result: FitResult, output: str | None, command: str | None) -> dict[str, Any]:
    """The model and the record as they are saved, reasons, answers and the profile in words."""
    certificate, record = result.certificate, result.to_dict(command)
    record["certificate"] |= {
        "reasons": certificate.reasons,
        "untested": certificate.untested,
        "answers": [
            {"question": a.question, "answer": a.short, "text": a.text} for a in certificate.answers
        ],
    }
    profile = [
        {"name": group.name, "share": group.share, "traits": [asdict(t) for t in group.traits]}
        for group in result.profile()
    ]
    return {"output": output, **result.mixture.to_dict(), **record, "profile": profile}

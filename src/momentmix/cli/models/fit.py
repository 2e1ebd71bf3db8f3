"""``momentmix fit``: rows or summaries → a model, a table and a certificate."""

from __future__ import annotations

import inspect
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import (
    ReadOptions,
    families_options,
    named_data_options,
    output_options,
    parse_blocks,
    seed_option,
    where_option,
)
from momentmix.cli.output import Target, say, say_json
from momentmix.findings.messages import in_shell

if TYPE_CHECKING:
    from momentmix.fitting.result import FitResult
    from momentmix.summary.summary import MomentSummary


NOT_TRUSTWORTHY = 4
_MOST_LINES = 60  # of parameters, so that what follows them is seen


def _components(context: click.Context, parameter: click.Parameter, text: str) -> int | str:
    if text in ("auto", "bic"):
        return text
    try:
        number = int(text)
    except ValueError:
        raise click.BadParameter(f"expected a number, 'auto' or 'bic'; got {text!r}.") from None
    if number < 1:
        raise click.BadParameter(f"expected at least 1; got {number}.")
    return number


@click.argument("inputs", nargs=-1, required=True)
@click.option(
    "-r",
    "--n-components",
    default="auto",
    callback=_components,
    help="Number of components, or 'auto': the largest number that other rows would give again, "
    "for groups; or 'bic': the number of least BIC, for densities. Of a summary both are the "
    "smallest number that the moments accept. `plot --kind trials` shows what was tried.",
)
@click.option(
    "--max-components",
    type=click.IntRange(min=1),
    default=20,
    help="Largest number of components that 'auto' and 'bic' try.",
)
@output_options("File of the model (JSON); without it the model is not saved.", quiet=True)
@click.option(
    "--blocks",
    help="Columns that may be correlated within components, by name or number among those used: "
    "columns of a block are separated by commas, blocks by semicolons, as in 'length,width;x,y'. "
    "'auto' joins columns where it pays, 'full' all, 'diag' none. By default 'auto' for rows with "
    "-r auto or bic, else 'diag'. Without rows there must be three blocks.",
)
@click.option(
    "--method",
    type=click.Choice(["robust", "paper"]),
    default="robust",
    help="paper is Algorithm 5.1 of the paper, for numbers.",
)
@click.option(
    "--background",
    type=click.Choice(["auto", "true", "false"]),
    default="auto",
    help="Whether a wide density takes rows that belong to no group: those far from all others. "
    "auto: where there are some; false: they are part of the groups.",
)
@click.option(
    "--max-passes",
    type=click.IntRange(min=0),
    default=100,
    help="Largest number of EM passes over the rows; 0: the best start as it is.",
)
@click.option(
    "--remedies",
    type=click.Choice(["try"]),
    help="Where the fit does not pass: try what its findings suggest on left-out rows, and print "
    "what helps with its command.",
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help=f"Print the parameters also where they take more than {_MOST_LINES} lines.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit with 4 unless the certificate passed: useful and untested are 4 too.",
)
@where_option
@families_options
@seed_option
@named_data_options
def fit_command(
    inputs: tuple[str, ...],
    target: Target,
    blocks: str | None,
    background: str,
    verbose: bool,
    strict: bool,
    where: tuple[str, ...],
    families: Any,
    seed: int,
    read_options: ReadOptions,
    **options: Any,
) -> None:
    """Fit a mixture to data files, or to summaries, which are added up.

    Prints the parameters, the certificate and what makes the components different; with --output
    the model is saved as well, whatever the verdict. The verdict of the certificate is passed,
    useful (other rows give the groups again, but the model is an approximation), not passed or
    untested. The exit code is 4 if a fit from moments alone did not pass; with --strict for every
    verdict but passed. Otherwise a fit that did not pass, or is untested, prints a warning. Rows
    far from all others belong to no group and have the label -1; the certificate lists them.
    """
    from momentmix.cli.summaries import are_summaries
    from momentmix.fitting.api import fit

    if target.path is not None:
        target.check(inputs, "give a file to --output; --json prints the model as well.")
    options |= {
        "blocks": parse_blocks(blocks),
        "background": {"true": True, "false": False}.get(background, background),
        "random_state": seed,
    }
    if families is not None:
        options["families"] = families
    if where or are_summaries(inputs):
        data: Any = _from_summaries(inputs, where, read_options.columns)
    else:
        data, options["missing"] = read_options.source(inputs), read_options.missing
        known = inspect.signature(fit).parameters
        options |= {k: x for k, x in vars(read_options.reading()).items() if k in known}
    result = fit(data, **options, progress=target.progress)
    record = {"command": click.get_current_context().obj, "seed": seed}
    if target.path is not None:
        result.save(target.path, **record)
    code = _exit_code(result, strict)
    if target.as_json:
        say_json(_document(result, target.path, result.record(**record).to_dict()))
    else:
        _print(result, target.path, seed, verbose)
    if code:
        click.get_current_context().exit(code)


def _from_summaries(
    inputs: tuple[str, ...], where: tuple[str, ...], columns: list[str | int] | None
) -> MomentSummary:
    from momentmix.cli.cubes import load_groups
    from momentmix.cli.summaries import load_sum

    summary = load_groups(inputs, where, None).total() if where else load_sum(inputs)
    if columns is not None:
        summary = summary.truncate(min(summary.order, len(columns))).select(columns)
    return summary


def _exit_code(result: FitResult, strict: bool) -> int:
    """Exit code of the verdict; a warning where it is 0 although the fit is not to be relied on."""
    verdict = result.certificate.verdict
    if verdict == "passed" or (verdict == "useful" and not strict):
        return 0
    if strict or (verdict == "not passed" and result.refine == "none"):
        return NOT_TRUSTWORTHY
    said = "the certificate did not pass; see its reasons"
    if verdict == "untested":
        said = "the fit is untested; the certificate says what would make it testable"
    say(f"momentmix: warning: {said}.", err=True)
    return 0


# -- what is printed --------------------------------------------------------------------------


def _print(result: FitResult, output: str | None, seed: int, verbose: bool) -> None:
    from momentmix.cli.models.fitted_table import fitted_table

    table = fitted_table(result.mixture, result)
    if len(table) > _MOST_LINES and not verbose:
        more = "." if output is None else f", `momentmix report {output}` shows them."
        table = [f"{len(table)} lines of parameters are left out: --verbose prints them{more}"]
    say(*in_shell(str(result)).split("\n"), "")
    say(*table, "")
    # Last, where the eye of a reader is: what the components are, and whether to believe them.
    profile = [f"  {line}" for line in str(result.profile()).split("\n")]
    say("What makes the components different", *profile, "")
    saved = f"model written to {output}"
    if output is None:
        saved = "the model is not saved: -o model.json saves it"
    say(f"certificate {result.certificate.verdict}; {saved} (seed {seed})")


def _document(result: FitResult, output: str | None, record: dict[str, Any]) -> dict[str, Any]:
    """Return the model and the record as they are saved, and the profile."""
    record["certificate"]["reasons"] = result.certificate.reasons
    record["certificate"]["untested"] = result.certificate.untested
    record["certificate"]["answers"] = [
        {"question": a.question, "answer": a.short, "text": a.text}
        for a in result.certificate.answers
    ]
    profile = [
        {"name": own.name, "share": own.share, "traits": [asdict(trait) for trait in own.traits]}
        for own in result.profile()
    ]
    document = {"output": output, **result.mixture.to_dict(), **record, "profile": profile}
    if result.remedies is not None:
        keys = ("change", "gain", "error", "before", "reproducibility", "python", "shell")
        document["remedies"] = [{key: getattr(r, key) for key in keys} for r in result.remedies]
    return document

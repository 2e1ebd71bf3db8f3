"""``momentmix fit``: rows or summaries → a model, a table and a certificate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import (
    ReadOptions,
    data_options,
    families_options,
    output_options,
    parse_blocks,
    seed_option,
    where_option,
)
from momentmix.cli.output import Target, say, say_json

if TYPE_CHECKING:
    from momentmix.fitting.result import FitResult
    from momentmix.summary.summary import MomentSummary


NOT_PASSED = 4  # exit code with --strict


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
@output_options("File of the model (JSON).", quiet=True)
@click.option("--blocks", help="Joined columns: 'a,b;x,y', auto, full or diag.")
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
@data_options
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

    Prints the verdict and a line for each group; with --output the model is saved as well, whatever
    the verdict. For rows, 'auto' is the largest number of
    components that other rows would give again, for groups, and 'bic' the number of least BIC, for
    densities; for summaries both are the smallest number that the moments accept.
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
        data: Any = _from_summaries(inputs, where)
    else:
        data = read_options.source(inputs)
    options |= {"missing": read_options.missing, **read_options.keywords}
    result = fit(data, **options, progress=target.progress)
    record = {"command": click.get_current_context().obj, "seed": seed}
    if target.path is not None:
        result.save(target.path, **record)
    if target.as_json:
        say_json(_document(result, target.path, result.record(**record).to_dict()))
    else:
        _print(result, target.path, seed, verbose)
    _check_verdict(result.certificate.verdict, strict)


def _from_summaries(inputs: tuple[str, ...], where: tuple[str, ...]) -> MomentSummary:
    from momentmix.cli.cubes import load_groups
    from momentmix.cli.summaries import load_sum

    return load_groups(inputs, where, None).total() if where else load_sum(inputs)


def _check_verdict(verdict: str, strict: bool) -> None:
    """Exit with 4 where that is asked; else warn of a fit that is not to be relied on."""
    if verdict == "not passed":
        if strict:
            click.get_current_context().exit(NOT_PASSED)
        say("momentmix: warning: the certificate did not pass; see its reasons.", err=True)
    elif verdict == "untested":
        said = "the fit is untested; the certificate says what would make it testable"
        say(f"momentmix: warning: {said}.", err=True)


# -- what is printed --------------------------------------------------------------------------


def _print(result: FitResult, output: str | None, seed: int, verbose: bool) -> None:
    """Print the answer; with --verbose parameters and details before it."""
    if verbose:
        from momentmix.cli.models.fitted_table import fitted_table

        say(*fitted_table(result.mixture, result), "", *result.details().split("\n"), "")
    say(*str(result).split("\n"))
    saved = (
        f"Model written to {output}" if output else "The model is not saved: -o model.json saves it"
    )
    say(f"{saved} (seed {seed}).")


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
    return {"output": output, **result.mixture.to_dict(), **record, "profile": profile}

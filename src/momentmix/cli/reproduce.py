"""``momentmix reproduce``: the experiments of the paper."""

from __future__ import annotations

from typing import Any

import click

from momentmix import __version__
from momentmix.atomic_file import atomic_write
from momentmix.cli.options import output_options, seed_option
from momentmix.cli.output import Target, say, say_json


@click.argument(
    "table",
    type=click.Choice(["decomposition", "approximation", "gaussian", "stability", "recovery"]),
)
@click.option("--rows", multiple=True, help="Rows to run, as d,m or d,m,ε; repeatable.")
@click.option("--instances", type=click.IntRange(min=1), help="Random instances for each row.")
@seed_option
@click.option(
    "--samples",
    type=click.IntRange(min=2),
    default=10_000,
    help="Rows of data for each mixture (gaussian).",
)
@click.option(
    "--means",
    type=click.Choice(["large", "unit"]),
    default="large",
    help="Law of the means (gaussian): 50·N(0, I) or N(0, I).",
)
@output_options("Also write all figures to this file (JSON).")
def reproduce_command(
    table: str,
    rows: tuple[str, ...],
    instances: int | None,
    seed: int,
    samples: int,
    means: str,
    target: Target,
) -> None:
    """Run an experiment of the paper and print its figures beside those of the paper.

    Tables 2 (decomposition), 3 and 4 (approximation), 5 (gaussian); Theorems 4.2 and 5.2
    (stability); parameters from exact moments (recovery).
    """
    from momentmix.json_fields import format_strict
    from momentmix.paper.reproduce import TABLES, RunOptions, format_row

    if target.path is not None:
        target.check((), "give a file to --output; --json prints the figures.")
    experiment = TABLES[table]
    options = RunOptions(instances, seed, samples, 50.0 if means == "large" else 1.0)
    chosen = _choose_rows(experiment.rows(), rows)
    if not target.as_json:
        say(experiment.title, format_row(experiment, None))
    results = []
    for row in experiment.results(chosen, options):
        results.append(row)
        if not target.as_json:
            say(format_row(experiment, row))
    if experiment.note and not target.as_json:
        say(experiment.note)
    document = {"table": table, "seed": seed, "version": __version__, "rows": results}
    if target.path is not None:
        atomic_write(target.path, (format_strict(document, indent=1) + "\n").encode("ascii"))
    if target.as_json:
        say_json(document)


def _choose_rows(rows: list[dict[str, Any]], texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of a table that the texts d,m or d,m,ε name; all without texts."""
    if not texts:
        return rows
    chosen = []
    for text in texts:
        try:
            key = [float(part) for part in text.split(",")]
        except ValueError:
            raise click.BadParameter(f"expected d,m or d,m,ε; got {text!r}.") from None
        matches = [r for r in rows if [r["d"], r["m"], r.get("eps")][: len(key)] == key]
        if not matches or len(key) < 2:
            available = ", ".join(dict.fromkeys(f"{row['d']},{row['m']}" for row in rows))
            raise click.BadParameter(f"no row {text!r}; this table has {available}.")
        chosen += matches
    return chosen

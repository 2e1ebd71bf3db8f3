"""``momentmix reproduce``: the experiments of the paper."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import click

from momentmix import __version__
from momentmix.cli.files import say, say_json
from momentmix.cli.options import json_option, seed_option


@click.command("reproduce")
@click.argument("table", type=click.Choice(["decomposition", "approximation", "gaussian"]))
@click.option(
    "--rows",
    multiple=True,
    help="Lines to run, as d,m or d,m,ε; repeatable. For gaussian also the rows of data at most, "
    "as 1e7; 1e6 by default.",
)
@click.option("--instances", type=click.IntRange(min=1), help="Random instances for each row.")
@seed_option
@json_option
def reproduce_command(
    table: str, rows: tuple[str, ...], instances: int | None, seed: int, as_json: bool
) -> None:
    """Run an experiment of the paper and print its figures beside those of the paper.

    Tables 2 (decomposition), 3 and 4 (approximation) and 5 (gaussian).

    \b
    momentmix reproduce decomposition --rows 15,3
    """  # noqa: D301, click does not rewrap what follows a backspace
    from momentmix.paper.reproduce import TABLES, RunOptions, format_row

    experiment = TABLES[table]
    most_rows = 10**6
    if table == "gaussian":
        most_rows = max((_row_count(text) for text in rows if "," not in text), default=most_rows)
        rows = tuple(text for text in rows if "," in text)
    options = RunOptions(instances, seed, most_rows)
    chosen = _choose_rows(experiment.rows(), rows)
    if not as_json:
        say(experiment.title, format_row(experiment, None))
    results = []
    for row in experiment.results(chosen, options):
        results.append(row)
        if not as_json:
            say(format_row(experiment, row))
    if experiment.note and not as_json:
        say(experiment.note)
    if as_json:
        say_json({"table": table, "seed": seed, "version": __version__, "rows": results})


def _row_count(text: str) -> int:
    """A number of rows of data, as 1e6."""
    with suppress(ValueError, OverflowError):
        if (count := int(float(text))) >= 10**4:
            return count
    raise click.BadParameter(f"expected d,m or a number of rows from 1e4 on; got {text!r}.")


def _choose_rows(rows: list[dict[str, Any]], texts: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows of a table that the texts d,m or d,m,ε name; all without texts."""
    chosen = []
    for text in texts:
        keys = [[f"{r['d']},{r['m']}", f"{r['d']},{r['m']},{r.get('eps')}"] for r in rows]
        matches = [row for row, names in zip(rows, keys, strict=True) if text in names]
        if not matches:
            available = ", ".join(dict.fromkeys(names[0] for names in keys))
            raise click.BadParameter(f"no row {text!r}; this table has {available}.")
        chosen += matches
    return chosen or rows

"""``momentmix reproduce``: the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from momentmix._version import __version__
from momentmix.atomic_file import atomic_write
from momentmix.cli.output import check_output, say
from momentmix.cli.progress import progress_bar

__all__ = ["reproduce_command"]


@click.command("reproduce", short_help="The paper's experiments.")
@click.argument(
    "table",
    type=click.Choice(["decomposition", "approximation", "gaussian", "stability", "recovery"]),
)
@click.option("--rows", multiple=True, help="Only these rows, as d,m (or d,m,ε); may be repeated.")
@click.option("--instances", type=click.IntRange(min=1), help="Random instances for each row.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option(
    "--samples",
    type=click.IntRange(min=2),
    default=10_000,
    show_default=True,
    help="Rows of data for each mixture (gaussian).",
)
@click.option(
    "--means",
    type=click.Choice(["large", "unit"]),
    default="large",
    show_default=True,
    help="Law of the means (gaussian): 50·N(0, I) or N(0, I).",
)
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all figures to this file as well.",
)
def reproduce_command(
    table: str,
    rows: tuple[str, ...],
    instances: int | None,
    seed: int,
    samples: int,
    means: str,
    json_file: Path | None,
) -> None:
    """Run an experiment of the paper; print our figures beside the printed ones.

    Tables 2 (decomposition), 3 and 4 (approximation), 5 (gaussian); Theorems 4.2 and 5.2
    (stability); exact moments in, parameters out (recovery).
    """
    from momentmix.reproduce.tables import TABLES, Options, format_row
    from momentmix.strict_json import format_strict

    if json_file is not None:
        check_output(str(json_file), force=True)
    chosen = TABLES[table]
    wanted = _choose_rows(chosen.rows(), rows)
    options = Options(instances, seed, samples, 50.0 if means == "large" else 1.0)
    say(chosen.title)
    say(format_row(chosen, None))
    results = []
    for row in chosen.results(wanted, options, progress_bar):
        say(format_row(chosen, row))
        results.append(row)
    if json_file is not None:
        document = {"table": table, "seed": seed, "version": __version__, "rows": results}
        atomic_write(json_file, (format_strict(document, indent=1) + "\n").encode("ascii"))


def _choose_rows(available: list[dict[str, Any]], asked: tuple[str, ...]) -> list[dict[str, Any]]:
    if not asked:
        return available
    chosen = []
    for text in asked:
        try:
            wanted = [float(part) for part in text.split(",")]
        except ValueError:
            raise click.BadParameter(f"expected d,m or d,m,ε; got {text!r}.") from None
        found = [
            row
            for row in available
            if [row["d"], row["m"], row.get("eps")][: len(wanted)] == wanted
        ]
        if not found or len(wanted) < 2:
            places = ", ".join(dict.fromkeys(f"{row['d']},{row['m']}" for row in available))
            raise click.BadParameter(f"no row {text!r}; this table has {places}.")
        chosen += found
    return chosen

"""The command ``momentmix``: a thin door to the library."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import click

from momentmix._version import __version__

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="momentmix")
def cli() -> None:
    """Diagonal Gaussian mixtures from one pass over the data."""


def _size(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError


@cli.command("plan")
@click.option("-d", "--features", required=True, type=int, help="Number of features.")
@click.option("-r", "--components", required=True, type=int, help="Number of components.")
@click.option(
    "-m", "--order", type=int, help="Use this order instead of the smallest that will do."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan_command(features: int, components: int, order: int | None, as_json: bool) -> None:
    """Say which order of moments identifies a mixture, and what it costs."""
    from momentmix.planning import OrderPlan, plan

    found = plan(features, components, order)
    if as_json:
        click.echo(json.dumps(found.to_dict()))
        return
    chosen = found.chosen
    click.echo(f"{features} features, {components} component{'s' * (components > 1)}")
    if components == 1:
        click.echo("One component is read off the mean and the variances; no order is needed.")
        return
    click.echo(f"order    {chosen.order}  identifies up to {chosen.largest_rank} components")
    click.echo(f"split    k = {chosen.n_lower}, p = {chosen.degree}")
    click.echo(f"moments  {chosen.n_moments:,}  ({_size(chosen.memory)} as float64)")
    click.echo()
    click.echo("order  components up to    k    p         moments      memory")

    def line(one: OrderPlan) -> str:
        k, p = one.n_lower or "–", one.degree or "–"
        mark = "  ← this plan" if one.order == chosen.order else ""
        return (
            f"{one.order:>5}  {one.largest_rank:>16}  {k:>3}  {p:>3}  {one.n_moments:>14,}  "
            f"{_size(one.memory):>10}{mark}"
        )

    for one in sorted((chosen, *found.neighbours), key=lambda one: one.order):
        click.echo(line(one))


def _bar(steps: Iterable[Any], length: int, label: str) -> AbstractContextManager[Iterable[Any]]:
    """A progress bar on standard error, silent where that is not a terminal."""
    hidden = not sys.stderr.isatty()
    return click.progressbar(steps, length=length, label=label, file=sys.stderr, hidden=hidden)


@cli.command("reproduce")
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

    chosen = TABLES[table]
    wanted = _choose_rows(chosen.rows(), rows)
    options = Options(instances, seed, samples, 50.0 if means == "large" else 1.0)
    click.echo(chosen.title)
    click.echo(format_row(chosen, None))
    results = []
    for row in chosen.results(wanted, options, _bar):
        click.echo(format_row(chosen, row))
        results.append(row)
    if json_file is not None:
        document = {"table": table, "seed": seed, "version": __version__, "rows": results}
        json_file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


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


def main() -> None:
    """Run the command; errors of the library become one line and exit code 2."""
    from momentmix.errors import MomentmixError

    try:
        cli.main(prog_name="momentmix")
    except MomentmixError as error:
        click.echo(f"momentmix: {error}", err=True)
        sys.exit(2)

"""``momentmix plan``: which order of moments is needed, and its cost."""

from __future__ import annotations

from typing import Any

import click

from momentmix.cli.options import json_option
from momentmix.cli.output import say, say_json


def _size(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError


@click.command("plan", short_help="Which order of moments is needed, and its cost.")
@click.option("-d", "--features", required=True, type=int, help="Number of features.")
@click.option("-r", "--components", required=True, type=int, help="Number of components.")
@click.option(
    "-m", "--order", type=int, help="Use this order instead of the one that `fit` chooses."
)
@click.option(
    "--method",
    type=click.Choice(["robust", "paper"]),
    default="robust",
    show_default=True,
    help="Method that will be used to fit.",
)
@json_option
def plan_command(
    features: int, components: int, order: int | None, method: Any, as_json: bool
) -> None:
    """Print which order of moments identifies a mixture, and what it costs."""
    from momentmix.errors import InputError
    from momentmix.planning import OrderPlan, plan

    try:
        planned = plan(features, components, order, method)
    except InputError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        say_json(planned.to_dict())
        return
    chosen = planned.chosen
    say(f"{features} features, {components} component{'s' * (components > 1)}")
    if components == 1:
        say("One component follows from the mean and the variances; no order is needed.")
        return
    say(
        f"order    {chosen.order}  identifies up to {chosen.largest_rank_robust} components by the "
        f"robust method, {chosen.largest_rank} by the paper's"
    )
    if chosen.n_lower is not None:
        say(f"split    k = {chosen.n_lower}, p = {chosen.degree} (the paper's)")
    say(
        f"moments  {chosen.n_moments:,}; a summary takes {_size(chosen.memory)} of memory, about "
        f"{_size(chosen.file_size)} on disk"
    )
    say("")
    say("order  components (robust)  (paper)    k    p         moments      memory")

    def line(row: OrderPlan) -> str:
        k, p = row.n_lower or "–", row.degree or "–"
        mark = "  ← this plan" if row.order == chosen.order else ""
        return (
            f"{row.order:>5}  {row.largest_rank_robust:>19}  {row.largest_rank:>7}  {k:>3}  "
            f"{p:>3}  {row.n_moments:>14,}  {_size(row.memory):>10}{mark}"
        )

    for row in sorted((chosen, *planned.neighbors), key=lambda row: row.order):
        say(line(row))

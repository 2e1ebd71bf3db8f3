"""``momentmix plan``: what an order of moments gives and costs."""

from __future__ import annotations

from typing import Any

import click

from momentmix.cli.output import say, say_json

__all__ = ["plan_command"]


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
    help="The algorithm that will fit.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def plan_command(
    features: int, components: int, order: int | None, method: Any, as_json: bool
) -> None:
    """Say which order of moments identifies a mixture, and what it costs."""
    from momentmix.errors import InputError
    from momentmix.planning import OrderPlan, plan

    try:
        found = plan(features, components, order, method)
    except InputError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        say_json(found.to_dict())
        return
    chosen = found.chosen
    say(f"{features} features, {components} component{'s' * (components > 1)}")
    if components == 1:
        say("One component is read off the mean and the variances; no order is needed.")
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

    def line(one: OrderPlan) -> str:
        k, p = one.n_lower or "–", one.degree or "–"
        mark = "  ← this plan" if one.order == chosen.order else ""
        return (
            f"{one.order:>5}  {one.largest_rank_robust:>19}  {one.largest_rank:>7}  {k:>3}  "
            f"{p:>3}  {one.n_moments:>14,}  {_size(one.memory):>10}{mark}"
        )

    for one in sorted((chosen, *found.neighbors), key=lambda one: one.order):
        say(line(one))

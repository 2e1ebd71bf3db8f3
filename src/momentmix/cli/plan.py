"""``momentmix plan``: which order of moments is needed, and its cost."""

from __future__ import annotations

from typing import Any

import click

from momentmix.cli.options import json_option, parse_blocks
from momentmix.cli.output import say, say_json
from momentmix.findings.messages import in_shell


def _size(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("bytes", "KB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.3g} {unit}"
        size /= 1000
    raise AssertionError


def _blocks(text: str | None, n_features: int) -> list[list[int]]:
    """Blocks of columns by their numbers; names and sizes get the first columns that are free."""
    asked = parse_blocks(text)
    if asked == "auto":
        raise click.UsageError(
            "--blocks auto finds blocks when it fits; give the blocks, or plan without them."
        )
    if text is not None and "+" in text:
        sizes = text.split("+")
        if not all(size.strip().isdecimal() and int(size) > 0 for size in sizes):
            raise click.UsageError(f"sizes of blocks must be numbers, as in 3+3+2; got {text!r}.")
        asked = [[f"{place} {k}" for k in range(int(size))] for place, size in enumerate(sizes)]
    elif asked == "full":
        asked = [list(range(n_features))]
    elif asked is None:
        return []
    columns = [column for block in asked for column in block]
    names = [column for column in columns if isinstance(column, str)]
    taken = {column for column in columns if isinstance(column, int)}
    if len(columns) > n_features:
        raise click.UsageError(
            f"--blocks has {len(columns)} columns; --features {n_features} were given."
        )
    free = (j for j in range(len(columns) + n_features) if j not in taken)
    numbers = {name: next(free) for name in dict.fromkeys(names)}
    return [[numbers[c] if isinstance(c, str) else c for c in block] for block in asked]


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
@click.option(
    "--blocks",
    help="Columns that may be correlated within components, as for `fit`, or the sizes of the "
    "blocks with + between them, as in 3+3+2; other columns are blocks of their own.",
)
@json_option
def plan_command(
    features: int,
    components: int,
    order: int | None,
    method: Any,
    blocks: str | None,
    as_json: bool,
) -> None:
    """Print which order of moments identifies a mixture, and what it costs."""
    from momentmix.errors import InputError
    from momentmix.planning import plan

    try:
        planned = plan(features, components, order, method, _blocks(blocks, features))
    except InputError as error:
        raise click.UsageError(in_shell(error)) from None
    if as_json:
        say_json(planned.to_dict())
        return
    chosen, joined = planned.chosen, [size for size in planned.blocks if size > 1]
    blocks = f", {len(planned.blocks)} blocks, the largest of {joined[0]}" if joined else ""
    say(f"{features} features, {components} component{'s' * (components > 1)}{blocks}")
    if components == 1:
        say("One component follows from the mean and the variances; no order is needed.")
        return
    paper = "" if joined else f", {chosen.largest_rank} by the paper's"
    say(
        f"order    {chosen.order}  identifies up to {chosen.largest_rank_robust} components by the "
        f"robust method{paper}"
    )
    if chosen.n_lower is not None:
        say(f"split    k = {chosen.n_lower}, p = {chosen.degree} (the paper's)")
    say(
        f"moments  {chosen.n_moments:,}; a summary takes {_size(chosen.memory)} of memory, about "
        f"{_size(chosen.file_size)} on disk",
        "",
        "order  components (robust)  (paper)    k    p         moments      memory",
    )
    for row in sorted((chosen, *planned.neighbors), key=lambda row: row.order):
        k, p = row.n_lower or "–", row.degree or "–"
        mark = "  ← this plan" if row.order == chosen.order else ""
        say(
            f"{row.order:>5}  {row.largest_rank_robust:>19}  {row.largest_rank or '–':>7}  {k:>3}  "
            f"{p:>3}  {row.n_moments:>14,}  {_size(row.memory):>10}{mark}"
        )

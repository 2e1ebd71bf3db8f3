"""``momentmix plan``: which order of moments is needed, and its cost, before any data is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import json_option, parse_blocks
from momentmix.cli.output import say, say_json
from momentmix.findings.messages import in_shell
from momentmix.wording import plural

if TYPE_CHECKING:
    from momentmix.capacity.monomials import BlockSizes


@click.option("-d", "--n-features", required=True, type=int, help="Number of features.")
@click.option("-r", "--n-components", required=True, type=int, help="Number of components.")
@click.option(
    "-m", "--order", type=int, help="Use this order instead of the one that `fit` chooses."
)
@click.option(
    "--method",
    type=click.Choice(["robust", "paper"]),
    default="robust",
    help="Method of the fit.",
)
@click.option(
    "--blocks",
    help="Columns that may be correlated within components, as for `fit`, or the sizes of the "
    "blocks with + between them, as in 3+3+2; other columns are blocks of their own.",
)
@json_option
def plan_command(
    n_features: int,
    n_components: int,
    order: int | None,
    method: Any,
    blocks: str | None,
    as_json: bool,
) -> None:
    """Print which order of moments identifies a mixture, and what it costs."""
    from momentmix.errors import InputError

    try:
        planned = plan(n_features, n_components, order, method, _blocks(blocks, n_features))
    except InputError as error:
        raise click.UsageError(in_shell(error)) from None
    if as_json:
        say_json(planned)
        return
    chosen, sizes = planned["chosen"], planned["blocks"]
    is_joined = bool(sizes) and sizes[0] > 1
    said = f", {len(sizes)} blocks, the largest of {sizes[0]}" if is_joined else ""
    say(f"{n_features} features, {n_components} component{plural(n_components)}{said}")
    if n_components == 1:
        say("One component follows from the mean and the variances; no order is needed.")
        return
    paper = "" if is_joined else f", {chosen['largest_rank']} by the paper's"
    say(
        f"order    {chosen['order']}  identifies up to {chosen['largest_rank_robust']} components "
        f"by the robust method{paper}"
    )
    if chosen["n_lower"] is not None:
        say(f"split    k = {chosen['n_lower']}, p = {chosen['degree']} (the paper's)")
    say(
        f"moments  {chosen['n_moments']:,}; a summary takes {_size(chosen['memory'])} of memory, "
        f"about {_size(chosen['file_size'])} on disk",
        "",
        "order  components (robust)  (paper)    k    p         moments      memory",
    )
    for row in sorted((chosen, *planned["neighbors"]), key=lambda row: int(row["order"])):
        paper, k, p = (row[key] or "–" for key in ("largest_rank", "n_lower", "degree"))
        mark = "  ← this plan" if row is chosen else ""
        say(
            f"{row['order']:>5}  {row['largest_rank_robust']:>19}  {paper:>7}  {k:>3}  {p:>3}  "
            f"{row['n_moments']:>14,}  {_size(row['memory']):>10}{mark}"
        )


def plan(
    n_features: int, n_components: int, order: int | None = None, method: Any = "robust",
    blocks: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the order for a number of components, by default that of `fit`, and those next to it.

    `blocks` are lists of columns; those not named are blocks of their own.
    """
    from momentmix.capacity import ranks
    from momentmix.capacity.monomials import check_blocks
    from momentmix.errors import CapacityError, check_count
    from momentmix.index_sets import countable

    d = check_count("n_features", n_features, 1)
    r = check_count("n_components", n_components, 1)
    known = check_blocks(d, blocks)
    if order is not None:
        order = ranks.check_order(order, d)
    else:
        ranks.smallest_order(d, r, method, known)  # raises where no order identifies r
        order = ranks.choose_order(d, r, method=method, blocks=known)
    most = _largest_rank(d, order, method, known)
    if most < r:
        raise CapacityError(ranks.over_capacity(d, order, r, most, method, known))
    nearby = range(max(3, order - 2), min(d, order + 2) + 1)
    pairs = () if known is None else zip(*known, strict=True)
    sizes = [size for size, count in pairs for _ in range(count)]
    return {
        "n_features": d,
        "n_components": r,
        "chosen": _order_plan(d, order, known),
        "neighbors": [_order_plan(d, m, known) for m in nearby if m != order and countable(d, m)],
        "blocks": sorted(sizes, reverse=True),
    }


def _order_plan(d: int, order: int, blocks: BlockSizes | None) -> dict[str, Any]:
    """Return how many components an order identifies, and what its summary costs in bytes."""
    from momentmix.capacity.ranks import best_split
    from momentmix.summary.layout import Layout
    from momentmix.summary.view import estimate

    split = best_split(d, order) if d > order >= 3 and blocks is None else None
    cost = estimate(Layout(d, order, min(2, order - 1)))
    return {
        "order": order,
        "largest_rank": None if blocks is not None else _largest_rank(d, order, "paper", None),
        "largest_rank_robust": _largest_rank(d, order, "robust", blocks),
        "n_lower": None if split is None else split.n_lower,
        "degree": None if split is None else split.degree,
        "n_moments": cost.n_entries,
        "memory": cost.memory_bytes,
        "file_size": cost.file_bytes,
    }


def _largest_rank(d: int, order: int, method: Any, blocks: BlockSizes | None) -> int:
    """Return the largest rank; 1 for an order below 3, used where there are fewer features."""
    from momentmix.capacity.ranks import largest_rank

    return largest_rank(d, order, method, blocks) if order >= 3 else 1


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
    elif asked is None or asked == "diag":
        return []
    columns = [column for block in asked for column in block]
    if len(columns) > n_features:
        raise click.UsageError(
            f"--blocks has {len(columns)} columns; --n-features {n_features} were given."
        )
    free = (j for j in range(len(columns) + n_features) if j not in columns)
    numbers = {c: next(free) for c in dict.fromkeys(columns) if isinstance(c, str)}
    return [[numbers[c] if isinstance(c, str) else c for c in block] for block in asked]


def _size(n_bytes: int) -> str:
    power = min(4, (len(str(n_bytes)) - 1) // 3)
    return f"{n_bytes / 1000**power:.3g} {('bytes', 'KB', 'MB', 'GB', 'TB')[power]}"

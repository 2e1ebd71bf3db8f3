"""What the caller asks for, checked against the data: blocks, constraint, memory, capacity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np

from momentmix.arrays import physical_memory
from momentmix.capacity import FEWEST_BLOCKS, robust_rank, usable_orders
from momentmix.errors import CapacityError, InputError
from momentmix.findings.messages import NEED_ROWS, Message
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.data import Table
from momentmix.mixture.blocks import Blocks, blocks_from
from momentmix.mixture.prior import Constraint
from momentmix.wording import plural, size_text

AskedBlocks = Sequence[Sequence[int | str]] | Literal["auto", "full"] | None

_SQUARES, _TABLES = 6, 6  # held at once, measured with 100 to 1000 levels
MOST_PARAMETERS = 8000  # with blocks: the covariance of so many takes half a gigabyte


def known_blocks(asked: AskedBlocks, n_features: int, names: Sequence[str] | None) -> Blocks | None:
    """Blocks of all columns; None where the fit is to find them."""
    if asked == "auto":
        return None
    return blocks_from(() if asked is None else asked, n_features, names)


def varying_blocks(
    blocks: AskedBlocks, all_columns: StandardMoments, varying: StandardMoments
) -> Blocks | None:
    """The blocks of the columns that vary; None where they are to be found."""
    known = known_blocks(blocks, all_columns.n_features, all_columns.feature_names)
    if known is None:
        return None
    return Blocks.of(varying.n_features, known.restricted(varying.columns).joined, varying.laws)


def joined_with_missing(
    blocks: AskedBlocks,
    all_columns: StandardMoments,
    varying: StandardMoments,
    n_components: int | Literal["auto"],
) -> tuple[tuple[int, ...], ...]:
    """Blocks of features that vary, where values have missing cells; these are `Seen`."""
    known = known_blocks(blocks, all_columns.n_features, all_columns.feature_names)
    values = {law.value_feature for law in all_columns.laws} - {None}
    found = [] if known is None else [b for b in known.joined if values.intersection(b)]
    if not found:
        return ()
    if n_components == "auto":
        raise InputError(
            'n_components="auto" does not go with joined columns that have missing cells. Give a '
            "number of components, and compare those of several fits by BIC."
        )
    place = {int(column): number for number, column in enumerate(varying.columns)}
    for j in (j for block in found for j in block):
        if j not in place:
            raise InputError(
                f"column {all_columns.column_name(j)} is constant where it is seen, so that it "
                "has no correlations. Take it out of the block."
            )
    return tuple(tuple(place[j] for j in block) for block in found)


def check_memory(table: Table, n_components: int | Literal["auto"]) -> None:
    """Raise, before any work, where a fit takes more than half of the memory."""
    d, r = table.data.n_features, 1 if n_components == "auto" else n_components
    known = 0 if isinstance(table.data, StandardMoments) else table.data.expected_rows or 0

    def n_bytes(n_features: int) -> float:
        return 8.0 * (_SQUARES * (r * (1 + 2 * n_features)) ** 2 + _TABLES * n_features * known)

    budget, most = physical_memory() / 2, d
    if n_bytes(d) <= budget:
        return
    while most > 1 and n_bytes(most) > budget:
        most = most * 9 // 10
    columns = () if table.schema is None else table.schema.columns
    widest = max(columns, key=lambda column: len(column.levels or ()), default=None)
    levels = ""
    if widest is not None and widest.levels:
        levels = f", {len(widest.levels) - 1} of them levels of {widest.name!a},"
    raise InputError(
        f"{r} component{plural(r)} of {d} features{levels} need about {size_text(n_bytes(d))} of "
        f"memory; a fit may take {size_text(budget)}, half of what there is. Use up to {most} "
        "features: join rare levels to one, or leave columns out; or ask for fewer components."
    )


def check_n_rows(n_rows: int, n_components: int) -> None:
    """Raise where there are fewer rows than components."""
    if n_rows < n_components:
        raise InputError(
            f"n_components={n_components} needs at least that many rows; got {n_rows}. "
            "Ask for fewer components."
        )


def check_widest(blocks: Blocks, moments: StandardMoments, n_components: int) -> None:
    """Raise where a block has more columns than rows or memory can bear."""
    k, n, r = blocks.widest, moments.n_counted, n_components
    if k > 1 and n < r * (k + 1):
        raise InputError(
            f"a block of {k} columns needs more than {k} rows for each of {r} "
            f"component{plural(r)}, {r * (k + 1)} in all; got {n}. Use blocks of at most "
            f"{max(1, n // r - 1)} columns, fewer components, or more rows."
        )
    n_parameters = r * blocks.n_parameters
    if k > 1 and n_parameters > MOST_PARAMETERS:
        raise InputError(
            f"{r} component{plural(r)} of these blocks, the widest of {k} columns, have "
            f"{n_parameters} parameters; fits with blocks have at most {MOST_PARAMETERS}, whose "
            "standard errors take gigabytes. Use smaller blocks or fewer components."
        )


def check_capacity(
    moments: StandardMoments, n_components: int, n_columns: int, blocks: Blocks
) -> None:
    """Raise where moments of this order cannot tell the components apart."""
    d, order = moments.n_features, moments.order
    n_blocks = len(blocks.partition)
    if n_blocks < FEWEST_BLOCKS and n_components > 1 and not blocks.is_diagonal:
        text = (
            f"moments alone need at least three blocks to tell components apart; these are "
            f"{n_blocks} block{plural(n_blocks)} of {d} columns. Use smaller blocks, or "
        )
        raise CapacityError(Message(text, NEED_ROWS, "."))
    most = robust_rank(d, order, blocks)
    if n_components <= most:
        return
    ranks = ((m, robust_rank(d, m, blocks)) for m in usable_orders(d, d))
    sufficient = next(((m, rank) for m, rank in ranks if rank >= n_components), None)
    cure = "At"
    if sufficient is not None:
        cure = f"Use order={sufficient[0]} (up to {sufficient[1]}), or at"
    kind = "features" if d == n_columns else "features that vary"
    if not blocks.is_diagonal:
        kind += f" in {n_blocks} blocks"
    text = (
        f"order={order} with {d} {kind} identifies at most {most} component"
        f"{'s' if most > 1 else ''} from moments alone; n_components={n_components} was asked. "
        f"{cure} most {most}, or for any number "
    )
    raise CapacityError(Message(text, NEED_ROWS, "."))


def check_constraint(
    constraint: Any, table: Table, n_components: Any, blocks: Any, refine: str | None
) -> None:
    """Raise where the constraint does not go with the data or the other options."""
    if constraint not in get_args(Constraint):
        raise InputError(f'constraint must be "tied" or "spherical"; got {constraint!r}.')
    if isinstance(table.data, StandardMoments) or refine is None:
        text = (
            f"{constraint} covariances are fitted by passes over the rows; there are none from a "
            "summary, and with refine=None. Use diagonal covariances, or "
        )
        raise InputError(Message(text, NEED_ROWS, "."))
    if table.schema is not None:
        raise InputError(
            f"{constraint} covariances are for numbers without missing cells; these columns have "
            "families or missing cells. Leave the constraint out, or the rows with such cells: "
            'missing="drop".'
        )
    if n_components == "auto":
        raise InputError(
            f'n_components="auto" does not go with {constraint} covariances. Give a number, and '
            "compare those of several fits by BIC."
        )
    if isinstance(blocks, str) or (constraint == "spherical" and blocks is not None):
        raise InputError(
            f"{constraint} covariances do not go with blocks={blocks!r}. Give the blocks of tied "
            "covariances as lists, and none for spherical ones."
        )


def check_varying(constraint: Constraint, all_columns: StandardMoments) -> None:
    """Raise where a column is constant, and one variance is to hold for all columns."""
    if constraint == "spherical" and all_columns.constant.any():
        name = all_columns.column_name(int(np.flatnonzero(all_columns.constant)[0]))
        raise InputError(
            f"column {name} is constant, so that one variance cannot hold for all columns. Leave "
            "the column out, or use diagonal covariances."
        )

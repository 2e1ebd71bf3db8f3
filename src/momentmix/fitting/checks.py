"""Checks before a fit: memory, blocks, and what moments can tell apart."""

from __future__ import annotations

import numpy as np

from momentmix.arrays import physical_memory
from momentmix.capacity import FEWEST_BLOCKS, robust_rank, usable_orders
from momentmix.errors import CapacityError, InputError
from momentmix.fitting.data import AskedBlocks, Table, known_blocks
from momentmix.fitting.em.em import Sample
from momentmix.fitting.em.patterns import observed_values
from momentmix.fitting.moments.standard_moments import StandardMoments
from momentmix.fitting.options import Number
from momentmix.mixture.blocks import Blocks
from momentmix.tables.rows import Rows
from momentmix.wording import NEED_ROWS, plural, size_text

_SQUARES, _TABLES = 6, 6  # held at once, measured with 100 to 1000 levels
MOST_PARAMETERS = 8000  # with blocks: the covariance of so many takes half a gigabyte


def check_memory(table: Table, n_components: Number) -> None:
    """Raise, before any work, where a fit takes more than half of the memory."""
    d, r = table.data.n_features, 1 if isinstance(n_components, str) else n_components
    known = 0  # rows that are held, not those that their weights stand for
    if isinstance(table.data, Rows):
        counts = table.data.row_counts
        known = (table.data.expected_rows or 0) if counts is None else len(counts)

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


def varying_blocks(
    asked: AskedBlocks,
    all_columns: StandardMoments,
    varying: StandardMoments,
    sample: Sample | None,
) -> Blocks | None:
    """Blocks of features that vary; None where they are to be found."""
    known = known_blocks(asked, all_columns.n_features, all_columns.feature_names)
    if known is None:
        return None
    blocks = varying.joined(known.restricted(varying.columns).joined)
    missing = {part.value_feature for part in all_columns.laws}
    constant = set(range(all_columns.n_features)) - set(varying.columns.tolist())
    for j in (j for block in known.joined for j in block):
        if j in constant & missing:
            raise InputError(
                f"column {all_columns.column_name(j)} is constant where it is seen, so that it "
                "has no correlations. Take it out of the block."
            )
    for block, _ in blocks.places if blocks.missing and sample is not None else ():
        assert sample is not None
        observed = observed_values(sample.all_features, varying, block)
        together = observed @ observed.T
        if together.min() < block.size + 1:
            pair = np.unravel_index(int(together.argmin()), together.shape)
            names = [varying.column_name(int(block[place])) for place in pair]
            raise InputError(
                f"columns {names[0]} and {names[1]} are in one block, but almost never seen in "
                f"the same row ({together.min():.0f} of {observed.shape[1]} rows), so that their "
                "covariance cannot be known. Take one of them out of the block."
            )
    return blocks


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
        raise CapacityError(
            f"moments alone need at least three blocks to tell components apart; these are "
            f"{n_blocks} block{plural(n_blocks)} of {d} columns. Use smaller blocks, or "
            f"{NEED_ROWS}."
        )
    most = robust_rank(d, order, blocks)
    if n_components <= most:
        return
    ranks = ((m, robust_rank(d, m, blocks)) for m in usable_orders(d, d))
    sufficient = next(((m, rank) for m, rank in ranks if rank >= n_components), None)
    cure = "At"
    if sufficient is not None:
        cure = f"Summarize with order={sufficient[0]} (up to {sufficient[1]}), or at"
    kind = "features" if d == n_columns else "features that vary"
    if not blocks.is_diagonal:
        kind += f" in {n_blocks} blocks"
    raise CapacityError(
        f"order={order} with {d} {kind} identifies at most {most} component"
        f"{'s' if most > 1 else ''} from moments alone; n_components={n_components} was asked. "
        f"{cure} most {most}, or for any number {NEED_ROWS}."
    )

"""Blocks of columns that the caller asks for, and those of the features that vary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from momentmix.errors import InputError
from momentmix.fitting.conditions.standard_moments import StandardMoments
from momentmix.fitting.data import Table
from momentmix.mixture.blocks import Blocks, blocks_from
from momentmix.summary.cost import physical_memory, size_text
from momentmix.wording import plural

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
    """Raise, before any work, where a fit takes more than half of the memory.

    That is the covariance of the parameters, with what it is computed from, and the rows as
    features, their squares and a sample of both. Of "auto", one component counts.
    """
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

"""Blocks of columns in their own units ↔ parameters of the features that a schema makes of them.

| column | block | features |
|---|---|---|
| numbers | `GaussianBlock` | themselves, or their log or log1p |
| number with missing cells | `GaussianBlock` with ``seen`` | (value − center)·seen, seen |
| numbers with missing cells, joined | the same | the same: values joined, ``seen`` by itself |
| levels | `BernoulliBlock`, `CategoricalBlock` | indicators of levels[1:] (·seen, seen) |
| count | `PoissonBlock` | itself (·seen, seen) |

A mixture of a table is its blocks: what is printed, saved and selected. Densities and draws are
those of the features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from momentmix._typing import Float, Int
from momentmix.errors import InputError, InputTypeError
from momentmix.mixture.blocks import Blocks, matrices_of
from momentmix.mixture.checks import real_array
from momentmix.mixture.column_laws import laws_of
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.laws.finite import LEAST_PROBABILITY, Finite
from momentmix.mixture.laws.law import Law
from momentmix.mixture.laws.poisson import Poisson
from momentmix.mixture.laws.seen import Seen
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure
from momentmix.mixture.tables.family_blocks import (
    BernoulliBlock,
    CategoricalBlock,
    FamilyBlock,
    PoissonBlock,
)
from momentmix.mixture.tables.seen_values import (
    NEVER_SEEN,
    checked_seen,
    checked_unknown,
    seen_features,
    unknown_columns,
    with_unknown,
)
from momentmix.tables.column import BERNOULLI, GAUSSIAN, Column, short_mean
from momentmix.tables.names import check_feature_names
from momentmix.tables.schema import Schema

Block = GaussianBlock | FamilyBlock


# -- features → blocks ------------------------------------------------------------------------


def blocks_of(parameters: Parameters, schema: Schema) -> tuple[Block, ...]:
    """The blocks of parameters of features, ordered by their first columns."""
    p = parameters
    joined = {schema.column_of[j] for block in p.blocks.joined for j in block}
    laws = laws_of(schema, joined)
    own = [law.features for law in p.blocks.laws]
    if p.blocks.n_features != schema.n_features or own != [law.features for law in laws]:
        raise InputError(
            f"the parameters must be those of the {schema.n_features} features of the schema, with "
            "their laws; they have other features or laws."
        )
    law_at = {law.features: law for law in laws}
    found: list[Block] = []
    for features in p.blocks.partition:
        columns = tuple(sorted({schema.column_of[j] for j in features}))
        names = schema.column_names
        chosen = None if names is None else tuple(names[j] for j in columns)
        law, numbers = law_at.get(features), list(features)
        if law is None:
            covariances = matrices_of(p.spread, p.blocks.table(np.array(numbers)))
            covariances = covariances.reshape(-1, len(numbers), len(numbers))
            block = GaussianBlock(columns, chosen, p.means[:, numbers], covariances)
            block = replace(block, transforms=_transforms([schema.columns[j] for j in columns]))
            found.append(_with_seen(block, p, schema, law_at))
        elif columns[0] not in joined:
            own_block = _of_law(
                schema.columns[columns[0]], law, p.means[:, numbers], p.variances[:, numbers]
            )
            found.append(own_block.at(columns, chosen))
    return tuple(found)


def _with_seen(
    block: GaussianBlock, p: Parameters, schema: Schema, law_at: dict[tuple[int, ...], Law]
) -> GaussianBlock:
    """A block of joined columns in their units, with probabilities of being seen."""
    seen, centers = np.ones(block.means.shape), np.zeros(len(block.columns))
    for place, number in enumerate(block.columns):
        feature = schema.seen_of(number)
        if feature is not None:
            law, centers[place] = law_at[(feature,)], schema.columns[number].center
            assert isinstance(law, Finite)
            q = law.probabilities(p.means[:, [feature]])[:, 1]
            seen[:, place] = np.clip(q, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    if (seen == 1).all():
        return block
    means, covariances = unknown_columns(block.means + centers, block.covariances, seen)
    return replace(block, means=means, covariances=covariances, seen=seen)


def _of_law(column: Column, law: Law, means: Float, variances: Float) -> Block:
    """A column's block from means and variances (r, k) of its features."""
    if isinstance(law, Finite):
        return _of_levels(column, law, means)
    if isinstance(law, Poisson):
        return PoissonBlock(law.rates(means))
    if not isinstance(law, Seen):
        raise InputTypeError(f"{type(law).__name__} is no law of a column.")
    found = law.value_of(means, variances)
    if column.family != GAUSSIAN:
        rates = Poisson((0,)).rates(found.mean)
        return PoissonBlock(with_unknown(rates, found.q), seen=found.q)
    value = with_unknown(found.mean + column.center, found.q)
    variance = with_unknown(np.maximum(found.variance, 0.0)[:, :, None], found.q)
    return GaussianBlock((), None, value, variance, found.q, _transforms([column]))


def _transforms(columns: Sequence[Column]) -> tuple[str, ...]:
    """Transforms of columns; empty where there are none."""
    found = tuple(column.transform for column in columns)
    return found if any(found) else ()


def _of_levels(column: Column, law: Finite, means: Float) -> Block:
    table, seen = np.maximum(law.probabilities(means), LEAST_PROBABILITY), None
    table /= table.sum(axis=1, keepdims=True)
    if column.has_missing:
        seen = table[:, 1:].sum(axis=1)
        table = table[:, 1:] / seen[:, None]
    table = with_unknown(table, seen)
    if column.family == BERNOULLI:
        return BernoulliBlock(table[:, 1], column.levels, seen=seen)
    return CategoricalBlock(table, column.levels, seen=seen)


# -- blocks → features ------------------------------------------------------------------------


@np.errstate(over="ignore", invalid="ignore")  # numbers beyond the range are refused as infinite
def parameters_of(weights: Float, blocks: Sequence[Block], schema: Schema) -> Parameters:
    """Parameters of the features of blocks; a column may have ``seen`` in the schema alone."""
    r, d = len(weights), schema.n_features
    means, variances = np.zeros((r, d)), np.zeros((r, d))
    wide = [block.columns for block in blocks if len(block.columns) > 1]
    joined = [[schema.features_of(number)[0] for number in columns] for columns in wide]
    laws = laws_of(schema, {number for columns in wide for number in columns})
    own = Blocks.of(d, joined, laws)
    p = Parameters(weights, means, variances, None, own)
    spread = np.zeros((r, own.n_spread))
    for block in blocks:
        features = _features(block, schema)
        if isinstance(block, GaussianBlock) and len(block.columns) > 1:
            numbers = [schema.features_of(number)[0] for number in block.columns]
            centers = np.array([schema.columns[number].center for number in block.columns])
            means[:, numbers] = block.known.means - centers
            spread[:, own.table(np.array(numbers))] = block.known.covariances
            for number, q in _seen_by_column(block).items():
                feature = schema.seen_of(number)
                if feature is not None:
                    means[:, feature], spread[:, feature] = q, q * (1 - q)
        elif isinstance(block, GaussianBlock):
            column = schema.columns[block.columns[0]]
            means[:, features], matrices = _gaussian_features(block, column)
            table = own.table(np.array(features))
            spread[:, table] = matrices.reshape(r, *table.shape)
        else:
            found = block.features(schema.columns[block.columns[0]])
            means[:, features], spread[:, features] = found
    return p.with_spread(spread)


def _features(block: Block, schema: Schema) -> list[int]:
    return [j for column in block.columns for j in schema.features_of(column)]


def _seen_by_column(block: GaussianBlock) -> dict[int, Float]:
    """Probabilities of being seen (r,) within bounds, by number of the column."""
    table = np.ones(block.means.shape) if block.seen is None else block.seen
    table = np.clip(table, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
    return dict(zip(block.columns, table.T, strict=True))


def _gaussian_features(block: GaussianBlock, column: Column) -> tuple[Float, Float]:
    """Means and variances of the features of one column, (r, 1) or (r, 2) with missing cells."""
    known = block.known
    if not column.has_missing:
        return known.means, known.covariances
    law = Seen.gaussian((0, 1))
    return seen_features(law, block.seen, known.means - column.center, known.covariances[:, 0])


# -- blocks given by hand, and parts of blocks --------------------------------------------------


def placed(blocks: Iterable[Block], n_components: int) -> tuple[Block, ...]:
    """Blocks with numbers of their columns, checked; by default in the order given."""
    found = list(blocks)
    for block in found:
        if not isinstance(block, GaussianBlock | FamilyBlock):
            raise InputTypeError(
                "blocks must be GaussianBlock, BernoulliBlock, CategoricalBlock or PoissonBlock; "
                f"got {type(block).__name__}."
            )
    if not found:
        raise InputError("a mixture must have at least one block; got none.")
    found = [_checked_gaussian(b) if isinstance(b, GaussianBlock) else b for b in found]
    counts = [block.n_components for block in found]
    if set(counts) != {n_components}:
        raise InputError(
            f"blocks must have {n_components} components, as many as there are weights; got "
            f"{counts}."
        )
    widths = [block.means.shape[1] for block in found]
    if not any(block.columns for block in found):
        ends = np.cumsum([0, *widths]).tolist()
        found = [
            block.at(tuple(range(start, start + width)), block.names)
            for block, start, width in zip(found, ends[:-1], widths, strict=True)
        ]
    numbers = [j for block in found for j in block.columns]
    if sorted(numbers) != list(range(sum(widths))):
        raise InputError(
            f"the columns of blocks must be 0…{sum(widths) - 1}, each once, or be left out in all "
            f"blocks; got {numbers}."
        )
    if len({block.names is None for block in found}) > 1:
        raise InputError("all blocks must have names of their columns, or none.")
    if found[0].names is not None:
        check_feature_names([name for block in found for name in block.names or ()])
    return tuple(sorted((_ascending(block) for block in found), key=lambda block: block.columns))


def _checked_gaussian(block: GaussianBlock) -> GaussianBlock:
    columns, names = block.columns, block.names
    block = GaussianBlock.of(
        block.means, block.covariances, names, block.seen, block.transforms
    ).at(columns, names)
    r, k = block.means.shape
    if block.seen is None:
        return block
    if k > 1:
        return _checked_joined(block, block.seen)
    seen = checked_seen(block.seen, r)
    means = checked_unknown(block.means, seen, "means")
    covariances = checked_unknown(block.covariances, seen, "covariances")
    if (covariances < 0).any():
        raise InputError(f"variances must be non-negative; got {np.nanmin(covariances):.4g}.")
    return replace(block, means=means, covariances=covariances, seen=seen)


def _checked_joined(block: GaussianBlock, seen: Float) -> GaussianBlock:
    """A block of several columns with missing cells."""
    r, k = block.means.shape
    if seen.shape != (r, k):
        raise InputError(
            f"seen of a block of {k} columns must have shape ({r}, {k}), a probability for each "
            f"component and column; got {seen.shape}."
        )
    for j in range(k):
        checked_seen(seen[:, j], r)
    means, covariances = unknown_columns(block.means, block.covariances, seen)
    unknown = np.isnan(means)
    either = unknown[:, :, None] | unknown[:, None, :]
    if (unknown & (seen >= NEVER_SEEN)).any() or (np.isnan(covariances) != either).any():
        raise InputError(
            "means and covariances may be NaN only in the columns that a component never sees "
            "(seen 0)."
        )
    kept = None if (seen == 1).all() else seen
    return replace(block, means=means, covariances=covariances, seen=kept)


def _ascending(block: Block) -> Block:
    """The block with its columns in the order of their numbers."""
    order = np.argsort(block.columns).tolist()
    if isinstance(block, GaussianBlock) and order != sorted(order):
        return block.part(order)
    return block


def schema_of(blocks: Sequence[Block]) -> Schema:
    """The schema of blocks that have been `placed`."""
    columns: dict[int, Column] = {}
    for block in blocks:
        if isinstance(block, FamilyBlock):
            columns[block.columns[0]] = block.column
            continue
        for place, number in enumerate(block.columns):
            name = None if block.names is None else block.names[place]
            column = Column(name, transform=block.transforms[place] if block.transforms else "")
            if block.has_missing[place]:
                center = short_mean(block.known.means[:, place])
                column = replace(column, has_missing=True, center=center)
            columns[number] = column
    return Schema(tuple(columns[j] for j in range(len(columns))))


def selected(blocks: Sequence[Block], numbers: Int) -> tuple[Block, ...]:
    """The blocks of some of the columns, which are numbered anew in the order given."""
    place, found = {int(j): i for i, j in enumerate(numbers)}, []
    for block in blocks:
        kept = [i for i, j in enumerate(block.columns) if j in place]
        if not kept:
            continue
        part = block.part(kept) if isinstance(block, GaussianBlock) else block
        columns = tuple(place[j] for j in part.columns)
        found.append(_ascending(part.at(columns, part.names)))
    return tuple(sorted(found, key=lambda block: block.columns))


def complete_schema(columns: Sequence[Column]) -> Schema:
    """The schema of columns without missing cells, whose features are the values themselves."""
    return Schema(
        tuple(replace(column, has_missing=False, center=0.0, transform="") for column in columns)
    )


def renamed(schema: Schema, names: Sequence[str] | None) -> Schema:
    """The schema with other names of its columns, or none."""
    if names is None:
        return Schema(tuple(replace(column, name=None) for column in schema.columns))
    checked = check_feature_names(names, schema.n_columns)
    pairs = zip(schema.columns, checked, strict=True)
    return Schema(tuple(replace(column, name=name) for column, name in pairs))


def with_names(blocks: Sequence[Block], names: Sequence[str] | None) -> tuple[Block, ...]:
    """The blocks with names of their columns from those of all columns."""
    return tuple(
        block.at(block.columns, None if names is None else tuple(names[j] for j in block.columns))
        for block in blocks
    )


def with_floor(blocks: Sequence[Block], floor: ArrayLike) -> tuple[Block, ...]:
    """The blocks with variances of Gaussian columns of at least `floor`, one or one a column."""
    n_columns = sum(len(block.columns) for block in blocks)
    floors = real_array("floor", floor)
    if floors.ndim and floors.shape != (n_columns,):
        raise InputError(f"floor must be a number, or {n_columns} numbers, one for each column.")
    floors = np.broadcast_to(floors, (n_columns,))
    return tuple(
        _raised(block, floors[list(block.columns)]) if isinstance(block, GaussianBlock) else block
        for block in blocks
    )


def _raised(block: GaussianBlock, floors: Float) -> GaussianBlock:
    k = len(floors)
    if k == 1:
        return replace(block, covariances=np.maximum(block.covariances, floors[0]))
    alone = block.at(tuple(range(k)), None)
    p = parameters_of(np.ones(block.n_components), [alone], Schema((Column(None),) * k))
    raised = Structure.of_variances(floors, p.blocks).raised(p).matrices
    return replace(block, covariances=np.where(np.isnan(block.covariances), np.nan, raised))


# -- all columns --------------------------------------------------------------------------------


def column_means(blocks: Sequence[Block], n_columns: int) -> tuple[Float, Float]:
    """Means and variances of columns within components, of shape (r, n_columns) each."""
    means = np.empty((blocks[0].n_components, n_columns))
    variances = np.empty_like(means)
    for block in blocks:
        own = list(block.columns)
        means[:, own] = block.means
        variances[:, own] = np.diagonal(block.covariances, axis1=1, axis2=2)
    means.setflags(write=False)
    variances.setflags(write=False)
    return means, variances


def column_seen(blocks: Sequence[Block], n_columns: int) -> Float:
    """Probability that a cell is seen, of shape (r, n_columns); NaN where no cell is missing."""
    table = np.full((blocks[0].n_components, n_columns), np.nan)
    for block in blocks:
        if block.seen is not None:
            own = np.array(block.columns)
            seen = block.seen.reshape(len(table), own.size)
            kept = block.has_missing if isinstance(block, GaussianBlock) else np.ones(1, dtype=bool)
            table[:, own[kept]] = seen[:, kept]
    return table


def column_covariances(blocks: Sequence[Block], n_columns: int) -> Float:
    """Covariances of columns within components, of shape (r, n_columns, n_columns)."""
    table = np.zeros((blocks[0].n_components, n_columns, n_columns))
    for block in blocks:
        own = np.array(block.columns)
        table[:, own[:, None], own] = block.covariances
        if isinstance(block, CategoricalBlock):
            table[:, own] = np.nan
            table[:, :, own] = np.nan
    return table

"""Blocks of columns in their own units ↔ parameters of the features that a schema makes of them.

| column | block | features |
|---|---|---|
| numbers | `GaussianBlock` | themselves, or their log or log1p |
| number with missing cells | `GaussianBlock` with ``seen`` | (value − center)·seen, seen |
| numbers with missing cells, joined | the same | the same: values joined, ``seen`` by itself |
| of any other family | the `ColumnBlock` of its family | those of its distribution |

A mixture of a table is its blocks: what is printed, saved and selected. Densities and draws are
those of the features.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from momentmix._typing import Float, Int
from momentmix.errors import InputError, InputTypeError
from momentmix.families.block import Block
from momentmix.families.column import Column
from momentmix.families.distribution import Distribution, Value
from momentmix.families.family import LEAST_PROBABILITY
from momentmix.families.gaussian import GaussianBlock
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.parameters import Parameters
from momentmix.tables.columns import is_missing
from momentmix.tables.names import check_feature_names, feature_number
from momentmix.tables.schema import Schema

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture


# -- features → blocks ------------------------------------------------------------------------


def blocks_of(parameters: Parameters, schema: Schema) -> tuple[Block, ...]:
    """The blocks of parameters of features, ordered by their first columns."""
    p, names = parameters, schema.column_names
    joined = {schema.column_of[j] for block in p.blocks.joined for j in block}
    law_at = {part.features: part for part in schema.distributions(joined)}
    if p.blocks.n_features != schema.n_features or list(law_at) != [
        part.features for part in p.blocks.laws
    ]:
        raise InputError(
            f"the parameters must be those of the {schema.n_features} features of the schema, with "
            "their distributions; they have other ones."
        )

    def seen_of(number: int) -> Float:
        part = law_at.get((schema.features_of(number)[-1],))
        if part is None or part.at_random:
            return np.ones(p.n_components)
        return part.value_of(*p.of_law(part)).observed

    found: list[Block] = []
    for features in p.blocks.partition:
        columns = tuple(sorted({schema.column_of[j] for j in features}))
        of_block, numbers = [schema.columns[j] for j in columns], np.array(features)
        if features not in law_at:
            seen = np.stack([seen_of(j) for j in columns], axis=1)
            block: Block = GaussianBlock(
                p.means[:, numbers] + np.array([column.center for column in of_block]),
                p.spread[:, p.blocks.table(numbers)],
                seen=None if (seen == 1).all() else seen,
                transforms=tuple(column.transform for column in of_block),
            )
        elif columns[0] not in joined:
            value = law_at[features].value_of(*p.of_law(law_at[features]))
            pair = of_block[0].model.completed(value.mean, value.variance)
            seen_alone = value.observed if of_block[0].models_gaps else None
            block = of_block[0].model.block(of_block[0], *pair, seen_alone)
        else:
            continue
        chosen = None if names is None else tuple(names[j] for j in columns)
        found.append(block.at(columns, chosen))
    return tuple(found)


# -- blocks → features ------------------------------------------------------------------------


@np.errstate(over="ignore", invalid="ignore")  # numbers beyond the range are refused as infinite
def parameters_of(weights: Float, blocks: Sequence[Block], schema: Schema) -> Parameters:
    """Parameters of the features of blocks; a column may have ``seen`` in the schema alone."""
    r, d = len(weights), schema.n_features
    wide = [block.columns for block in blocks if len(block.columns) > 1]
    joined = [[schema.features_of(number)[0] for number in columns] for columns in wide]
    laws = schema.distributions({number for columns in wide for number in columns})
    partition = Blocks.of(d, joined, laws)
    means, spread = np.zeros((r, d)), np.zeros((r, partition.n_spread))
    for block in blocks:
        numbers = np.array([schema.features_of(number)[0] for number in block.columns])
        centers = np.array([schema.columns[number].center for number in block.columns])
        seen = np.nan_to_num(block.seen_table, nan=1.0)
        seen = np.clip(seen, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)
        if len(block.columns) == 1:
            column = schema.columns[block.columns[0]]
            features = tuple(schema.features_of(block.columns[0]))
            part = Distribution(features, block.model, column.has_missing)
            mean, variance = block.model.completed(*block.value)
            value = Value(mean - centers, variance, seen[:, 0])
            means[:, features], spread[:, features] = part.features_of(value)
            continue
        assert isinstance(block, GaussianBlock)
        means[:, numbers], spread[:, partition.table(numbers)] = (
            block.means - centers,
            block.covariances,
        )
        for number, q in zip(block.columns, seen.T, strict=True):
            feature = schema.seen_of(number)
            if feature is not None:
                means[:, feature], spread[:, feature] = q, q * (1 - q)
    return Parameters(weights, means, spread[:, :d], spread[:, d:], partition)


# -- blocks given by hand, and parts of blocks --------------------------------------------------


def placed(blocks: Iterable[Block], n_components: int) -> tuple[Block, ...]:
    """Blocks with numbers of their columns, checked; by default in the order given."""
    found = list(blocks)
    for block in found:
        if not isinstance(block, Block):
            raise InputTypeError(
                "blocks must be GaussianBlock, BernoulliBlock, CategoricalBlock or one of another "
                f"family; got {type(block).__name__}."
            )
    if not found:
        raise InputError("a mixture must have at least one block; got none.")
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


def _ascending(block: Block) -> Block:
    """The block with its columns in the order of their numbers."""
    order = np.argsort(block.columns).tolist()
    return block if order == sorted(order) else block.part(order)


def schema_of(blocks: Sequence[Block]) -> Schema:
    """The schema of blocks that have been `placed`."""
    columns: dict[int, Column] = {}
    for block in blocks:
        columns.update(zip(block.columns, block.schema_columns, strict=True))
    return Schema(tuple(columns[j] for j in range(len(columns))))


def selected(blocks: Sequence[Block], numbers: Int) -> tuple[Block, ...]:
    """The blocks of some of the columns, which are numbered anew in the order given."""
    place, found = {int(j): i for i, j in enumerate(numbers)}, []
    for block in blocks:
        kept = [i for i, j in enumerate(block.columns) if j in place]
        if not kept:
            continue
        part = block.part(kept)
        columns = tuple(place[j] for j in part.columns)
        found.append(_ascending(part.at(columns, part.names)))
    return tuple(sorted(found, key=lambda block: block.columns))


def renamed(schema: Schema, names: Sequence[str] | None) -> Schema:
    """The schema with other names of its columns, or none."""
    new_names = [None] * schema.n_columns if names is None else names
    pairs = zip(schema.columns, new_names, strict=True)
    return Schema(tuple(replace(column, name=name) for column, name in pairs))


# -- all columns --------------------------------------------------------------------------------


def column_means(blocks: Sequence[Block], n_columns: int) -> tuple[Float, Float]:
    """Means and variances of columns within components, of shape (r, n_columns) each.

    NaN where a component never sees the column, as in `column_covariances`.
    """
    tables = np.full((2, blocks[0].n_components, n_columns), np.nan)
    for block in blocks:
        variances = np.diagonal(block.covariances, axis1=1, axis2=2)
        values = np.where(block.is_never_seen, np.nan, [block.means, variances])
        tables[:, :, list(block.columns)] = values
    tables.setflags(write=False)
    return tables[0], tables[1]


def column_seen(blocks: Sequence[Block], n_columns: int) -> Float:
    """Probability that a cell is seen, of shape (r, n_columns); NaN where no cell is missing."""
    table = np.full((blocks[0].n_components, n_columns), np.nan)
    for block in blocks:
        table[:, list(block.columns)] = block.seen_table
    return table


def column_covariances(blocks: Sequence[Block], n_columns: int) -> Float:
    """Covariances of columns within components, of shape (r, n_columns, n_columns)."""
    table = np.zeros((blocks[0].n_components, n_columns, n_columns))
    for block in blocks:
        numbers = np.array(block.columns)
        table[:, numbers[:, None], numbers] = block.covariances
        has_none = np.isnan(block.means) | block.is_never_seen  # (r, k): levels, and never seen
        for matrix, columns in zip(table, has_none, strict=True):
            matrix[numbers[columns]] = matrix[:, numbers[columns]] = np.nan
    return table


# -- conditional mixtures -----------------------------------------------------------------------


def column_numbers(
    columns: Sequence[int | str], n_columns: int, names: Sequence[str] | None
) -> Int:
    """Numbers of columns that are given by number or name, each once."""
    d, numbers = n_columns, [int(feature_number(column, names)) for column in columns]
    if not numbers or min(numbers) < -d or max(numbers) >= d:
        raise InputError(f"features must be numbers in 0…{d - 1} or names; got {columns!r}.")
    found = np.array(numbers, dtype=np.int64) % d
    if np.unique(found).size < found.size:
        raise InputError(f"features must differ from each other; got {columns!r}.")
    return found


def blocks_given(
    mixture: Mixture, values: Mapping[int | str, Any]
) -> tuple[Float, tuple[Block, ...], Int]:
    """Weights and blocks of the columns of a row that have no values here, and their numbers."""
    try:
        row = {column: value for column, value in dict(values).items() if not is_missing(value)}
    except (TypeError, ValueError):
        raise InputTypeError(
            f"values must be cells by column, as {{'age': 31.0, 'plan': 'gold'}}; got {values!r}."
        ) from None
    d, cells = mixture.n_columns, list(row.values())
    if not row:
        return mixture.weights, mixture.blocks, np.arange(d)
    given = column_numbers(list(row), d, mixture.feature_names)
    others = np.setdiff1d(np.arange(d), given)
    if not others.size:
        raise InputError(
            f"all {d} columns are known, so that none is left. Leave out those that are to be "
            "predicted."
        )
    weights = mixture.select(given.tolist()).predict_proba([cells])[0]
    if not np.isfinite(weights).all():
        raise InputError(
            "the values of the known columns are not finite, or so far from all components that "
            "none is probable. Check them and their units."
        )
    by_number = dict(zip(given.tolist(), cells, strict=True))
    blocks = [block.given(by_number) for block in mixture.blocks]
    return weights / weights.sum(), selected(blocks, others), others

"""`GroupMeans`: the means of components in each group, where they may differ between groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import column_names
from momentmix.mixture.parameter_table import need_pandas
from momentmix.mixture.tables.block_features import Block
from momentmix.mixture.tables.family_blocks import CategoricalBlock
from momentmix.mixture.tables.seen_values import NEVER_SEEN
from momentmix.monitoring.shares.means.own_means import OwnMeans
from momentmix.tables.column import GAUSSIAN, Level
from momentmix.wording import short_number


@dataclass(frozen=True, repr=False)
class GroupMeans:
    """Means of components in groups, drawn to those of the model.

    Attributes
    ----------
    key_names : tuple of str
    keys : list of tuples
        One for each group.
    columns : tuple of str
        What has means that may differ between groups: columns of numbers and counts, and shares of
        levels, as ``plan=gold``, of all levels but the first. Where cells are missing, means and
        their errors are those of the cells that are seen.
    places : tuple of int
        Numbers of the columns of these means in the model.
    fixed : tuple of str
        Columns whose means stay the model's: those that do not vary.
    levels : tuple
        The level that a mean is the share of; None for numbers and counts.
    values, low, high : arrays of shape (n_groups, n_components, n_columns)
        Means, and the ends of their intervals; of a column with a transform, those of log(y) or
        log(1 + y). NaN for a group of no rows, and for a component that never sees the column.
    errors : array of shape (n_groups, n_components, n_columns)
        Standard errors.
    spreads : array of shape (n_columns,)
        How far the means of a component differ between groups: a standard deviation, in units of
        the standard deviation within the component. One standard error larger than its estimate.
    deviations : array of shape (n_components, n_columns)
        Standard deviations within the components of a group: smaller than those of a model of all
        groups, which have the differences between groups in them.
    """

    key_names: tuple[str, ...]
    keys: list[tuple[Any, ...]]
    columns: tuple[str, ...]
    values: Float
    low: Float
    high: Float
    errors: Float
    spreads: Float
    deviations: Float
    places: tuple[int, ...]
    fixed: tuple[str, ...] = ()
    levels: tuple[Level | None, ...] = ()

    def moved(self, model: Mixture, weights: Float, group: int) -> Mixture:
        """The model with the weights and means of one group, given by its number."""
        blocks = list[Block]()
        for block in model.blocks:
            own = [k for k, j in enumerate(self.places) if j in block.columns]
            values = self.values[group][:, own]
            if not own:
                blocks.append(block)
            elif isinstance(block, GaussianBlock):
                columns = [block.columns.index(self.places[k]) for k in own]
                means, matrices = block.means.copy(), block.covariances.copy()
                means[:, columns] = values
                matrices[:, columns, columns] = self.deviations[:, own] ** 2
                blocks.append(replace(block, means=means, covariances=matrices))
            elif isinstance(block, CategoricalBlock):
                table = np.hstack([1.0 - values.sum(axis=1, keepdims=True), values])
                table = np.maximum(table, 0.0)
                table /= table.sum(axis=1, keepdims=True)
                blocks.append(replace(block, probabilities=table))
            else:
                blocks.append(replace(block, **{block.parameter: values[:, 0]}))
        return Mixture.from_blocks(weights, blocks)

    def to_frame(self) -> Any:
        """One row for each group, component and column, as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            The keys; component, column, mean, low, high.
        """
        pd = need_pandas()
        _, r, n = self.values.shape
        columns: dict[str, Any] = {
            name: [key[i] for key in self.keys for _ in range(r * n)]
            for i, name in enumerate(self.key_names)
        }
        columns["component"] = np.tile(np.repeat(np.arange(r), n), len(self.keys))
        columns["column"] = list(self.columns) * (r * len(self.keys))
        tables = {"mean": self.values, "low": self.low, "high": self.high}
        return pd.DataFrame(columns | {name: table.ravel() for name, table in tables.items()})

    def value_name(self, model: Mixture, place: int) -> str:
        """What the means of a column are of: ``log amount`` where it has a transform."""
        return model.columns[self.places[place]].value_name(self.columns[place])

    def to_dict(self) -> dict[str, Any]:
        """What all groups have in common, for JSON."""
        return {"columns": list(self.columns), "spreads": self.spreads}

    def group_dict(self, group: int) -> dict[str, Any]:
        """Means of one group by component and column, for JSON."""
        tables = {"means": self.values, "means_low": self.low, "means_high": self.high}
        return {name: table[group] for name, table in tables.items()}

    def __repr__(self) -> str:
        return f"<GroupMeans of {len(self.keys)} groups: {', '.join(self.columns)}>"

    def differences(self, model: Mixture) -> str:
        """The columns whose means differ most, in words."""
        order = np.argsort(-self.spreads, kind="stable")[:3]
        names = [self.value_name(model, j) for j in order.tolist()]
        spreads = map(short_number, self.spreads[order])
        return ", ".join(f"{name} {spread}" for name, spread in zip(names, spreads, strict=True))


def group_means(own: OwnMeans, z: float) -> GroupMeans:
    """The means of all groups in the units of the columns; NaN for a group of no rows."""
    model, moved, groups = own.groups.model, own.moved, own.groups.groups
    schema, features = own.groups.schema, moved.values.features
    scale, center = model.scale[features], model.shift[features].copy()
    if schema is not None:
        center += [schema.columns[j].center for j in own.columns]
    facts = moved.values.facts(model.parameters)
    never = (facts.by_mean < NEVER_SEEN)[None]
    found = [group.moved for group in own.groups.found]
    unknown = np.full(facts.means.shape, np.nan)
    moves = np.array([unknown if group is None else group.moves for group in found])
    errors = np.array([unknown if group is None else group.errors for group in found]) * scale
    values = np.where(never, np.nan, center + scale * (facts.means + moves))
    errors = np.where(never, np.nan, errors)
    deviations = np.sqrt(np.maximum(moved.start.variances, 0.0)) * scale
    mixture = own.groups.tracked.mixture
    names, levels = column_names(mixture), _levels(own)
    least = [-np.inf if mixture.columns[j].family == GAUSSIAN else 0.0 for j in own.columns]
    most = [np.inf if level is None else 1.0 for level in levels]
    low, high = np.maximum(values - z * errors, least), np.minimum(values + z * errors, most)
    labels = zip((names[j] for j in own.columns), levels, strict=True)
    return GroupMeans(
        groups.key_names, groups.keys,
        tuple(name if level is None else f"{name}={level}" for name, level in labels),
        values, low, high, errors,
        np.sqrt(moved.spreads.between), np.where(never[0], np.nan, deviations),
        tuple(own.columns),
        tuple(name for j, name in enumerate(names) if j not in own.columns), levels,
    )  # fmt: skip


def _levels(own: OwnMeans) -> tuple[Level | None, ...]:
    """The level that each mean is the share of."""
    columns, schema = own.groups.tracked.mixture.columns, own.groups.schema
    found = list[Level | None]()
    for feature, j in zip(own.moved.values.features.tolist(), own.columns, strict=True):
        levels = columns[j].levels if schema is None else schema.columns[j].levels
        first = j if schema is None else schema.features_of(j)[0]
        found.append(levels[1 + feature - first] if levels else None)
    return tuple(found)

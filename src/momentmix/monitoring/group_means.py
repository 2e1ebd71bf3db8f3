"""`GroupMeans`: the means of components in each group, where they may differ between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.mixture.gaussian_block import GaussianBlock
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import column_names
from momentmix.mixture.parameter_table import need_pandas
from momentmix.mixture.tables.block_features import Block
from momentmix.mixture.tables.seen_values import NEVER_SEEN
from momentmix.monitoring.shares.means.own_means import OwnMeans
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
        Columns whose means may differ between groups: those of numbers. Where cells are missing,
        means and their errors are those of the cells that are seen.
    places : tuple of int
        Numbers of these columns in the model.
    fixed : tuple of str
        Columns whose means stay the model's: levels and counts, and joined columns with missing
        cells.
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

    def moved(self, model: Mixture, weights: Float, group: int) -> Mixture:
        """The model with the weights and means of one group, given by its number."""
        places = dict(zip(self.places, range(len(self.places)), strict=True))
        blocks = list[Block]()
        for block in model.blocks:
            if isinstance(block, GaussianBlock):
                means, matrices = block.means.copy(), block.covariances.copy()
                for k, j in enumerate(block.columns):
                    if j in places:
                        means[:, k] = self.values[group, :, places[j]]
                        matrices[:, k, k] = self.deviations[:, places[j]] ** 2
                block = replace(block, means=means, covariances=matrices)
            blocks.append(block)
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
        transform = model.columns[self.places[place]].transform
        return f"{transform} {self.columns[place]}" if transform else self.columns[place]

    def to_dict(self) -> dict[str, Any]:
        """What all groups have in common, for JSON."""
        return {"columns": list(self.columns), "spreads": self.spreads}

    def group_dict(self, group: int) -> dict[str, Any]:
        """Means of one group by component and column, for JSON."""
        tables = {"means": self.values, "means_low": self.low, "means_high": self.high}
        return {name: table[group] for name, table in tables.items()}

    def differences(self) -> str:
        """The columns whose means differ most, in words."""
        order = np.argsort(-self.spreads, kind="stable")[:3]
        return ", ".join(f"{self.columns[j]} {short_number(self.spreads[j])}" for j in order)


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
    names = column_names(own.groups.tracked.mixture)
    return GroupMeans(
        groups.key_names, groups.keys, _value_names(own, names),
        values, values - z * errors, values + z * errors, errors,
        np.sqrt(moved.spreads.between), np.where(never[0], np.nan, deviations),
        tuple(own.columns),
        tuple(name for j, name in enumerate(names) if j not in own.columns),
    )  # fmt: skip


def _value_names(own: OwnMeans, names: Sequence[str]) -> tuple[str, ...]:
    """Names of columns, with the level where a value is the share of one."""
    return tuple(names[j] for j in own.columns)

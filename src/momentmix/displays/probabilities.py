"""Probabilities of levels, and of cells being seen, as pictures and tables show them.

| what | rows | columns |
|---|---|---|
| a yes/no column | components | the second level |
| a column of categories | components | all levels |
| columns with missing cells | components | these columns |
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.fitting.inference.standard_errors import Intervals
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.overall import column_names
from momentmix.mixture.tables.block_features import column_seen


@dataclass(frozen=True)
class Probabilities:
    """Probabilities of one column, or of all columns being seen.

    Attributes
    ----------
    title : str
        Name of the column; empty for the probabilities of being seen.
    labels : list of str
        What the probabilities belong to.
    columns : list of int
        Number of the column of each label.
    values : array of shape (n_components, n_labels)
        NaN where a component never sees the column.
    low, high : arrays of the same shape, or None
        Ends of the 95 % intervals.
    """

    title: str
    labels: list[str]
    columns: list[int]
    values: Float
    low: Float | None = None
    high: Float | None = None

    def of_columns(self, columns: Collection[int]) -> Probabilities:
        """The part that belongs to some columns."""
        return self.at([i for i, column in enumerate(self.columns) if column in columns])

    def at(self, places: Sequence[int]) -> Probabilities:
        """The part of some labels."""
        low, high = (None if end is None else end[:, places] for end in (self.low, self.high))
        return Probabilities(
            self.title,
            [self.labels[i] for i in places],
            [self.columns[i] for i in places],
            self.values[:, places],
            low,
            high,
        )

    @property
    def full_labels(self) -> list[str]:
        """Labels that name the column as well."""
        if not self.title:
            return [f"{label} seen" for label in self.labels]
        return [self.title if x == "" else f"{self.title}={x}" for x in self.labels]


def level_probabilities(mixture: Mixture, ends: Intervals | None = None) -> list[Probabilities]:
    """Probabilities of the levels of each column, where it is seen."""
    names = column_names(mixture)
    found = []
    for number, column in enumerate(mixture.columns):
        if not column.levels:
            continue
        values = np.stack(list(mixture.level_probabilities(number).values()), axis=1)
        if column.model.second_level_only:
            labels, values = [_second_level(column.levels)], values[:, 1:]
            low, high = (None, None) if ends is None else (end[:, [number]] for end in ends.means)
        else:
            labels = [str(level) for level in column.levels]
            low, high = _level_ends(mixture, ends, number)
        columns = [number] * len(labels)
        found.append(Probabilities(names[number], labels, columns, values, low, high))
    return found


def _second_level(levels: tuple[Any, ...]) -> str:
    """Label of a yes/no column; none where 1 stands for yes."""
    return "" if levels == (0, 1) else str(levels[1])


def _level_ends(
    mixture: Mixture, ends: Intervals | None, number: int
) -> tuple[Float | None, Float | None]:
    """Ends of the intervals of a column's levels; files write numbers of columns as text."""
    levels: dict[Any, Any] = {} if ends is None or ends.levels is None else dict(ends.levels)
    names = mixture.feature_names
    key: Any = number if names is None else names[number]
    low, high = levels.get(key, levels.get(str(key), (None, None)))
    return low, high


def seen_probabilities(mixture: Mixture, ends: Intervals | None = None) -> Probabilities | None:
    """Probability that a cell of each column with missing cells is seen; None without any."""
    names = column_names(mixture)
    numbers = [j for j, column in enumerate(mixture.columns) if column.has_missing]
    if not numbers:
        return None
    low = high = None
    if ends is not None and ends.seen is not None:
        low, high = (end[:, numbers] for end in ends.seen)
    values = column_seen(mixture.blocks, mixture.n_columns)[:, numbers]
    return Probabilities("", [names[j] for j in numbers], numbers, values, low, high)


def all_probabilities(mixture: Mixture, ends: Intervals | None = None) -> list[Probabilities]:
    """Probabilities of levels, then of cells being seen."""
    seen = seen_probabilities(mixture, ends)
    return level_probabilities(mixture, ends) + ([] if seen is None else [seen])

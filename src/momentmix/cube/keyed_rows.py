"""Rows that bring their keys: the columns of the keys are read with those of the features."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from momentmix._typing import Float
from momentmix.cube.keys import KeyColumn
from momentmix.errors import InputError
from momentmix.rows.labels import Labels, Periods
from momentmix.rows.source import RowSource
from momentmix.rows.table import RawBlock

_HOURS = Periods("hour")


class KeyedRows(RowSource):
    """A source whose blocks have the numbers of the keys after the columns of the features.

    Parameters
    ----------
    source : RowSource
        The features.
    keys : sequence of KeyColumn
    """

    def __init__(self, source: RowSource, keys: Sequence[KeyColumn]) -> None:
        self.__dict__.update(source.__dict__)
        self.n_values, self.keys = source.n_features, list(keys)
        read = [key for key in keys if key.columns is not None]
        self.columns = [
            [*columns, *(key.columns[i] for key in read if key.columns is not None)]
            for i, columns in enumerate(source.columns)
        ]
        labels: dict[int, Labels] = dict(source.labels or {})
        for k, key in enumerate(read):
            if key.labels is not None:
                labels[self.n_values + k] = _HOURS if self._is_shared(key) else key.labels
        self.labels = labels

    def _is_shared(self, key: KeyColumn) -> bool:
        """Whether other keys are periods of the same column, which is read as one of hours then."""
        others = [x for x in self.keys if x.columns == key.columns and x.columns is not None]
        if len(others) > 1 and not all(isinstance(x.labels, Periods) for x in others):
            raise InputError(
                f"keys {', '.join(str(x.spec) for x in others)} are of one column of text; name "
                "one of them, or convert the column to dates."
            )
        return len(others) > 1

    def split(self, values: Float, table: int) -> tuple[Float, Float]:
        """Features of a block, and numbers of its keys, of shapes (n, n_values) and (n, n_keys)."""
        read = iter(values[:, self.n_values :].T)
        numbers = [
            np.full(len(values), float(table)) if key.columns is None else next(read)
            for key in self.keys
        ]
        for k, key in enumerate(self.keys):
            if isinstance(key.labels, Periods) and self._is_shared(key):
                numbers[k] = key.labels.of_hours(numbers[k])
            key.check(numbers[k])
        return values[:, : self.n_values], np.column_stack(numbers)

    def _kept(self, raw: RawBlock, table: int) -> Float:
        """The rows whose features the policy keeps, whatever their keys are."""
        features = RawBlock(np.ascontiguousarray(raw.values[:, : self.n_values]), raw.where)
        kept = super()._kept(features, table)
        return raw.values if len(kept) == len(raw.values) else raw.values[features.complete()]

"""Cells of files: the first rows, all rows in memory, or cells that stand for all rows.

Text is read as codes of labels. Where only the levels and the missing cells of a column matter, a
pass keeps a few cells that stand for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from momentmix._typing import Array, Float
from momentmix.errors import InputError
from momentmix.rows.labels import Labels
from momentmix.names import column_label
from momentmix.tables.rows import Rows
from momentmix.rows.source import RowSource
from momentmix.rows.table import NO_CELL, NUMBER, Kind
from momentmix.schema.building import LOOKED_AT, MOST_LEVELS
from momentmix.schema.cells import Cells, CellTable
from momentmix.tables.column import BERNOULLI, CATEGORICAL


def nulls_of(source: RowSource) -> tuple[str, ...]:
    """Texts that stand for a missing cell, in files of text."""
    return next((table.nulls for table in source.tables if table.nulls), ())


def no_cells(rows: Rows) -> CellTable:
    """Names without cells."""
    return CellTable([Cells(np.empty(0))] * rows.n_features, rows.feature_names)


def new_labels(source: RowSource, families: Mapping[int, Any], most: int) -> dict[int, Labels]:
    """Labels of the columns that are read as text, to be met."""
    labels = {}
    for j, kind in enumerate(source.kinds):
        family = families.get(j)
        asked = isinstance(family, Sequence | np.ndarray) and not isinstance(family, str)
        has_levels = asked or family in (None, BERNOULLI, CATEGORICAL)
        is_open = kind.kind == "mixed" or kind == NO_CELL  # its first cells do not tell
        listed_text = asked and any(isinstance(level, str) for level in family or ())
        if kind.is_text and not has_levels:
            raise InputError(
                f"a {family} column must hold numbers; {column_label(j, source.feature_names)} "
                f"holds {kind.type}. Convert it, or take it as 'categorical' in families."
            )
        if kind.kind == "bool" and kind.is_text and not listed_text:
            labels[j] = Labels((False, True))
        elif kind.is_text or (
            nulls_of(source) and (listed_text or (is_open and family in (BERNOULLI, CATEGORICAL)))
        ):
            labels[j] = Labels(most=most)
    return labels


def cells_of(values: Float, source: RowSource, labels: Mapping[int, Labels]) -> CellTable:
    """Numbers and codes of labels as cells."""
    columns = []
    for j, kind in enumerate(source.kinds):
        known = labels.get(j)
        if known is None or known.are_bools:
            columns.append(Cells(values[:, j], are_bools=kind.kind == "bool"))
        else:
            codes = np.where(np.isnan(values[:, j]), -1, values[:, j]).astype(np.int64)
            columns.append(Cells(codes, known.names, kind.order))
    return CellTable(columns, source.feature_names)


def met_rows(rows: Rows, families: Mapping[int, Any], labels: Mapping[int, Labels]) -> CellTable:
    """Cells that stand for all rows, from a pass: all levels, missing cells, some numbers."""
    columns = [
        _MetTexts() if j in labels and not labels[j].are_bools else _MetNumbers(families.get(j))
        for j in range(rows.n_features)
    ]
    n_rows = 0
    for block in rows.blocks():
        n_rows += len(block)
        for j, column in enumerate(columns):
            column.meet(block[:, j])
    if not n_rows:
        raise InputError("rows must hold at least one row; the source gave none.")
    kinds = rows.kinds if isinstance(rows, RowSource) else [NUMBER] * rows.n_features
    cells = [column.cells(labels.get(j), kinds[j]) for j, column in enumerate(columns)]
    return CellTable(cells, rows.feature_names)


def met_levels(
    source: RowSource, families: Mapping[int, Any], labels: Mapping[int, Labels], counted: bool
) -> CellTable:
    """The same where only levels matter: other columns are not read.

    Labels are counted where that is asked for, else only numbered.
    """
    kinds = (BERNOULLI, CATEGORICAL)
    texts = {} if counted else {j: x for j, x in labels.items() if not x.are_bools}
    cells = [Cells(np.zeros(1))] * source.n_features
    if texts:
        source.meet_labels(texts)
        for j, known in texts.items():
            cells[j] = Cells(np.arange(len(known.names)), known.names, source.kinds[j].order)
    read = [j for j in range(source.n_features) if j in labels or families.get(j) in kinds]
    read = [j for j in read if j not in texts]
    if read:
        part = source.selected(read)
        known_labels = {k: labels[j] for k, j in enumerate(read) if j in labels}
        chosen = {k: families.get(j) for k, j in enumerate(read)}
        met = met_rows(part.with_labels(known_labels), chosen, known_labels)
        for k, j in enumerate(read):
            cells[j] = met.columns[k]
    return CellTable(cells, source.feature_names)


class _MetTexts:
    """How often each label of a column of text occurs."""

    def __init__(self) -> None:
        self.counts, self.has_missing = np.zeros(0, dtype=np.int64), False

    def meet(self, codes: Array) -> None:
        seen = codes[~np.isnan(codes)].astype(np.int64)
        self.has_missing = self.has_missing or len(seen) < len(codes)
        counts = np.bincount(seen, minlength=len(self.counts))
        counts[: len(self.counts)] += self.counts
        self.counts = counts

    def cells(self, labels: Labels | None, kind: Kind) -> Cells:
        assert labels is not None
        values = np.append(np.arange(len(self.counts)), [-1] * self.has_missing)
        return Cells(values.astype(np.int64), labels.names, kind.order, counts=self.counts)


class _MetNumbers:
    """Cells that stand for a column of numbers: all its levels, or some, and a missing one."""

    def __init__(self, family: Any) -> None:
        self.has_levels = family in (BERNOULLI, CATEGORICAL) if isinstance(family, str) else False
        self.has_missing, self.values = False, np.empty(0)

    def meet(self, numbers: Array) -> None:
        seen = numbers[~np.isnan(numbers)]
        self.has_missing = self.has_missing or len(seen) < len(numbers)
        if self.has_levels and len(self.values) <= MOST_LEVELS:
            self.values = np.union1d(self.values, seen)
        elif not self.has_levels and len(self.values) < LOOKED_AT:
            self.values = np.append(self.values, seen[: LOOKED_AT - len(self.values)])

    def cells(self, labels: Labels | None, kind: Kind) -> Cells:
        values = np.append(self.values, [np.nan] * self.has_missing)
        return Cells(values, are_bools=kind.kind == "bool")

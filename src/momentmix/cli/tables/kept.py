"""Columns of the input that are copied to the output, as they are, beside what a model says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from momentmix._typing import Float
from momentmix.cli.tables.writer import column_writer, table_writer
from momentmix.errors import InputError
from momentmix.rows.columns import choose_columns, feature_names, match_columns
from momentmix.rows.source import RowSource

Columns = list[Any]  # of one block, each with the same number of rows
Answers = Iterable[tuple[int, Float]]


class KeptColumns:
    """Columns of the tables of a source, read a second time in step with answers for its rows.

    Parameters
    ----------
    source : RowSource
        Of files.
    keep : sequence of str or int
        Names or numbers; none to copy nothing.
    answers : sequence of str
        Names of the columns beside them, which must differ from theirs.

    Attributes
    ----------
    names : tuple of str
    kinds : list
        As `Table.kept_kinds` gives them; "text" where tables differ.
    """

    def __init__(
        self, source: RowSource, keep: Sequence[str | int] | None, answers: Sequence[str]
    ) -> None:
        self._source, self._numbers = source, list[list[int]]()
        self.names, self.kinds = tuple[str, ...](), list[Any]()
        if keep is None:
            return
        first, *others = source.tables
        numbers = choose_columns(first, keep)
        matched = [match_columns(first, numbers, table, False) for table in others]
        self._numbers = [numbers, *matched]
        self.names = feature_names(first, numbers) or tuple(f"column_{i}" for i in numbers)
        kinds = [t.kept_kinds(n) for t, n in zip(source.tables, self._numbers, strict=True)]
        same = zip(*kinds, strict=True)
        self.kinds = [each[0] if len(set(each)) == 1 else "text" for each in same]
        twice = [name for name, n in Counter([*self.names, *answers]).items() if n > 1]
        if twice:
            raise InputError(
                f"the output has a column {twice[0]!a} of its own; rename that of the input, or "
                "do not keep it."
            )

    def write(
        self, path: str, names: Sequence[str], kinds: Sequence[str], answers: Answers
    ) -> None:
        """Write the kept columns, and the answers beside them, to a table.

        Parameters
        ----------
        path : str
            As for `table_writer`.
        names, kinds : sequence of str
            Of the answers; integers first.
        answers : iterable of (int, array of shape (n_rows, n_answers))
            Number of a table, and answers for its next rows.
        """
        if not self.names and "bool" not in kinds:
            with table_writer(path, names, list(kinds).count("integer")) as write_numbers:
                for _, answer in answers:
                    write_numbers(answer)
            return
        with column_writer(path, [*self.names, *names], [*self.kinds, *kinds]) as write:
            for columns in self._beside(answers):
                write(columns)

    def _beside(self, answers: Answers) -> Iterator[Columns]:
        if not self.names:
            yield from (list(answer.T) for _, answer in answers)
            return
        for number, group in groupby(answers, key=itemgetter(0)):
            table = self._source.tables[number]
            cells = table.cells(self._numbers[number], self._source.block_rows)
            yield from _in_step(cells, (list(answer.T) for _, answer in group), table.name)


def _in_step(cells: Iterator[Columns], answers: Iterator[Columns], name: str) -> Iterator[Columns]:
    """Columns of two streams of blocks side by side, cut where a block of either ends."""
    block: Columns = [()]
    used = 0
    for answer in answers:
        start, n_rows = 0, len(answer[0])
        while start < n_rows:
            while used == len(block[0]):
                block, used = next(cells, []), 0
                if not block:
                    raise _out_of_step(name)
            count = min(n_rows - start, len(block[0]) - used)
            left = [column[used : used + count] for column in block]
            yield left + [column[start : start + count] for column in answer]
            start, used = start + count, used + count
    if used < len(block[0]) or any(len(rest[0]) for rest in cells):
        raise _out_of_step(name)


def _out_of_step(name: str) -> InputError:
    return InputError(
        f"{name} has another number of rows where --keep reads it than where the model does. "
        "Remove blank lines, or write it as Parquet."
    )

"""Columns of the input that are copied to the output, as they are, beside what a model says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from momentmix._typing import Float
from momentmix.cli.tables.writer import column_writer, table_writer
from momentmix.errors import InputError
from momentmix.tables.selection import choose_columns, feature_names, match_columns
from momentmix.tables.source import ArrowSource, Source
from momentmix.tables.table_rows import TableRows

Pieces = list[list[Any]]  # of each column that is kept, as of `Block.others`
Answers = Iterable[tuple[Pieces, Float]]


class KeptColumns:
    """Columns that are read beside those of a model.

    Parameters
    ----------
    rows : TableRows
    keep : sequence of str or int
        Names or numbers; none to copy nothing.
    answers : sequence of str
        Names of the columns beside them, which must differ from theirs.

    Attributes
    ----------
    numbers : list of lists of int
        Of the columns in each source.
    names : tuple of str
    kinds : list
        "number", "text", or a type of Arrow; "text" where sources differ.
    """

    def __init__(
        self, rows: TableRows, keep: Sequence[str | int] | None, answers: Sequence[str]
    ) -> None:
        self.numbers, self.names = list[list[int]](), tuple[str, ...]()
        self.kinds = list[Any]()
        if keep is None:
            return
        first, *others = rows.sources
        numbers = choose_columns(first, keep)
        self.numbers = [numbers, *(match_columns(first, numbers, x, False) for x in others)]
        self.names = feature_names(first, numbers) or tuple(f"column_{i}" for i in numbers)
        for places in zip(*self.numbers, strict=True):
            kinds = {_kind(source, i) for source, i in zip(rows.sources, places, strict=True)}
            self.kinds.append(kinds.pop() if len(kinds) == 1 else "text")
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
        answers : iterable of (list, array of shape (n_rows, n_answers))
            Kept columns of some rows, and the answers for them.
        """
        if not self.names and "bool" not in kinds:
            with table_writer(path, names, list(kinds).count("integer")) as write_numbers:
                for _, answer in answers:
                    write_numbers(answer)
            return
        with column_writer(path, [*self.names, *names], [*self.kinds, *kinds]) as write:
            for pieces, answer in answers:
                write([*map(_joined, pieces, self.kinds), *answer.T])


def _kind(source: Source, column: int) -> Any:
    """What a column is copied as; one that is nested or bytes is an error."""
    if not isinstance(source, ArrowSource):
        return "text" if source.nulls else "number"
    from pyarrow import types

    kind = source.schema.field(column).type
    value = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_nested(value) or "binary" in str(value) or "extension" in str(value):
        raise InputError(
            f"{source.name}: columns to keep must hold text, numbers, dates or yes/no; "
            f"{source.schema.names[column]!a} is {kind}. Keep others, or convert it."
        )
    return kind


def _joined(pieces: list[Any], kind: Any) -> Any:
    """Pieces of a column as one; text of Parquet is read as dictionaries, whatever its type."""
    if isinstance(pieces[0], np.ndarray):
        return np.concatenate(pieces)
    from pyarrow import chunked_array

    type_ = "string" if isinstance(kind, str) else kind
    return chunked_array([x if x.type == type_ else x.cast(type_) for x in pieces])

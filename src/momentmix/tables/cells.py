"""Tables in memory, of whatever kind → columns of cells: numbers, or codes of labels.

No data-frame library is imported; pandas, polars and Arrow are recognized by their attributes, and
are used to number the labels where they are loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array
from momentmix.errors import InputError, InputTypeError
from momentmix.parallel import map_in_order, usable_cores
from momentmix.arrays import check_real, is_foreign, to_numpy
from momentmix.rows.columns import ALL_COLUMNS, Selection
from momentmix.rows.containers import (
    checked_column,
    column_array,
    float64_of,
    frame_column,
    frame_labels,
    frame_names,
    is_frame,
    is_missing,
    plain_array,
    warn_integers,
)
from momentmix.names import check_feature_names, match_names, names_for
from momentmix.tables.validation import as_rows, check_shape, is_dask
from momentmix.tables.column import plain_level

_TIME_TYPES = ("date", "time", "duration", "period", "interval")  # of pandas, polars and Arrow
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_NUMBERS = (Real, Decimal, np.bool_)
_MANY_ROWS = 1 << 16  # whose text is worth a thread for each column
_MISSING = -1  # the code of a missing cell


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one column: numbers, or codes of labels.

    Attributes
    ----------
    values : array of shape (n_rows,)
        Real numbers, NaN where one is missing; or codes, −1 where a label is missing.
    labels : tuple, or None
        What the codes stand for; None for numbers.
    order : {"", "declared", "ordered"}
        Whether the labels are the categories of the column's type, and whether that orders them.
    are_bools : bool
        Whether the numbers were True and False.
    is_complete : bool
        Whether it is known that no cell is missing.
    problem : MomentmixError or None
        Why the column can be no feature; its values are then NaN.
    are_dates : bool
        Whether that is because it holds dates or times.
    counts : array of shape (n_labels,), or None
        How often each label occurs, where the values stand for more rows.
    """

    values: Array
    labels: tuple[Any, ...] | None = None
    order: str = ""
    are_bools: bool = False
    is_complete: bool = False
    problem: InputError | InputTypeError | None = None
    are_dates: bool = False
    counts: Array | None = None

    @property
    def label_counts(self) -> Array:
        """How often each label occurs."""
        if self.counts is not None:
            return np.pad(self.counts, (0, len(self.labels or ()) - len(self.counts)))
        seen = self.values[self.values >= 0].astype(np.int64)
        return np.bincount(seen, minlength=len(self.labels or ()))

    @property
    def is_number(self) -> bool:
        """Whether the cells are numbers, or True and False."""
        return self.labels is None and self.problem is None

    def missing(self) -> NDArray[np.bool_]:
        """Which cells are missing."""
        if self.labels is not None:
            return np.asarray(self.values == _MISSING)
        if self.is_complete or self.values.dtype.kind != "f":
            return np.zeros(len(self.values), dtype=bool)
        return np.isnan(self.values)

    def text(self, row: int) -> str:
        """A cell as messages print it."""
        if self.labels is None:
            return f"{self.values[row]:.17g}"
        return ascii(self.labels[int(self.values[row])])


@dataclass(frozen=True, eq=False)
class CellTable:
    """The columns of a table, and their names where they have any."""

    columns: list[Cells]
    names: tuple[str, ...] | None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns[0].values)

    def selected(self, columns: Sequence[int]) -> CellTable:
        """Some of the columns."""
        names = None if self.names is None else tuple(self.names[i] for i in columns)
        return CellTable([self.columns[i] for i in columns], names)


def read_cells(
    rows: Any,
    expected: Sequence[str] | None,
    n_columns: int | None,
    owner: str = "the schema",
    chosen: Selection = ALL_COLUMNS,
) -> CellTable:
    """A table in memory as columns of cells.

    Parameters
    ----------
    rows : array, data frame, Arrow table, list of rows, or dict of columns
    expected : sequence of str or None
        Names of the columns; those of frames and dicts are taken in this order, and no others.
    n_columns : int or None
        Number of columns that there must be.
    owner : str
        Whose columns are expected, for messages.
    chosen : Selection
        Columns to take where none are expected.
    """
    is_sparse = hasattr(rows, "toarray") and hasattr(rows, "nnz")  # some of these are mappings
    if is_sparse or is_dask(rows):
        as_rows(rows, None)  # raises, with the cure
    if isinstance(rows, Mapping) or is_frame(rows):
        table = _named(rows, expected, n_columns, owner, chosen)
    else:
        table = CellTable(_of_array(rows), None)
        if expected is None and n_columns is None:
            table = table.selected(chosen.numbers("the array", None, len(table.columns)))
    if chosen.numeric_only:
        table = table.selected(_numeric(table))
    _check_table(table, n_columns)
    return table


def _check_table(table: CellTable, n_columns: int | None) -> None:
    if n_columns is not None and len(table.columns) != n_columns:
        raise InputError(
            f"rows must have {n_columns} columns; got {len(table.columns)}. Select the columns."
        )
    lengths = {len(cells.values) for cells in table.columns}
    if len(lengths) > 1:
        raise InputError(f"columns must have equal lengths; got {sorted(lengths)} rows.")
    if not table.n_rows:
        raise InputError("rows must hold at least one row; got none. Skip empty blocks.")


# -- tables → columns -------------------------------------------------------------------------


def _numeric(table: CellTable) -> list[int]:
    """Numbers of the columns that hold numbers, or true and false."""
    numbers = [i for i, cells in enumerate(table.columns) if cells.is_number]
    if not numbers:
        raise InputError("the table has no column of numbers; leave out numeric_only.")
    return numbers


def _named(
    rows: Any,
    expected: Sequence[str] | None,
    n_columns: int | None,
    owner: str,
    chosen: Selection,
) -> CellTable:
    """The columns of a frame or dict, in the order of the expected names."""
    if isinstance(rows, Mapping):
        names: tuple[str, ...] | None = tuple(str(key) for key in rows)
        columns = list(rows.values())
        _check_lists(rows)
    else:
        names = frame_names(rows, expected)
        columns = [frame_column(rows, i) for i in range(len(frame_labels(rows)))]
    if not columns:
        raise InputError("rows must have at least one column; got none.")
    order = list(range(len(columns)))
    if expected is None and n_columns is None and not chosen.is_all:
        order = chosen.numbers("the table", names, len(columns))
        columns = [columns[i] for i in order]
        names = None if names is None else tuple(names[i] for i in order)
        order = list(range(len(columns)))
    if names is not None:
        check_feature_names(names)
        if expected is None and n_columns is not None:
            expected = names_for(None, names)
        if expected is not None:
            order, names = match_names(expected, names, owner, others=True), tuple(expected)
    labels = [
        f"column {i}" if names is None else f"column {names[k]!a}" for k, i in enumerate(order)
    ]
    read = _of_column if expected is not None else _read_or_problem
    is_long = hasattr(columns[0], "__len__") and len(columns[0]) > _MANY_ROWS
    n_threads = usable_cores() if is_long else 1  # text is numbered
    pairs = [(columns[i], label) for i, label in zip(order, labels, strict=True)]
    return CellTable(list(map_in_order(lambda pair: read(*pair), pairs, n_threads)), names)


def _check_lists(columns: Mapping[Any, Any]) -> None:
    """Raise unless the columns of a dict are arrays, lists or the like."""
    for name, column in columns.items():
        has_cells = hasattr(column, "__len__") and getattr(column, "shape", None) != ()
        if isinstance(column, str | bytes) or not has_cells:
            raise InputTypeError(
                "the columns of a dict must be lists, arrays or series of one cell for each row; "
                f"column {str(name)!a} is {type(column).__name__}. Put its cells in a list."
            )


def _read_or_problem(column: Any, label: str) -> Cells:
    """A column, also one that can be no feature."""
    try:
        return _of_column(column, label)
    except (InputError, InputTypeError) as error:
        cure = f"{error} Or leave it out: exclude= (--exclude)."
        return Cells(
            np.full(len(column), np.nan),
            problem=type(error)(cure),
            are_dates=_holds_dates(column),
        )


def _holds_dates(column: Any) -> bool:
    """Whether a column of any library holds dates, times or spans of time."""
    dtype = getattr(column, "dtype", getattr(column, "type", None))
    dtype = getattr(dtype, "value_type", dtype)  # of Arrow's dictionaries
    if getattr(dtype, "kind", "") in tuple("Mm"):
        return True
    if str(dtype).lower().startswith(_TIME_TYPES):
        return True
    seen = (value for value in column if not is_missing(value))
    return isinstance(next(seen, None), _TIMES)


def _of_array(rows: Any) -> list[Cells]:
    """The columns of an array, or of a list of rows."""
    array = _array(rows)
    if array.dtype.kind in "fiub":
        warn_integers(array)
    elif array.dtype.kind not in "OU":
        check_real(array)  # raises, with the cure
    check_shape(array, None)
    if array.dtype.kind != "f":
        return [_of_values(array[:, j], f"column {j}") for j in range(array.shape[1])]
    with np.errstate(all="ignore"):
        sums = array.sum(axis=0)  # one quick pass: NaN comes through
    complete = (~np.isnan(sums)).tolist()
    return [Cells(array[:, j], is_complete=full) for j, full in enumerate(complete)]


def _array(rows: Any) -> Array:
    if is_foreign(rows):
        rows = to_numpy(rows)
    try:
        array = plain_array(rows)
        if array.dtype.kind in "US" and not isinstance(rows, np.ndarray):
            array = np.array(rows, dtype=object)  # numbers beside text stay numbers
    except ValueError as error:
        raise InputError(f"rows must form a rectangular array: {error}.") from error
    return array


def _of_column(column: Any, label: str) -> Cells:
    """A column of a frame or dict."""
    if not hasattr(column, "dtype") and hasattr(column, "type") and hasattr(column, "null_count"):
        return _of_arrow(column, label)
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(column, "cat") and hasattr(dtype, "categories") and hasattr(dtype, "ordered"):
        order = "ordered" if dtype.ordered else "declared"  # pandas
        return _categories(column.cat.codes.to_numpy(), dtype.categories.tolist(), order, label)
    if hasattr(column, "factorize") and str(dtype).startswith("str"):
        codes, labels = column.factorize()
        return _coded(codes, labels.tolist())
    if hasattr(column, "to_physical"):  # polars
        return _of_polars(column, label)
    if hasattr(column, "to_numpy"):
        if getattr(dtype, "kind", "O") in "fiub":
            warn_integers(column, f"{label} holds")
            array = column_array(column)
            return Cells(array, are_bools=dtype is not None and dtype.kind == "b")
        return _of_values(column.to_numpy(), label)
    array = plain_array(column)
    if array.dtype.kind in "US" and not isinstance(column, np.ndarray):
        array = np.array(column, dtype=object)
    return _of_values(array, label)


def _of_polars(column: Any, label: str) -> Cells:
    kind = type(column.dtype).__name__ if not isinstance(column.dtype, type) else str(column.dtype)
    if kind in ("Enum", "Categorical"):
        cells = _of_values(column.cast(str).to_numpy(), label)
        if kind == "Categorical":
            return replace(cells, order="declared")
        declared = column.dtype.categories.to_list()
        places = {name: i for i, name in enumerate(declared)}
        new = np.array([*(places[name] for name in cells.labels or ()), _MISSING])
        return _coded(new[cells.values], declared, "ordered")
    warn_integers(column, f"{label} holds")
    if kind == "Boolean":
        numbers = column.cast(int).to_numpy()
        return Cells(numbers, are_bools=True)
    if kind.endswith("Int128"):  # NumPy has none
        column = column.cast(float)
    return _of_values(column.to_numpy(), label)


def _of_arrow(column: Any, label: str) -> Cells:
    from pyarrow import types

    column = checked_column(column, label)
    if types.is_dictionary(column.type):
        order = "ordered" if column.type.ordered else "declared"
        return _of_dictionaries(column, order, label)
    if types.is_string(column.type) or types.is_large_string(column.type):
        whole = column.combine_chunks() if hasattr(column, "chunks") else column
        return _of_dictionaries(whole.dictionary_encode(), "", label)
    warn_integers(column, f"{label} holds")
    if types.is_boolean(column.type):
        return Cells(_of_values(column_array(column), label).values, are_bools=True)
    return _of_values(column_array(column), label)


def _of_dictionaries(column: Any, order: str, label: str) -> Cells:
    """A column whose chunks have dictionaries, which may differ, repeat labels and hold nulls."""
    labels: dict[Any, int] = {}
    codes = [np.empty(0, dtype=np.int64)]
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        known = [
            _MISSING if entry is None else labels.setdefault(entry, len(labels))
            for entry in chunk.dictionary.to_pylist()
        ]
        places = chunk.indices.cast("int64").fill_null(_MISSING).to_numpy(zero_copy_only=False)
        codes.append(np.array([*known, _MISSING])[places])
    return _categories(np.concatenate(codes), list(labels), order, label)


# -- arrays → cells ---------------------------------------------------------------------------


def _coded(codes: Any, labels: Sequence[Any], order: str = "") -> Cells:
    return Cells(np.asarray(codes, dtype=np.int64), tuple(map(plain_level, labels)), order)


def _categories(codes: Any, labels: Sequence[Any], order: str, label: str) -> Cells:
    """Codes of categories; intervals, as of ``pandas.cut``, are told by their text."""
    if labels and isinstance(labels[0], _TIMES):
        raise InputTypeError(
            f"categories must be text or numbers; those of {label} are dates or times. Write them "
            "as text."
        )
    if labels and all(hasattr(name, "left") and hasattr(name, "right") for name in labels):
        labels = [str(name) for name in labels]
    return _coded(codes, labels, order)


def _of_values(array: Array, label: str) -> Cells:
    """An array of one dimension."""
    if array.ndim != 1:
        raise InputError(f"columns must have one dimension; {label} has shape {array.shape}.")
    if array.dtype.kind in "fiub":
        return Cells(array, are_bools=array.dtype.kind == "b")
    if array.dtype.kind == "U":
        return _numbered(array.astype(object), np.zeros(len(array), dtype=bool))
    if array.dtype.kind != "O":
        check_real(array, label)  # raises, with the cure
    missing = _missing_objects(array)
    present = array[~missing]
    kinds = {type(value) for value in present}
    if all(issubclass(kind, _NUMBERS) for kind in kinds):
        numbers = np.full(len(array), np.nan)
        numbers[~missing] = float64_of(present, label)
        warn_integers(array, f"{label} holds")
        return Cells(numbers, are_bools=bool(kinds) and kinds <= {bool, np.bool_})
    if all(issubclass(kind, str) for kind in kinds):
        return _numbered(array, missing)
    raise _mixed(array, missing, label)


def _mixed(array: Array, missing: NDArray[np.bool_], label: str) -> InputTypeError:
    """The error for a column of objects that are neither all numbers nor all text."""
    kinds = _NUMBERS if isinstance(array[~missing][0], _NUMBERS) else (str,)
    row = next(i for i in np.flatnonzero(~missing).tolist() if not isinstance(array[i], kinds))
    return InputTypeError(
        f"a column must hold numbers, or text; row {row}, {label}, holds {array[row]!a} "
        f"({type(array[row]).__name__}). Convert the column to one type."
    )


def _missing_objects(array: Array) -> NDArray[np.bool_]:
    """Which objects are None, NaN, NaT or NA."""
    if "pandas" in sys.modules:
        return np.asarray(sys.modules["pandas"].isna(array))
    return np.array([value is None or bool(value != value) for value in array], dtype=bool)


def _numbered(array: Array, missing: NDArray[np.bool_]) -> Cells:
    """Codes of text."""
    if "pandas" in sys.modules:
        codes, labels = sys.modules["pandas"].factorize(array)
        return _coded(np.where(missing, _MISSING, codes), [str(label) for label in labels])
    codes = np.full(len(array), _MISSING, dtype=np.int64)
    found, codes[~missing] = np.unique(array[~missing], return_inverse=True)
    return _coded(codes, [str(label) for label in found])

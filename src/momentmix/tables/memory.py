"""Tables in memory: data frames, dicts of columns, arrays and lists of rows.

Numbers are cast to float64 block by block later, so that a large float32 or memory-mapped array is
never copied as a whole. Tensors of torch stay on their device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix import arrays
from momentmix._typing import Array, Float
from momentmix.errors import InputError, InputTypeError
from momentmix.tables.columns import (
    Kind,
    codes_of,
    column_of,
    is_labeled,
    kind_of,
    numbers_of,
    plain_polars,
    warn_integers,
)
from momentmix.tables.names import check_feature_names, column_label, match_names, names_for
from momentmix.tables.source import Batch, Columns, Source
from momentmix.tables.validation import check_shape

Names = tuple[str, ...] | None


def is_frame(data: Any) -> bool:
    """Whether `data` is a table with labeled columns (pandas, polars, Arrow)."""
    is_arrow = hasattr(data, "column_names") and hasattr(data, "column")
    return is_arrow or (hasattr(data, "columns") and hasattr(data, "to_numpy"))


def frame_labels(frame: Any) -> list[Any]:
    """Labels of the columns, of whatever type."""
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def frame_names(frame: Any, expected: Sequence[str] | None = None) -> Names:
    """Labels as strings; None for 0, 1, 2, …, which are no names unless these are `expected`."""
    labels = frame_labels(frame)
    names = tuple(map(str, labels))
    if labels == list(range(len(labels))) and set(names) != set(expected or ()):
        return None
    return names


def refuse_dask(rows: Any) -> None:
    """Raise where rows are a Dask collection."""
    if hasattr(rows, "__dask_graph__"):
        raise InputTypeError(
            f"rows must be in this process; got a Dask collection ({type(rows).__name__}), which "
            "would be computed as a whole, in memory. Use momentmix.dask: fit_summary(momentmix."
            "dask.summarize(X)) with an estimator, else its summarize, fit and predict; or pass "
            "rows.compute()."
        )


class MemoryTable(Source):
    """A frame, a dict of columns, an array or a list of rows; its columns are converted once."""

    in_memory = True
    _array: Array | None = None  # rows that are one array

    def __init__(
        self, data: Any, name: str | None = None, expected: Sequence[str] | None = None
    ) -> None:
        refuse_dask(data)
        if hasattr(data, "toarray") and hasattr(data, "nnz"):
            raise InputTypeError(
                f"rows must be dense; got a sparse {type(data).__name__}. Pass blocks of rows as "
                "rows.toarray()."
            )
        if isinstance(data, Mapping):
            self.column_names = tuple(map(str, data))
            self._columns = [_checked_list(*item) for item in data.items()]
        elif is_frame(data):
            self.column_names = frame_names(data, expected)
            self._columns = _columns_of_frame(data)
        else:
            self._array = _array_of(data)
            self._columns = list(self._array.T)
        self._is_named = name is not None
        self.name = name or ("the array" if self.column_names is None else "the table")
        self.n_columns = len(self._columns)
        if not self._columns:
            raise InputError(f"rows must have at least one column; {self.name} has none.")
        lengths = sorted({len(column) for column in self._columns})
        if len(lengths) > 1:
            raise InputError(f"columns must have equal lengths; got {lengths} rows.")
        self.n_rows = lengths[0]
        self._converted = dict[int, tuple[Any, Kind]]()

    def _column(self, i: int) -> tuple[Any, Kind]:
        """A column in one of the two forms, or the error why it has none; its content."""
        if i not in self._converted:
            try:
                values = column_of(self._columns[i], self.label(i))
                kind = kind_of(values)
                is_plain = kind.kind == "text" and not kind.order
                values = values.dictionary_encode() if is_plain else values
            except (InputError, InputTypeError) as error:
                values, kind = error, Kind("other", "objects")
            dtype = getattr(self._columns[i], "dtype", kind.type)
            self._converted[i] = values, kind._replace(type=str(dtype))
        return self._converted[i]

    def place(self, row: int, column: int) -> str:
        if self._is_named:
            return super().place(row, column)
        return f"row {row}, {column_label(column, self.column_names)}"  # its name is no news

    def kind(self, column: int) -> Kind:
        return self._column(column)[1]

    def problem(self, column: int) -> Exception | None:
        values = self._column(column)[0]
        return values if isinstance(values, Exception) else None

    def cells(self, column: int) -> Any:
        """A column in one of the two forms."""
        if error := self.problem(column):
            raise error
        return self._column(column)[0]

    def batches(
        self, columns: Columns, as_text: Columns = (), others: Columns = ()
    ) -> Iterator[Batch]:
        """All rows at once."""
        array, wanted = self._array, [*columns, *others]
        if array is None or array.dtype.kind == "O":
            yield 0, list(map(self.cells, wanted))
        else:
            yield 0, (array if wanted == list(range(self.n_columns)) else array[:, wanted]).T

    def numbers(self, i: int) -> Float:
        """A column as float64; it must be real numbers."""
        values, kind = self.cells(i), self.kind(i)
        texts = is_labeled(values) and any(isinstance(x, str) for x in codes_of(values)[1])
        if texts or kind.kind in ("date", "other"):
            raise InputTypeError(
                f"rows must be real numbers; {self.label(i)} holds text or other objects "
                f"({kind.type}). Leave it out, convert it, or use MomentMixture, which takes text "
                "as categories."
            )
        return numbers_of(values).astype(np.float64, copy=False)


def _checked_list(name: object, column: Any) -> Any:
    """A column of a dict: an array, a list or the like."""
    has_cells = hasattr(column, "__len__") and getattr(column, "shape", None) != ()
    if isinstance(column, str | bytes) or not has_cells:
        raise InputTypeError(
            "the columns of a dict must be lists, arrays or series of one cell for each row; "
            f"column {str(name)!a} is {type(column).__name__}. Put its cells in a list."
        )
    return column


def _columns_of_frame(frame: Any) -> list[Any]:
    if hasattr(frame, "iloc"):
        return [frame.iloc[:, i] for i in range(frame.shape[1])]
    import pyarrow

    columns = pyarrow.table(plain_polars(frame)).columns
    types = map(str, getattr(frame, "dtypes", [""] * len(columns)))
    return [
        x.dictionary_encode() if kind.startswith("Categorical") else x
        for x, kind in zip(columns, types, strict=True)
    ]


def _array_of(rows: Any) -> Array:
    """Rows that are an array or a list as an array of numbers or objects."""
    array = arrays.plain_array(arrays.to_numpy(rows) if arrays.is_tensor(rows) else rows)
    if array.dtype.kind in "US" and not isinstance(rows, np.ndarray):
        array = np.array(rows, dtype=object)  # numbers beside text stay numbers
    if array.dtype.kind not in "fiubOU":
        arrays.check_real(array)  # raises, with the cure
    check_shape(array, None)
    return array if array.dtype.kind in "fiubO" else array.astype(object)


# -- rows of numbers -------------------------------------------------------------------------------


def _numeric(
    rows: Any, expected: Sequence[str] | None = None, owner: str = "", others: bool = False
) -> tuple[Float, Names]:
    """All columns of a table as one array, in the order that `owner` has, and their names."""
    table = MemoryTable(rows, expected=expected)
    names, order = table.column_names, list(range(table.n_columns))
    if names is not None:
        check_feature_names(names)
        if expected is not None:
            order = match_names(expected, names, owner, others=others)
            names = tuple(expected)
    return np.column_stack([table.numbers(i) for i in order]), names


def _plain_rows(rows: Any) -> NDArray[Any]:
    """An array or a list of rows as an array; of objects as numbers."""
    refuse_dask(rows)
    array = arrays.plain_array(rows)
    return _numeric(array)[0] if array.dtype.kind in "OU" and array.ndim == 2 else array


def as_rows(
    rows: Any, n_features: int | None, feature_names: Sequence[str] | None = None
) -> tuple[NDArray[Any], Names]:
    """Rows (n_rows, n_features) of a real dtype, unchecked, NaN where masked, and their names."""
    names = None
    if is_frame(rows) or hasattr(rows, "nnz"):
        array, names = _numeric(rows, feature_names, "the summary")
    else:  # callers that compute on the device of a tensor use `as_device_rows`
        array = arrays.to_numpy(rows) if arrays.is_tensor(rows) else _plain_rows(rows)
        if array.dtype.kind not in "fiub":
            arrays.check_real(array)
    check_shape(array, n_features)
    warn_integers(np.ma.compressed(rows) if arrays.has_mask(rows) else array, "rows hold")
    return array, names


def rows_for(rows: Any, feature_names: Names) -> NDArray[Any]:
    """Rows as an array with the columns of a mixture's features, unchecked; missing is NaN."""
    if not is_frame(rows):
        return _plain_rows(rows)
    expected = names_for(feature_names, frame_names(rows, feature_names))
    return _numeric(rows, expected, "the mixture", others=True)[0]


def as_device_rows(rows: Any, n_features: int | None) -> Any:
    """Rows of a tensor, on their device; values are checked when they are summed."""
    arrays.check_real(rows)
    check_shape(rows, n_features)
    return rows.detach()  # no gradients of sums


def for_sklearn(X: Any) -> tuple[Any, Names]:
    """Rows that every version of scikit-learn reads, and the names of a polars or Arrow table.

    Refuses what it would read wrongly.
    """
    refuse_dask(X)
    if is_frame(X):
        array, names = _numeric(X)
        return (X, None) if hasattr(X, "iloc") else (array, names)  # it reads pandas itself
    if arrays.has_mask(X) or isinstance(X, list | tuple):
        X = arrays.plain_array(X)  # NaN where a number is masked; rows of one length
    dtype = getattr(X, "dtype", None)
    if getattr(dtype, "kind", "") in "VMm" and dtype is not None:
        arrays.check_real(X, "X")  # fields and times, whose bytes scikit-learn takes as numbers
    return X, None

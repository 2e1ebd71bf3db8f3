"""Tables in memory: data frames, dicts of columns, arrays and lists of rows.

Numbers are cast to float64 block by block later, so that a large float32 or memory-mapped array is
never copied as a whole. Arrays of other libraries stay on their device.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix import arrays
from momentmix._typing import Array
from momentmix.errors import InputError, InputTypeError
from momentmix.lazy import lazy_property
from momentmix.parallel import map_in_order, usable_cores
from momentmix.tables.cells import (
    Cells,
    column_cells,
    column_dates,
    holds_dates,
    numbers_of_objects,
    warn_integers,
)
from momentmix.tables.names import check_feature_names, column_label, match_names, names_for
from momentmix.tables.source import Batch, Columns, Kind, Source
from momentmix.tables.validation import check_shape

_MANY_ROWS = 1 << 16  # whose text is worth a thread for each column


def is_frame(data: Any) -> bool:
    """Whether `data` is a table with labeled columns (pandas, polars, Arrow)."""
    is_arrow = hasattr(data, "column_names") and hasattr(data, "column")
    return is_arrow or (hasattr(data, "columns") and hasattr(data, "to_numpy"))


def frame_labels(frame: Any) -> list[Any]:
    """Labels of the columns, of whatever type."""
    return list(frame.column_names if hasattr(frame, "column_names") else frame.columns)


def frame_names(frame: Any, expected: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Labels as strings; None for 0, 1, 2, …, which are no names unless these are `expected`."""
    labels = frame_labels(frame)
    names = tuple(str(label) for label in labels)
    if labels == list(range(len(labels))) and set(names) != set(expected or ()):
        return None
    return names


def _frame_column(frame: Any, i: int) -> Any:
    """A column as its library has it."""
    if hasattr(frame, "column_names"):
        return frame.column(i)
    return frame.iloc[:, i] if hasattr(frame, "iloc") else frame[frame.columns[i]]


def _numbers_of(frame: Any, i: int) -> Array:
    """A column of a frame, which must be real numbers."""
    label = f"column {str(frame_labels(frame)[i])!a}"
    cells = column_cells(_frame_column(frame, i), label)
    if any(isinstance(name, str) for name in cells.labels or ()):
        raise InputTypeError(
            f"rows must be real numbers; {label} holds text or other objects. Leave it out, "
            "convert it, or use MomentMixture, which takes text as categories."
        )
    return cells.numbers()


def _frame_rows(
    frame: Any, expected: Sequence[str] | None, owner: str, others: bool = False
) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """All columns of a frame as one array, in the order that `owner` has, and their names."""
    names, order = frame_names(frame, expected), list(range(len(frame_labels(frame))))
    if names is not None:
        check_feature_names(names)
        if expected is not None:
            order = match_names(expected, names, owner, others=others)
            names = tuple(expected)
    columns = [_numbers_of(frame, i).astype(np.float64, copy=False) for i in order]
    return np.column_stack(columns) if columns else np.empty((0, 0)), names


def refuse_dask(rows: Any) -> None:
    """Raise where rows are a Dask collection."""
    if hasattr(rows, "__dask_graph__"):
        raise InputTypeError(
            f"rows must be in this process; got a Dask collection ({type(rows).__name__}), which "
            "would be computed as a whole, in memory. Use momentmix.dask: fit_summary(momentmix."
            "dask.summarize(X)) with an estimator, else its summarize, fit and predict; or pass "
            "rows.compute()."
        )


def _refuse_elsewhere(rows: Any) -> None:
    refuse_dask(rows)
    if hasattr(rows, "toarray") and hasattr(rows, "nnz"):
        raise InputTypeError(
            f"rows must be dense; got a sparse {type(rows).__name__}. Pass blocks of rows as "
            "rows.toarray()."
        )


def as_rows(
    rows: Any, n_features: int | None, feature_names: Sequence[str] | None = None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Rows (n_rows, n_features) of a real dtype, unchecked, NaN where masked, and their names."""
    _refuse_elsewhere(rows)
    if arrays.is_tensor(rows):
        arrays.check_real(rows)
        rows = arrays.to_numpy(rows)  # callers that compute on the device use `as_device_rows`
    names = None
    if is_frame(rows):
        array, names = _frame_rows(rows, feature_names, "the summary")
    else:
        array = arrays.plain_array(rows)
        arrays.check_real(
            array, "the array" if array.dtype.kind in "fiubc" else _not_numbers(array)
        )
    check_shape(array, n_features)
    warn_integers(np.ma.compressed(rows) if arrays.has_mask(rows) else array, "rows hold")
    return array, names


def _not_numbers(array: NDArray[Any]) -> str:
    """The first column of an object or text array that is not made of numbers, in words."""
    for column, cells in enumerate(array.T if array.ndim == 2 else ()):
        for row, value in enumerate(cells):
            if isinstance(value, str | bytes | None | dict | list) or not np.isscalar(value):
                return f"column {column} (row {row} holds {value!r})"
    return "the array"


def as_device_rows(rows: Any, n_features: int | None) -> Any:
    """Rows of a tensor, on their device; values are checked when they are summed."""
    arrays.check_real(rows)
    check_shape(rows, n_features)
    return rows.detach()  # no gradients of sums


def rows_for(rows: Any, feature_names: tuple[str, ...] | None) -> NDArray[Any]:
    """Rows as an array with the columns of a mixture's features, unchecked; missing is NaN."""
    if hasattr(rows, "columns"):
        refuse_dask(rows)
    if not is_frame(rows):
        return numbers_of_objects(arrays.plain_array(rows))
    expected = names_for(feature_names, frame_names(rows, feature_names))
    return _frame_rows(rows, expected, "the mixture", others=True)[0]


def for_sklearn(X: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Rows that every version of scikit-learn reads, and the names of a polars or Arrow table.

    Refuses what it would read wrongly.
    """
    refuse_dask(X)
    if is_frame(X):
        if not hasattr(X, "iloc"):
            return as_rows(X, None)
        check_feature_names(frame_names(X) or ())  # pandas, which scikit-learn reads itself
        for i in range(len(frame_labels(X))):
            _numbers_of(X, i)  # scikit-learn names no column
        return X, None
    if arrays.has_mask(X) or isinstance(X, list | tuple):
        X = arrays.plain_array(X)  # NaN where a number is masked; rows of one length
    dtype = getattr(X, "dtype", None)
    if getattr(dtype, "kind", "") in "VMm" and dtype is not None:
        arrays.check_real(X, "X")  # fields and times, whose bytes scikit-learn takes as numbers
    return X, None


class MemoryTable(Source):
    """A frame, a dict of columns, an array or a list of rows; its cells are converted once."""

    in_memory = True

    def __init__(
        self, data: Any, name: str | None = None, expected: Sequence[str] | None = None
    ) -> None:
        _refuse_elsewhere(data)
        self.column_names = None
        if isinstance(data, Mapping):
            self.column_names = tuple(map(str, data))
            self._columns = [_checked_list(*item) for item in data.items()]
        elif is_frame(data):
            self.column_names = frame_names(data, expected)
            self._columns = [_frame_column(data, i) for i in range(len(frame_labels(data)))]
        else:
            self._columns = _columns_of_array(data)
        self._is_named = name is not None
        self.name = name or ("the array" if self.column_names is None else "the table")
        self.n_columns = len(self._columns)
        if not self._columns:
            raise InputError(f"rows must have at least one column; {self.name} has none.")
        lengths = sorted({len(column) for column in self._columns})
        if len(lengths) > 1:
            raise InputError(f"columns must have equal lengths; got {lengths} rows.")
        self.n_rows = lengths[0]
        self._cells: dict[int, Cells | Exception] = {}

    def _convert(self, columns: Sequence[int]) -> None:
        """Convert the columns, of long tables by all cores."""
        new = [i for i in columns if i not in self._cells]
        n_threads = usable_cores() if (self.n_rows or 0) > _MANY_ROWS else 1
        converted = map_in_order(self._converted, new, n_threads)
        self._cells.update(zip(new, converted, strict=True))

    def _converted(self, i: int) -> Cells | Exception:
        try:
            return column_cells(self._columns[i], self.label(i))
        except (InputError, InputTypeError) as error:
            return error

    def _loaded(self, column: int) -> Cells | Exception:
        self._convert([column])
        return self._cells[column]

    def place(self, row: int, column: int) -> str:
        """The place of a cell in words, without a name that only this module gave."""
        if self._is_named:
            return super().place(row, column)
        return f"{self.where(row)}, {column_label(column, self.column_names)}"

    def kind(self, column: int) -> Kind:
        cells, own = self._loaded(column), self._columns[column]
        type_ = str(getattr(own, "dtype", getattr(own, "type", "")))
        if isinstance(cells, Exception):
            return Kind("date" if holds_dates(own) else "other", type_ or "objects")
        if cells.labels is not None:
            return Kind("text", type_ or "text", cells.order)
        return Kind("bool" if cells.are_bools else "number", type_ or "number")

    def problem(self, column: int) -> Exception | None:
        """The error for a column that is neither numbers nor text."""
        cells = self._loaded(column)
        return cells if isinstance(cells, Exception) else None

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        """All rows at once; dates, which are keys and no features, as they are."""
        self._convert(columns)
        given: list[Any] = []
        for i in columns:
            cells = self._cells[i]
            if isinstance(cells, Exception):
                if not holds_dates(self._columns[i]):
                    raise cells
                given.append(column_dates(self._columns[i], self.label(i)))
            else:
                given.append(cells)
        yield Batch(0, self.n_rows or 0, given)

    @lazy_property
    def mark(self) -> str:
        """Digest of names and of all cells."""
        digest = hashlib.sha256(repr(self.column_names).encode())
        for i in range(self.n_columns):
            with warnings.catch_warnings(action="ignore"):  # who reads the column is warned
                cells = self._cells.get(i) or self._converted(i)
            if isinstance(cells, Cells):
                digest.update(repr(cells.labels).encode())
                digest.update(np.ascontiguousarray(cells.values).tobytes())
        return digest.hexdigest()

    def contents(self) -> tuple[str, bool]:
        return self.mark, True


def _checked_list(name: object, column: Any) -> Any:
    """A column of a dict: an array, a list or the like."""
    has_cells = hasattr(column, "__len__") and getattr(column, "shape", None) != ()
    if isinstance(column, str | bytes) or not has_cells:
        raise InputTypeError(
            "the columns of a dict must be lists, arrays or series of one cell for each row; "
            f"column {str(name)!a} is {type(column).__name__}. Put its cells in a list."
        )
    return column


def _columns_of_array(rows: Any) -> list[Array]:
    """The columns of an array, or of a list of rows."""
    array = arrays.plain_array(arrays.to_numpy(rows) if arrays.is_tensor(rows) else rows)
    if array.dtype.kind in "US" and not isinstance(rows, np.ndarray):
        array = np.array(rows, dtype=object)  # numbers beside text stay numbers
    if array.dtype.kind not in "fiubOU":
        arrays.check_real(array)  # raises, with the cure
    check_shape(array, None)
    return list(array.T)

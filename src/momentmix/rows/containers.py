"""Data frames and masked arrays → NumPy arrays, with NaN for nulls and masked numbers.

No data-frame library is imported; pandas, polars and Arrow tables are recognized by their
attributes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, PrecisionWarning, printable, warn_caller
from momentmix.arrays import check_real
from momentmix.names import check_feature_names, match_names

# -- data frames ------------------------------------------------------------------------------


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "column_names") and hasattr(data, "column")


def is_frame(data: Any) -> bool:
    """Whether `data` is a table with labeled columns (pandas, polars, Arrow)."""
    return _is_arrow(data) or (hasattr(data, "columns") and hasattr(data, "to_numpy"))


def frame_labels(frame: Any) -> list[Any]:
    """Labels of the columns, of whatever type."""
    return list(frame.column_names if _is_arrow(frame) else frame.columns)


def frame_names(frame: Any, expected: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Labels as strings; None for 0, 1, 2, …, the labels of a frame that was given none.

    These do count as names where the expected names are the same numbers in some order.
    """
    labels = frame_labels(frame)
    names = tuple(str(label) for label in labels)
    if labels == list(range(len(labels))) and set(names) != set(expected or ()):
        return None
    return names


def checked(data: Any) -> Any:
    """A batch or column of Arrow from outside, all of whose memory may be read.

    Offsets, indices of dictionaries and texts are those of its maker, or of a damaged file: used
    unchecked, a wrong one reads other memory or ends the process.
    """
    data.validate(full=True)
    return data


def checked_column(column: Any, label: str) -> Any:
    """As `checked`, for a column in memory; `label` names it in the error."""
    try:
        return checked(column)
    except ValueError as error:
        text = printable(str(error).strip().partition("\n")[0])[:200]
        raise InputError(
            f"{label} of the Arrow data is damaged: {text}. Read or make the data again."
        ) from None


def frame_column(frame: Any, i: int) -> Any:
    """A column as its library has it."""
    if _is_arrow(frame):
        return checked_column(frame.column(i), f"column {str(frame_labels(frame)[i])!a}")
    return frame.iloc[:, i] if hasattr(frame, "iloc") else frame[frame.columns[i]]


def column_array(column: Any) -> NDArray[Any]:
    """A column as an array, with NaN for nulls."""
    if not hasattr(column, "dtype") and hasattr(column, "__array__"):
        return plain_array(column)  # Arrow; to_numpy of a batch refuses nulls
    array = plain_array(column.to_numpy())
    if array.dtype == object and getattr(column.dtype, "kind", "O") in "iufb":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))  # nullable numbers
    return array


def frame_array(
    frame: Any, columns: Iterable[int], holder: Callable[[int], str] | None = None
) -> NDArray[np.float64]:
    """Columns of a frame side by side, of shape (n_rows, n_columns); they must be real numbers.

    Parameters
    ----------
    frame : data frame or Arrow table
    columns : iterable of int
    holder : callable, optional
        Number of a column → what holds it, for a warning of integers that float64 rounds ("rows
        hold"); by default there is no warning.
    """
    labels, arrays = frame_labels(frame), []
    for i in columns:
        column = frame_column(frame, i)
        array = numbers_of_objects(column_array(column))
        check_real(array, f"column {str(labels[i])!a}")
        arrays.append(array.astype(np.float64, copy=False))
        if holder is not None:
            warn_integers(column, holder(i))  # not of the array: nulls turn integers into floats
    return np.column_stack(arrays) if arrays else np.empty((0, 0))


def frame_rows(
    frame: Any,
    expected: Sequence[str] | None,
    owner: str,
    *,
    warn: bool = True,
    others: bool = False,
) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """All columns of a frame as one array, and their names where they have any.

    Parameters
    ----------
    frame : data frame or Arrow table
    expected : sequence of str or None
        Names that the columns must have; they are taken in this order.
    owner : str
        Whose names are expected, for messages.
    warn : bool
        Whether to warn of integers that float64 rounds.
    others : bool
        Whether the frame may have other columns, which are left out.
    """
    names, order = frame_names(frame, expected), list(range(len(frame_labels(frame))))
    if names is not None:
        check_feature_names(names)
        if expected is not None:
            order = match_names(expected, names, owner, others=others)
            names = tuple(expected)
    return frame_array(frame, order, (lambda _: "rows hold") if warn else None), names


def arrow_numbers(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Numbers of an Arrow array, and which of them are not null; None if all are not.

    Arrow's ``to_numpy`` imports pandas, which takes longer than all else with a small file.
    """
    first, stop = column.offset, column.offset + len(column)

    def bits(buffer: Any) -> NDArray[np.bool_]:
        packed = np.frombuffer(buffer, np.uint8)[first // 8 : -(-stop // 8)]
        unpacked = np.unpackbits(packed, bitorder="little").view(np.bool_)
        return unpacked[first % 8 :][: len(column)]

    validity, values = column.buffers()
    if values is None or not len(column):
        return np.full(len(column), np.nan), None
    valid = bits(validity) if column.null_count else None
    kind = column.type.to_pandas_dtype()
    # A count, since a buffer may be longer than its numbers, by part of one.
    array = bits(values) if kind is np.bool_ else np.frombuffer(values, kind, stop)[first:]
    return array, valid


def coded_indices(indices: Any, codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Codes of the cells of a dictionary column, NaN for nulls.

    Parameters
    ----------
    indices : Arrow array of integers
    codes : array of shape (n_entries,)
        Of the entries of the dictionary.
    """
    if not len(codes) or not len(indices):  # nulls only, or no cells
        return np.full(len(indices), np.nan)
    array, valid = arrow_numbers(indices)
    places = array if valid is None else np.where(valid, array, len(codes))
    return np.asarray(np.append(codes, np.nan)[places])


def with_nan(array: NDArray[Any], valid: NDArray[np.bool_] | None) -> NDArray[Any]:
    """The array with NaN where it is not valid."""
    return array if valid is None else np.where(valid, array, np.nan)


# -- arrays -----------------------------------------------------------------------------------


def has_mask(rows: Any) -> bool:
    """Whether this is a masked array, or a list that holds some."""
    if "numpy.ma" not in sys.modules:  # importing it takes long, and no one has made such an array
        return False
    if isinstance(rows, list | tuple):
        return any(isinstance(row, np.ma.MaskedArray) for row in rows)
    return isinstance(rows, np.ma.MaskedArray)


def plain_array(rows: Any) -> NDArray[Any]:
    """What NumPy makes of `rows`, with NaN where a masked array hides a number."""
    if not has_mask(rows):
        return np.asarray(rows)
    rows = np.ma.asarray(rows)  # of a list, np.asarray would forget the masks
    if rows.dtype.kind in "VMm" or not np.ma.is_masked(rows):  # fields and times: no NaN
        return np.asarray(rows.data)
    if rows.dtype.kind in "iub":
        rows = rows.astype(np.float64)
    return np.asarray(rows.filled(np.nan))


def is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, NaT or NA.

    Examples
    --------
    >>> is_missing(None), is_missing(float("nan")), is_missing("no")
    (True, True, False)
    """
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither equal to itself nor not
        return True
    except ValueError:  # an array, which has no one answer
        return False


def numbers_of_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Objects that are numbers or missing, as float64; any other array as it is.

    Examples
    --------
    >>> numbers_of_objects(np.array([[2, None]], dtype=object)).tolist()
    [[2.0, nan]]
    """
    if array.dtype.kind != "O" or array.ndim == 0:
        return array
    cells = array.ravel()
    numbers = np.array([isinstance(cell, Real | Decimal | np.bool_) for cell in cells], dtype=bool)
    if not all(is_missing(cell) for cell in cells[~numbers]):
        return array
    found = np.full(cells.size, np.nan)
    found[numbers] = float64_of(cells[numbers], "the array or column")
    return found.reshape(array.shape)


def float64_of(numbers: NDArray[Any], what: str) -> NDArray[np.float64]:
    """Objects that are numbers as float64; `what` has them, in the error for one that is too large.

    Examples
    --------
    >>> float64_of(np.array([2, True], dtype=object), "the column").tolist()
    [2.0, 1.0]
    """
    try:
        return numbers.astype(np.float64)
    except OverflowError:
        raise InputError(
            f"numbers must stay below 2^1000 ≈ 1.07e301 in size; {what} has an integer that is "
            "larger than all float64 numbers. Write names as text, or set the cell to missing."
        ) from None


# -- integers ---------------------------------------------------------------------------------


def _largest_integer(column: Any) -> int:
    """Largest size in a column of integers of any library, nulls left out; else 0."""
    dtype = getattr(column, "dtype", None)
    kind = getattr(dtype, "kind", None)  # NumPy and pandas have one
    if kind == "O":
        cells = column.to_numpy() if hasattr(column, "to_numpy") else column
        return max((abs(x) for x in cells.ravel() if isinstance(x, int)), default=0)
    name = str(getattr(column, "type", None) if dtype is None else dtype).lower()
    if kind not in ("i", "u") and name not in ("int64", "uint64", "int128", "uint128"):
        return 0
    try:
        if dtype is None:  # Arrow
            from pyarrow import compute

            return max(abs(int(end)) for end in compute.min_max(column).as_py().values())
        return max(abs(int(column.min())), abs(int(column.max())))
    except (TypeError, ValueError):  # no values, or nulls only
        return 0


def warn_integers(column: Any, what: str = "rows hold") -> None:
    """Warn where float64 cannot hold the integers of an array, or of a column of any library."""
    largest = _largest_integer(column)
    if 2**53 < largest < 2**1023:  # what is larger is refused
        warn_beyond(what, largest)


def warn_beyond(what: str, integer: int) -> None:
    """Warn that an integer beyond 2^53 is there, what = "rows hold" or the like."""
    warn_caller(
        f"{what} integers up to {integer}, beyond 2^53; float64 rounds these. Subtract a common "
        "offset before passing them if the last digits matter.",
        PrecisionWarning,
    )

"""Columns of a batch: real numbers as a NumPy array, NaN where missing; others as an Arrow array.

pyarrow is imported where a column needs it: arrays of numbers do not.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array, Int
from momentmix.arrays import check_real, plain_array
from momentmix.errors import FitWarning, InputError, InputTypeError, printable, warn_caller
from momentmix.families.column import float64_of, plain_level

MISSING = -1  # the code of a missing cell
_UNITS = {**dict.fromkeys("YMW", "M8[D]"), **dict.fromkeys("hm", "M8[s]")}
_NUMBERS = (Real, Decimal, np.bool_)


class Kind(NamedTuple):
    """Content of a column, and its type as the format names it, for messages."""

    kind: str  # number, bool, text, date, other; in CSV mixed: numbers with some text between them
    type: str
    order: str = ""  # "declared" or "ordered" where the type has levels of its own


NUMBER = Kind("number", "number")
NO_CELL = Kind("number", "empty")  # no cell was seen that is not missing


def arrow_kind(type_: Any) -> Kind:
    """Content of columns of an Arrow type."""
    from pyarrow import types

    order = ("ordered" if type_.ordered else "declared") if types.is_dictionary(type_) else ""
    value = type_.value_type if order else type_
    kind = "other"
    if is_text_type(value):
        kind = "text"
    elif types.is_temporal(value) or "pandas.period" in str(type_):
        kind = "date"
    elif types.is_boolean(value):
        kind = "bool"
    elif types.is_integer(value) or types.is_floating(value) or types.is_decimal(value):
        kind = "text" if order else "number"  # numbers of a type of categories are labels
    elif types.is_null(value):
        return NO_CELL
    return Kind(kind, str(type_), order)


def is_text_type(type_: Any) -> bool:
    """Whether an Arrow type is text."""
    from pyarrow import types

    return any(f(type_) for f in (types.is_string, types.is_large_string, types.is_string_view))


def kind_of(column: Any) -> Kind:
    """Content of a column."""
    if isinstance(column, np.ndarray):
        return Kind("bool" if column.dtype.kind == "b" else "number", str(column.dtype))
    return arrow_kind(column.type)


def is_labeled(column: Any) -> bool:
    """Whether the cells are labels, not numbers."""
    return not isinstance(column, np.ndarray) and arrow_kind(column.type).kind == "text"


def numbers_of(column: Any) -> Array:
    """The cells as numbers, NaN where one is missing; labels must be numbers."""
    if isinstance(column, np.ndarray):
        return column
    from pyarrow import Array as ArrowArray
    from pyarrow import float64, types, uint8

    if types.is_dictionary(column.type):
        codes, labels = codes_of(column)
        return np.array([*labels, np.nan], dtype=np.float64)[codes]
    if column.null_count == len(column):
        return np.full(len(column), np.nan)
    if types.is_boolean(column.type):
        column = column.cast(uint8())
    if not column.null_count and (types.is_integer(column.type) or types.is_floating(column.type)):
        return np.from_dlpack(column)  # Arrow's to_numpy() and fill_null() import pandas
    missing = np.from_dlpack(column.is_null().cast(uint8())).view(np.bool_)
    column = column.cast(float64(), safe=False)
    buffers = [None, column.buffers()[1]]  # without which cells are null
    numbers = ArrowArray.from_buffers(float64(), len(column), buffers, offset=column.offset)
    return np.where(missing, np.nan, np.from_dlpack(numbers))


def codes_of(column: Any) -> tuple[Int, tuple[Any, ...]]:
    """Codes of the cells, −1 where one is missing, and the labels that they stand for."""
    if not hasattr(column, "dictionary"):
        column = column.dictionary_encode()
    indices = column.indices
    codes = numbers_of(indices)
    codes = np.where(codes == codes, codes, MISSING).astype(np.int64)
    numbers: dict[Any, int] = {}
    labels = column.dictionary.to_pylist()  # they may repeat or be None
    positions = [
        MISSING if x is None else numbers.setdefault(plain_level(x), len(numbers)) for x in labels
    ]
    if positions != list(range(len(positions))):
        codes = np.array([*positions, MISSING])[codes]
    return codes, tuple(numbers)


def cell_text(column: Any, row: int) -> str:
    """A cell as messages print it."""
    if isinstance(column, np.ndarray):
        return f"{column[row]:.17g}"
    return ascii(plain_level(column[row].as_py()))


def warn_integers(array: NDArray[Any], holder: str) -> None:
    """Warn where float64 rounds integers; `holder` begins the sentence, "rows hold"."""
    if array.dtype.kind in "iu" and array.size:
        largest = max(abs(int(array.min())), abs(int(array.max())))
        if largest > 2**53:
            warn_caller(
                f"{holder} integers up to {largest}, beyond 2^53; float64 rounds these. Subtract a "
                "common offset before passing them if the last digits matter.",
                FitWarning,
            )


# -- columns of other libraries ------------------------------------------------------------------


def column_of(values: Any, label: str) -> Any:
    """A column of a frame or dict: a series, an Arrow array, an array, or a list."""
    dtype: Any = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "fiub":
        return plain_array(values if isinstance(values, np.ndarray) else values.to_numpy())
    import pyarrow as pa

    if hasattr(values, "to_frame") and type(values).__module__.startswith("polars"):
        values = plain_polars(values.to_frame()).to_arrow().column(0)
    is_arrow = isinstance(values, pa.Array | pa.ChunkedArray)
    column = values if is_arrow else _from_objects(values, label)
    if isinstance(column, np.ndarray):
        return column
    try:
        column = checked(column)
        if hasattr(column, "chunks"):
            is_coded = pa.types.is_dictionary(column.type)
            column = (column.unify_dictionaries() if is_coded else column).combine_chunks()
    except ValueError as error:
        text = printable(str(error).strip().partition("\n")[0])[:200]
        raise InputError(
            f"{label} of the Arrow data is damaged: {text}. Read or make the data again."
        ) from None
    if str(column.type).endswith("_view"):  # as of polars; few functions take it
        column = column.cast(pa.large_string())
    kind = arrow_kind(column.type)
    if kind.order and kind.kind == "date":
        return column.dictionary_decode()
    return numbers_of(column) if kind.kind == "number" else column


def checked(data: Any) -> Any:
    """A batch or column of Arrow from outside, whose offsets and indices are checked.

    A wrong one, of its maker or a damaged file, reads other memory or ends the process.
    """
    data.validate(full=True)
    return data


def _from_objects(values: Any, label: str) -> Any:
    """A column of pandas, of Python objects, or of text and times of NumPy, as an Arrow array.

    Numbers of several types are an array of float64.
    """
    import pyarrow as pa

    if hasattr(values, "cat") and hasattr(values.dtype, "ordered"):
        labels = values.dtype.categories.tolist()
        if labels and all(hasattr(name, "left") and hasattr(name, "right") for name in labels):
            values = values.cat.rename_categories(list(map(str, labels)))  # of pandas.cut
    array = plain_array(values) if isinstance(values, np.ma.MaskedArray) else values
    if isinstance(array, np.ndarray) and array.dtype.kind == "M":
        unit = np.datetime_data(array.dtype)[0]  # Arrow has seconds, their parts, and days
        array = array.astype(_UNITS.get(unit, array.dtype))
    try:
        if not isinstance(array, np.ndarray) or (array.ndim == 1 and array.dtype.kind not in "cV"):
            return pa.array(array, from_pandas=True)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        pass
    array = np.array(values, object) if isinstance(values, list | tuple) else plain_array(values)
    if array.ndim != 1:
        raise InputError(f"columns must have one dimension; {label} has shape {array.shape}.")
    if array.dtype.kind != "O":
        check_real(array, label)  # raises, with the cure, where these are no numbers
        return array
    present = [(row, cell) for row, cell in enumerate(array) if not is_missing(cell)]
    wanted = _NUMBERS if present and isinstance(present[0][1], _NUMBERS) else (str,)
    for row, cell in present:
        if not isinstance(cell, wanted):
            raise InputTypeError(
                f"a column must hold numbers, or text; row {row}, {label}, holds {cell!a} "
                f"({type(cell).__name__}). Convert the column to one type."
            )
    if wanted == (str,):
        return pa.array([None if is_missing(cell) else cell for cell in array])
    numbers, rows = np.full(len(array), np.nan), [row for row, _ in present]
    numbers[rows] = float64_of(array[rows], label)
    return numbers


def is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither equal to itself nor not
        return True
    except ValueError:  # an array, which has no one answer
        return False


def plain_polars(data: Any) -> Any:
    """A frame of polars whose types Arrow has: categories are text; any other table as it is."""
    polars = sys.modules.get("polars")
    if polars is None or not type(data).__module__.startswith("polars"):
        return data
    wide = {getattr(polars, name, polars.Int64) for name in ("Int128", "UInt128")} - {polars.Int64}
    return data.cast({polars.Categorical: polars.String} | dict.fromkeys(wide, polars.Float64))

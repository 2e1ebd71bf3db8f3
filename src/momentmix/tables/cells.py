"""A column of any library → cells: numbers, or codes of labels.

Pandas, polars and Arrow are recognized by their attributes. Only columns of objects import pandas.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Array
from momentmix.arrays import check_real, plain_array
from momentmix.errors import FitWarning, InputError, InputTypeError, printable, warn_caller
from momentmix.families.column import float64_of, plain_level
from momentmix.tables.source import arrow_kind, checked

MISSING = -1  # the code of a missing cell
_TIME_TYPES = ("date", "time", "duration", "period", "interval")  # of pandas, polars and Arrow
_TIMES = (date, time, timedelta, np.datetime64, np.timedelta64)
_NUMBERS = (Real, Decimal, np.bool_)


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one column: numbers, or codes of labels."""

    values: Array  # real numbers, NaN where one is missing; or codes, −1 where a label is missing
    labels: tuple[Any, ...] | None = None  # labels of the codes; None for numbers
    # "declared" where the labels are the categories of the column's type, "ordered" where that
    # orders them.
    order: str = ""
    are_bools: bool = False  # whether the numbers were True and False

    def missing(self) -> NDArray[np.bool_]:
        """Mask of missing cells."""
        if self.labels is not None:
            return np.asarray(self.values == MISSING)
        if self.values.dtype.kind != "f":
            return np.zeros(len(self.values), dtype=bool)
        return np.isnan(self.values)

    def text(self, row: int) -> str:
        """A cell as messages print it."""
        if self.labels is None:
            return f"{self.values[row]:.17g}"
        return ascii(self.labels[int(self.values[row])])

    def __getitem__(self, rows: slice) -> Cells:
        """Some of the rows."""
        return replace(self, values=self.values[rows])

    def numbers(self) -> Array:
        """The cells as numbers, where their labels are numbers or there are none."""
        if self.labels is None:
            return self.values
        return np.array([*self.labels, np.nan], dtype=np.float64)[self.values]


def labeled(
    codes: Any, labels: Sequence[Any], order: str = "", nulls: Collection[str] = ()
) -> Cells:
    """Cells from codes of labels, which may repeat or be None; codes of −1 are missing.

    Where there are `nulls`, spaces around texts do not count, and these texts are missing.
    """
    if nulls:
        texts = [None if text is None else text.strip() for text in labels]
        labels = [None if text in nulls else text for text in texts]
    known: dict[Any, int] = {}
    places = [MISSING if x is None else known.setdefault(x, len(known)) for x in labels]
    codes = np.asarray(codes)
    if places != list(range(len(places))):
        codes = np.array([*places, MISSING])[codes]
    return Cells(codes, tuple(map(plain_level, known)), order)


def cells_of(column: Any, nulls: Collection[str] = ()) -> Cells:
    """The cells of a column of a batch."""
    if isinstance(column, Cells):
        return column
    if isinstance(column, np.ndarray):
        return Cells(column, are_bools=column.dtype.kind == "b")
    from pyarrow import float64, types

    if (kind := arrow_kind(column.type)).order or kind.kind == "text":
        column = column if kind.order else column.dictionary_encode()
        indices, valid = arrow_numbers(column.indices)
        codes = indices.astype(np.int64)
        if valid is not None:
            codes[~valid] = MISSING
        if not len(column.dictionary):  # nulls only; their codes are arbitrary
            codes[:] = MISSING
        return labeled(codes, column.dictionary.to_pylist(), kind.order, nulls)
    if types.is_decimal(column.type) or types.is_null(column.type):
        column = column.cast(float64())
    array, valid = arrow_numbers(column)
    numbers = array if valid is None else np.where(valid, array, np.nan)
    return Cells(numbers, are_bools=kind.kind == "bool")


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


def arrow_numbers(column: Any) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Numbers of an Arrow array without pandas, and which are not null; None if all are not."""
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


def column_cells(column: Any, label: str) -> Cells:
    """A column of a frame or dict: a series, an Arrow array, an array, or a list."""
    if not hasattr(column, "dtype") and hasattr(column, "type") and hasattr(column, "null_count"):
        return _of_arrow(column, label)
    dtype: Any = getattr(column, "dtype", None)
    if hasattr(column, "to_physical"):  # polars
        if str(dtype).endswith("Int128"):  # Arrow has none
            column = column.cast(float)
        return _of_values(column, label) if str(dtype) == "Object" else _of_polars(column, label)
    if hasattr(column, "cat") and hasattr(dtype, "categories") and hasattr(dtype, "ordered"):
        order = "ordered" if dtype.ordered else "declared"  # pandas
        return _categories(column.cat.codes.to_numpy(), dtype.categories.tolist(), order, label)
    if hasattr(column, "factorize") and str(dtype).startswith("str"):
        codes, labels = column.factorize()
        return labeled(codes, labels.tolist())
    if hasattr(column, "to_numpy") and getattr(dtype, "kind", "O") in "fiub":
        array = plain_array(column.to_numpy())
        if array.dtype == object:  # nullable numbers
            array = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return Cells(array, are_bools=dtype.kind == "b")
    return _of_values(column, label)


def _of_polars(column: Any, label: str) -> Cells:
    cells = _of_arrow(column.to_arrow(), label)
    if str(column.dtype) == "Categorical":  # its type may have labels of other columns
        found = {*cells.values.tolist()}
        own = [name if i in found else None for i, name in enumerate(cells.labels or ())]
        return labeled(cells.values, own, cells.order)
    return cells


def _checked_arrow(column: Any, label: str) -> Any:
    """A column of Arrow in one piece."""
    from pyarrow import types

    try:
        column = checked(column)
        if hasattr(column, "chunks"):
            is_coded = types.is_dictionary(column.type)
            column = (column.unify_dictionaries() if is_coded else column).combine_chunks()
        return column
    except ValueError as error:
        text = printable(str(error).strip().partition("\n")[0])[:200]
        raise InputError(
            f"{label} of the Arrow data is damaged: {text}. Read or make the data again."
        ) from None


def _of_arrow(column: Any, label: str) -> Cells:
    from pyarrow import types

    column = _checked_arrow(column, label)
    value = column.type.value_type if types.is_dictionary(column.type) else column.type
    if value != column.type and types.is_temporal(value):
        return _categories([], column.dictionary.to_pylist(), "", label)  # raises
    if arrow_kind(value).kind in ("number", "bool", "text") or types.is_null(value):
        return cells_of(column)
    return _of_values(np.asarray(column), label)


def _categories(codes: Any, labels: Sequence[Any], order: str, label: str) -> Cells:
    """Codes of categories; intervals, as of ``pandas.cut``, are named by their text."""
    if labels and isinstance(labels[0], _TIMES):
        raise InputTypeError(
            f"categories must be text or numbers; those of {label} are dates or times. Write them "
            "as text."
        )
    if labels and all(hasattr(name, "left") and hasattr(name, "right") for name in labels):
        labels = [str(name) for name in labels]
    return labeled(np.asarray(codes, dtype=np.int64), labels, order)


def _of_values(column: Any, label: str) -> Cells:
    """A column that NumPy makes an array of."""
    column = column.to_numpy() if hasattr(column, "to_numpy") else column
    array = plain_array(column)
    if array.dtype.kind in "US" and not isinstance(column, np.ndarray):
        array = np.array(column, dtype=object)  # numbers beside text stay numbers
    if array.ndim != 1:
        raise InputError(f"columns must have one dimension; {label} has shape {array.shape}.")
    if array.dtype.kind in "fiub":
        return Cells(array, are_bools=array.dtype.kind == "b")
    if array.dtype.kind == "U":
        return _numbered(array.astype(object), np.zeros(len(array), dtype=bool))
    if array.dtype.kind != "O":
        check_real(array, label)  # raises, with the cure
    import pandas as pd

    missing = np.asarray(pd.isna(array))
    present = array[~missing]
    kinds = {type(value) for value in present}
    if all(issubclass(kind, _NUMBERS) for kind in kinds):
        numbers = np.full(len(array), np.nan)
        numbers[~missing] = float64_of(present, label)
        return Cells(numbers, are_bools=bool(kinds) and kinds <= {bool, np.bool_})
    if all(issubclass(kind, str) for kind in kinds):
        return _numbered(array, missing)
    wanted = _NUMBERS if isinstance(present[0], _NUMBERS) else (str,)
    row = next(i for i in np.flatnonzero(~missing).tolist() if not isinstance(array[i], wanted))
    raise InputTypeError(
        f"a column must hold numbers, or text; row {row}, {label}, holds {array[row]!a} "
        f"({type(array[row]).__name__}). Convert the column to one type."
    )


def _numbered(array: Array, missing: NDArray[np.bool_]) -> Cells:
    import pandas as pd

    codes, labels = pd.factorize(array)
    return labeled(np.where(missing, MISSING, codes), [str(label) for label in labels])


def column_dates(column: Any, label: str) -> Array:
    """A column of dates or times: datetime64, or objects."""
    if hasattr(column, "null_count") and not hasattr(column, "dtype"):
        column = _checked_arrow(column, label)
    return plain_array(column)


def holds_dates(column: Any) -> bool:
    """Whether a column of any library holds dates, times or spans of time."""
    dtype = getattr(column, "dtype", getattr(column, "type", None))
    dtype = getattr(dtype, "value_type", dtype)  # of Arrow's dictionaries
    if getattr(dtype, "kind", "") in tuple("Mm") or str(dtype).lower().startswith(_TIME_TYPES):
        return True
    seen = (value for value in column if not is_missing(value))
    return isinstance(next(seen, None), _TIMES)


def is_missing(value: object) -> bool:
    """Whether a cell is None, NaN, NaT or NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA is neither equal to itself nor not
        return True
    except ValueError:  # an array, which has no one answer
        return False


def numbers_of_objects(array: NDArray[Any]) -> NDArray[Any]:
    """Objects that are numbers or missing, as float64; any other array as it is."""
    if array.dtype.kind != "O" or array.ndim == 0:
        return array
    cells = array.ravel()
    numbers = np.array([isinstance(cell, _NUMBERS) for cell in cells], dtype=bool)
    if not all(is_missing(cell) for cell in cells[~numbers]):
        return array
    found = np.full(cells.size, np.nan)
    found[numbers] = float64_of(cells[numbers], "the array or column")
    return found.reshape(array.shape)

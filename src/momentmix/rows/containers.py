"""What rows come in: data frames, whose columns have names, and masked arrays.

No data-frame library is imported; pandas, polars and Arrow tables are told by their attributes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, InputTypeError

__all__ = [
    "check_dtype", "check_encodable", "check_feature_names", "column_array", "column_label",
    "frame_arrays", "frame_column", "frame_labels", "frame_names", "has_mask", "is_frame",
    "match_names", "names_for", "plain_array", "rows_for",
]  # fmt: skip

_NAMES_IN_MESSAGES = 8


# -- names ------------------------------------------------------------------------------------


def column_label(column: int, feature_names: Sequence[str] | None) -> str:
    """A column as messages name it: number, and name where there is one (escaped)."""
    if feature_names is None:
        return f"column {column}"
    return f"column {column} ({feature_names[column]!a})"


def check_feature_names(names: Any, n_features: int | None = None) -> tuple[str, ...]:
    """Feature names as a tuple of distinct strings."""
    if isinstance(names, str) or not isinstance(names, Sequence | np.ndarray):
        raise InputTypeError(f"feature_names must be a sequence of strings; got {names!r}.")
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise InputTypeError(f"feature_names must be strings; got {name!r}.")
    if n_features is not None and len(names) != n_features:
        raise InputError(
            f"feature_names must name each of the {n_features} features; got {len(names)} names."
        )
    if len(set(names)) != len(names):
        twice = sorted({ascii(name) for name in names if names.count(name) > 1})
        raise InputError(
            f"feature_names must differ from each other; repeated: {', '.join(twice)}. Rename the "
            "columns, or pass a plain array, whose columns go by position."
        )
    check_encodable(names)
    return tuple(str(name) for name in names)


def check_encodable(names: Iterable[str]) -> None:
    """Raise where a name holds an unpaired surrogate, which no encoding of text can write.

    Examples
    --------
    >>> check_encodable(["weight", "größe"])
    """
    for column, name in enumerate(names):
        if any("\ud800" <= c <= "\udfff" for c in name):
            raise InputError(
                f"feature names must be text; the name of column {column}, {name[:60]!a}, holds an "
                "unpaired surrogate, which cannot be written as UTF-8. Rename the column, or "
                "decode its name with the right encoding."
            )


def match_names(known: Sequence[str], given: Sequence[str], owner: str) -> list[int]:
    """Places of the known names among the given ones; raise unless both are the same names.

    Parameters
    ----------
    known, given : sequence of str
        Each without repetitions.
    owner : str
        Whose names are known, for the message ("the mixture").
    """
    places = {name: i for i, name in enumerate(given)}
    lacking = [name for name in known if name not in places]
    extra = sorted(set(given) - set(known), key=places.__getitem__)
    if not lacking and not extra:
        return [places[name] for name in known]
    parts = [f"{_listed(lacking)} missing"] if lacking else []
    parts += [f"{_listed(extra)} not among them"] if extra else []
    cure = ("Rename" if extra else "Add or rename") if lacking else "Drop"
    raise InputError(
        f"the columns must be the features of {owner}, in any order; {' and '.join(parts)}. "
        f"{cure} columns so that the names are "
        f"{', '.join(map(ascii, known[:_NAMES_IN_MESSAGES]))}"
        f"{', …' if len(known) > _NAMES_IN_MESSAGES else ''}; a plain array goes by position."
    )


def _listed(names: list[str]) -> str:
    text = ", ".join(map(ascii, names[:_NAMES_IN_MESSAGES]))
    more = len(names) - _NAMES_IN_MESSAGES
    text += f" and {more} more" if more > 0 else ""
    return f"{text} {'is' if len(names) == 1 else 'are'}"


# -- data frames ------------------------------------------------------------------------------


def _is_arrow(data: Any) -> bool:
    return hasattr(data, "column_names") and hasattr(data, "column")


def is_frame(data: Any) -> bool:
    """Whether `data` is a table with labelled columns (pandas, polars, Arrow)."""
    return _is_arrow(data) or (hasattr(data, "columns") and hasattr(data, "to_numpy"))


def frame_labels(frame: Any) -> list[Any]:
    """Labels of the columns, of whatever type."""
    return list(frame.column_names if _is_arrow(frame) else frame.columns)


def frame_names(frame: Any, known: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Labels as strings; None for 0, 1, 2, …, which a frame has that was given no labels.

    These do count as names where the known names are the same numbers in some order.
    """
    labels = frame_labels(frame)
    names = tuple(str(label) for label in labels)
    if labels == list(range(len(labels))) and set(names) != set(known or ()):
        return None
    return names


def names_for(
    feature_names: tuple[str, ...] | None, given: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Names that the columns of rows for a mixture go by; None: they go by position.

    A mixture without names has its features numbered, so columns that are labelled with the numbers
    0, 1, 2, … in some order go by these. Other names cannot be compared; a warning says so, as in
    scikit-learn.
    """
    if feature_names is not None or given is None:
        return feature_names
    numbers = tuple(str(i) for i in range(len(given)))
    if set(given) == set(numbers):
        return numbers
    warnings.warn(
        "the rows have feature names, the mixture has none: columns are taken by position. Fit to "
        "named rows, or use dataclasses.replace(mixture, feature_names=...).",
        UserWarning,
        stacklevel=5,  # where a method of the mixture is called
    )
    return None


def frame_arrays(
    frame: Any, known: Sequence[str] | None, owner: str
) -> tuple[list[NDArray[Any]], tuple[str, ...] | None]:
    """Columns of a frame as arrays of real numbers, and their names where they have any.

    Parameters
    ----------
    frame : data frame or Arrow table
    known : sequence of str or None
        Names that the columns must have; they are taken in this order.
    owner : str
        Whose names are known, for messages.
    """
    labels, names = frame_labels(frame), frame_names(frame, known)
    order = list(range(len(labels)))
    if names is not None:
        check_feature_names(names)
        if known is not None:
            order = match_names(known, names, owner)
            names = tuple(known)
    arrays = []
    for i in order:
        arrays.append(column_array(frame_column(frame, i)))
        check_dtype(arrays[-1].dtype, f"column {str(labels[i])!a}")
    return arrays, names


def frame_column(frame: Any, i: int) -> Any:
    """A column as its library has it."""
    if _is_arrow(frame):
        return frame.column(i)
    return frame.iloc[:, i] if hasattr(frame, "iloc") else frame[frame.columns[i]]


def column_array(column: Any) -> NDArray[Any]:
    """A column as an array, with NaN for nulls."""
    if not hasattr(column, "dtype") and hasattr(column, "__array__"):
        return plain_array(column)  # Arrow; to_numpy of a batch refuses nulls
    array = plain_array(column.to_numpy())
    if array.dtype == object and getattr(column.dtype, "kind", "O") in "iufb":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))  # nullable numbers
    return array


def rows_for(rows: Any, feature_names: tuple[str, ...] | None) -> NDArray[Any]:
    """Rows as an array with the columns of a mixture's features; shape and values unchecked.

    A data frame is matched by name (`names_for`).
    """
    if hasattr(rows, "__dask_graph__") and hasattr(rows, "columns"):
        raise InputTypeError(
            f"rows must lie in this process; got a Dask collection ({type(rows).__name__}). Use "
            "the functions of momentmix.dask, or pass rows.compute()."
        )
    if not is_frame(rows):
        return plain_array(rows)
    known = names_for(feature_names, frame_names(rows, feature_names))
    arrays, _ = frame_arrays(rows, known, "the mixture")
    table = [array.astype(np.float64, copy=False) for array in arrays]
    return np.column_stack(table) if table else np.empty((0, 0))


# -- arrays -----------------------------------------------------------------------------------


def has_mask(rows: Any) -> bool:
    """Whether this is a masked array, or a list that holds some."""
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


def check_dtype(dtype: np.dtype[Any], where: str) -> None:
    """Raise unless the numbers are real."""
    if dtype.kind in "fiub":
        return
    if dtype.kind == "c":
        raise InputTypeError(
            f"rows must be real numbers; {where} is complex ({dtype}). Pass the real and the "
            "imaginary part as separate columns."
        )
    raise InputTypeError(
        f"rows must be real numbers; {where} has dtype {dtype}. Convert it to float64, or encode "
        "it as numbers first."
    )

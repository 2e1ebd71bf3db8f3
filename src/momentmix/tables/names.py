"""Names of columns and features: how messages print them, when they are valid, how they match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from momentmix.errors import InputError, InputTypeError, warn_caller
from momentmix.wording import did_you_mean, listed, plural

_MOST_LISTED = 8  # names in a message: a line or two

T = TypeVar("T")


def column_label(column: int, names: Sequence[str] | None) -> str:
    """A column as messages print it: its number, and its name where there is one (escaped)."""
    return f"column {column}" if names is None else f"column {column} ({names[column]!a})"


def escaped_names(names: Sequence[object]) -> str:
    """The first names as messages print them, escaped."""
    more = ["…"] if len(names) > _MOST_LISTED else []
    return ", ".join([*map(ascii, names[:_MOST_LISTED]), *more])


def check_feature_names(names: Iterable[str], n_features: int | None = None) -> tuple[str, ...]:
    """Feature names as a tuple of different strings."""
    # Sets have no order that the columns could follow.
    if isinstance(names, str | Set | Mapping) or not isinstance(names, Iterable):
        raise InputTypeError(f"feature_names must be a sequence of strings; got {names!r}.")
    names = tuple(names)
    for name in names:
        if not isinstance(name, str):
            raise InputTypeError(f"feature_names must be strings; got {name!r}.")
    if n_features is not None and len(names) != n_features:
        raise InputError(
            f"feature_names must be {n_features} different strings, one for each feature; got "
            f"{len(names)} name{plural(len(names))}."
        )
    if len(set(names)) != len(names):
        repeated = sorted({ascii(name) for name in names if names.count(name) > 1})
        raise InputError(
            f"feature_names must differ from each other; repeated: {', '.join(repeated)}. Rename "
            "the columns, or pass a plain array, whose columns are taken by position."
        )
    check_encodable(names)
    return tuple(map(str, names))


def check_encodable(names: Iterable[str]) -> None:
    """Raise where a name holds an unpaired surrogate, which no encoding of text can write."""
    for column, name in enumerate(names):
        if any("\ud800" <= c <= "\udfff" for c in name):
            raise InputError(
                f"feature names must be text; the name of column {column}, {name[:60]!a}, holds an "
                "unpaired surrogate, which cannot be written as UTF-8. Rename the column, or "
                "decode its name with the right encoding."
            )


# -- names → numbers of columns --------------------------------------------------------------------


def matching(column: object, names: Sequence[str] | None) -> list[int]:
    """Numbers of the columns whose names match a pattern as "A*"; a name is no pattern."""
    if not isinstance(column, str) or names is None or column in names:
        return []
    return [i for i, name in enumerate(names) if fnmatchcase(name, column)]


def number_of(
    column: object, names: Sequence[str] | None, n_columns: int, problem: str, note: str = ""
) -> int:
    """Number of a column that is given by number or name; `problem` begins the message of an error.

    A number may also be a name, as a year is.
    """
    is_name = isinstance(column, str)
    is_number = hasattr(column, "__index__") and not isinstance(column, bool)
    if is_number and 0 <= int(column.__index__()) < n_columns:  # type: ignore[attr-defined]
        return int(column.__index__())  # type: ignore[attr-defined]
    if names is not None and str(column) in names and (is_name or is_number):
        return list(names).index(str(column))
    if not is_name:
        numbers = f"a number from 0 to {n_columns - 1}"
        raise InputError(f"{problem} {column!a}; give a name, or {numbers}.")
    which = "the columns have no names" if names is None else f"there are {escaped_names(names)}"
    meant = did_you_mean(str(column).strip("*?"), names or ())
    raise InputError(f"{problem} {column!a}; {which}.{meant}{note}")


def feature_number(feature: int | str, names: Sequence[str] | None) -> int:
    """Number of a feature that is given by name; a number as it is."""
    return number_of(feature, names, 0, "no feature named") if isinstance(feature, str) else feature


def families_by_number(
    families: Mapping[Any, Any], names: Sequence[str] | None, n_columns: int, problem: str
) -> dict[int, Any]:
    """Families by the numbers of their columns; `problem` as of `number_of`."""
    by_pattern, chosen = dict[int, Any](), dict[int, Any]()
    for key, family in families.items():
        if numbers := matching(key, names):
            by_pattern |= dict.fromkeys(numbers, family)
            continue
        number = number_of(key, names, n_columns, problem)
        if number in chosen:
            raise InputError(
                f"families must name a column once; {column_label(number, names)} is there by name "
                "and by number. Leave one of them out."
            )
        chosen[number] = family
    return by_pattern | chosen


def match_names(
    expected: Sequence[str], names: Sequence[str], owner: str, *, others: bool = False, of: str = ""
) -> list[int]:
    """Positions of the names that `owner` has; raise where there are not these, or `others`.

    `of` begins the message: whose names these are.
    """
    wanted = {*expected}
    check_feature_names(name for name in names if name in wanted)
    positions = {name: i for i, name in enumerate(names)}
    lacking = [name for name in expected if name not in positions]
    extra = [name for name in positions if name not in wanted and (lacking or not others)]
    if not lacking and not extra:
        return [positions[name] for name in expected]
    reasons = [
        f"{escaped_names(some)} {'is' if len(some) == 1 else 'are'} {what}"
        for some, what in ((lacking, "missing"), (extra, "not among them"))
        if some
    ]
    cure = ("Rename" if extra else "Add or rename") if lacking else "Drop"
    raise InputError(
        f"{of}the columns must be those of {owner}, in any order; {' and '.join(reasons)}. "
        f"{cure} columns so that the names are {escaped_names(expected)}; the columns of a plain "
        "array are taken by position."
    )


def names_for(
    feature_names: tuple[str, ...] | None, names: Sequence[str] | None
) -> tuple[str, ...] | None:
    """Names by which a mixture takes the columns of rows; None, with a warning, by position."""
    if feature_names is not None or names is None:
        return feature_names
    numbers = tuple(map(str, range(len(names))))
    if {*numbers} == {*names}:  # as of an array that became a frame
        return numbers
    warn_caller(
        "the rows have feature names, the mixture has none: columns are taken by position. Fit to "
        "named rows, or use mixture.with_feature_names([...]).",
        UserWarning,
    )
    return None


def left_out_notes(reasons: Mapping[str, str]) -> list[str]:
    """Return a note for the columns of each reason; keys are names or numbers as texts.

    >>> left_out_notes({"'a'": "dates", "'b'": "it numbers the rows", "'c'": "it numbers the rows"})
    ["column 'a' left out: dates", "columns 'b', 'c' left out: each numbers the rows"]
    """
    return [
        f"column{plural(len(some))} {listed(some, _MOST_LISTED)} left out: "
        f"{why if len(some) == 1 else why.replace('it ', 'each ', 1)}"
        for why, some in alike(reasons).items()
    ]


def alike(values: Mapping[str, T]) -> dict[T, list[str]]:
    """Return the names that have each value."""
    names: dict[T, list[str]] = {}
    for name, value in values.items():
        names.setdefault(value, []).append(name)
    return names

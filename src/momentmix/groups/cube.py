"""`SummaryCube`: summaries of groups by their keys; filtered, rolled up, added and subtracted."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from itertools import repeat
from operator import itemgetter
from typing import Any

from momentmix.errors import InputError
from momentmix.groups.file import read_cube, write_cube
from momentmix.groups.keys import GroupKey, check_names, key_array, natural_order
from momentmix.summary.column_facts import column_facts, schema_of
from momentmix.summary.file import rows_of
from momentmix.summary.summary import MomentSummary, union_of_groups
from momentmix.wording import did_you_mean


class SummaryCube(Mapping[GroupKey, MomentSummary]):
    """Summaries of groups of rows, by their keys: a mapping from keys to `MomentSummary`.

    `summarize_by` makes it. The summaries have the same columns, schema and order. They are kept
    as bytes; `cube[key]` and `items` unpack them.

    Parameters
    ----------
    names : sequence of str
        Names of the keys.
    groups : mapping
        From values of the keys, in the order of `names`, to summaries or their bytes.

    Attributes
    ----------
    key_names : tuple of str

    Examples
    --------
    >>> import pandas as pd, momentmix as mm
    >>> frame = pd.DataFrame({"region": ["EU", "US", "EU"], "x": [1.0, 5.0, 3.0]})
    >>> cube = mm.summarize_by(frame, by="region")
    >>> {key: summary.mean.tolist() for key, summary in cube.items()}
    {('EU',): [2.0], ('US',): [5.0]}
    >>> cube.where(region="EU").total().n_rows
    2
    """

    def __init__(
        self, names: Sequence[str], groups: Mapping[GroupKey, MomentSummary | bytes]
    ) -> None:
        self.key_names = tuple(names)
        check_names(self.key_names)
        if any(not isinstance(key, tuple) or len(key) != len(self.key_names) for key in groups):
            raise InputError(f"groups must have a value of each key, {', '.join(self.key_names)}.")
        arrays = [
            key_array([*map(itemgetter(k), groups)], f"key {x!a}") for k, x in enumerate(names)
        ]
        self._types = [array.type for array in arrays]
        keys = list(zip(*(array.to_pylist() for array in arrays), strict=True)) or list(groups)
        rows = sorted(
            zip(keys, groups.values(), strict=True), key=lambda row: [*map(natural_order, row[0])]
        )
        self._groups: dict[GroupKey, bytes] = {
            key: group if isinstance(group, bytes) else group.to_bytes() for key, group in rows
        }

    def _of(self, groups: Mapping[GroupKey, bytes]) -> SummaryCube:
        """A cube of some of the groups, in their order."""
        twin = copy(self)
        twin._groups = dict(groups)
        return twin

    # -- groups -------------------------------------------------------------------------------

    def _key(self, key: Any) -> Any:
        """A key as it is in the cube, with dates and numbers in the place of their texts."""
        key = key if isinstance(key, tuple) else (key,)
        is_whole = len(key) == len(self.key_names)
        return tuple(map(_typed, key, self._types)) if is_whole else key

    def __getitem__(self, key: Any) -> MomentSummary:
        return union_of_groups([self._groups[self._key(key)]])

    def __contains__(self, key: object) -> bool:
        return self._key(key) in self._groups

    def __iter__(self) -> Iterator[GroupKey]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def n_rows(self) -> int:
        """Number of rows of all groups."""
        return sum(self.group_rows.values())

    @property
    def group_rows(self) -> dict[GroupKey, int]:
        """Number of rows of each group."""
        return {key: rows_of(group) for key, group in self._groups.items()}

    def where(self, **conditions: Any) -> SummaryCube:
        """The groups whose keys have these values.

        Parameters
        ----------
        **conditions
            By name of a key: a value, a slice of first and last value (both included), a collection
            of these, or a function of the value. A text is read as the type of the key; any other
            value must have it.

        Examples
        --------
        ``cube.where(region="EU")``, ``cube.where(week=slice("2026-01-05", "2026-03-30"))``,
        ``cube.where(store=lambda number: number < 100)``
        """
        kept = self._groups
        for name, wanted in conditions.items():
            k = self._number(name)
            accepts = _condition(f"key {name!a}", wanted, self._types[k])
            kept = {key: group for key, group in kept.items() if accepts(key[k])}
        return self._of(kept)

    def rollup(self, *names: str) -> SummaryCube:
        """The cube by some of its keys: groups that agree in these are merged, exactly."""
        if not names:
            raise InputError(f"name a key to keep: {', '.join(self.key_names)}; or use total().")
        numbers = [self._number(name) for name in names]
        parts = dict[GroupKey, list[bytes]]()
        for key, group in self._groups.items():
            parts.setdefault(tuple([key[k] for k in numbers]), []).append(group)
        return SummaryCube(names, {key: union_of_bytes(some) for key, some in parts.items()})

    def total(self) -> MomentSummary:
        """The summary of all groups together."""
        if not self._groups:
            raise InputError("the cube has no groups.")
        return union_of_groups([*self._groups.values()])

    def at_least(self, n_rows: int) -> SummaryCube:
        """The groups of at least so many rows."""
        kept = {key: group for key, group in self._groups.items() if rows_of(group) >= n_rows}
        return self._of(kept)

    def _number(self, name: str) -> int:
        if name not in self.key_names:
            raise InputError(
                f"the cube has no key {name!a}; it has {', '.join(self.key_names)}."
                f"{did_you_mean(str(name), self.key_names)}"
            )
        return self.key_names.index(name)

    # -- arithmetic ---------------------------------------------------------------------------

    def __add__(self, other: Any) -> SummaryCube:
        """Groups of both; groups with the same keys are merged."""
        self._check_alike(other)
        groups = self._groups | other._groups
        for key in self._groups.keys() & other._groups.keys():
            groups[key] = union_of_bytes([self._groups[key], other._groups[key]])
        return SummaryCube(self.key_names, groups)

    def __radd__(self, other: Any) -> SummaryCube:
        return self if isinstance(other, int) and other == 0 else self.__add__(other)

    def __sub__(self, other: Any) -> SummaryCube:
        """The rows that are not in the other cube; groups without rows are left out."""
        self._check_alike(other)
        if unknown := other._groups.keys() - self._groups.keys():
            raise InputError(
                f"group {unknown.pop()!a} is not in the cube to subtract from; take away only what "
                "was added."
            )
        groups = {key: (self[key] - other[key]).to_bytes() for key in other}
        return self._of(self._groups | groups).at_least(1)

    def _check_alike(self, other: Any) -> None:
        names = getattr(other, "key_names", [])
        if names != self.key_names:
            raise InputError(
                f"cubes can be combined with cubes of the same keys, {', '.join(self.key_names)}; "
                f"got {', '.join(names) or type(other).__name__}. Bring both to common keys with "
                "rollup() (--rollup)."
            )
        for one, another in zip(self.values(), other.values(), strict=False):
            one.check_alike(another)
            return

    # -- files and tables ---------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a Parquet file (.parquet) of the columns keys, n_rows, summary and checksum.

        Other programs can filter it by the keys. See docs/file-format.md.
        """
        write_cube(path, self.key_names, self._groups)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SummaryCube:
        """Read a cube; also one that another program has filtered.

        Raises
        ------
        SummaryFileError
            Where the file is damaged, or no cube.
        """
        return cls(*read_cube(path))

    def to_frame(self) -> Any:
        """Keys, numbers of rows, and what the columns hold, as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            The keys; n_rows; means of columns of numbers (of ``log amount`` where the schema takes
            logarithms), shares of levels as ``plan=gold``, both of the cells that are seen; and
            shares of missing cells as ``amount missing``.
        """
        import pandas as pd

        rows = [dict(zip(self.key_names, key, strict=True)) | _values(s) for key, s in self.items()]
        return pd.DataFrame(rows, columns=None if rows else [*self.key_names, "n_rows"])

    def __repr__(self) -> str:
        keys = ", ".join(self.key_names)
        return f"SummaryCube(by {keys}: {len(self):,} groups, {self.n_rows:,} rows)"


def _values(summary: MomentSummary) -> dict[str, Any]:
    """Return means and shares of the columns of a group, by names."""
    values: dict[str, Any] = {"n_rows": summary.n_rows}
    for column, facts in zip(schema_of(summary).columns, column_facts(summary), strict=True):
        names = [f"{facts.name}={level}" for level in facts.levels]
        values |= dict(zip(names, facts.shares or repeat(None), strict=False))
        if not names:
            values[column.value_name(facts.name)] = facts.mean
        if column.has_missing and facts.seen is not None:
            values[f"{facts.name} missing"] = 1.0 - facts.seen
    return values


def union_of_bytes(groups: Sequence[bytes]) -> bytes:
    """The sum of summaries as bytes."""
    return groups[0] if len(groups) == 1 else union_of_groups(groups).to_bytes()


def _typed(value: Any, type_: Any) -> Any:
    """The value of a text, where the key has another type."""
    import pyarrow as pa

    if isinstance(value, str) and not pa.types.is_string(type_):
        with suppress(pa.ArrowException):
            return pa.scalar(value).cast(type_).as_py()
    return value


def _condition(label: str, wanted: Any, type_: Any) -> Callable[[Any], bool]:
    """Whether a value of a key is wanted; raise where it has not the type of the key."""
    if callable(wanted):
        return lambda value: bool(wanted(value))
    several = isinstance(wanted, Collection) and not isinstance(wanted, str)
    values = wanted if several else [wanted]
    parts = [x if isinstance(x, slice) else slice(x, x, 1) for x in values]
    ends = [_typed(x, type_) for part in parts for x in (part.start, part.stop)]
    array = key_array(ends, label)
    if array.type != type_ and "null" not in (str(array.type), str(type_)):
        raise InputError(
            f"{label} is {type_}; got {wanted!r} ({array.type}), which equals none. Give values of "
            "the same type; dates are written as 2026-01-31 (ISO 8601)."
        )
    lows, highs = array.to_pylist()[::2], array.to_pylist()[1::2]

    def accepts(value: Any) -> bool:
        for part, low, high in zip(parts, lows, highs, strict=True):
            if part.step is not None and value == low:
                return True
            if part.step is None and value is not None:
                order = natural_order(value)
                above = low is None or natural_order(low) <= order
                if above and (high is None or order <= natural_order(high)):
                    return True
        return False

    return accepts

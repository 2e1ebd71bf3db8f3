"""The common schema of two tables, or of two summaries of tables.

Whatever the order in which schemas are joined, the result is the same: a column has missing cells
if it has some in any of them, and the center that is nearest to 0. (A summary of several shards has
centers of its own.)
"""

from __future__ import annotations

from dataclasses import replace

from momentmix.errors import InputError
from momentmix.names import column_label
from momentmix.tables.column import Column, Level
from momentmix.schema.encoding import family_key
from momentmix.tables.schema import Schema


def plain_schema(n_columns: int, names: tuple[str, ...] | None = None) -> Schema:
    """The schema of numbers without missing cells."""
    return Schema(tuple(Column(name) for name in names or (None,) * n_columns))


def joined(left: Schema, right: Schema) -> Schema:
    """The schema in which both kinds of rows can be encoded; an error where there is none.

    Examples
    --------
    >>> seen, plain = Column("age", has_missing=True, center=32.0), Column("age")
    >>> joined(Schema((plain,)), Schema((seen,))) == Schema((seen,))
    True
    """
    if left.n_columns != right.n_columns:
        raise InputError(
            f"tables must have the same columns; got {left.n_columns} and {right.n_columns}. "
            "Select the common ones."
        )
    names = left.column_names or right.column_names
    pairs = zip(left.columns, right.columns, strict=True)
    return Schema(tuple(_joined(a, b, column_label(i, names)) for i, (a, b) in enumerate(pairs)))


def _joined(a: Column, b: Column, label: str) -> Column:
    if a.name is not None and b.name is not None and a.name != b.name:
        raise InputError(
            f"tables must have the same columns; {label} is {b.name!a} in the other. Rename or "
            "select the columns."
        )
    key = family_key(a if a.name is not None else b, label)
    if a.family != b.family:
        raise InputError(
            f"a column must have one family; {label} is {a.family} in one table and {b.family} in "
            "the other. Pass the same families for both."
        )
    if a.transform != b.transform:
        wanted = a.transform or b.transform
        raise InputError(
            f"a column must have one transform; {label} is {a.transform or 'as it is'} in one "
            f"table and {b.transform or 'as it is'} in the other. Pass the same for both: "
            f"families={{{key}: {wanted!r}}}."
        )
    if a.levels != b.levels:
        both = [*a.levels, *(level for level in b.levels if level not in a.levels)]
        raise InputError(
            f"a column must have the same levels, in one order; {label} has "
            f"{', '.join(map(ascii, a.levels))} in one table and "
            f"{', '.join(map(ascii, b.levels))} in the other. Give all levels for both: "
            f"families={{{key}: {both!a}}}."
        )
    centers = [column.center for column in (a, b) if column.has_missing]
    return replace(
        a,
        name=a.name or b.name,
        levels=_common_levels(a, b),
        has_missing=bool(centers),
        center=min(centers, key=lambda c: (abs(c), c), default=0.0),
    )


def _common_levels(a: Column, b: Column) -> tuple[Level, ...]:
    """The levels, which are equal; integers where one column has integers and one bools."""
    if all(isinstance(level, str | bool) for level in (*a.levels, *b.levels)):
        return a.levels
    return tuple(int(level) for level in a.levels)

"""How a table is read: which columns, and the characters of text files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from momentmix.errors import InputError
from momentmix.rows.columns import Selection
from momentmix.rows.csv.dialect import Dialect
from momentmix.tables.opening import checked_nulls, open_rows, tables_of
from momentmix.rows.source import Missing, RowSource
from momentmix.rows.table import Table
from momentmix.wording import did_you_mean

_OF_FILES = ("na_values", "delimiter", "decimal", "thousands", "header", "by_name")


_BESIDE = ("families", "missing")  # keywords that all functions with `Reading` have


@dataclass(frozen=True)
class Reading:
    """Keywords of `open_rows` that `fit` and `summarize` have too.

    Attributes
    ----------
    columns, exclude, numeric_only
        Which columns to take, of files and of tables in memory.
    na_values, delimiter, decimal, thousands, header, by_name
        For files.
    """

    columns: Sequence[str | int] | None = None
    exclude: Sequence[str | int] | None = None
    numeric_only: bool = False
    na_values: Sequence[str] | None = None
    delimiter: str | None = None
    decimal: str = "."
    thousands: str | None = None
    header: bool | None = None
    by_name: bool = False

    @property
    def selection(self) -> Selection:
        """Which columns to take."""
        return Selection(self.columns, self.exclude, self.numeric_only)

    def open(self, source: Any, missing: Missing, **options: Any) -> RowSource:
        """Open what `open_rows` opens."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        columns = own.pop("columns")
        return open_rows(source, columns, missing, **own, **options)

    def tables(self, source: Any) -> list[Table]:
        """The tables of a source, before columns are chosen."""
        nulls = checked_nulls(self.na_values)
        dialect = Dialect(self.delimiter, self.decimal, self.thousands, nulls, self.header)
        return tables_of(source, dialect)

    def check_in_memory(self) -> None:
        """Raise where an option for files was given."""
        for field in fields(self):
            if field.name in _OF_FILES and getattr(self, field.name) != field.default:
                raise InputError(
                    f"{field.name} is for files; the rows are in memory. Leave it out, and convert "
                    "the columns."
                )

    def check_nothing(self, what: str) -> None:
        """Raise where any option was given for what is no table."""
        for field in fields(self):
            if getattr(self, field.name) != field.default:
                raise InputError(f"{field.name} is for tables; {what}. Leave it out.")


ALL_AS_IT_IS = Reading()


def reading_from(options: dict[str, Any]) -> Reading:
    """Options by name; an unknown one is an error, as of a function.

    Examples
    --------
    >>> reading_from({"exclude": ["id"]}).selection.exclude
    ['id']
    """
    known = [field.name for field in fields(Reading)]
    for name in options:
        if name not in known:
            raise TypeError(
                f"unexpected keyword argument {name!r}; keywords for reading tables are "
                f"{', '.join(known)}.{did_you_mean(name, (*known, *_BESIDE))}"
            )
    return Reading(**options)

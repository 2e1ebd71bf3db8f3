"""`open_sources`: anything that holds a table → sources; `open_rows`: the same → rows."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from momentmix.errors import (
    FitWarning,
    InputError,
    InputTypeError,
    NoInputError,
    warn_caller,
    without_secrets,
)
from momentmix.tables.formats import arrow_files, copies
from momentmix.tables.formats.csv_file import CsvFile
from momentmix.tables.formats.csv_text import Dialect
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.formats.npy_file import NpyFile
from momentmix.tables.formats.pandas_files import read_excel, read_json_lines
from momentmix.tables.selection import choose_columns, match_columns, usable_columns
from momentmix.tables.source import Source
from momentmix.tables.table_rows import Missing, TableRows, check_missing
from momentmix.wording import did_you_mean, option

_READERS: dict[str, Any] = {
    ".npy": NpyFile,
    ".parquet": arrow_files.ParquetFile,
    ".arrow": arrow_files.ArrowFile,
    ".feather": arrow_files.ArrowFile,
    ".xlsx": read_excel,
    ".csv": CsvFile,
    ".tsv": CsvFile,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
}
_KNOWN = f"{', '.join(_READERS)}; the last four also with .gz"
_READERS |= {f"{suffix}.gz": _READERS[suffix] for suffix in (".csv", ".tsv", ".jsonl", ".ndjson")}
_OF_FILES = ("na_values", "delimiter", "decimal", "header")
_BY_HAND = (
    "Download it first, or pipe its CSV to '-', e.g. curl -s https://… | momentmix summarize - -o "
    "x.mms."
)


@dataclass(frozen=True)
class Reading(Dialect):
    """Keywords of `open_rows` for reading tables, which `fit` and `summarize` have too."""

    columns: Sequence[str | int] | None = None
    exclude: Sequence[str | int] | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Reading:
        """Options by name; an unknown one is an error, as of a function."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                hint = did_you_mean(name, (*known, "families", "missing"))
                text = f"keywords for reading tables are {', '.join(known)}.{hint}"
                raise TypeError(f"unexpected keyword argument {name!r}; {text}")
        return cls(**options)

    def open(
        self,
        data: Any,
        missing: Missing = "error",
        expected: Sequence[str] | None = None,
    ) -> TableRows:
        """The rows of anything that holds a table, or of sources that are open already."""
        check_missing(missing)
        sources = open_sources(data, self, expected)
        guessed, columns = _header_notes(sources, expected), self.columns
        if columns is None and expected is not None and sources[0].column_names is not None:
            columns = list(expected)
        are_chosen, first = columns is not None, choose_columns(sources[0], columns)
        others = [match_columns(sources[0], first, x, not are_chosen) for x in sources[1:]]
        found = [first, *others]
        places, notes = usable_columns(sources, found, self.exclude, are_chosen)
        chosen = [[numbers[k] for k in places] for numbers in found]
        return TableRows(sources, chosen, missing, are_chosen, (*guessed, *notes))

    def check_for(self, data: Any) -> None:
        """Raise where an option was given that rows of this kind do not take."""
        if isinstance(data, TableRows):
            self.check_nothing("the rows are opened already")
        elif not can_open(data):
            why = "is for files; the rows are in memory. Leave it out, and convert the columns."
            self._refuse(_OF_FILES, why)

    def check_nothing(self, what: str) -> None:
        """Raise where any option was given for what is no table."""
        names = [field.name for field in fields(self)]
        self._refuse(names, f"is for tables; {what}. Leave it out.")

    def _refuse(self, names: Sequence[str], why: str) -> None:
        for name in names:
            if getattr(self, name) != getattr(READ_ALL, name):
                raise InputError(f"{option(**{name: ...})} {why}")


READ_ALL = Reading()


def open_rows(
    source: Any,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    *,
    exclude: Sequence[str | int] | None = None,
    na_values: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    header: bool | None = None,
) -> TableRows:
    """Open rows wherever they are, to read them in blocks as often as needed.

    Parameters
    ----------
    source : array, data frame, query, path, address, glob, folder, list of paths, or binary stream
        Arrays and pandas, polars or Arrow tables in memory; a polars LazyFrame, DuckDB relation,
        pyarrow Dataset, Scanner or RecordBatchReader, or anything with ``__arrow_c_stream__``;
        files .npy, .parquet, .arrow, .feather, .xlsx (the first sheet), .csv, .tsv, .jsonl and
        .ndjson, the last four also with .gz; folders and globs of such files, in the order of their
        names; addresses that fsspec reads (s3://, https://, …), whose files are copied to a
        temporary folder, as are queries and streams of batches or of bytes, which are CSV.
    columns : sequence of str or int, optional
        Names or numbers of the columns to take, in this order; by default all but dates. A name
        that several columns have is an error: take these by number.
    exclude : sequence of str or int, optional
        Columns to leave out.
    na_values : sequence of str, optional
        For text files: texts that mean a missing cell, in place of NA, NaN, null and their
        like. An empty field is always missing.
    missing : {"error", "drop", "model"}
        What to do with rows that hold missing, NaN or infinite values: raise, leave them out, or
        give NaN for a missing cell, for a fit with ``missing="model"`` (infinite ones raise).
    delimiter, decimal : str
        For CSV; by default a comma (a tab for .tsv) and a point. ASCII characters.
    header : bool, optional
        For CSV and Excel: whether the first line holds the names of the columns. By default it does
        if any of it is text; numbers are names where they count 0, 1, … or 1, 2, … over two or more
        columns and no other row is like them, where they alone are quoted, where they are years
        above numbers that are none, and where they are whole above columns of fractions; ``notes``
        of the rows says so.

    Returns
    -------
    TableRows
        With ``n_features``, ``feature_names``, ``n_rows`` and ``blocks()``.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_rows(np.arange(6.0).reshape(3, 2), columns=[1])
    >>> [block.tolist() for block in source.blocks()]
    [[[1.0], [3.0], [5.0]]]
    """
    reading = Reading(delimiter, decimal, na_values, header, columns, exclude)
    return reading.open(source, missing)


def open_sources(
    data: Any, reading: Reading = READ_ALL, expected: Sequence[str] | None = None
) -> list[Source]:
    """The sources of anything that holds a table, one for each file; `expected` are its names."""
    if isinstance(data, Source):
        return [data]
    if isinstance(data, list) and data and all(isinstance(x, Source) for x in data):
        return data
    if names := path_list(data):
        return [open_file(file, reading) for name in names for file in _files(name)]
    if arrow_files.is_query(data):  # whose columns may be attributes
        return [arrow_files.open_query(data)]
    if _is_stream(data):
        return [open_file(copies.copied_stream(data), reading)]
    if hasattr(data, "__next__"):
        raise InputTypeError(
            "rows must be readable more than once; an iterator is not. Pass an array or a file."
        )
    return [MemoryTable(data, expected=expected)]


def _header_notes(sources: Sequence[Source], expected: Sequence[str] | None) -> tuple[str, ...]:
    """A note on first lines that were taken for names, of all sources; not of expected names."""
    found = [source for source in sources if source.header_note]
    names = found[0].column_names if found else ()
    if not found or (expected is not None and (names is None or {*expected} <= {*names})):
        return ()
    more = f" (so in {len(found) - 1} more files)" if len(found) > 1 else ""
    return (f"{found[0].header_note}{more}",)


def warn_of_header(sources: Sequence[Source], expected: Sequence[str] | None) -> None:
    """Warn where rows that a model reads lack a first line which was taken for names."""
    for note in _header_notes(sources, expected):
        warn_caller(f"{note}.", FitWarning)


def can_open(data: Any) -> bool:
    """Whether this is a path, a list of paths, a stream or a query, which `open_rows` opens."""
    return bool(path_list(data)) or arrow_files.is_query(data) or _is_stream(data)


def _is_stream(source: Any) -> bool:
    return hasattr(source, "read") and not hasattr(source, "to_numpy")


def path_list(source: Any) -> list[str]:
    """The paths that `source` is, or is a list of; empty if it is anything else."""
    items = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(item, str | os.PathLike) for item in items):
        return []
    return [os.fspath(item) for item in items]


def expand(text: str) -> list[Path]:
    """The files of a path, folder or pattern."""
    path = Path(text)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if _readable(p.relative_to(path)) and p.is_file())
        if not files:
            raise NoInputError(f"{text} is a folder without data files ({_KNOWN}); give another.")
        return files
    if path.exists():
        return [path]
    if copies.is_address(text) or not glob.has_magic(text):
        raise missing_input(text)
    files = sorted(Path(p) for p in glob.glob(text, recursive=True) if Path(p).is_file())
    if not files:
        raise NoInputError(f"no file matches {text!a}; check the pattern, and its quotes.")
    return files


def missing_input(path: str) -> NoInputError:
    """The error for a path at which there is no file; its text is another for an address."""
    if not copies.is_address(path):
        return NoInputError(f"{path} does not exist; check the path.")
    cure = f"momentmix reads files on this machine. {_BY_HAND}"
    if path.startswith("file:"):
        cure = "give the path alone, without file://."
    return NoInputError(f"{without_secrets(path)} is an address; {cure}")


def _files(text: str) -> list[Path] | list[copies.LocalCopy]:
    """The files of a path, folder or pattern; copies of those at an address."""
    if not copies.is_address(text) or Path(text).exists():
        return expand(text)
    if text.startswith("file:"):
        raise missing_input(text)
    if find_spec("fsspec") is None:
        raise NoInputError(
            f"{without_secrets(text)} is an address; reading it needs fsspec, which is not "
            f"installed: pip install momentmix[remote]. {_BY_HAND}"
        )
    return copies.remote_files(text, lambda path: _readable(Path(path)), _suffix)


def _readable(relative: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in relative.parts)
    return not hidden and bool(_suffix(relative.name))


def _suffix(name: str) -> str:
    """Return the ending of a name that has a known format, in lower case; else ""."""
    return next((s for s in _READERS if name.lower().endswith(s)), "")


def open_file(path: str | os.PathLike[str], dialect: Dialect) -> Source:
    """The source of a data file, by the ending of its name."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InputError(f"{path} is not a regular file; give a file, or pipe CSV to '-'.")
    suffix = _suffix(os.path.basename(path))
    if not suffix:
        raise InputError(
            f"{path} has no known ending; momentmix reads {_KNOWN}. Rename or convert it."
        )
    source: Source = _READERS[suffix](path, dialect)
    return source

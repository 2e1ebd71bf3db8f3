"""`open_sources`: anything that holds a table → sources; `Reading`: the keywords of reading."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, fields
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
from momentmix.tables.formats.other_files import NpyFile, read_excel, read_json_lines
from momentmix.tables.source import Source, choose_columns, match_columns, usable_columns
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
        self, data: Any, missing: Missing = "error", expected: Sequence[str] | None = None
    ) -> TableRows:
        """The rows of anything that holds a table; without columns, those `expected`."""
        check_missing(missing)
        sources, columns = open_sources(data, self, expected), self.columns
        if columns is None and expected is not None and sources[0].column_names is not None:
            columns = list(expected)
        chosen = choose_columns(sources[0], columns)
        numbers = [match_columns(sources[0], chosen, x, columns is None) for x in sources]
        places, notes = usable_columns(sources, numbers, self.exclude, columns is not None)
        numbers = [[own[k] for k in places] for own in numbers]
        notes = (*_header_notes(sources, expected), *notes)
        return TableRows(sources, numbers, missing, columns is not None, notes)

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


def _header_notes(sources: Sequence[Source], expected: Sequence[str] | None) -> list[str]:
    """A note on first lines that were taken for names, of all sources; not of expected names."""
    guessed = [source for source in sources if source.header_note]
    names = guessed[0].column_names if guessed else ()
    if not guessed or (expected is not None and (names is None or {*expected} <= {*names})):
        return []
    more = f" (so in {len(guessed) - 1} more files)" if len(guessed) > 1 else ""
    return [f"{guessed[0].header_note}{more}"]


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


def _files(text: str) -> list[Path] | list[copies.LocalCopy]:
    """The files of a path, folder or pattern; copies of those at an address."""
    if copies.is_address(text) and not text.startswith("file:") and not Path(text).exists():
        return copies.remote_files(text, _suffix)
    return expand(text)


def expand(text: str) -> list[Path]:
    """The files of a path, folder or pattern."""
    path = Path(text)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if _suffix(p.relative_to(path)) and p.is_file())
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
    cure = "download it first."
    if path.startswith("file:"):
        cure = "give the path alone, without file://."
    return NoInputError(f"{without_secrets(path)} is an address; {cure}")


def _suffix(path: str | os.PathLike[str]) -> str:
    """The ending, in lower case, of a path that has a known format and no hidden part; else ""."""
    parts = Path(path).parts
    if not parts or any(part.startswith((".", "_")) for part in parts):
        return ""
    return next((suffix for suffix in _READERS if parts[-1].lower().endswith(suffix)), "")


def open_file(path: str | os.PathLike[str], dialect: Dialect) -> Source:
    """The source of a data file, by the ending of its name."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InputError(f"{path} is not a regular file; give a file, or pipe CSV to '-'.")
    name = os.path.basename(path).lower()
    reader = next((_READERS[suffix] for suffix in _READERS if name.endswith(suffix)), None)
    if reader is None:
        raise InputError(
            f"{path} has no known ending; momentmix reads {_KNOWN}. Rename or convert it."
        )
    source: Source = reader(path, dialect)
    return source

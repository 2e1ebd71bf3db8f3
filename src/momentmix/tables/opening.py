"""`open_sources`: anything that holds a table → sources; `Reading`: the keywords of reading."""

from __future__ import annotations

import errno
import glob
import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from momentmix.errors import (
    FitWarning,
    InputError,
    InputTypeError,
    MissingDependencyError,
    NoInputError,
    warn_caller,
    without_secrets,
)
from momentmix.tables.arrow_files import ArrowFile, LocalCopy, ParquetFile, is_query, open_query
from momentmix.tables.csv_file import CsvFile
from momentmix.tables.csv_text import Dialect
from momentmix.tables.memory import MemoryTable
from momentmix.tables.other_files import NpyFile, read_excel, read_json_lines
from momentmix.tables.source import (
    Source,
    choose_columns,
    first_line,
    match_columns,
    usable_columns,
)
from momentmix.tables.table_rows import Missing, TableRows, check_missing
from momentmix.wording import option

_READERS: dict[str, Any] = {
    ".npy": NpyFile,
    ".parquet": ParquetFile,
    ".arrow": ArrowFile,
    ".feather": ArrowFile,
    ".xlsx": read_excel,
    ".csv": CsvFile,
    ".tsv": CsvFile,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
}
_KNOWN = f"{', '.join(_READERS)}; the last four also with .gz"
_READERS |= {f"{suffix}.gz": _READERS[suffix] for suffix in (".csv", ".tsv", ".jsonl", ".ndjson")}
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path
_AT_ONCE = 1 << 20  # bytes


@dataclass(frozen=True)
class Reading(Dialect):
    """Keywords of `open_rows` for reading tables, which `fit` and `summarize` have too."""

    columns: Sequence[str | int] | None = None
    exclude: Sequence[str | int] | None = None

    def of_files(self) -> dict[str, Any]:
        """Options for files that differ from the usual ones, as a schema keeps them."""
        names = [field.name for field in fields(Dialect)]
        return {x: getattr(self, x) for x in names if getattr(self, x) != getattr(READ_ALL, x)}

    def with_usual(self, usual: dict[str, Any]) -> Reading:
        """The options, with others for those of files that were not given."""
        return replace(self, **{**usual, **self.of_files()})

    def open(
        self, data: Any, missing: Missing = "error", expected: Sequence[str] | None = None
    ) -> TableRows:
        """The rows of anything that holds a table; without columns, those `expected`."""
        check_missing(missing)
        sources, columns = open_sources(data, self, expected), self.columns
        first = sources[0]
        if columns is None and expected is not None and first.column_names is not None:
            columns = list(expected)
        chosen = choose_columns(first, columns)
        numbers = [match_columns(first, chosen, x, columns is None) for x in sources]
        excluded = [] if self.exclude is None else choose_columns(first, self.exclude)
        places, notes = usable_columns(sources, numbers, excluded, columns is not None)
        numbers = [[every[k] for k in places] for every in numbers]
        notes = [*_header_notes(sources, expected), *notes]
        return TableRows(sources, numbers, missing, columns is not None, tuple(notes))

    def check_for(self, data: Any) -> None:
        """Raise where an option was given that rows of this kind do not take."""
        if isinstance(data, TableRows):
            self.check_nothing("the rows are opened already")
        elif not can_open(data):
            why = "is for files; the rows are in memory. Leave it out, and convert the columns."
            for name in self.of_files():
                raise InputError(f"{option(**{name: ...})} {why}")

    def check_nothing(self, what: str) -> None:
        """Raise where any option was given for what is no table."""
        for name in [field.name for field in fields(self)]:
            if getattr(self, name) != getattr(READ_ALL, name):
                raise InputError(f"{option(**{name: ...})} is for tables; {what}. Leave it out.")


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
    if is_query(data):  # whose columns may be attributes
        return [open_query(data)]
    if _is_stream(data):
        return [open_file(_copied(data), reading)]
    if hasattr(data, "__next__"):
        raise InputTypeError(
            "rows must be readable more than once; an iterator is not. Pass an array or a file, or "
            "add each block to a MomentSummary by update()."
        )
    return [MemoryTable(data, expected=expected)]


def _header_notes(sources: Sequence[Source], expected: Sequence[str] | None) -> list[str]:
    """A note on first lines that were taken for names, of all sources; not of expected names."""
    guessed = [source for source in sources if source.header_note]
    names = guessed[0].column_names if guessed else ()
    if not guessed or (expected is not None and (names is None or {*expected} <= {*names})):
        return []
    return [str(guessed[0].header_note)]


def warn_of_header(sources: Sequence[Source], expected: Sequence[str] | None) -> None:
    """Warn where rows that a model reads lack a first line which was taken for names."""
    for note in _header_notes(sources, expected):
        warn_caller(f"{note}.", FitWarning)


def can_open(data: Any) -> bool:
    """Whether this is a path, a list of paths, a stream or a query, which `open_rows` opens."""
    return bool(path_list(data)) or is_query(data) or _is_stream(data)


def _is_stream(source: Any) -> bool:
    return hasattr(source, "read") and not hasattr(source, "to_numpy")


def _copied(stream: Any) -> LocalCopy:
    """A copy of a binary stream of CSV."""
    copy = LocalCopy("standard input", ".csv")
    with copy as path, open(path, "wb") as file:
        while data := stream.read(_AT_ONCE):
            if not isinstance(data, bytes | bytearray):
                raise InputTypeError(
                    f"a stream must give bytes; this one gives {type(data).__name__}. Open the "
                    "file in binary mode: open(path, 'rb')."
                )
            file.write(data)
    return copy


# -- paths -----------------------------------------------------------------------------------------


def path_list(source: Any) -> list[str]:
    """The paths that `source` is, or is a list of; empty if it is anything else."""
    items = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(item, str | os.PathLike) for item in items):
        return []
    return [os.fspath(item) for item in items]


def _files(text: str) -> list[Path] | list[LocalCopy]:
    """The files of a path, folder or pattern; copies of those at an address."""
    if _ADDRESS.match(text) and not text.startswith("file:") and not Path(text).exists():
        return _remote_files(text)
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
    if _ADDRESS.match(text) or not glob.has_magic(text):
        raise missing_input(text)
    files = sorted(Path(p) for p in glob.glob(text, recursive=True) if Path(p).is_file())
    if not files:
        raise NoInputError(f"no file matches {text!a}; check the pattern, and its quotes.")
    return files


def missing_input(path: str) -> NoInputError:
    """The error for a path at which there is no file; its text is another for an address."""
    if not _ADDRESS.match(path):
        return NoInputError(f"{path} does not exist; check the path.")
    is_file = path.startswith("file:")
    cure = "give the path alone, without file://." if is_file else "download it first."
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


def _remote_files(text: str) -> list[LocalCopy]:
    """Copies of the files of an address, in order; in a folder of those with a known suffix."""
    address = re.sub("^([^:/]+):/+", r"\1://", text)  # with both slashes
    web = address.startswith(("http:", "https:"))  # no folders there, and ? begins a query
    name, copies = without_secrets(address), list[LocalCopy]()
    try:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(address)
        files = [path]
        if "*" in path or (not web and glob.has_magic(path)):
            files = [p for p in system.glob(path) if not system.isdir(p)]
        elif not web and system.isdir(path):
            below = len(path.rstrip("/")) + 1
            files = [p for p in system.find(path) if _suffix(p[below:])]
        for file in sorted(files):
            label = without_secrets(text if file == path else str(system.unstrip_protocol(file)))
            ending = os.path.basename(file.partition("?")[0]).lstrip("._")
            copies.append(LocalCopy(label, _suffix(ending)))
            with copies[-1] as target:
                system.get_file(file, target)
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} is an address; reading it needs a package that is not installed ({error}): "
            "pip install momentmix[remote]. Or download the file."
        ) from None
    except Exception as error:  # each system has exceptions of its own
        if isinstance(error, FileNotFoundError):
            raise NoInputError(f"{name} does not exist; check the address.") from None
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOSPC:
            raise
        reason = without_secrets(first_line(error))
        raise InputError(
            f"{name} cannot be fetched: {type(error).__name__}: {reason}. Check the address, the "
            "connection and the access rights."
        ) from None
    if not copies:
        raise NoInputError(f"no data file is at {name!a}; check the address.")
    return copies

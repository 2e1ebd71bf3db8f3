"""`open_rows`: anything that holds rows → a `RowSource`."""

from __future__ import annotations

import glob
import os
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from momentmix.arguments import check_count
from momentmix.errors import InputError, InputTypeError, NoInputError, without_secrets
from momentmix.rows.columns import choose_columns, match_columns, usable_columns
from momentmix.rows.csv.compression import PACKINGS, split_packing
from momentmix.rows.csv.dialect import Dialect
from momentmix.rows.formats.memory_tables import memory_table
from momentmix.rows.formats.queries import is_query, query_table
from momentmix.rows.formats.remote import can_fetch, fetched, is_address, name_at, remote_files
from momentmix.rows.header import header_notes
from momentmix.rows.source import Missing, RowSource, check_missing
from momentmix.rows.table import FileTable, Table

_TEXT = (".csv", ".tsv", ".jsonl", ".ndjson")
_SUFFIXES = (".npy", ".parquet", ".arrow", ".feather", ".xlsx", *_TEXT)
_KNOWN = f"{', '.join(_SUFFIXES)}; the last four also with {', '.join(PACKINGS)}"
# Sums of moments are fastest from about 100,000 rows on; a few blocks are in memory at a time.
_MOST_ROWS, _BLOCK_BYTES = 1 << 17, 1 << 24

_BY_HAND = (
    "Download it first, or pipe its CSV to '-', e.g. curl -s https://… | momentmix summarize - -o "
    "x.mms."
)


def open_rows(
    source: Any,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    block_rows: int | None = None,
    *,
    exclude: Sequence[str | int] | None = None,
    numeric_only: bool = False,
    na_values: Sequence[str] | None = None,
    expected: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    header: bool | None = None,
    by_name: bool = False,
) -> RowSource:
    """Open rows wherever they are, to read them in blocks as often as needed.

    Parameters
    ----------
    source : array, data frame, query, path, address, glob, folder, list of paths, or binary stream
        Arrays and pandas, polars or Arrow tables in memory; a polars LazyFrame, DuckDB relation,
        pyarrow Dataset, Scanner or RecordBatchReader, or anything with ``__arrow_c_stream__``;
        files .npy, .parquet, .arrow, .feather, .xlsx (the first sheet), .csv, .tsv, .jsonl and
        .ndjson, the last four also with .gz, .bz2, .xz, .zip (of one file) or .zst; folders and
        globs of such files, in the order of their names; addresses that fsspec knows (s3://,
        https://, …), whose files are copied to a temporary folder. A stream of bytes holds CSV,
        JSON lines, Parquet, Arrow or NPY, perhaps compressed; CSV from it can be read once only.
    columns : sequence of str or int, optional
        Names or numbers of the columns to take, in this order; by default all. A name that several
        columns have is an error: take these by number. Columns of dates are left out unless they
        are asked for; text is read as categories by `fit` and `summarize`.
    exclude : sequence of str or int, optional
        Columns to leave out.
    numeric_only : bool
        Leave out all columns that are not numbers, or true and false.
    na_values : sequence of str, optional
        For text files: texts that stand for a missing cell, in place of NA, NaN, null and their
        like. An empty field is always missing.
    missing : {"error", "drop", "model"}
        What to do with rows that hold missing, NaN or infinite values: raise, leave them out, or
        give NaN for a missing cell, for a fit with ``missing="model"`` (infinite ones raise).
    block_rows : int, optional
        Most rows in a block; by default a power of two, of at most 16 MiB and 131,072 rows.
    expected : sequence of str, optional
        Names to take, in this order, where `columns` is not given and the source has names.
    delimiter, decimal : str
        For CSV; by default a comma (a tab for .tsv) and a point. ASCII characters.
    thousands : str, optional
        For CSV: the character between groups of digits, as the comma in "17,405".
    header : bool, optional
        For CSV and Excel: whether the first line holds the names of the columns. By default it does
        if any of it is text. Numbers are names too where they count 0, 1, … or 1, 2, … over two or
        more columns, where they alone are quoted, and where they are whole numbers above columns of
        fractions; ``notes`` of the source says so. Other numbers are a row.
    by_name : bool
        Files with equal contents are different data. By default a pass over both is an error,
        because the rows would count twice.

    Returns
    -------
    RowSource
        With ``n_features``, ``feature_names``, ``n_rows`` and ``blocks()``.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_rows(np.arange(6.0).reshape(3, 2), columns=[1])
    >>> [block.tolist() for block in source.blocks()]
    [[[1.0], [3.0], [5.0]]]
    """
    check_missing(missing)
    dialect = Dialect(delimiter, decimal, thousands, checked_nulls(na_values), header)
    if block_rows is not None:
        check_count("block_rows", block_rows, 1)
    tables = tables_of(source, dialect)
    guessed = header_notes(tables, expected)
    if columns is None and expected is not None and tables[0].column_names is not None:
        columns = list(expected)
    first = choose_columns(tables[0], columns)
    others = [match_columns(tables[0], first, table, columns is None) for table in tables[1:]]
    chosen = [first, *others]
    places, notes = usable_columns(tables, chosen, exclude, numeric_only, columns is not None)
    chosen = [[numbers[k] for k in places] for numbers in chosen]
    if block_rows is None:
        fitting = max(1, min(_MOST_ROWS, _BLOCK_BYTES // (8 * len(places))))
        block_rows = 1 << (fitting.bit_length() - 1)  # parts of a file are whole blocks
    notes = (*guessed, *notes)
    return RowSource(tables, chosen, missing, block_rows, by_name, columns is not None, notes)


def checked_nulls(na_values: Sequence[str] | None) -> tuple[str, ...] | None:
    """Texts that stand for a missing cell, as a tuple; None for the usual ones."""
    if na_values is None:
        return None
    texts = [na_values] if isinstance(na_values, str) else list(na_values)
    if not all(isinstance(text, str) for text in texts):
        raise InputTypeError(f"na_values must be strings, as they stand in the file; got {texts}.")
    return tuple(texts)


# -- tables of a source -----------------------------------------------------------------------


def tables_of(source: Any, dialect: Dialect) -> list[Table]:
    """The tables that a source is, before columns are chosen."""
    if isinstance(source, Table):
        return [source]
    if isinstance(source, list) and source and all(isinstance(x, Table) for x in source):
        return list(source)
    names = path_list(source)
    if names:
        files = [file for name in names for file in _files(name)]
        repeated = sorted(
            without_secrets(str(file)) for file, times in Counter(files).items() if times > 1
        )
        if repeated:
            raise InputError(f"the same file is given twice: {', '.join(repeated[:5])}.")
        return _agreed([_open_any(file, dialect) for file in files], dialect)
    query = query_table(source)
    if query is not None:
        return [query]
    if _is_stream(source):
        from momentmix.rows.formats.streams import stream_table

        return [stream_table(source, dialect, open_file)]
    if hasattr(source, "__next__"):
        raise InputTypeError(
            "rows must be readable more than once; an iterator is not. Pass an array or a file."
        )
    return [memory_table(source)]


def _agreed(tables: list[Table], dialect: Dialect) -> list[Table]:
    """Tables of several files; a first line of numbers holds names in all of them, or in none."""
    guessed = [t for t in tables if t.header_note is not None and t.column_names is not None]
    others = [t for t in tables if t.column_names is None]
    if not guessed or not others:
        return tables
    header = all(table.first_line == guessed[0].first_line for table in others)
    changed, dialect = others if header else guessed, replace(dialect, header=header)
    return [
        open_file(table.source, dialect) if table in changed and isinstance(table, FileTable)
        else table
        for table in tables
    ]  # fmt: skip


def can_open(data: Any) -> bool:
    """Whether this is a path, a list of paths, a stream or a query, which `open_rows` opens."""
    return bool(path_list(data)) or is_query(data) or _is_stream(data)


def _is_stream(source: Any) -> bool:
    return hasattr(source, "read") and not hasattr(source, "to_numpy")


def path_list(source: Any) -> list[str]:
    """The paths that `source` is, or is a list of; empty if it is anything else."""
    items = source if isinstance(source, list | tuple) else [source]
    if not all(isinstance(item, str | os.PathLike) for item in items):
        return []
    return [os.fspath(item) for item in items]


def expand(text: str) -> list[Path]:
    """The files that a path, folder or pattern stands for."""
    path = Path(text)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if _readable(p.relative_to(path)) and p.is_file())
        if not files:
            raise NoInputError(f"{text} is a folder without data files ({_KNOWN}); give another.")
        return files
    if path.exists():
        return [path]
    if is_address(text):
        raise missing_input(text)
    if glob.has_magic(text):
        files = sorted(Path(p) for p in glob.glob(text, recursive=True) if Path(p).is_file())
        if not files:
            raise NoInputError(f"no file matches {text!a}; check the pattern, and its quotes.")
        return files
    raise missing_input(text)


def missing_input(path: str) -> NoInputError:
    """The error for a path at which there is no file; its text is another for an address."""
    if not is_address(path):
        return NoInputError(f"{path} does not exist; check the path.")
    name = without_secrets(path)
    if path.startswith("file:"):
        return NoInputError(f"{name} is an address; give the path alone, without file://.")
    return NoInputError(f"{name} is an address; momentmix reads files on this machine. {_BY_HAND}")


def _files(text: str) -> list[Path | str]:
    """The files that a path, folder or pattern stands for; those elsewhere by their addresses."""
    if not is_address(text) or Path(text).exists():
        return [*expand(text)]
    if can_fetch(text):
        return [*remote_files(text, lambda path: _readable(Path(path)))]
    if text.startswith("file:"):
        raise missing_input(text)
    raise NoInputError(
        f"{without_secrets(text)} is an address; reading it needs fsspec, which is not installed: "
        f"pip install momentmix[remote]. {_BY_HAND}"
    )


def _readable(relative: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in relative.parts)
    return not hidden and bool(_suffix(relative.name))


def _suffix(name: str) -> str:
    """The end of a name that tells the format, in lower case; "" if momentmix knows none."""
    bare, packing = split_packing(name)
    known = next((s for s in (_TEXT if packing else _SUFFIXES) if bare.endswith(s)), "")
    return known and name.lower()[len(bare) - len(known) :]


def _open_any(file: Path | str, dialect: Dialect) -> Table:
    if isinstance(file, Path):
        return open_file(file, dialect)
    suffix = _suffix(name_at(file))
    if not suffix:
        raise _unknown(file)
    return open_file(fetched(file, suffix), dialect)


def open_file(path: str | os.PathLike[str], dialect: Dialect) -> Table:
    """A data file as a table, by the ending of its name."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise InputError(f"{path} is not a regular file; give a file, or pipe CSV to '-'.")
    suffix, _ = split_packing(_suffix(os.path.basename(path)))
    if suffix == ".npy":
        from momentmix.rows.formats.npy import NpyFile

        return NpyFile(path)
    if suffix in (".parquet", ".arrow", ".feather"):
        from momentmix.rows.formats.arrow_files import ArrowFile, ParquetFile

        return ParquetFile(path) if suffix == ".parquet" else ArrowFile(path)
    if suffix in (".csv", ".tsv"):
        from momentmix.rows.csv.reader import CsvFile

        return CsvFile(path, dialect)
    if suffix in (".jsonl", ".ndjson"):
        from momentmix.rows.formats.json_lines import JsonLinesFile

        return JsonLinesFile(path)
    if suffix == ".xlsx":
        from momentmix.rows.formats.excel import ExcelFile

        return ExcelFile(path, dialect)
    raise _unknown(path)


def _unknown(path: object) -> InputError:
    return InputError(
        f"{without_secrets(str(path))} has no name that momentmix knows; it reads {_KNOWN}. Rename "
        "or convert it."
    )

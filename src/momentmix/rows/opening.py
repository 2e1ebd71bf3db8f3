"""`open_rows`: anything that holds rows → a `RowSource`."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from momentmix.capacity import check_count
from momentmix.errors import InputError, InputTypeError, NoInputError
from momentmix.rows.columns import choose_columns, match_columns
from momentmix.rows.csv.dialect import Dialect
from momentmix.rows.memory_tables import memory_table
from momentmix.rows.source import Missing, RowSource
from momentmix.rows.table import Table

_SUFFIXES = (
    ".npy", ".parquet", ".csv", ".csv.gz", ".tsv", ".tsv.gz", ".arrow", ".feather",
)  # fmt: skip
# Sums of moments are fastest from about 100,000 rows on; a few blocks are in memory at a time.
_MOST_ROWS, _BLOCK_BYTES = 1 << 17, 1 << 24
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path


def open_rows(
    source: Any,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    block_rows: int | None = None,
    *,
    expected: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    by_name: bool = False,
) -> RowSource:
    """Open rows wherever they are, to read them in blocks as often as needed.

    Parameters
    ----------
    source : array, data frame, path, glob, folder, list of paths, or binary stream of CSV
        Arrays and pandas, polars or Arrow tables in memory; files .npy, .parquet, .arrow, .feather,
        .csv, .tsv and these two with .gz; folders and globs of such files, in the order of their
        names. A stream can be read once only.
    columns : sequence of str or int, optional
        Names or numbers of the columns to take, in this order; by default all. A name that several
        columns have is an error: take these by number.
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
    if missing not in ("error", "drop", "model"):
        raise InputError(f"missing must be 'error', 'drop' or 'model'; got {missing!r}.")
    dialect = Dialect(delimiter, decimal, thousands)
    if block_rows is not None:
        check_count("block_rows", block_rows, 1)
    tables = _tables(source, dialect)
    if columns is None and expected is not None and tables[0].column_names is not None:
        columns = list(expected)
    first = choose_columns(tables[0], columns)
    others = [match_columns(tables[0], first, table, columns is None) for table in tables[1:]]
    chosen = [first, *others]
    for table, numbers in zip(tables, chosen, strict=True):
        refused = table.not_numeric(numbers)
        if refused:
            raise InputError(
                f"{table.name}: columns must hold real numbers; these do not: "
                f"{', '.join(refused)}. Select others with columns= (--columns), or convert them."
            )
    if block_rows is None:
        fitting = max(1, min(_MOST_ROWS, _BLOCK_BYTES // (8 * len(first))))
        block_rows = 1 << (fitting.bit_length() - 1)  # parts of a file are whole blocks
    return RowSource(tables, chosen, missing, block_rows, by_name)


# -- tables of a source -----------------------------------------------------------------------


def _tables(source: Any, dialect: Dialect) -> list[Table]:
    if isinstance(source, Table):
        return [source]
    names = path_list(source)
    if names:
        paths = [path for name in names for path in expand(name)]
        repeated = sorted(str(path) for path, times in Counter(paths).items() if times > 1)
        if repeated:
            raise InputError(f"the same file is given twice: {', '.join(repeated[:5])}.")
        return [open_file(path, dialect) for path in paths]
    if hasattr(source, "read") and not hasattr(source, "to_numpy"):
        from momentmix.rows.csv.reader import CsvStream

        return [CsvStream(source, dialect)]
    if hasattr(source, "__next__"):
        raise InputTypeError(
            "rows must be readable more than once; an iterator is not. Pass an array or a file."
        )
    return [memory_table(source)]


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
            raise NoInputError(
                f"{text} is a folder without data files ({', '.join(_SUFFIXES)}); give another."
            )
        return files
    if path.exists():
        return [path]
    if _ADDRESS.match(text):
        raise missing_input(text)
    if glob.has_magic(text):
        files = sorted(Path(p) for p in glob.glob(text, recursive=True) if Path(p).is_file())
        if not files:
            raise NoInputError(f"no file matches {text!a}; check the pattern, and its quotes.")
        return files
    raise missing_input(text)


def missing_input(path: str) -> NoInputError:
    """The error for a path at which there is no file; its text is another for an address."""
    if not _ADDRESS.match(path):
        return NoInputError(f"{path} does not exist; check the path.")
    if path.startswith("file:"):
        return NoInputError(f"{path} is an address; give the path alone, without file://.")
    return NoInputError(
        f"{path} is an address; momentmix reads files on this machine. Download it first, or pipe "
        "its CSV to '-', e.g. curl -s https://… | momentmix summarize - -o x.mms."
    )


def _readable(relative: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in relative.parts)
    return not hidden and relative.name.lower().endswith(_SUFFIXES)


def open_file(path: Path, dialect: Dialect) -> Table:
    """A data file as a table, by the ending of its name."""
    name = path.name.lower()
    if not stat.S_ISREG(path.stat().st_mode):
        raise InputError(f"{path} is not a regular file; give a file, or pipe CSV to '-'.")
    if name.endswith(".npy"):
        from momentmix.rows.npy import NpyFile

        return NpyFile(path)
    if name.endswith((".parquet", ".arrow", ".feather")):
        from momentmix.rows.arrow_files import ArrowFile, ParquetFile

        return ParquetFile(path) if name.endswith(".parquet") else ArrowFile(path)
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        from momentmix.rows.csv.reader import CsvFile

        return CsvFile(path, dialect)
    raise InputError(
        f"{path} has no name that momentmix knows; it reads {', '.join(_SUFFIXES)}. Rename or "
        "convert it."
    )

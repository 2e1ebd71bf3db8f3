"""`open_rows`: anything that holds rows → a `RowSource`."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from momentmix.capacity import check_count
from momentmix.errors import InputError, InputTypeError, NoInputError
from momentmix.rows.columns import choose_columns, match_columns
from momentmix.rows.csv.dialect import Dialect
from momentmix.rows.piece import Piece
from momentmix.rows.source import Missing, RowSource

__all__ = ["expand", "missing_input", "open_rows"]

_SUFFIXES = (
    ".npy",
    ".parquet",
    ".csv",
    ".csv.gz",
    ".tsv",
    ".tsv.gz",
    ".arrow",
    ".feather",
)
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path


def open_rows(
    source: Any,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    block_rows: int = 65536,
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
    missing : {"error", "drop"}
        What to do with rows that hold missing, NaN or infinite values.
    block_rows : int
        Most rows in a block.
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
    if missing not in ("error", "drop"):
        raise InputError(f"missing must be 'error' or 'drop'; got {missing!r}.")
    dialect = Dialect(delimiter, decimal, thousands)
    check_count("block_rows", block_rows, 1)
    pieces = _pieces(source, dialect)
    if columns is None and expected is not None and pieces[0].column_names is not None:
        columns = list(expected)
    chosen = choose_columns(pieces[0], columns)
    others = [match_columns(pieces[0], chosen, piece, columns is None) for piece in pieces[1:]]
    placed = [chosen, *others]
    for piece, numbers in zip(pieces, placed, strict=True):
        unusable = piece.unusable(numbers)
        if unusable:
            raise InputError(
                f"{piece.name}: columns must hold real numbers; these do not: "
                f"{', '.join(unusable)}. Select others with columns= (--columns), or convert them."
            )
    return RowSource(pieces, placed, missing, block_rows, by_name)


# -- what there is ----------------------------------------------------------------------------


def _pieces(source: Any, dialect: Dialect) -> list[Piece]:
    if isinstance(source, Piece):
        return [source]
    if isinstance(source, str | os.PathLike):
        return [_open_file(path, dialect) for path in expand(os.fspath(source))]
    if isinstance(source, list | tuple) and source and all(
        isinstance(one, str | os.PathLike) for one in source
    ):  # fmt: skip
        paths = [path for one in source for path in expand(os.fspath(one))]
        twice = sorted(str(path) for path, times in Counter(paths).items() if times > 1)
        if twice:
            raise InputError(f"the same file is given twice: {', '.join(twice[:5])}.")
        return [_open_file(path, dialect) for path in paths]
    if hasattr(source, "read") and not hasattr(source, "to_numpy"):
        return [_open_stream(source, dialect)]
    if hasattr(source, "__next__"):
        raise InputTypeError(
            "rows must be readable more than once; an iterator is not. Pass an array or a file."
        )
    from momentmix.rows.tables import ArrayPiece, FramePiece, is_frame

    return [FramePiece(source) if is_frame(source) else ArrayPiece(source)]


def expand(text: str) -> list[Path]:
    """The files that a path, folder or pattern stands for."""
    path = Path(text)
    if path.is_dir():
        found = sorted(p for p in path.rglob("*") if _readable(p.relative_to(path)) and p.is_file())
        if not found:
            raise NoInputError(
                f"{text} is a folder without data files ({', '.join(_SUFFIXES)}); give another."
            )
        return found
    if path.exists():
        return [path]
    if _ADDRESS.match(text):
        raise missing_input(text)
    if glob.has_magic(text):
        found = sorted(Path(p) for p in glob.glob(text, recursive=True) if Path(p).is_file())
        if not found:
            raise NoInputError(f"no file matches {text!a}; check the pattern, and its quotes.")
        return found
    raise missing_input(text)


def missing_input(path: str) -> NoInputError:
    """The error for a path at which there is no file; an address is told from a path."""
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


def _open_file(path: Path, dialect: Dialect) -> Piece:
    name = path.name.lower()
    if not stat.S_ISREG(path.stat().st_mode):
        raise InputError(f"{path} is not a regular file; give a file, or pipe CSV to '-'.")
    if name.endswith(".npy"):
        from momentmix.rows.npy import NpyPiece

        return NpyPiece(path)
    if name.endswith((".parquet", ".arrow", ".feather")):
        from momentmix.rows.arrow_files import IpcPiece, ParquetPiece

        return ParquetPiece(path) if name.endswith(".parquet") else IpcPiece(path)
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        from momentmix.rows.csv.text import CsvFile

        return CsvFile(path, dialect)
    raise InputError(
        f"{path} has no name that momentmix knows; it reads {', '.join(_SUFFIXES)}. Rename or "
        "convert it."
    )


def _open_stream(stream: BinaryIO, dialect: Dialect) -> Piece:
    from momentmix.rows.csv.text import CsvStream

    return CsvStream(stream, dialect)

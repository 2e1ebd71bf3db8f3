"""`open_rows`: anything that holds rows → a `RowSource`."""

from __future__ import annotations

import glob
import os
import stat
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from momentmix.capacity import check_count
from momentmix.errors import InputError, InputTypeError, NoInputError
from momentmix.sources.piece import Piece
from momentmix.sources.source import Missing, RowSource

__all__ = ["expand", "open_rows"]

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


def open_rows(
    source: Any,
    columns: Sequence[str | int] | None = None,
    missing: Missing = "error",
    block_rows: int = 65536,
    *,
    expected: Sequence[str] | None = None,
    delimiter: str | None = None,
    decimal: str = ".",
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
        Names or numbers of the columns to take, in this order; by default all.
    missing : {"error", "drop"}
        What to do with rows that hold missing, NaN or infinite values.
    block_rows : int
        Most rows in a block.
    expected : sequence of str, optional
        Names to take, in this order, where `columns` is not given and the source has names.
    delimiter, decimal : str
        For CSV; by default a comma (a tab for .tsv) and a point.
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
    for name, value in (("delimiter", delimiter), ("decimal", decimal)):
        if value is not None and (not isinstance(value, str) or len(value) != 1):
            raise InputError(f"{name} must be one character; got {value!r}.")
    if decimal == (delimiter or ","):
        raise InputError(
            f"delimiter and decimal must differ; both are {decimal!r}. Pass delimiter=';'."
        )
    check_count("block_rows", block_rows, 1)
    pieces = _pieces(source, delimiter, decimal)
    if columns is None and expected is not None and pieces[0].column_names is not None:
        columns = list(expected)
    chosen = _choose(pieces[0], columns)
    placed = [_matched(pieces[0], chosen, piece, columns is None) for piece in pieces]
    for piece, numbers in zip(pieces, placed, strict=True):
        unusable = piece.unusable(numbers)
        if unusable:
            raise InputError(
                f"{piece.name}: columns must hold real numbers; these do not: "
                f"{', '.join(unusable)}. Select others with columns= (--columns), or convert them."
            )
    return RowSource(pieces, placed, missing, block_rows, by_name)


# -- what there is ----------------------------------------------------------------------------


def _pieces(source: Any, delimiter: str | None, decimal: str) -> list[Piece]:
    if isinstance(source, Piece):
        return [source]
    if isinstance(source, str | os.PathLike):
        return [_open_file(path, delimiter, decimal) for path in expand(os.fspath(source))]
    if isinstance(source, list | tuple) and source and all(
        isinstance(one, str | os.PathLike) for one in source
    ):  # fmt: skip
        paths = [path for one in source for path in expand(os.fspath(one))]
        twice = sorted(str(path) for path, times in Counter(paths).items() if times > 1)
        if twice:
            raise InputError(f"the same file is given twice: {', '.join(twice[:5])}.")
        return [_open_file(path, delimiter, decimal) for path in paths]
    if hasattr(source, "read") and not hasattr(source, "to_numpy"):
        return [_open_stream(source, delimiter, decimal)]
    if hasattr(source, "__next__"):
        raise InputTypeError(
            "rows must be readable more than once; an iterator is not. Pass an array or a file."
        )
    from momentmix.sources.tables import ArrayPiece, FramePiece, is_frame

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
    if glob.has_magic(text):
        found = sorted(Path(p) for p in glob.glob(text, recursive=True) if Path(p).is_file())
        if not found:
            raise NoInputError(f"no file matches {text!a}; check the pattern, and its quotes.")
        return found
    raise NoInputError(f"{text} does not exist; check the path.")


def _readable(relative: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in relative.parts)
    return not hidden and relative.name.lower().endswith(_SUFFIXES)


def _open_file(path: Path, delimiter: str | None, decimal: str) -> Piece:
    name = path.name.lower()
    if not stat.S_ISREG(path.stat().st_mode):
        raise InputError(f"{path} is not a regular file; give a file, or pipe CSV to '-'.")
    if name.endswith(".npy"):
        from momentmix.sources.npy import NpyPiece

        return NpyPiece(path)
    if name.endswith((".parquet", ".arrow", ".feather")):
        from momentmix.sources.arrow_files import IpcPiece, ParquetPiece

        return ParquetPiece(path) if name.endswith(".parquet") else IpcPiece(path)
    if name.endswith((".csv", ".csv.gz", ".tsv", ".tsv.gz")):
        from momentmix.sources.csv_text import CsvFile

        return CsvFile(path, delimiter, decimal)
    raise InputError(
        f"{path} has no name that momentmix knows; it reads {', '.join(_SUFFIXES)}. Rename or "
        "convert it."
    )


def _open_stream(stream: BinaryIO, delimiter: str | None, decimal: str) -> Piece:
    from momentmix.sources.csv_text import CsvStream

    return CsvStream(stream, delimiter, decimal)


# -- which columns ----------------------------------------------------------------------------


def _choose(piece: Piece, columns: Sequence[str | int] | None) -> list[int]:
    if not piece.n_columns:
        raise InputError(f"{piece.name} must have at least one column; it has none.")
    if columns is None:
        numbers = list(range(piece.n_columns))
    else:
        if isinstance(columns, str):
            raise InputTypeError(f"columns must be a list of names or numbers; got {columns!r}.")
        numbers = [_column(piece, column) for column in columns]
        if not numbers or len(set(numbers)) != len(numbers):
            raise InputError(f"columns must be different, and at least one; got {list(columns)!a}.")
    if piece.column_names is not None:
        from momentmix.moments.rows import check_feature_names

        check_feature_names([piece.column_names[i] for i in numbers])
    return numbers


def _column(piece: Piece, column: str | int) -> int:
    names = piece.column_names
    if isinstance(column, str):
        if names is None or column not in names:
            known = "no names" if names is None else ", ".join(ascii(name) for name in names[:20])
            raise InputError(f"{piece.name} has no column {column!a}; it has {known}.")
        return names.index(column)
    number = check_count("column", column, 0)
    if number >= piece.n_columns:
        raise InputError(
            f"{piece.name} has {piece.n_columns} columns, numbered from 0; column {number} was "
            "asked for."
        )
    return number


def _matched(first: Piece, chosen: list[int], piece: Piece, all_columns: bool) -> list[int]:
    """The chosen columns of the first piece in another one: by name where there are names."""
    if piece is first:
        return chosen
    if (first.column_names is None) != (piece.column_names is None):
        raise InputError(
            f"{first.name} and {piece.name} must have the same columns; one has names and the "
            "other has none."
        )
    if first.column_names is None or piece.column_names is None:
        if piece.n_columns != first.n_columns:
            raise InputError(
                f"all inputs must have the same columns; {first.name} has {first.n_columns}, "
                f"{piece.name} has {piece.n_columns}."
            )
        return chosen
    wanted = [first.column_names[i] for i in chosen]
    lacking = [name for name in wanted if name not in piece.column_names]
    extra = [name for name in piece.column_names if name not in wanted] if all_columns else []
    if lacking or extra:
        parts = [f"{piece.name} lacks {', '.join(map(ascii, lacking[:5]))}"] if lacking else []
        parts += [f"{piece.name} also has {', '.join(map(ascii, extra[:5]))}"] if extra else []
        raise InputError(
            f"all inputs must have the same columns; compared with {first.name}, "
            f"{' and '.join(parts)}. Select common ones with columns= (--columns)."
        )
    return [piece.column_names.index(name) for name in wanted]

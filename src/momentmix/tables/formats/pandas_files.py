"""Excel sheets and JSON lines, which pandas reads as a whole."""

from __future__ import annotations

import os
from typing import Any

from momentmix.errors import InputError, needed
from momentmix.tables.formats.csv_text import Dialect
from momentmix.tables.formats.memory import MemoryTable
from momentmix.tables.source import first_line
from momentmix.wording import option


def read_excel(path: str | os.PathLike[str], dialect: Dialect) -> MemoryTable:
    """The first sheet of a workbook; of the dialect, the header and texts for missing cells."""
    needed("openpyxl", f"{path} needs openpyxl", "momentmix[excel]")
    reading = {"header": None, "dtype": object, "keep_default_na": False}
    frame = _read("read_excel", path, na_values=list(dialect.nulls), engine="openpyxl", **reading)
    frame = frame.dropna(how="all")
    first = list(frame.iloc[0]) if len(frame) else []
    if dialect.header is None and all(isinstance(x, int | float) and x == x for x in first):
        raise InputError(
            f"{path}: the first row holds no text; say whether it names the columns: "
            f"{option(header=True)} or {option(header=False)}."
        )
    if dialect.header is not False:
        frame = frame.iloc[1:].set_axis(["" if x != x else str(x) for x in first], axis=1)
    return _table(frame.infer_objects(), path)


def read_json_lines(path: str | os.PathLike[str], _: Dialect) -> MemoryTable:
    """An object in each line; its keys are the columns."""
    return _table(_read("read_json", path, lines=True, dtype=False, precise_float=True), path)


def _table(frame: Any, path: str | os.PathLike[str]) -> MemoryTable:
    table = MemoryTable(frame, str(path))
    table.in_memory = False  # like other files it is summarized in parts with ids
    return table


def _read(reader: str, path: str | os.PathLike[str], **reading: Any) -> Any:
    import pandas as pd

    try:
        return getattr(pd, reader)(os.fspath(path), **reading)
    except Exception as error:  # of zipfile, gzip, XML and others
        if isinstance(error, MemoryError) or getattr(error, "errno", None) is not None:
            raise
        reason = first_line(error)
        raise InputError(f"{path} cannot be read: {reason}. Write or copy it again.") from None

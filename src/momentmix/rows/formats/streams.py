"""Streams such as standard input: the first bytes tell the format.

CSV is read as it comes, also compressed; the other formats are copied to a temporary file.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from typing import Any

from momentmix.errors import InputError, InputTypeError
from momentmix.rows.csv.compression import Unpacked, packing_of
from momentmix.rows.csv.dialect import Dialect
from momentmix.rows.csv.reader import CsvStream
from momentmix.rows.formats.copies import LocalCopy
from momentmix.rows.table import Table

_NAME = "standard input"
_HEAD = 10  # bytes that tell all formats apart
_COPIED = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",  # the stream format
    b"\x93NUMPY": ".npy",
    b'{"': ".jsonl",
}


def stream_table(
    stream: Any, dialect: Dialect, open_file: Callable[[Any, Dialect], Table], packed: bool = False
) -> Table:
    """The table that a binary stream holds.

    Parameters
    ----------
    stream : object
        With a method ``read``.
    dialect : Dialect
        Of CSV.
    open_file : callable
        Path and dialect → the table of a file, for what has to be copied.
    packed : bool
        Whether it has been unpacked already; once is enough.
    """
    whole: Any = _Joined(stream)
    packing = "" if packed else packing_of(whole.head)
    if packing:
        return stream_table(Unpacked(whole, packing, _NAME), dialect, open_file, packed=True)
    if whole.head.startswith(b"PK\x03\x04"):
        raise InputError(
            f"{_NAME} is a zip archive or a workbook, whose list of members is at its end. Save it "
            "to a file first."
        )
    suffix = next((s for start, s in _COPIED.items() if whole.head.startswith(start)), None)
    if suffix is None:
        return CsvStream(whole, dialect)
    copy = LocalCopy(_NAME, suffix)
    with open(copy, "wb") as file:
        shutil.copyfileobj(whole, file, 1 << 20)
    return open_file(copy, dialect)


class _Joined(io.BufferedIOBase):
    """A stream whose first bytes have been read already, with these in front."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.head = stream, b""
        while len(self.head) < _HEAD and (data := stream.read(_HEAD - len(self.head))):
            if not isinstance(data, bytes | bytearray):
                raise InputTypeError(
                    f"a stream must give bytes; this one gives {type(data).__name__}. Open the "
                    "file in binary mode: open(path, 'rb')."
                )
            self.head += data
        self._unread = self.head

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, all by default; fewer where the stream gives fewer."""
        first, rest = self._unread, -1
        if size is not None and size >= 0:
            first, rest = self._unread[:size], size - len(self._unread[:size])
        self._unread = self._unread[len(first) :]
        return first + (self._stream.read(rest) if rest else b"")

    read1 = read

    def close(self) -> None:
        """Close the stream."""
        if not self.closed:
            getattr(self._stream, "close", lambda: None)()
        super().close()

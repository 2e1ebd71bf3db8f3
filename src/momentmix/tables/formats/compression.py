"""Compressed bytes: what a name or the first bytes tell of them, and the bytes within."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from momentmix.errors import InputError

PACKINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip", ".zst": "zstd"}
_MODULES = {"gzip": "gzip", "bzip2": "bz2", "xz": "lzma"}  # of Python, imported where needed
_FIRST_BYTES = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}


def split_packing(name: str) -> tuple[str, str]:
    """A name in lower case without the suffix of a compression, and the compression or ""."""
    stem, suffix = os.path.splitext(name.lower())
    return (stem, PACKINGS[suffix]) if suffix in PACKINGS else (name.lower(), "")


def packing_of(head: bytes) -> str:
    """The compression that the first ten bytes tell; "" if it is none of a stream."""
    return next((name for name, start in _FIRST_BYTES.items() if start.match(head)), "")


def open_bytes(path: Path, name: str) -> Any:
    """The bytes of a file, unpacked where its own name says so; `name` is for messages."""
    _, packing = split_packing(path.name)
    return Unpacked(path, packing, name) if packing else path.open("rb")


class Unpacked(io.RawIOBase):
    """The bytes in a compressed file or stream, to be read once; a zip archive must be a file."""

    def __init__(self, file: Any, packing: str, name: str) -> None:
        self._packing, self._name = packing, name
        self._stream: Any = io.BytesIO()  # for close, where the next line raises
        with self._refuse_damaged():
            self._stream = self._open(file)

    def readable(self) -> bool:
        """Yes."""
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes, fewer at the end only."""
        with self._refuse_damaged():
            return bytes(self._stream.read(size))

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()

    def _open(self, file: Any) -> Any:
        if self._packing in _MODULES:
            return import_module(_MODULES[self._packing]).open(file, "rb")
        if self._packing == "zstd":
            return import_module("pyarrow").CompressedInputStream(file, "zstd")
        with import_module("zipfile").ZipFile(file) as archive:  # open as long as its member
            names = [name for name in archive.namelist() if not name.endswith("/")]
            names = [name for name in names if not name.startswith("__MACOSX/")]
            if len(names) != 1:
                listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
                raise InputError(
                    f"{self._name} must hold one file; it holds {len(names)}"
                    f"{': ' + listed if names else ''}. Unpack it, and pass the files."
                )
            return archive.open(names[0])

    @contextmanager
    def _refuse_damaged(self) -> Iterator[None]:
        """Turn what is said of bytes that cannot be unpacked into an `InputError`."""
        try:
            yield
        except Exception as error:  # each module has its own for damaged bytes
            is_other = isinstance(error, InputError | MemoryError | ImportError)
            if is_other or getattr(error, "errno", None) is not None:
                raise  # of the system, not of the bytes
            raise InputError(
                f"{self._name} is not a whole {self._packing} file: {error}. Compress or copy it "
                "again."
            ) from None

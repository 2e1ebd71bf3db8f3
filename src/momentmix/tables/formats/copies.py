"""Bytes that are compressed, come once only, or are far away.

Files at addresses (s3://, https://, …) are copied once to this machine through fsspec. Streams such
as standard input are copied, too; their first bytes identify the format.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from momentmix.errors import (
    InputError,
    InputTypeError,
    MissingDependencyError,
    MomentmixError,
    NoInputError,
    without_secrets,
)

PACKINGS = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zip": "zip", ".zst": "zstd"}
_MODULES = {"gzip": "gzip", "bzip2": "bz2", "xz": "lzma"}  # of Python, imported where needed
_FIRST_BYTES = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\0"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path
_STREAM = "standard input"
_HEAD = 1 << 20  # bytes that identify the format, also within a block of bzip2
_STARTS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",  # the stream format
    b"\x93NUMPY": ".npy",
    b'{"': ".jsonl",
}


class LocalCopy(os.PathLike[str]):
    """A temporary file with the name of its original, removed with the last reference to this."""

    def __init__(self, name: str, suffix: str) -> None:
        folder = tempfile.mkdtemp(prefix="momentmix-")
        self._name, self._path = name, os.path.join(folder, f"rows{suffix}")
        self._end = weakref.finalize(self, _remove, folder, os.getpid())

    @contextmanager
    def filling(self) -> Iterator[str]:
        """The path to write to; the file is removed at an error. Its time is always the same."""
        try:
            yield self._path
            os.utime(self._path, (0, 0))
        except BaseException:
            self._end()
            raise

    def __fspath__(self) -> str:
        return self._path

    def __str__(self) -> str:
        return self._name


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child, which ends before its parent
        shutil.rmtree(folder, ignore_errors=True)


def copied_stream(stream: Any) -> LocalCopy:
    """A copy of a binary stream: text as it is, the other formats unpacked."""
    head = b""
    while len(head) < _HEAD and (data := stream.read(_HEAD - len(head))):
        if not isinstance(data, bytes | bytearray):
            raise InputTypeError(
                f"a stream must give bytes; this one gives {type(data).__name__}. Open the file in "
                "binary mode: open(path, 'rb')."
            )
        head += data
    if head.startswith(b"PK\x03\x04"):
        raise InputError(
            f"{_STREAM} is a zip archive or a workbook, whose list of members is at its end. Save "
            "it to a file first."
        )
    packing = next((name for name, start in _FIRST_BYTES.items() if start.match(head)), "")
    start = Unpacked(io.BytesIO(head), packing, _STREAM).read(10) if packing else head
    suffix = next((end for first, end in _STARTS.items() if start.startswith(first)), ".csv")
    packed = next((end for end, name in PACKINGS.items() if name == packing), "")
    copy = LocalCopy(_STREAM, suffix + packed)
    with copy.filling() as path, open(path, "wb") as file:
        file.write(head)
        shutil.copyfileobj(stream, file, _HEAD)
    if packing and suffix not in (".csv", ".jsonl"):
        whole: Any = Unpacked(path, packing, _STREAM)
        unpacked = LocalCopy(_STREAM, suffix)
        with whole, unpacked.filling() as path, open(path, "wb") as file:
            shutil.copyfileobj(whole, file, _HEAD)
        return unpacked
    return copy


def split_packing(name: str) -> tuple[str, str]:
    """A name in lower case without the suffix of a compression, and the compression or ""."""
    stem, suffix = os.path.splitext(name.lower())
    return (stem, PACKINGS[suffix]) if suffix in PACKINGS else (name.lower(), "")


def open_bytes(path: Path, name: str) -> Any:
    """The bytes of a file, unpacked where its own name says so; `name` is for messages."""
    _, packing = split_packing(path.name)
    file = path.open("rb")
    return Unpacked(file, packing, name) if packing else file


class Unpacked(io.RawIOBase):
    """The bytes in a compressed file or stream, to be read once; a zip archive must be a file."""

    def __init__(self, file: Any, packing: str, name: str) -> None:
        self._packing, self._name, self.packed = packing, name, file
        self._stream: Any = io.BytesIO()  # for close, where the next line raises
        with self._refuse_damaged():
            self._stream = self._open(file)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes, fewer at the end only."""
        with self._refuse_damaged():
            return bytes(self._stream.read(size))

    def close(self) -> None:
        self._stream.close()
        if hasattr(self.packed, "close"):
            self.packed.close()
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


def is_address(text: str) -> bool:
    """Whether a path is the address of something elsewhere."""
    return _ADDRESS.match(text) is not None


def remote_files(text: str, readable: Callable[[str], bool]) -> list[str]:
    """Addresses of the files of an address, in order; in a folder the `readable` ones."""
    address = re.sub("^([^:/]+):/+", r"\1://", text)  # with both slashes
    web = address.startswith(("http:", "https:"))  # no folders there, and ? begins a query
    with _located(address) as (system, path):
        if "*" in path or (not web and glob.has_magic(path)):
            files = [p for p in system.glob(path) if not system.isdir(p)]
        elif not web and system.isdir(path):
            below = len(path.rstrip("/")) + 1
            files = [p for p in system.find(path) if readable(p[below:])]
        else:
            return [address]
        if not files:
            raise NoInputError(
                f"no data file is at {without_secrets(address)!a}; check the address."
            )
        return [str(system.unstrip_protocol(file)) for file in sorted(files)]


def fetched(address: str, suffix: str) -> LocalCopy:
    """A copy of the file at an address."""
    copy = LocalCopy(without_secrets(address), suffix)
    with copy.filling() as target, _located(address) as (system, path):
        system.get_file(path, target)
    return copy


@contextmanager
def _located(address: str) -> Iterator[tuple[Any, str]]:
    """The file system of an address and the path there; each system has exceptions of its own."""
    name = without_secrets(address)
    try:
        from fsspec.core import url_to_fs

        yield url_to_fs(address)
    except (MomentmixError, MemoryError):
        raise
    except FileNotFoundError:
        raise NoInputError(f"{name} does not exist; check the address.") from None
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} needs a package that is not installed: {error}. Install it with pip, or "
            "download the file."
        ) from None
    except Exception as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
        text = without_secrets((str(error).splitlines() or [""])[0])[:200]
        raise InputError(
            f"{name} cannot be fetched: {type(error).__name__}: {text}. Check the address, the "
            "connection and the access rights."
        ) from None

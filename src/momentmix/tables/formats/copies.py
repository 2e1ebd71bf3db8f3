"""Bytes that are compressed, come once only, or are far away.

Files at addresses (s3://, https://, …) are copied once to this machine through fsspec, and so are
streams such as standard input.
"""

from __future__ import annotations

import errno
import glob
import gzip
import io
import os
import re
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

PACKING = ".gz"
_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path
_AT_ONCE = 1 << 20  # bytes


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
    """A copy of a binary stream of CSV."""
    copy = LocalCopy("standard input", ".csv")
    with copy.filling() as path, open(path, "wb") as file:
        while data := stream.read(_AT_ONCE):
            if not isinstance(data, bytes | bytearray):
                raise InputTypeError(
                    f"a stream must give bytes; this one gives {type(data).__name__}. Open the "
                    "file in binary mode: open(path, 'rb')."
                )
            file.write(data)
    return copy


def without_packing(name: str) -> str:
    """A name in lower case without the ending of a compression."""
    return name.lower().removesuffix(PACKING)


def open_bytes(path: Path, name: str) -> Any:
    """The bytes of a file, unpacked where its own name says so; `name` is for messages."""
    return Unpacked(path, name) if path.name.lower().endswith(PACKING) else path.open("rb")


class Unpacked(io.RawIOBase):
    """The bytes in a gzip file, to be read once."""

    def __init__(self, path: Path, name: str) -> None:
        self._name, self.packed = name, path.open("rb")
        self._stream = gzip.GzipFile(fileobj=self.packed)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes, fewer at the end only."""
        try:
            return self._stream.read(size)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(
                f"{self._name} is not a whole gzip file: {error}. Compress or copy it again."
            ) from None

    def close(self) -> None:
        self._stream.close()
        self.packed.close()
        super().close()


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

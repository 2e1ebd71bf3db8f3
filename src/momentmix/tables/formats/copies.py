"""Temporary files that hold what can be read once only, or is far away.

Files at addresses (s3://, https://, …) are copied once to this machine through fsspec. Streams such
as standard input are copied, too; their first bytes tell the format.
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
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from momentmix.errors import (
    InputError,
    InputTypeError,
    MissingDependencyError,
    MomentmixError,
    NoInputError,
    without_secrets,
)
from momentmix.tables.formats.compression import PACKINGS, Unpacked, packing_of

_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path
_STREAM = "standard input"
_HEAD = 1 << 20  # bytes that tell the format, also within a block of bzip2
_STARTS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrow",  # the stream format
    b"\x93NUMPY": ".npy",
    b'{"': ".jsonl",
}


class LocalCopy(os.PathLike[str]):
    """The path of a temporary file, which is removed with the last reference to this object.

    Its ``str`` is the name of what it is a copy of; `suffix` tells the format.
    """

    def __init__(self, name: str, suffix: str) -> None:
        folder = tempfile.mkdtemp(prefix="momentmix-")
        self._name, self._path = name, os.path.join(folder, f"rows{suffix}")
        self._end = weakref.finalize(self, _remove, folder, os.getpid())

    @contextmanager
    def filling(self) -> Iterator[str]:
        """The path to write to; the file is removed at an error, which may keep this object.

        Its time is always the same, as it is not that of what is copied.
        """
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
    """A copy of a binary stream, with the suffix of the format that its first bytes tell.

    Text stays compressed; the other formats are unpacked.
    """
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
    packing = packing_of(head)
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


# -- addresses --------------------------------------------------------------------------------


def is_address(text: str) -> bool:
    """Whether a path is the address of something elsewhere."""
    return _ADDRESS.match(text) is not None


def can_fetch(address: str) -> bool:
    """Whether fsspec is there to fetch an address; a file on this machine needs none."""
    return not address.startswith("file:") and find_spec("fsspec") is not None


def name_at(address: str) -> str:
    """Name of the file at an address, without what follows a question mark."""
    return os.path.basename(urlsplit(address).path)


def remote_files(text: str, readable: Callable[[str], bool]) -> list[str]:
    """Addresses of the files that an address, folder or pattern stands for, in their order.

    `readable` tells whether a path in a folder is that of a data file.
    """
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

"""Files that are copied before they are read: binary streams, and files at addresses (fsspec)."""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from momentmix.errors import (
    InputError,
    InputTypeError,
    MissingDependencyError,
    MomentmixError,
    NoInputError,
    without_secrets,
)

_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path
_AT_ONCE = 1 << 20  # bytes


class LocalCopy(os.PathLike[str]):
    """A temporary file with the name of its original, removed with the last reference to this.

    ``with copy as path`` removes it at an error.
    """

    def __init__(self, name: str, suffix: str) -> None:
        folder = tempfile.mkdtemp(prefix="momentmix-")
        self._name, self._path = name, os.path.join(folder, f"rows{suffix}")
        self._remove = weakref.finalize(self, _remove, folder, os.getpid())

    def __enter__(self) -> str:
        return self._path

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:  # whose traceback would keep the file
            self._remove()

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
    with copy as path, open(path, "wb") as file:
        while data := stream.read(_AT_ONCE):
            if not isinstance(data, bytes | bytearray):
                raise InputTypeError(
                    f"a stream must give bytes; this one gives {type(data).__name__}. Open the "
                    "file in binary mode: open(path, 'rb')."
                )
            file.write(data)
    return copy


def is_address(text: str) -> bool:
    """Whether a path is the address of something elsewhere."""
    return _ADDRESS.match(text) is not None


def remote_files(text: str, suffix_of: Callable[[str], str]) -> list[LocalCopy]:
    """Copies of the files of an address, in order; in a folder of those with a known suffix."""
    address = re.sub("^([^:/]+):/+", r"\1://", text)  # with both slashes
    web = address.startswith(("http:", "https:"))  # no folders there, and ? begins a query
    with _located(address) as (system, path):
        files = [path]
        if "*" in path or (not web and glob.has_magic(path)):
            files = [p for p in system.glob(path) if not system.isdir(p)]
        elif not web and system.isdir(path):
            below = len(path.rstrip("/")) + 1
            files = [p for p in system.find(path) if suffix_of(p[below:])]
        if not files:
            raise NoInputError(f"no data file is at {without_secrets(text)!a}; check the address.")
        copies = []
        for file in sorted(files):
            name = without_secrets(text if file == path else str(system.unstrip_protocol(file)))
            ending = os.path.basename(file.partition("?")[0]).lstrip("._")
            copies.append(LocalCopy(name, suffix_of(ending)))
            with copies[-1] as target:
                system.get_file(file, target)
        return copies


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
            f"{name} is an address; reading it needs a package that is not installed ({error}): "
            "pip install momentmix[remote]. Or download the file."
        ) from None
    except Exception as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
        text = without_secrets((str(error).splitlines() or [""])[0])[:200]
        raise InputError(
            f"{name} cannot be fetched: {type(error).__name__}: {text}. Check the address, the "
            "connection and the access rights."
        ) from None

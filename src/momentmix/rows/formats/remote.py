"""Files at addresses (s3://, https://, …), copied once to this machine through fsspec."""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from momentmix.errors import (
    InputError,
    MissingDependencyError,
    MomentmixError,
    NoInputError,
    without_secrets,
)
from momentmix.rows.formats.copies import LocalCopy

_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path


def is_address(text: str) -> bool:
    """Whether a path is the address of something elsewhere."""
    return _ADDRESS.match(text) is not None


def can_fetch(address: str) -> bool:
    """Whether fsspec is there to fetch an address; a file on this machine needs none."""
    return not address.startswith("file:") and find_spec("fsspec") is not None


def remote_files(text: str, readable: Callable[[str], bool]) -> list[str]:
    """Addresses of the files that an address, folder or pattern stands for, in their order.

    Parameters
    ----------
    text : str
    readable : callable
        Whether a path in a folder is that of a data file.
    """
    address = _restored(text)
    web = address.startswith(("http:", "https:"))  # no folders there, and ? begins a query
    with _refuse_unreachable(address):
        system, path = _located(address)
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


def name_at(address: str) -> str:
    """Name of the file at an address, without what follows a question mark."""
    return os.path.basename(urlsplit(address).path)


def fetched(address: str, suffix: str) -> LocalCopy:
    """A copy of the file at an address; its time is always the same, as it is not that file's."""
    copy = LocalCopy(without_secrets(address), suffix)
    with _refuse_unreachable(address):
        system, path = _located(address)
        system.get_file(path, os.fspath(copy))
    os.utime(copy, (0, 0))
    return copy


def _restored(text: str) -> str:
    """An address with both slashes."""
    return re.sub("^([^:/]+):/+", r"\1://", text)


def _located(address: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    system, path = url_to_fs(address)
    return system, str(path)


@contextmanager
def _refuse_unreachable(address: str) -> Iterator[None]:
    """Turn what a file system raises into an error of ours; each has exceptions of its own."""
    name = without_secrets(address)
    try:
        yield
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

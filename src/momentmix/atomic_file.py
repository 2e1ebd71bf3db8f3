"""Atomic replacement of a file.

The bytes are written to a temporary file in the same directory, which is flushed to the disk and
renamed over the target; then the directory is flushed. After a crash at any point the target is the
complete old file or the complete new one. The new file has the permissions of the one it replaces,
or those that the umask allows if there was none.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def atomic_write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write `data` to `path`, or to what it links to: the file is the old one or the new one."""
    with replacing(path) as descriptor:
        unwritten = memoryview(data)
        while unwritten:
            unwritten = unwritten[os.write(descriptor, unwritten) :]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[int]:
    """Give a descriptor to write to; without an error its contents replace the file at `path`."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the path of a file in it.")
    old = None
    with suppress(FileNotFoundError):
        old = os.stat(target)
    temporary, descriptor = _create(target, 0o666 if old is None else 0o600)
    try:
        try:
            if old is not None and sys.platform != "win32":
                with suppress(OSError):  # a file system may have no permissions
                    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o777)
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if hasattr(os, "O_DIRECTORY"):
        directory = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless the temporary file of a write to `path` can be created."""
    temporary, descriptor = _create(Path(os.path.realpath(path)), 0o600)
    os.unlink(temporary)
    os.close(descriptor)


def _create(target: Path, mode: int) -> tuple[Path, int]:
    """Create a temporary file beside the target, with the first 100 bytes of its name."""
    name = os.fsencode(target.name)[:100].decode(sys.getfilesystemencoding(), "ignore")
    temporary = target.with_name(f".{name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return temporary, os.open(temporary, flags, mode)

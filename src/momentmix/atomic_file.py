"""Atomic replacement of a file.

The bytes are written to a temporary file in the same directory, which is flushed to the disk and
renamed over the target; then the directory is flushed. After a crash at any point the target is the
complete old file or the complete new one. A writer locks its temporary file; one that is not locked
was left by a process that was killed, and the next write removes it. The new file has the
permissions of the one it replaces, or those that the umask allows if there was none.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":
    import fcntl


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
    _remove_leftovers(target)
    temporary, descriptor = _create(target)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
            if sys.platform != "win32":  # the lock is held until the file has its name
                os.replace(temporary, target)
        finally:
            os.close(descriptor)
        if sys.platform == "win32":  # where only closed files are renamed
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
    temporary, descriptor = _create(Path(os.path.realpath(path)))
    os.unlink(temporary)
    os.close(descriptor)


def lock(descriptor: int, wait: bool = False) -> bool:
    """Lock a file exclusively; False if another process holds it, or without support."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            return True
    return False


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def short_name(name: str) -> str:
    """Return at most the first 100 bytes of a name, whole characters: a suffix can be added."""
    return os.fsencode(name)[:100].decode(sys.getfilesystemencoding(), "ignore")


def _create(target: Path) -> tuple[Path, int]:
    """Create a temporary file with the permissions of the target, locked where that is possible."""
    old = None
    with suppress(FileNotFoundError):
        old = os.stat(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = target.with_name(f".{short_name(target.name)}.{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, flags, 0o666 if old is None else 0o600)
        try:
            if old is not None:
                _take_over(descriptor, old)
            if not lock(descriptor, wait=True) or is_at(descriptor, temporary):
                return temporary, descriptor
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(temporary)
            raise
        os.close(descriptor)  # another writer removed it as a leftover before it was locked


def _take_over(descriptor: int, old: os.stat_result) -> None:
    """Give a new file the owner and the permissions of an old one, or fewer permissions."""
    if sys.platform == "win32":
        return
    mode, new = stat.S_IMODE(old.st_mode) & 0o777, os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except OSError:
            with suppress(OSError):
                os.fchown(descriptor, -1, old.st_gid)
        if os.fstat(descriptor).st_gid != old.st_gid:
            mode &= ~0o070 | (mode & 0o007) << 3  # another group gets the permissions of others
    with suppress(OSError):
        os.fchmod(descriptor, mode)


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files of writers that were killed; ignore those that cannot be removed."""
    leftover = re.compile(re.escape(f".{short_name(target.name)}.") + r"[0-9a-f]{16}\.tmp")
    with suppress(OSError):
        for path in map(target.with_name, filter(leftover.fullmatch, os.listdir(target.parent))):
            with suppress(OSError):
                descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
                try:
                    if lock(descriptor):
                        os.unlink(path)
                finally:
                    os.close(descriptor)

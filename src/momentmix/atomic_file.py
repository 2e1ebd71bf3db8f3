"""Atomic replacement of a file.

The bytes are written to a temporary file in the same directory, which is flushed to the disk and
renamed over the target; then the directory is flushed. After a crash at any point the target is the
complete old file or the complete new one. A writer locks its temporary file; one that is not locked
was left by a process that was killed, and the next write removes it. The new file has the
permissions of the one it replaces, or those that the umask allows if there was none. All calls to
the operating system go through one object, so that a test can stop the process at each of them.
"""

from __future__ import annotations

import errno
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


_CHUNK = 1 << 20  # bytes in one call of write
_BINARY = getattr(os, "O_BINARY", 0)


class System:
    """The calls to the operating system that a write makes."""

    def create(self, path: Path, mode: int = 0o666) -> int:
        """Open a new file for writing."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode)

    def take_over(self, descriptor: int, old: os.stat_result) -> None:
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

    def lock(self, descriptor: int, wait: bool) -> bool:
        """Lock a file exclusively; False if another process holds it, or without support."""
        if sys.platform == "win32":
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except OSError:
            return False
        return True

    def is_at(self, descriptor: int, path: Path) -> bool:
        """Whether an open file is still the one at this path."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(descriptor), os.stat(path))
        return False

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the bytes; return how many."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Flush a file or directory to the disk."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a file or directory."""
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Replace a file by another."""
        os.replace(source, target)

    def open_directory(self, path: Path) -> int | None:
        """Open a directory for flushing; None where the system cannot."""
        return os.open(path, os.O_RDONLY) if hasattr(os, "O_DIRECTORY") else None

    def names(self, directory: Path) -> list[str]:
        """Names of the files in a directory."""
        return os.listdir(directory)

    def open_again(self, path: Path) -> int:
        """Open an existing file, to see whether it is locked."""
        return os.open(path, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))

    def remove(self, path: Path) -> None:
        """Delete a file if it exists."""
        path.unlink(missing_ok=True)


SYSTEM = System()


def atomic_write(
    path: str | os.PathLike[str], data: bytes, system: System = SYSTEM, chunk: int = _CHUNK
) -> None:
    """Write `data` to `path`; whatever happens, the file is then the old one or the new one.

    A symbolic link is followed: the file it points to is replaced. `chunk` is the largest number of
    bytes to write in one call.
    """
    with replacing(path, system) as descriptor:
        unwritten = memoryview(data)
        while unwritten:
            n_written = system.write(descriptor, unwritten[:chunk])
            if not n_written:
                raise OSError(errno.EIO, "no bytes were taken", str(path))
            unwritten = unwritten[n_written:]


@contextmanager
def replacing(path: str | os.PathLike[str], system: System = SYSTEM) -> Iterator[int]:
    """A descriptor to write to; if no error occurs, its contents replace the file at `path`."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the path of a file in it.")
    _remove_leftovers(target, system)
    old = None
    with suppress(FileNotFoundError):
        old = os.stat(target)
    temporary, descriptor, locked = _create(target, old is not None, system)
    still_open = True
    try:
        if old is not None:
            system.take_over(descriptor, old)
        yield descriptor
        system.sync(descriptor)
        if not locked:  # no lock to keep, and some systems rename only closed files
            still_open = False
            system.close(descriptor)
        system.rename(temporary, target)
    except BaseException:
        if still_open:
            with suppress(OSError):
                system.close(descriptor)
        with suppress(OSError):
            system.remove(temporary)
        raise
    if still_open:
        system.close(descriptor)
    directory = system.open_directory(target.parent)
    if directory is not None:
        try:
            system.sync(directory)
        finally:
            system.close(directory)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OSError unless the temporary file of a write to `path` can be created."""
    temporary, descriptor, _ = _create(Path(os.path.realpath(path)), True, System())
    os.unlink(temporary)
    os.close(descriptor)


def short_name(name: str) -> str:
    """The first 100 bytes of a name at most, whole characters, so that a suffix can be added."""
    name = name[:100]
    while len(os.fsencode(name)) > 100:
        name = name[:-1]
    return name


def _stem(target: Path) -> str:
    return f".{short_name(target.name)}."


def _create(target: Path, private: bool, system: System) -> tuple[Path, int, bool]:
    """A new temporary file, its descriptor, and whether it is locked."""
    while True:
        temporary = target.with_name(f"{_stem(target)}{secrets.token_hex(8)}.tmp")
        descriptor = system.create(temporary, 0o600) if private else system.create(temporary)
        try:
            locked = system.lock(descriptor, wait=True)
            if not locked or system.is_at(descriptor, temporary):
                return temporary, descriptor, locked
        except BaseException:
            with suppress(OSError):
                system.close(descriptor)
            with suppress(OSError):
                system.remove(temporary)
            raise
        system.close(descriptor)  # another writer removed it as a leftover before it was locked


def _remove_leftovers(target: Path, system: System) -> None:
    """Remove temporary files of writers that were killed; ignore those that cannot be removed."""
    leftover = re.compile(re.escape(_stem(target)) + r"[0-9a-f]{16}\.tmp")
    with suppress(OSError):
        for path in map(target.with_name, filter(leftover.fullmatch, system.names(target.parent))):
            with suppress(OSError):
                descriptor = system.open_again(path)
                try:
                    if system.lock(descriptor, wait=False):
                        system.remove(path)
                finally:
                    system.close(descriptor)

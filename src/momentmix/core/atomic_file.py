"""Replace a file as a whole or not at all.

The bytes go to a temporary file in the same directory, which is flushed to the disk, renamed over
the target, and the directory is flushed: after a crash at any point the target is the old file or
the new one, complete. Every call to the operating system goes through one small object, so that a
test can stop the process at each of them.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

__all__ = ["SYSTEM", "System", "atomic_write"]

_CHUNK = 1 << 20


class System:
    """The calls to the operating system that a write makes."""

    def create(self, path: Path) -> int:
        """Open a new file for writing."""
        return os.open(
            path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
        )

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write some of the bytes; how many is the result."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Flush a file or directory to the disk."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Close a file or directory."""
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Put a file in the place of another."""
        os.replace(source, target)

    def open_directory(self, path: Path) -> int | None:
        """Open a directory for flushing; None where the system cannot."""
        return os.open(path, os.O_RDONLY) if hasattr(os, "O_DIRECTORY") else None

    def remove(self, path: Path) -> None:
        """Delete a file that may be gone."""
        path.unlink(missing_ok=True)


SYSTEM = System()


def atomic_write(
    path: str | os.PathLike[str], data: bytes, system: System = SYSTEM, chunk: int = _CHUNK
) -> None:
    """Write `data` to `path`: afterwards, whatever happens, it is the old file or the new one.

    Parameters
    ----------
    path : path of the file
        A symbolic link is followed: the file it points to is replaced.
    data : bytes
    system : System
        Where the calls to the operating system go.
    chunk : int
        Largest number of bytes handed over in one call.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a directory; give the path of a file in it.")
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.tmp")
    descriptor: int | None = system.create(temporary)
    try:
        assert descriptor is not None
        left = memoryview(data)
        while left:
            left = left[system.write(descriptor, left[:chunk]) :]
        system.sync(descriptor)
        open_file, descriptor = descriptor, None
        system.close(open_file)
        system.rename(temporary, target)
    except BaseException:
        if descriptor is not None:
            system.close(descriptor)
        system.remove(temporary)
        raise
    directory = system.open_directory(target.parent)
    if directory is not None:
        try:
            system.sync(directory)
        finally:
            system.close(directory)

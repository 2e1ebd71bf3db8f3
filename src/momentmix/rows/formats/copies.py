"""Temporary files that hold what can be read once only, or is far away."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


class LocalCopy(os.PathLike[str]):
    """The path of a temporary file that has the name of what it is a copy of.

    The file is removed with the last reference to this object, or by `remove`.

    Parameters
    ----------
    name : str
        For messages; ``str`` of this object.
    suffix : str
        End of the name of the file, which tells its format.
    """

    def __init__(self, name: str, suffix: str) -> None:
        folder = tempfile.mkdtemp(prefix="momentmix-")
        self._name, self._path = name, str(Path(folder, f"rows{suffix}"))
        self._end = weakref.finalize(self, _remove, folder, os.getpid())

    def remove(self) -> None:
        """Remove the file now: an error that is kept keeps this object, too."""
        self._end()

    def __fspath__(self) -> str:
        return self._path

    def __str__(self) -> str:
        return self._name


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child, which ends before its parent
        shutil.rmtree(folder, ignore_errors=True)

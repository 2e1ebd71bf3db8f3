"""Folders for files that are written many times."""

import tempfile


def temporary_folder():
    """A temporary folder where flushing costs nothing, if there is such a place and it is writable.

    A kill is a kill on any file system.
    """
    try:
        return tempfile.TemporaryDirectory(dir="/dev/shm")
    except OSError:
        return tempfile.TemporaryDirectory()

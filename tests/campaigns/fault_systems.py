"""Operating systems that fail: at the n-th call of a save, or by losing what was not flushed.

Each stands in for the module `os` in `momentmix.atomic_file`.
"""

import os
from contextlib import contextmanager
from functools import partial

from momentmix import atomic_file

CALLS = ("open", "write", "fsync", "close", "replace", "unlink", "stat", "fstat", "fchmod")
CHUNK = 64  # bytes that a write to a `Disk` takes at most


def install(system):
    """Let all later saves use a system."""
    atomic_file.os = system


@contextmanager
def installed(system):
    """Let saves use a system in a ``with`` block."""
    install(system)
    try:
        yield system
    finally:
        atomic_file.os = os


class Counted:
    """Counts the calls; acts at one of them, before or after it, or at all from there on."""

    def __init__(self, at=None, action=None, before=True, from_there_on=False, chunk=None):
        self.n, self.at, self.action, self.chunk = 0, at, action, chunk
        self.before, self.from_there_on = before, from_there_on
        self.fired, self.log, self.descriptors = False, [], set()

    def __getattr__(self, name):
        own = getattr(os, name)
        return partial(self._call, name, own) if name in CALLS else own

    def _call(self, name, function, *arguments):
        here = self.n == self.at or (self.from_there_on and self.at < self.n)
        self.n += 1
        self.log.append(name)
        if name == "close":
            self.descriptors.discard(arguments[0])
        elif name == "write":
            arguments = arguments[0], arguments[1][: self.chunk]
        if here and self.before and name != "close":  # closing lets go even where it fails
            self._act()
        result = function(*arguments)
        if here and not (self.before and name != "close"):
            if name == "open":
                os.close(result)  # a call that fails hands over no descriptor
            self._act()
        if name == "open":
            self.descriptors.add(result)
        return result

    def _act(self):
        self.fired = True
        self.action()


class Crash(BaseException):
    """The power went off."""


class _File:
    def __init__(self, safe=b""):
        self.safe, self.waiting, self.length = safe, [], len(safe)


class Disk:
    """A disk in memory whose power goes off at a call.

    What was not flushed then survives or not, each write and each entry of the directory for itself
    and in any order; a write that is lost leaves zeros or noise. With `honest=False` flushing does
    nothing, as on a disk that lies.
    """

    def __init__(self, rng, files, at=None, honest=True):
        self.rng, self.at, self.honest, self.n, self.off = rng, at, honest, 0, False
        self.directory = {name: _File(data) for name, data in files.items()}
        self.safe_directory = dict(self.directory)
        self.entries, self.open_files = [], {}

    def _tick(self):
        if self.off or self.n == self.at:
            self.off = True
            raise Crash
        self.n += 1

    def _opened(self, file):
        descriptor = 1000 + len(self.open_files)
        self.open_files[descriptor] = file
        return descriptor

    def _enter(self, name, file):
        """Change an entry of the directory: now, and perhaps on the disk."""
        self.entries.append((name, file))
        if file is None:
            self.directory.pop(name, None)
        else:
            self.directory[name] = file

    def __getattr__(self, name):
        return getattr(os, name)

    def open(self, path, flags, mode=0):
        self._tick()
        if path.name == "disk":
            return self._opened("directory")
        if flags & os.O_CREAT:
            assert path.name not in self.directory
            self._enter(path.name, _File())
        return self._opened(self.directory[path.name])

    def stat(self, path):
        self._tick()
        raise FileNotFoundError  # a new file has no permissions to take over

    def write(self, descriptor, data):
        self._tick()
        file = self.open_files[descriptor]
        taken = bytes(data[: self.rng.randint(1, min(len(data), CHUNK))])
        file.waiting.append((file.length, taken))
        file.length += len(taken)
        return len(taken)

    def fsync(self, descriptor):
        self._tick()
        if not self.honest:
            return
        file = self.open_files[descriptor]
        if file == "directory":
            self.safe_directory, self.entries = dict(self.directory), []
        else:
            file.safe, file.waiting = b"".join([file.safe, *(d for _, d in file.waiting)]), []

    def close(self, descriptor):
        self._tick()

    def replace(self, source, target):
        self._tick()
        file = self.directory[source.name]
        self._enter(source.name, None)
        self.entries.pop()  # one step with the next: both or none
        self._enter(target.name, file)
        self.entries[-1] = (target.name, file, source.name)

    def unlink(self, path):
        self._tick()
        if path.name in self.directory:
            self._enter(path.name, None)

    def after_the_crash(self):
        """Names and contents that are found when the power is back."""
        found, entries = dict(self.safe_directory), list(self.entries)
        if self.rng.random() < 0.5:
            self.rng.shuffle(entries)
        for name, file, *old in entries:
            if self.rng.random() < 0.5:
                continue
            for gone in old:
                found.pop(gone, None)
            if file is None:
                found.pop(name, None)
            else:
                found[name] = file
        return {name: self._remains(file) for name, file in found.items()}

    def _remains(self, file):
        data = bytearray(file.safe)
        for start, written in file.waiting:
            fate = self.rng.randrange(4)
            if fate == 0:
                continue  # lost: zeros if something later survives
            data.extend(bytes(max(0, start + len(written) - len(data))))
            if fate == 1:
                written = self.rng.randbytes(len(written))
            if fate != 2:
                data[start : start + len(written)] = written
        return bytes(data)

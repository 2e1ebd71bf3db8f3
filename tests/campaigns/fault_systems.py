"""An operating system that fails at the n-th call of a save.

It stands in for the module `os` in `momentmix.atomic_file`.
"""

import os
from contextlib import contextmanager
from functools import partial

from momentmix import atomic_file

CALLS = ("open", "write", "fsync", "close", "replace", "unlink", "stat", "fstat", "fchmod")


@contextmanager
def installed(system):
    """Let saves use a system in a ``with`` block."""
    atomic_file.os = system
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

"""Operating systems that fail: at the n-th call of a save, or by losing what was not flushed."""

import os

from momentmix.atomic_file import System

OPENING = {"create", "open_again", "open_directory"}
CALLS = [name for name in vars(System) if not name.startswith("_")]


class Counted(System):
    """Counts the calls; acts at one of them, before or after it, or at all from there on."""

    def __init__(self, at=None, action=None, before=True, from_there_on=False):
        self.n, self.at, self.action = 0, at, action
        self.before, self.from_there_on = before, from_there_on
        self.fired, self.log, self.open = False, [], set()

    def _call(self, name, *arguments, **options):
        here = self.n == self.at or (self.from_there_on and self.at < self.n)
        self.n += 1
        self.log.append(name)
        if name == "close":
            self.open.discard(arguments[0])
        if here and self.before and name != "close":  # closing lets go even where it fails
            self._act()
        result = getattr(System, name)(self, *arguments, **options)
        if here and not (self.before and name != "close"):
            if name in OPENING and result is not None:
                os.close(result)  # a call that fails hands over no descriptor
            self._act()
        if name in OPENING:
            self.open.add(result)
        return result

    def _act(self):
        self.fired = True
        self.action()


class ShortWrites(System):
    """Takes one byte of each write, as a system may."""

    def write(self, descriptor, data):
        return super().write(descriptor, data[:1])


def _counted(name):
    return lambda self, *arguments, **options: self._call(name, *arguments, **options)


for call in CALLS:
    setattr(Counted, call, _counted(call))


class Crash(BaseException):
    """The power went off."""


class _File:
    def __init__(self, safe=b""):
        self.safe, self.waiting, self.length = safe, [], len(safe)


class Disk(System):
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

    def create(self, path):
        self._tick()
        assert path.name not in self.directory
        file = _File()
        self._enter(path.name, file)
        return self._opened(file)

    def lock(self, descriptor, wait):
        self._tick()
        return True

    def is_at(self, descriptor, path):
        self._tick()
        return self.directory.get(path.name) is self.open_files[descriptor]

    def write(self, descriptor, data):
        self._tick()
        file = self.open_files[descriptor]
        taken = bytes(data[: self.rng.randint(1, len(data))])
        file.waiting.append((file.length, taken))
        file.length += len(taken)
        return len(taken)

    def sync(self, descriptor):
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

    def rename(self, source, target):
        self._tick()
        file = self.directory[source.name]
        self._enter(source.name, None)
        self.entries.pop()  # one step with the next: both or none
        self._enter(target.name, file)
        self.entries[-1] = (target.name, file, source.name)

    def open_directory(self, path):
        self._tick()
        return self._opened("directory")

    def names(self, directory):
        self._tick()
        return list(self.directory)

    def open_again(self, path):
        self._tick()
        return self._opened(self.directory[path.name])

    def remove(self, path):
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

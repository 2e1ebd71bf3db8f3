"""Whatever happens during a save, the file is the old one or the new one, and litter goes away."""

import errno
import os
import random
import signal
import tempfile
import warnings
from collections import Counter
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np

from campaigns.fault_systems import Counted, Crash, Disk, ShortWrites
from campaigns.part import RAM, campaign
from momentmix.core.atomic_file import atomic_write
from momentmix.core.mixture import DiagonalMixture
from momentmix.moments.summary import MomentSummary

CHUNK = 64


@lru_cache
def contents(kind, seed):
    """Bytes of a summary or of a model."""
    rng = np.random.default_rng(seed)
    if kind == "summary":
        rows = rng.standard_normal((60, 3))
        return MomentSummary(3, 3, shard_id=str(seed), replicates=0).update(rows).to_bytes()
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        path = Path(folder) / "model.json"
        DiagonalMixture([0.25, 0.75], rng.random((2, 3)), rng.random((2, 3))).save(path)
        return path.read_bytes()


def check_whole(kind, path, choices):
    """The file is one of the choices, and loads."""
    data = path.read_bytes()
    assert data in choices, f"{path.name} is neither the old file nor the new one"
    (MomentSummary if kind == "summary" else DiagonalMixture).load(path)
    return data


def leftovers(path):
    return [name for name in os.listdir(path.parent) if name != path.name]


# -- killed -----------------------------------------------------------------------------------


def killed_save(path, data, at, before):
    """Save in a fork that kills itself at one call; True if it did."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads that a fork does not take along
        child = os.fork()
    if child == 0:
        try:
            action = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
            atomic_write(path, data, Counted(at, action, before), CHUNK)
        finally:
            os._exit(0)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def kills(start, stop, seed):
    """A case: one call of a save, killed before or after it; then perhaps another; then a save."""
    counts = Counter()
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        for number in range(start, stop):
            chance = random.Random(f"{seed} kills {number}")
            kind = ("summary", "model")[number % 2]
            path = Path(folder) / f"{kind}.file"
            old, new = contents(kind, 0), contents(kind, 1)
            atomic_write(path, old)
            at, died = number // 4, False
            while not died:  # the number of calls is found by going round
                died = killed_save(path, new, at, before=bool(number // 2 % 2))
                at -= 0 if died else _n_calls(kind)
                found = check_whole(kind, path, [old, new])
                assert died or found == new, f"case {number}: a save that got through has no effect"
                if not died:
                    atomic_write(path, old)
            counts["kills"] += 1
            assert len(leftovers(path)) <= 1, f"case {number}: {leftovers(path)}"
            counts["temporaries left"] += len(leftovers(path))
            if chance.random() < 0.3 and killed_save(path, new, chance.randrange(30), True):
                counts["kills"] += 1
                check_whole(kind, path, [old, new])
                assert len(leftovers(path)) <= 1, f"case {number}: {leftovers(path)}"
            atomic_write(path, new)
            assert path.read_bytes() == new
            assert not leftovers(path), f"case {number}: the next save left {leftovers(path)}"
            path.unlink()
    return counts


@lru_cache
def _n_calls(kind):
    """Calls of a save that finds nothing to clean up."""
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        system = Counted()
        atomic_write(Path(folder) / "file", contents(kind, 1), system, CHUNK)
        return system.n


# -- errors -----------------------------------------------------------------------------------

ERRORS = [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT, errno.EROFS, errno.EINTR]
MODES = [(True, False), (False, False), (True, True)]  # before, from there on


def write_errors(start, stop, seed):
    """A case: one error in one way at the n-th call, for every n until none is met."""
    counts = Counter()
    ways = list(product(ERRORS, MODES, ("summary", "model"), (False, True)))
    for number in range(start, stop):
        code, (before, on), kind, litter = ways[number % len(ways)]
        at, fired = 0, True
        while fired:
            with tempfile.TemporaryDirectory(dir=RAM) as folder:
                fired = _failed_save(Path(folder) / kind, kind, (at, code, before, on), litter)
            counts["write errors"] += fired
            at += 1
        assert at > 10, f"case {number}: only {at} calls"
    return counts


def _failed_save(path, kind, fault, litter):
    at, code, before, on = fault

    def fail():
        raise OSError(code, os.strerror(code))

    old, new = contents(kind, 0), contents(kind, 1)
    path.write_bytes(old)
    if litter:
        path.with_name(f".{kind}.0123456789abcdef.tmp").write_bytes(b"left by a killed writer")
    system, n_open = Counted(at, fail, before, on), len(os.listdir("/proc/self/fd"))
    error = None
    try:
        atomic_write(path, new, system, CHUNK)
    except OSError as found:
        error = found
    data = check_whole(kind, path, [old, new])
    renamed = "rename" in system.log and path.stat().st_size == len(new) and data == new
    assert error is not None or data == new, f"{fault}: no error and no new file"
    assert error is None or error.errno == code, f"{fault}: {error!r}"
    assert renamed == (data == new), fault
    assert len(leftovers(path)) <= 1 + (litter and on), f"{fault}: {leftovers(path)}"
    assert len(os.listdir("/proc/self/fd")) == n_open, f"{fault}: a file stays open"
    atomic_write(path, old, ShortWrites())
    assert path.read_bytes() == old
    assert not leftovers(path), f"{fault}: the next save left {leftovers(path)}"
    return system.fired


# -- power off --------------------------------------------------------------------------------


def power_losses(start, stop, seed, honest=True):
    """A case: the power goes off at some call; what was not flushed is lost or garbled."""
    counts = Counter()
    old, new = b"old file " * 30, b"the new one " * 40
    for number in range(start, stop):
        rng = random.Random(f"{seed} power {number}")
        files = {"file": old} if number % 3 else {}
        if number % 5 == 0:
            files[".file.0123456789abcdef.tmp"] = b"left by a killed writer"
        disk = Disk(rng, files, at=rng.randrange(45), honest=honest)
        try:
            atomic_write("/disk/file", new, disk, CHUNK)
            returned = True
        except Crash:
            returned = False
        found = disk.after_the_crash()
        allowed = [new] if returned else [files.get("file"), new]
        assert found.get("file") in allowed, f"case {number}: {found.get('file')!r}"
        counts["saves that had returned" if returned else "power losses"] += 1
        again = Disk(rng, found)
        atomic_write("/disk/file", old, again, CHUNK)
        after = again.after_the_crash()
        assert after == {"file": old}, f"case {number}: the next save left {sorted(after)}"
    return counts


PARTS = [
    campaign(kills, 8_300, 100, {"kills": 10_000}),
    campaign(write_errors, 72, 6, {"write errors": 1000}, "write-errors"),
    campaign(power_losses, 100_000, 5_000, {"power losses": 50_000}, "power-losses"),
]

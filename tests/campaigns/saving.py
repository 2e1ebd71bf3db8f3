"""Whatever happens during a save, the file is the old one or the new one, and litter goes away."""

import errno
import os
import random
import shutil
import signal
from collections import Counter
from contextlib import suppress
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np

from campaigns.campaign import Campaign, temporary_folder
from campaigns.fault_systems import CHUNK, Counted, Crash, Disk, installed, write_in_place
from campaigns.forks import Forks, job
from momentmix.atomic_file import atomic_write
from momentmix.mixture.mixture import DiagonalMixture
from momentmix.summary.summary import MomentSummary


@lru_cache
def contents(kind, seed):
    """Bytes of a summary or of a model."""
    rng = np.random.default_rng(seed)
    if kind == "summary":
        rows = rng.standard_normal((60, 3))
        return MomentSummary(3, 3, shard_id=str(seed)).update(rows).to_bytes()
    with temporary_folder() as folder:
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


WRITERS = {"atomic": atomic_write, "in place": write_in_place}


def save_job(path, data, at, before, writer):
    """A save that kills its process at one of the calls."""
    system = Counted(at, lambda: os.kill(os.getpid(), signal.SIGKILL), before, chunk=CHUNK)
    with installed(system):
        WRITERS[writer](path, bytes.fromhex(data))


def kills(start, stop, seed, writer="atomic"):
    """A case: one call of a save, killed before or after it; then perhaps another; then a save.

    Every other case begins with the litter of an earlier writer, whose removal can be killed, too.
    Sixteen cases run side by side, each in a folder of its own.
    """
    counts = Counter()
    with temporary_folder() as folder, Forks(__name__) as forks:
        for first in range(start, stop, 16):
            numbers = range(first, min(first + 16, stop))
            cases = [KillCase(Path(folder), number, seed, writer) for number in numbers]
            outcomes = forks.run(*[case.kill(case.at, case.before) for case in cases])
            for case, outcome in zip(cases, outcomes, strict=True):
                assert outcome.code == -signal.SIGKILL, f"case {case.number}: {outcome}"
                case.check(counts)
            again = [case for case in cases if case.chance.random() < 0.3]
            places = [case.chance.randrange(case.n_calls) for case in again]
            jobs = [case.kill(at, True) for case, at in zip(again, places, strict=True)]
            for case, outcome in zip(again, forks.run(*jobs), strict=True):
                # With less litter there are fewer calls: the save may get through.
                assert outcome.code in (-signal.SIGKILL, 0), f"case {case.number}: {outcome}"
                if outcome.code:
                    case.check(counts)
            for case in cases:
                case.save_and_leave()
    return counts


class KillCase:
    """A file in a folder of its own, and where its writer dies."""

    def __init__(self, folder, number, seed, writer):
        self.writer = writer
        self.number, self.chance = number, random.Random(f"{seed} kills {number}")
        self.kind = ("summary", "model")[number % 2]
        self.before, litter = bool(number // 2 % 2), bool(number // 4 % 2)
        self.n_calls = _n_calls(self.kind, writer)
        if litter and writer == "atomic":
            self.n_calls += 4  # open, flock, unlink, close
        self.at = number // 8 % self.n_calls
        self.old, self.new = contents(self.kind, 0), contents(self.kind, 1)
        self.path = folder / str(number) / "file"
        self.path.parent.mkdir()
        self.path.write_bytes(self.old)
        if litter:
            self.path.with_name(".file.0123456789abcdef.tmp").write_bytes(self.new[:40])

    def kill(self, at, before):
        save = {"path": str(self.path), "data": self.new.hex(), "writer": self.writer}
        return job(f"{__name__}:save_job", {**save, "at": at, "before": before})

    def check(self, counts):
        try:
            check_whole(self.kind, self.path, [self.old, self.new])
            assert len(leftovers(self.path)) <= 1, f"{leftovers(self.path)}"
        except AssertionError as error:
            raise AssertionError(f"case {self.number}: {error}") from error
        counts += Counter({"kills": 1, "temporaries left": len(leftovers(self.path))})

    def save_and_leave(self):
        atomic_write(self.path, self.new)
        assert self.path.read_bytes() == self.new
        assert not leftovers(self.path), f"case {self.number}: {leftovers(self.path)} stayed"
        shutil.rmtree(self.path.parent)


@lru_cache
def _n_calls(kind, writer):
    """Calls of a save that finds nothing to clean up."""
    with temporary_folder() as folder:
        path, new = Path(folder) / "file", contents(kind, 1)
        path.write_bytes(contents(kind, 0))
        with installed(Counted(chunk=CHUNK)) as system:
            WRITERS[writer](path, new)
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
            with temporary_folder() as folder:
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
    error = None
    with installed(Counted(at, fail, before, on, CHUNK)) as system:
        try:
            atomic_write(path, new)
        except OSError as found:
            error = found
    data = check_whole(kind, path, [old, new])
    renamed = "replace" in system.log and path.stat().st_size == len(new) and data == new
    assert error is not None or data == new, f"{fault}: no error and no new file"
    assert error is None or error.errno == code, f"{fault}: {error!r}"
    assert renamed == (data == new), fault
    assert len(leftovers(path)) <= 1 + (litter and on), f"{fault}: {leftovers(path)}"
    assert not system.descriptors, f"{fault}: a file stays open"
    atomic_write(path, old)
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
        returned = False
        with installed(disk), suppress(Crash):
            atomic_write("/disk/file", new)
            returned = True
        found = disk.after_the_crash()
        allowed = [new] if returned else [files.get("file"), new]
        assert found.get("file") in allowed, f"case {number}: {found.get('file')!r}"
        counts["saves that had returned" if returned else "power losses"] += 1
        again = Disk(rng, found)
        with installed(again):
            atomic_write("/disk/file", old)
        after = again.after_the_crash()
        assert after == {"file": old}, f"case {number}: the next save left {sorted(after)}"
    return counts


CAMPAIGNS = [
    Campaign(kills, 8_000, 160, {"kills": 10_000}),
    Campaign(write_errors, 72, 6, {"write errors": 1000}),
    Campaign(power_losses, 100_000, 5_000, {"power losses": 50_000}),
]

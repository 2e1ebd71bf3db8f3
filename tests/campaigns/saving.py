"""Whatever happens during a save, the file is the old one or the new one."""

import errno
import os
from collections import Counter
from functools import lru_cache
from itertools import product
from pathlib import Path

import numpy as np

from campaigns.fault_systems import Counted, Crash, installed
from campaigns.folders import temporary_folder
from momentmix.atomic_file import atomic_write
from momentmix.mixture.mixture import Mixture
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
        Mixture.diagonal([0.25, 0.75], rng.random((2, 3)), rng.random((2, 3))).save(path)
        return path.read_bytes()


def check_whole(kind, path, choices):
    """The file is one of the choices, and loads."""
    data = path.read_bytes()
    assert data in choices, f"{path.name} is neither the old file nor the new one"
    (MomentSummary if kind == "summary" else Mixture).load(path)
    return data


def leftovers(path):
    return [name for name in os.listdir(path.parent) if name != path.name]


# -- errors and kills -------------------------------------------------------------------------

CHUNK = 64  # bytes that a write takes at most
ERRORS = [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT, errno.EROFS, errno.EINTR]
MODES = [(True, False), (False, False), (True, True)]  # before, from there on
# A process that is killed before or after a call makes no other one.
WAYS = [*product(ERRORS, MODES), (None, (True, True)), (None, (False, True))]


def write_errors(start, stop, seed):
    """A case: one error in one way, or a kill, at the n-th call, for every n until none is met."""
    counts = Counter()
    ways = list(product(("summary", "model"), WAYS[::-1]))
    for number in range(start, stop):
        kind, (code, (before, on)) = ways[number % len(ways)]
        at, fired = 0, True
        while fired:
            with temporary_folder() as folder:
                fired = _failed_save(Path(folder) / kind, kind, (at, code, before, on))
            counts["write errors" if code else "kills"] += fired
            at += 1
        assert at > 10, f"case {number}: only {at} calls"
    return counts


def _failed_save(path, kind, fault):
    at, code, before, on = fault

    def fail():
        raise Crash if code is None else OSError(code, os.strerror(code))

    old, new = contents(kind, 0), contents(kind, 1)
    path.write_bytes(old)
    error = None
    with installed(Counted(at, fail, before, on, CHUNK)) as system:
        try:
            atomic_write(path, new)
        except (OSError, Crash) as found:
            error = found
    data = check_whole(kind, path, [old, new])
    assert error is not None or data == new, f"{fault}: no error and no new file"
    assert "replace" in system.log or data == old, fault
    left = leftovers(path)
    # It stays where removing it fails, where nobody does, or where opening it fails too late.
    assert len(left) <= (on or system.log[at:][:1] == ["open"]), f"{fault}: {left}"
    if code is None:
        for descriptor in system.descriptors:
            os.close(descriptor)  # as the system does
    else:
        assert error is None or error.errno == code, f"{fault}: {error!r}"
        assert not system.descriptors, f"{fault}: a file stays open"
    atomic_write(path, old)
    assert path.read_bytes() == old
    assert leftovers(path) == left, f"{fault}: the next save left {leftovers(path)}"
    return system.fired

"""A process killed at any call to the operating system leaves the old file or the new one."""

import errno
import os
import signal

import numpy as np
import pytest

from momentmix import DiagonalMixture, MomentSummary
from momentmix.core.atomic_file import System, atomic_write

CALLS = ("create", "write", "sync", "close", "rename", "open_directory", "remove")


class Counted(System):
    """Counts the calls; acts at one of them, before or after it."""

    def __init__(self, at=None, action=None, before=True):
        self.n, self.at, self.action, self.before = 0, at, action, before

    def _call(self, name, *arguments):
        here = self.n == self.at
        self.n += 1
        if here and self.before:
            self.action()
        result = getattr(super(), name)(*arguments)
        if here and not self.before:
            self.action()
        return result


for call in CALLS:
    setattr(Counted, call, lambda self, *arguments, name=call: self._call(name, *arguments))


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def killed_save(path, data, at, before, chunk):
    """Save in a child that dies at one call; True if it did die."""
    child = os.fork()
    if child == 0:
        try:
            atomic_write(path, data, Counted(at, die, before), chunk)
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] != 0


def contents(seed):
    rows = np.random.default_rng(seed).standard_normal((60, 3))
    return MomentSummary(3, 3, shard_id=str(seed)).update(rows).to_bytes()


def check_every_call(tmp_path, chunk, rounds):
    old, new = contents(0), contents(1)
    path, kills = tmp_path / "summary.mms", 0
    for _ in range(rounds):
        at = 0
        while True:
            results = []
            for before in (True, False):
                atomic_write(path, old)
                results.append(killed_save(path, new, at, before, chunk))
                kills += results[-1]
                assert path.read_bytes() in (old, new)
                assert MomentSummary.load(path).n_rows == 60
            if not any(results):
                break
            at += 1
        assert path.read_bytes() == new
    return kills


def test_killed_at_every_call(tmp_path):
    assert check_every_call(tmp_path, chunk=1000, rounds=1) >= 16


@pytest.mark.long
def test_a_thousand_kills(tmp_path):
    assert check_every_call(tmp_path, chunk=16, rounds=3) >= 1000


def test_the_new_file_is_flushed_before_it_is_renamed(tmp_path):
    log = []

    class Logged(System):
        pass

    for name in CALLS:
        setattr(
            Logged,
            name,
            lambda self, *a, name=name: (log.append(name), getattr(System, name)(self, *a))[1],
        )
    atomic_write(tmp_path / "file", b"x" * 10, Logged(), chunk=4)
    assert log == [
        "create",
        *["write"] * 3,
        "sync",
        "close",
        "rename",
        "open_directory",
        "sync",
        "close",
    ]


@pytest.mark.parametrize("at", range(6))
@pytest.mark.parametrize("before", [True, False])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_litter(tmp_path, at, before):
    def fail():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "file"
    path.write_bytes(b"old")
    system = Counted(at, fail, before)
    with pytest.raises(OSError, match="No space left"):
        atomic_write(path, b"new", system)
    renamed = at == 5 or (at == 4 and not before)
    assert path.read_bytes() == (b"new" if renamed else b"old")
    if not (at == 0 and not before):  # failed inside create itself: nothing is known of a file
        assert os.listdir(tmp_path) == ["file"]


def test_an_interrupt_leaves_the_summary_and_the_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "file"
    summary = MomentSummary(3, 2, shard_id="a").update(np.eye(3))
    summary.save(path)
    before = path.read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("momentmix.moments.summary.atomic_write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        summary.update(np.ones((2, 3))).save(path)
    assert path.read_bytes() == before
    assert summary.n_rows == 5


def test_a_model_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    model = DiagonalMixture([1.0], [[2.0, 3.0]], [[1.0, 0.5]])
    model.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        DiagonalMixture([1.0], [[9.0]], [[1.0]]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.json"]
    assert DiagonalMixture.load(path).means.tolist() == [[2.0, 3.0]]

"""Whatever fails or ends while a file is written, it is the old one or the new one."""

import errno
import os
import stat
import threading
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pytest

from momentmix import Mixture, atomic_file
from momentmix.atomic_file import atomic_write, check_writable, replacing

CALLS = ("open", "write", "fsync", "close", "replace", "unlink", "stat", "fstat", "fchmod")
OLD, NEW = b"old " * 50, b"new " * 60


class Kill(BaseException):
    """The process ended, or the power went off."""


@contextmanager
def failing(monkeypatch, at, error, is_before, goes_on):
    """The system of saves, with an error at the n-th call, before or after it is done."""
    system = SimpleNamespace(log=[], has_failed=False)

    def call(name, function, *arguments):
        is_here = len(system.log) == at or (goes_on and system.has_failed)
        system.log.append(name)
        if name == "write":
            arguments = arguments[0], arguments[1][:64]  # a write takes a part at most
        # Closing lets go even where it fails.
        result = None if is_here and is_before and name != "close" else function(*arguments)
        if is_here:
            system.has_failed = True
            if name == "open" and result is not None:
                os.close(result)
            raise error
        return result

    for name in dir(os):
        function = getattr(os, name)
        setattr(system, name, partial(call, name, function) if name in CALLS else function)
    with monkeypatch.context() as patch:
        patch.setattr(atomic_file, "os", system)
        yield system


ERRORS = [OSError(code, os.strerror(code)) for code in (errno.ENOSPC, errno.EIO, errno.EINTR)]
WAYS = [(error, *way) for error in ERRORS for way in ((True, False), (False, False), (True, True))]
WAYS += [(Kill(), True, True), (Kill(), False, True)]  # a process that was killed does no more


@pytest.mark.parametrize(("error", "is_before", "goes_on"), WAYS)
def test_errors_and_kills_at_every_call(error, is_before, goes_on, tmp_path, monkeypatch):
    at, has_failed = 0, True
    while has_failed:
        path = tmp_path / f"{at}" / "file"
        path.parent.mkdir()
        path.write_bytes(OLD)
        raised = None
        with failing(monkeypatch, at, error, is_before, goes_on) as system:
            try:
                atomic_write(path, NEW)
            except (OSError, Kill) as caught:
                raised = caught
        has_failed = system.has_failed
        data = path.read_bytes()
        assert data in (OLD, NEW)
        assert raised is not None or data == NEW
        assert "replace" in system.log or data == OLD
        # A temporary file stays where nobody can remove it.
        assert len(os.listdir(path.parent)) <= 1 + (goes_on or system.log[at:] == ["open"])
        atomic_write(path, OLD)
        assert path.read_bytes() == OLD
        at += 1
    assert at > 10


def test_bytes_are_flushed_before_the_name_changes_and_the_folder_after(tmp_path, monkeypatch):
    """What a loss of power leaves is then the old file or the new one."""
    with failing(monkeypatch, -1, None, True, False) as system:
        atomic_write(tmp_path / "file", b"text")
    calls = [name for name in system.log if name in ("write", "fsync", "replace")]
    assert calls == ["write", "fsync", "replace", "fsync"]


def test_writers_at_once_leave_one_whole_file_and_those_of_others(tmp_path):
    path, foreign = tmp_path / "file", tmp_path / ".file.not-ours.tmp"
    foreign.write_bytes(b"someone else's")
    with replacing(path) as descriptor:
        os.write(descriptor, b"slow")
        atomic_write(path, b"fast")
        assert path.read_bytes() == b"fast"
    assert path.read_bytes() == b"slow"

    def write(letter):
        for _ in range(60):
            atomic_write(path, letter * 3000)

    threads = [threading.Thread(target=write, args=(bytes([65 + i]),)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = path.read_bytes()
    assert data == data[:1] * 3000
    assert sorted(os.listdir(tmp_path)) == [foreign.name, "file"]


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_modes_and_links_are_kept(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    before = os.umask(0o027)
    try:
        atomic_write(path, b"new")
        assert mode_of(path) == 0o640
        for mode in (0o600, 0o604, 0o666, 0o400):
            os.chmod(path, mode)
            with replacing(path) as descriptor:
                (temporary,) = tmp_path.glob(".file.*")
                assert not mode_of(temporary) & ~mode & 0o777  # at no time more than before
                os.write(descriptor, b"text")
            assert mode_of(path) == mode
    finally:
        os.umask(before)
    link.symlink_to(path)
    atomic_write(link, b"behind")
    assert link.is_symlink()
    assert (path.read_bytes(), mode_of(path)) == (b"behind", 0o400)


@pytest.mark.parametrize("letter", ["a", "ä", "日", "😀"])
def test_names_are_cut_by_bytes_not_by_characters(letter, tmp_path):
    path = tmp_path / (letter * (255 // len(letter.encode())))
    check_writable(path)
    atomic_write(path, b"x")
    assert os.listdir(tmp_path) == [path.name]


def test_a_model_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    Mixture.diagonal([1.0], [[2.0, 3.0]], [[1.0, 0.5]]).save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        Mixture.diagonal([1.0], [[9.0]], [[1.0]]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.json"]

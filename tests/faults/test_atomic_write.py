"""Whatever fails or ends while a file is written, it is the old one or the new one."""

import os
import stat
import threading

import numpy as np
import pytest
from campaigns import saving
from campaigns.fault_systems import Counted, installed

from momentmix import Mixture, MomentSummary
from momentmix.atomic_file import atomic_write, check_writable, replacing


def test_errors_and_kills_at_every_call_until_none_is_met():
    counts = saving.write_errors(0, 5, seed=0) + saving.write_errors(20, 25, seed=0)
    assert counts["write errors"] > 100
    assert counts["kills"] > 50


def test_bytes_are_flushed_before_the_name_changes_and_the_folder_after(tmp_path):
    """What a loss of power leaves is then the old file or the new one."""
    with installed(Counted()) as system:
        atomic_write(tmp_path / "file", b"text")
    calls = [name for name in system.log if name in ("write", "fsync", "replace")]
    assert calls == ["write", "fsync", "replace", "fsync"]


def test_the_temporary_file_of_a_writer_at_work_is_left_alone(tmp_path):
    path = tmp_path / "file"
    foreign = tmp_path / ".file.not-ours.tmp"
    foreign.write_bytes(b"someone else's")
    with replacing(path) as descriptor:
        os.write(descriptor, b"slow")
        atomic_write(path, b"fast")
        assert path.read_bytes() == b"fast"
        assert len(os.listdir(tmp_path)) == 3
    assert path.read_bytes() == b"slow"
    assert sorted(os.listdir(tmp_path)) == [foreign.name, "file"]


def test_many_writers_at_once_leave_one_whole_file(tmp_path):
    path, errors = tmp_path / "file", []

    def write(letter):
        try:
            for _ in range(60):
                atomic_write(path, letter * 3000)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(bytes([65 + i]),)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    data = path.read_bytes()
    assert data == data[:1] * 3000
    atomic_write(path, b"last")
    assert os.listdir(tmp_path) == ["file"]


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_a_new_file_follows_the_umask_and_a_replaced_one_keeps_its_mode(tmp_path):
    path = tmp_path / "file"
    old = os.umask(0o027)
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
        os.umask(old)


def test_a_link_is_kept_and_so_is_the_mode_of_the_file_behind_it(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    atomic_write(link, b"new")
    assert link.is_symlink()
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o600)


def test_names_are_cut_by_bytes_not_by_characters(tmp_path):
    for letter in ("a", "ä", "日", "😀"):
        path = tmp_path / (letter * (255 // len(letter.encode())))
        check_writable(path)
        atomic_write(path, b"x")
        assert os.listdir(tmp_path) == [path.name]
        path.unlink()


def test_an_interrupt_leaves_the_summary_and_the_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "file"
    summary = MomentSummary(3, 2, shard_id="a").update(np.eye(3))
    summary.save(path)
    before = path.read_bytes()

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("momentmix.summary.summary.atomic_write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        summary.update(np.ones((2, 3))).save(path)
    assert path.read_bytes() == before
    assert summary.n_rows == 5


def test_a_model_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    model = Mixture.diagonal([1.0], [[2.0, 3.0]], [[1.0, 0.5]])
    model.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        Mixture.diagonal([1.0], [[9.0]], [[1.0]]).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.json"]
    assert Mixture.load(path).means.tolist() == [[2.0, 3.0]]

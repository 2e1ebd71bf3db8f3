"""A time limit for each test, and folders of campaigns."""

import errno
import tempfile
from pathlib import Path

import pytest
from campaigns.folders import temporary_folder


def test_every_test_has_a_time_limit(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("timeout")
    assert float(pytestconfig.getini("timeout")) >= 60


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOENT])
def test_folders_are_elsewhere_where_shared_memory_cannot_be_written(monkeypatch, tmp_path, code):
    made = tempfile.mkdtemp

    def refusing(suffix=None, prefix=None, dir=None):
        if dir is not None:
            raise OSError(code, "no")
        return made(suffix, prefix, tmp_path)

    monkeypatch.setattr(tempfile, "mkdtemp", refusing)
    with temporary_folder() as folder:
        assert Path(folder).parent == tmp_path
    assert list(tmp_path.iterdir()) == []

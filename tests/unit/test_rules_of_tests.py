"""Rules for the tests: no forks of the test process, no clocks, and a time limit for each."""

import ast
import errno
import tempfile
from pathlib import Path

import pytest
from campaigns.folders import temporary_folder

TESTS = Path(__file__).parents[1]
# A fork takes threads, handlers and the channel to other workers along: fork in a subprocess.
FORKS = {"fork", "forkpty", "preexec_fn"}
# A machine may be slow or busy: count calls, bytes or lines instead; wait for an event.
CLOCKS = {"process_time", "perf_counter", "thread_time", "getrusage", "sleep", "SIGSTOP"}


def names_in(path):
    """Attributes, names and keywords of a file; text in strings is not code of this process."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.alias):
            yield node.name


def test_no_test_forks_or_depends_on_a_clock():
    files = {path.relative_to(TESTS).as_posix(): path for path in TESTS.rglob("*.py")}
    assert len(files) > 50
    for name, path in files.items():
        found = {*names_in(path)} & (FORKS | CLOCKS)
        assert not found, f"{name}: {found}"


def test_negative_control_a_fork_is_found(tmp_path):
    path = tmp_path / "test_bad.py"
    path.write_text("import os\nfrom time import sleep\nos.fork()\nrun(preexec_fn=None)\n")
    assert {"fork", "sleep", "preexec_fn"} <= {*names_in(path)}


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

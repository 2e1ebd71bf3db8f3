import tempfile

import numpy as np
import pytest


@pytest.fixture
def rows():
    return np.random.default_rng(0).standard_normal((1000, 3)).round(12)  # openpyxl rounds to 16


@pytest.fixture
def temporary(tmp_path_factory, monkeypatch):
    """A folder of its own for temporary copies."""
    folder = tmp_path_factory.mktemp("copies")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def memory():
    """A file system in memory, at memory://."""
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)

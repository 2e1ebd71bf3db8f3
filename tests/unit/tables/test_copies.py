"""Copies of streams of bytes and of files at addresses."""

import bz2
import functools
import gc
import gzip
import http.server
import io
import lzma
import os
import sys
import threading
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from momentmix.errors import InputError, InputTypeError, MissingDependencyError, NoInputError
from momentmix.tables.formats import copies
from momentmix.tables.formats.copies import (
    LocalCopy,
    can_fetch,
    copied_stream,
    fetched,
    is_address,
    name_at,
    remote_files,
)


@pytest.fixture(autouse=True)
def temporary(tmp_path_factory, monkeypatch):
    """A folder of its own for temporary copies."""
    folder = tmp_path_factory.mktemp("copies")
    monkeypatch.setattr(copies.tempfile, "tempdir", str(folder))
    return folder


class Drops:
    """A stream that gives a few bytes at a time, and cannot seek."""

    def __init__(self, content):
        self._file = io.BytesIO(content)

    def read(self, size=-1):
        return self._file.read(size if 0 <= size < 3000 else 3000)


PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda text: pa.compress(text, "zstd", asbytes=True),
}
STARTS = {
    ".csv": b"a,b\n",
    ".jsonl": b'{"a": 1}\n',
    ".parquet": b"PAR1",
    ".arrow": b"\xff\xff\xff\xff",
    ".npy": b"\x93NUMPY",
}


@pytest.mark.parametrize("suffix", STARTS)
@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("stream", [io.BytesIO, Drops])
def test_the_first_bytes_of_a_stream_tell_its_format(temporary, suffix, packing, stream):
    noise = bytes((i * i) % 251 for i in range(3 << 20))  # longer than what is looked at
    content = STARTS[suffix] + noise
    packed = PACK[packing](content)
    copy = copied_stream(stream(packed))
    is_text = suffix in (".csv", ".jsonl")  # which is read compressed
    assert os.fspath(copy).endswith(f"rows{suffix}{packing if is_text else ''}")
    assert Path(copy).read_bytes() == (packed if is_text else content)
    assert str(copy) == "standard input"
    assert os.stat(copy).st_mtime == 0
    assert len(list(temporary.iterdir())) == 1
    del copy
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_short_streams():
    assert Path(copied_stream(io.BytesIO(b""))).read_bytes() == b""
    assert os.fspath(copied_stream(io.BytesIO(b"{}"))).endswith("rows.csv")
    twice = copied_stream(io.BytesIO(gzip.compress(gzip.compress(b"1\n"))))
    assert os.fspath(twice).endswith("rows.csv.gz")  # once is enough


def zip_bytes():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("x.csv", b"a\n1\n")
    return file.getvalue()


@pytest.mark.parametrize(
    ("stream", "kind", "message"),
    [
        (io.BytesIO(zip_bytes()), InputError, "is a zip archive or a workbook.* Save it"),
        (io.StringIO("a,b\n1,2\n"), InputTypeError, "must give bytes; this one gives str. Open"),
        (io.BytesIO(gzip.compress(b"a\n" * 99)[:12]), InputError, "not a whole gzip file"),
        (io.BytesIO(lzma.compress(b"\x93NUMPY" + os.urandom(99))[:-9]), InputError, "whole xz"),
    ],
)
def test_bad_streams_leave_no_copy(temporary, stream, kind, message):
    with pytest.raises(kind, match=message) as kept:
        copied_stream(stream)
    assert kept.tb is not None
    assert [*temporary.rglob("rows.npy")] == []


def test_a_stream_that_fails_leaves_no_copy(temporary):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            if self.tell() >= 2 << 20:
                raise ConnectionError("gone")
            return super().read(min(size, 1 << 19))

    with pytest.raises(ConnectionError) as kept:
        copied_stream(Failing(b"a,b\n" * (1 << 20)))
    assert kept.tb is not None
    assert list(temporary.iterdir()) == []


def test_a_copy_goes_with_its_last_reference(temporary):
    copy = LocalCopy("the query", ".arrow")
    Path(copy).write_bytes(b"x")
    assert str(copy) == "the query"
    del copy
    gc.collect()
    assert list(temporary.iterdir()) == []


# -- addresses --------------------------------------------------------------------------------


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec")
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def is_csv(path):
    return path.endswith(".csv") and not path.startswith("_")


def test_what_is_an_address():
    assert is_address("s3://box/x.csv")
    assert is_address("https:/h.org/x.csv")  # as Path() has it
    assert not is_address("C:/x.csv")
    assert not is_address("folder/x.csv")
    assert not can_fetch("file:///x.csv")
    assert name_at("https://h.org/box/x.csv.gz?sig=1#x") == "x.csv.gz"


def test_an_address_is_copied(temporary, memory):
    memory.pipe_file("/bucket/x.csv.gz", b"content")
    copy = fetched("memory://bucket/x.csv.gz", ".csv.gz")
    assert str(copy) == "memory://bucket/x.csv.gz"
    assert Path(copy).read_bytes() == b"content"
    assert os.stat(copy).st_mtime == 0
    assert len(list(temporary.iterdir())) == 1


def test_folders_and_patterns_at_addresses(memory):
    for name in ("b.csv", "a.csv", "_x.csv", "x.md"):
        memory.pipe_file(f"/bucket/{name}", b"1,2\n")
    for address in ("memory://bucket", "memory://bucket/[ab].csv", "memory:/bucket/?.csv"):
        files = remote_files(address, is_csv)
        assert [name_at(file) for file in files] == ["a.csv", "b.csv"]
    assert remote_files("memory://bucket/none.csv", is_csv) == ["memory://bucket/none.csv"]
    with pytest.raises(NoInputError, match="no data file is at 'memory://bucket/"):
        remote_files("memory://bucket/*.npy", is_csv)


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("memory://bucket/none.csv", NoInputError, "bucket/none.csv does not exist; check"),
        ("nonsense://bucket/x.csv", InputError, "cannot be fetched: ValueError: Protocol"),
        ("s3://bucket/x.csv", MissingDependencyError, r"needs a package that is not .*s3fs"),
        ("nosuch://al:hunter2@h.org/x.csv?sig=5ecret", InputError, "nosuch://h.org/x.csv cannot"),
    ],
)
def test_bad_addresses(temporary, memory, monkeypatch, address, kind, message):
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(kind, match=message) as kept:
        fetched(address, ".csv")
    assert "hunter2" not in repr(kept.value)
    assert "5ecret" not in repr(kept.value)
    assert list(temporary.iterdir()) == []


def test_files_of_a_web_server(tmp_path):
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")
    (tmp_path / "rows.csv").write_bytes(b"a,b\n1,2\n")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_port}"
        (address,) = remote_files(f"{place}/rows.csv?x=1", is_csv)  # ? begins a query there
        assert Path(fetched(address, ".csv")).read_bytes() == b"a,b\n1,2\n"
        with pytest.raises(NoInputError, match=r"none.csv does not exist"):
            fetched(f"{place}/none.csv", ".csv")
        server.shutdown()

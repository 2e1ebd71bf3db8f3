"""Files at addresses and streams of bytes, opened as rows."""

import gc
import gzip
import io
import sys

import numpy as np
import pytest
from unit.tables.table_files import text_of, write

from momentmix import open_rows, schema_from
from momentmix.errors import (
    InputError,
    MissingDependencyError,
    NoInputError,
    without_secrets,
)

pytestmark = pytest.mark.usefixtures("temporary")


@pytest.fixture
def bytes_of(tmp_path):
    """Return a function that gives rows as the bytes of a file of some kind."""
    return lambda rows, kind: write(tmp_path / f"x.{kind}", rows).read_bytes()


class Drops:
    """A stream that gives a few bytes at a time, and cannot seek."""

    def __init__(self, content):
        self._file = io.BytesIO(content)

    def read(self, size=-1):
        return self._file.read(size if 0 <= size < 3000 else 3000)


# -- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl", "parquet", "npy"])
def test_addresses_are_copied_once(temporary, memory, rows, bytes_of, kind):
    memory.pipe_file(f"/bucket/rows.{kind}", bytes_of(rows, kind))
    source = open_rows(f"memory://bucket/rows.{kind}")
    memory.rm(f"/bucket/rows.{kind}")  # two passes, without it
    for _ in range(2):
        np.testing.assert_array_equal(source.read_within(np.inf)[0], rows)
    assert source.sources[0].name == f"memory://bucket/rows.{kind}"
    assert len(list(temporary.iterdir())) == (kind != "jsonl")  # which is in memory
    del source
    gc.collect()
    assert list(temporary.iterdir()) == []


def test_folders_and_patterns_at_addresses(memory, rows, bytes_of):
    parts = {"b.csv": rows[500:], "a.csv": rows[:500], "_x.csv": rows, "x.md": rows}
    for name, part in parts.items():
        memory.pipe_file(f"/bucket/{name}", bytes_of(part, "csv"))
    for address in ("memory://bucket", "memory://bucket/[ab].csv", "memory://bucket/?.csv"):
        np.testing.assert_array_equal(open_rows(address).read_within(np.inf)[0], rows)
    names = [table.name for table in open_rows("memory://bucket").sources]
    assert [name.rsplit("/", 1)[1] for name in names] == ["a.csv", "b.csv"]
    with pytest.raises(InputError, match=r"memory://bucket/a\.csv holds the same rows"):
        schema_from(["memory://bucket/a.csv"] * 2)


@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("memory://bucket/none.csv", NoInputError, "bucket/none.csv does not exist; check"),
        ("memory://bucket/*.npy", NoInputError, "no data file is at 'memory://bucket/"),
        ("memory://bucket/x.md", InputError, "x.md has no known ending"),
        ("nonsense://bucket/x.csv", InputError, "cannot be fetched: ValueError: Protocol"),
        ("s3://bucket/x.csv", MissingDependencyError, r"needs a package that is not .*s3fs"),
        ("memory://bucket/bad.csv", InputError, "memory://bucket/bad.csv, line 2 has 1 field"),
        (
            "gs:/bucket/x.csv",
            MissingDependencyError,
            "gs://bucket/x.csv is an address; reading it needs",
        ),  # as Path() has it
        ("C:/x.csv", NoInputError, "C:/x.csv does not exist; check the path"),
    ],
)
def test_bad_addresses(temporary, memory, monkeypatch, address, kind, message):
    for package in ("s3fs", "gcsfs"):
        monkeypatch.setitem(sys.modules, package, None)
    memory.pipe_file("/bucket/x.md", b"no data")
    memory.pipe_file("/bucket/bad.csv", b"a,b\n1\n")
    with pytest.raises(kind, match=message):
        open_rows(address).read_within(np.inf)[0]
    gc.collect()
    assert list(temporary.iterdir()) == []


SECRETS = ("alice", "hunter2", "5ecret", "fr4g")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("https://alice:hunter2@h.org:80/x.csv?sig=5ecret#fr4g", "https://h.org:80/x.csv"),
        ("https://alice:hun/ter2@h.org/x.csv", "https://h.org/x.csv"),
        ("https://hunter2@h.org/a@b.csv", "https://h.org/a@b.csv"),
        ("https://h.org/x.csv?5ecret", "https://h.org/x.csv"),
        ("https:/alice:hunter2@h.org/x.csv", "https:/h.org/x.csv"),
        ("http://[::1]:80/x.csv#fr4g", "http://[::1]:80/x.csv"),
        ("zip://x.csv::https://alice:p@h.org/y.zip?a=5ecret", "zip://x.csv::https://h.org/y.zip"),
        ("az://box/x.csv?sv=1&sig=5ecret", "az://box/x.csv"),
        ("--data=https://alice@h.org/x?5ecret", "--data=https://h.org/x"),
        ("at 'https://h.org/x?s=5ecret'.", "at 'https://h.org/x'."),
        ("s3://box/part-?.csv", "s3://box/part-?.csv"),
        ("C:/a@b/x?c=1.csv", "C:/a@b/x?c=1.csv"),
        ("a@b.org or 3:/4", "a@b.org or 3:/4"),
    ],
)
def test_names_of_addresses_hold_no_secrets(text, name):
    assert without_secrets(text) == name
    assert str(InputError(f"{text} is wrong")) == f"{name} is wrong"


def test_secrets_of_addresses_are_used_and_kept_nowhere(memory):
    """The address is read; the name in notes, fingerprints and errors lacks its secrets."""
    memory.pipe("/box/x.csv?sig=5ecret", b"0,1\n" + b"1.5,2.5\n0.5,3.5\n" * 9)
    address = "memory://box/x.csv?sig=5ecret"
    source = open_rows(address)
    assert source.n_rows == 18
    (table,) = source.sources
    assert table.name == "memory://box/x.csv"
    kept = f"{table.name} {source.notes}"
    assert "memory://box/x.csv" in kept
    messages = []
    for wrong in ("memory://none.csv?sig=5ecret", "memory://box/x.odd?sig=5ecret"):
        with pytest.raises(InputError) as error:
            open_rows(wrong)
        messages.append(str(error.value) + repr(error.value))
    for scheme in ("nosuch", "https"):
        with pytest.raises((InputError, MissingDependencyError)) as error:
            open_rows(f"{scheme}://alice:hunter2@127.0.0.1:1/x.csv?sig=5ecret#fr4g")
        messages.append(str(error.value) + repr(error.value))
    assert not any(secret in text for text in [kept, *messages] for secret in SECRETS)


# -- streams of bytes -------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [io.BytesIO, Drops])
def test_streams_are_read_as_often_as_files(rows, temporary, stream):
    source = open_rows(stream(text_of(rows)))
    for _ in range(2):
        np.testing.assert_array_equal(source.read_within(np.inf)[0], rows)
    assert source.sources[0].name == "standard input"
    del source
    gc.collect()
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "standard input is empty"),
        (b"a,b\n1,2\n3\n", "standard input, line 3 has 1 field"),
        (gzip.compress(b"1\n", mtime=0), "is binary or UTF-16, not CSV"),
        (b"PAR1\0\0", "is binary or UTF-16, not CSV in UTF-8. Give a file of another format its"),
    ],
)
def test_bad_streams(temporary, content, message):
    with pytest.raises(InputError, match=message):
        open_rows(io.BytesIO(content)).read_within(np.inf)[0]
    gc.collect()
    assert list(temporary.iterdir()) == []

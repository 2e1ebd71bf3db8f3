"""Rows that come once only, or are far away: copied to a temporary file, and read from there.

Queries and streams of record batches become Arrow files; binary streams are CSV; files at addresses
(s3://, https://, …) are copied through fsspec.
"""

from __future__ import annotations

import errno
import glob
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from momentmix.errors import (
    InputError,
    InputTypeError,
    MissingDependencyError,
    MomentmixError,
    NoInputError,
    printable,
    without_secrets,
)
from momentmix.tables.columns import checked, plain_polars
from momentmix.tables.formats.binary_files import ArrowFile
from momentmix.tables.formats.memory import is_frame
from momentmix.tables.source import (
    ArrowSource,
    Batch,
    Columns,
    Source,
    batch_rows,
    numbered,
    refuse_damage,
)

_ADDRESS = re.compile("[A-Za-z][A-Za-z0-9+.-]+:/")  # Path() keeps one slash; C:/ is a path
_AT_ONCE = 1 << 20  # bytes
_LEAST_ROWS = 1 << 12  # of a batch
_AHEAD = {"batch_readahead": 4, "fragment_readahead": 2}  # pyarrow's 16 and 4 take much memory


class LocalCopy(os.PathLike[str]):
    """A temporary file with the name of its original, removed with the last reference to this."""

    def __init__(self, name: str, suffix: str) -> None:
        folder = tempfile.mkdtemp(prefix="momentmix-")
        self._name, self._path = name, os.path.join(folder, f"rows{suffix}")
        self._end = weakref.finalize(self, _remove, folder, os.getpid())

    @contextmanager
    def filling(self) -> Iterator[str]:
        """The path to write to; the file is removed at an error. Its time is always the same."""
        try:
            yield self._path
            os.utime(self._path, (0, 0))
        except BaseException:
            self._end()
            raise

    def __fspath__(self) -> str:
        return self._path

    def __str__(self) -> str:
        return self._name


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child, which ends before its parent
        shutil.rmtree(folder, ignore_errors=True)


def copied_stream(stream: Any) -> LocalCopy:
    """A copy of a binary stream of CSV."""
    copy = LocalCopy("standard input", ".csv")
    with copy.filling() as path, open(path, "wb") as file:
        while data := stream.read(_AT_ONCE):
            if not isinstance(data, bytes | bytearray):
                raise InputTypeError(
                    f"a stream must give bytes; this one gives {type(data).__name__}. Open the "
                    "file in binary mode: open(path, 'rb')."
                )
            file.write(data)
    return copy


# -- queries and streams of record batches ---------------------------------------------------------


def is_query(data: Any) -> bool:
    """Whether `data` is a query, a dataset or a stream of record batches."""
    if _kind(data):
        return True
    is_array = hasattr(data, "to_numpy")  # columns of polars and pandas have streams, too
    return hasattr(data, "__arrow_c_stream__") and not is_array and not is_frame(data)


def _kind(data: Any) -> str:
    """Name of the class of a query or dataset; "" for anything else.

    No library is imported, and no attribute asked for: a relation has its columns as attributes.
    """
    library, name = type(data).__module__.partition(".")[0].lstrip("_"), type(data).__name__
    if (library, name) in (("polars", "LazyFrame"), ("duckdb", "DuckDBPyRelation")):
        return name
    datasets = sys.modules.get("pyarrow.dataset")
    if datasets is None or not isinstance(data, datasets.Dataset | datasets.Scanner):
        return ""
    return "Dataset" if isinstance(data, datasets.Dataset) else "Scanner"


def open_query(data: Any) -> Source:
    """The source of what `is_query`: a dataset is scanned in each pass, others are copied."""
    kind = _kind(data)
    if kind == "Dataset":
        return Dataset(data)
    name = "the stream" if kind in ("", "Scanner") else "the query"
    copy, n_rows = LocalCopy(name, ".arrow"), 0
    try:
        from pyarrow import RecordBatchReader, ipc

        if kind == "LazyFrame":
            schema, batches = _lazy_batches(data)
        else:
            batches = RecordBatchReader.from_stream(data.to_reader() if kind == "Scanner" else data)
            schema = batches.schema
        # In the stream format each batch may have its own dictionaries.
        with copy.filling() as path, ipc.new_stream(path, schema) as writer:
            for batch in batches:
                writer.write_batch(checked(batch))
                n_rows += batch.num_rows
    except Exception as error:
        if isinstance(error, MemoryError | MomentmixError) or getattr(error, "errno", None):
            raise
        reason = printable(str(error).strip().partition("\n")[0].partition(" Detail: ")[0])
        raise InputError(
            f"{name} cannot be read: {reason.rstrip('.')[:200]}. Run it by itself to see where it "
            "fails; if its file, table or connection is gone, make all of it again."
        ) from None
    source = _Copied(copy)
    source.n_rows = n_rows
    return source


def _lazy_batches(data: Any) -> tuple[Any, Any]:
    """Schema and batches of a polars LazyFrame, collected in batches where polars can."""
    polars, data = sys.modules["polars"], plain_polars(data)
    schema = polars.DataFrame(schema=data.collect_schema()).to_arrow().schema
    if hasattr(data, "collect_batches"):
        frames = data.collect_batches(maintain_order=True, engine="streaming")
    else:
        frames = [data.collect()]
    return schema, (batch.cast(schema) for x in frames for batch in x.to_arrow().to_batches())


class _Copied(ArrowFile):
    """The record batches of a query or stream, in a temporary file."""

class Dataset(ArrowSource):
    """A pyarrow Dataset, scanned in each pass."""

    name = "the dataset"

    def __init__(self, data: Any) -> None:
        self.data = data
        self.set_schema(data.schema)

    def batches(self, columns: Columns, *_: Columns) -> Iterator[Batch]:
        names = [self.schema.names[i] for i in columns]
        size = {"batch_size": max(batch_rows(len(names)), _LEAST_ROWS), **_AHEAD}
        # A thread that releases Python's memory when Python ends would abort the process; rows
        # in memory gain nothing from threads.
        in_memory = isinstance(self.data, sys.modules["pyarrow.dataset"].InMemoryDataset)
        with refuse_damage(lambda text: InputError(f"{self.name} cannot be read: {text}")):
            yield from numbered(
                self.data.to_batches(columns=names, use_threads=not in_memory, **size)
            )


# -- addresses -------------------------------------------------------------------------------------


def is_address(text: str) -> bool:
    """Whether a path is the address of something elsewhere."""
    return _ADDRESS.match(text) is not None


def remote_files(text: str, readable: Callable[[str], bool]) -> list[str]:
    """Addresses of the files of an address, in order; in a folder the `readable` ones."""
    address = re.sub("^([^:/]+):/+", r"\1://", text)  # with both slashes
    web = address.startswith(("http:", "https:"))  # no folders there, and ? begins a query
    with _located(address) as (system, path):
        if "*" in path or (not web and glob.has_magic(path)):
            files = [p for p in system.glob(path) if not system.isdir(p)]
        elif not web and system.isdir(path):
            below = len(path.rstrip("/")) + 1
            files = [p for p in system.find(path) if readable(p[below:])]
        else:
            return [address]
        if not files:
            raise NoInputError(
                f"no data file is at {without_secrets(address)!a}; check the address."
            )
        return [str(system.unstrip_protocol(file)) for file in sorted(files)]


def fetched(address: str, suffix: str) -> LocalCopy:
    """A copy of the file at an address."""
    copy = LocalCopy(without_secrets(address), suffix)
    with copy.filling() as target, _located(address) as (system, path):
        system.get_file(path, target)
    return copy


@contextmanager
def _located(address: str) -> Iterator[tuple[Any, str]]:
    """The file system of an address and the path there; each system has exceptions of its own."""
    name = without_secrets(address)
    try:
        from fsspec.core import url_to_fs

        yield url_to_fs(address)
    except (MomentmixError, MemoryError):
        raise
    except FileNotFoundError:
        raise NoInputError(f"{name} does not exist; check the address.") from None
    except ImportError as error:
        raise MissingDependencyError(
            f"{name} needs a package that is not installed: {error}. Install it with pip, or "
            "download the file."
        ) from None
    except Exception as error:
        if getattr(error, "errno", None) == errno.ENOSPC:
            raise
        text = without_secrets((str(error).splitlines() or [""])[0])[:200]
        raise InputError(
            f"{name} cannot be fetched: {type(error).__name__}: {text}. Check the address, the "
            "connection and the access rights."
        ) from None

"""The state of an unfinished ``summarize``: input, settings, place, and the summary so far."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from momentmix.atomic_file import atomic_write, short_name
from momentmix.errors import InputError, OutputError
from momentmix.json_fields import Fields, boolean, integer, list_of, map_of, parse_strict, text
from momentmix.tables.selection import column_keys
from momentmix.tables.table_rows import TableRows

if sys.platform != "win32":
    import fcntl

_MAGIC = b"momentmix checkpoint 2\n"
_EARLIER = b"momentmix checkpoint 1\n"  # of another digest of rows, and other last bits of sums


@dataclass(frozen=True)
class Fingerprint:
    """The input to be read: files (name, size, time, digest of samples), columns, policy."""

    pieces: tuple[dict[str, Any], ...]
    columns: tuple[str | int, ...]
    missing: str

    @classmethod
    def of(cls, rows: TableRows) -> Fingerprint:
        """That of rows to be read."""
        files = tuple({**source.stamp(), "mark": source.mark} for source in rows.sources)
        return cls(files, tuple(column_keys(rows.sources[0], rows.columns[0])), rows.policy)

    @property
    def digest(self) -> str:
        """Twelve bytes of a hash of all of it, as hexadecimal digits."""
        document = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(document.encode()).hexdigest()[:24]

    def difference(self, other: Fingerprint) -> str:
        """The first difference from the other one, in words; empty if there is none."""
        if len(self.pieces) != len(other.pieces):
            return f"{len(self.pieces)} inputs there, {len(other.pieces)} here"
        for there, here in zip(self.pieces, other.pieces, strict=True):
            for key in ("name", "bytes", "mtime_ns", "mark"):
                was, now = there.get(key), here.get(key)
                if was != now:
                    what = {"mtime_ns": "time of change", "mark": "contents"}.get(key, key)
                    return f"{what} of {here['name']!a}: {was} there, {now} here"
        if self.columns != other.columns:
            return f"columns: {list(self.columns)!a} there, {list(other.columns)!a} here"
        if self.missing != other.missing:
            return f"missing: {self.missing!r} there, {other.missing!r} here"
        return ""


@dataclass(frozen=True)
class Checkpoint:
    """The state from which a later run continues as if there had been no interruption.

    `settings` are what the bytes of the result depend on beside the input; `row` of table `piece`
    is the first one that is not in the summary, and `read` the digest of the rows before it. These
    names are keys of the file.
    """

    fingerprint: Fingerprint
    settings: dict[str, Any]
    piece: int
    row: int
    n_dropped: int
    read: str
    summary: bytes
    finished: bool = False

    def save(self, path: Path) -> None:
        """Replace the checkpoint, whole or not at all."""
        body = json.dumps(_HEAD.encode(self), sort_keys=True).encode() + b"\n" + self.summary
        atomic_write(path, _MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read a checkpoint that `save` wrote; refuses anything else."""
        data = path.read_bytes()
        if data.startswith(_EARLIER):
            raise InputError(
                f"{path} was written by an earlier version of momentmix, whose sums differ in the "
                "last bits. Finish the pass with that version, or remove it to start again."
            )
        if not data.startswith(_MAGIC):
            raise InputError(f"{path} is not a momentmix checkpoint; give another --checkpoint.")
        digest, _, body = data[len(_MAGIC) :].partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            raise InputError(
                f"{path} is damaged: its checksum does not match. Remove it to start again."
            )
        head, _, summary = body.partition(b"\n")
        try:
            return cls(**_HEAD(parse_strict(head.decode()), ""), summary=summary)
        except (ValueError, RecursionError):
            raise InputError(
                f"{path} is not a checkpoint of this momentmix, although its checksum is right. "
                "Remove it to start again."
            ) from None

    def check(self, path: Path, fingerprint: Fingerprint, settings: dict[str, Any]) -> None:
        """Raise unless this checkpoint belongs to the same input and settings."""
        difference = self.fingerprint.difference(fingerprint)
        if difference:
            raise InputError(
                f"{path} belongs to another input: fingerprint {self.fingerprint.digest} there, "
                f"{fingerprint.digest} here ({difference}). Give another --checkpoint, or remove "
                "it to start again."
            )
        for key, value in settings.items():
            if self.settings.get(key) != value:
                raise InputError(
                    f"{path} was made with {key}={self.settings.get(key)!r}, this run has "
                    f"{key}={value!r}. Use the same settings, or remove it to start again."
                )


def _anything(value: Any, place: str) -> Any:
    return value


_INPUT = Fields(
    lambda values: Fingerprint(**values | {k: tuple(values[k]) for k in ("pieces", "columns")}),
    {"pieces": list_of(map_of(_anything)), "columns": list_of(_anything), "missing": text},
)
_HEAD = Fields(
    lambda values: values | {"fingerprint": values.pop("input")},
    {
        "input": _INPUT,
        "settings": map_of(_anything),
        "read": text,
        **{name: integer(0) for name in ("piece", "row", "n_dropped")},
        "finished": boolean,
    },
    attributes={"input": "fingerprint"},
)


def lock(descriptor: int) -> bool:
    """Lock a file exclusively; False if another process holds it, or without support."""
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at this path."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def lock_path(path: Path) -> Path:
    """Return the file whose lock is the right to write a checkpoint; no other program's name."""
    name = short_name(path.name)
    if name != path.name:
        name += hashlib.sha256(os.fsencode(path.name)).hexdigest()[:16]
    return path.with_name(f".{name}.momentmix.lock")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the only right to write the checkpoint; the system drops it if the process dies."""
    if sys.platform == "win32":  # which has no such locks
        yield
        return
    file = lock_path(path)
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise OutputError(f"cannot write {file}: {error.strerror}.") from None
        status, problem = os.fstat(descriptor), ""
        if status.st_size or not stat.S_ISREG(status.st_mode):
            problem = f"{file} is not a lock of momentmix, which is an empty file. Move it away, or"
        elif not lock(descriptor):
            problem = f"another process is writing {path}; wait for it, or"
        elif is_at(descriptor, file):
            break
        os.close(descriptor)
        if problem:
            raise OutputError(f"{problem} give another --checkpoint.")
        # else the other process has just removed the file: take the new one
    try:
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)

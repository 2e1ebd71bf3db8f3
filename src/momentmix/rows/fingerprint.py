"""What tells inputs apart: before they are read, and by a digest of their rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from momentmix._typing import Float


@dataclass(frozen=True)
class Fingerprint:
    """What is to be read: files (name, size, time, digest of samples), columns, policy.

    It tells inputs apart before any row is read. Where two are equal, a pass that is resumed still
    compares the rows that it has read.
    """

    tables: tuple[dict[str, Any], ...]
    columns: tuple[str | int, ...]
    missing: str

    @property
    def digest(self) -> str:
        """Twelve bytes of a hash of all of it, as hexadecimal digits."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the JSON of checkpoints, in which tables are called pieces."""
        return {
            "pieces": list(self.tables),
            "columns": list(self.columns),
            "missing": self.missing,
        }

    def difference(self, other: Fingerprint) -> str:
        """The first difference from the other one, in words; empty if there is none."""
        if len(self.tables) != len(other.tables):
            return f"{len(self.tables)} inputs there, {len(other.tables)} here"
        for there, here in zip(self.tables, other.tables, strict=True):
            for key in ("name", "bytes", "mtime_ns", "mark"):
                if there.get(key) != here.get(key):
                    what = {"mtime_ns": "time of change", "mark": "contents"}.get(key, key)
                    return (
                        f"{what} of {here['name']!a}: {there.get(key)} there, {here.get(key)} here"
                    )
        if self.columns != other.columns:
            return f"columns: {list(self.columns)!a} there, {list(other.columns)!a} here"
        if self.missing != other.missing:
            return f"missing: {self.missing!r} there, {other.missing!r} here"
        return ""


class RowDigest:
    """A digest of rows, made while they are read."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def update(self, rows: Float) -> None:
        """Add rows; other threads may run meanwhile."""
        self._hash.update(np.ascontiguousarray(rows).data)

    def hexdigest(self) -> str:
        """The digest of the rows so far."""
        return self._hash.hexdigest()


def counted_twice(name: str) -> str:
    """The message for an input that holds the same rows as another one."""
    return (
        f"{name} holds the same bytes as an input before it; its rows would count twice. Leave it "
        "out, or pass by_name=True (--by-name) if equal files are different data."
    )

"""JSON lines (.jsonl, .ndjson) through pyarrow: an object in each line, its keys are the columns.

The text is cut into chunks of whole lines. The first chunk tells the columns and their types; a
number may be written as an integer in one chunk and with a fraction in another. A chunk that
pyarrow refuses is read again line by line, to say what is wrong in which line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from momentmix.digests import TextDigest
from momentmix.errors import InputError
from momentmix.tables.binary_files import numbered
from momentmix.tables.compression import Unpacked, split_packing
from momentmix.tables.source import ArrowFileSource, Batch, arrow_kind, checked

CHUNK = 1 << 22  # bytes read at a time
LONGEST = 1 << 25  # bytes of a line
DEEPEST = 100  # values within values
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_OBJECT = 'an object such as {"x": 1.5, "y": 2}'


class JsonLinesFile(ArrowFileSource):
    """JSON lines in a file, perhaps compressed."""

    is_text = True

    def _open(self) -> None:
        first = next(self._chunks(), None)
        if first is None:
            raise InputError(f"{self.name} is empty; it needs at least one line, {_OBJECT}.")
        self.schema = self._parsed(*first, None).schema

    def batches(
        self, columns: Sequence[int], start: int = 0, as_text: Sequence[int] = ()
    ) -> Iterator[Batch]:
        """All batches; numbers may be integers in some of them."""
        names = [self.schema.names[i] for i in columns]
        fields = [self.schema.field(i) for i in {*columns}]
        with self._refuse_unreadable():
            yield from numbered(
                checked(batch)
                for line, chunk in self._chunks()
                for batch in self._parsed(line, chunk, fields).select(names).to_batches()
            )

    # -- chunks of whole lines ----------------------------------------------------------------

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        """Chunks that are not blank, each with the number of its first line."""
        line, rest, digest = 1, b"", TextDigest()
        _, packing = split_packing(self.path.name)
        file: Any = Unpacked(self.path, packing, self.name) if packing else self.path.open("rb")
        with file:
            while data := file.read(CHUNK):
                text = rest + data
                cut = text.rfind(b"\n") + 1
                if cut:
                    digest.add(text[:cut])
                    if text[:cut].strip():
                        yield line, text[:cut]
                    line += text.count(b"\n", 0, cut)
                rest = text[cut:]
                if len(rest) > LONGEST:
                    raise InputError(
                        f"{self.name}, line {line} has more than {LONGEST >> 20} MiB and no end; "
                        f"each line must be {_OBJECT}."
                    )
        digest.add(rest)
        if rest.strip():
            yield line, rest
        self._text = digest.hexdigest()

    # -- chunks → tables ----------------------------------------------------------------------

    def _parsed(self, line: int, chunk: bytes, fields: Sequence[Any] | None) -> Any:
        """A chunk as an Arrow table; `fields` have the types that the first one told."""
        import pyarrow

        self._refuse_depth(line, chunk)
        if b"\nnull" in chunk or not chunk.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
            self._refuse_line(line, chunk, fields or ())  # at null pyarrow may crash
        attempts = [None] if fields is None else [fields, [_widened(field) for field in fields]]
        for attempt in attempts:
            try:
                table = _table(chunk, None if attempt is None else pyarrow.schema(attempt))
            except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
                text = str(error).partition("\n")[0][:200]
                continue
            if fields is None:
                return table
            self._refuse_new_keys(table.schema.names, line, chunk)
            return table.select([field.name for field in fields])
        self._refuse_line(line, chunk, fields or ())
        raise InputError(
            f"{self.name} cannot be read from line {line} on: {text}. Repair the lines."
        )

    def _refuse_depth(self, line: int, chunk: bytes) -> None:
        """Raise where values are nested so deeply that pyarrow could crash."""
        if _brackets(chunk) - chunk.count(b"\n") < DEEPEST:
            return
        for number, text in _lines(line, chunk):
            if _brackets(text) > DEEPEST and _depth(text) > DEEPEST:
                raise InputError(
                    f"{self.name}, line {number} nests values more than {DEEPEST} deep. Leave the "
                    "key out: momentmix reads numbers, true and false, and text."
                )

    def _refuse_new_keys(self, names: Sequence[str], line: int, chunk: bytes) -> None:
        """Raise where a chunk has keys that the first one had not."""
        new = [name for name in names if name not in self.schema.names]
        for number, text in _lines(line, chunk) if new else ():
            if new[0] in json.loads(text):
                raise InputError(
                    f"{self.name}, line {number} has the key {new[0]!a}, which no line of the "
                    f"first {CHUNK >> 20} MiB has. Write it in the first line, with null where "
                    "there is no value."
                )

    def _refuse_line(self, line: int, chunk: bytes, fields: Sequence[Any]) -> None:
        """Raise for the first line of a chunk that is no object, or not like those before."""
        kinds = {field.name: _WORDS.get(arrow_kind(field.type).kind, "") for field in fields}
        for number, text in _lines(line, chunk):
            place = f"{self.name}, line {number}"
            try:
                row = json.loads(text, object_pairs_hook=_distinct)
                reason = "" if isinstance(row, dict) else _kind(row)
            except KeyError:
                reason = "an object in which a key stands twice"
            except ValueError as error:
                reason = f"no JSON: {error}"
            if reason:
                cure = " For an array of objects: jq -c '.[]'." if text.strip()[:1] == b"[" else ""
                raise InputError(f"{place} is {reason}; each line must be {_OBJECT}.{cure}")
            for key, value in row.items():
                kind = _kind(value)
                if value is not None and kinds.setdefault(key, kind) not in (kind, ""):
                    raise InputError(
                        f"{place}, {key!a} is {kind}, and {kinds[key]} in lines before. Use one "
                        "kind of value for a key, and null where there is none."
                    )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise KeyError
    return row


def _table(chunk: bytes, schema: Any) -> Any:
    """A chunk as an Arrow table, with the types of a schema for the keys in it."""
    from pyarrow import BufferReader
    from pyarrow import json as arrow_json

    table = arrow_json.read_json(
        BufferReader(chunk),
        arrow_json.ReadOptions(block_size=len(chunk) + 1, use_threads=False),
        arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer"),
    )
    table.schema.names  # noqa: B018 - an error where a key is not UTF-8
    return table


def _brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _depth(text: bytes) -> int:
    """How deep values are nested; brackets in strings do not count."""
    characters = np.frombuffer(_STRING.sub(b"", text), np.uint8)
    steps = np.isin(characters, [*b"[{"]).astype(np.int64) - np.isin(characters, [*b"]}"])
    return int(steps.cumsum().max(initial=0))


def _lines(line: int, chunk: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, and their numbers."""
    return ((i, text) for i, text in enumerate(chunk.split(b"\n"), line) if text.strip())


def _widened(field: Any) -> Any:
    """A field of integers as one of float64; others as they are."""
    from pyarrow import float64, types

    return field.with_type(float64()) if types.is_integer(field.type) else field


_WORDS = {"number": "a number", "bool": "true or false", "text": "text"}


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", str: "text", dict: "an object", list: "an array"}
    return "null" if value is None else kinds.get(type(value), "a number")

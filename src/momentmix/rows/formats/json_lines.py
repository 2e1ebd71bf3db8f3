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

from momentmix.errors import InputError
from momentmix.rows.csv.compression import Unpacked, split_packing
from momentmix.digests import TextDigest
from momentmix.rows.formats.arrow_files import ArrowFileTable

CHUNK = 1 << 22  # bytes read at a time
LONGEST = 1 << 25  # bytes of a line
DEEPEST = 100  # values within values
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class JsonLinesFile(ArrowFileTable):
    """JSON lines in a file, perhaps compressed."""

    is_text = True

    def _open(self) -> None:
        first = next(self._chunks(), None)
        if first is None:
            raise InputError(f"{self.name} is empty; it needs at least one line, {_OBJECT}.")
        self.schema = self._parsed(*first, None).schema

    def _batches(self, columns: Sequence[int], start: int, block_rows: int) -> Iterator[Any]:
        fields = [self.schema.field(i) for i in columns]
        position = 0
        for line, chunk in self._chunks():
            table = self._parsed(line, chunk, fields)
            self._refuse_new_keys(table.schema.names, line, chunk)
            for batch in table.select([field.name for field in fields]).to_batches():
                yield position, batch
                position += batch.num_rows

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
        arrow = self._arrow
        try:
            try:
                return self._by_arrow(line, chunk, fields)
            except arrow.ArrowInvalid:
                if fields is None:
                    raise
                wider = [_widened(field, arrow) for field in fields]
                return self._by_arrow(line, chunk, wider)
        except (arrow.ArrowInvalid, UnicodeDecodeError) as error:
            self._refuse_line(line, chunk, fields)
            text = str(error).partition("\n")[0][:200]
            raise InputError(
                f"{self.name} cannot be read from line {line} on: {text}. Repair the lines."
            ) from None

    def _by_arrow(self, line: int, chunk: bytes, fields: Sequence[Any] | None) -> Any:
        from pyarrow import json as arrow_json

        self._refuse_depth(line, chunk)
        schema = None if fields is None else self._arrow.schema(fields)
        table = arrow_json.read_json(
            self._arrow.BufferReader(chunk),
            read_options=arrow_json.ReadOptions(block_size=len(chunk) + 1, use_threads=False),
            parse_options=arrow_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="infer"
            ),
        )
        table.schema.names  # noqa: B018 - an error where a key is not UTF-8
        return table

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

    def _refuse_line(self, line: int, chunk: bytes, fields: Sequence[Any] | None) -> None:
        """Raise for the first line of a chunk that is no object, or not like those before."""
        kinds: dict[str, str] = {}
        for field in fields or ():
            kinds[field.name] = _kind_of_type(field.type, self._arrow.types)
        for number, text in _lines(line, chunk):
            try:
                row = json.loads(text, object_pairs_hook=_distinct)
            except ValueError as error:
                reason = str(error) if isinstance(error, _RepeatedKeyError) else f"no JSON: {error}"
                raise InputError(
                    f"{self.name}, line {number} is {reason}. Each line must be {_OBJECT}."
                ) from None
            if not isinstance(row, dict):
                raise InputError(
                    f"{self.name}, line {number} is {_kind(row)}; each line must be {_OBJECT}. For "
                    "an array of objects: jq -c '.[]'."
                )
            for key, value in row.items():
                kind = _kind(value)
                if value is not None and kinds.setdefault(key, kind) not in (kind, ""):
                    raise InputError(
                        f"{self.name}, line {number}, {key!a} is {kind}, and {kinds[key]} in lines "
                        "before. Use one kind of value for a key, and null where there is none."
                    )


_OBJECT = 'an object such as {"x": 1.5, "y": 2}'


class _RepeatedKeyError(ValueError):
    pass


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise _RepeatedKeyError("an object in which a key stands twice")
    return row


def _brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _depth(text: bytes) -> int:
    """How deep values are nested; brackets in strings do not count."""
    characters = np.frombuffer(_STRING.sub(b"", text), np.uint8)
    steps = np.isin(characters, [*b"[{"]).astype(np.int64) - np.isin(characters, [*b"]}"])
    return int(steps.cumsum().max(initial=0))


def _lines(line: int, chunk: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, and their numbers."""
    for number, text in enumerate(chunk.split(b"\n"), line):
        if text.strip():
            yield number, text


def _widened(field: Any, arrow: Any) -> Any:
    """A field of integers as one of float64; others as they are."""
    integer = arrow.types.is_integer(field.type)
    return field.with_type(arrow.float64()) if integer else field


def _kind(value: Any) -> str:
    kinds = {bool: "true or false", str: "text", dict: "an object", list: "an array"}
    return kinds.get(type(value), "a number")


def _kind_of_type(kind: Any, types: Any) -> str:
    if types.is_integer(kind) or types.is_floating(kind):
        return "a number"
    if types.is_boolean(kind):
        return "true or false"
    return "text" if types.is_string(kind) else ""

"""JSON lines (.jsonl, .ndjson) through pyarrow: an object in each line, its keys are the columns.

The text is cut into chunks of whole lines. The first chunk decides the columns and their types; a
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
from momentmix.tables.formats.binary_files import numbered
from momentmix.tables.formats.copies import open_bytes
from momentmix.tables.formats.digests import TextDigest
from momentmix.tables.source import ArrowFileSource, Batch, Columns, arrow_kind, checked

CHUNK = 1 << 22  # bytes read at a time
LONGEST = 1 << 25  # bytes of a line
DEEPEST = 100  # values within values
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_OBJECT = 'an object such as {"x": 1.5, "y": 2}'
_KINDS = {bool: "true or false", str: "text", dict: "an object", list: "an array"}
_ARROW_KINDS = {"number": "a number", "bool": "true or false", "text": "text"}


class JsonLinesFile(ArrowFileSource):
    """JSON lines in a file, perhaps compressed."""

    is_text = True

    def _open(self) -> None:
        first = next(self._chunks(), None)
        if first is None:
            raise InputError(f"{self.name} is empty; it needs at least one line, {_OBJECT}.")
        self.schema = self._parsed(*first, None).schema

    def batches(self, columns: Columns, start: int = 0, as_text: Columns = ()) -> Iterator[Batch]:
        """All batches; numbers may be integers in some of them."""
        names = [self.schema.names[i] for i in columns]
        fields = [self.schema.field(i) for i in {*columns}]
        with self._refuse_unreadable():
            yield from numbered(
                checked(batch)
                for line, chunk in self._chunks()
                for batch in self._parsed(line, chunk, fields).select(names).to_batches()
            )

    def _chunks(self) -> Iterator[tuple[int, bytes]]:
        """Chunks of whole lines that are not blank, each with the number of its first line."""
        line, rest, data, digest = 1, b"", b"\n", TextDigest()
        with self.followed(open_bytes(self.path, self.name)) as file:
            while data:
                data = file.read(CHUNK)
                text = rest + data
                cut = text.rfind(b"\n") + 1 if data else len(text)
                chunk, rest = text[:cut], text[cut:]
                digest.add(chunk)
                if chunk.strip():
                    yield line, chunk
                line += chunk.count(b"\n")
                if len(rest) > LONGEST:
                    raise InputError(
                        f"{self.name}, line {line} has more than {LONGEST >> 20} MiB and no end; "
                        f"each line must be {_OBJECT}."
                    )
        self._text = digest.hexdigest()

    def _parsed(self, line: int, chunk: bytes, fields: Sequence[Any] | None) -> Any:
        """A chunk as an Arrow table; `fields` have the types of the first one."""
        import pyarrow
        from pyarrow import json as arrow_json

        # At values nested deeply, and at null, pyarrow may crash.
        starts_well = chunk.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        if _is_deep(chunk) or b"\nnull" in chunk or not starts_well:
            self._check_lines(line, chunk, fields)
        options = arrow_json.ReadOptions(block_size=len(chunk) + 1, use_threads=False)
        is_integer, wide = pyarrow.types.is_integer, pyarrow.float64()
        wider = [x.with_type(wide) if is_integer(x.type) else x for x in fields or ()]
        for known in (None,) if fields is None else (fields, wider):
            schema = None if known is None else pyarrow.schema(known)
            parsing = arrow_json.ParseOptions(schema, unexpected_field_behavior="infer")
            try:
                table = arrow_json.read_json(pyarrow.BufferReader(chunk), options, parsing)
                names = table.schema.names  # an error where a key is not UTF-8
            except (pyarrow.ArrowInvalid, UnicodeDecodeError) as error:
                reason = str(error).partition("\n")[0][:200]
                continue
            if fields is None:
                return table
            if {*names} <= {*self.schema.names}:
                return table.select([field.name for field in fields])
            reason = "a key is new"
        self._check_lines(line, chunk, fields)
        raise InputError(
            f"{self.name} cannot be read from line {line} on: {reason}. Repair the lines."
        )

    def _check_lines(self, line: int, chunk: bytes, fields: Sequence[Any] | None) -> None:
        """Raise for the first line of a chunk that is no object, or unlike the lines before."""
        kinds = {x.name: _ARROW_KINDS.get(arrow_kind(x.type).kind, "") for x in fields or ()}
        for number, text in enumerate(chunk.split(b"\n"), line):
            if not text.strip():
                continue
            place = f"{self.name}, line {number}"
            if _is_deep(text):
                raise InputError(
                    f"{place} nests values more than {DEEPEST} deep. Leave the key out: momentmix "
                    "reads numbers, true and false, and text."
                )
            try:
                row = json.loads(text, object_pairs_hook=_distinct)
                reason = "" if isinstance(row, dict) else _kind(row)
            except KeyError:
                reason = "an object in which a key occurs twice"
            except ValueError as error:
                reason = f"no JSON: {error}"
            if reason:
                cure = " For an array of objects: jq -c '.[]'." if text.strip()[:1] == b"[" else ""
                raise InputError(f"{place} is {reason}; each line must be {_OBJECT}.{cure}")
            for key, value in row.items():
                if fields is not None and key not in self.schema.names:
                    raise InputError(
                        f"{place} has the key {key!a}, which no line of the first {CHUNK >> 20} "
                        "MiB has. Write it in the first line, with null where there is no value."
                    )
                kind = _kind(value)
                if value is not None and kinds.setdefault(key, kind) not in (kind, ""):
                    raise InputError(
                        f"{place}, {key!a} is {kind}, and {kinds[key]} in lines before. Use one "
                        "kind of value for a key, and null where there is none."
                    )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(row := dict(pairs)) < len(pairs):
        raise KeyError
    return row


def _kind(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), "a number")


def _is_deep(text: bytes) -> bool:
    """Whether any line nests values too deeply; brackets in strings do not count."""
    if text.count(b"[") + text.count(b"{") - text.count(b"\n") < DEEPEST:
        return False
    if b"\n" in text:
        return any(map(_is_deep, text.split(b"\n")))
    characters = np.frombuffer(_STRING.sub(b"", text), np.uint8)
    steps = np.isin(characters, [*b"[{"]).astype(np.int64) - np.isin(characters, [*b"]}"])
    return bool(steps.cumsum().max(initial=0) > DEEPEST)

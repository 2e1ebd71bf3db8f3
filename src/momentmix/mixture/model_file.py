"""The file of a model: readable JSON, checked in full before any of it is used.

``docs/file-format.md`` describes it: weights, a schema and blocks by family. The checksum is over
the numbers, not their text, so that a file may be formatted anew; it may be absent, and must be
removed after editing by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from momentmix.atomic_file import atomic_write
from momentmix.errors import ModelFileError
from momentmix.families.block import Block
from momentmix.families.family import is_family, named
from momentmix.json_fields import (
    Decoder,
    Fields,
    array,
    check_version,
    integer,
    list_of,
    number,
    optional,
    parse_strict,
    plain,
    text,
)
from momentmix.mixture.columns import placed, schema_of
from momentmix.tables.names import check_encodable
from momentmix.tables.schema import Schema

if TYPE_CHECKING:
    from momentmix.mixture.mixture import Mixture

FORMAT, VERSION = "momentmix.Mixture", 5


# -- writing ------------------------------------------------------------------------------------


def model_contents(mixture: Mixture) -> dict[str, Any]:
    """A mixture as plain values."""
    contents = {"schema": Schema(mixture.columns).to_dict(), **_parameters_of(mixture)}
    if mixture.background is not None:
        parameters = _parameters_of(mixture.background)
        contents["background"] = {"weight": mixture.background_weight, **parameters}
    return contents


def _parameters_of(mixture: Mixture) -> dict[str, Any]:
    blocks = [
        {
            "columns": list(block.columns),
            "family": block.family,
            **{key: plain(getattr(block, key)) for key in (*block.model.parameters, "seen")},
        }
        for block in mixture.blocks
    ]
    return {"weights": mixture.weights.tolist(), "blocks": blocks}


def save_model(
    path: str | os.PathLike[str], mixture: Mixture, fit: dict[str, Any] | None = None
) -> None:
    """Replace the file as a whole; floats are written so that the same bits are read back.

    `fit` is the record of the fit.
    """
    document = {"format": FORMAT, "version": VERSION, **model_contents(mixture)}
    if fit is not None:
        document["fit"] = fit
    document["sha256"] = _checksum(document)
    atomic_write(path, (json.dumps(document, indent=1, allow_nan=False) + "\n").encode("ascii"))


def _checksum(document: dict[str, Any]) -> str:
    """SHA-256 of the document as compact JSON with sorted keys, all numbers as doubles."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    doubles = json.loads(json.dumps(rest), parse_int=float)
    compact = json.dumps(doubles, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(compact.encode()).hexdigest()


# -- reading ------------------------------------------------------------------------------------


def load_model(path: str | os.PathLike[str]) -> tuple[Mixture, dict[str, Any] | None]:
    """The mixture in a file of the right format, version and types, and the record of its fit."""
    from momentmix.mixture.mixture import mixture_of_blocks

    document = _parsed(path)
    try:
        check_version(document, "it", VERSION)
        contents = _CONTENTS(document, "")
        schema, background = contents["schema"], contents.get("background")
        check_encodable([x for c in schema.columns for x in c.levels if isinstance(x, str)])
        mixture = mixture_of_blocks(contents["weights"], _blocks_in(contents, schema), schema)
        if background is not None:
            blocks = _blocks_in(background, schema)
            wide = mixture_of_blocks(background["weights"], blocks, schema)
            mixture = mixture.with_background(wide, background["weight"])
    except (TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} does not hold a mixture: {str(error)[:400].rstrip('.')}. Fit again, use the "
            "release that wrote it, register its families first, or restore it from a copy."
        ) from None
    if contents.get("sha256", _checksum(document)) != _checksum(document):
        raise ModelFileError(
            f"{path}: the checksum does not match: the numbers were changed or damaged. Restore it "
            'from a copy; if you edited it on purpose, remove the line "sha256".'
        )
    return mixture, contents.get("fit")


def _parsed(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The JSON object of a model file; other files are not read as a whole."""
    if not Path(path).is_file():
        what = "is not a regular file" if Path(path).exists() else "does not exist"
        raise ModelFileError(f"{path} {what}; give the path of a saved model.")
    with open(path, "rb") as file:
        data = file.read(1)
        data += file.read() if data == b"{" else b""
    try:
        if data[:1] != b"{":
            raise ValueError("it does not start with {. Rows and summaries have to be fitted first")
        document: dict[str, Any] = parse_strict(data.decode("utf-8"))
        if document.get("format") != FORMAT:
            raise ValueError(f'no "format": "{FORMAT}" in it')
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a momentmix model: {str(error)[:200]}.") from None
    return document


def _anything(value: Any, place: str) -> Any:
    return value


def _record(value: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{place}, the record of the fit, must be an object")
    return value


def _block(value: Any, place: str) -> Any:
    family = value.get("family") if isinstance(value, dict) else None
    if not isinstance(family, str) or not is_family(family):
        raise ValueError(f"{place} must hold objects with a family that is known")
    seen = value.get("seen")
    is_wide = isinstance(seen, list) and bool(seen) and isinstance(seen[0], list)
    fields: dict[str, Decoder] = {"columns": list_of(integer(0)), "family": text}
    fields |= {key: array(*(None,) * n) for key, n in named(family).parameters.items()}
    return Fields(dict, {**fields, "seen": optional(array(*(None,) * (1 + is_wide)))})(value, place)


_PARAMETERS: dict[str, Decoder] = {"weights": array(None), "blocks": list_of(_block)}
_CONTENTS = Fields(
    dict,
    {
        "format": _anything,
        "version": _anything,
        "schema": Schema.from_dict,
        **_PARAMETERS,
        "background": Fields(dict, {"weight": number(0, 1), **_PARAMETERS}),
        "fit": _record,
        "sha256": _anything,
    },
    may_lack=("background", "fit", "sha256"),
)


def _blocks_in(parameters: dict[str, Any], schema: Schema) -> tuple[Block, ...]:
    """The blocks of a mixture, checked against its schema; ValueError if they are none."""
    names, blocks = schema.column_names, []
    for values in parameters["blocks"]:
        numbers, family = tuple(values["columns"]), named(values["family"])
        columns = [schema.columns[j] for j in numbers if j < schema.n_columns]
        if len(columns) < len(numbers) or {column.family for column in columns} != {family.name}:
            raise ValueError(f"columns {list(numbers)[:8]} are not all {family.name} in the schema")
        if list(numbers) != sorted(numbers):
            raise ValueError("columns of a block must be in ascending order")
        block = family.read_block(values, columns)
        blocks.append(block.at(numbers, names and tuple(names[j] for j in numbers)))
    checked = placed(blocks, len(parameters["weights"]))
    missing = [[c.has_missing for c in x.columns] for x in (schema_of(checked), schema)]
    if missing[0] != missing[1]:
        raise ValueError("blocks must have all columns, and seen as the schema has missing cells")
    return checked

"""Facts of files as plain values; ``columns`` has a dict for each column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from momentmix.cli.cubes import are_cubes
from momentmix.errors import InputError
from momentmix.families.column import Column
from momentmix.fitting.record import load_fit
from momentmix.groups.cube import SummaryCube
from momentmix.mixture.model_file import VERSION
from momentmix.mixture.parameter_table import joined_columns
from momentmix.summary.column_facts import column_facts
from momentmix.summary.file import MAGIC
from momentmix.summary.summary import MomentSummary
from momentmix.tables.formats.csv_text import Dialect
from momentmix.tables.opening import missing_input, open_file
from momentmix.tables.schema import FORMAT, Schema
from momentmix.wording import plural

_MOST_VALUES = 8  # of a key that are listed


def facts_of(file: str, delimiter: str | None = None, header: bool | None = None) -> dict[str, Any]:
    """Facts of a file of any kind."""
    if file == "-":
        raise click.UsageError("standard input has no name to tell its format by; give a file.")
    path = Path(file)
    if not path.exists():
        raise missing_input(file)
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not a regular file"
        raise InputError(f"{file} is {what}; give one file.")
    with path.open("rb") as stream:
        start = stream.read(256)
    name = file.lower()
    if start.startswith(MAGIC) or name.endswith(".mms"):
        summary, version = MomentSummary.load(path), int.from_bytes(start[8:12], "little")
        facts = {"kind": "summary", "version": version, **_contents(summary)}
    elif are_cubes([file]):
        facts = _cube_facts(path)
    elif name.endswith(".json") or (
        start.lstrip().startswith(b"{") and not name.endswith((".jsonl", ".ndjson"))
    ):
        facts = _schema_facts(path) if f'"{FORMAT}"'.encode() in start else _model_facts(path)
    else:
        facts = _data_facts(path, delimiter, header)
    return {"file": file, "bytes": path.stat().st_size, **facts}


def _data_facts(path: Path, delimiter: str | None, header: bool | None) -> dict[str, Any]:
    """Facts of a data file; of CSV the first lines are read."""
    try:
        dialect = Dialect(delimiter, header=header)
    except InputError as error:
        raise click.UsageError(str(error)) from None
    source = open_file(path, dialect)
    names = source.column_names or tuple(map(str, range(source.n_columns)))
    return {
        "kind": "data",
        "n_rows": source.n_rows,
        "n_columns": source.n_columns,
        "has_names": source.column_names is not None,
        "columns": [{"name": x, "type": source.kind(i).type} for i, x in enumerate(names)],
    }


# -- models and schemas -----------------------------------------------------------------------


def _model_facts(path: Path) -> dict[str, Any]:
    """Facts of a model file, and of the fit where the file has a record of it."""
    mixture, record = load_fit(path)
    profile = mixture.profile() if record is None else record.profile(mixture)
    facts = {
        "kind": "model",
        "version": VERSION,
        "n_components": mixture.n_components,
        "weights": mixture.weights.tolist(),
        "profile": str(profile).split("\n"),
        "n_columns": mixture.n_columns,
        "joined": joined_columns(mixture),
        "verdict": None,
    }
    if record is not None:
        keys = ("n_rows", "order", "method", "refine", "n_passes", "converged")
        certificate = record.to_dict()["certificate"]
        facts |= {
            "joined": list(map(str, record.joined)),  # with the reasons
            "verdict": record.certificate.verdict,
            "answers": [f"{answer.question} {answer}" for answer in record.certificate.answers],
            "reasons": list(record.certificate.reasons),
            "groups": {
                key: certificate[key] for key in ("reproducibility", "separation", "description")
            },
            **{key: getattr(record, key) for key in keys},
            "log_likelihood_per_row": record.log_likelihood,
            "command": record.command,
            "seed": record.seed,
            "versions": [f"{name} {version}" for name, version in record.versions.items()],
        }
    return facts | {"columns": _columns(mixture.columns)}


def _schema_facts(path: Path) -> dict[str, Any]:
    schema = Schema.load(path)
    return {
        "kind": "schema",
        "n_columns": schema.n_columns,
        "n_features": schema.n_features,
        "columns": _columns(schema.columns),
    }


def _columns(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """Return the family of each column, in words."""
    return [
        {
            "name": str(number) if column.name is None else column.name,
            "family": column.family_name,
            "levels": list(column.levels),
            "missing": column.has_missing,
        }
        for number, column in enumerate(columns)
    ]


# -- summaries --------------------------------------------------------------------------------


def _contents(summary: MomentSummary) -> dict[str, Any]:
    columns = [asdict(facts) for facts in column_facts(summary)]
    lists = ("levels", "shares")
    return {
        "n_rows": summary.n_rows,
        "n_forgotten": summary.n_forgotten,
        "n_columns": len(columns),
        "n_features": summary.n_features,
        "order": summary.order,
        "squared_order": summary.squared_order,
        "n_shards": len(summary.shard_ids),
        "sum_weights": summary.sum_weights,
        "effective_rows": summary.effective_rows if summary.n_rows else None,
        "exact_bounds": summary.exact_bounds,
        "columns": [column | {key: list(column[key]) for key in lists} for column in columns],
    }


def _cube_facts(path: Path) -> dict[str, Any]:
    cube = SummaryCube.load(path)
    counts = sorted(cube.group_rows.values())
    facts = {
        "kind": "cube",
        "keys": list(cube.key_names),
        "values_of_keys": [_values(cube, name) for name in cube.key_names],
        "n_groups": len(cube),
        "smallest_group": counts[0] if counts else None,
        "largest_group": counts[-1] if counts else None,
    }
    return facts | (_contents(cube.total()) if counts else {"n_rows": 0, "columns": []})


def _values(cube: SummaryCube, name: str) -> str:
    """The values of a key, as they are written in conditions; of many the first and the last."""
    place = cube.key_names.index(name)
    values: list[Any] = list({key[place] for key in cube if key[place] is not None})
    texts = [str(value) for value in sorted(values)]
    shown = ", ".join(texts) if len(texts) <= _MOST_VALUES else f"{texts[0]} to {texts[-1]}"
    missing = ", and missing" if any(key[place] is None for key in cube) else ""
    n = len(texts)
    return f"{name}: {n:,} value{plural(n)}{f', {shown}' if texts else ''}{missing}"

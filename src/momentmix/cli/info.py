"""``momentmix info``: what a file holds, as text or JSON."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from momentmix.cli.files import key_values, load_cube, load_summary, say, say_json
from momentmix.cli.options import json_option
from momentmix.families.family import named
from momentmix.fitting.record import load_fit
from momentmix.groups.file import is_cube
from momentmix.mixture.model_file import VERSION
from momentmix.summary.column_facts import column_facts
from momentmix.summary.file import is_summary_file
from momentmix.summary.summary import MomentSummary
from momentmix.tables.csv_text import Dialect
from momentmix.tables.opening import open_file
from momentmix.tables.schema import FORMAT, Schema
from momentmix.wording import aligned, cut

_WIDEST = 40  # letters of a cell of text
_LARGE = 1e15


@click.command("info")
@click.argument("file")
@json_option
def info_command(file: str, as_json: bool) -> None:
    """Print the contents of a file: a summary, a cube, a model, a schema, or data.

    Nothing is fitted, and of data only the first rows are read.

    \b
    momentmix info model.json
    """  # noqa: D301, click does not rewrap what follows a backspace
    facts = _facts(file)
    if as_json:
        say_json({"file": file, **facts})
        return
    columns = facts.pop("columns", [])
    lines = [
        ("" if i else name.replace("_", " "), _text(text))
        for name, value in facts.items()
        if value not in (None, [], {})
        for i, text in enumerate(value if isinstance(value, list) else [value])
    ]
    say(*aligned(lines))
    if columns:
        names = [x for x in columns[0] if any(c[x] not in (None, (), []) for c in columns)]
        rows = [[cut(_text(column[name]), _WIDEST) for name in names] for column in columns]
        say("", *aligned([names, *rows]))


def _text(value: Any) -> str:
    """A value for people."""
    if value is None or value in ((), []):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        is_whole = float(value).is_integer() and abs(value) < _LARGE
        return f"{value:,.0f}" if is_whole else f"{value:.5g}"
    return ", ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)


def _facts(file: str) -> dict[str, Any]:
    """Facts of a file as plain values; ``columns`` has a dict for each column."""
    if is_summary_file(file):
        return _summary_facts(load_summary(file))
    if is_cube(file):
        cube = load_cube(file)
        sizes = cube.group_rows.values()
        keys = [f"{name}: {key_values(cube, name)}" for name in cube.key_names]
        facts = {"kind": "cube", "keys": keys, "n_groups": len(cube)}
        facts |= {"smallest_group": min(sizes), "largest_group": max(sizes)}
        return _summary_facts(cube.total()) | facts
    if file.lower().endswith(".json"):
        is_schema = f'"{FORMAT}"' in Path(file).read_text(encoding="utf-8", errors="replace")[:256]
        return _columns(Schema.load(file), "schema") if is_schema else _model_facts(file)
    source = open_file(file, Dialect())
    names = source.column_names or tuple(map(str, range(source.n_columns)))
    columns = [{"name": x, "type": source.kind(i).type} for i, x in enumerate(names)]
    return {"kind": "data", "n_rows": source.n_rows, "columns": columns}


def _summary_facts(summary: MomentSummary) -> dict[str, Any]:
    columns = [asdict(facts) for facts in column_facts(summary)]
    for column in columns:  # means are those of the logarithm
        if named(column["family"]).transform:
            column["name"] = f"{column['family']} {column['name']}"
    names = ("n_rows", "n_forgotten", "n_features", "order", "squared_order", "sum_weights")
    facts = {name: getattr(summary, name) for name in names}
    shards = len(summary.shard_ids)
    return {"kind": "summary", **facts, "n_shards": shards, "columns": columns}


def _columns(schema: Schema, kind: str) -> dict[str, Any]:
    columns = [
        {
            "name": str(i) if column.name is None else column.name,
            "family": column.family_name,
            "levels": list(column.levels),
            "missing": column.has_missing,
        }
        for i, column in enumerate(schema.columns)
    ]
    return {"kind": kind, "n_columns": schema.n_columns, "columns": columns}


def _model_facts(file: str) -> dict[str, Any]:
    """Facts of a model, and of its fit where the file has a record of it."""
    mixture, result = load_fit(file)
    facts = _columns(Schema(mixture.columns), "model") | {"version": VERSION}
    profile = (result or mixture).profile()
    facts |= {"weights": mixture.weights.tolist(), "profile": str(profile).split("\n")}
    if result is None:
        return facts
    certificate = result.certificate
    names = ("n_rows", "order", "n_passes", "log_likelihood", "bic", "command", "seed")
    return facts | {
        "verdict": certificate.verdict,
        "answers": [f"{answer.question} {answer}" for answer in certificate.answers],
        "reasons": list(certificate.reasons),
        "joined": list(map(str, result.joined)),
        **{name: getattr(result, name) for name in names},
        "options": [f"{name}={value!r}" for name, value in (result.options or {}).items()],
        "versions": [f"{name} {version}" for name, version in result.versions.items()],
    }

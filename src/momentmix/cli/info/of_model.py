"""Facts of a model, and of a schema."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from momentmix.fitting.record import FitRecord, load_fit
from momentmix.mixture.model_file import read_model
from momentmix.schema.column import Column
from momentmix.schema.schema import Schema


def model_facts(path: Path) -> dict[str, Any]:
    """Facts of a model file, and of the fit where the file has a record of it."""
    mixture, record = load_fit(path)
    names = mixture.feature_names or tuple(map(str, range(mixture.n_features)))
    joined = [block.columns for block in mixture.blocks if len(block.columns) > 1]
    columns = _columns(names, mixture.columns)
    return {
        "kind": "model",
        "version": int(read_model(path)["version"]),
        "n_components": mixture.n_components,
        "weights": mixture.weights.tolist(),
        "n_columns": len(columns),
        "joined": [", ".join(names[j] for j in block) for block in joined],
        "verdict": None,
        **({} if record is None else _fit_facts(record)),
        "columns": columns,
    }


def schema_facts(path: Path) -> dict[str, Any]:
    """Facts of a file of `Schema.save`."""
    schema = Schema.load(path)
    names = schema.column_names or tuple(map(str, range(schema.n_columns)))
    columns = _columns(names, schema.columns)
    return {
        "kind": "schema",
        "n_columns": len(columns),
        "n_features": schema.n_features,
        "columns": columns,
    }


def _columns(names: Sequence[str], columns: Sequence[Column]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "family": column.transform or column.family,
            "levels": list(column.levels),
            "missing": column.has_missing,
        }
        for name, column in zip(names, columns, strict=True)
    ]


def _fit_facts(record: FitRecord) -> dict[str, Any]:
    keys = ("n_rows", "order", "method", "refine", "n_passes", "converged")
    return {
        "joined": list(map(str, record.joined)),  # with the reasons
        "verdict": record.certificate.verdict,
        "reasons": list(record.certificate.reasons),
        **{key: getattr(record, key) for key in keys},
        "log_likelihood_per_row": record.log_likelihood,
        "command": record.command,
        "seed": record.seed,
        "versions": [f"{name} {version}" for name, version in record.versions.items()],
    }

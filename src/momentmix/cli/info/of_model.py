"""Facts of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from momentmix.cli.info.of_schema import column_facts
from momentmix.fitting.record import FitRecord, load_fit
from momentmix.mixture.model_file import read_model
from momentmix.mixture.profiles.profile import profile_of


def model_facts(path: Path) -> dict[str, Any]:
    """Facts of a model file, and of the fit where the file has a record of it."""
    mixture, record = load_fit(path)
    profile = profile_of(mixture, None, None if record is None else record.standard_errors)
    names = mixture.feature_names or tuple(map(str, range(mixture.n_features)))
    joined = [block.columns for block in mixture.blocks if len(block.columns) > 1]
    columns = column_facts(mixture.columns)
    return {
        "kind": "model",
        "version": int(read_model(path)["version"]),
        "n_components": mixture.n_components,
        "weights": mixture.weights.tolist(),
        "profile": [f"{component.name}: {component}" for component in profile],
        "n_columns": len(columns),
        "joined": [", ".join(names[j] for j in block) for block in joined],
        "verdict": None,
        **({} if record is None else _fit_facts(record)),
        "columns": columns,
    }


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

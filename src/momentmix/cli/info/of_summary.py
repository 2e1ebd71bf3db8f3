"""Facts of a summary, and of a checkpoint, which holds one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from momentmix.cli.arithmetic import columns_of
from momentmix.cli.checkpoint import Checkpoint
from momentmix.schema.column import Column
from momentmix.summary.summary import MomentSummary


def summary_facts(path: Path) -> dict[str, Any]:
    """Facts of a summary file."""
    summary = MomentSummary.load(path)
    with path.open("rb") as stream:
        version = int.from_bytes(stream.read(12)[8:], "little")
    return {"kind": "summary", "version": version, **_contents(summary)}


def checkpoint_facts(path: Path) -> dict[str, Any]:
    """Facts of a checkpoint of `momentmix summarize`."""
    state = Checkpoint.load(path)
    summary = MomentSummary.from_bytes(state.summary)
    return {
        "kind": "checkpoint",
        "finished": state.finished,
        "inputs": [str(table.get("name")) for table in state.fingerprint.tables],
        "next_input": state.piece,
        "next_row": state.row,
        "n_dropped": state.n_dropped,
        **_contents(summary),
    }


def _contents(summary: MomentSummary) -> dict[str, Any]:
    columns = columns_of(summary)
    return {
        "n_rows": summary.n_rows,
        "n_forgotten": summary.n_forgotten,
        "n_columns": len(columns),
        "n_features": summary.n_features,
        "order": summary.order,
        "squared_order": summary.squared_order,
        "replicates": summary.replicates,
        "n_shards": len(summary.shard_ids),
        "sum_weights": summary.sum_weights,
        "effective_rows": summary.effective_rows if summary.n_rows else None,
        "exact_bounds": summary.exact_bounds,
        "columns": [_column(summary, i, column) for i, column in enumerate(columns)],
    }


def _column(summary: MomentSummary, number: int, column: Column) -> dict[str, Any]:
    """Family, levels and their shares, or bounds, mean and deviation, of cells that are seen."""
    facts: dict[str, Any] = {
        "name": str(number) if column.name is None else column.name,
        "family": column.family,
        "levels": list(column.levels),
        "shares": [],
        "seen": None,
        "minimum": None,
        "maximum": None,
        "mean": None,
        "deviation": None,
    }
    if not summary.n_rows:
        return facts
    schema = summary.schema
    first = number if schema is None else schema.values_of(number)[0]
    mean, seen = summary.mean, 1.0
    if column.has_missing and schema is not None:
        facts["seen"] = seen = float(mean[schema.features_of(number)[-1]])
    if not seen:
        return facts
    if column.levels:
        others = [float(x) / seen for x in mean[first : first + column.n_values]]
        facts["shares"] = [max(0.0, 1.0 - sum(others)), *others]
        return facts
    low, high = float(summary.minimum[first]), float(summary.maximum[first])
    center = float(mean[first]) / seen
    deviation = float(summary.deviation[first])
    if column.has_missing:
        square = float(summary.squared(first, 0, 0.0, 1.0)[0]) / seen
        deviation = float(np.sqrt(max(0.0, square - center**2)))
        # A missing cell is 0 among the features, which hides bounds on the other side of it.
        facts["minimum"] = low + column.center if low < 0 else None
        facts["maximum"] = high + column.center if high > 0 else None
    else:
        facts["minimum"], facts["maximum"] = low, high
    return facts | {"mean": center + column.center, "deviation": deviation}

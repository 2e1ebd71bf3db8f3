"""Facts of a summary, and of a checkpoint, which holds one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from momentmix.cli.checkpoint import Checkpoint
from momentmix.summary.column_facts import ColumnFacts, column_facts
from momentmix.summary.summary import MomentSummary
from momentmix.wording import plural

if TYPE_CHECKING:
    from momentmix.cube.cube import SummaryCube

_MOST_VALUES = 8  # of a key that are listed


def summary_facts(path: Path) -> dict[str, Any]:
    """Facts of a summary file."""
    summary = MomentSummary.load(path)
    with path.open("rb") as stream:
        version = int.from_bytes(stream.read(12)[8:], "little")
    return {"kind": "summary", "version": version, **_contents(summary)}


def checkpoint_facts(path: Path) -> dict[str, Any]:
    """Facts of a checkpoint of `momentmix summarize`."""
    state = Checkpoint.load(path)
    if "by" in state.settings:
        from momentmix.cube.cube import SummaryCube
        from momentmix.cube.file import unpacked

        summary = SummaryCube(*unpacked(state.summary, str(path))).total()
    else:
        summary = MomentSummary.from_bytes(state.summary)
    return {
        "kind": "checkpoint",
        "finished": state.finished,
        "inputs": [str(table.get("name")) for table in state.fingerprint.pieces],
        "next_input": state.piece,
        "next_row": state.row,
        "n_dropped": state.n_dropped,
        **_contents(summary),
    }


def cube_facts(path: Path) -> dict[str, Any]:
    """Facts of a cube."""
    from momentmix.cube.cube import SummaryCube

    cube = SummaryCube.load(path)
    counts = sorted(cube.group_rows.values())
    facts = {
        "kind": "cube",
        "keys": list(cube.key_names),
        "values_of_keys": [_values(cube, name) for name in cube.key_names],
        "n_groups": len(cube),
        "smallest_group": counts[0] if counts else None,
        "largest_group": counts[-1] if counts else None,
        "n_groups_left_out": cube.left_out[0],
        "n_rows_left_out": cube.left_out[1],
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


def _contents(summary: MomentSummary) -> dict[str, Any]:
    columns = column_facts(summary)
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
        "columns": [_document(column) for column in columns],
    }


def _document(facts: ColumnFacts) -> dict[str, Any]:
    return asdict(facts) | {"levels": list(facts.levels), "shares": list(facts.shares)}

"""Summaries of collections with families and missing cells: a summary a partition, added up."""

from __future__ import annotations

from typing import Any, NamedTuple

from momentmix.dask.opening import blocks_of, shard_ids
from momentmix.dask.schedule import Schedule
from momentmix.errors import InputError
from momentmix.tables.opening import path_list
from momentmix.rows.source import Missing
from momentmix.schema.building import Families
from momentmix.summary.summarize import summarize
from momentmix.summary.summary import MomentSummary


class Encoding(NamedTuple):
    """How all partitions are summarized."""

    order: int
    families: Families
    missing: Missing
    columns: list[str | int] | None
    options: dict[str, Any]


def summarize_table(
    data: Any, encoding: Encoding, shard_id: str | None, schedule: Schedule
) -> MomentSummary:
    """The sum of the summaries of all partitions; levels must be the same in all of them."""
    if path_list(data):
        raise InputError(
            "families and missing='model' need a collection; got paths. Pass "
            "dask.dataframe.read_parquet(...) or read_csv(...) of them."
        )
    blocks, _ = blocks_of(data, schedule)
    ids = shard_ids(data, blocks, shard_id)
    partitions = list(zip(ids, blocks, strict=True))
    summary: MomentSummary | None = schedule.reduce(
        _summary_of, _sum_of, encoding, partitions, "Moments"
    )
    if summary is None:
        raise InputError("rows must hold at least one row; all partitions are empty.")
    return summary


def _summary_of(shard_id: str, encoding: Encoding, rows: Any) -> MomentSummary | None:
    """Summary of one partition; None where it is empty."""
    if not len(rows):
        return None
    if encoding.columns is not None:
        rows = rows[encoding.columns] if hasattr(rows, "columns") else rows[:, encoding.columns]
    return summarize(
        rows, encoding.order, families=encoding.families, missing=encoding.missing,
        shard_id=shard_id, **encoding.options,
    )  # fmt: skip


def _sum_of(parts: list[MomentSummary | None]) -> MomentSummary | None:
    known = [part for part in parts if part is not None]
    total = known[0] if known else None
    for part in known[1:]:
        total = total + part
    return total

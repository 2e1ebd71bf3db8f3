"""What runs on a block of a Ray dataset, and the sum of what came back.

Blocks have no numbers, so each goes by a digest of its rows: a task that runs twice gives the same
bytes. Blocks of one dataset with the same rows are told apart when they are added. What rows are
refused for comes back as a row, since an error would end as one of Ray.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from momentmix.cube.passes import GroupSums
from momentmix.engines.tasks import Groups, Task, packed, unpacked
from momentmix.errors import InputError, MomentmixError
from momentmix.summary.summary import MomentSummary, copied_shards


@dataclass(frozen=True)
class BlockTask:
    """A task on a block; called with the block as a table.

    Attributes
    ----------
    task : Task
    """

    task: Task

    def __call__(self, block: Any) -> Any:
        """A table with a row for each group, or for the reason of a refusal."""
        import pyarrow as pa

        block = block.select(list(self.task.sent))
        digest, rows = block_digest(block), list[dict[str, Any]]()
        try:
            groups = self.task.groups(block.to_batches(), f"block {digest}")
            rows += [{"key": packed(key), "summary": groups[key]} for key in groups]
        except MomentmixError as error:
            rows.append({"error": str(error)})
        types = {"block": "string", "number": "int64", "key": "string", "summary": "binary"}
        schema = pa.schema({**types, "error": "string"}.items())
        named = [{"block": digest, "number": i, **row} for i, row in enumerate(rows)]
        return pa.Table.from_pylist(named, schema)


@dataclass(frozen=True)
class LevelTask:
    """What columns of a block hold, before the pass; called with the block as a table.

    Attributes
    ----------
    names : tuple of str
        Columns.
    listed : tuple of int
        Numbers of those whose levels are wanted.
    """

    names: tuple[str, ...]
    listed: tuple[int, ...]

    def __call__(self, block: Any) -> Any:
        """One row: for each column whether cells are missing, and its levels, as JSON."""
        import pyarrow as pa
        from pyarrow import compute

        found = []
        for j, column in enumerate(block.select(list(self.names)).columns):
            is_missing = compute.any(compute.is_null(column, nan_is_null=True)).as_py()
            levels = compute.unique(_plain(column)).drop_null() if j in self.listed else []
            found.append((bool(is_missing), [x.as_py() for x in levels]))
        return pa.table({"met": [json.dumps(found, default=float)]})


def add_results(rows: Iterable[dict[str, Any]]) -> Groups:
    """The sum of each group; the first reason of a refusal is raised."""
    sums, times = GroupSums(), Counter[str]()
    for row in rows:
        if row["error"] is not None:
            raise InputError(row["error"])
        times[row["block"]] += row["number"] == 0  # the groups of a block come together
        summary, copy = row["summary"], times[row["block"]] - 1
        if copy:  # another block with the same rows, which count as well
            summary = copied_shards(MomentSummary.from_bytes(summary), copy).to_bytes()
        sums.add(unpacked(row["key"]), summary)
    if not sums.n_rows:
        raise InputError("rows must hold at least one row; all blocks are empty.")
    return sums.groups()


def block_digest(block: Any) -> str:
    """A digest of the cells of a table, however they are cut in memory.

    Parameters
    ----------
    block : pyarrow.Table
    """
    import pyarrow as pa

    digest = hashlib.blake2b(digest_size=16)
    for column in block.columns:
        array = pa.concat_arrays(_plain(column).chunks or [pa.array([], _plain(column).type)])
        digest.update(f"{array.type} {len(array)} {array.null_count} ".encode())
        # Bytes below a missing cell may be anything, as may bits behind the last one.
        for part in [array.drop_null(), array.is_valid()]:
            cells = part.cast("uint8") if pa.types.is_boolean(part.type) else part
            digest.update(pa.record_batch([cells], names=["x"]).serialize())
    return digest.hexdigest()


def _plain(column: Any) -> Any:
    """A column without a dictionary, which may be in any order."""
    from pyarrow import types

    return column.cast(column.type.value_type) if types.is_dictionary(column.type) else column

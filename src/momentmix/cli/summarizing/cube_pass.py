"""A pass to a cube, which can be interrupted and resumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from momentmix.cli.summarizing.checkpoint import Checkpoint
from momentmix.cli.summarizing.passes import SummaryPass
from momentmix.cube.cube import SummaryCube
from momentmix.cube.file import is_cube, packed, unpacked
from momentmix.cube.summarize_by import PART_ROWS, CubeJob, GroupSums
from momentmix.summary.parts import Progress
from momentmix.wording import plural


class CubePass(SummaryPass):
    """A pass to a cube without groups of fewer than `min_rows` rows."""

    part_rows = PART_ROWS

    def __init__(self, job: CubeJob, min_rows: int, *options: int | None) -> None:
        super().__init__(job.rows, *options)
        self.job, self.min_rows = job, min_rows
        self.settings["by"] = [str(key.spec) for key in job.keys]

    def sentence(self) -> str:
        """Return what the command prints after the name of the file."""
        gone, rows = self.result.left_out
        left_out = f"; {gone:,} small groups ({rows:,} rows) left out" if gone else ""
        n = len(self.result)
        groups = f"{n:,} group{plural(n)} by {', '.join(self.job.names)}"
        return f"{super().sentence()}, {groups}{left_out}"

    def _start(self) -> Any:
        return Progress(GroupSums())

    def _states(self, state: Any) -> Iterator[Any]:
        order, part_rows = self.settings["order"], self.settings["part_rows"]
        return self.job.run(state, order, self.options, part_rows)

    def _packed(self, state: Any) -> bytes:
        return packed(self.job.names, state.summary.groups(), (0, 0))

    def _unpacked(self, state: Any, found: Checkpoint) -> Any:
        sums = GroupSums.of(unpacked(found.summary, "the checkpoint")[1])
        return Progress(sums, found.piece, found.row, found.n_dropped, found.read)

    def _is_written(self, output: Path, state: bytes) -> bool:
        if not is_cube(output):
            return False
        cube = self.job.cube_of(unpacked(state, "the checkpoint")[1])
        return SummaryCube.load(output) == cube.at_least(self.min_rows)

    def _made(self, state: Any) -> Any:
        return self.job.cube(state, self.min_rows)

    def _own_facts(self) -> dict[str, Any]:
        groups, rows = self.result.left_out
        return {
            "keys": list(self.job.names),
            "n_groups": len(self.result),
            "n_groups_left_out": groups,
            "n_rows_left_out": rows,
        }

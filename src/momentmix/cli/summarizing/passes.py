"""A pass to a summary, which can be interrupted and resumed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from momentmix.capacity.ranks import usual_order
from momentmix.cli.output import Target, check_output
from momentmix.cli.summarizing.checkpoint import Checkpoint, Fingerprint
from momentmix.errors import InputError
from momentmix.summary import parts
from momentmix.summary.summary import MomentSummary
from momentmix.tables.table_rows import TableRows
from momentmix.wording import plural


class SummaryPass:
    """A pass to one summary; `settings` are what its bytes depend on beside the rows."""

    part_rows = parts.PART_ROWS

    def __init__(
        self,
        rows: TableRows,
        order: int | None,
        squared_order: int | None,
        part_rows: int | None,
        threads: int | None,
    ) -> None:
        d = rows.n_features
        if order is not None and order > d:
            raise InputError(
                f"order={order} needs that many features; there are {d}. Use at most --order {d}."
            )
        self.rows = rows
        self.settings: dict[str, Any] = {
            "order": usual_order(d) if order is None else order,
            "part_rows": part_rows or self.part_rows,
            "squared_order": squared_order,
        }
        if rows.schema is not None:
            self.settings["schema"] = rows.schema.to_dict()
        self.options = {"squared_order": squared_order, "n_threads": threads}

    def run(self, target: Target, checkpoint: Path | None, every: float) -> None:
        """Make the pass, or the rest of it, and write the result."""
        output, state, fingerprint = Path(str(target.path)), self._start(), None
        if checkpoint is not None:
            fingerprint = Fingerprint.of(self.rows)
            if checkpoint.exists():
                found = Checkpoint.load(checkpoint)
                found.check(checkpoint, fingerprint, self.settings)
                written = found.finished and output.exists()
                if not (written and self._is_written(output, found.summary)):
                    check_output(str(output), (), target.force)
                state = self._unpacked(state, found)

        def save(state: Any, finished: bool) -> None:
            if checkpoint is not None and fingerprint is not None:
                place = (state.table, state.row, state.n_dropped, state.read)
                packed = self._packed(state)
                Checkpoint(fingerprint, self.settings, *place, packed, finished).save(checkpoint)

        begin = last = time.monotonic()
        self.resumed_at = state.n_rows + state.n_dropped
        for state in self._states(state):  # noqa: B020
            if checkpoint is not None and time.monotonic() - last >= every:
                save(state, finished=False)
                last = time.monotonic()
        for source in self.rows.sources:
            source.check_unchanged()
        self.n_dropped = state.n_dropped
        if not state.n_rows:
            dropped = f" besides the {self.n_dropped} dropped" if self.n_dropped else ""
            raise InputError(f"{self.rows.sources[0].name} holds no rows{dropped}.")
        save(state, finished=True)
        self.result = self._made(state)
        self.result.save(output)
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        self.seconds = time.monotonic() - begin

    def facts(self) -> dict[str, Any]:
        """Return what the command prints as JSON."""
        n_read = self.result.n_rows + self.n_dropped - self.resumed_at
        return {
            "n_rows": self.result.n_rows,
            "n_dropped": self.n_dropped,
            "n_features": self.rows.n_features,
            "order": self.settings["order"],
            "feature_names": self.result.feature_names,
            **self._own_facts(),
            "resumed_at_row": self.resumed_at,
            "seconds": self.seconds,
            "rows_per_second": n_read / self.seconds if self.seconds else None,
        }

    def sentence(self) -> str:
        """Return what the command prints after the name of the file."""
        dropped = f", {self.n_dropped:,} dropped" if self.n_dropped else ""
        return (
            f"{self.result.n_rows:,} row{plural(self.result.n_rows)}{dropped}, "
            f"{self.rows.n_features} feature{plural(self.rows.n_features)}, "
            f"moments up to order {self.settings['order']}"
        )

    # -- what a cube does in another way ------------------------------------------------------

    def _start(self) -> Any:
        self._new_shard = parts.shards_of(self.rows, self.settings["order"], **self.options)
        return parts.Progress(self._new_shard(), 0, 0, 0)

    def _states(self, state: Any) -> Iterator[Any]:
        return parts.summarize_parts(self.rows, state, self._new_shard, self.settings["part_rows"])

    def _packed(self, state: Any) -> bytes:
        return bytes(state.summary.to_bytes())

    def _unpacked(self, state: Any, found: Checkpoint) -> Any:
        summary = state.summary + MomentSummary.from_bytes(found.summary)
        return parts.Progress(summary, found.piece, found.row, found.n_dropped, found.read)

    def _is_written(self, output: Path, state: bytes) -> bool:
        return output.read_bytes() == state

    def _made(self, state: Any) -> Any:
        return state.summary

    def _own_facts(self) -> dict[str, Any]:
        return {"n_shards": len(self.result.shard_ids)}

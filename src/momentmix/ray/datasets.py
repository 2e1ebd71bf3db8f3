"""Passes over Ray datasets, whose failures are errors of this package."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from momentmix.engines.columns import Met
from momentmix.engines.failures import reason_of
from momentmix.errors import ClusterError
from momentmix.ray.blocks import LevelTask
from momentmix.rows.table import Kind
from momentmix.schema.building import LOOKED_AT


@dataclass(frozen=True)
class RayRows:
    """The rows of a dataset; see `momentmix.engines.columns.EngineRows`.

    Attributes
    ----------
    dataset : ray.data.Dataset
    """

    dataset: Any
    name = "the dataset"

    @property
    def columns(self) -> list[str]:
        """Names of all columns."""
        with _job(self.dataset):
            return list(self.dataset.columns() or ())

    def head(self, names: Sequence[str]) -> Any:
        """The first rows as an Arrow table."""
        import pyarrow as pa

        rows = self.dataset.select_columns(list(names)).limit(LOOKED_AT)
        with _job(rows):
            tables = list(rows.iter_batches(batch_format="pyarrow", batch_size=None))
        tables = [table.select(list(names)).replace_schema_metadata() for table in tables]
        if not tables:
            return pa.table({name: [] for name in names})
        return pa.concat_tables(tables, promote_options="permissive")

    def met(self, names: Sequence[str], kinds: Sequence[Kind], listed: Sequence[int]) -> list[Met]:
        """Missing cells and levels of all rows, by a pass over them."""
        are_missing, levels = [False] * len(names), [set[Any]() for _ in names]
        for row in rows_of(self.dataset, names, LevelTask(tuple(names), tuple(listed))):
            for j, (is_missing, found) in enumerate(json.loads(row["met"])):
                are_missing[j] |= is_missing
                levels[j].update(found)
        return [Met(*both) for both in zip(are_missing, map(list, levels), strict=True)]


def rows_of(
    dataset: Any, names: Sequence[str], work: Callable[[Any], Any]
) -> Generator[dict[str, Any], None, None]:
    """Rows of the tables that a function makes of the blocks, with these columns alone."""
    chosen = dataset.select_columns(list(names))
    done = chosen.map_batches(work, batch_format="pyarrow", batch_size=None)
    with _job(done):
        yield from done.iter_rows()


@contextmanager
def _job(dataset: Any) -> Iterator[None]:
    """A run of a dataset in the order of its blocks, on which the cuts of later ones may depend."""
    from ray.exceptions import RayError

    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True
    try:
        yield
    except RayError as error:
        raise ClusterError(
            f"the Ray job failed: {reason_of(error)} No part of an answer is given. Correct what "
            "the task reports; every worker needs momentmix."
        ) from error
    finally:
        options.preserve_order = before

"""Work on partitions → a tree of sums → one small answer, on a cluster or on local threads.

Every leaf of the tree takes one partition and every other node a fixed group of neighbors, so that
the tree, and with it every bit of a floating-point sum, is a function of the partitions alone.
Nodes are pure: a lost worker costs time, and every row still counts once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import dask
from dask.callbacks import Callback
from dask.delayed import Delayed, delayed
from distributed import Client, as_completed, default_client

from momentmix.errors import ClusterError, InputTypeError, MomentmixError
from momentmix.progress import check_asked, count_nothing, counting

FAN_IN = 8  # a node holds so many summaries at once; the tree of 1000 partitions has 4 levels

# A partition, what all tasks of a pass share, and the rows that Dask computed for the partition.
Leaf = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Schedule:
    """Where tasks run, and whether there is a bar.

    Without a client it is the current one, or Dask's local threads where there is none.
    """

    client: Any = None
    progress: bool | None = None

    def __post_init__(self) -> None:
        check_asked(self.progress)
        if self.client is not None and not isinstance(self.client, Client):
            raise InputTypeError(
                f"client must be a distributed.Client; got {type(self.client).__name__}. Use "
                "Client(address_of_the_scheduler)."
            )
        if getattr(self.client, "asynchronous", False):
            raise InputTypeError(
                "client must not be asynchronous; its results could not be waited for here. Use "
                "Client(..., asynchronous=False)."
            )

    def reduce(
        self,
        leaf: Leaf,
        merge: Callable[[list[Any]], Any],
        shared: Any,
        partitions: Sequence[tuple[Any, Any]],
        label: str,
    ) -> Any:
        """``merge`` over ``leaf(partition, shared, rows)`` of all, in a tree of fixed shape.

        Both are pure functions. `shared` travels to each worker once, not once for each task; the
        rows of a partition are a Delayed object. The bar has the `label`.
        """
        run = uuid.uuid4().hex
        common = delayed(shared, name=f"momentmix-shared-{run}", traverse=False)
        leaves = [
            delayed(leaf)(item, common, rows, dask_key_name=f"momentmix-{leaf.__name__}-{run}-{i}")
            for i, (item, rows) in enumerate(partitions)
        ]
        root = _tree(leaves, merge, run)
        client = self._client()
        try:
            with counting(label, len(leaves), "partitions", self.progress) as count:
                if client is None:
                    return _run_here(leaves, root, count)
                return self._run_there(client, leaves, root, count)
        except MomentmixError:
            raise
        except (Exception, CancelledError) as error:
            raise ClusterError(
                f"a task failed with {type(error).__name__}: {error}. No part of an answer is "
                "given. Correct what the task or the scheduler reports."
            ) from error

    def _client(self) -> Any:
        if self.client is not None:
            return self.client
        try:
            return default_client()
        except ValueError:
            return None

    def _run_there(
        self, client: Any, leaves: list[Delayed], root: Delayed, count: Callable[[int], None]
    ) -> Any:
        if count is count_nothing:
            return client.compute(root).result()
        *watched, future = client.compute([*leaves, root])
        finished = as_completed(watched, loop=client.loop)
        del watched  # a result that was counted may leave its worker once it is merged
        for leaf in finished:
            if leaf.status != "finished":
                break  # the root says why
            count(1)
        del finished
        return future.result()


def _tree(leaves: list[Delayed], merge: Callable[[list[Any]], Any], run: str) -> Delayed:
    level, height = leaves, 0
    while len(level) > 1 or not height:
        groups = [level[i : i + FAN_IN] for i in range(0, len(level), FAN_IN)]
        level = [
            delayed(merge)(group, dask_key_name=f"momentmix-{merge.__name__}-{run}-{height}-{i}")
            for i, group in enumerate(groups)
        ]
        height += 1
    return level[0]


def _run_here(leaves: list[Delayed], root: Delayed, count: Callable[[int], None]) -> Any:
    counted = {leaf.key for leaf in leaves}

    def after_task(key: Any, *_: Any) -> None:
        if key in counted:
            count(1)

    with Callback(posttask=after_task):
        return dask.compute(root)[0]

"""Summary files named on the command line."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from momentmix.errors import InputError, ShardError

if TYPE_CHECKING:
    from momentmix.groups.cube import SummaryCube
    from momentmix.summary.summary import MomentSummary

T = TypeVar("T")


def are_summaries(paths: Sequence[str]) -> bool:
    """Whether the files are summaries (all of them), or data (none); mixing is an error."""
    from momentmix.cli.cubes import are_cubes
    from momentmix.summary.file import is_summary_file

    flags = [path != "-" and (is_summary_file(path) or are_cubes([path])) for path in paths]
    if any(flags) and not all(flags):
        raise click.UsageError(
            f"{paths[flags.index(True)]} is a summary and {paths[flags.index(False)]} is not; "
            "give summaries or data files, not both."
        )
    return all(flags)


def load_sum(
    paths: Sequence[str], truncate: bool = False, minus: Sequence[str] = ()
) -> MomentSummary:
    """Add the summaries in files, and subtract those of `minus`.

    With `truncate`, all are reduced to the lowest order first.
    """
    loaded, n = _loaded([*paths, *minus], truncate), len(paths)
    total = _folded(paths, loaded[:n], operator.add)
    return _folded([paths[0], *minus], [total, *loaded[n:]], operator.sub)


def load_cubes(paths: Sequence[str]) -> SummaryCube:
    """Add the cubes in files."""
    from momentmix.groups.cube import SummaryCube

    return _folded(paths, [SummaryCube.load(path) for path in paths], operator.add)


def _folded(paths: Sequence[str], values: Sequence[T], combine: Callable[[T, T], T]) -> T:
    """Combine summaries or cubes one after the other; errors name the file."""
    total = values[0]
    for i, value in enumerate(values[1:], 1):
        try:
            total = combine(total, value)
        except ShardError as error:
            raise _counted_twice(error, paths[: i + 1], values) from None
        except InputError as error:
            raise InputError(f"{paths[i]}: {error}") from None
    return total


def _counted_twice(error: ShardError, paths: Sequence[str], values: Sequence[Any]) -> ShardError:
    """Return the error of the last path, with the path before it that holds the shard."""
    named = []
    for path, value in zip(paths[:-1], values, strict=False):
        groups = value.values() if hasattr(value, "key_names") else [value]
        if any(set(group.shard_ids) & set(error.shard_ids) for group in groups):
            named.append(path)
    other = f" (The other one is {named[0]}.)" if named else ""
    return ShardError(f"{paths[-1]}: {error}{other}", shard_ids=error.shard_ids)


def _loaded(paths: Sequence[str], truncate: bool) -> list[MomentSummary]:
    from momentmix.cli.cubes import are_cubes
    from momentmix.groups.cube import SummaryCube
    from momentmix.summary.summary import MomentSummary
    from momentmix.tables.opening import missing_input

    for path in paths:
        if not Path(path).exists():
            raise missing_input(path)
    summaries = [
        SummaryCube.load(path).total() if are_cubes([path]) else MomentSummary.load(path)
        for path in paths
    ]
    if not truncate:
        return summaries
    order = min(summary.order for summary in summaries)
    squared = min(summary.squared_order for summary in summaries)
    return [summary.truncate(order, squared) for summary in summaries]

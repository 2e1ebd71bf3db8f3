"""Summary files named on the command line."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from momentmix.errors import InputError, ShardError, SummaryFileError
from momentmix.findings.messages import in_shell

if TYPE_CHECKING:
    from momentmix.cube.cube import SummaryCube
    from momentmix.summary.summary import MomentSummary


def are_summaries(paths: Sequence[str]) -> bool:
    """Whether the files are summaries (all of them), or data (none); mixing is an error."""
    from momentmix.cli.cubes import are_cubes
    from momentmix.summary.file import is_summary_file

    flags = [path != "-" and (is_summary_file(path) or are_cubes([path])) for path in paths]
    if any(flags) and not all(flags):
        raise click.UsageError(
            f"{paths[flags.index(True)]} is a summary and "
            f"{paths[flags.index(False)]} is not; "
            "give summaries or data files, not both."
        )
    return all(flags)


def load_sum(paths: Sequence[str], truncate: bool = False) -> MomentSummary:
    """The sum of the summaries in files; errors name the file.

    With `truncate`, all are reduced to the lowest order first.
    """
    return _folded(paths, truncate, operator.add)


def load_cubes(paths: Sequence[str]) -> SummaryCube:
    """The sum of the cubes in files; errors name the file."""
    from momentmix.cube.cube import SummaryCube

    cubes = [SummaryCube.load(path) for path in paths]
    total = cubes[0]
    for i, cube in enumerate(cubes[1:], 1):
        path = paths[i]
        try:
            total = total + cube
        except ShardError as error:
            ids = [{x for group in cube.values() for x in group.shard_ids} for cube in cubes[:i]]
            raise _counted_twice(error, paths, ids) from None
        except InputError as error:
            raise InputError(f"{path}: {in_shell(error)}") from None
    return total


def load_difference(path: str, parts: Sequence[str], truncate: bool = False) -> MomentSummary:
    """The summary in a file without the summaries in others, which were added to it."""
    return _folded([path, *parts], truncate, operator.sub)


def _folded(
    paths: Sequence[str], truncate: bool, combine: Callable[[Any, Any], Any]
) -> MomentSummary:
    summaries = _loaded(paths, truncate)
    total = summaries[0]
    for i, summary in enumerate(summaries[1:], 1):
        path = paths[i]
        try:
            total = combine(total, summary)
        except ShardError as error:
            ids = [set(other.shard_ids) for other in summaries[:i]]
            raise _counted_twice(error, paths, ids) from None
        except InputError as error:
            hint = " Or pass --truncate." if "orders" in str(error) else ""
            raise InputError(f"{path}: {in_shell(error)}{hint}") from None
    return total


def _counted_twice(error: ShardError, paths: Sequence[str], ids: list[set[str]]) -> ShardError:
    """The error of a file, which also names the one before it that holds the shard."""
    named = [path for path, own in zip(paths, ids, strict=False) if own & set(error.shard_ids)]
    other = f" (The other one is {named[0]}.)" if named else ""
    return ShardError(f"{paths[len(ids)]}: {in_shell(error)}{other}", shard_ids=error.shard_ids)


def _loaded(paths: Sequence[str], truncate: bool) -> list[MomentSummary]:
    from momentmix.cli.cubes import are_cubes
    from momentmix.cube.cube import SummaryCube
    from momentmix.tables.opening import missing_input

    for path in paths:
        if not Path(path).exists():
            raise missing_input(path)
    summaries = [
        SummaryCube.load(path).total() if are_cubes([path]) else _summary(path) for path in paths
    ]
    if not truncate:
        return summaries
    order = min(summary.order for summary in summaries)
    squared = min(summary.squared_order for summary in summaries)
    return [summary.truncate(order, squared) for summary in summaries]


def _summary(path: str) -> MomentSummary:
    from momentmix.summary.file import is_summary_file
    from momentmix.summary.summary import MomentSummary

    try:
        return MomentSummary.load(path)
    except SummaryFileError as error:
        if not Path(path).is_file() or is_summary_file(path) or path.endswith((".mms", ".json")):
            raise
        raise SummaryFileError(
            f"{in_shell(error)} Make one of rows with `momentmix summarize`."
        ) from None

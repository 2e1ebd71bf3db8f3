"""Cubes among the files of commands, and the groups that --where chooses."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from momentmix.errors import InputError

if TYPE_CHECKING:
    from momentmix.groups.cube import SummaryCube

_MOST_VALUES = 12  # of a key, in a message


def are_cubes(paths: Sequence[str]) -> bool:
    """Whether all files are cubes."""
    from momentmix.groups.file import is_cube

    return all(is_cube(path) for path in paths)


def names_cube(path: str) -> bool:
    """Whether a file of this name is written as a cube."""
    from momentmix.groups.file import ENDING

    return path.lower().endswith(ENDING)


def load_groups(paths: Sequence[str], where: Sequence[str], rollup: str | None) -> SummaryCube:
    """The sum of cubes in files: groups that meet conditions, by some of the keys."""
    from momentmix.cli.summaries import load_cubes
    from momentmix.tables.opening import missing_input

    for path in paths:
        if not Path(path).exists():
            raise missing_input(path)
        if not are_cubes([path]):
            raise InputError(
                f"{path} is no cube; make one with `momentmix summarize DATA --by KEY -o "
                "cube.parquet`."
            )
    whole = load_cubes(paths)
    if not len(whole):
        raise InputError(f"{paths[0]} has no groups; check how it was filtered, or --min-rows.")
    cube = chosen(whole, where)
    if rollup is None:
        return cube
    names = [name.strip() for name in rollup.split(",") if name.strip()]
    if not names:
        raise click.UsageError(f"--rollup needs keys to keep: {', '.join(cube.key_names)}.")
    return cube.rollup(*names)


def chosen(cube: SummaryCube, where: Sequence[str], option: str = "--where") -> SummaryCube:
    """Groups of a cube that meet conditions ``key=value`` or ``key=first..last`` of an option."""
    wanted: dict[str, list[str]] = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"{option} must be key=value; got {text!r}.")
        wanted.setdefault(name.strip(), []).append(value.strip())
    found = cube
    for name, texts in wanted.items():
        found = found.where(**{name: partial(_is_wanted, texts, option)})
    if not len(found):
        raise InputError(f"no group has {' and '.join(where)}; {_listed(cube, list(wanted))}")
    return found


def _listed(cube: SummaryCube, names: Sequence[str]) -> str:
    """The values of the keys that were asked for."""
    texts = []
    for name in names:
        place = cube.key_names.index(name)
        values = list(dict.fromkeys(_key_text(key[place]) for key in cube))
        shown = ", ".join(repr(value) for value in values[:_MOST_VALUES])
        more = len(values) - _MOST_VALUES
        texts.append(f"{name} is {shown}" + (f" or {more} more" if more > 0 else ""))
    missing = " ('' stands for missing)" if any("''" in text for text in texts) else ""
    return f"{'; '.join(texts)}{missing}."


def _is_wanted(texts: list[str], option: str, value: Any) -> bool:
    """Whether a value of a key is one of these texts, or within one of the ranges ``a..b``."""
    ranges = [text.split("..", 1) for text in texts if ".." in text and value is not None]
    return _key_text(value) in texts or any(_within(option, value, *ends) for ends in ranges)


def _within(option: str, value: Any, low: str, high: str) -> bool:
    from momentmix.groups.keys import natural_order

    if isinstance(value, int) and not isinstance(value, bool):
        try:
            ends = [int(end) if end.strip() else value for end in (low, high)]
        except ValueError:
            raise click.UsageError(
                f"{option}: a range of whole numbers is written as 3..17; got {f'{low}..{high}'!r}."
            ) from None
        return ends[0] <= value <= ends[1]
    text = str(value)
    # A day or a month that a range ends with is part of it: 2026-01..2026-03.
    below = not high or text.startswith(high) or natural_order(text) <= natural_order(high)
    return below and natural_order(text) >= natural_order(low)


def _key_text(value: Any) -> str:
    """A value of a key as it is written in a condition; nothing stands for a missing one."""
    return "" if value is None else str(value)

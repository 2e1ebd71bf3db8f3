"""``momentmix summarize --by``: rows → a cube; and cubes among the files of other commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import ReadOptions
from momentmix.cli.output import say
from momentmix.cli.summarize import Job
from momentmix.errors import InputError
from momentmix.findings.messages import in_shell
from momentmix.progress import erase
from momentmix.wording import did_you_mean, plural

if TYPE_CHECKING:
    from momentmix.cli.checkpoint import Checkpoint
    from momentmix.cube.cube import SummaryCube
    from momentmix.cube.passes import CubeJob


_MOST_VALUES = 12  # of a key, in a message


def cube_job_of(
    inputs: tuple[str, ...],
    by: str,
    families: Any,
    read_options: ReadOptions,
    by_name: bool,
    quiet: bool,
) -> CubeRun:
    """The run of a command that makes a cube."""
    from momentmix.cube.keys import parse_keys
    from momentmix.cube.summarize_by import cube_job

    if not by.strip(" ,"):
        raise click.UsageError(
            "--by needs names of columns, as in --by region, or --by 'region,week(ts)'."
        )
    if "-" in inputs:
        raise click.UsageError("--by needs files; standard input has no name for its shards.")
    reading = read_options.reading(by_name)
    job = cube_job(list(inputs), parse_keys(by), families, read_options.missing, reading)
    if not quiet:
        erase()
        say(*(f"note: {in_shell(note)}" for note in job.rows.notes), err=True)
    settings = {"by": [str(key.spec) for key in job.keys]}
    return CubeRun(job.rows, settings, None, job=job)


@dataclass
class CubeRun(Job):
    """One run that makes a cube."""

    job: CubeJob | None = None

    @property
    def _job(self) -> CubeJob:
        assert self.job is not None
        return self.job

    def usual_part_rows(self) -> int:
        """Rows of a part."""
        from momentmix.cube.passes import PART_ROWS

        return PART_ROWS

    def start(self) -> Any:
        """The state before the first row."""
        from momentmix.cube.passes import CubeProgress

        return CubeProgress()

    def states(self, state: Any) -> Iterator[Any]:
        """States after each part."""
        settings = {"squared_order": self.settings["squared_order"], "n_threads": self.threads}
        order, part_rows = self.settings["order"], self.settings["part_rows"]
        return self._job.run(state, order, settings, part_rows)

    def packed(self, state: Any) -> bytes:
        """A state as bytes: a cube as an Arrow file."""
        from momentmix.cube.file import packed

        return packed(self._job.names, state.sums.groups(), (0, 0))

    def unpacked(self, state: Any, found: Checkpoint) -> Any:
        """The state of a checkpoint."""
        from momentmix.cube.file import unpacked
        from momentmix.cube.passes import CubeProgress, GroupSums

        sums = GroupSums.of(unpacked(found.summary, str(self.checkpoint))[1])
        return CubeProgress(sums, found.piece, found.row, found.n_dropped, found.read)

    def is_written(self, state: bytes) -> bool:
        """Whether the output is that of a finished pass."""
        from momentmix.cube.cube import SummaryCube
        from momentmix.cube.file import is_cube, unpacked

        if not is_cube(self.output):
            return False
        cube = self._job.cube_of(unpacked(state, str(self.checkpoint))[1])
        return SummaryCube.load(self.output) == cube.at_least(self.min_rows)

    def made(self, state: Any) -> Any:
        """The cube."""
        return self._job.cube(state, self.min_rows)

    def own_facts(self) -> dict[str, Any]:
        """Keys and groups."""
        gone = self.result.left_out
        return {
            "keys": list(self._job.names),
            "n_groups": len(self.result),
            "n_groups_left_out": gone[0],
            "n_rows_left_out": gone[1],
        }

    def sentence(self) -> str:
        """What the command prints."""
        gone, rows = self.result.left_out
        left_out = f"; {gone:,} small groups ({rows:,} rows) left out" if gone else ""
        n = len(self.result)
        groups = f"{n:,} group{plural(n)} by {', '.join(self._job.names)}"
        return f"{super().sentence()}, {groups}{left_out}"


# -- cubes among the files of other commands --------------------------------------------------


def are_cubes(paths: Sequence[str]) -> bool:
    """Whether all files are cubes."""
    from momentmix.cube.file import is_cube

    return all(is_cube(path) for path in paths)


def names_cube(path: str) -> bool:
    """Whether a file of this name is written as a cube."""
    from momentmix.cube.file import ENDINGS

    return path.lower().endswith(ENDINGS)


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
    for name in names:
        _check_key(cube, name, f"--rollup {rollup}")
    return cube.rollup(*names)


def _check_key(cube: SummaryCube, name: str, said: str) -> None:
    if name not in cube.key_names:
        raise InputError(
            f"{said}: the cube has no key {name!a}; it has {', '.join(cube.key_names)}."
            f"{did_you_mean(name, cube.key_names)}"
        )


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
        _check_key(cube, name, f"{option} {name}=…")
        found = found.where(**{name: _Wanted(texts, option)})
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


class _Wanted:
    """Whether a value of a key is one of these texts, or within one of the ranges ``a..b``."""

    def __init__(self, texts: list[str], option: str) -> None:
        self.texts = set(texts)
        self.ranges = [text.split("..", 1) for text in texts if ".." in text]
        self.option = option

    def __call__(self, value: Any) -> bool:
        text = _key_text(value)
        if text in self.texts:
            return True
        return value is not None and any(self._within(value, *ends) for ends in self.ranges)

    def _within(self, value: Any, low: str, high: str) -> bool:
        from momentmix.monitoring.trends import place_of

        if isinstance(value, int) and not isinstance(value, bool):
            try:
                ends = [int(end) if end.strip() else value for end in (low, high)]
            except ValueError:
                raise click.UsageError(
                    f"{self.option}: a range of whole numbers is written as 3..17; got "
                    f"{f'{low}..{high}'!r}."
                ) from None
            return ends[0] <= value <= ends[1]
        text = str(value)
        # A day or a month that a range ends with is part of it: 2026-01..2026-03.
        below = not high or text.startswith(high) or place_of(text) <= place_of(high)
        return below and place_of(text) >= place_of(low)


def _key_text(value: Any) -> str:
    """A value of a key as it is written in a condition; nothing stands for a missing one."""
    return "" if value is None else str(value)

"""Which groups of cubes ``momentmix compare`` compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import click

from momentmix.errors import InputError
from momentmix.wording import plural

if TYPE_CHECKING:
    from momentmix.cube.cube import SummaryCube
    from momentmix.summary.summary import MomentSummary


@dataclass
class ComparedGroups:
    """Groups of cubes that are compared: the options --where, --first and --second.

    Attributes
    ----------
    where : tuple of str
        Conditions on both sides.
    first, second : tuple of str
        Conditions on one.
    lines : list of str
        What was chosen, for people.
    """

    where: tuple[str, ...]
    first: tuple[str, ...]
    second: tuple[str, ...]
    lines: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, list[str]]:
        """The conditions that were given."""
        given = {"where": self.where, "first_where": self.first, "second_where": self.second}
        return {name: list(texts) for name, texts in given.items() if texts}

    def of_one(self, path: str) -> tuple[MomentSummary, MomentSummary]:
        """Two parts of one cube; all groups that are not in one are the other."""
        from momentmix.cli.cubes import are_cubes, chosen, load_groups
        from momentmix.cube.cube import SummaryCube

        if not (self.first or self.second):
            cure = (
                "choose groups of the cube with --first and --second"
                if are_cubes([path])
                else "give a second file"
            )
            raise click.UsageError(f"there is nothing to compare {path} with; {cure}.")
        cube = load_groups([path], self.where, None)
        given = {"--first": self.first, "--second": self.second}
        parts = {name: chosen(cube, texts, name) for name, texts in given.items() if texts}
        if len(parts) == 1:
            ((name, part),) = parts.items()
            rest = SummaryCube(cube.key_names, {key: cube[key] for key in cube if key not in part})
            if not len(rest):
                raise InputError(f"{name} takes all groups; there are no others to compare with.")
            parts = {other: parts.get(other, rest) for other in given}
        self.lines = [_chosen_line(given, parts)]
        left, right = (parts[name].total() for name in given)
        return left, right

    def of(self, place: int, path: str) -> MomentSummary | None:
        """The summary of the first (0) or second (1) file; None for data."""
        from momentmix.cli.cubes import are_cubes, chosen, load_groups
        from momentmix.cli.summaries import are_summaries, load_sum

        if path.lower().endswith(".json"):
            raise InputError(
                f"{path} is no data; `momentmix track MODEL CUBE` and `momentmix score MODEL DATA` "
                "say whether rows fit a model."
            )
        option, own = (("--first", self.first), ("--second", self.second))[place]
        if own or (self.where and are_cubes([path])):
            return chosen(load_groups([path], self.where, None), own, option).total()
        return load_sum([path]) if are_summaries([path]) else None


def _chosen_line(given: dict[str, tuple[str, ...]], parts: dict[str, SummaryCube]) -> str:
    """Which groups each side has."""
    texts = []
    for name, cube in parts.items():
        n = len(cube)
        what = f"{' and '.join(given[name])}, " if given[name] else "the other "
        texts.append(f"{name.removeprefix('--')}: {what}{n:,} group{plural(n)}")
    return "; ".join(texts)

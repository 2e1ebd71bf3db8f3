"""``momentmix merge``: summaries → one summary; `--minus` takes some out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import output_options, where_option
from momentmix.cli.output import BINARY, Target

if TYPE_CHECKING:
    from momentmix.groups.cube import SummaryCube
    from momentmix.summary.summary import MomentSummary


@click.argument("summaries", nargs=-1, required=True)
@output_options("File of the sum; .parquet for a cube.", required=True)
@click.option("--minus", multiple=True, metavar="FILE", help="Subtract this one; repeatable.")
@where_option
@click.option("--rollup", metavar="KEYS", help="Merge groups of a cube that agree in these.")
@click.option("--truncate", is_flag=True, help="Reduce all to the lowest order.")
def merge_command(
    summaries: tuple[str, ...],
    target: Target,
    minus: tuple[str, ...],
    where: tuple[str, ...],
    rollup: str | None,
    truncate: bool,
) -> None:
    """Add summaries of different rows. The sum is exact, in whatever order they are merged.

    Cubes are added group by group where the output is a cube, else all their groups are added.
    Summaries of --minus must have been added before; what is left is exact.
    """
    from momentmix.cli.cubes import load_groups, names_cube
    from momentmix.cli.summaries import load_sum

    to_cube = names_cube(target.check([*summaries, *minus], BINARY))
    if not (where or rollup or to_cube):
        _finish(load_sum(summaries, truncate, minus), target)
        return
    cube = load_groups(summaries, where, rollup)
    if minus:
        cube = cube - load_groups(minus, where, rollup)
    _finish(cube if to_cube else cube.total(), target)


def _finish(made: MomentSummary | SummaryCube, target: Target) -> None:
    """Save a summary or a cube, and print what it holds."""
    from momentmix.groups.cube import SummaryCube

    made.save(str(target.path))
    facts: dict[str, Any] = {"n_rows": made.n_rows}
    if isinstance(made, SummaryCube):
        facts |= {"n_groups": len(made), "keys": list(made.key_names)}
    else:
        facts |= {"n_features": made.n_features, "order": made.order}
        facts |= {"n_shards": len(made.shard_ids)}
    target.report(facts, f"{target.path}: {made}")

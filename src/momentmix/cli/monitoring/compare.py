"""``momentmix compare``: whether two summaries differ, and in what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from momentmix.cli.options import (
    ReadOptions,
    data_options,
    families_options,
    json_option,
    where_option,
)
from momentmix.cli.output import say, say_json
from momentmix.errors import InputError
from momentmix.wording import plural

if TYPE_CHECKING:
    from momentmix.summary.summary import MomentSummary

DIFFERS = 4  # exit code


@click.argument("first")
@click.argument("second", required=False)
@where_option
@click.option(
    "--first", "first_where", multiple=True, metavar="KEY=VALUE", help="Groups of the first cube."
)
@click.option(
    "--second", "second_where", multiple=True, metavar="KEY=VALUE", help="Groups of the second."
)
@click.option(
    "--level",
    metavar="P",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.05,
    help="Share of equal pairs that are called different.",
)
@click.option(
    "--least-effect",
    metavar="SIZE",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Neglect changes of less than this, in standard deviations.",
)
@families_options
@data_options
@json_option
def compare_command(
    first: str,
    second: str | None,
    where: tuple[str, ...],
    first_where: tuple[str, ...],
    second_where: tuple[str, ...],
    level: float,
    least_effect: float,
    as_json: bool,
    families: Any,
    read_options: ReadOptions,
) -> int:
    """Compare two summaries (.mms), or data files, which are read once with the same columns.

    Of a cube all groups count, or those that --where, --first and --second choose; one cube alone
    is compared with itself, some groups with others. Prints the changes of means, spreads and
    shares, the largest first. The exit code is 4 where something changed.

    \b
    momentmix compare may.mms june.csv --least-effect 0.1
    momentmix compare cube.parquet --where region=EU --second week=2026-03-02..2026-03-30
    """  # noqa: D301, click does not rewrap what follows a backspace
    from momentmix.monitoring.compare import compare
    from momentmix.monitoring.comparison import comparison_lines

    groups = {"where": where, "first_where": first_where, "second_where": second_where}
    left, right, lines = _summaries(first, second, groups, families, read_options)
    found = compare(left, right)
    differs = found.differs(level, least_effect)
    if as_json:
        settings: dict[str, Any] = {"first": first, "second": second or first}
        settings |= {name: list(texts) for name, texts in groups.items() if texts}
        settings |= {"level": level, "least_effect": least_effect}
        said = {"differs": differs, "sentences": found.sentences(level, least_effect)}
        say_json({**settings, **said, **found.to_dict(), **said})
    else:
        head, *rest = comparison_lines(found, level, least_effect)
        say(head, *lines, *rest)
    return DIFFERS if differs else 0


def _summaries(
    first: str,
    second: str | None,
    groups: dict[str, tuple[str, ...]],
    families: Any,
    read_options: ReadOptions,
) -> tuple[MomentSummary, MomentSummary, list[str]]:
    """Both summaries and lines on their groups; a data file gets the columns of the other one."""
    from momentmix.cli.cubes import are_cubes, load_groups

    if second is None:
        _check_families(families)
        left, right, line = _parts_of_one(first, **groups)
        return _with_columns(left, read_options), _with_columns(right, read_options), [line]
    paths, where = (first, second), groups["where"]
    if where and not any(are_cubes([path]) for path in paths):
        load_groups(paths, where, None)  # says how to make a cube
    found = [
        _summary_of(path, where, groups[f"{name}_where"], f"--{name}")
        for name, path in zip(("first", "second"), paths, strict=True)
    ]
    given = [None if own is None else _with_columns(own, read_options) for own in found]
    like = next((summary for summary in given if summary is not None), None)
    if like is not None:
        _check_families(families)
        left, right = (
            _summarized(path, like, read_options) if summary is None else summary
            for path, summary in zip(paths, given, strict=True)
        )
        return left, right, []
    # What columns are is found in both files together: levels and missing cells of each.
    from momentmix.summary.summarize import summarize
    from momentmix.tables.learning import learn

    rows = learn(read_options.open(paths), families, read_options.missing)
    say(*(f"note: {note}" for note in rows.notes), err=True)
    schema, missing = rows.learned, read_options.missing
    read_options = replace(read_options, header=rows.sources[0].column_names is not None)
    left, right = (
        summarize(
            read_options.open((path,), expected=schema.column_names),
            families=schema, missing=missing,
        )
        for path in paths
    )  # fmt: skip
    return left, right, []


def _parts_of_one(
    path: str, where: Sequence[str], first_where: Sequence[str], second_where: Sequence[str]
) -> tuple[MomentSummary, MomentSummary, str]:
    """Two parts of one cube, and a line on them; all groups that are not in one are the other."""
    from momentmix.cli.cubes import are_cubes, chosen, load_groups
    from momentmix.groups.cube import SummaryCube

    given = {"first": first_where, "second": second_where}
    if not any(given.values()):
        cure = "give a second file"
        if are_cubes([path]):
            cure = "choose groups of the cube with --first and --second"
        raise click.UsageError(f"there is nothing to compare {path} with; {cure}.")
    cube = load_groups([path], where, None)
    parts = {name: chosen(cube, texts, f"--{name}") for name, texts in given.items() if texts}
    texts = {name: " and ".join(own) + ", " if own else "the other " for name, own in given.items()}
    if len(parts) == 1:
        ((name, part),) = parts.items()
        rest = SummaryCube(cube.key_names, {key: cube[key] for key in cube if key not in part})
        if not len(rest):
            raise InputError(f"--{name} takes all groups; there are no others to compare with.")
        parts = {other: parts.get(other, rest) for other in given}
    counts = {name: f"{len(part):,} group{plural(len(part))}" for name, part in parts.items()}
    line = "; ".join(f"{name}: {texts[name]}{counts[name]}" for name in given)
    return parts["first"].total(), parts["second"].total(), line


def _summary_of(
    path: str, where: Sequence[str], own: Sequence[str], option: str
) -> MomentSummary | None:
    """The summary of a file, of the groups that are chosen of a cube; None for data."""
    from momentmix.cli.cubes import are_cubes, chosen, load_groups
    from momentmix.cli.summaries import are_summaries, load_sum

    if path.lower().endswith(".json"):
        raise InputError(
            f"{path} is no data; `momentmix track MODEL CUBE` says whether rows fit a model."
        )
    if own or (where and are_cubes([path])):
        return chosen(load_groups([path], where, None), own, option).total()
    return load_sum([path]) if are_summaries([path]) else None


def _check_families(families: Any) -> None:
    if families is not None:
        raise click.UsageError(
            "summaries have the families of their columns, and a data file that is compared with "
            "one takes them; leave out --families and --schema."
        )


def _with_columns(summary: MomentSummary, read_options: ReadOptions) -> MomentSummary:
    """The summary of the columns that --columns and --exclude leave."""
    from momentmix.mixture.columns import column_numbers
    from momentmix.summary.column_facts import schema_of

    schema = schema_of(summary)
    names, every = schema.column_names, list(range(schema.n_columns))
    kept = every
    if read_options.columns is not None:
        kept = column_numbers(read_options.columns, len(every), names).tolist()
    if read_options.exclude is not None:
        left_out = set(column_numbers(read_options.exclude, len(every), names).tolist())
        kept = [number for number in kept if number not in left_out]
    if kept == every:
        return summary
    if not kept:
        raise click.UsageError("--columns and --exclude leave no column to compare.")
    return summary.truncate(min(summary.order, len(kept))).select(kept)


def _summarized(path: str, like: MomentSummary, read_options: ReadOptions) -> MomentSummary:
    """The summary of a data file, with the columns and orders of another summary."""
    from momentmix.summary.column_facts import schema_of
    from momentmix.summary.summarize import summarize

    schema = schema_of(like)
    read_options = replace(read_options, columns=None, exclude=None)  # those of the summary
    if read_options.missing == "error" and any(column.has_missing for column in schema.columns):
        read_options = replace(read_options, missing="model")
    source = read_options.open((path,), expected=schema.column_names)
    return summarize(
        source, like.order, families=schema, missing=read_options.missing,
        squared_order=like.squared_order,
    )  # fmt: skip

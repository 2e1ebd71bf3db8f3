"""Whether two summaries go together; the messages where they do not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from momentmix.errors import InputError, ShardError
from momentmix.summary.layout import Layout
from momentmix.summary.marks import Mark

__all__ = [
    "check_alike",
    "check_contained",
    "check_disjoint",
    "check_once",
    "check_versions",
    "names_differ",
]


def check_alike(
    a: Layout, b: Layout, left: tuple[str, ...] | None, right: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """Refuse layouts and feature names that cannot be combined; returns the common names."""
    if a.n_features != b.n_features:
        raise InputError(
            f"summaries must have the same features; got {a.n_features} and {b.n_features}. "
            "Use select() to take the common ones."
        )
    if (a.order, a.squared_order) != (b.order, b.squared_order):
        order, squared = min(a.order, b.order), min(a.squared_order, b.squared_order)
        raise InputError(
            f"summaries must have the same orders; got order={a.order}, "
            f"squared_order={a.squared_order} and order={b.order}, "
            f"squared_order={b.squared_order}. Cut both with truncate({order}, {squared})."
        )
    if a.replicates != b.replicates:
        raise InputError(
            f"summaries must have the same replicates; got {a.replicates} and {b.replicates}. "
            f"Give them up with truncate({a.order}, {a.squared_order}, replicates=0)."
        )
    if left and right and left != right:
        raise InputError(names_differ(left, right))
    return left or right


def names_differ(expected: tuple[str, ...], given: tuple[str, ...]) -> str:
    """Say where two lists of feature names differ, and what helps."""
    if sorted(expected) == sorted(given):
        cure = "They are the same names in another order: reorder the columns, or use select()."
    else:
        cure = "Rename or select the columns."
    first = next(
        (i for i, (a, b) in enumerate(zip(expected, given, strict=False)) if a != b),
        min(len(expected), len(given)),
    )
    a, b = (ascii(names[first]) if first < len(names) else "none" for names in (expected, given))
    return f"feature names must agree; column {first} is {a} in one and {b} in the other. {cure}"


def check_disjoint(left: frozenset[bytes], right: frozenset[bytes]) -> None:
    """Refuse to add summaries that share a shard."""
    common = _sorted(left & right)
    if common:
        raise ShardError(
            f"{_listed(common)} in both summaries: the rows would count twice. Leave one of them "
            "out, or subtract it first.",
            shard_ids=common,
        )


def check_once(shards: Sequence[bytes]) -> None:
    """Refuse two shards of one id in a summary."""
    twice = _sorted(frozenset(shard for shard, n in Counter(shards).items() if n > 1))
    if twice:
        raise ShardError(
            f"{_listed(twice)} in the summary already: the rows would count twice. Leave one of "
            "them out.",
            shard_ids=twice,
        )


def check_contained(whole: frozenset[bytes], part: frozenset[bytes]) -> None:
    """Refuse to subtract a shard that is not there."""
    foreign = _sorted(part - whole)
    if foreign:
        raise ShardError(
            f"{_listed(foreign)} not in the summary to subtract from. Subtract only what was "
            "added; for rows without a shard of their own use forget().",
            shard_ids=foreign,
        )


def check_versions(differing: Mapping[bytes, tuple[Mark, Mark]]) -> None:
    """Refuse to subtract a shard that took other rows than the one of the same id that is there."""
    if differing:
        shards = _sorted(frozenset(differing))
        there, here = differing[bytes.fromhex(shards[0])]
        raise ShardError(
            f"{_listed(shards)} not the same in both summaries: {there.n_rows:,} rows in the one "
            f"to subtract from, {here.n_rows:,} in the other. It took other rows after one of them "
            "was copied or saved, or its id was given twice. Subtract the same version; for the "
            "rows alone use forget().",
            shard_ids=shards,
        )


def _sorted(shards: frozenset[bytes]) -> tuple[str, ...]:
    return tuple(sorted(shard.hex() for shard in shards))


def _listed(shards: tuple[str, ...]) -> str:
    """The first few shard ids, as the subject of a sentence."""
    listed = ", ".join(shards[:5]) + (f" and {len(shards) - 5} more" if len(shards) > 5 else "")
    return f"shard {listed} is" if len(shards) == 1 else f"shards {listed} are"

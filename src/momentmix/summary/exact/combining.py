"""Adding summaries and subtracting one from another: what goes together.

A shard that still takes rows can be read at any time, and what was read carries its id. So a
summary taken early and one taken late hold different rows under one id: they are never added, since
the ids agree, and the early one must not be subtracted from the late one as if it were the complete
shard. The *mark* of a shard (row count, weight and means when it entered a sum) distinguishes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from momentmix.errors import InputError, ShardError
from momentmix.summary.exact.exact_sums import (
    Reframed,
    absent_places,
    python_integers,
    total,
    trimmed,
)
from momentmix.summary.exact.plausibility import impossible
from momentmix.summary.exact.schemas import about_means, alike_all
from momentmix.summary.exact.totals import (
    Mark,
    Totals,
    bits_between,
    empty,
    finest,
    mean_shifts,
    recentered,
    rescaled,
    shard_number,
    with_high,
)
from momentmix.summary.layout import Layout
from momentmix.tables.schema import Schema, joined, plain_schema
from momentmix.wording import option

T = TypeVar("T")

_ROUNDING = 2.0**-40  # by layout, processor or device the sums of a shard differ in their last bits


# -- sums of sets of shards --------------------------------------------------------------------


def combine(*parts: Totals) -> Totals:
    """Return the sums of the union of disjoint sets of shards, in its canonical units.

    It has the high sections that all have; a part without rows takes nothing away. The bytes are
    as of adding part by part, in any order: units and shifts are functions of the exact sums.
    """
    filled = [part for part in parts if part.shards]
    if len(filled) < 2:
        return recentered(max(parts, key=lambda t: (bool(t.shards), t.layout.high)))
    alike = _common(filled)
    layout, reach = alike[0].layout, tuple(map(min, *(part.reach for part in alike)))
    own = np.array([part.exponents for part in alike], dtype=np.float64)  # None is NaN: neutral
    units = np.fmin.reduce(own, axis=0)
    exponents = tuple([None if np.isnan(e) else int(e) for e in units])
    bits = np.nan_to_num(own - units).astype(np.int64)
    shifts = np.array([part.shifts for part in alike], dtype=object) << bits
    heads = [python_integers(part.sums.words[: layout.n_features + 1]) for part in alike]
    weights, first = np.split(np.array(heads), [1], axis=1)  # Σ w, Σ w z_j
    sums = (shifts * weights + (first << bits)).sum(axis=0)
    centers = mean_shifts(sums.tolist(), int(weights.sum()), exponents)
    deltas = np.array(centers, dtype=object) - shifts
    frames = zip(alike, bits[:, None], deltas[:, None], strict=True)
    moved = total(layout, [Reframed(part.sums.words[None], *frame) for part, *frame in frames])
    union = Totals(
        layout=layout,
        schema=alike[0].schema,
        exponents=exponents,
        shifts=centers,
        sums=moved.without(absent_places(layout, reach)),
        reach=reach,
        weight_squares=sum(part.weight_squares for part in alike),
        n_rows=sum(part.n_rows for part in alike),
        minimum=np.min([part.minimum for part in alike], axis=0),
        maximum=np.max([part.maximum for part in alike], axis=0),
        exact_bounds=all(part.exact_bounds for part in alike),
        shards=frozenset(shard for part in alike for shard in part.shards),
        n_forgotten=sum(part.n_forgotten for part in alike),
        marks={shard: mark for part in alike for shard, mark in part.known_marks.items()},
        origins={shard: origin for part in alike for shard, origin in part.origins.items()},
        forgotten={shard: mark for part in alike for shard, mark in part.forgotten.items()},
    )
    return union if union.schema is None else recentered(about_means(union))


def _common(parts: Sequence[Totals]) -> list[Totals]:
    """Return all parts in their common schema, with the high sections that all have."""
    alike = alike_all(parts)
    high = min(part.layout.high for part in alike)
    return [with_high(part, high) for part in alike]


def remove(whole: Totals, part: Totals) -> Totals:
    """The sums of the shards of `whole` that are not in `part`: exact; the bounds stay bounds."""
    shards = whole.shards - part.shards
    whole, part = _common([whole, part])
    exponents = finest(whole.exponents, part.exponents)
    a, reach = rescaled(whole, exponents), tuple(map(min, whole.reach, part.reach))
    bits = bits_between(part.exponents, exponents)
    columns = zip(a.shifts, part.shifts, bits, strict=True)
    deltas = np.array([[new - (old << n) for new, old, n in columns]], dtype=object)
    still = np.zeros((1, len(bits)), dtype=np.int64)
    moved = [
        Reframed(a.sums.words[None], still, still.astype(object)),
        Reframed(part.sums.words[None], np.array([bits]), deltas, negative=True),
    ]
    rest = replace(
        a,
        sums=total(a.layout, moved).without(absent_places(a.layout, reach)),
        reach=reach,
        weight_squares=a.weight_squares - part.weight_squares,
        n_rows=a.n_rows - part.n_rows,
        exact_bounds=False,
        shards=shards,
        n_forgotten=a.n_forgotten - part.n_forgotten,
        marks=_of_shards(whole.known_marks, shards),
        origins=_of_shards(whole.origins, shards),
        forgotten={},
    )
    if rest.n_forgotten:  # else what was forgotten went with the other one
        rest = replace(rest, forgotten=_of_shards(whole.forgotten, shards))
    # Rows and weight are left exactly if shards are, and nothing else otherwise.
    is_empty = not rest.n_rows and not rest.sums.words.any()
    is_plausible = rest.n_rows > 0 and rest.weight > 0 if shards else is_empty
    if rest.n_rows < 0 or rest.n_forgotten < 0 or not is_plausible:
        raise InputError(
            f"the summary to subtract holds {part.n_rows} rows, the other one "
            f"{a.n_rows}; although the shard ids agree they are not parts of one another. "
            "Were rows forgotten in one of them?"
        )
    return recentered(rest) if shards else empty(whole.layout, whole.schema)


def _of_shards(values: Mapping[bytes, T], shards: frozenset[bytes]) -> dict[bytes, T]:
    return {shard: value for shard, value in values.items() if shard in shards}


def same(left: Totals, right: Totals) -> bool:
    """Whether counts and sums agree exactly, whatever the units; bounds are not compared."""
    try:
        left, right = alike_all([left, right])
    except InputError:  # other columns
        return False
    plain = ("layout", "weight_squares", "n_rows", "shards", "n_forgotten", "reach")
    if any(getattr(left, name) != getattr(right, name) for name in plain):
        return False
    exponents = finest(left.exponents, right.exponents)
    a, b = (recentered(rescaled(part, exponents)) for part in (left, right))
    return a.shifts == b.shifts and np.array_equal(trimmed(a.sums.words), trimmed(b.sums.words))


# -- what goes together -----------------------------------------------------------------------


def check_alike(
    a: Layout,
    b: Layout,
    left: tuple[str, ...] | None,
    right: tuple[str, ...] | None,
    schemas: tuple[Schema | None, Schema | None] = (None, None),
) -> tuple[str, ...] | None:
    """Refuse layouts, names and schemas that cannot be combined; returns the common names."""
    if schemas == (None, None) and a.n_features != b.n_features:
        raise InputError(
            f"summaries must have the same features; got {a.n_features} and {b.n_features}. "
            "Take the common ones: summarize them, columns= (--columns), or use select()."
        )
    check_orders(a, b)
    if left and right and left != right:
        raise InputError(names_differ(left, right))
    if schemas != (None, None):
        plain = [
            plain_schema(layout.n_features, names) for layout, names in ((a, left), (b, right))
        ]
        joined(schemas[0] or plain[0], schemas[1] or plain[1])
    return left or right


def check_orders(a: Layout, b: Layout) -> None:
    """Refuse two orders."""
    if (a.order, a.squared_order) != (b.order, b.squared_order):
        order, squared = min(a.order, b.order), min(a.squared_order, b.squared_order)
        raise InputError(
            f"summaries must have the same orders; got order={a.order}, "
            f"squared_order={a.squared_order} and order={b.order}, "
            f"squared_order={b.squared_order}. Cut both with truncate({order}, {squared}) "
            f"(momentmix merge --truncate), or summarize both with {option(order=order)}."
        )


def names_differ(expected: tuple[str, ...], given: tuple[str, ...]) -> str:
    """Describe the first difference of two lists of feature names, and the cure."""
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
    _refuse(left & right, "both summaries", "Leave one of them out, or subtract it first.")


def check_once(shards: Sequence[bytes]) -> None:
    """Refuse two shards of one id in a summary."""
    twice = frozenset(shard for shard, n in Counter(shards).items() if n > 1)
    _refuse(twice, "the summary already", "Leave one of them out.")


def _refuse(shards: frozenset[bytes], place: str, cure: str) -> None:
    ids = _sorted(shards)
    if ids:
        text = f"{_listed(ids)} in {place}: the rows would count twice. {cure}"
        raise ShardError(text, shard_ids=ids)


def check_origins(parts: Iterable[Mapping[bytes, bytes]]) -> None:
    """Refuse to add rows of one table that were cut into shards in two ways."""
    # Shards of one table and one way are of different rows, unless they have the same place.
    ways: dict[bytes, tuple[bytes, bytes]] = {}
    places: dict[bytes, bytes] = {}
    for origins in parts:
        for shard, origin in origins.items():
            way, other = ways.setdefault(origin[:16], (origin[16:24], shard))
            if way == origin[16:24]:
                other = places.setdefault(origin, shard)
            if other != shard:
                both = _sorted(frozenset([shard, other]))
                raise ShardError(
                    f"shards {both[0]} and {both[1]} are of the same file or table, which was read "
                    "in two ways (with other keys, columns or missing=, or from a copy): the rows "
                    "would count twice. Leave one of them out, or subtract it first.",
                    shard_ids=both,
                )


def renamed(
    totals: Totals, ids: Mapping[bytes, bytes], origins: Mapping[bytes, bytes] | None = None
) -> Totals:
    """Return the sums under other shard ids; shards of the new ids have these origins."""
    names = {shard: shard for shard in totals.shards}
    for old, new in ids.items():
        number = 0
        while (shard := shard_number(old, number)) in names:
            names[shard] = shard_number(new, number)
            number += 1
    check_once(list(names.values()))
    shards = frozenset(names.values())
    kept = {shard: origin for shard, origin in totals.origins.items() if shard not in ids}
    result = replace(
        totals,
        shards=shards,
        marks={names[shard]: mark for shard, mark in totals.marks.items()},
        origins=kept | _of_shards(origins or {}, shards),
        forgotten={names[shard]: mark for shard, mark in totals.forgotten.items()},
    )
    if origins:
        check_origins([result.origins])
    return result


def subtract(whole: Totals, part: Totals) -> Totals:
    """The sums of the shards of `whole` that are not in `part`, which must be part of it."""
    foreign = _sorted(part.shards - whole.shards)
    if foreign:
        raise ShardError(
            f"{_listed(foreign)} not in the summary to subtract from. Subtract only what was "
            "added; for rows without a shard of their own use MomentSummary.forget.",
            shard_ids=foreign,
        )
    if not part.shards:
        return whole
    whole, part = alike_all([whole, part])
    _check_versions(whole, part)
    rest = remove(whole, part)
    problem = impossible(rest)
    if problem:
        raise InputError(
            f"subtracting would leave {problem}: although the shard ids agree, the summaries are "
            "not parts of one another. Were rows forgotten in one of them?"
        )
    _check_forgotten(whole, part)
    return rest


def _check_versions(whole: Totals, part: Totals) -> None:
    """Refuse to subtract a shard that took other rows than the one of the same id that is there."""
    left, right = whole.known_marks, part.known_marks
    pairs = {shard: (left[shard], right[shard]) for shard in left.keys() & right.keys()}
    span = whole.maximum - whole.minimum
    differing = {shard: pair for shard, pair in pairs.items() if not _alike(*pair, span)}
    if differing:
        shards = _sorted(frozenset(differing))
        there, here = differing[bytes.fromhex(shards[0])]
        raise ShardError(
            f"{_listed(shards)} not the same in both summaries: {there.n_rows:,} rows in the one "
            f"to subtract from, {here.n_rows:,} in the other. It took other rows after one of them "
            "was copied or saved, or its id was given twice. Subtract the same version; for the "
            "rows alone use MomentSummary.forget.",
            shard_ids=shards,
        )


def _check_forgotten(whole: Totals, part: Totals) -> None:
    """Refuse to subtract a shard whose rows may be among the rows forgotten in one sum."""
    span = whole.maximum - whole.minimum
    left, right = whole.forgotten, part.forgotten
    nothing = Mark(0, 0.0, np.zeros(whole.layout.n_features))
    pairs = {x: (left.get(x, nothing), right.get(x, nothing)) for x in part.shards}
    shards = _sorted(frozenset(x for x, pair in pairs.items() if not _alike(*pair, span)))
    if shards:
        there, here = pairs[bytes.fromhex(shards[0])]
        raise ShardError(
            f"{_listed(shards)} in summaries from which different rows were forgotten: "
            f"{there.n_rows:,} rows in the one to subtract from, {here.n_rows:,} in the other. If "
            "they are rows of this shard, they would be taken away twice, or be left. Forget the "
            "same rows in both; or subtract first, and forget them in what is left; or add up the "
            "other shards again.",
            shard_ids=shards,
        )


def _alike(a: Mark, b: Mark, span: NDArray[np.float64]) -> bool:
    weights = abs(a.weight - b.weight) <= _ROUNDING * a.weight
    allowed = _ROUNDING * span + 2.0**-50 * np.abs(a.mean)
    return a.n_rows == b.n_rows and weights and bool((np.abs(a.mean - b.mean) <= allowed).all())


def _sorted(shards: frozenset[bytes]) -> tuple[str, ...]:
    return tuple(sorted(shard.hex() for shard in shards))


def _listed(shards: tuple[str, ...]) -> str:
    """The first few shard ids, as the subject of a sentence."""
    listed = ", ".join(shards[:5]) + (f" and {len(shards) - 5} more" if len(shards) > 5 else "")
    return f"shard {listed} is" if len(shards) == 1 else f"shards {listed} are"

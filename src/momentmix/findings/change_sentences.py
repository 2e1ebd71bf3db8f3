"""Sentences of `compare`, about two summaries, and of `track`, about groups of rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1, isfinite
from typing import TYPE_CHECKING

from momentmix.findings.fit_sentences import Entry, Variants
from momentmix.wording import numbers_apart, percent, short_number

if TYPE_CHECKING:
    from momentmix.findings.finding import Finding

_ROUNDING = 1e-9  # deviations: numbers that differ less are shown as equal
_BACK = {"log": exp, "log1p": expm1}  # the value that a mean of logarithms stands for


def two_numbers(first: float, second: float, effect: float) -> list[str]:
    """Both numbers, with as many digits as it takes to see them apart."""
    if abs(effect) < _ROUNDING or first == second or not isfinite(first + second):
        return [short_number(first), short_number(second)]
    return numbers_apart(first, second)


# -- changes between two summaries ----------------------------------------------------------------


def _moved(f: Finding, texts: Sequence[str] = ()) -> str:
    first, second = f.numbers["first"], f.numbers["second"]
    texts = texts or two_numbers(first, second, f.numbers["effect"])
    return f"{'rose' if second > first else 'fell'} from {texts[0]} to {texts[1]}"


def _in_percent(f: Finding) -> str:
    shares = [f.numbers["first"], f.numbers["second"]]
    texts = [percent(x) for x in shares]
    if texts[0] == texts[1]:
        texts = [f"{x} %" for x in numbers_apart(*(100 * x for x in shares))]
    return _moved(f, [texts[0].removesuffix(" %"), texts[1]])


def _mean(f: Finding) -> str:
    size, transform = abs(f.numbers["effect"]), f.numbers.get("transform")
    if not isfinite(size):
        return f"{{column}}: the mean {_moved(f)}"
    number = f"{size:,.0f}" if size >= 10 else f"{size:.2f}" if size >= 0.095 else f"{size:.1g}"
    by = f"by {number} standard deviations"
    if transform is None:
        return f"{{column}}: the mean {_moved(f)} ({by})"
    try:
        ends = numbers_apart(*(_BACK[transform](f.numbers[x]) for x in ("first", "second")))
    except OverflowError:
        return f"{{column}}: the mean of its logarithm {_moved(f)}"
    return f"{{column}}: the typical value {_moved(f, ends)} (the mean of its logarithm {by})"


def _value(f: Finding) -> str:
    return "{transform} {column}: " if f.numbers.get("transform") else "{column}: "


def _spread(f: Finding) -> str:
    effect = f.numbers["effect"]
    if not isfinite(effect):  # one of them is constant
        return _value(f) + (
            "all values are the same now, which they were not before"
            if effect < 0
            else "values differ now; they were all the same before"
        )
    ratio = short_number(exp(min(effect, 700.0)))
    return f"{_value(f)}the standard deviation {_moved(f)} (×{ratio})"


# -- groups of rows -------------------------------------------------------------------------------


def _component_share(f: Finding) -> str:
    return f"the share of {{component}} {f.components[0]} ({{name}}) "


def _trend(f: Finding) -> str:
    return f"{'{series}: ' * bool(f.numbers['series'])}{_component_share(f)}{_in_percent(f)}"


def _difference(f: Finding) -> str:
    low, high = (percent(f.numbers[name]) for name in ("first", "second"))
    return f"{_component_share(f)}differs: from {low} ({{low}}) to {high} ({{high}})"


# The sentence of each kind.
_SENTENCES: dict[str, str | Variants] = {
    "mean-changed": _mean,
    "spread-changed": _spread,
    "share-changed": lambda f: "the share of {column} = {level} " + _in_percent(f),
    "missing-changed": lambda f: "the share of missing cells of {column} " + _in_percent(f),
    "more-changes": "{more:,} more {more:change|changes} named, of smaller effect",
    "shared-rows": "{shards:,} {shards:shard of rows is|shards of rows are} in both summaries, so "
    "that differences look smaller than they are; to compare a part with the rest, subtract the "
    "part from the whole first.",
    "same-moments": "both summaries have the same moments, as if they were of the same rows.",
    "rows-too-few-to-test": "nothing is tested: each summary needs at least {least} rows.",
    "share-trend": _trend,
    "share-difference": _difference,
    "most-groups-misfit": "the components do not fit {n_groups:,} of {tested:,} groups that were "
    "tested: look first at the certificate of the model, whether it fits its own rows",
    "group-misfit": "in {group} the components do not fit",
    "more-groups-misfit": "in {more:,} more groups the components do not fit",
}
CHANGES = {kind: Entry(said) for kind, said in _SENTENCES.items()}

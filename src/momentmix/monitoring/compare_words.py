"""Changes between two summaries in sentences, the most important first.

Importance is the size of a change in standard deviations: means and shares in those of a cell,
spreads by the logarithm of their ratio, correlations as they are. Changes of shape come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, expm1, isfinite, sqrt

from momentmix.errors import printable
from momentmix.monitoring.compared.changes import Change
from momentmix.wording import numbers_apart, percent, plural, short_number

SHAPES = ("skewness", "kurtosis")
_MOST_SAID = 6
_ROUNDING = 1e-9  # deviations: numbers that differ less are shown as equal
_BACK = {"log": exp, "log1p": expm1}  # the value that a mean of logarithms stands for


def sentences_of(changes: Sequence[Change]) -> list[str]:
    """A sentence for each change, the most important first; names are escaped."""
    ordered = sorted(changes, key=lambda c: (c.what in SHAPES, -importance(c)))
    return [printable(_sentence(change)) for change in ordered]


def first_sentences(sentences: Sequence[str]) -> list[str]:
    """The few most important sentences, and how many there are more."""
    more = len(sentences) - _MOST_SAID
    rest = [f"{more:,} more change{plural(more)} named, of smaller effect"] if more > 0 else []
    return [*sentences[:_MOST_SAID], *rest]


def importance(change: Change) -> float:
    """Size of a change in standard deviations of a cell; that of a share is √(p(1 − p))."""
    return change.size / unit_of(change)


def unit_of(change: Change) -> float:
    """What an effect is divided by to be in standard deviations."""
    if change.what not in ("share", "missing"):
        return 1.0
    share = (change.first + change.second) / 2
    return max(sqrt(max(share * (1 - share), 0.0)), 1e-12)


def value_name(change: Change) -> str:
    """What a change is of: a column or its logarithm, a level of it, or its missing cells."""
    if change.what == "share":
        return f"{change.column}={change.level}"
    if change.what == "missing":
        return f"{change.column} missing"
    return f"{change.transform} {change.column}" if change.transform else change.column


def two_numbers(change: Change) -> list[str]:
    """Both numbers, with as many digits as it takes to see them apart."""
    is_same = change.size < _ROUNDING or change.first == change.second
    if is_same or not isfinite(change.first + change.second):
        return [short_number(change.first), short_number(change.second)]
    return numbers_apart(change.first, change.second)


def _sentence(change: Change) -> str:
    written = {
        "mean": _mean, "spread": _spread, "share": _share, "missing": _share,
        "correlation": _correlation,
    }  # fmt: skip
    return written.get(change.what, _shape)(change)


def _mean(change: Change) -> str:
    if change.transform is not None and isfinite(change.effect):
        return _typical(change)
    size = f" (by {_deviations(change)})" if isfinite(change.effect) else ""
    return f"{change.column}: the mean {_moved(change, two_numbers(change))}{size}"


def _typical(change: Change) -> str:
    """A mean of logarithms as the value that it is the logarithm of."""
    back = _BACK[str(change.transform)]
    try:
        ends = numbers_apart(back(change.first), back(change.second))
    except OverflowError:
        ends = []
    said = f"the mean of its logarithm {_moved(change, two_numbers(change))}"
    if not ends:
        return f"{change.column}: {said}"
    return (
        f"{change.column}: the typical value {_moved(change, ends)} "
        f"(the mean of its logarithm by {_deviations(change)})"
    )


def _spread(change: Change) -> str:
    name = value_name(change)
    if not isfinite(change.effect):  # one of them is constant
        return f"{name}: " + (
            "all values are the same now, which they were not before"
            if change.effect < 0
            else "values differ now; they were all the same before"
        )
    ratio = short_number(exp(min(change.effect, 700.0)))
    moved = _moved(change, two_numbers(change))
    return f"{name}: the standard deviation {moved} (×{ratio})"


def _share(change: Change) -> str:
    what = f"{change.column} = {change.level}"
    if change.what == "missing":
        what = f"missing cells of {change.column}"
    texts = [percent(change.first), percent(change.second)]
    if texts[0] == texts[1]:
        texts = [f"{x} %" for x in numbers_apart(100 * change.first, 100 * change.second)]
    return f"the share of {what} {_moved(change, [texts[0].removesuffix(' %'), texts[1]])}"


def _correlation(change: Change) -> str:
    pair = f"the correlation of {change.column} and {change.other}"
    return f"{pair} {_moved(change, _apart(change))}"


def _shape(change: Change) -> str:
    name, moved = value_name(change), _moved(change, _apart(change))
    if change.what == "kurtosis":
        word = "heavier" if change.second > change.first else "lighter"
        return f"{name}: the tails became {word} (the kurtosis {moved})"
    return f"{name}: the {change.what} {moved}"


def _apart(change: Change) -> list[str]:
    """Both numbers with two digits after the point, or more where these are equal."""
    texts = [f"{change.first:.2f}", f"{change.second:.2f}"]
    return two_numbers(change) if texts[0] == texts[1] else texts


def _moved(change: Change, texts: Sequence[str]) -> str:
    word = "rose" if change.second > change.first else "fell"
    return f"{word} from {texts[0]} to {texts[1]}"


def _deviations(change: Change) -> str:
    size = change.size
    number = f"{size:,.0f}" if size >= 10 else f"{size:.2f}" if size >= 0.095 else f"{size:.1g}"
    return f"{number} standard deviations"

"""`compare`: two summaries → what differs between them, without rows.

Means are tested as Welch does, with a correction for skewed columns of tables of unequal size;
shares of levels and of missing cells as two proportions. p-values are corrected by Holm's rule.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from math import asin, erfc, exp, expm1, inf, isfinite, nan, sqrt
from typing import Any

import numpy as np
from scipy.special import stdtr

from momentmix._typing import Float
from momentmix.errors import InputError, InputTypeError, printable
from momentmix.families.column import Column, Level
from momentmix.json_fields import plain
from momentmix.summary.column_facts import ColumnFacts, column_facts, schema_of
from momentmix.summary.summary import MomentSummary
from momentmix.tables.schema import Schema, joined
from momentmix.wording import (
    aligned,
    cut,
    cut_lines,
    listed,
    numbers_apart,
    p_text,
    percent,
    plural,
    short_number,
)

_NORMAL = 1.959963984540054  # of 95 % intervals
_FEWEST_ROWS = 8  # with fewer nothing is tested
_FEW_OF_A_KIND = 15  # expected in one summary; below, shares are tested exactly
_CONSTANT = 1e-12  # spread, or difference of constants, beside their size
# Part of Hall's correction for skewness. All of it is too much for heavy tails, none too little:
# with half, 3.4 to 6.2 % of means of one normal, lognormal, t3 or count distribution are called
# different at 5 %, in summaries of 50 to 10,000 rows.
_SKEWNESS_SHARE = 0.5
_MOST_LISTED, _MOST_PRINTED, _MOST_SAID = 5, 60, 6
_WIDEST = 28  # letters of a name
_LARGEST_LOGARITHM = 700
_BACK = {"log": exp, "log1p": expm1}  # the value that a mean of logarithms stands for


@dataclass(frozen=True)
class Change:
    """One number of the first summary against that of the second.

    Attributes
    ----------
    column : str
    what : {"mean", "share", "missing"}
        A mean, the share of a level, or the share of missing cells.
    level : str, int or bool, or None
        The level that a share is of.
    first, second : float
        The numbers, in the units of the data.
    effect : float
        Size of the change: of a mean in common standard deviations (Cohen's d), of a share the
        difference of 2 arcsin √p (Cohen's h), which are about as many of its deviations.
    low, high : float
        95 % interval of the effect; NaN if it is not known.
    p_value : float
        Of this change alone; NaN if it cannot be tested.
    corrected : float
        p-value corrected for the number of tests, by Holm.
    transform : str
        "log" or "log1p" where the numbers are of logarithms of the column.
    """

    column: str
    what: str
    level: Level | None
    first: float
    second: float
    effect: float
    low: float = nan
    high: float = nan
    p_value: float = nan
    corrected: float = nan
    transform: str = ""

    @property
    def value_name(self) -> str:
        """Name of the column or of its logarithm, of its level, or of its missing cells."""
        names = {"share": f"{self.column}={self.level}", "missing": f"{self.column} missing"}
        return names.get(self.what, f"{self.transform} {self.column}".strip())

    @property
    def sentence(self) -> str:
        """The change in words."""
        verb, ends = "rose" if self.second > self.first else "fell", (self.first, self.second)
        if self.what != "mean":
            low, high = numbers_apart(*(100 * x for x in ends))
            cells = f"{self.column} = {self.level}"
            if self.what == "missing":
                cells = f"missing cells of {self.column}"
            return f"the share of {cells} {verb} from {low} to {high} %"
        name, of = "mean", ""
        if self.transform and max(ends) < _LARGEST_LOGARITHM:
            ends = _BACK[self.transform](self.first), _BACK[self.transform](self.second)
            name, of = "typical value", "the mean of its logarithm "
        low, high = numbers_apart(*ends)
        size = short_number(abs(self.effect)) if isfinite(self.effect) else "many"
        size = f"{of}by {size} standard deviations"
        return f"{self.column}: the {name} {verb} from {low} to {high} ({size})"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Differences between two summaries: how large they are, and whether they can be chance.

    Attributes
    ----------
    n_rows : tuple of two int
    changes : tuple of Change
        In the order of the columns: the mean of numbers, else the shares of levels, and the share
        of missing cells where there are any.
    level : float
        Share of pairs of summaries of one distribution of which some change is named.
    least_effect : float
        Smaller changes are not named.
    notes : tuple of str
        What was not tested, and why.
    """

    n_rows: tuple[int, int]
    changes: tuple[Change, ...]
    level: float = 0.05
    least_effect: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def p_value(self) -> float:
        """Least corrected p-value of all changes; NaN if none was tested."""
        return min((c.corrected for c in self.changes if c.corrected == c.corrected), default=nan)

    @property
    def named(self) -> tuple[Change, ...]:
        """Changes that are beyond chance and at least so large, largest first."""
        kept = [
            c
            for c in self.changes
            if c.corrected <= self.level and abs(c.effect) >= self.least_effect
        ]
        return tuple(sorted(kept, key=lambda c: -abs(c.effect)))

    @property
    def differs(self) -> bool:
        """Whether the summaries differ by more than chance."""
        return bool(self.named)

    @property
    def sentences(self) -> list[str]:
        """The changes that are named, in words."""
        return [printable(change.sentence) for change in self.named]

    @property
    def verdict(self) -> str:
        """Whether the summaries differ, in a sentence."""
        rows, n = " and ".join(f"{n:,}" for n in self.n_rows) + " rows", len(self.named)
        p = f"level {self.level:g}, least p-value {p_text(self.p_value)}"
        if self.p_value != self.p_value:
            return f"Nothing can be tested between {rows}."
        if n:
            return f"{rows} differ: {n} change{plural(n)} named ({p})."
        least = f" of at least {self.least_effect:g}" if self.least_effect else ""
        return f"No difference{least} shows between {rows} ({p})."

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, for strict JSON; numbers that are not known are None."""
        head = {"differs": self.differs, "p_value": self.p_value, "sentences": self.sentences}
        found: dict[str, Any] = plain(head | asdict(self))
        return found

    def to_frame(self) -> Any:
        """All changes as a pandas frame, a row for each."""
        import pandas as pd

        return pd.DataFrame([asdict(change) for change in self.changes])

    def lines(self) -> list[str]:
        """The verdict, sentences, a table with the largest changes first, and notes."""
        said = [f"- {text}" for text in self.sentences]
        if len(said) > _MOST_SAID:
            said[_MOST_SAID:] = [f"- {len(said) - _MOST_SAID:,} more, of smaller effect"]
        rows = sorted(self.changes, key=lambda c: (c.effect != c.effect, -abs(c.effect)))
        head = ("column", "first", "second", "effect (95 % interval)", "p")
        table = aligned([head, *map(_cells, rows[:_MOST_PRINTED])])
        if (more := len(rows) - _MOST_PRINTED) > 0:
            table.append(f"and {more:,} more with smaller effects; to_frame() has all")
        return [self.verdict, *said, "", *table, *(f"note: {note}" for note in self.notes)]

    def __repr__(self) -> str:
        a, b = self.n_rows
        head = f"Comparison({a:,} and {b:,} rows, {len(self.named)} changes named)"
        return cut_lines("\n".join([head, *self.sentences]))

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _cells(c: Change) -> tuple[str, ...]:
    """Cells of the table of changes."""
    text = short_number if c.what == "mean" else percent
    effect = "–" if c.effect != c.effect else f"{c.effect:+.3f}"
    if isfinite(c.low):
        effect += f" ({c.low:+.3f} … {c.high:+.3f})"
    name = cut(printable(c.value_name), _WIDEST)
    return name, text(c.first), text(c.second), effect, p_text(c.corrected)


def compare(
    a: MomentSummary | str | os.PathLike[str],
    b: MomentSummary | str | os.PathLike[str],
    *,
    level: float = 0.05,
    least_effect: float = 0.0,
) -> Comparison:
    """Compare two summaries: whether their means and shares differ, and by how much.

    Parameters
    ----------
    a, b : MomentSummary, or path of one
        Columns are matched by name. Both must have the same families and levels. Changes are from
        `a` to `b`.
    level : float, default=0.05
        Share of pairs of summaries of one distribution for which a difference is found.
    least_effect : float, default=0
        Smaller changes are neglected, in standard deviations.

    Returns
    -------
    Comparison
        Effects with intervals and corrected p-values of each column; `Comparison.differs`.

    Notes
    -----
    Rows count as independent. Means are tested by Welch's test, shares by the test of two
    proportions; p-values are corrected by Holm's rule. Spreads and correlations are not tested.

    Examples
    --------
    >>> import numpy as np
    >>> from momentmix import summarize
    >>> rng = np.random.default_rng(0)
    >>> old, new = rng.normal(size=(5000, 4)), rng.normal(size=(4000, 4))
    >>> new[:, 2] += 0.2
    >>> found = compare(summarize(old), summarize(new))
    >>> found.differs, [(c.what, c.column) for c in found.named]
    (True, [('mean', '2')])
    """
    if not (0 < level < 1 and least_effect >= 0):
        raise InputError(
            "level must be between 0 and 1 and least_effect at least 0; got "
            f"{level}, {least_effect}."
        )
    a, b = _loaded(a, "a"), _loaded(b, "b")
    b, schema = _matched(a, b)
    rows = a.effective_rows, b.effective_rows
    with np.errstate(all="ignore"):  # constants and cells never observed give NaN: not tested
        facts = zip(column_facts(a), column_facts(b), strict=True)
        thirds = zip(*(_third_moments(side, schema_of(side)) for side in (a, b)), strict=True)
        every = zip(schema.columns, facts, thirds, strict=True)
        changes = [c for column, pair, third in every
                   for c in _column_changes(column, rows, pair, third)]  # fmt: skip
    notes = []
    if shared := len({*a.shard_ids} & {*b.shard_ids}):
        notes.append(
            f"{shared:,} shard{plural(shared)} of rows are in both summaries, so that differences "
            "look smaller than they are; to compare a part with the rest, subtract the part first."
        )
    if min(rows) < _FEWEST_ROWS:
        notes.append(f"nothing is tested: each summary needs at least {_FEWEST_ROWS} rows.")
        changes = [replace(c, low=nan, high=nan, p_value=nan) for c in changes]
    p_values = holm(np.array([c.p_value for c in changes])).tolist()
    changes = [replace(c, corrected=p) for c, p in zip(changes, p_values, strict=True)]
    return Comparison((a.n_rows, b.n_rows), tuple(changes), level, least_effect, tuple(notes))


def _loaded(given: Any, name: str) -> MomentSummary:
    if isinstance(given, str | os.PathLike):
        given = MomentSummary.load(given)
    if not isinstance(given, MomentSummary):
        raise InputTypeError(
            f"{name} must be a MomentSummary or the path of one; got {type(given).__name__}. "
            "summarize() makes one of rows, total() of a cube; track(model, cube) tests models."
        )
    if not given.n_rows:
        raise InputError(f"{name} is a summary without rows; there is nothing to compare.")
    return given


def _matched(a: MomentSummary, b: MomentSummary) -> tuple[MomentSummary, Schema]:
    """The second summary with the columns of the first in its order, and their common schema."""
    names, others = schema_of(a).column_names or (), schema_of(b).column_names or ()
    if names and others and names != others:
        lacking = [*({*names} - {*others}), *({*others} - {*names})]
        if lacking:
            raise InputError(
                "summaries must have the same columns; only one of them has "
                f"{listed(sorted(map(ascii, lacking)), _MOST_LISTED)}. Rename columns, or take the "
                "common ones: summarize them, columns= (--columns), or use select()."
            )
        b = b.select(names)
    return b, joined(schema_of(a), schema_of(b))


def _third_moments(summary: MomentSummary, schema: Schema) -> list[float]:
    """Third central moment of the observed cells of each column; 0 where it is not known."""
    mean, deviation, observed = summary.mean, summary.deviation, np.ones(summary.n_features)
    shift, scale = mean.copy(), np.where(deviation > 0, deviation, 1.0)
    for i, column in enumerate(schema.columns):
        if column.has_missing:  # where the feature is 0: moments are about 0
            features = list(schema.features_of(i))
            observed[features], shift[features] = mean[features[-1]], 0.0
    moments = summary.truncate(1, 0).moments(shift, scale)
    first, second, third = (
        x / observed for x in (moments.distinct[1], moments.squared[0][:, 0], moments.powers[0])
    )
    found = (third - 3 * first * second + 2 * first**3) * scale**3
    found[~np.isfinite(found)] = 0.0
    return [float(found[schema.features_of(i)[0]]) for i in range(schema.n_columns)]


def _column_changes(
    column: Column, rows: Sequence[float], facts: Sequence[ColumnFacts], third: Sequence[float]
) -> list[Change]:
    """All changes of one column."""
    observed = [1.0 if side.seen is None else side.seen for side in facts]
    n, name = [x * share for x, share in zip(rows, observed, strict=True)], facts[0].name
    first, second = facts
    changes = []
    if column.levels:
        nothing = (nan,) * len(column.levels)
        every = zip(column.levels, first.shares or nothing, second.shares or nothing, strict=True)
        for level, p, q in list(every)[len(column.levels) == 2 :]:
            changes.append(_share_change(Change(name, "share", level, p, q, nan), n))
    else:
        a, b = (nan if side.mean is None else side.mean for side in facts)
        change = Change(name, "mean", None, a, b, nan, transform=column.transform)
        deviations = [nan if side.deviation is None else side.deviation for side in facts]
        changes.append(_mean_change(change, n, deviations, third))
    if column.has_missing:
        change = Change(name, "missing", None, 1 - observed[0], 1 - observed[1], nan)
        changes.append(_share_change(change, rows))
    return changes


def _mean_change(
    change: Change, rows: Sequence[float], deviations: Sequence[float], third: Sequence[float]
) -> Change:
    """The test of two means, of so many rows, with these deviations and third moments."""
    (n, m), (va, vb), (ta, tb), a, b = (
        rows,
        np.square(deviations),
        third,
        change.first,
        change.second,
    )
    common = (n * va + m * vb) / (n + m) if n + m else nan
    size = max(abs(a), abs(b), 1e-300)
    if not min(n, m) >= 2 or not isfinite(common):
        return change
    if sqrt(common) <= _CONSTANT * size:  # constants
        is_same = abs(b - a) <= _CONSTANT * size
        return replace(change, effect=0.0 if is_same else inf * (b - a), p_value=float(is_same))
    parts = va / (n - 1), vb / (m - 1)
    noise = sum(parts)
    degrees = noise**2 / (parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (m - 1))
    t = (b - a) / sqrt(noise)
    # Hall's transformation removes the skewness g of t, which skewed columns have where the numbers
    # of rows differ. The common third moment is the less noisy one.
    common_third = (n * ta + m * tb) / (n + m)
    both = (n * va + m * vb) / (n + m - 2) * (1 / n + 1 / m)
    g = _SKEWNESS_SHARE * common_third * (1 / m**2 - 1 / n**2) / max(noise, both) ** 1.5
    t += g * t**2 / 3 + g**2 * t**3 / 27 + g / 6
    effect, half = (b - a) / sqrt(common), _NORMAL * sqrt(noise / common)
    p = min(1.0, 2 * float(stdtr(max(degrees, 1.0), -abs(t))))
    return replace(change, effect=effect, low=effect - half, high=effect + half, p_value=p)


def _share_change(change: Change, n_rows: Sequence[float]) -> Change:
    (n, m), p, q = n_rows, change.first, change.second
    if not min(n, m) >= 1 or not isfinite(p + q):
        return change
    effect, half = 2 * (asin(sqrt(q)) - asin(sqrt(p))), _NORMAL * sqrt(1 / n + 1 / m)
    total, common = n + m, (n * p + m * q) / (n + m)
    if min(common, 1 - common) * min(n, m) < _FEW_OF_A_KIND:
        p_value = _mid_p(n, m, p, q) if common < 0.5 else _mid_p(n, m, 1 - p, 1 - q)
    else:
        noise = common * (1 - common) * (1 / n + 1 / m) * total / (total - 1)
        p_value = erfc(abs(q - p) / sqrt(2 * noise)) if noise else 1.0
    return replace(change, effect=effect, low=effect - half, high=effect + half, p_value=p_value)


def _mid_p(n: float, m: float, p: float, q: float) -> float:
    """Fisher's exact test, of which half of the observed table's probability is left out.

    Without that its level is far below the stated one where few rows are of a kind.
    """
    from scipy.stats import hypergeom  # it takes long to import

    first, second, hits = round(n), round(m), round(n * p) + round(m * q)
    chances = hypergeom.pmf(np.arange(first + 1), first + second, hits, first)
    observed = chances[round(n * p)]
    same = np.abs(chances - observed) <= 1e-9 * observed
    return float(min(1.0, chances[(chances < observed) & ~same].sum() + chances[same].sum() / 2))


def holm(p_values: Float) -> Float:
    """p-values corrected for their number, so that at most one in 1/level families errs."""
    known = np.flatnonzero(np.isfinite(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    result = np.full(len(p_values), np.nan)
    steps = p_values[order] * np.arange(len(order), 0, -1)
    result[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(order) else steps
    return result

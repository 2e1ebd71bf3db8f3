"""`Tracking`: the shares of components in each group, and what is said of them; its texts.

Groups that the components do not fit are named above the table, the largest misfit first, since a
table of many groups is cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentmix._typing import Float
from momentmix.errors import printable
from momentmix.findings.finding import Finding, sentences
from momentmix.html.notebook import Markup, bar, box, bullets, paragraph, plain_table, tag
from momentmix.json_fields import plain
from momentmix.monitoring.shares.groups import key_text
from momentmix.monitoring.trends import findings_of, place_of
from momentmix.wording import aligned, cut, cut_lines, p_text, percent, plural

_MOST_PRINTED = 60  # groups in a table for people, half of them the first and half the last
_MOST_NAMED = 10  # groups that do not fit, above the table
_LETTERS = 24  # of the name of a component in the head of a table


@dataclass(frozen=True, repr=False)
class Tracking:
    """Shares of a model's components in groups.

    Attributes
    ----------
    key_names : tuple of str
    keys : list of tuples
        One for each group, in the order of the cube.
    n_rows : array of int of shape (n_groups,)
    weights, low, high : arrays of shape (n_groups, n_components)
        Shares, and the ends of their intervals; NaN for a group of no rows.
    p_value : array of shape (n_groups,)
        Of the test whether the components fit the group; NaN where nothing can be tested.
    fits : array of bool of shape (n_groups,)
        False where the test rejects: p-values by Holm's rule over all groups below 1 %.
    effect_size : array of shape (n_groups,)
        Root mean square misfit of a moment, in units of one row's standard deviation; does not
        grow with the number of rows.
    names : tuple of str
        Names of the components.
    level : float
        Of the intervals.
    errors : array of shape (n_groups, n_components)
        Standard errors of the shares of each group alone, without errors of the components, which
        all groups share.
    notes : dict
        What is to be said of single groups, by key.
    is_ordered : bool
        Whether the last key is a time or another order.
    """

    key_names: tuple[str, ...]
    keys: list[tuple[Any, ...]]
    n_rows: NDArray[np.int64]
    weights: Float
    low: Float
    high: Float
    p_value: Float
    fits: NDArray[np.bool_]
    effect_size: Float
    names: tuple[str, ...]
    level: float
    is_ordered: bool
    errors: Float = field(repr=False, default_factory=lambda: np.empty(0))
    notes: dict[tuple[Any, ...], str] = field(default_factory=dict)

    @property
    def n_components(self) -> int:
        """Number of components."""
        return len(self.names)

    def __len__(self) -> int:
        return len(self.keys)

    def findings(self) -> list[Finding]:
        """Trends or differences that are significant, and misfits."""
        return findings_of(self)

    def sentences(self) -> list[str]:
        """The findings in words; control characters of names are escaped."""
        return sentences(self.findings())

    def misfits(self) -> list[int]:
        """Numbers of the groups that the components do not fit, the largest misfit first."""
        sizes = np.nan_to_num(self.effect_size, nan=np.inf)
        bad: list[int] = np.flatnonzero(~self.fits).tolist()
        return sorted(bad, key=lambda g: -sizes[g])

    def series(self) -> dict[tuple[Any, ...], list[int]]:
        """Numbers of groups in order, by all keys but the last; one series without an order."""
        if not self.is_ordered:
            return {(): list(range(len(self)))}
        found = dict[tuple[Any, ...], list[int]]()
        for g in sorted(range(len(self)), key=lambda g: place_of(self.keys[g][-1])):
            found.setdefault(self.keys[g][:-1], []).append(g)
        return {key[:-1]: found[key[:-1]] for key in self.keys}

    def group_label(self, key: tuple[Any, ...]) -> str:
        """A group in a sentence: "week 31", "EU, 2024-05-06"."""
        return f"{self.key_names[0]} {key_text(key)}" if len(key) == 1 else key_text(key)

    # -- tables -------------------------------------------------------------------------------

    def to_rows(self) -> tuple[list[str], list[list[Any]]]:
        """Names of columns, and one row for each group; None where something is not known."""
        columns: dict[str, Any] = {
            name: [_plain_key(key[i]) for key in self.keys] for i, name in enumerate(self.key_names)
        }
        columns |= {name: plain(values) for name, values in self._columns().items()}
        return list(columns), [list(row) for row in zip(*columns.values(), strict=True)]

    def to_frame(self) -> Any:
        """One row for each group, as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            The keys; n_rows; weight_0, low_0, high_0, weight_1, … of each component; p_value,
            fits, effect_size, note.
        """
        import pandas as pd

        keys = {name: [key[i] for key in self.keys] for i, name in enumerate(self.key_names)}
        return pd.DataFrame(keys | self._columns())

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"n_rows": self.n_rows}
        for c in range(self.n_components):
            tables = {"weight": self.weights, "low": self.low, "high": self.high}
            columns |= {f"{name}_{c}": table[:, c] for name, table in tables.items()}
        columns |= {name: getattr(self, name) for name in ("p_value", "fits", "effect_size")}
        columns["note"] = [self.notes.get(key, "") for key in self.keys]
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Plain values for strict JSON; what is not finite is None."""
        arrays = ("n_rows", "weights", "low", "high", "p_value", "fits", "effect_size")
        groups = []
        for g, key in enumerate(self.keys):
            names = zip(self.key_names, map(_plain_key, key), strict=True)
            own = {"key": dict(names), **{name: getattr(self, name)[g] for name in arrays}}
            groups.append(own | {"note": self.notes.get(key)})
        found: dict[str, Any] = plain({
            "components": list(self.names), "level": self.level, "groups": groups,
            "sentences": self.sentences(),
        })  # fmt: skip
        return found

    # -- shown --------------------------------------------------------------------------------

    def __str__(self) -> str:
        return "\n".join(tracking_lines(self))

    def __repr__(self) -> str:
        n, r, bad = len(self), self.n_components, int((~self.fits).sum())
        head = f"Tracking: {n} group{plural(n)}, {r} component{plural(r)}; the components do not "
        return cut_lines("\n".join([f"{head}fit {bad} of them", *self.sentences()]))

    def _repr_html_(self) -> str:
        return tracking_html(self)


def _plain_key(value: Any) -> Any:
    """A key as JSON has it: dates as texts."""
    item = value.item() if hasattr(value, "item") else value
    return item if item is None or isinstance(item, str | int | float) else str(item)


def tracking_lines(tracking: Tracking, rest: str = "to_frame() has all") -> list[str]:
    """Groups that do not fit, a table of groups with the `rest` in words, and what changed."""
    heads = [*tracking.key_names, "rows", *_heads(tracking), "p-value", "fits"]
    groups, more = _shown_groups(tracking)
    rows = [heads, *(_cells(tracking, g) for g in groups)]
    lines = aligned([list(map(printable, row)) for row in rows])
    if more:
        lines.insert(1 + len(groups) // 2, f"… {more:,} more group{plural(more)}; {rest}")
    above = _misfit_line(tracking)
    said = (f"- {text}" for text in tracking.sentences())
    return [*above, *([""] if above else []), *lines, "", _footer(tracking), *said]


def tracking_html(tracking: Tracking) -> Markup:
    """Shares of groups as a fragment of HTML."""
    heads = [*tracking.key_names, "rows", *_heads(tracking), "fits"]
    groups, more = _shown_groups(tracking)
    rows = [_html_cells(tracking, g) for g in groups]
    if more:
        rows.insert(len(groups) // 2, [f"… {more:,} more", *[""] * (len(heads) - 1)])
    n, r = len(tracking), tracking.n_components
    title = f"Shares of {r} component{plural(r)} in {n} group{plural(n)}"
    rest = [f"{more:,} more group{plural(more)} in to_frame()"] if more else []
    above = map(paragraph, _misfit_line(tracking))
    footer = paragraph(_footer(tracking), *rest)
    return box(title, *above, bullets(tracking.sentences()), plain_table(heads, rows), footer)


def _shown_groups(tracking: Tracking) -> tuple[list[int], int]:
    """The first and last groups of a table for people, and how many are left out between them."""
    n, half = len(tracking), _MOST_PRINTED // 2
    if n <= _MOST_PRINTED:
        return list(range(n)), 0
    return [*range(half), *range(n - half, n)], n - _MOST_PRINTED


def _misfit_line(tracking: Tracking) -> list[str]:
    """Groups that the components do not fit; nothing where they fit all."""
    bad, n = tracking.misfits(), len(tracking)
    if not bad:
        return []
    names = "; ".join(tracking.group_label(tracking.keys[g]) for g in bad[:_MOST_NAMED])
    more = len(bad) - _MOST_NAMED
    order = ", largest misfit first" if len(bad) > 1 else ""
    text = f"the components do not fit {len(bad):,} of {n:,} group{plural(n)}{order}: {names}"
    return [printable(text + (f"; and {more:,} more" if more > 0 else ""))]


# -- cells ------------------------------------------------------------------------------------


def _heads(tracking: Tracking) -> list[str]:
    return [f"{c} {cut(name, _LETTERS)}" for c, name in enumerate(tracking.names)]


def _footer(tracking: Tracking) -> str:
    return f"shares with {percent(tracking.level)} intervals"


def _cells(tracking: Tracking, g: int) -> list[str]:
    key = ["missing" if value is None else str(value) for value in tracking.keys[g]]
    shares = [
        "-" if np.isnan(share) else f"{percent(share)} ({_ends(tracking, g, c)})"
        for c, share in enumerate(tracking.weights[g])
    ]
    p, verdict = tracking.p_value[g], "yes" if tracking.fits[g] else "NO"
    if np.isnan(p):
        verdict = "untested" if tracking.n_rows[g] else "no rows"
    return [*key, f"{tracking.n_rows[g]:,}", *shares, "-" if np.isnan(p) else p_text(p), verdict]


def _html_cells(tracking: Tracking, g: int) -> list[object]:
    cells = _cells(tracking, g)
    shares = [
        Markup(f'<span title="{_ends(tracking, g, c)}">{bar(share, c)}</span>')
        if share == share
        else Markup("–")
        for c, share in enumerate(tracking.weights[g].tolist())
    ]
    tone = {"yes": "good", "NO": "bad"}.get(cells[-1], "plain")
    first = map(printable, cells[: len(tracking.key_names) + 1])
    return [*first, *shares, tag(cells[-1], tone)]


def _ends(tracking: Tracking, g: int, c: int) -> str:
    """The ends of an interval in percent, without the sign."""
    ends = (100 * tracking.low[g, c], 100 * tracking.high[g, c])
    return "–".join(f"{x:.0f}" if x >= 9.95 or x == 0 else f"{x:.1f}" for x in ends)

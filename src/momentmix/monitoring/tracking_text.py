"""Shares of groups as a text for terminals and as a table for notebooks.

Groups that the components do not fit are named above the table, the largest misfit first, since a
table of many groups is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from momentmix.errors import printable
from momentmix.html.notebook import Markup, bar, box, bullets, paragraph, plain_table, tag
from momentmix.monitoring.shares.group_moments import key_text
from momentmix.wording import cut, percent, plural

if TYPE_CHECKING:
    from momentmix.monitoring.tracking import Tracking

_MOST_PRINTED = 60  # groups in a table for people, half of them the first and half the last
_MOST_NAMED = 10  # groups that do not fit, above the table
_LETTERS = 24  # of the name of a component in the head of a table


def tracking_lines(tracking: Tracking, rest: str = "to_frame() has all") -> list[str]:
    """Groups that do not fit, a table of the groups, and what changed.

    Parameters
    ----------
    tracking : Tracking
    rest : str
        Where groups are that are left out.
    """
    heads = [*tracking.key_names, "rows", *_heads(tracking), "p-value", "fits"]
    groups, more = shown_groups(tracking)
    cells = [_cells(tracking, g) for g in groups]
    lines = _aligned([[printable(text) for text in row] for row in [heads, *cells]])
    if more:
        lines.insert(1 + len(groups) // 2, f"… {more:,} more group{plural(more)}; {rest}")
    above = [printable(text) for text in misfit_line(tracking)]
    said = (f"- {text}" for text in tracking.sentences())
    return [*above, *([""] if above else []), *lines, "", _footer(tracking), *said]


def shown_groups(tracking: Tracking) -> tuple[list[int], int]:
    """The first and last groups of a table for people, and how many are left out between them."""
    n = len(tracking)
    if n <= _MOST_PRINTED:
        return list(range(n)), 0
    half = _MOST_PRINTED // 2
    return [*range(half), *range(n - half, n)], n - _MOST_PRINTED


def misfits(tracking: Tracking) -> list[int]:
    """Numbers of the groups that the components do not fit, the largest misfit first."""
    sizes = np.nan_to_num(tracking.effect_size, nan=np.inf)
    bad: list[int] = np.flatnonzero(~tracking.fits).tolist()
    return sorted(bad, key=lambda g: -sizes[g])


def misfit_line(tracking: Tracking) -> list[str]:
    """Which groups the components do not fit; nothing where they fit all."""
    bad = misfits(tracking)
    if not bad:
        return []
    names = "; ".join(group_label(tracking, tracking.keys[g]) for g in bad[:_MOST_NAMED])
    more = len(bad) - _MOST_NAMED
    n = len(tracking)
    order = ", largest misfit first" if len(bad) > 1 else ""
    text = f"the components do not fit {len(bad):,} of {n:,} group{plural(n)}{order}: {names}"
    return [text + (f"; and {more:,} more" if more > 0 else "")]


def group_label(tracking: Tracking, key: tuple[Any, ...]) -> str:
    """A group in a sentence: "week 31", "EU, 2024-05-06"."""
    if len(key) == 1:
        text, name = key_text(key), tracking.key_names[0]
        return f"{name} {text}"
    return key_text(key)


# -- cells ------------------------------------------------------------------------------------


def _heads(tracking: Tracking) -> list[str]:
    return [f"{c} {cut(name, _LETTERS)}" for c, name in enumerate(tracking.names)]


def _footer(tracking: Tracking) -> str:
    text = f"shares with {percent(tracking.level)} intervals"
    if tracking.prior is not None:
        rows = tracking.prior.n_rows
        worth = f"{rows:,.0f} rows" if np.isfinite(rows) else "all rows: groups do not differ"
        text += f", shrunken to the groups' mean (worth {worth})"
    return text


def _cells(tracking: Tracking, g: int) -> list[str]:
    key = ["missing" if value is None else str(value) for value in tracking.keys[g]]
    shares = [_share(tracking, g, c) for c in range(tracking.n_components)]
    p = _p_text(tracking.p_value[g])
    return [*key, f"{tracking.n_rows[g]:,}", *shares, p, _verdict(tracking, g)]


def _share(tracking: Tracking, g: int, c: int) -> str:
    if np.isnan(tracking.weights[g, c]):
        return "-"
    return f"{percent(tracking.weights[g, c])} ({_ends(tracking, g, c)})"


def _ends(tracking: Tracking, g: int, c: int) -> str:
    return f"{_short(tracking.low[g, c])}–{_short(tracking.high[g, c])}"


def _verdict(tracking: Tracking, g: int) -> str:
    if not tracking.n_rows[g]:
        return "no rows"
    if np.isnan(tracking.p_value[g]):
        return "untested"
    return "yes" if tracking.fits[g] else "NO"


def _short(share: float) -> str:
    """An end of an interval in percent, without the sign."""
    return f"{100 * share:.0f}" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}"


def _p_text(p: float) -> str:
    if np.isnan(p):
        return "-"
    return f"{p:.2g}" if p >= 1e-4 else "< 0.0001"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


# -- notebooks --------------------------------------------------------------------------------


def tracking_html(tracking: Tracking) -> Markup:
    """Shares of groups as a fragment of HTML."""
    heads = [*tracking.key_names, "rows", *_heads(tracking), "fits"]
    groups, more = shown_groups(tracking)
    rows = list[list[object]]()
    for place, g in enumerate(groups):
        if more and place == len(groups) // 2:
            rows.append([f"… {more:,} more", *[""] * (len(heads) - 1)])
        rows.append(_html_cells(tracking, g))
    n, r = len(tracking), tracking.n_components
    title = f"Shares of {r} component{plural(r)} in {n} group{plural(n)}"
    rest = [f"{more:,} more group{plural(more)} in to_frame()"] if more else []
    above = [paragraph(printable(text)) for text in misfit_line(tracking)]
    said = bullets(tracking.sentences())
    footer = paragraph(_footer(tracking), *rest)
    return box(title, *above, said, plain_table(heads, rows), footer)


def _html_cells(tracking: Tracking, g: int) -> list[object]:
    cells = _cells(tracking, g)
    shares: list[object] = [_share_cell(tracking, g, c) for c in range(tracking.n_components)]
    tone = {"yes": "good", "NO": "bad"}.get(cells[-1], "plain")
    first = [printable(text) for text in cells[: len(tracking.key_names) + 1]]
    return [*first, *shares, tag(cells[-1], tone)]


def _share_cell(tracking: Tracking, g: int, c: int) -> Markup:
    share = float(tracking.weights[g, c])
    if np.isnan(share):
        return Markup("–")
    return Markup(f'<span title="{_ends(tracking, g, c)}">{bar(share, c)}</span>')

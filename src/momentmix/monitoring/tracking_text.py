"""Shares of groups as a text for terminals and as a table for notebooks.

Groups that the components do not fit are named above the table, the largest misfit first, since a
table of many groups is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from momentmix.errors import printable
from momentmix.html.notebook import Markup, bar, box, bullets, paragraph, plain_table, tag
from momentmix.wording import aligned, cut, p_text, percent, plural

if TYPE_CHECKING:
    from momentmix.monitoring.tracking import Tracking

_MOST_PRINTED = 60  # groups in a table for people, half of them the first and half the last
_MOST_NAMED = 10  # groups that do not fit, above the table
_LETTERS = 24  # of the name of a component in the head of a table


def tracking_lines(tracking: Tracking, rest: str = "to_frame() has all") -> list[str]:
    """Groups that do not fit, a table of the groups, and what changed.

    `rest` tells where groups are that are left out.
    """
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
    """Which groups the components do not fit; nothing where they fit all."""
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
    text = f"shares with {percent(tracking.level)} intervals"
    if tracking.prior is not None:
        rows = tracking.prior.n_rows
        worth = f"{rows:,.0f} rows" if np.isfinite(rows) else "all rows: groups do not differ"
        text += f", shrunken to the groups' mean (worth {worth})"
    return text


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
        Markup(
            "–"
            if np.isnan(share)
            else f'<span title="{_ends(tracking, g, c)}">{bar(share, c)}</span>'
        )
        for c, share in enumerate(tracking.weights[g].tolist())
    ]
    tone = {"yes": "good", "NO": "bad"}.get(cells[-1], "plain")
    first = map(printable, cells[: len(tracking.key_names) + 1])
    return [*first, *shares, tag(cells[-1], tone)]


def _ends(tracking: Tracking, g: int, c: int) -> str:
    """The ends of an interval in percent, without the sign."""
    ends = (100 * tracking.low[g, c], 100 * tracking.high[g, c])
    return "–".join(f"{x:.0f}" if x >= 9.95 or x == 0 else f"{x:.1f}" for x in ends)

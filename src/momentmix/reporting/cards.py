"""One card for each component: share, what is high and low, what is typical."""

from __future__ import annotations

from momentmix.html.markup import chip, definition_table, escaped, folded
from momentmix.html.palette import COLORS
from momentmix.mixture.profile import ComponentProfile, Trait, typical_values
from momentmix.reporting.contents import Contents
from momentmix.wording import percent, short_number

_MOST_TRAITS = 6  # shown at once; the others are folded
_SIGNS = {
    "high": ("▲", "higher than in the other rows"),
    "low": ("▼", "lower"),
    "medium": ("◆", "between groups that are lower and higher"),
    "level": ("●", "a value that is more or less frequent"),
    "missing": ("○", "cells are missing more or less often"),
    "spread": ("↔", "values vary more or less"),
}
_ROUNDS = 0.005  # shares are shown in whole percents, most of them


def cards(c: Contents) -> list[str]:
    """The cards, by share as the numbers are, and what they mean."""
    shown = "\n".join(_card(c, component) for component in c.profile)
    text = (
        "Groups are the components of the model; a row belongs to the most probable one. Their "
        "numbers are those that predictions have."
    )
    if len(c.profile) > 1:
        text = f"Each group is compared with all other rows. {text}"
    if any(_differs(c, component) for component in c.profile):
        text += (
            " Shares are the estimate of the model; rows are counted in their most probable group. "
            "Where groups overlap, the two differ."
        )
    if any(column.transform for column in c.mixture.columns):
        text += (
            " The typical value of a column with a logarithm is the median, not the mean: half of "
            "the rows of the group lie below it."
        )
    # Two or four cards stand in two columns, others in as many as there is room for.
    kind = "cards pairs" if len(c.profile) in (2, 4) else "cards"
    parts = [f'<div class="{kind}">\n{shown}\n</div>', _key(c)]
    return [*parts, f'<p class="soft">{escaped(text)}</p>']


def _key(c: Contents) -> str:
    """What the signs of the cards mean, those that occur."""
    used = {trait.what for component in c.profile for trait in component.traits}
    entries = [f"{x}&nbsp;{words}" for what, (x, words) in _SIGNS.items() if what in used]
    if len(c.profile) == 1 or not entries:
        return ""
    return f'<p class="soft">{"; ".join(entries)}.</p>'


def _card(c: Contents, component: ComponentProfile) -> str:
    i = component.component
    shown, more = component.traits[:_MOST_TRAITS], component.traits[_MOST_TRAITS:]
    alike = "" if len(c.profile) == 1 else "<p>Much like the others.</p>"
    traits = _traits(shown) if shown else alike
    others = folded(f"{len(more)} more", _traits(more)) if more else ""
    what = "Means, medians" if any(x.transform for x in c.mixture.columns) else "Means"
    caption = f"{what} and most probable values of group {i}"
    values = definition_table(f"typical-{i}", caption, typical_values(c.mixture, i))
    typical = folded("Typical values of all columns", values)
    return (
        f'<article class="card e{i % len(COLORS)}" aria-labelledby="group-{i}">'
        f'<h3 id="group-{i}">{chip(i)} {escaped(component.name)}</h3>'
        f'<p class="share"><strong>{percent(component.share)}</strong> {_rows(c, component)}</p>'
        f"{_bar(component.share, i)}{traits}{others}{typical}</article>"
    )


def _rows(c: Contents, component: ComponentProfile) -> str:
    """How many rows a group has."""
    i = component.component
    if c.facts is not None and c.facts.counts is not None:
        count = f"{c.facts.counts[i]:,} of {c.n_rows:,}"
        if _differs(c, component):
            return f"of the rows; {count} are most probably in it"
        return f"of the rows: {count}"
    if c.n_rows is not None:
        about = short_number(float(round(c.mixture.weights[i] * c.n_rows)))
        return f"of the rows: about {about} of {c.n_rows:,}"
    return "of the rows"


def _differs(c: Contents, component: ComponentProfile) -> bool:
    """Whether the share of a group and the rows counted in it differ beyond rounding."""
    if c.facts is None or c.facts.counts is None or not c.n_rows:
        return False
    counted = float(c.facts.counts[component.component]) / c.n_rows
    return percent(counted) != percent(component.share) and abs(counted - component.share) > _ROUNDS


def _bar(share: float, component: int) -> str:
    """A bar as long as the share; attributes, since the page forbids styles in elements."""
    width = f"{100 * min(max(share, 0.0), 1.0):.1f}"
    return (
        '<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rest" width="100" height="4"/>'
        f'<rect class="f{component % len(COLORS)}" width="{width}" height="4"/></svg>'
    )


def _traits(traits: tuple[Trait, ...]) -> str:
    """A list of traits, with their numbers in small print."""
    lines = "".join(
        f'<li><span class="sign" aria-hidden="true">{_SIGNS[trait.what][0]}</span>'
        f"<span>{escaped(f'{trait.column} {trait.words}')} "
        f'<span class="numbers">({escaped(trait.numbers).replace(" %", "&nbsp;%")})</span>'
        "</span></li>"
        for trait in traits
    )
    return f'<ul class="traits">{lines}</ul>'

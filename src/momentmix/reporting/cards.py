"""One card for each component: share, what is high and low, what is typical."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from momentmix.html.markup import chip, definition_table, escaped, folded
from momentmix.html.palette import COLORS
from momentmix.mixture.mixture import Mixture
from momentmix.mixture.profiles.profile import ComponentProfile
from momentmix.mixture.profiles.traits import Trait
from momentmix.reporting.contents import Contents
from momentmix.schema.column import BERNOULLI, CATEGORICAL
from momentmix.schema.transforms import restored
from momentmix.wording import percent, short_number

_MOST_TRAITS = 6  # shown at once; the others are folded
_SIGNS = {"low": "▼", "high": "▲", "medium": "◆", "level": "●", "missing": "○", "spread": "↔"}
NEVER_SEEN = "never seen"


def cards(c: Contents) -> list[str]:
    """The cards, by share as the numbers are, and what they mean."""
    shown = "\n".join(_card(c, component) for component in c.profile)
    text = (
        "Groups are the components of the model; a row belongs to the most probable one. Their "
        "numbers are those that predictions have."
    )
    if len(c.profile) > 1:
        text = f"Each group is compared with all other rows. {text}"
    return [f'<div class="cards">\n{shown}\n</div>', f'<p class="soft">{escaped(text)}</p>']


def _card(c: Contents, component: ComponentProfile) -> str:
    i = component.component
    shown, more = component.traits[:_MOST_TRAITS], component.traits[_MOST_TRAITS:]
    if len(c.profile) == 1:
        traits = ""
    elif shown:
        traits = _traits(shown)
    else:
        traits = "<p>Much like the others.</p>"
    others = folded(f"{len(more)} more", _traits(more)) if more else ""
    typical = folded("Typical values of all columns", _typical(c.mixture, i))
    return (
        f'<article class="card e{i % len(COLORS)}" aria-labelledby="group-{i}">'
        f'<h3 id="group-{i}">{chip(i)} {escaped(component.name)}</h3>'
        f'<p class="share"><strong>{percent(component.share)}</strong> {_rows(c, i)}</p>'
        f"{_bar(component.share, i)}{traits}{others}{typical}</article>"
    )


def _rows(c: Contents, component: int) -> str:
    """How many rows a group has."""
    if c.facts is not None and c.facts.counts is not None:
        return f"of the rows: {c.facts.counts[component]:,} of {c.n_rows:,}"
    if c.n_rows is not None:
        about = short_number(float(round(c.mixture.weights[component] * c.n_rows)))
        return f"of the rows: about {about} of {c.n_rows:,}"
    return "of the rows"


def _bar(share: float, component: int) -> str:
    """A bar as long as the share; attributes, since the page forbids styles in elements."""
    width = f"{100 * min(max(share, 0.0), 1.0):.1f}"
    return (
        '<svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="rest" width="100" height="4"/>'
        f'<rect class="f{component % len(COLORS)}" width="{width}" height="4"/></svg>'
    )


def _traits(traits: tuple[Trait, ...]) -> str:
    lines = "".join(
        f'<li><span class="sign" aria-hidden="true">{_SIGNS.get(trait.what, "●")}</span> '
        f"{_emphasized(trait)}</li>"
        for trait in traits
    )
    return f'<ul class="traits">{lines}</ul>'


def _emphasized(trait: Trait) -> str:
    """The text of a trait; its numbers, in parentheses at the end, in small print."""
    text, opened, numbers = trait.text.rpartition(" (")
    if not opened:
        return escaped(trait.text)
    kept = escaped(numbers).replace(" %", "&nbsp;%")
    return f'{escaped(text)} <span class="numbers">({kept}</span>'


# -- typical values ---------------------------------------------------------------------------


def _typical(mixture: Mixture, component: int) -> str:
    caption = f"Means and most probable values of group {component}"
    return definition_table(f"typical-{component}", caption, typical_values(mixture, component))


def typical_values(mixture: Mixture, component: int) -> Iterator[tuple[str, str]]:
    """Each column with its mean, its most probable level, or the probability of a yes."""
    from momentmix.displays.style import full_names_of

    for j, (column, name) in enumerate(zip(mixture.columns, full_names_of(mixture), strict=True)):
        mean = float(mixture.means[component, j])
        if column.family == CATEGORICAL:
            shares = {k: float(p[component]) for k, p in mixture.level_probabilities(j).items()}
            level, share = max(shares.items(), key=lambda pair: pair[1])
            text = f"{level} ({percent(share)})" if share == share else NEVER_SEEN
        elif mean != mean:
            text = NEVER_SEEN
        elif column.family == BERNOULLI:
            yes = "" if column.levels in ((0, 1), (False, True)) else f"{column.levels[1]}: "
            text = yes + percent(mean)
        else:
            text = short_number(float(restored(np.array([mean]), column.transform)[0]))
        yield name, text

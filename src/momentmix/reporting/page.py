"""The HTML page of a report: its sections, cards of the groups, pictures of columns and pairs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Iterator
from importlib.resources import files

from momentmix.displays.separation import by_separation
from momentmix.html.markup import bars, chip, classes_of, definition_table, escaped, folded
from momentmix.html.palette import COLORS, ink_on
from momentmix.mixture.profile import ComponentProfile, typical_values
from momentmix.mixture.separation import separation_words
from momentmix.mixture.traits.trait import Trait
from momentmix.reporting.contents import Contents
from momentmix.reporting.data_facts import MOSTLY, SURE
from momentmix.reporting.pictures import MOST_POINTS, Picture
from momentmix.reporting.tables import expert_section, side_by_side
from momentmix.reporting.verdict import columns_to_see, first_screen, next_section
from momentmix.wording import no_group, percent, short_number

_COLUMNS_SHOWN = 12  # pictures of columns; the others are folded
_MOST_TRAITS = 3  # shown at once; the others are folded
_MOST_TYPICAL = 15  # columns of a typical row
_ROUNDS = 0.005  # shares are shown in whole percents, most of them


def page(c: Contents) -> str:
    """Return the HTML file as text."""
    style = files("momentmix.reporting").joinpath("style.css").read_text(encoding="utf-8")
    for i, color in enumerate(COLORS):  # of chips, of edges, and of bars
        style += f".c{i}{{--own:{color};--on:{ink_on(color)}}}\n"
    makers = {
        ("groups", "What are the groups?"): _cards,
        ("numbers", "The groups side by side"): side_by_side,
        ("next", "What to do next"): next_section,
        ("columns", "What do the columns look like?"): _columns,
        ("pairs", "Which pairs of columns separate the groups?"): _pairs,
        ("experts", "For experts"): expert_section,
    }
    made = [(*names, "\n".join(filter(None, make(c)))) for names, make in makers.items()]
    sections = [(name, heading, inner) for name, heading, inner in made if inner]
    body = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-heading">\n'
        f'<h2 id="{name}-heading">{heading}</h2>\n{inner}\n</section>'
        for name, heading, inner in sections
    )
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in sections)
    about = f"Report on {c.model_name}" if c.model_name else "Report on a fitted mixture"
    written = f"{c.day.day} {c.day:%B} {c.day.year}"
    # The browser may use only this style, and run and load nothing.
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; "
        "form-action 'none'"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(c.title)} – momentmix report</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">To the contents</a>
<header>
<p class="soft">{escaped(about)}, <time datetime="{c.day.isoformat()}">{written}</time></p>
<h1>{escaped(c.title)}</h1>
{first_screen(c)}
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main id="main">
{body}
</main>
</body>
</html>
"""


# -- cards ------------------------------------------------------------------------------------


def _cards(c: Contents) -> list[str]:
    """Return a card for each group, and their meaning."""
    shown = "\n".join(_card(c, component) for component in c.profile)
    text = ""
    if len(c.profile) > 1:
        text = (
            "Each group is compared with all other rows. Groups are the components of the model; a "
            "row belongs to the most probable one. Their numbers are those that predictions have."
        )
    if any(_differs(c, component) for component in c.profile):
        text += (
            " Shares are the estimate of the model; rows are counted in their most probable group. "
            "Where groups overlap, the two differ."
        )
    if c.facts is not None and c.facts.certainty is not None and len(c.profile) > 1:
        text += (
            f" A row is certain where the probability of its group is above {percent(SURE)}, "
            f"mostly from {percent(MOSTLY)} on, else unclear."
        )
    if c.mixture.background is not None:
        share = no_group(c.mixture.background_weight)
        text += f" Rows far from all groups have the number -1: {share}."
    if any(column.transform for column in c.mixture.columns):
        text += (
            " The typical value of a column with a logarithm is the median, not the mean: half of "
            "the rows of the group lie below it."
        )
    # Two or four cards stand in two columns, others in as many as there is room for.
    kind = "cards pairs" if len(c.profile) in (2, 4) else "cards"
    parts = [f'<div class="{kind}">\n{shown}\n</div>']
    answer = escaped(c.answer).replace(" %", "&nbsp;%")
    about = f'<p class="soft">{escaped(text.strip())}</p>' if text else ""
    return [f"<p>{answer}</p>", *parts, about]


def _card(c: Contents, component: ComponentProfile) -> str:
    i = component.component
    shown, more = component.traits[:_MOST_TRAITS], component.traits[_MOST_TRAITS:]
    alike = "" if len(c.profile) == 1 else "<p>Much like the others.</p>"
    traits = _traits(shown) if shown else alike
    others = folded(f"{len(more)} more", _traits(more)) if more else ""
    what = "Means, medians" if any(x.transform for x in c.mixture.columns) else "Means"
    caption = f"{what} and most probable values of group {i}"
    own = list(typical_values(c.mixture, i))
    if len(own) > _MOST_TYPICAL:
        caption += f", of the {_MOST_TYPICAL} columns that differ most"
        own = [own[j] for j in by_separation(c.mixture)[:_MOST_TYPICAL]]
    typical = folded(
        "Typical row", *_real_rows(c, i), definition_table(f"typical-{i}", caption, own)
    )
    share = bars((classes_of(i), component.share))
    facts = "".join(f"<li>{text}</li>" for text in _facts(component))
    interval = f" ({escaped(component.interval)})" if component.interval else ""
    size = f"<strong>{percent(component.share)}</strong>{interval}"
    return (
        f'<article class="card {classes_of(i)}" aria-labelledby="group-{i}">'
        f'<h3 id="group-{i}">{chip(i)} {escaped(component.name)}</h3>'
        f'<p class="share">{size} {_rows(c, component)}</p>'
        f'{share}{traits}{others}<ul class="facts">{facts}</ul>{_certainty(c, i)}{typical}'
        "</article>"
    )


def _facts(component: ComponentProfile) -> Iterator[str]:
    """Yield how well a group is known, in phrases of HTML."""
    if component.found_again:
        yield escaped(component.found_again)
    if component.nearest is not None:
        nearest = f"{chip(component.nearest)} {escaped(component.nearest_name)}"
        yield f"nearest to {nearest}: {escaped(separation_words(component.apart))}"


def _certainty(c: Contents, i: int) -> str:
    """Return how sure the rows of a group are of it: a phrase and a bar."""
    counts = None if c.facts is None else c.facts.certainty
    if counts is None or not counts[i].sum() or len(c.profile) == 1:
        return ""
    shares = (counts[i] / counts[i].sum()).tolist()
    words = zip(shares, ("certain", "mostly", "unclear"), strict=True)
    said = ", ".join(f"{percent(x)} {word}" for x, word in words if x > 0)
    kinds = (f"{classes_of(i)} {kind}".strip() for kind in ("", "mostly", "unclear"))
    return f"<p>of its rows: {said}</p>{bars(*zip(kinds, shares, strict=True))}"


def _real_rows(c: Contents, i: int) -> list[str]:
    """Return the places of the most typical rows, where rows were given."""
    if c.facts is None or not c.facts.typical or not c.facts.typical[i]:
        return []
    listed = ", ".join(f"{place:,}" for place in c.facts.typical[i])
    return [f'<p class="numbers">Rows that are most like it: {listed} (counted from 0).</p>']


def _rows(c: Contents, component: ComponentProfile) -> str:
    """Return the number of rows of a group, in words."""
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
    """Return whether the share of a group and its counted rows differ beyond rounding."""
    if c.facts is None or c.facts.counts is None or not c.n_rows:
        return False
    counted = float(c.facts.counts[component.component]) / c.n_rows
    return percent(counted) != percent(component.share) and abs(counted - component.share) > _ROUNDS


def _traits(traits: tuple[Trait, ...]) -> str:
    """Return a list of traits, with their numbers in small print."""
    lines = "".join(
        f"<li>{escaped(f'{trait.column} {trait.words}')} "
        f'<span class="numbers">({escaped(trait.numbers).replace(" %", "&nbsp;%")})</span>'
        "</li>"
        for trait in traits
    )
    return f'<ul class="traits">{lines}</ul>'


# -- pictures ---------------------------------------------------------------------------------


def _columns(c: Contents) -> list[str]:
    """Return small pictures of the columns, the best separation first."""
    has_rows = c.facts is not None and c.facts.shown is not None
    shown, others = c.pictures.columns[:_COLUMNS_SHOWN], c.pictures.columns[_COLUMNS_SHOWN:]
    text = "Curves and bars are the groups of the model in their colors"
    if has_rows:
        text += (
            "; gray is the data. Where the thin line, their sum, follows the gray, the model fits"
        )
    if c.mixture.n_components > 1 and len(c.pictures.columns) > 1:
        text += ". The columns that differ most between the groups come first"
    marked = columns_to_see(c)
    parts = [f'<p class="soft">{text}.</p>', _legend(c), _grid(shown, marked)]
    if others:
        parts.append(folded(f"{len(others)} more columns", _grid(others, marked)))
    n_more = c.mixture.n_columns - len(c.pictures.columns)
    if n_more:
        parts.append(f'<p class="soft">{n_more} more columns are in the tables only.</p>')
    if not has_rows:
        text = "Give the rows (--data) to see them in the pictures."
        parts.append(f'<p class="soft">{text}</p>')
    return parts


def _pairs(c: Contents) -> list[str]:
    if not c.pictures.pairs:
        return []
    text = "Ellipses hold about 39 % and 86 % of the rows of a group; the number marks its center."
    if c.facts is not None and c.facts.counts is not None:
        shown = min(MOST_POINTS, c.facts.n_shown)
        text += f" Points are {shown:,} of the rows, in the color of their group."
    return [f'<p class="soft">{text}</p>', _legend(c), _grid(c.pictures.pairs)]


def _legend(c: Contents) -> str:
    """Return the colors of the groups; nothing where there is one."""
    if len(c.profile) == 1:
        return ""
    entries = "".join(f"<li>{chip(p.component)} {escaped(p.name)}</li>" for p in c.profile)
    return f'<ul class="legend" aria-label="Colors of the groups">{entries}</ul>'


def _grid(pictures: list[Picture], marked: Collection[str] = ()) -> str:
    """Return pictures beside one another; titles in `marked` have a tag."""
    tag = ' <a class="tag warn" href="#next">worth a look</a>'
    figures = "\n".join(
        f'<figure id="picture-{p.name}"><figcaption>{escaped(p.title)}'
        + (f' <span class="numbers">{escaped(p.caption)}</span>' if p.caption else "")
        + f"{tag if p.title in marked else ''}</figcaption>"
        + f'<img src="{p.address}" alt="{escaped(p.alt)}"></figure>'
        for p in pictures
    )
    return f'<div class="grid">\n{figures}\n</div>'

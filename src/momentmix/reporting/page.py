"""The HTML page of a report: its sections, cards of the groups, pictures of columns and pairs."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files

from momentmix.html.markup import bar, chip, classes_of, escaped, folded
from momentmix.html.palette import COLORS, ink_on
from momentmix.mixture.profile import ComponentProfile
from momentmix.mixture.separation import separation_words
from momentmix.mixture.traits import Trait
from momentmix.reporting.contents import Contents
from momentmix.reporting.pictures import MOST_POINTS, Picture
from momentmix.reporting.tables import expert_section, side_by_side
from momentmix.reporting.verdict import first_screen, next_section
from momentmix.wording import no_group, percent

_COLUMNS_SHOWN = 12  # pictures of columns; the others are folded
_MOST_TRAITS = 3  # shown at once; the others are folded


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
    if c.mixture.background is not None:
        share = no_group(c.mixture.background_weight)
        text += f" Rows far from all groups have the number -1: {share}."
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
    share = bar(classes_of(i), component.share)
    facts = "".join(f"<li>{text}</li>" for text in _facts(component))
    interval = f" ({escaped(component.interval)})" if component.interval else ""
    size = f"<strong>{percent(component.share)}</strong>{interval}"
    return (
        f'<article class="card {classes_of(i)}" aria-labelledby="group-{i}">'
        f'<h3 id="group-{i}">{chip(i)} {escaped(component.name)}</h3>'
        f'<p class="share">{size} of the rows</p>'
        f'{share}{traits}{others}<ul class="facts">{facts}</ul></article>'
    )


def _facts(component: ComponentProfile) -> Iterator[str]:
    """Yield how well a group is known, in phrases of HTML."""
    if component.found_again:
        yield escaped(component.found_again)
    if component.nearest is not None:
        nearest = f"{chip(component.nearest)} {escaped(component.nearest_name)}"
        yield f"nearest to {nearest}: {escaped(separation_words(component.apart))}"


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
    has_rows = c.facts is not None and bool(c.facts.n_shown)
    shown, others = c.pictures.columns[:_COLUMNS_SHOWN], c.pictures.columns[_COLUMNS_SHOWN:]
    text = "Curves and bars are the groups of the model in their colors"
    if has_rows:
        text += (
            "; gray is the data. Where the thin line, their sum, follows the gray, the model fits"
        )
    if c.mixture.n_components > 1 and len(c.pictures.columns) > 1:
        text += ". The columns that differ most between the groups come first"
    parts = [f'<p class="soft">{text}.</p>', _legend(c), _grid(shown)]
    if others:
        parts.append(folded(f"{len(others)} more columns", _grid(others)))
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
    if c.facts is not None and c.facts.n_shown and c.mixture.has_density:
        shown = min(MOST_POINTS, c.facts.n_shown)
        text += f" Points are {shown:,} of the rows, in the color of their group."
    return [f'<p class="soft">{text}</p>', _legend(c), _grid(c.pictures.pairs)]


def _legend(c: Contents) -> str:
    """Return the colors of the groups; nothing where there is one."""
    if len(c.profile) == 1:
        return ""
    entries = "".join(f"<li>{chip(p.component)} {escaped(p.name)}</li>" for p in c.profile)
    return f'<ul class="legend" aria-label="Colors of the groups">{entries}</ul>'


def _grid(pictures: list[Picture]) -> str:
    """Return pictures beside one another."""
    figures = "\n".join(
        f'<figure id="picture-{p.name}"><figcaption>{escaped(p.title)}'
        + (f' <span class="numbers">{escaped(p.caption)}</span>' if p.caption else "")
        + f'</figcaption><img src="{p.address}" alt="{escaped(p.alt)}"></figure>'
        for p in pictures
    )
    return f'<div class="grid">\n{figures}\n</div>'

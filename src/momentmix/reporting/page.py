"""The HTML page of a report, section by section."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection
from importlib.resources import files

from momentmix.html.markup import chip, escaped, folded, section
from momentmix.html.palette import COLORS, ink_on
from momentmix.reporting.cards import cards
from momentmix.reporting.changes import comparison_section, tracking_section
from momentmix.reporting.contents import Contents
from momentmix.reporting.experts import expert_section
from momentmix.reporting.pictures import MOST_POINTS, Picture
from momentmix.reporting.tables import parameter_tables
from momentmix.reporting.verdict import columns_to_see, fit_section, next_section

_COLUMNS_SHOWN = 12  # pictures of columns; the others are folded


def page(c: Contents) -> str:
    """The HTML file as text."""
    style = _resource("style.css") + _colors()
    script = _resource("sort.js")
    makers = {
        ("groups", "What are the groups?"): cards,
        ("columns", "What do the columns look like?"): _columns,
        ("fit", "Does the model fit the data?"): fit_section,
        ("next", "What to do next"): next_section,
        ("shares", "How do the shares differ between groups of rows?"): tracking_section,
        ("changes", "What changed?"): comparison_section,
        ("pairs", "Which pairs of columns separate the groups?"): _pairs,
        ("parameters", "The numbers of each group"): parameter_tables,
        ("experts", "For experts"): expert_section,
    }
    made = [(*names, make(c)) for names, make in makers.items()]
    sections = [(name, heading, parts) for name, heading, parts in made if parts]
    body = "\n".join(section(name, heading, *parts) for name, heading, parts in sections)
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in sections)
    about = f"Report on {c.model_name}" if c.model_name else "Report on a fitted mixture"
    # The browser may run only this script and style, and load nothing.
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
        f"script-src '{_digest(script)}'; base-uri 'none'; form-action 'none'"
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
<p class="soft">{escaped(about)}, <time datetime="{c.day.isoformat()}">{_written(c)}</time></p>
<h1>{escaped(c.title)}</h1>
<p class="lead">{escaped(c.answer)}</p>
<nav aria-label="Sections"><ul>{links}</ul></nav>
</header>
<main id="main">
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def _written(c: Contents) -> str:
    return f"{c.day.day} {c.day:%B} {c.day.year}"


def _resource(name: str) -> str:
    return files("momentmix.reporting").joinpath(name).read_text(encoding="utf-8")


def _colors() -> str:
    """Classes for the colors of components: of chips, of edges, and of bars."""
    return "".join(
        f".c{i}{{background:{color};color:{ink_on(color)}}}"
        f".e{i}{{border-top-color:{color}}}.f{i}{{fill:{color}}}\n"
        for i, color in enumerate(COLORS)
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# -- pictures ---------------------------------------------------------------------------------


def _columns(c: Contents) -> list[str]:
    """Small pictures of the columns, those that separate the groups best first."""
    shown, others = c.pictures.columns[:_COLUMNS_SHOWN], c.pictures.columns[_COLUMNS_SHOWN:]
    text = "Curves and bars are the groups of the model in their colors"
    if c.facts is not None and c.facts.shown is not None:
        text += (
            "; gray is the data. Where the thin line, their sum, follows the gray, the model fits"
        )
    if c.mixture.n_components > 1 and len(c.pictures.columns) > 1:
        text += ". The columns that differ most between the groups come first"
    marked = columns_to_see(c)
    parts = [f'<p class="soft">{text}.</p>', _legend(c), _grid(shown, marked)]
    if others:
        parts.append(folded(f"{len(others)} more columns", _grid(others, marked)))
    if c.facts is None or c.facts.shown is None:
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
    """The colors of the groups."""
    if len(c.profile) == 1:
        return ""
    entries = "".join(f"<li>{chip(p.component)} {escaped(p.name)}</li>" for p in c.profile)
    return f'<ul class="legend" aria-label="Colors of the groups">{entries}</ul>'


def _grid(pictures: list[Picture], marked: Collection[str] = ()) -> str:
    """Pictures beside one another, as many as there is room for; titles in `marked` have a tag."""
    tag = ' <a class="tag warn" href="#next">worth a look</a>'
    figures = "\n".join(
        f'<figure id="picture-{p.name}"><figcaption>{escaped(p.title)}'
        + (f' <span class="numbers">{escaped(p.caption)}</span>' if p.caption else "")
        + f"{tag if p.title in marked else ''}</figcaption>"
        + f'<img src="{p.address}" alt="{escaped(p.alt)}"></figure>'
        for p in pictures
    )
    return f'<div class="grid">\n{figures}\n</div>'

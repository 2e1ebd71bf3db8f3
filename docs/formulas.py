"""Formulas of the pages as MathML.

Browsers draw MathML themselves: no script, no font and no network is needed, formulas grow with the
text, follow the dark theme, and screen readers read them. The converter is the one that comes with
docutils.
"""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import ExtensionError


def converted(node, **options):
    """MathML of a formula; raise with the formula where it cannot be converted."""
    try:
        return tex2mathml(node.astext(), **options)
    except MathError as error:
        raise ExtensionError(f"formula {node.astext()!r}: {error}") from error


def inline(writer, node):
    """Write a formula in a line of text."""
    writer.body.append(converted(node))
    raise nodes.SkipNode


def block(writer, node):
    """Write a formula on lines of its own, which can be scrolled where the screen is narrow."""
    writer.body.append(writer.starttag(node, "div", CLASS="math-block"))
    writer.body.append(converted(node, as_block=True))
    writer.body.append("</div>")
    raise nodes.SkipNode


def setup(app):
    """Register the renderer "mathml"."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline, None), block_renderers=(block, None)
    )

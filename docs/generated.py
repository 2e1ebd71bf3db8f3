"""Pages that are generated from the source when the documentation is built.

`notation.md` collects the tables *paper symbol | name here* of the module docstrings,
`differences.md` their paragraphs "Differs from the paper", `commands.md` the help texts of the
command. Only modules that implement a step of the paper have such a table and paragraph.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "momentmix"
GALLERY = (
    "customers", "certificate", "correlated_measurements", "survey", "missing_values",
    "groups_and_drift", "paper_tables",
)  # fmt: skip
ORDER = ("index_sets", "capacity", "rows", "summary", "mixture", "fitting", "paper")


def gallery_order(name):
    """Position of an example in the gallery: from a table to the paper."""
    return GALLERY.index(name.removeprefix("plot_").removesuffix(".py"))


def documented_modules():
    """(name, docstring) of the modules with a table of paper symbols, in the order of the data."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if parts[0] in ORDER and "| paper symbol |" in text:
            found.append((ORDER.index(parts[0]), ".".join(parts), text))
    return [(name, text) for _, name, text in sorted(found)]


def table_of(text):
    """The notation table of a docstring, as lines of Markdown."""
    return [line for line in text.splitlines() if line.startswith("|")]


def difference_of(text):
    """The paragraph or list "Differs from the paper" of a docstring, as one line."""
    _, _, rest = text.partition("Differs from the paper")
    paragraph = rest.lstrip(":\n ").split("\n\n")[0]
    sentences = [line.strip().removeprefix("* ") for line in paragraph.splitlines()]
    return " ".join(sentences).replace("``", "`")


def with_indices(text):
    """The text with q_i and z^{p} as HTML indices, but for code in backticks."""
    parts = text.split("`")
    for place in range(0, len(parts), 2):  # what stands between backticks is code
        for mark, tag in (("_", "sub"), (r"\^", "sup")):
            inner = rf"{mark}\{{((?:[^{{}}]|\{{[^{{}}]*\}})*)\}}|{mark}([^\W_²³⁴⁵⁶]+⁺?|\*)"
            while re.search(inner, parts[place]):
                parts[place] = re.sub(
                    inner, lambda m, tag=tag: f"<{tag}>{m[1] or m[2]}</{tag}>", parts[place]
                )
    return "`".join(parts)


def commands():
    """Help texts of all commands, as lines of Markdown."""
    import click

    from momentmix.cli import cli

    lines = []
    parent = click.Context(cli, info_name="momentmix", terminal_width=88, **cli.context_settings)
    for name in cli.list_commands(parent):
        command = cli.get_command(parent, name)
        context = click.Context(command, parent, name, terminal_width=88)
        lines += [
            f"## momentmix {name}",
            "",
            "```text",
            command.get_help(context),
            "```",
            "",
        ]
    return lines


def write(folder):
    """Write the pages where they have changed."""
    folder.mkdir(exist_ok=True)
    notation, differences = [], []
    for name, text in documented_modules():
        title = text.splitlines()[0].replace("``", "`")
        table = [with_indices(line.replace("``", "`")) for line in table_of(text)]
        notation += [f"### `{name}`", "", title, "", *table, ""]
        sentence = difference_of(text)
        if sentence and not sentence.lower().startswith("nothing"):
            differences += [f"`{name}`", f": {with_indices(sentence)}", ""]
    pages = {"notation.md": notation, "differences.md": differences, "commands.md": commands()}
    for file, lines in pages.items():
        content = "\n".join(lines) + "\n"
        path = folder / file
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")


def check(folder):
    """Raise if a page would load anything from the network when it is opened."""
    foreign = re.compile(r"""<(?:script|img|iframe|source)[^>]*\ssrc=["'](?:https?:)?//[^"']*""")
    sheets = re.compile(r"""<link[^>]*rel=["']stylesheet["'][^>]*href=["'](?:https?:)?//""")
    for path in sorted(folder.rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        found = foreign.search(text) or sheets.search(text)
        if found:
            raise RuntimeError(f"{path.relative_to(folder)} needs a network: {found[0]}")

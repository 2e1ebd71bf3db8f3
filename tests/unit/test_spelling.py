"""American spelling in public names, help and pages."""

import inspect
import re
from pathlib import Path

import click

import momentmix as mm
from momentmix import dask, displays, errors
from momentmix.cli import cli
from momentmix.fitting import record
from momentmix.fitting.inference import certificate, findings, standard_errors
from momentmix.tables import table_rows

ROOT = Path(__file__).parents[2]
MODULES = (
    mm, certificate, dask, displays, errors, findings, record, standard_errors,
    table_rows,
)  # fmt: skip

BRITISH = re.compile(
    r"[a-z]*(?:colour|neighbour|behaviour|favour|honour|grey|labell|modell|travell|centr(?:e|ing)"
    r"|licence|defence|analys(?:e|ing)|artefact|catalogue|judgement|whilst|amongst|learnt)[a-z]*"
    r"|[a-z]{3,}is(?:e[drs]?|ing|ations?)|(?:re|un)?centred",
    re.IGNORECASE,
)
FINE = {
    "arise", "elementwise", "exercise", "imprecise", "labelledby", "labelleft", "likewise",
    "noise", "otherwise", "pairwise", "precise", "promise", "promised", "raise",
    "raised", "raises", "raising", "surprise", "surprises", "wise",
}  # fmt: skip


def british(text):
    words = re.findall(r"[A-Za-z]+", text)
    return [word for word in words if BRITISH.fullmatch(word) and word.lower() not in FINE]


def names_of(value):
    """Parameters of a function; attributes, methods and their parameters of a class."""
    if inspect.isclass(value) and value.__module__.startswith("momentmix"):
        for name in dir(value):
            member = inspect.getattr_static(value, name)
            if not name.startswith("_"):
                yield name
                yield from names_of(getattr(member, "__func__", member))
        yield from getattr(value, "__dataclass_fields__", ())
        if not issubclass(value, BaseException):
            yield from inspect.signature(value).parameters
    elif inspect.isfunction(value):
        yield from inspect.signature(value).parameters


def public_names():
    for module in MODULES:
        for name in getattr(module, "__all__", [n for n in vars(module) if n[0] != "_"]):
            yield name
            yield from names_of(getattr(module, name))


def help_texts():
    parent = click.Context(cli, info_name="momentmix")
    yield cli.get_help(parent)
    for name, command in cli.commands.items():
        yield command.get_help(click.Context(command, parent, name))


def test_public_names():
    names = set(public_names())
    assert {"fit", "n_components", "recenter", "standardize"} <= names
    assert [name for name in sorted(names) if british(name.replace("_", " "))] == []


def test_help_and_pages():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.py")]
    pages += [*ROOT.glob("docs/how-to/*.md"), *ROOT.glob("docs/explanation/*.md")]
    texts = {path.name: path.read_text("utf-8") for path in pages if path.name != "CHANGELOG.md"}
    texts["help"] = "\n".join(help_texts())
    assert len(texts) > 30
    assert {name: words for name, text in texts.items() if (words := british(text))} == {}


def test_source():
    for path in (ROOT / "src").rglob("*.py"):
        assert british(path.read_text("utf-8").replace("_", " ")) == [], path


def test_a_british_word_would_be_found():
    text = "Standardise the centred colours; neighbours behave otherwise, with precise noise."
    assert british(text) == ["Standardise", "centred", "colours", "neighbours"]

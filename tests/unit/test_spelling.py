"""American spelling in public names, help and pages; old names still work, with a warning."""

import inspect
import json
import re
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

import momentmix as mm
from momentmix import dask, displays, errors, planning
from momentmix.cli import cli
from momentmix.deprecation import RenamedAttribute
from momentmix.fitting import record
from momentmix.fitting.inference import certificate, findings, standard_errors
from momentmix.planning import plan
from momentmix.tables import table_rows

ROOT = Path(__file__).parents[2]
MODULES = (
    mm, certificate, dask, displays, errors, findings, planning, record, standard_errors,
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
            if not name.startswith("_") and not isinstance(member, RenamedAttribute):
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
    assert {"fit", "n_components", "recenter", "standardize", "neighbors"} <= names
    assert [name for name in sorted(names) if british(name.replace("_", " "))] == []


def test_help_and_pages():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.py")]
    pages += [*ROOT.glob("docs/how-to/*.md"), *ROOT.glob("docs/explanation/*.md")]
    texts = {path.name: path.read_text("utf-8") for path in pages if path.name != "CHANGELOG.md"}
    texts["help"] = "\n".join(help_texts())
    assert len(texts) > 30
    assert {name: words for name, text in texts.items() if (words := british(text))} == {}


def test_source():
    """The old names and what they are called stand in the lines that rename them."""
    for path in (ROOT / "src").rglob("*.py"):
        lines = path.read_text("utf-8").splitlines()
        text = "\n".join(
            line for line in lines if "neighbours" not in line and "Renamed" not in line
        )
        assert british(text.replace("_", " ")) == [], path


def test_a_british_word_would_be_found():
    text = "Standardise the centred colours; neighbours behave otherwise, with precise noise."
    assert british(text) == ["Standardise", "centred", "colours", "neighbours"]


def test_old_names_warn_and_still_work():
    rows = np.arange(12.0).reshape(6, 2)
    summary = mm.summarize(rows, order=2)
    with pytest.warns(FutureWarning, match=r"recentre is called MomentSummary\.recenter now"):
        assert summary.recentre(1.0) == summary.recenter(1.0)
    orders, squared = ([1.0], [0.0]), ([[1.0]],)
    moments = mm.StandardMoments(1, 1, orders, squared, 9, 9.0, [3.0], [2.0], [0.0], [5.0])
    mixture = mm.DiagonalMixture([1.0], [[4.0]], [[1.0]])
    with pytest.warns(FutureWarning, match=r"is called StandardMoments\.standardize now"):
        old = moments.standardise(mixture)
    assert old.to_dict() == moments.standardize(mixture).to_dict()
    planned = plan(15, 8)
    with pytest.warns(FutureWarning, match=r"neighbours is called Plan\.neighbors now"):
        assert planned.neighbours is planned.neighbors
    printed = CliRunner().invoke(cli, ["plan", "-d", "15", "-r", "8", "--json"]).output
    document = json.loads(printed)
    assert document["neighbours"] == document["neighbors"] != []

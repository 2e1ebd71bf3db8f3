"""What a person in a shell reads: options, not keywords and classes of Python."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.findings.messages import Message, in_shell, keyword, options

SCHEMA = "a schema (momentmix schema, --schema)"
PYTHON = re.compile(r"\b\w+=['\"{\[]|\bmm\.|[a-z_]+\(\)|np\.float64|MomentSummary|SummaryCube")


@pytest.mark.parametrize(
    ("message", "python", "shell"),
    [
        (options(missing="drop"), "missing='drop'", "--missing drop"),
        (options(exclude=...), "exclude=", "--exclude"),
        (options(header=False), "header=False", "--no-header"),
        (
            options(decimal=",", delimiter=";"),
            "decimal=',', delimiter=';'",
            "--decimal , --delimiter ';'",
        ),
        (
            options(families={"n a": "log", 3: "poisson"}),
            "families={'n a': 'log', 3: 'poisson'}",
            "--families 'n a=log,3=poisson'",
        ),
        (options(families={"c": ["a", "b"]}), "families={'c': ['a', 'b']}", SCHEMA),
        (options(families={"a,b": "log"}), "families={'a,b': 'log'}", SCHEMA),
        (options(blocks=[["a b", "c"], [3]]), "blocks=[['a b', 'c'], [3]]", "--blocks 'a b,c;3'"),
        (options(blocks="auto"), "blocks='auto'", "--blocks auto"),
        (Message("a ", keyword("na_values"), "."), "a na_values.", "a --na-values."),
    ],
)
def test_messages_have_words_for_python_and_for_the_shell(message, python, shell):
    assert message == python
    assert in_shell(message) == shell
    assert in_shell(mm.errors.InputError(message)) == shell
    assert in_shell(pickle.loads(pickle.dumps(message))) == shell
    assert str(mm.errors.InputError(message)) == python


def test_tables_are_printed_as_they_are(momentmix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"exclude=": [1.0, 2.0], "missing='drop'": [3.0, 5.0]}).to_csv("odd.csv")
    assert momentmix("summarize", "odd.csv", "-o", "odd.mms").code == 0
    out = momentmix("info", "odd.mms").out
    assert "exclude= " in out
    assert "missing='drop' " in out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Rows with gaps, a cube and a summary of them, a model, and files that do not go with it."""
    folder = tmp_path_factory.mktemp("shell")
    rng = np.random.default_rng(0)
    n = 600
    rows = pd.DataFrame(
        {
            "amount": rng.normal(5, 2, n).round(2),
            "age": rng.normal(40, 9, n),
            "visits": rng.poisson(2, n),
            "plan": rng.choice(["basic", "gold"], n),
            "region": rng.choice(["EU", "US"], n),
        }
    )
    rows.loc[::9, "age"] = np.nan
    rows.to_csv(folder / "gaps.csv", index=False)
    whole = rows.drop(columns="age")
    whole.to_csv(folder / "whole.csv", index=False)
    mm.summarize_by(whole, by="region", families={"visits": "poisson"}).save(
        folder / "cube.parquet"
    )
    mm.summarize(whole.drop(columns="region"), 2, families={"visits": "poisson"}).save(
        folder / "low.mms"
    )
    mm.summarize(rows[["age"]], missing="model").save(folder / "age.mms")
    truth = mm.DiagonalMixture([0.5, 0.5], [[0.0, 0.0], [3.0, 1.0]], np.ones((2, 2)))
    truth.save(folder / "model.json")
    return folder


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["summarize", "gaps.csv", "-o", "x.mms"], 1, "by chance alone, --missing drop ("),
        (["summarize", "gaps.csv", "--by", "", "-o", "x.parquet"], 2, "--by needs names of co"),
        (["summarize", "whole.csv", "--by", "amount", "-o", "x.parquet"], 1, "must be whole"),
        (
            ["summarize", "whole.csv", "--families", "amount=lognormal", "-o", "x.mms"],
            1,
            "--families must be 'gaussian', 'bernoulli', 'categorical', 'poisson', 'negative_",
        ),
        (
            ["summarize", "whole.csv", "--families", "amout=log", "-o", "x.mms"],
            1,
            "--families names no column: 'amout'",
        ),
        (["fit", "cube.parquet", "--families", "plan=log", "-o", "x.json"], 1, "leave --families"),
        (["compare", "low.mms", "cube.parquet"], 1, "Summarize both with --order 2"),
        (["compare", "low.mms", "age.mms"], 1, "summarize the common ones (--columns)"),
        (["compare", "low.mms", "model.json"], 1, "model.json is no data; `momentmix track MODEL"),
        (["merge", "low.mms", "whole.csv", "-o", "x.mms"], 1, "with `momentmix summarize`"),
        (["track", "low.mms", "cube.parquet"], 1, "fit it first, with `momentmix fit`"),
        (["track", "model.json", "cube.parquet", "--rollup", "regoin"], 1, "--rollup regoin: the"),
        (["track", "model.json", "cube.parquet", "--rollup", ","], 2, "--rollup needs keys to kee"),
    ],
)
def test_errors_speak_of_options(folder, momentmix, monkeypatch, arguments, code, message):
    monkeypatch.chdir(folder)
    done = momentmix(*arguments)
    text = " ".join(done.err.split())
    assert done.code == code, text
    assert message in text
    assert not PYTHON.search(text), text

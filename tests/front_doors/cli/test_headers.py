"""--header and --no-header of the commands that read rows."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

N = 90


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(N, 3)).round(5)
    pd.DataFrame(rows).to_csv("x.csv", index=False)
    mm.fit(rows, 1, random_state=0).mixture.save("m.json")
    return rows


@pytest.mark.parametrize(
    ("option", "n_rows"), [((), N), (("--header",), N), (("--no-header",), N + 1)]
)
def test_every_command_that_reads_rows(files, momentmix, option, n_rows):
    for command in (
        ("summarize", "x.csv", "-o", "x.mms"),
        ("summarize", "-", "-o", "y.mms"),
        ("fit", "x.csv", "-r", "1", "-o", "f.json"),
    ):
        said = momentmix(*command, "--json", *option, stdin=Path("x.csv").read_bytes())
        assert json.loads(said.out)["n_rows"] == n_rows
    said = momentmix("predict", "m.json", "x.csv", "--keep", "0", *option)
    assert len(said.out.splitlines()) == n_rows + 1
    assert ("warning: the first line of x.csv" in said.err) == (option == ())
    assert "(--no-header) reads it as a row" in said.err or option
    said = momentmix("info", "x.csv", "--json", *option)
    assert json.loads(said.out)["has_names"] == (n_rows == N)


def test_compare_and_schema(files, momentmix):
    pd.DataFrame(files + 1).to_csv("y.csv", index=False)
    said = momentmix("compare", "x.csv", "y.csv", "--json")
    assert said.code == 4
    assert "note: the first line of x.csv is taken for names" in said.err
    assert "warning" not in said.err
    said = momentmix("schema", "x.csv", "-o", "s.json")
    assert "(--no-header) reads it as a row" in said.out + said.err
    assert momentmix("schema", "x.csv", "-o", "t.json", "--header").err == ""

"""The command `compare`: tables, JSON and exit codes."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import momentmix as mm


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Data of May and June, in which ages rise and a plan has fewer clients; and more of May."""
    monkeypatch.chdir(tmp_path)
    for seed, (name, shift, gold) in enumerate(
        [("may", 0, 0.4), ("june", 4, 0.2), ("more", 0, 0.4)]
    ):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(
            {
                "age": 40 + shift + 10 * rng.standard_normal(2000),
                "size": rng.exponential(size=2000),
                "plan": rng.choice(["basic", "gold"], 2000, p=[1 - gold, gold]),
                "weight": rng.standard_normal(2000),
            }
        )
        table.loc[::9, "weight"] = np.nan
        table.to_csv(f"{name}.csv", index=False)
        mm.summarize(f"{name}.csv", missing="model").save(f"{name}.mms")
    return tmp_path


def test_data_files_and_summaries_give_the_same(files, momentmix):
    plain = momentmix("compare", "may.csv", "june.csv", "--missing", "model", "--json")
    mixed = momentmix("compare", "may.mms", "june.csv", "--json")
    june = (files / "june.csv").read_bytes()
    piped = momentmix("compare", "may.mms", "-", "--json", stdin=june)
    assert plain.code == mixed.code == 4
    assert piped.out.replace('"second": "-"', '"second": "june.csv"') == mixed.out
    first, second = json.loads(plain.out), json.loads(mixed.out)
    assert first.pop("first") == "may.csv"
    assert second.pop("first") == "may.mms"
    assert second["differs"] is True
    assert second["p_value"] == pytest.approx(first["p_value"], rel=1e-6)
    effects = [[change["effect"] for change in found["changes"]] for found in (first, second)]
    assert effects[0] == pytest.approx(effects[1], rel=1e-9)
    schema = mm.MomentSummary.load("may.mms").schema
    june = mm.summarize("june.csv", missing="model", families=schema)
    assert second["p_value"] == pytest.approx(mm.compare("may.mms", june).p_value, rel=1e-9)


def test_the_table(files, momentmix):
    done = momentmix("compare", "may.csv", "june.csv", "--missing", "drop")
    assert done.code == 4
    lines = done.out.splitlines()
    assert lines[0].startswith("1,777 and 1,777 rows differ: 2 changes named (level 0.05, ")
    assert re.fullmatch(
        r"- age: the mean rose from \d\d\.\d to 4\d\.\d \(by 0\.4.* deviations\)", lines[2]
    )
    assert re.fullmatch(r"- the share of plan = gold fell from [\d.]+ to [\d.]+ %", lines[1])
    assert lines[4].split()[:3] == ["column", "first", "second"]
    assert lines[5].split()[0] == "plan=gold"
    assert lines[6].split()[0] == "age"
    for files, said in (
        (("may.csv", "more.csv"), "No difference shows between 1,"),
        (("may.csv", "june.csv", "--least-effect", 0.8), "No difference of at least 0.8 shows"),
    ):
        same = momentmix("compare", *files, "--missing", "drop")
        assert same.code == 0
        assert same.out.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("none.csv", "may.csv"), 1, "none.csv does not exist"),
        (("none.mms", "may.csv"), 1, "none.mms does not exist"),
        (("may.csv", "june.csv"), 1, "missing"),
        (("may.csv", "june.csv", "--level", "0"), 2, "--level"),
        (("may.csv", "-"), 2, "standard input (-) cannot be combined with files"),
        (("may.mms", "june.csv", "--families", "size=log"), 2, "leave out --families"),
        (("may.mms", "june.mms", "--families", "size=log"), 2, "leave out --families"),
        (("may.mms", "june.csv", "--columns", "age"), 2, "takes them; leave out"),
    ],
)
def test_errors_have_their_own_codes(files, momentmix, arguments, code, text):
    done = momentmix("compare", *arguments)
    assert done.code == code
    assert text in done.err

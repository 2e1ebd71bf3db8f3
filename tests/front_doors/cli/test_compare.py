"""The command `compare`: tables, JSON, pictures and exit codes."""

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
    assert plain.code == mixed.code == 1
    assert piped.out.replace('"second": "-"', '"second": "june.csv"') == mixed.out
    first, second = json.loads(plain.out), json.loads(mixed.out)
    assert first.pop("first") == "may.csv"
    assert second.pop("first") == "may.mms"
    assert second["differs"] is True
    assert second["p_value"] == pytest.approx(first["p_value"], rel=1e-6)
    for x, y in zip(first["columns"], second["columns"], strict=True):
        assert [c["effect"] for c in x["changes"]] == pytest.approx(
            [c["effect"] for c in y["changes"]], rel=1e-9
        )
    schema = mm.MomentSummary.load("may.mms").schema
    june = mm.summarize("june.csv", missing="model", families=schema)
    assert second["p_value"] == pytest.approx(mm.compare("may.mms", june).p_value, rel=1e-9)


def test_the_table_and_the_picture(files, momentmix):
    done = momentmix("compare", "may.csv", "june.csv", "--missing", "drop", "-o", "picture.png")
    assert done.code == 1
    lines = done.out.splitlines()
    assert lines[0].endswith("2 changes named).")
    assert re.fullmatch(r"- age: the mean rose from \d\d\.\d to 4\d\.\d \(by 0\.4. .*\)", lines[2])
    assert re.fullmatch(r"- the share of plan = gold fell from \d\d to \d\d %", lines[1])
    assert lines[5].split()[:3] == ["column", "first", "second"]
    assert lines[6].split()[0] == "age"
    assert any(line.startswith("plan=gold") for line in lines)
    assert lines[-1] == "picture written to picture.png"
    assert (files / "picture.png").read_bytes().startswith(b"\x89PNG")
    again = momentmix("compare", "may.csv", "june.csv", "--missing", "drop", "-o", "picture.png")
    assert again.code == 73
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
        (("none.csv", "may.csv"), 66, "none.csv does not exist"),
        (("none.mms", "may.csv"), 66, "none.mms does not exist"),
        (("may.csv", "june.csv"), 65, "missing"),
        (("may.csv", "june.csv", "-o", "picture.txt"), 2, "must end in .png, .svg or .pdf"),
        (("may.csv", "june.csv", "--level", "0"), 2, "--level"),
        (("may.csv", "-"), 2, "standard input (-) cannot be combined with files"),
        (("may.mms", "june.csv", "--families", "size=log"), 2, "leave out --families"),
        (("may.mms", "june.mms", "--families", "size=log"), 2, "leave out --families"),
        (
            ("may.mms", "june.mms", "--exclude", "age,size,plan,weight"),
            2,
            "--columns and --exclude leave no column to compare",
        ),
    ],
)
def test_errors_have_their_own_codes(files, momentmix, arguments, code, text):
    done = momentmix("compare", *arguments)
    assert done.code == code
    assert text in done.err


def test_strict_counts_what_cannot_be_judged(files, momentmix):
    rows = np.random.default_rng(0).standard_normal((2, 500, 2))
    for name, table in zip("ab", rows, strict=True):
        np.savetxt(f"{name}.csv", table, delimiter=",", header="x,y", comments="")
    assert momentmix("compare", "a.csv", "b.csv", "--strict").code == 0
    rows[1, 7, 1] = 1e9
    np.savetxt("b.csv", rows[1], delimiter=",", header="x,y", comments="")
    done = momentmix("compare", "a.csv", "b.csv")
    assert done.code == 0
    assert "Not judged: 'y', where one row dominates." in done.out
    assert momentmix("compare", "a.csv", "b.csv", "--strict").code == 1


def test_columns_of_summaries_can_be_chosen(files, momentmix):
    chosen = mm.compare(
        *(mm.summarize(f"{x}.csv", columns=["age", "size"]) for x in ("may", "june"))
    )
    for second in ("june.mms", "june.csv"):
        options = {"--columns": "age,size", "--exclude": "plan,weight"}
        for option, columns in options.items():
            done = momentmix("compare", "may.mms", second, option, columns, "--json")
            found = json.loads(done.out)
            assert [column["name"] for column in found["columns"]] == ["age", "size"]
            assert found["p_value"] == pytest.approx(chosen.p_value, rel=1e-6)


def test_the_display():
    from momentmix.displays import ComparisonDisplay

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 3000, 4))
    y[:, 2] = 2 * y[:, 2] + 1
    found = mm.compare(mm.summarize(x), mm.summarize(y))
    display = ComparisonDisplay.from_comparison(found)
    shifts, spreads, correlations = display.axes_
    names = [label.get_text() for label in shifts.get_yticklabels()]
    assert names[0] == "2"
    assert sorted(names) == list("0123")
    dots = [line.get_xdata()[0] for line in shifts.lines if line.get_marker() in "Do"]
    assert dots[0] == pytest.approx(found.columns[2].change("mean").effect)
    ratios = [line.get_xdata()[0] for line in spreads.lines if line.get_marker() == "D"]
    assert ratios == pytest.approx([y[:, 2].std() / x[:, 2].std()])
    drawn = correlations.images[0].get_array()
    assert drawn[0, 1] == pytest.approx(found.pairs[0].effect)
    y[0, 1] = 1e9
    wild = ComparisonDisplay.from_comparison(mm.compare(mm.summarize(x), mm.summarize(y)))
    names = [label.get_text() for label in wild.axes_[0].get_yticklabels()]
    assert "1 (not judged)" in names
    assert sum(line.get_marker() in "Do" for line in wild.axes_[0].lines) == 3
    one = mm.compare(mm.summarize(x[:, :1]), mm.summarize(y[:, :1]))
    assert len(ComparisonDisplay.from_comparison(one).axes_) == 2
    with pytest.raises(mm.errors.InputTypeError, match="must be a Comparison"):
        ComparisonDisplay.from_comparison(x)

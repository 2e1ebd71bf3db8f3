"""`info`: what a summary, a model or a data file holds."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.summary import readings


@pytest.fixture
def frame(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": 40 + 10 * rng.standard_normal(500),
            "visits": rng.poisson(3.0, 500),
            "plan": rng.choice(["basic", "gold", "silver"], 500, p=[0.5, 0.2, 0.3]),
            "member": rng.random(500) < 0.3,
            "height": rng.normal(1.7, 0.1, 500),
        }
    )
    frame.loc[::5, "age"] = np.nan
    frame.loc[1::4, "plan"] = None
    return frame


FAMILIES = {"visits": "poisson", "plan": "categorical", "member": "bernoulli"}


def info(momentmix, file):
    done = momentmix("info", file, "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_schema(frame, momentmix):
    schema = mm.schema_from(frame, {"visits": "poisson", "height": "log"}, missing="model")
    schema.save("s.json")
    found = info(momentmix, "s.json")
    assert (found["kind"], found["n_columns"], found["n_features"]) == ("schema", 5, 8)
    families = ["gaussian", "poisson", "categorical", "bernoulli", "log"]
    assert [column["family"] for column in found["columns"]] == families
    assert [column["missing"] for column in found["columns"]] == [True, False, True, False, False]
    assert found["columns"][2]["levels"] == ["basic", "gold", "silver"]


def test_a_summary_of_a_table(frame, momentmix):
    mm.summarize(frame, order=3, families=FAMILIES, missing="model").save("t.mms")
    found = info(momentmix, "t.mms")
    assert (found["kind"], found["version"], found["n_rows"]) == ("summary", 7, 500)
    assert (found["n_columns"], found["n_features"], found["order"]) == (5, 8, 3)
    age, visits, plan, member, height = found["columns"]
    for column, name in ((age, "age"), (visits, "visits"), (height, "height")):
        cells = frame[name].dropna()
        assert column["mean"] == pytest.approx(cells.mean(), rel=1e-12)
        assert column["deviation"] == pytest.approx(cells.std(ddof=0), rel=1e-9)
        assert column["minimum"] == pytest.approx(cells.min(), rel=1e-12)
        assert column["maximum"] == pytest.approx(cells.max(), rel=1e-12)
    assert age["seen"] == pytest.approx(0.8)
    shares = frame["plan"].value_counts(normalize=True)
    assert plan["levels"] == ["basic", "gold", "silver"]
    assert plan["shares"] == pytest.approx([shares[level] for level in plan["levels"]])
    assert plan["seen"] == pytest.approx(frame["plan"].notna().mean())
    assert member["shares"] == pytest.approx([1 - frame["member"].mean(), frame["member"].mean()])
    assert member["minimum"] is None
    text = momentmix("info", "t.mms").out
    assert re.search(r"^n rows +500$", text, re.M)
    assert re.search(
        r"^plan +categorical +basic, gold, silver +0\.\d+, 0\.\d+, 0\.\d+ ", text, re.M
    )


def test_bounds_that_missing_cells_hide_are_not_told(momentmix, tmp_path):
    """A missing count is 0 among the features, less than every count that is seen."""
    counts = pd.DataFrame({"x": [2.0, 4.0, np.nan]})
    summary = mm.summarize(counts, order=1, families={"x": "poisson"}, missing="model")
    summary.save(tmp_path / "x.mms")
    (column,) = info(momentmix, tmp_path / "x.mms")["columns"]
    assert (column["minimum"], column["maximum"]) == (None, 4.0)
    assert (column["mean"], column["deviation"]) == (pytest.approx(3.0), pytest.approx(1.0))
    assert re.search(
        r"^x +poisson +0\.66667 +4 +3 +1$", momentmix("info", tmp_path / "x.mms").out, re.M
    )


def test_weights_shards_and_forgotten_rows(tmp_path, momentmix):
    rows = np.random.default_rng(0).standard_normal((100, 3))
    weights = np.arange(100) % 4
    summary = mm.MomentSummary(3, 2).update(rows, weights)
    summary += mm.MomentSummary(3, 2).update(rows + 1)
    summary.forget(rows[:5] + 1)
    summary.save(tmp_path / "x.mms")
    found = info(momentmix, tmp_path / "x.mms")
    assert found["n_rows"] == summary.n_rows == 170
    assert (found["n_shards"], found["n_forgotten"], found["exact_bounds"]) == (2, 5, False)
    assert found["sum_weights"] == 150 + 95
    assert found["effective_rows"] == pytest.approx(summary.effective_rows)
    assert [column["name"] for column in found["columns"]] == ["0", "1", "2"]
    assert found["bytes"] == (tmp_path / "x.mms").stat().st_size


def test_an_empty_summary_and_one_row(tmp_path, momentmix):
    mm.MomentSummary(2, 2).save(tmp_path / "none.mms")
    found = info(momentmix, tmp_path / "none.mms")
    assert (found["n_rows"], found["columns"][0]["mean"]) == (0, None)
    assert "n rows" in momentmix("info", tmp_path / "none.mms").out
    mm.summarize(np.array([[1.0, 2.0]]), order=2).save(tmp_path / "one.mms")
    assert info(momentmix, tmp_path / "one.mms")["columns"][1]["deviation"] == 0


def test_a_model_and_how_it_was_fitted(frame, momentmix):
    frame = frame.drop(columns=["plan", "member"]).dropna()
    frame["width"] = frame["height"] + np.random.default_rng(1).normal(0, 0.05, len(frame))
    frame.to_csv("rows.csv", index=False)
    arguments = ("--families", "visits=poisson", "--blocks", "height,width", "-o", "m.json", "-q")
    momentmix("fit", "rows.csv", "-r", "1", *arguments)
    found = info(momentmix, "m.json")
    assert (found["kind"], found["n_components"], found["weights"]) == ("model", 1, [1.0])
    assert [c["family"] for c in found["columns"]] == ["gaussian", "poisson", *["gaussian"] * 2]
    assert found["joined"] == ["height, width: given"]
    assert found["verdict"] in ("passed", "not passed", "untested")
    assert found["n_rows"] == len(frame)
    assert found["command"].startswith("momentmix fit rows.csv -r 1 --families visits=poisson")
    text = momentmix("info", "m.json").out
    assert re.search(r"^joined +height, width: given$", text, re.M)
    mm.Mixture.load("m.json").save("plain.json")
    plain = info(momentmix, "plain.json")
    assert (plain["verdict"], plain["joined"]) == (None, ["height, width"])
    assert "command" not in plain


DATA = {
    "csv": ["number", "number", "text", "true or false", "number"],
    "parquet": ["double", "int64", None, "bool", "double"],
    "feather": ["double", "int64", None, "bool", "double"],
    "jsonl": [None] * 5,
}


@pytest.mark.parametrize("ending", DATA)
def test_data(frame, momentmix, ending):
    options = {"csv": {"index": False}, "jsonl": {"orient": "records", "lines": True}}
    write = getattr(frame, f"to_{ending.removesuffix('l')}")
    write(f"rows.{ending}", **options.get(ending, {}))
    found = info(momentmix, f"rows.{ending}")
    assert (found["kind"], found["n_columns"]) == ("data", 5)
    assert found["n_rows"] == (None if ending == "csv" else 500)
    assert [column["name"] for column in found["columns"]] == list(frame)
    for column, kind in zip(found["columns"], DATA[ending], strict=True):
        assert kind is None or column["type"] == kind
    if ending == "csv":
        assert "n rows" not in momentmix("info", "rows.csv").out


def test_data_without_names_or_with_other_delimiters(frame, momentmix):
    np.save("rows.npy", frame[["age", "height"]])
    found = info(momentmix, "rows.npy")
    assert (found["has_names"], found["n_rows"]) == (False, 500)
    with open("rows.csv", "w") as file:
        file.write("a;b;c\n1;;x\n2;;y\n")
    assert "(--delimiter ';')" in momentmix("info", "rows.csv").err
    done = momentmix("info", "rows.csv", "--delimiter", ";", "--json")
    types = [column["type"] for column in json.loads(done.out)["columns"]]
    assert types == ["number", "empty", "text"]
    with open("head.csv", "w") as file:
        file.write("a,b\n")
    assert [c["type"] for c in info(momentmix, "head.csv")["columns"]] == ["empty", "empty"]


BAD = {
    "x.pkl": (b"\x80\x04", "x.pkl has no known ending; momentmix reads .npy"),
    "x.mms": (b"no summary", "not a momentmix summary"),
    "x.json": (b"[1]", "x.json"),
    "other": (b'{"a": 1}', "not a momentmix model"),
    "x.csv": (b"", "is empty"),
    "x.parquet": (b"PAR1", "cannot be read"),
    "x.npy": (b"\x93NUMPY", "is truncated"),
}


@pytest.mark.parametrize("name", BAD)
def test_other_files(tmp_path, monkeypatch, momentmix, name):
    monkeypatch.chdir(tmp_path)
    contents, message = BAD[name]
    (tmp_path / name).write_bytes(contents)
    done = momentmix("info", name)
    assert (done.code, message in done.err) == (1, True), done
    assert "Traceback" not in done.err


def test_numbers_of_logarithms_are_called_so(frame, momentmix):
    mm.summarize(frame, families={"height": "log"}, missing="model").save("t.mms")
    height = info(momentmix, "t.mms")["columns"][-1]
    assert (height["name"], height["family"]) == ("height", "log")
    assert height["mean"] == pytest.approx(np.log(frame["height"]).mean(), rel=1e-12)
    assert re.search(r"^log height +log ", momentmix("info", "t.mms").out, re.M)


@pytest.mark.parametrize("missing", ["error", "model"])
def test_the_work_on_a_column_does_not_grow_with_the_number_of_columns(
    tmp_path, momentmix, monkeypatch, missing
):
    rows = np.random.default_rng(0).normal(size=(90, 30))
    if missing == "model":
        rows[::9] = np.nan
    mm.summarize(rows, 1 if missing == "error" else 2, missing=missing).save(tmp_path / "x.mms")
    passes = []
    for name in ("deviation", "moments"):  # each of them goes through all features
        whole = getattr(readings, name)
        counted = lambda *given, whole=whole: passes.append(1) or whole(*given)  # noqa: E731
        monkeypatch.setattr(readings, name, counted)
    done = momentmix("info", tmp_path / "x.mms")
    assert done.code == 0
    assert len(passes) < 5

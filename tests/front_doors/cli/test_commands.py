"""The commands on rows and summaries: what they print, and what they write."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix import native

NAMES = ["a", "b", "c", "d", "e"]


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(1)
    return mm.Mixture.diagonal([0.7, 0.3], 4 * rng.standard_normal((2, 5)), np.ones((2, 5)), NAMES)


@pytest.fixture
def folder(tmp_path, monkeypatch, truth):
    monkeypatch.chdir(tmp_path)
    rows = truth.sample(3000, random_state=0)[0]
    for i, part in enumerate(np.array_split(rows, 3)):
        pd.DataFrame(part, columns=NAMES).to_parquet(f"part-{i}.parquet")
    truth.save("truth.json")
    return rows


def test_summaries_merge_to_the_bytes_of_one_pass(folder, momentmix):
    assert momentmix("summarize", "part-*.parquet", "-o", "all.mms").code == 0
    for i in range(3):
        assert momentmix("summarize", f"part-{i}.parquet", "-o", f"{i}.mms").code == 0
    done = momentmix("merge", "2.mms", "0.mms", "1.mms", "-o", "merged.mms", "--json")
    assert json.loads(done.out)["n_rows"] == 3000
    with open("all.mms", "rb") as one, open("merged.mms", "rb") as other:
        assert one.read() == other.read()
    assert mm.MomentSummary.load("all.mms").feature_names == tuple(NAMES)


def test_merging_other_orders_offers_to_truncate(folder, momentmix):
    momentmix("summarize", "part-0.parquet", "-o", "0.mms", "-m", "3")
    momentmix("summarize", "part-1.parquet", "-o", "1.mms", "-m", "4")
    done = momentmix("merge", "0.mms", "1.mms", "-o", "x.mms")
    assert done.code == 1
    assert "merge --truncate" in done.err
    assert momentmix("merge", "0.mms", "1.mms", "-o", "x.mms", "--truncate").code == 0
    assert mm.MomentSummary.load("x.mms").order == 3


def test_standard_input(folder, momentmix):
    text = pd.DataFrame(folder, columns=NAMES).to_csv(index=False).encode()
    done = momentmix("summarize", "-", "-o", "x.mms", "--columns", "b,a", stdin=text)
    assert done.code == 0, done.err
    summary = mm.MomentSummary.load("x.mms")
    assert summary.feature_names == ("b", "a")
    assert summary.n_rows == 3000


@pytest.mark.parametrize("source", ["rows", "summary"])
def test_fit_prints_table_and_certificate_and_writes_the_model(folder, momentmix, truth, source):
    inputs = ["part-0.parquet", "part-1.parquet", "part-2.parquet"]
    if source == "summary":
        momentmix("summarize", *inputs[:2], "-o", "x.mms")
        momentmix("summarize", inputs[2], "-o", "y.mms")
        inputs = ["x.mms", "y.mms"]
    done = momentmix("fit", *inputs, "-r", "2", "-v", "-o", "model.json")
    assert done.code == 0, done.err
    for words in ("Certificate", "verdict", "passed", "standard_error", "model.json"):
        assert words in done.out
    model = mm.Mixture.load("model.json")
    assert model.feature_names == tuple(NAMES)
    np.testing.assert_allclose(model.means, truth.means, atol=0.2)


def test_a_fit_without_an_output_is_printed_and_not_saved(folder, momentmix, tmp_path):
    before = sorted(tmp_path.iterdir())
    done = momentmix("fit", "part-0.parquet", "-r", "2")
    assert done.code == 0, done.err
    first, *_, last = done.out.splitlines()
    assert first.startswith("2 groups in ")
    assert first.endswith(": passed")
    assert last == "Not saved: -o model.json saves it (seed 0)."
    printed = json.loads(momentmix("fit", "part-0.parquet", "-r", "2", "--json", "--seed", "3").out)
    assert (printed["output"], printed["options"]["random_state"]) == (None, 3)
    assert sorted(tmp_path.iterdir()) == before
    momentmix("fit", "part-0.parquet", "-r", "2", "--json", "--seed", "3", "-o", "model.json")
    assert json.loads((tmp_path / "model.json").read_text())["fit"]["options"]["random_state"] == 3


def test_a_fit_that_did_not_pass_is_4_if_asked_and_writes_the_model(folder, momentmix):
    momentmix("summarize", "part-*.parquet", "-o", "x.mms")
    for file in ("x.mms", "part-0.parquet"):
        done = momentmix("fit", file, "-r", "1", "-o", "a.json")
        assert (done.code, "NOT PASSED" in done.out) == (0, True)
        done = momentmix("fit", file, "-r", "1", "-o", "b.json", "--strict")
        assert done.code == 4
        assert mm.Mixture.load("b.json").n_components == 1
    assert momentmix("fit", "x.mms", "-r", "2", "-o", "e.json", "--strict").code == 0


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (["-r", "2", "--blocks", "0, 1 ; d,e;"], {"n_components": 2, "blocks": [[0, 1], [3, 4]]}),
        (["-r", "2", "--blocks", "full"], {"n_components": 2, "blocks": "full"}),
        (["-r", "bic", "--max-components", "3"], {"n_components": "bic", "max_components": 3}),
        (
            ["-r", "2", "--columns", "c,a", "--families", "a=log1p", "--background", "false"],
            {"n_components": 2, "columns": ["c", "a"], "families": {"a": "log1p"},
             "background": False},
        ),
    ],
)  # fmt: skip
def test_options_are_keywords_of_fit(tmp_path, momentmix, monkeypatch, options, keywords):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).gamma(3.0, size=(400, 5)).round(4)
    pd.DataFrame(rows, columns=NAMES).to_csv("rows.csv", index=False)
    done = momentmix("fit", "rows.csv", *options, "-o", "model.json")
    assert done.code == 0, done.err
    model, result = mm.Mixture.load("model.json"), mm.fit("rows.csv", random_state=0, **keywords)
    np.testing.assert_array_equal(model.covariances, result.mixture.covariances)
    assert model.feature_names == result.mixture.feature_names
    assert [b.columns for b in model.blocks] == [b.columns for b in result.mixture.blocks]


def test_merge_minus_leaves_the_rest(folder, momentmix):
    for i in range(3):
        momentmix("summarize", f"part-{i}.parquet", "-o", f"{i}.mms")
    momentmix("merge", "0.mms", "1.mms", "2.mms", "-o", "all.mms")
    arguments = ["merge", "all.mms", "--minus", "2.mms", "--minus", "0.mms", "-o", "rest.mms"]
    assert json.loads(momentmix(*arguments, "--json").out)["n_rows"] == 1000
    assert mm.MomentSummary.load("rest.mms") == mm.MomentSummary.load("1.mms")
    done = momentmix("merge", "0.mms", "--minus", "1.mms", "-o", "x.mms")
    assert (done.code, "1.mms: shard" in done.err) == (1, True)


def test_schema_is_what_was_learned(tmp_path, momentmix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"x": [1.5, None, 2.5] * 9, "plan": ["gold", "tin", "tin"] * 9})
    frame.to_csv("x.csv", index=False)
    done = momentmix("schema", "x.csv", "--families", "x=log1p", "-o", "s.json")
    assert done.code == 0, done.err
    assert done.out.splitlines()[1].split()[:3] == ["x", "log1p", "yes"]
    learned = mm.schema_from("x.csv", {"x": "log1p"}, missing="model")
    assert mm.Schema.load("s.json") == learned
    done = momentmix(
        "summarize", "x.csv", "--schema", "s.json", "--missing", "model", "-o", "x.mms"
    )
    assert done.code == 0, done.err
    assert mm.MomentSummary.load("x.mms").schema == learned
    both = momentmix("fit", "x.csv", "--schema", "s.json", "--families", "x=log")
    assert (both.code, "not both" in both.err) == (2, True)


# -- info ---------------------------------------------------------------------------------------


def info(momentmix, file):
    done = momentmix("info", file, "--json")
    assert done.code == 0, done.err
    assert momentmix("info", file).code == 0
    return json.loads(done.out)


def test_info_of_a_summary(tmp_path, momentmix):
    frame = pd.DataFrame({"x": [1.0, 2.0, None, 4.0], "plan": ["a", "b", "b", "b"]})
    families = {"x": "log", "plan": "categorical"}
    mm.summarize(frame, 1, families=families, missing="model").save(tmp_path / "t.mms")
    facts = info(momentmix, tmp_path / "t.mms")
    assert (facts["kind"], facts["n_rows"], facts["order"]) == ("summary", 4, 1)
    x, plan = facts["columns"]
    assert (x["name"], plan["levels"], plan["shares"]) == ("log x", ["a", "b"], [0.25, 0.75])
    assert (x["mean"], x["seen"]) == (pytest.approx(np.log(8) / 3), 0.75)
    mm.MomentSummary(2, 2).save(tmp_path / "none.mms")
    assert info(momentmix, tmp_path / "none.mms")["columns"][0]["mean"] is None


def test_info_of_a_model_a_schema_and_data(folder, momentmix):
    momentmix("fit", "part-0.parquet", "-r", "1", "--blocks", "a,b", "-o", "m.json")
    facts = info(momentmix, "m.json")
    assert (facts["kind"], facts["weights"], facts["n_rows"]) == ("model", [1.0], 1000)
    assert facts["joined"] == ["a, b: given"]
    assert facts["command"].startswith("momentmix fit part-0.parquet -r 1")
    assert "verdict" not in info(momentmix, "truth.json")
    facts = info(momentmix, "part-0.parquet")
    assert (facts["kind"], facts["n_rows"]) == ("data", 1000)
    assert facts["columns"] == [{"name": name, "type": "double"} for name in NAMES]
    mm.schema_from("part-0.parquet").save("s.json")
    assert [c["family"] for c in info(momentmix, "s.json")["columns"]] == ["gaussian"] * 5
    for name, contents in {"x.mms": b"no summary", "x.json": b"[1]", "x.csv": b""}.items():
        (folder_file := Path(name)).write_bytes(contents)
        assert momentmix("info", folder_file).code == 1


# -- predict ------------------------------------------------------------------------------------


def test_predict_streams_labels(folder, momentmix, truth):
    done = momentmix("predict", "truth.json", "part-*.parquet")
    assert done.code == 0, done.err
    header, *labels = done.out.split()
    assert header == "label"
    np.testing.assert_array_equal(np.array(labels, dtype=int), truth.predict(folder))
    done = momentmix("predict", "truth.json", "part-*.parquet", "-o", "labels.csv")
    assert done.out == "labels of 3,000 rows written to labels.csv\n"


def test_predict_names_a_row_that_no_component_is_the_best_for(folder, momentmix):
    lines = ["a,b,c,d,e", "1,2,3,4,5", ",2,3,4,5", "1,2,3,-1e200,5"]
    with open("far.csv", "w") as file:
        file.write("\n".join(lines) + "\n")
    done = momentmix("predict", "truth.json", "far.csv", "--missing", "drop", "-o", "labels.csv")
    assert done.code == 1
    assert "far.csv, line 4 lies more than 1e154 standard deviations away" in done.err


# -- the paper's tables, and the module ----------------------------------------------------------


def test_reproduce_prints_the_printed_figure_beside_ours(momentmix):
    options = ("reproduce", "decomposition", "--rows", "15,3", "--instances", "2")
    assert "3.1e-12" in momentmix(*options).out  # printed average
    (row,) = json.loads(momentmix(*options, "--json").out)["rows"]
    assert row["avg"] < 1e-12
    assert row["n"] == 2
    noisy = momentmix("reproduce", "approximation", "--rows", "15,3,0.1", "--instances", "1")
    assert (noisy.code, len(noisy.out.splitlines()) >= 3) == (0, True)


def test_reproduce_gaussian_counts_rows(momentmix):
    done = momentmix("reproduce", "gaussian", "--rows", "15,3", "--rows", "1e4", "--json")
    (row,) = json.loads(done.out)["rows"]
    assert (row["N"], row["r"], row["algorithm"]) == (10_000, 6, 0.9839)
    assert row["bayes"] > 0.99
    assert row["default"] > row["bayes"] - 0.004
    assert row["bayes"] > row["paper"] > row["as_printed"]
    assert row["bayes"] > row["em1"]


@pytest.mark.parametrize(("value", "engine"), [("", "compiled code in use"), ("0", "NumPy does")])
def test_the_module_runs_the_command_and_tells_which_code_is_used(value, engine):
    if not value and native.code is None:
        pytest.skip("no compiled code here")
    command, env = [sys.executable, "-m", "momentmix", "--version"], {"MOMENTMIX_NATIVE": value}
    done = subprocess.run(
        command, env={**os.environ, **env}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"momentmix, version {mm.__version__} (")
    assert engine in done.stdout


def test_fit_loads_neither_pandas_nor_scikit_learn(folder):
    pd.DataFrame(folder[:200], columns=NAMES).to_csv("rows.csv", index=False)
    code = (
        "import atexit, sys; from momentmix.cli import main\n"
        "atexit.register(lambda: print(*sys.modules)); main(['fit', 'rows.csv'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "momentmix.fitting.api" in loaded
    assert not loaded & {"pandas", "sklearn", "matplotlib", "momentmix.reporting.report"}

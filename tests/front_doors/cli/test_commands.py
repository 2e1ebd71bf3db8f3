"""The commands where all is well: what they print, what they write, and how they stream."""

import json

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

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
    for words in ("Certificate", "verdict", "passed", "weight 0.7", "±", "model.json"):
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
    assert last == "The model is not saved: -o model.json saves it (seed 0)."
    printed = json.loads(momentmix("fit", "part-0.parquet", "-r", "2", "--json", "--seed", "3").out)
    assert (printed["output"], printed["seed"]) == (None, 3)
    assert sorted(tmp_path.iterdir()) == before
    momentmix("fit", "part-0.parquet", "-r", "2", "--json", "--seed", "3", "-o", "model.json")
    assert json.loads((tmp_path / "model.json").read_text())["fit"]["seed"] == 3


def test_rows_that_would_fill_the_memory_are_streamed(folder, momentmix, monkeypatch):
    def refuse(self):
        raise AssertionError("the rows were read into memory")

    monkeypatch.setattr("momentmix.fitting.data.SHARE_IN_MEMORY", 0.0)
    monkeypatch.setattr("momentmix.tables.table_rows.TableRows.read_within", refuse)
    done = momentmix("fit", "part-*.parquet", "-r", "2", "-o", "model.json", "--json")
    assert done.code == 0
    assert json.loads(done.out)["refine"] == "em"


def test_a_fit_that_did_not_pass_is_4_if_asked_and_writes_the_model(folder, momentmix):
    momentmix("summarize", "part-*.parquet", "-o", "x.mms")
    for file in ("x.mms", "part-0.parquet"):
        done = momentmix("fit", file, "-r", "1", "-o", "a.json", "--force")
        assert (done.code, "NOT PASSED" in done.out) == (0, True)
        assert "warning: the certificate did not pass" in done.err
        done = momentmix("fit", file, "-r", "1", "-o", "b.json", "--strict", "--force")
        assert done.code == 4
        assert mm.Mixture.load("b.json").n_components == 1
    assert momentmix("fit", "x.mms", "-r", "2", "-o", "e.json", "--strict").code == 0


def test_fit_of_some_columns_of_a_summary(folder, momentmix):
    momentmix("summarize", "part-*.parquet", "-o", "x.mms")
    done = momentmix("fit", "x.mms", "-r", "1", "--columns", "c,a", "-o", "m.json")
    assert done.code == 0, done.err
    assert mm.Mixture.load("m.json").feature_names == ("c", "a")


def test_the_number_of_components_is_found_by_default(folder, momentmix):
    done = momentmix("fit", "part-*.parquet", "-o", "m.json", "--json")
    assert len(json.loads(done.out)["weights"]) == 2


def test_long_tables_of_parameters_are_printed_when_asked_for(momentmix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    law = mm.Mixture.diagonal([0.5, 0.5], np.outer([-2, 2], np.ones(31)), np.ones((2, 31)))
    names = ["an_exact_name_of_thirty_letters", "n" * 40, *(f"x{j}" for j in range(29))]
    pd.DataFrame(law.sample(300, random_state=0)[0], columns=names).to_csv("t.csv", index=False)
    done = momentmix("fit", "t.csv", "-r", "2", "-o", "m.json", "-q")
    assert "weight" not in done.out
    assert len(done.out.splitlines()) <= 13
    done = momentmix("fit", "t.csv", "-r", "2", "-o", "m.json", "-q", "--verbose", "--force")
    assert done.out.count("an_exact_name_of_thirty_letters  ") == 2
    assert done.out.count("n" * 31 + "…  ") == 2
    assert done.out.count("± is half of a 95 % interval.") == 1


def test_predict_streams_labels(folder, momentmix, truth):
    done = momentmix("predict", "truth.json", "part-*.parquet")
    assert done.code == 0, done.err
    header, *labels = done.out.split()
    assert header == "label"
    np.testing.assert_array_equal(np.array(labels, dtype=int), truth.predict(folder))
    done = momentmix("predict", "truth.json", "part-*.parquet", "-o", "labels.csv")
    assert done.out == "labels of 3,000 rows written to labels.csv\n"
    again = momentmix(
        "predict", "truth.json", "part-*.parquet", "-o", "labels.csv", "--force", "-q"
    )
    assert again.out == ""


def test_predict_takes_columns_by_name_and_keeps_places_of_missing_rows(folder, momentmix, truth):
    frame = pd.DataFrame(folder[:5], columns=NAMES)[NAMES[::-1]].assign(note="x")
    frame.loc[2, "c"] = np.nan
    frame.to_csv("new.csv", index=False)
    done = momentmix("predict", "truth.json", "new.csv", "--missing", "drop")
    expected = [str(label) for label in truth.predict(folder[:5])]
    expected[2] = '""'
    assert done.out.split() == ["label", *expected]
    text = frame.to_csv(index=False).encode()
    done = momentmix("predict", "truth.json", "-", "--missing", "drop", stdin=text)
    assert done.out.split() == ["label", *expected]


def test_predict_names_a_row_that_no_component_is_the_best_for(folder, momentmix):
    lines = ["a,b,c,d,e", "1,2,3,4,5", ",2,3,4,5", "1,2,3,-1e200,5"]
    with open("far.csv", "w") as file:
        file.write("\n".join(lines) + "\n")
    done = momentmix("predict", "truth.json", "far.csv", "--missing", "drop", "-o", "labels.csv")
    assert done.code == 1
    assert "far.csv, line 4 lies more than 1e154 standard deviations away" in done.err

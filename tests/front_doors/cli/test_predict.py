"""`predict`: columns of the input beside the answers, and log-densities."""

import csv
import datetime
import gzip
import io
import json
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm

N_ROWS = 1000
NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def truth():
    means = [[0.0, 0.0, 0.0], [3.0, 3.0, 3.0]]
    return mm.Mixture.diagonal([0.5, 0.5], means, np.ones((2, 3)), NAMES)


@pytest.fixture
def frame(tmp_path, monkeypatch, truth):
    """Columns of text, some of it awkward in CSV, dates and numbers around the model's own."""
    monkeypatch.chdir(tmp_path)
    truth.save("model.json")
    frame = pd.DataFrame(truth.sample(N_ROWS, random_state=0)[0], columns=NAMES)
    awkward = ["", "x, y", 'say "no"', "two\nlines", " spaces ", "Zürich", "007", "NA"]
    frame.insert(0, "id", [f"c{i}" for i in range(N_ROWS)])
    frame.insert(2, "text", [awkward[i % len(awkward)] for i in range(N_ROWS)])
    frame["day"] = [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(N_ROWS)]
    frame["n"] = np.arange(N_ROWS)
    frame.to_csv("rows.csv", index=False)
    frame.to_parquet("rows.parquet", row_group_size=37)
    frame.to_feather("rows.feather")
    with gzip.open("rows.csv.gz", "wt", newline="") as file:
        frame.to_csv(file, index=False)
    return frame


def lines(text):
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "feather"])
def test_columns_are_copied_as_they_are(frame, momentmix, truth, ending):
    done = momentmix("predict", "model.json", f"rows.{ending}", "--keep", "text,day,id,n")
    assert done.code == 0, done.err
    header, *found = lines(done.out)
    assert header == ["text", "day", "id", "n", "label"]
    labels = truth.predict(frame[NAMES])
    columns = [frame["text"], frame["day"].astype(str), frame["id"], frame["n"], labels]
    assert found == [[str(x) for x in row] for row in zip(*columns, strict=True)]


def test_types_stay_in_parquet(frame, momentmix, truth):
    arguments = ("--keep", "day,n,id,a", "-o", "out.parquet")
    assert momentmix("predict", "model.json", "rows.parquet", *arguments).code == 0
    table = pyarrow.parquet.read_table("out.parquet")
    before = pyarrow.parquet.read_table("rows.parquet").select(["day", "n", "id", "a"])
    assert table.select(["day", "n", "id", "a"]).to_pydict() == before.to_pydict()
    assert [table.schema.field(name).type for name in "na"] == ["int64", "double"]
    np.testing.assert_array_equal(table["label"], truth.predict(frame[NAMES]))


def test_several_files_of_other_formats_and_orders_of_columns(frame, momentmix):
    frame[frame.columns[::-1]][:50].to_parquet("second.parquet")
    files = ("rows.csv", "second.parquet")
    done = momentmix("predict", "model.json", *files, "--keep", "id,n,text", "-o", "out.parquet")
    assert done.code == 0, done.err
    table = pyarrow.parquet.read_table("out.parquet")
    assert table["id"].to_pylist() == [*frame["id"], *frame["id"][:50]]
    assert table["n"].to_pylist() == [str(n) for n in [*frame["n"], *frame["n"][:50]]]
    assert table["text"].to_pylist()[:N_ROWS] == frame["text"].tolist()


def test_columns_without_names_by_number(frame, momentmix):
    np.save("rows.npy", frame[NAMES].to_numpy())
    found = lines(momentmix("predict", "model.json", "rows.npy", "--keep", "2").out)
    assert found[0] == ["column_2", "label"]
    assert [float(row[0]) for row in found[1:]] == frame["c"].tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_probabilities_with_all_digits(frame, momentmix, truth, ending):
    arguments = ("--keep", "id", "-p", "-o", f"out.{ending}", "--json")
    done = momentmix("predict", "model.json", "rows.csv", *arguments)
    assert sum(json.loads(done.out)["rows_per_component"]) == N_ROWS
    found = pd.read_csv("out.csv") if ending == "csv" else pd.read_parquet("out.parquet")
    assert list(found) == ["id", "label", "probability_0", "probability_1"]
    np.testing.assert_array_equal(found.iloc[:, 2:], truth.predict_proba(frame[NAMES]))


def test_log_density_of_each_row(frame, momentmix, truth):
    expected = truth.log_prob(frame[NAMES])
    frame.loc[[1, 3], "b"] = np.nan
    frame.to_csv("rows.csv", index=False)
    arguments = ("--density", "--missing", "drop", "--keep", "id")
    done = momentmix("predict", "model.json", "rows.csv", *arguments)
    assert (done.code, lines(done.out)[0]) == (0, ["id", "label", "log_density"])
    assert [lines(done.out)[i][1:] for i in (2, 4)] == [["", ""], ["", ""]]
    arguments += ("-p", "-o", "out.parquet", "--json")
    found = json.loads(momentmix("predict", "model.json", "rows.csv", *arguments).out)
    scores = pyarrow.parquet.read_table("out.parquet")["log_density"].to_numpy()
    known = ~np.isin(np.arange(N_ROWS), [1, 3])
    np.testing.assert_array_equal(scores[known], expected[known])
    assert np.isnan(scores[~known]).all()
    mean = pytest.approx(expected[known].mean(), rel=1e-12)
    assert found["log_likelihood_per_row"] == mean


# -- bad input --------------------------------------------------------------------------------


def test_other_text_than_utf_8_is_refused_by_line(frame, momentmix):
    with open("latin.csv", "wb") as file:
        file.write("id,a,b,c\nx,1,2,3\nZürich,1,2,3\n".encode("latin-1"))
    assert momentmix("predict", "model.json", "latin.csv").code == 0
    done = momentmix("predict", "model.json", "latin.csv", "--keep", "id", "-o", "out.csv")
    assert (done.code, "latin.csv, line 3, column 'id' is not UTF-8" in done.err) == (1, True), done
    assert "iconv" in done.err
    assert not os.path.exists("out.csv")


def test_columns_that_are_no_cells_are_refused(frame, momentmix):
    columns = {"id": [[1], [2]], "a": [1.0, 2.0], "b": [1.0, 2.0], "c": [1.0, 2.0]}
    pyarrow.parquet.write_table(pa.table(columns), "nested.parquet")
    done = momentmix("predict", "model.json", "nested.parquet", "--keep", "id")
    assert (done.code, "columns to keep cannot be written" in done.err) == (1, True), done


def test_a_kept_column_must_not_be_named_like_an_answer(frame, momentmix):
    frame.rename(columns={"id": "label"}).to_csv("x.csv", index=False)
    done = momentmix("predict", "model.json", "x.csv", "--keep", "label")
    message = "the output has a column 'label' of its own; rename that of the input"
    assert (done.code, message in done.err) == (1, True), done


def test_rows_are_read_as_those_of_the_fit_were(tmp_path, momentmix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).normal(size=(200, 2)).round(3)
    rows[3, 0] = np.nan
    table = pd.DataFrame(rows).to_csv(sep=";", decimal=",", header=False, index=False, na_rep="?")
    (tmp_path / "rows.csv").write_text(table)
    reading = ["--delimiter", ";", "--decimal", ",", "--na-values", "?", "--no-header"]
    options = [*reading, "--missing", "drop", "-r", "1", "-o", "m.json", "--report", "m.html"]
    done = momentmix("fit", "rows.csv", *options)
    assert done.code == 0, done.err
    assert "199 rows" in (tmp_path / "m.html").read_text()
    found = momentmix("predict", "m.json", "rows.csv", "--density", "--json", "-o", "labels.csv")
    labels = pd.read_csv("labels.csv")["label"]
    assert (found.code, json.loads(found.out)["n_rows"]) == (0, 199)
    assert labels.isna().to_numpy().nonzero()[0].tolist() == [3]
    assert momentmix("report", "m.json", "--data", "rows.csv", "-o", "n.html").code == 0


# -- levels that no row of the fit had ----------------------------------------------------------


@pytest.fixture
def levels(tmp_path, monkeypatch):
    """A model of a number and a plan, and a table in which a plan is new and others are missing."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(200), "plan": rng.choice(["gold", "tin"], 200)})
    mm.fit(frame, 1, random_state=0).mixture.save("model.json")
    frame = frame[:8].assign(id=range(8))
    frame.loc[3, "plan"] = "iron"
    return frame


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_new_levels_are_left_out_though_rows_with_missing_cells_are_dropped(
    levels, momentmix, ending
):
    levels.loc[5, "plan"] = None
    levels.loc[6, "x"] = np.nan
    write = levels.to_csv if ending == "csv" else levels.to_parquet
    write(f"x.{ending}", index=False)
    arguments = ("predict", "model.json", f"x.{ending}", "--density", "--keep", "id", "--unseen")
    found = lines(momentmix(*arguments, "missing", "--missing", "drop").out)[1:]
    assert [int(i) for i, _, score in found if not score] == [5, 6]
    expected = mm.Mixture.load("model.json").log_prob(levels, unseen="missing")
    scores = [float(score) for *_, score in found if score]
    np.testing.assert_allclose(scores, np.delete(expected, [5, 6]), rtol=1e-12)
    done = momentmix(*arguments, "missing")
    assert (done.code, "column 'plan'" in done.err) == (1, True), done
    assert ("line 7" if ending == "csv" else "row 5") in done.err
    done = momentmix(*arguments, "error", "--missing", "drop")
    assert (done.code, "'iron'" in done.err) == (1, True), done


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_column_without_any_level_is_warned_of(levels, momentmix, ending):
    levels["plan"] = [1, 2] * 4
    write = levels.to_csv if ending == "csv" else levels.to_parquet
    write(f"x.{ending}", index=False)
    done = momentmix("predict", "model.json", f"x.{ending}", "--unseen", "missing")
    assert done.code == 0, done.err
    assert "none of the 8 cells of column 1 ('plan') is a level of the model" in done.err


def test_all_rows_may_be_dropped(levels, momentmix):
    levels.assign(plan="gold", x=np.nan).to_csv("none.csv", index=False)
    done = momentmix("predict", "model.json", "none.csv", "--missing", "drop", "-p")
    assert (done.code, lines(done.out)[1:]) == (0, [["", ""]] * 8), done

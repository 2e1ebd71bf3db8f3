"""`score`: log-densities of rows one by one, and anomalies by a quantile or a threshold."""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest

import momentmix as mm

NAMES = ["a", "b", "c"]


@pytest.fixture(scope="module")
def truth():
    means = [[0.0, 0.0, 0.0], [3.0, 3.0, 3.0]]
    return mm.DiagonalMixture([0.5, 0.5], means, np.ones((2, 3)), NAMES)


@pytest.fixture
def frame(tmp_path, monkeypatch, truth):
    monkeypatch.chdir(tmp_path)
    truth.save("model.json")
    frame = pd.DataFrame(truth.sample(1000, random_state=0)[0], columns=NAMES)
    frame["id"] = [f"row {i}" for i in range(1000)]
    frame.to_csv("rows.csv", index=False)
    return frame


def test_log_density_of_each_row(frame, momentmix, truth):
    expected = truth.log_prob(frame[NAMES])
    done = momentmix("score", "model.json", "rows.csv", "--rows")
    header, *found = done.out.split()
    assert (done.code, header, done.err) == (0, "log_density", "")
    np.testing.assert_array_equal(np.array(found, dtype=float), expected)
    done = momentmix("score", "model.json", "rows.csv", "--rows", "--keep", "id", "-o", "s.parquet")
    table = pyarrow.parquet.read_table("s.parquet").to_pandas()
    assert table["id"].tolist() == frame["id"].tolist()
    np.testing.assert_array_equal(table["log_density"], expected)
    plain = momentmix("score", "model.json", "rows.csv").out
    assert done.out == plain + "scores written to s.parquet\n"


@pytest.mark.parametrize("quantile", [0.0001, 0.01, 0.0333, 0.5, 0.9999])
def test_anomalies_are_the_rows_below_the_quantile(frame, momentmix, truth, quantile):
    scores = truth.log_prob(frame[NAMES])
    arguments = ("--rows", "--quantile", quantile, "-o", "s.csv", "--json")
    found = json.loads(momentmix("score", "model.json", "rows.csv", *arguments).out)
    flags = pd.read_csv("s.csv")["anomaly"].to_numpy()
    np.testing.assert_array_equal(flags, scores < np.quantile(scores, quantile))
    assert found["n_anomalies"] == flags.sum()
    assert found["output"] == "s.csv"
    assert found["threshold"] in scores


def test_a_threshold_of_some_rows_serves_for_others(frame, momentmix, truth):
    done = momentmix("score", "model.json", "rows.csv", "--quantile", "0.02", "--json")
    threshold = json.loads(done.out)["threshold"]
    printed = momentmix("score", "model.json", "rows.csv", "--quantile", "0.02").out
    assert f"20 of 1,000 rows have a log-density below the threshold {threshold!r}\n" in printed
    again = momentmix("score", "model.json", "rows.csv", "--threshold", repr(threshold), "--json")
    assert json.loads(again.out)["n_anomalies"] == 20  # no digit is lost on the way
    rows = truth.sample(500, random_state=1)[0]
    rows[:5] += 20.0
    np.save("new.npy", rows)
    done = momentmix("score", "model.json", "new.npy", "--rows", "--threshold", threshold)
    flags = [line.endswith(",True") for line in done.out.split()[1:]]
    np.testing.assert_array_equal(flags, truth.log_prob(rows) < threshold)
    assert all(flags[:5])
    assert f"{sum(flags)} of 500 rows have a log-density below the threshold" in done.err


def test_dropped_rows_have_empty_fields_and_do_not_count(frame, momentmix, truth):
    frame.loc[[1, 3], "b"] = np.nan
    frame[:6].to_csv("holes.csv", index=False)
    arguments = ("--rows", "--missing", "drop", "--quantile", "0.5", "--keep", "id")
    done = momentmix("score", "model.json", "holes.csv", *arguments)
    found = [line.split(",") for line in done.out.splitlines()[1:]]
    assert [row[0] for row in found] == frame["id"][:6].tolist()
    assert [row[1:] for row in (found[1], found[3])] == [["", ""], ["", ""]]
    scores = truth.log_prob(frame.loc[[0, 2, 4, 5], NAMES])
    expected = (scores < np.quantile(scores, 0.5)).tolist()
    assert [row[2] == "True" for i, row in enumerate(found) if i not in (1, 3)] == expected


def test_rows_beyond_any_density_are_anomalies(frame, momentmix):
    frame.loc[[0, 7], "a"] = 1e200
    frame[:100].to_csv("far.csv", index=False)
    done = momentmix("score", "model.json", "far.csv", "--rows", "--quantile", "0.015")
    flags = [line.endswith("True") for line in done.out.splitlines()[1:]]
    assert [i for i, flag in enumerate(flags) if flag] == [0, 7]


@pytest.mark.parametrize("arguments", [(), ("--quantile", "0.1")])
def test_no_rows(frame, momentmix, arguments):
    frame[:0].to_csv("none.csv", index=False)
    done = momentmix("score", "model.json", "none.csv", "--rows", "-o", "s.csv", *arguments)
    assert (done.code, "none.csv holds no rows" in done.err) == (65, True), done
    assert not pd.io.common.file_exists("s.csv")

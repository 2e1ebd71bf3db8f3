"""A mixture takes files and queries where it takes rows, with the same answers."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix import open_rows
from momentmix.errors import FitWarning

LAW = mm.Mixture.from_blocks(
    [0.6, 0.4],
    [
        mm.GaussianBlock([35.0, 55.0], [64.0, 100.0], "age", seen=[0.9, 0.6]),
        mm.PoissonBlock([1.0, 4.0], names="visits"),
        mm.CategoricalBlock([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]], ("a", "b", "c"), names="plan"),
    ],
)
METHODS = ["predict", "predict_proba", "log_prob"]


@pytest.fixture
def frame():
    frame = pd.DataFrame(LAW.sample(500, random_state=0)[0])
    return frame.assign(note="text", visits=frame["visits"].astype(int))[
        ["note", "plan", "visits", "age"]
    ]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_give_what_their_rows_give(method, ending, frame, tmp_path):
    path = tmp_path / f"rows.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    expected = getattr(LAW, method)(frame[["age", "visits", "plan"]])
    twin = tmp_path / f"twin.{ending}"
    twin.write_bytes(path.read_bytes())
    for rows in (path, str(path), [path, twin], open_rows(path).changed(block_rows=64)):
        found = getattr(LAW, method)(rows)
        times = 2 if isinstance(rows, list) else 1  # equal files are no error here
        np.testing.assert_array_equal(found, np.concatenate([expected] * times))


def test_queries_and_streams_are_read(frame, tmp_path):
    pa = pytest.importorskip("pyarrow")
    expected = LAW.predict(frame.drop(columns="note"))
    reader = pa.Table.from_pandas(frame).to_reader(max_chunksize=100)
    np.testing.assert_array_equal(LAW.predict(reader), expected)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with open(tmp_path / "rows.csv", "rb") as stream:
        np.testing.assert_array_equal(LAW.predict(stream), expected)


def test_plain_numbers_by_name_and_by_place(tmp_path):
    mixture = mm.Mixture([0.5, 0.5], [[0, 0], [5, 9]], [np.eye(2)] * 2, feature_names=["a", "b"])
    rows = np.random.default_rng(0).normal(4, 3, size=(50, 2))
    rows[3, 0] = np.nan
    expected = mixture.log_prob(rows)
    swapped = pd.DataFrame({"b": rows[:, 1], "c": 1.0, "a": rows[:, 0]})
    swapped.to_csv(tmp_path / "named.csv", index=False)
    # To rounding: blocks with a missing cell add in another order than rows without any.
    found = mixture.log_prob(tmp_path / "named.csv")
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    source = open_rows(tmp_path / "named.csv", missing="drop")
    np.testing.assert_allclose(mixture.log_prob(source), np.delete(expected, 3), rtol=1e-14)
    np.save(tmp_path / "rows.npy", rows)
    np.testing.assert_allclose(mixture.log_prob(tmp_path / "rows.npy"), expected, rtol=1e-14)
    unnamed = mm.Mixture(mixture.weights, mixture.means, mixture.covariances)
    frame = pd.DataFrame({"1": rows[:, 1], "0": rows[:, 0]})
    frame.to_parquet(tmp_path / "numbered.parquet")
    found = unnamed.log_prob(tmp_path / "numbered.parquet")
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    frame.to_csv(tmp_path / "other.csv", index=False, header=["x", "y"])
    with pytest.warns(UserWarning, match="the mixture has none: columns are taken by position"):
        unnamed.log_prob(tmp_path / "other.csv")


def test_what_does_not_match_is_said(frame, tmp_path):
    path = tmp_path / "rows.csv"
    frame.drop(columns="plan").to_csv(path, index=False)
    with pytest.raises(mm.InputError, match="'plan' is missing"):
        LAW.predict(path)
    with pytest.raises(mm.InputError, match="those of the mixture, in any order; 'plan' is mis"):
        LAW.predict(open_rows(path, exclude=["note"]))
    np.save(tmp_path / "rows.npy", np.ones((4, 2)))
    with pytest.raises(mm.InputError, match=r"the 3 columns of the mixture; got 2\. Select"):
        LAW.predict(tmp_path / "rows.npy")
    frame.assign(plan="d").to_csv(path, index=False)
    with pytest.raises(mm.InputError, match="'d'"):
        LAW.predict(path)
    with pytest.warns(FitWarning, match=r"none of the \d+ cells of column"):
        left_out = LAW.predict(path, unseen="missing")
    np.testing.assert_array_equal(
        left_out, LAW.predict(frame.assign(plan=None).drop(columns="note"))
    )
    frame[:0].to_csv(path, index=False)
    with pytest.raises(mm.InputError, match=r"rows.csv holds no rows"):
        LAW.predict(path)
    with pytest.raises(mm.InputError, match=r"nowhere.csv does not exist"):
        LAW.predict("nowhere.csv")


def test_numbers_that_are_text_are_said():
    rows = {"age": ["31", "40"], "visits": [1, 2], "plan": ["a", "b"]}
    with pytest.raises(TypeError, match=r"row 0, column 0 \('age'\) holds '31'. Convert the col"):
        LAW.predict(rows)

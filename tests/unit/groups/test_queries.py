"""Cubes of queries: one run gives features and keys, and the groups are those of the file."""

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import momentmix as mm

ENGINES = ["duckdb", "polars"]


@pytest.fixture
def path(tmp_path):
    table = pa.table({
        "region": ["EU", "US", None, "EU", "US"] * 40,
        "day": pa.array([20_000 + i % 3 for i in range(200)], pa.int32()).cast(pa.date32()),
        "x": [float(i * i % 17) for i in range(200)],
        "amount": pa.array(range(200), pa.int64()).cast(pa.decimal128(22, 2)),
        "note": ["a", "b"] * 100,
    })  # fmt: skip
    pa.parquet.write_table(table, tmp_path / "sales.parquet")
    return str(tmp_path / "sales.parquet")


def query(engine, path, condition=False):
    if engine == "duckdb":
        relation = pytest.importorskip("duckdb").read_parquet(path)
        return relation.filter("amount >= 50") if condition else relation
    frame = pl.scan_parquet(path)
    return frame.filter(pl.col("amount") >= 50) if condition else frame


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_of_a_query_are_those_of_the_file(path, engine):
    found = mm.summarize_by(query(engine, path), "region, week(day)", 2, exclude=["amount"])
    expected = mm.summarize_by(path, "region, week(day)", 2, exclude=["amount"])
    assert list(found) == list(expected)
    assert found.total().schema == expected.total().schema
    for key in expected:
        assert found[key].n_rows == expected[key].n_rows
        assert found[key].mean.tolist() == expected[key].mean.tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_conditions_are_those_of_the_query(path, engine):
    found = mm.summarize_by(query(engine, path, True), "region", 2, columns=["x", "amount"])
    assert found.group_rows == {("EU",): 60, ("US",): 60, (None,): 30}
    assert found[("EU",)].mean[1] == sum(i for i in range(50, 200) if i % 5 in (0, 3)) / 60


def test_a_query_runs_once_for_features_and_keys():
    runs = []

    def note(column):
        runs.append(len(column))
        return column

    frame = pl.LazyFrame({"x": [0.5, 1.5, 2.5] * 10, "key": [1, 2, 1] * 10})
    x, numbers = pl.col("x"), {"return_dtype": pl.Float64}
    lazy = frame.with_columns(x.map_batches(note, **numbers))
    cube = mm.summarize_by(lazy, "key", 1, columns=["x", "key"])
    assert cube.group_rows == {(1,): 20, (2,): 10}
    assert sum(runs) == 30

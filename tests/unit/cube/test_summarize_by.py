"""One pass, many groups: against summaries of each group alone."""

import datetime as dt
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import momentmix as mm
from momentmix.cube import grouping
from momentmix.cube.grouping import KeyIndex
from momentmix.errors import InputError

N = 3000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        rng.normal(size=(N, 3)) * [1, 5, 100] + [0, 3, -7], columns=["a", "b", "c"]
    )
    table["region"] = rng.choice(["EU", "US", "Asia", None], N)
    table["store"] = rng.integers(0, 4, N)
    minutes = rng.integers(0, 60 * 24 * 60, N)
    table["ts"] = pd.Timestamp("2025-12-20") + pd.to_timedelta(minutes, "m")
    return table


def alone(part):
    return mm.summarize(part[["a", "b", "c"]].to_numpy(), shard_id="alone")


def check_groups(cube, groups):
    """The cube has these groups, and the moments of each."""
    assert set(cube) == set(groups)
    for key, part in groups.items():
        summary, expected = cube[key], alone(part)
        assert summary.n_rows == len(part)
        assert summary.mean == pytest.approx(expected.mean, rel=1e-12)
        assert summary.tensor(3).values == pytest.approx(expected.tensor(3).values, rel=1e-9)
        np.testing.assert_array_equal(summary.minimum, part[["a", "b", "c"]].min())


def regions_and_weeks(frame):
    weeks = frame["ts"].dt.to_period("W-SUN").dt.start_time.dt.date
    pairs = zip(frame["region"], weeks, strict=True)
    keys = [(region if isinstance(region, str) else None, week) for region, week in pairs]
    return {key: frame[[other == key for other in keys]] for key in dict.fromkeys(keys)}


def test_groups_are_those_of_their_rows(frame):
    cube = mm.summarize_by(frame, by=["region", "week(ts)"], exclude=["store"])
    check_groups(cube, regions_and_weeks(frame))
    assert cube.key_names == ("region", "week")
    two = mm.summarize_by(frame.assign(end=frame["ts"]), by="week(ts), week(end)", columns=["a"])
    assert two.key_names == ("week_ts", "week_end")
    assert next(iter(cube)) == ("Asia", dt.date(2025, 12, 15))
    assert list(cube)[-1][0] is None  # missing keys come last
    assert cube.n_rows == N


@pytest.mark.parametrize("kind", ["polars", "arrow", "csv", "parquet", "feather", "jsonl"])
def test_the_same_groups_from_every_kind_of_table(frame, kind, tmp_path):
    data = frame
    if kind == "polars":
        data = pl.from_pandas(frame)
    elif kind == "arrow":
        data = pa.Table.from_pandas(frame)
    elif kind == "csv":
        frame.to_csv(data := tmp_path / "x.csv", index=False)
    elif kind == "parquet":
        frame.to_parquet(data := tmp_path / "x.parquet")
    elif kind == "feather":
        frame.to_feather(data := tmp_path / "x.feather")
    else:
        texts = {"ts": frame["ts"].astype(str), "region": frame["region"].astype(object)}
        lines = frame.assign(**texts).replace({np.nan: None}).to_dict("records")
        (data := tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, lines)))
    cube = mm.summarize_by(data, by="region, week(ts)", exclude=["store"])
    check_groups(cube, regions_and_weeks(frame))


def test_periods_are_those_of_the_calendar(frame):
    for unit, rule in [("year", "Y"), ("quarter", "Q"), ("month", "M"), ("day", "D")]:
        cube = mm.summarize_by(frame, by=f"{unit}(ts)", columns=["a"])
        starts = frame["ts"].dt.to_period(rule).dt.start_time.dt.date
        assert cube.group_rows == {(day,): n for day, n in starts.value_counts().items()}
    cube = mm.summarize_by(frame, by="hour(ts)", columns=["a"])
    hours = frame["ts"].dt.floor("h")
    assert {key[0] for key in cube} == set(hours.dt.to_pydatetime())


def test_rows_that_wait_change_no_byte(frame, monkeypatch):
    options = {"by": ["store", "week(ts)"], "columns": ["a", "b", "c"]}
    expected = mm.summarize_by(frame, **options)
    monkeypatch.setattr(grouping, "WAITING_BYTES", 1 << 12)
    found = mm.summarize_by(frame, **options)
    assert [found[key].to_bytes() for key in found] == [
        expected[key].to_bytes() for key in expected
    ]


def test_the_sum_of_a_cube_is_the_summary_of_the_whole(frame):
    cube = mm.summarize_by(frame, by=["store", "region"], columns=["a", "b", "c"])
    total, whole = cube.total(), mm.summarize(frame[["a", "b", "c"]])
    assert total.n_rows == whole.n_rows == N
    for order in (1, 2, 3):
        assert total.tensor(order).values == pytest.approx(
            whole.tensor(order).values, rel=1e-11, abs=1e-13
        )
    summaries = [cube[key] for key in cube]
    rng = np.random.default_rng(1)
    for _ in range(3):
        shuffled = [summaries[i] for i in rng.permutation(len(summaries))]
        assert sum(shuffled[1:], shuffled[0]).to_bytes() == total.to_bytes()
    by_store = cube.rollup("store")
    assert by_store.total().to_bytes() == total.to_bytes()


def test_categories_and_missing_cells_have_one_schema(frame):
    table = frame.assign(plan=np.where(frame["a"] > 0, "x", "y"))
    table.loc[::7, "b"] = np.nan
    table = table[["a", "b", "plan", "store"]]
    cube = mm.summarize_by(table, by="store", missing="model")
    assert cube.schema is not None
    assert "plan" in cube.schema.column_names
    total, whole = cube.total(), mm.summarize(table.drop(columns="store"), missing="model")
    assert total.feature_names == whole.feature_names
    assert total.mean == pytest.approx(whole.mean, rel=1e-11)
    result = mm.fit(total, 2, random_state=0)
    assert result.mixture.n_columns == 3


def test_rows_with_missing_cells_can_be_dropped(frame):
    table = frame[["a", "b", "region"]].copy()
    table.loc[::5, "a"] = np.nan
    cube = mm.summarize_by(table, by="region", missing="drop")
    kept = table[table["a"].notna()]
    assert cube.n_rows == len(kept)  # rows whose key is missing are not dropped
    assert cube[(None,)].n_rows == kept["region"].isna().sum()
    with pytest.raises(InputError, match="row 0"):
        mm.summarize_by(table, by="region")


def test_keys_of_folders(frame, tmp_path):
    for (region, store), part in frame.dropna().groupby(["region", "store"]):
        folder = tmp_path / f"region={region}" / f"store={store}"
        folder.mkdir(parents=True)
        part[["a", "b", "c", "ts"]].to_parquet(folder / "part-0.parquet", index=False)
    cube = mm.summarize_by(tmp_path, by="region,store", exclude=["ts"])
    known = frame.dropna()
    check_groups(cube, dict(list(known.groupby(["region", "store"]))))
    mixed = mm.summarize_by(tmp_path, by=["region", "month(ts)"])
    assert mixed.n_rows == len(known)
    odd = tmp_path / "region=EU" / "store=007"
    odd.mkdir()
    frame[["a", "b", "c", "ts"]].head(5).to_parquet(odd / "part-0.parquet", index=False)
    stores = {key[0] for key in mm.summarize_by(tmp_path, by="store", exclude=["ts"])}
    assert stores == {"0", "1", "2", "3", "007"}  # 007 is no number, so all are text
    nothing = tmp_path / "region=__HIVE_DEFAULT_PARTITION__" / "store=1"
    nothing.mkdir(parents=True)
    frame[["a", "b", "c", "ts"]].tail(9).to_parquet(nothing / "part-0.parquet", index=False)
    assert mm.summarize_by(tmp_path, by="region", exclude=["ts"])[(None,)].n_rows == 9


def test_small_groups_can_be_left_out(frame):
    cube = mm.summarize_by(frame, by="day(ts)", columns=["a"], min_rows=50)
    counts = frame.groupby(frame["ts"].dt.date).size()
    assert {key[0]: n for key, n in cube.group_rows.items()} == counts[counts >= 50].to_dict()
    assert cube.left_out == ((counts < 50).sum(), counts[counts < 50].sum())
    with pytest.raises(InputError, match="min_rows must be"):
        mm.summarize_by(frame, by="store", min_rows=0)


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("nonsense", "has no column 'nonsense' to group by"),
        ("ts", "holds times .* week\\(ts\\)"),
        ("a", "numbers must be whole"),
        ("week(store)", "needs dates"),
        ("decade(ts)", "must be year\\(column\\)"),
        ("store,store", "given twice"),
        ([], "by must be names"),
        ([3], "by must be names"),
        ("n_rows", "cannot be called 'n_rows'"),
    ],
)
def test_keys_that_cannot_be(frame, by, message):
    with pytest.raises(mm.MomentmixError, match=message):
        mm.summarize_by(frame, by=by, exclude=["region"])


def test_numbers_that_would_collide_are_refused():
    table = pd.DataFrame({"key": [2**53, 2**53, 5], "x": [1.0, 2.0, 3.0]})
    for sign in (1, -1):
        with pytest.raises(InputError, match=r"less than 2\^53, from .* got -?9007199254740992"):
            mm.summarize_by(table.assign(key=sign * table["key"]), by="key")
    largest = table.assign(key=2**53 - table.index - 1)
    assert [key for (key,) in mm.summarize_by(largest, by="key")] == largest["key"].tolist()[::-1]
    cube = mm.summarize_by(table.assign(key=table["key"].astype(str)), by="key")
    assert len(cube) == 2


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_two_keys_of_one_column(tmp_path, kind):
    times = pd.to_datetime(["2026-01-05 08:30", "2026-02-12 09:10", "1969-12-31 23:59", None] * 2)
    table = pd.DataFrame({"x": np.arange(8.0) ** 2, "ts": times})
    rows = table
    if kind != "frame":
        rows = tmp_path / f"x.{kind}"
        table.to_csv(rows, index=False) if kind == "csv" else table.to_parquet(rows)
    cube = mm.summarize_by(rows, by="quarter(ts), day(ts), hour(ts)")
    assert list(cube) == [
        (dt.date(1969, 10, 1), dt.date(1969, 12, 31), dt.datetime(1969, 12, 31, 23)),
        (dt.date(2026, 1, 1), dt.date(2026, 1, 5), dt.datetime(2026, 1, 5, 8)),
        (dt.date(2026, 1, 1), dt.date(2026, 2, 12), dt.datetime(2026, 2, 12, 9)),
        (None, None, None),
    ]
    assert set(cube.group_rows.values()) == {2}


def test_many_values_of_many_keys():
    """The product of the numbers of values leaves 64 bits."""
    rng = np.random.default_rng(0)
    keys = np.column_stack([rng.permutation(70_000) for _ in range(4)])
    keys[-1] = keys[0]
    index = KeyIndex()
    numbers = index.numbers(list(keys.T))
    assert len(index.keys) == 69_999
    assert numbers[-1] == numbers[0]
    found = list(index.keys)
    assert [found[i] for i in numbers] == list(map(tuple, keys.tolist()))


CSV_KEYS = [
    (["01", "1", "2"], ["01", "1", "2"]),
    (["0", "1", "00"], ["0", "00", "1"]),
    (["a", "a ", "b"], ["a", "a ", "b"]),
    (["a ", "b"], ["a ", "b"]),
    (["1", "1 ", "2"], ["1", "1 ", "2"]),
    ([" EU", " US"], ["EU", "US"]),
    ([" a", "a"], [" a", "a"]),
    (["3", "-1", "", "10"], [-1, 3, 10, None]),
    (["1.0", "2.0", "nan"], [1, 2, None]),
    (['"1"', '"2"'], [1, 2]),
    ([str(2**53), str(2**53 + 1)], [2**53, 2**53 + 1]),
    ([str(2**63), "1"], ["1", str(2**63)]),
    ([*["1"] * 1005, "A7"], ["1", "A7"]),
    (["true", "false "], [False, True]),
]


@pytest.mark.parametrize(("fields", "keys"), CSV_KEYS)
def test_keys_of_csv_stay_as_they_are_written(tmp_path, fields, keys):
    lines = [f"{field},{i * i % 7}.5" for i, field in enumerate(fields)]
    (tmp_path / "x.csv").write_text("\n".join(["k,x", *lines]))
    cube = mm.summarize_by(tmp_path / "x.csv", by="k")
    assert [key for (key,) in cube] == keys
    assert cube.n_rows == len(fields)
    cube.save(tmp_path / "cube.parquet")
    assert mm.SummaryCube.load(tmp_path / "cube.parquet") == cube


@pytest.mark.parametrize("pair", [("1e3", "1000"), ("1.0", "1"), ("+5", "5"), ("-0", "0")])
def test_several_texts_of_one_number_are_one_group_with_a_note(tmp_path, pair):
    lines = [f"{field},{i * i % 7}.5" for i, field in enumerate([*pair, "7"])]
    (tmp_path / "x.csv").write_text("\n".join(["k,x", *lines]))
    with pytest.warns(UserWarning, match=r"key 'k': .* and .* are one number, and so one group"):
        cube = mm.summarize_by(tmp_path / "x.csv", by="k")
    assert sorted(cube.group_rows.values()) == [1, 2]


@pytest.mark.parametrize("field", ["1.5", "1e17", "inf"])
def test_numbers_of_csv_that_are_no_keys(tmp_path, field):
    (tmp_path / "x.csv").write_text(f"k,x\n1,0.5\n{field},2.5\n")
    with pytest.raises(InputError, match="key 'k': numbers must be whole, and less than"):
        mm.summarize_by(tmp_path / "x.csv", by="k")


def test_the_index_that_pandas_writes_is_no_feature(frame, tmp_path):
    path = tmp_path / "x.parquet"
    frame[["a", "b", "c", "region"]][frame["a"] > 0].to_parquet(path)  # the index has gaps
    with pytest.warns(UserWarning, match="the index of a pandas frame"):
        cube = mm.summarize_by(path, by="region")
    assert cube.feature_names == ("a", "b", "c")
    asked = mm.summarize_by(path, by="region", columns=["a", "__index_level_0__"])
    assert asked.feature_names == ("a", "__index_level_0__")


def test_columns_without_names_go_by_number(tmp_path):
    rows = np.array([[0.5, 3], [1.5, 4], [2.5, 3]])
    np.save(tmp_path / "x.npy", rows)
    (tmp_path / "x.csv").write_text("0.5,3\n1.5,4\n2.5,3\n")
    for data in (rows, rows.tolist(), tmp_path / "x.npy", tmp_path / "x.csv"):
        cube = mm.summarize_by(data, by="1")
        assert cube.group_rows == {(3,): 2, (4,): 1}
        assert cube.total().mean.tolist() == [1.5]
    with pytest.raises(InputError, match=r"has no column '2' to group by.* it has '0', '1'"):
        mm.summarize_by(rows, by="2")


def test_rows_that_are_open_keep_their_columns_and_policy(frame):
    table = frame.assign(a=frame["a"].where(frame["store"] != 2))
    opened = mm.open_rows(table, columns=["a", "store"], missing="drop")
    cube = mm.summarize_by(opened, by="store")
    assert cube.feature_names == ("a",)
    assert {key for (key,) in cube} == {0, 1, 3}
    with pytest.raises(
        InputError, match=r"columns= \(.*\) is for tables; the rows are opened already"
    ):
        mm.summarize_by(opened, by="store", columns=["a"])
    with pytest.raises(InputError, match="no column beside the keys"):
        mm.summarize_by(mm.open_rows(table, columns=["store"]), by="store")
    with pytest.raises(InputError, match=r"na_values= \(.*\) is for files"):
        mm.summarize_by(table, by="store", na_values=["-"])


def test_categories_that_are_numbers():
    table = pd.DataFrame({"x": [1.0, 2.0, 4.0], "k": pd.Categorical([7, 3, 7])})
    assert mm.summarize_by(table, by="k").group_rows == {(3,): 1, (7,): 2}
    with pytest.raises(InputError, match="numbers must be whole"):
        mm.summarize_by(table.assign(k=pd.Categorical([1.5, 2, 1.5])), by="k")


def test_a_cell_of_csv_that_is_neither_true_nor_false(tmp_path):
    lines = [*(f"{i % 7}.5,{'true' if i % 3 else 'False'}" for i in range(1100)), "1.5,3"]
    (tmp_path / "x.csv").write_text("\n".join(["x,k", *lines]))
    with pytest.raises(InputError, match="line 1102, column 'k': '3' is neither true nor false"):
        mm.summarize_by(tmp_path / "x.csv", by="k")


def test_csv_beside_other_files_has_their_keys(tmp_path):
    pd.DataFrame({"x": [0.5, 1.0], "k": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("x,k\n2.5,2\n4.0,\n8.0, 3\n")
    cube = mm.summarize_by(tmp_path, by="k")
    assert cube.group_rows == {(1,): 1, (2,): 2, (3,): 1, (None,): 1}
    lines = [f"{i % 7}.5,{i % 3}" for i in range(1100)]
    (tmp_path / "b.csv").write_text("\n".join(["x,k", *lines, "1.5,A7"]))
    with pytest.raises(InputError, match=r"b.csv, line 1102, column 'k': 'A7' is not a number"):
        mm.summarize_by(tmp_path, by="k")


def test_a_column_of_dates_in_one_file_and_of_numbers_in_another(tmp_path):
    (tmp_path / "a.csv").write_text("x,k\n2.5,2026-01-05\n1.5,2026-01-06\n")
    (tmp_path / "b.csv").write_text("x,k\n2.5,3\n7.5,4\n")
    with pytest.raises(InputError, match="must hold the same in all inputs; column 'k' is date"):
        mm.summarize_by(tmp_path, by="k")


def test_days_of_any_library_are_keys():
    days = [dt.date(2026, 1, 5), None, dt.date(1969, 12, 31), dt.date(2026, 1, 5)]
    x = [0.5, 1.5, 2.5, 3.5]
    numpy_days = np.array(days, dtype="M8[D]")
    tables = [
        pd.DataFrame({"x": x, "k": days}),
        pl.DataFrame({"x": x, "k": days}),
        pa.table({"x": x, "k": pa.array(days)}),
        pa.table({"x": x, "k": pa.array(days, pa.date64())}).to_reader(),
        {"x": x, "k": numpy_days},
    ]
    for table in tables:
        cube = mm.summarize_by(table, by="k", columns=["x"])
        assert cube.group_rows == {(days[2],): 1, (days[0],): 2, (None,): 1}
    with pytest.raises(InputError, match=r"'k' holds times .* by day\(k\)"):
        mm.summarize_by({"x": x, "k": numpy_days.astype("M8[h]")}, by="k")
    with pytest.raises(InputError, match=r"needs dates"):
        mm.summarize_by({"x": x, "k": numpy_days - numpy_days[0]}, by="day(k)")


def test_small_groups_have_the_bytes_of_groups_that_are_summed_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    n, store = 3000, rng.integers(0, 400, 3000) ** 2 // 400
    frame = pd.DataFrame({"store": store, "x": rng.normal(size=n), "flat": store * 0.1})
    frame["half"] = rng.integers(-3, 4, n) / 2  # means that are half a unit
    frame["zero"] = np.where(store % 3, rng.normal(size=n), 0.0)
    frame["wild"] = np.where(rng.random(n) < 0.01, 1e9, rng.normal(1e6, 1.0, n))
    frame["gap"] = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    for columns in (frame.drop(columns="gap"), frame[["store", "x", "half", "gap"]]):
        cubes = []
        for rows in (1024, 0):
            monkeypatch.setattr(grouping, "block_rows", lambda *_, rows=rows: rows)
            cubes.append(mm.summarize_by(columns, by="store", missing="model"))
        assert len(cubes[0]) > 200
        for key in cubes[0]:
            assert cubes[0][key].to_bytes() == cubes[1][key].to_bytes()
        assert cubes[0].total().to_bytes() == sum(cubes[1].values()).to_bytes()

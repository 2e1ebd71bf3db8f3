"""The contract of groups over keys: a cube is a mapping, adds up exactly, and is what the rows are.

Cells are halves, so that all float64 sums are exact, and a cube can be compared with one pass over
the rows of a group bit by bit.
"""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import momentmix as mm
from momentmix.errors import InputError, ShardError

laws = settings(max_examples=12, deadline=None)
KEYS = st.sampled_from(["a", "b", "c10", "c9", None])
DAYS = st.one_of(st.none(), st.dates(dt.date(1890, 1, 1), dt.date(2100, 1, 1)))


@st.composite
def tables(draw, largest=14):
    """Rows with a key of text and one of dates, and a column with missing cells."""
    n = draw(st.integers(1, largest))
    halves = st.lists(st.integers(-9, 9).map(lambda k: k / 2), min_size=n, max_size=n)
    table = pd.DataFrame({"x": draw(halves), "y": draw(halves)})
    table["plan"] = draw(st.lists(st.sampled_from(["basic", "gold"]), min_size=n, max_size=n))
    some = st.lists(st.one_of(st.none(), st.just(1.5), st.just(-2.0)), min_size=n, max_size=n)
    table["gap"] = pd.array(draw(some.filter(lambda cells: {*cells} != {None})), dtype="float64")
    table["key"] = pd.Series(draw(st.lists(KEYS, min_size=n, max_size=n)), dtype=object)
    table["day"] = pd.Series(draw(st.lists(DAYS, min_size=n, max_size=n)), dtype=object)
    return table


FAMILIES = {"plan": ["basic", "gold"]}


def cube_of(table, by="key, month(day)", **options):
    return mm.summarize_by(table, by, families=FAMILIES, missing="model", **options)


def month(day):
    return None if day is None else day.replace(day=1)


@laws
@given(tables())
def test_a_group_has_the_sums_of_its_rows(table):
    cube = cube_of(table)
    keys = [(key, month(day)) for key, day in zip(table["key"], table["day"], strict=True)]
    assert set(cube) == {*keys}
    for key in cube:
        part = table[[other == key for other in keys]].drop(columns=["key", "day"])
        alone = mm.summarize(part, families=cube.total().schema, missing="model")
        assert cube[key].n_rows == len(part)
        assert cube[key].mean.tolist() == alone.mean.tolist()
        assert cube[key].minimum[:2].tolist() == alone.minimum[:2].tolist()
        np.testing.assert_array_equal(cube[key].moments(0, 1).powers, alone.moments(0, 1).powers)


@laws
@given(tables())
def test_the_total_is_the_summary_of_all_rows(table):
    cube, whole = (
        cube_of(table),
        mm.summarize(table.drop(columns=["key", "day"]), families=FAMILIES, missing="model"),
    )
    total = cube.total()
    assert total.n_rows == cube.n_rows == whole.n_rows
    assert total.mean.tolist() == whole.mean.tolist()
    for order in (1, 2, 3, 4):
        a, b = (each.moments(0, 1).distinct[order] for each in (total, whole))
        np.testing.assert_array_equal(a, b)
    by_key = cube.rollup("key")
    assert by_key.total().to_bytes() == cube.rollup("month").total().to_bytes() == total.to_bytes()


@laws
@given(st.lists(tables(), min_size=3, max_size=3), st.permutations(range(3)))
def test_cubes_add_up_in_any_order_and_subtracting_undoes_it(parts, order):
    a, b, c = (cube_of(part.assign(x=part["x"] + 64 * i)) for i, part in enumerate(parts))
    whole = a + b + c
    cubes = [(a, b, c)[i] for i in order]
    other = cubes[0] + (cubes[1] + cubes[2])
    assert [*other] == [*whole]
    for key in whole:
        assert other[key].to_bytes() == whole[key].to_bytes()
    assert sum([a, b, c]) == whole
    assert whole - b == a + c
    assert whole - a - b - c == a - a
    assert len(a - a) == 0
    with pytest.raises(ShardError, match="count twice"):
        _ = a + a


@laws
@given(tables(), st.data())
def test_a_cube_is_a_mapping(table, data):
    cube = cube_of(table.drop(columns="day"), "key")
    keys = [*cube]
    assert len(cube) == len(keys) == len({*keys})
    assert keys == sorted(keys, key=lambda key: ["a", "b", "c9", "c10", None].index(key[0]))
    key = data.draw(KEYS)
    assert (key in cube) == ((key,) in cube) == ((key,) in keys) == (key in [x for (x,) in keys])
    if key in cube:
        assert cube[key] == cube[key,] == dict(cube.items())[key,] == cube.get(key)
    else:
        assert cube.get(key) is None
        with pytest.raises(KeyError):
            cube[key]
    for none in ((), ("a", "b"), 5, ("a", None)):
        assert none not in cube
    with pytest.raises(TypeError):
        _ = ["a"] in cube
    part = cube.where(key=["a", "b"])
    assert cube - part == cube.where(key=lambda value: value not in ("a", "b"))


@laws
@given(tables(), st.integers(0, 3))
def test_files_keep_every_byte(tmp_path_factory, table, least):
    cube = cube_of(table).at_least(least)
    path = tmp_path_factory.mktemp("cubes") / "cube.parquet"
    cube.save(path)
    again = mm.SummaryCube.load(path)
    assert (again.key_names, [*again]) == (cube.key_names, [*cube])
    assert [x.to_bytes() for x in again.values()] == [x.to_bytes() for x in cube.values()]


UNITS = {"year": "Y", "quarter": "Q", "month": "M", "week": "W-SUN", "day": "D", "hour": "h"}


@laws
@given(
    st.lists(st.one_of(st.none(), st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))),
             min_size=1, max_size=8),
    st.sampled_from([*UNITS]),
    st.sampled_from(["us", "ns", "text", "ms"]),
)  # fmt: skip
def test_periods_are_those_of_pandas(times, unit, kind):
    starts = pd.Series(times, dtype="M8[us]").dt.to_period(UNITS[unit]).dt.start_time
    starts = [None if x is pd.NaT else x.to_pydatetime() for x in starts.dt.floor("us")]
    wanted = {x if unit == "hour" or x is None else x.date() for x in starts}
    if kind == "text":
        cells = pa.array([None if x is None else x.isoformat() for x in times])
    else:
        cells = pa.array(times, pa.timestamp("us")).cast(pa.timestamp(kind), safe=False)
    rows = pa.table({"ts": cells, "x": np.arange(len(times)) / 2})
    assert {key for (key,) in mm.summarize_by(rows, f"{unit}(ts)", columns=["x"])} == wanted


# -- keys of all kinds of tables ---------------------------------------------------------------


@pytest.fixture(scope="module")
def frame():
    rng, n = np.random.default_rng(0), 3000
    table = pd.DataFrame(rng.normal(size=(n, 3)) * [1, 5, 100] + [0, 3, -7], columns=list("abc"))
    table["region"] = rng.choice(["EU", " US", "Asia", None], n)
    table["store"] = rng.integers(0, 12, n)
    table["open"] = rng.random(n) > 0.5
    minutes = rng.integers(0, 60 * 24 * 60, n)
    table["ts"] = pd.Timestamp("2025-12-20") + pd.to_timedelta(minutes, "m")
    return table


def written(frame, kind, folder):
    path = folder / f"x.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        frame.to_parquet(path, index=False)
    elif kind == "feather":
        frame.to_feather(path)
    elif kind == "lazy":
        return pl.from_pandas(frame).lazy()
    elif kind == "reader":
        return pa.Table.from_pandas(frame, preserve_index=False).to_reader()
    else:
        forms = {"polars": pl.from_pandas, "arrow": pa.Table.from_pandas}
        return forms.get(kind, lambda same: same)(frame)
    return path


KINDS = ["pandas", "polars", "arrow", "lazy", "reader", "csv", "parquet", "feather"]


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_tables_have_the_same_groups(frame, kind, tmp_path):
    cube = mm.summarize_by(
        written(frame, kind, tmp_path), ["region", "store", "open", "week(ts)"], order=2
    )
    weeks = frame["ts"].dt.to_period("W-SUN").dt.start_time.dt.date
    are_texts = kind == "csv"
    store, opened = (frame[x].astype(str) if are_texts else frame[x] for x in ("store", "open"))
    regions = [x if isinstance(x, str) else None for x in frame["region"]]
    keys = list(zip(regions, store, opened, weeks, strict=True))
    assert cube.total().feature_names == ("a", "b", "c")
    assert cube.group_rows == pd.Series(keys).value_counts().to_dict()
    assert {type(key[1]) for key in cube} == {str if are_texts else int}
    key = keys[0]
    part = frame[[other == key for other in keys]]
    np.testing.assert_allclose(cube[key].mean, part[["a", "b", "c"]].mean(), rtol=1e-12)


def test_keys_of_csv_are_text(tmp_path):
    fields = ["01", "1", "1.50", " a", "a", "a ", "true", "2026-01-05", "NA", "", str(2**70)]
    lines = [f"{field},{i * i % 7}.5" for i, field in enumerate(fields)]
    (tmp_path / "x.csv").write_text("\n".join(["k,x", *lines]))
    cube = mm.summarize_by(tmp_path / "x.csv", by="k")
    assert {key for (key,) in cube} == {*fields[:8], fields[-1], None}
    assert cube[None].n_rows == 2
    cube.save(tmp_path / "cube.parquet")
    assert mm.SummaryCube.load(tmp_path / "cube.parquet") == cube
    (tmp_path / "y.csv").write_text("k,x\n10,0.5\n9,1.5\n")
    assert [key for (key,) in mm.summarize_by(tmp_path / "y.csv", by="k")] == ["9", "10"]


def test_keys_that_differ_in_kind_between_files_are_refused(tmp_path):
    pd.DataFrame({"x": [0.5, 1.0], "k": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("x,k\n2.5,2\n4.0,\n")
    with pytest.raises(InputError, match=r"key 'k': a key must hold .* it holds int and str"):
        mm.summarize_by(tmp_path, by="k")
    pd.DataFrame({"x": [0.5], "k": pd.array([None], "float64")}).to_parquet(tmp_path / "b.parquet")
    (tmp_path / "b.csv").unlink()
    assert mm.summarize_by(tmp_path, by="k").group_rows == {(1,): 1, (2,): 1, (None,): 1}


@pytest.mark.parametrize(
    ("by", "message"),
    [
        ("nonsense", "no column to group by named 'nonsense'"),
        ("ts", "column 'ts': a key must hold .* timestamp.* week\\(column\\)"),
        ("a", "column 'a': a key must hold text, whole numbers"),
        ("week(store)", "'store'.*: week.. needs dates, and the column holds int64"),
        ("week(region)", "row 0, column .*'region'.*: ' US' is no date; dates must be written"),
        ("decade(ts)", "must be year\\(column\\)"),
        ("store,store", "must have different names"),
        ([], "by must be names"),
        ([3], "by must be names"),
        ("n_rows", "must have different names, and none of n_rows"),
    ],
)
def test_keys_that_cannot_be(frame, by, message):
    with pytest.raises(mm.MomentmixError, match=message):
        mm.summarize_by(frame, by=by, exclude=["region"] if "region" not in by else None)


def test_two_keys_of_one_column(frame):
    cube = mm.summarize_by(frame, "quarter(ts), hour(ts)", columns=["a"])
    hours = frame["ts"].dt.floor("h")
    assert {key[1] for key in cube} == set(hours.dt.to_pydatetime())
    assert cube.key_names == ("quarter", "hour")
    names = mm.summarize_by(frame.assign(end=frame["ts"]), "day(ts), day(end)", columns=["a"])
    assert names.key_names == ("day_ts", "day_end")


def test_names_of_folders_are_columns_of_queries(frame, tmp_path):
    known = frame.dropna()
    for (region, store), part in known.groupby(["region", "store"]):
        folder = tmp_path / f"region={region}" / f"store={store}"
        folder.mkdir(parents=True)
        part[["a", "b", "c", "ts"]].to_parquet(folder / "part-0.parquet", index=False)
    rows = pl.scan_parquet(tmp_path, hive_partitioning=True)
    cube = mm.summarize_by(rows, by="region,store", exclude=["ts"])
    assert cube.group_rows == known.groupby(["region", "store"]).size().to_dict()


def test_small_groups_have_the_sums_of_groups_that_are_summed_one_by_one():
    rng, n = np.random.default_rng(0), 3000
    store = rng.integers(0, 400, n) ** 2 // 400
    frame = pd.DataFrame({"store": store, "x": rng.normal(size=n), "flat": store * 0.1})
    frame["half"] = rng.integers(-3, 4, n) / 2
    frame["zero"] = np.where(store % 3, rng.normal(size=n), 0.0)
    frame["wild"] = np.where(rng.random(n) < 0.01, 1e9, rng.normal(1e6, 1.0, n))
    frame["gap"] = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    cube = mm.summarize_by(frame, by="store", missing="model")
    for (key,), part in zip(cube, cube.values(), strict=True):
        rows = frame[frame["store"] == key].drop(columns="store")
        alone = mm.summarize(rows, families=cube.total().schema, missing="model")
        np.testing.assert_allclose(part.mean, alone.mean, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(part.deviation, alone.deviation, rtol=1e-9, atol=1e-6)

"""Keys of dates and times: the same in all formats, and cells that are none."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.errors import InputError
from momentmix.rows.labels import Periods


def table(times):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(len(times), 2)), columns=["a", "b"]).assign(ts=times)


def written(frame, kind, folder):
    """A frame as rows of some kind."""
    if kind == "frame":
        return frame
    path = folder / f"rows.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, index=False)
    return path


TIMES = [f"2026-01-0{1 + i % 5} 08:{i:02}:00" for i in range(40)]
DAYS = [time[:10] for time in TIMES]


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
@pytest.mark.parametrize("types", ["text", "times"])
def test_times_of_the_day_are_no_keys_in_any_format(tmp_path, kind, types):
    frame = table(TIMES if types == "text" else pd.to_datetime(TIMES))
    rows = written(frame, kind, tmp_path)
    with pytest.raises(InputError, match=r"'ts' holds times .*Group by day\(ts\), week\(ts\)"):
        mm.summarize_by(rows, by="ts")
    days = mm.summarize_by(rows, by="day(ts)")
    assert list(days) == [(dt.date(2026, 1, day),) for day in range(1, 6)]


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
def test_a_cell_that_is_no_date_is_named(tmp_path, kind):
    rows = written(table([*DAYS[:7], "soon", *DAYS[8:]]), kind, tmp_path)
    place = {"csv": "rows.csv, line 9, ", "parquet": "rows.parquet, row 7, ", "frame": "row 7, "}
    text = rf"{place[kind]}column 'ts': 'soon' is no date; .*ISO 8601.*Correct the cell"
    with pytest.raises(InputError, match=text):
        mm.summarize_by(rows, by="week(ts)")


def test_a_folder_that_is_no_date_is_named(tmp_path):
    for name in ("2026-01-05", "soon"):
        (tmp_path / f"day={name}").mkdir()
        table(DAYS)[["a", "b"]].to_csv(tmp_path / f"day={name}" / "x.csv", index=False)
    with pytest.raises(InputError, match="folder day=soon: 'soon' is no date"):
        mm.summarize_by(tmp_path, by="week(day)", by_name=True)


def test_the_last_day_of_1969_is_a_day(tmp_path):
    assert Periods("day").codes(["1969-12-31"]).tolist() == [-1.0]
    rows = written(table(["1969-12-31", "1970-01-01"] * 10), "csv", tmp_path)
    days = mm.summarize_by(rows, by="day(ts)")
    assert {key[0].isoformat(): s.n_rows for key, s in days.items()} == {
        "1969-12-31": 10,
        "1970-01-01": 10,
    }


def test_cubes_with_dates_and_with_texts_do_not_mix():
    texts, days = (mm.summarize_by(table(DAYS), by=by) for by in ("ts", "day(ts)"))
    days = mm.SummaryCube(["ts"], dict(days))
    for one, other in ((texts, days), (days, texts)):
        with pytest.raises(InputError, match=r"key 'ts' is .* group by day\(ts\), which reads"):
            _ = one + other
    numbers = mm.summarize_by(table(DAYS).assign(ts=3), by="ts")
    with pytest.raises(InputError, match="'ts' is text in one cube and a number in the other"):
        _ = texts + numbers

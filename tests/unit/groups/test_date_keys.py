"""Keys of dates and times: the same in all formats, and cells that are none."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import momentmix as mm
from momentmix.errors import InputError


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
def test_days_of_texts_and_times(tmp_path, kind, types):
    frame = table(TIMES if types == "text" else pd.to_datetime(TIMES))
    days = mm.summarize_by(written(frame, kind, tmp_path), by="day(ts)")
    assert list(days) == [(dt.date(2026, 1, day),) for day in range(1, 6)]


TEXTS = ["0001-01-01T00:00+05:00", "9999-12-31T23:00-05:00", "infinity", "0044-03-15 BC"]
TEXTS += ["12000-01-01", "-0044-03-15", "soon"]


@pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_beyond_the_calendar_is_named(tmp_path, kind, text):
    rows = written(table([*DAYS[:7], text, *DAYS[8:]]), kind, tmp_path)
    place = {"csv": "rows.csv, line 9", "parquet": "rows.parquet, row 7", "frame": "row 7"}[kind]
    column = "column 2 .'ts'." if kind == "frame" else "column 'ts'"
    message = rf"{place}, {column}: .* is no date; .* years 1 to 9999 in UTC. Correct the cell"
    with pytest.raises(InputError, match=message):
        mm.summarize_by(rows, by="day(ts)")


@pytest.mark.parametrize("unit", ["year", "week", "hour"])
@pytest.mark.parametrize(
    ("type_", "number"),
    [
        ("timestamp[us]", 2**63 - 1),  # infinity of DuckDB
        ("timestamp[us]", -(2**63) + 2),
        ("timestamp[s]", -62_135_596_801),  # a second before the year 1
        ("timestamp[s]", 253_402_300_800),  # the year 10,000
        ("timestamp[ms]", 2**62),  # in microseconds beyond 64 bits
        ("date32[day]", 2_932_897),
        ("date32[day]", -(2**31)),
    ],
)
def test_a_time_beyond_the_calendar_is_named(tmp_path, unit, type_, number):
    kind = {"date32[day]": pa.date32()}.get(type_) or pa.timestamp(type_[10:-1])
    whole = pa.int32() if type_.startswith("date") else pa.int64()
    cells = pa.array([0, None, number, 1], whole).cast(kind)
    rows = pa.table({"ts": cells, "x": [0.5, 1.0, 4.0, 2.0]})
    pq.write_table(rows, tmp_path / "x.parquet")
    with pa.ipc.new_file(tmp_path / "x.arrow", rows.schema) as writer:
        writer.write_table(rows)
    for source in (tmp_path / "x.parquet", tmp_path / "x.arrow", rows.to_reader(), rows):
        with pytest.raises(InputError, match=r"row 2, column .*'ts'.*: .*is no date; .*1 to 9999"):
            mm.summarize_by(source, by=f"{unit}(ts)", columns=["x"])


def test_times_of_any_unit_have_the_same_periods(tmp_path):
    instants = np.array(
        ["1583-01-03T05:00", "1969-12-31T23:59", "2026-01-05T08:30", "NaT"], "M8[s]"
    )
    found = {}
    for unit in ("s", "ms", "us", "ns"):
        if unit == "ns":
            instants[0] = instants[1]
        cells = pa.array(instants.astype(f"M8[{unit}]"), pa.timestamp(unit, "Europe/Paris"))
        rows = pa.table({"ts": cells, "x": [0.5, 1.0, 4.0, 2.0]})
        pq.write_table(rows, tmp_path / "x.parquet")
        cube = mm.summarize_by(tmp_path / "x.parquet", by="week(ts)", columns=["x"])
        found[unit] = [key for (key,) in cube]
    assert found["s"] == found["ms"] == found["us"]
    assert found["us"] == [dt.date(1583, 1, 3), dt.date(1969, 12, 29), dt.date(2026, 1, 5), None]
    assert found["ns"] == found["us"][1:]

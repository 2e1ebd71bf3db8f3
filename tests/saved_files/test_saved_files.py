"""Files of earlier releases load; a reader written from their description understands them.

``summary_v1.mms``, ``summary_v2.mms`` and ``summary_v3.mms`` were written once and must never
change (the last one holds TABLE, with a schema). Their rows are
small integers, so that their sums are exact on every machine:  ROWS with weights WEIGHTS in the
shard "part 1", one row of ones in the shard "part 2". Version 1 has neither high sections nor
marks. ``summary_v4.mms`` holds ROWS, read from a file, without the last one, which was forgotten.
Versions 1 and 2 keep moments up to order 3 by group of rows, as ``summary_v4_groups.mms`` does, of
GROUPED without its first three rows; ``summary_v2_without_groups.mms`` has no groups.
``model_v1.json`` was written once, too; its numbers are those of MODEL. So were the cubes
``cube_v1`` and ``cube_v2``, of CUBE_ROWS. The stranger's reader uses nothing of momentmix.
"""

import datetime as dt
import gzip
import hashlib
from fractions import Fraction
from math import prod
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from campaigns.strangers_reader import read_model, read_summary

from momentmix import DiagonalMixture, MomentSummary, SummaryCube, summarize, summarize_by
from momentmix.errors import InputError, ShardError

FIRST, FILE = (Path(__file__).parent / f"summary_v{version}.mms" for version in (1, 2))
MODEL_FILE = Path(__file__).parent / "model_v1.json"
MODEL = {
    "weights": [0.25, 0.1, 0.65],
    "means": [[0.0, -1.5e300], [1 / 3, 2.0**-1074], [1e22, 7.0]],
    "variances": [[1.0, 0.0], [0.1, 1e-300], [2.5, 12345678.9]],
    "feature_names": ["length", "δ\n"],
}
ROWS = np.array([[4, 0, -3, 0], [8, 2, 5, 0], [12, -7, 1, 0], [9, 1, 1, 0]], dtype=float)
WEIGHTS = [1, 2, 1, 0.5]


def remade():
    names = ["height", "width", "δ", "empty\n"]
    parts = [
        MomentSummary(4, 4, names, shard_id="part 1").update(ROWS, WEIGHTS),
        MomentSummary(4, 4, names, shard_id="part 2").update(np.ones((1, 4)) * [1, 1, 1, 0]),
    ]
    return parts[0] + parts[1]


@pytest.mark.parametrize("file", [FIRST, FILE])
def test_both_formats_load(file):
    summary = MomentSummary.load(file)
    assert summary.feature_names == ("height", "width", "δ", "empty\n")
    assert summary.n_rows == 5
    assert summary.sum_weights == 5.5
    assert summary.minimum.tolist() == [1.0, -7.0, -3.0, 0.0]
    assert summary.mean[0] == (4 + 16 + 12 + 4.5 + 1) / 5.5


def test_the_first_format_holds_what_the_second_does_but_for_high_sections():
    first, second = (MomentSummary.load(file) for file in (FIRST, FILE))
    assert second == remade()
    assert first != second
    old, new = first.moments(), second.moments()
    for a, b in zip(old.distinct + old.squared, new.distinct + new.squared, strict=True):
        np.testing.assert_array_equal(a, b)
    assert old.powers is old.cubed is old.two_squares is None
    assert new.powers.shape == (4, 4)
    assert np.isfinite(new.cubed).all()


def test_a_summary_of_the_first_format_is_saved_in_the_second(tmp_path):
    first = MomentSummary.load(FIRST)
    first.save(tmp_path / "again.mms")
    again = MomentSummary.load(tmp_path / "again.mms")
    assert again == first
    assert again.moments().powers is None
    assert (tmp_path / "again.mms").read_bytes()[8] == 2


def test_adding_to_the_first_format_keeps_what_both_hold():
    first, rows = MomentSummary.load(FIRST), np.array([[3.0, 1, 4, 1], [5, 9, 2, 6]])
    new = MomentSummary(4, 4, shard_id="part 3").update(rows)
    for both in (first + new, new + first, first.copy().update(rows, shard_id="part 3")):
        assert both.to_bytes() == (first + new).to_bytes()
        assert both.n_rows == 7
        assert both.moments().powers is None
        assert both - new == first
    whole = (MomentSummary.load(FILE) + new).moments()
    np.testing.assert_array_equal((first + new).moments().distinct[4], whole.distinct[4])
    empty = MomentSummary(4, 4)
    assert empty + first == first + empty == first
    assert (new - new) + new == new


def test_an_open_shard_beside_the_first_format_gives_up_its_high_sections():
    first, rows = MomentSummary.load(FIRST), np.array([[3.0, 1, 4, 1], [5, 9, 2, 6]])
    summary = MomentSummary(4, 4, shard_id="part 3").update(rows[:1])
    summary += first
    assert summary.moments().powers is None
    later = MomentSummary(4, 4, shard_id="part 3").update(rows)
    assert summary.update(rows[1:]) == first + later


def test_marks_are_stored_since_the_second_format():
    """An early version of a shard is told apart after loading; the first format cannot."""
    early = MomentSummary(4, 4, shard_id="part 1").update(ROWS[:2], WEIGHTS[:2])
    with pytest.raises(ShardError, match="not the same in both summaries: 4 rows"):
        MomentSummary.load(FILE) - early
    with pytest.raises(InputError, match="although the shard ids agree"):  # only by luck
        MomentSummary.load(FIRST) - MomentSummary(4, 4, shard_id="part 1").update(ROWS[:1] * 3)


def test_writing_it_again_gives_the_same_bytes():
    data = (Path(__file__).parent / "summary_v2_without_groups.mms").read_bytes()
    for file in (data, FILE.read_bytes()):
        assert MomentSummary.from_bytes(file).to_bytes() == data
    assert remade().to_bytes() == data


# -- groups of rows ---------------------------------------------------------------------------

NUMBERS = np.arange(6000)
GROUPED = np.column_stack([NUMBERS % 7, NUMBERS**2 % 11 - 5, NUMBERS // 100 % 13]).astype(float)
GROUPED_FILE = Path(__file__).parent / "summary_v4_groups.mms"


def grouped_part(shard, rows):
    return MomentSummary(3, 3, ["a", "b", "c"], shard_id=shard).update(rows)


def test_groups_of_rows_are_added_up():
    """Sixteen groups, six of them with rows; what is left is a summary without groups."""
    header, _, _, sums = read_summary(GROUPED_FILE.read_bytes())
    assert (header["replicates"], sum(n > 0 for n in header["n_rows"])) == (16, 6)
    parts = grouped_part("part 1", GROUPED[:5000]), grouped_part("part 2", GROUPED[5000:])
    expected = (parts[0] + parts[1]).forget(GROUPED[:3])
    loaded = MomentSummary.load(GROUPED_FILE)
    assert loaded == expected
    assert loaded.to_bytes() == expected.to_bytes()
    assert read_summary(loaded.to_bytes())[3] == sums
    assert (loaded.n_rows, loaded.n_forgotten, loaded.sum_weights) == (5997, 3, 5997.0)
    np.testing.assert_array_equal(loaded.mean, GROUPED[3:].mean(axis=0))
    raw = loaded.moments(0, 1)
    np.testing.assert_allclose(raw.distinct[3], GROUPED[3:].prod(axis=1).mean(), rtol=1e-14)
    np.testing.assert_allclose(raw.powers[3], (GROUPED[3:] ** 6).mean(axis=0), rtol=1e-14)


def test_what_had_groups_is_merged_subtracted_and_saved(tmp_path):
    loaded = MomentSummary.load(GROUPED_FILE)
    new = grouped_part("part 3", GROUPED[:100] + 1)
    both = loaded + new
    assert both.n_rows == 6097
    assert both.to_bytes() == (new + loaded).to_bytes()
    assert both - new == loaded
    assert loaded.copy().update(GROUPED[:100] + 1, shard_id="part 3") == both
    second = grouped_part("part 2", GROUPED[5000:]).forget(GROUPED[:3])
    first = grouped_part("part 1", GROUPED[:5000])
    assert loaded - second == first
    with pytest.raises(ShardError, match="count twice"):
        loaded + first
    loaded.save(tmp_path / "again.mms")
    assert MomentSummary.load(tmp_path / "again.mms") == loaded
    assert loaded.forget(GROUPED[5990:]).n_rows == 5987
    cube = SummaryCube(["day"], {("Mon",): GROUPED_FILE.read_bytes(), ("Tue",): new})
    cube.save(tmp_path / "cube.parquet")
    again = SummaryCube.load(tmp_path / "cube.parquet")
    assert again.n_rows == 6097
    assert again.total() == both


@pytest.mark.parametrize("file", [FIRST, FILE])
def test_a_stranger_can_read_it(file):
    header, shards, bounds, sums = read_summary(file.read_bytes())
    expected = sorted(
        hashlib.sha256(b"momentmix shard\0" + name).digest()[:16] for name in (b"part 1", b"part 2")
    )
    assert shards == expected
    units = [Fraction(2) ** (e or 0) for e in header["exponents"]]
    shifts = [int(k) for k in header["shifts"]]
    rows = [*zip(WEIGHTS, ROWS.tolist(), strict=True), (1, [1, 1, 1, 0])]
    assert len(sums) == 44 + (0 if file == FIRST else 16 + 12 + 6)
    for members, value in sums.items():
        exact = Fraction(0)
        for weight, row in rows:
            z = [Fraction(y) / u - k for y, u, k in zip(row, units, shifts, strict=True)]
            exact += Fraction(weight) * prod(z[i] for i in members)
        assert Fraction(value, 2**96) == exact
    assert header["exponents"][3] is None
    assert bounds == [1, -7, -3, 0, 12, 2, 5, 0]
    assert Fraction(int(header["weight_squares"]), 2**96) == Fraction(29, 4)


def remade_from_file(folder):
    """A summary of a file, from which a row was forgotten."""
    path = folder / "rows.csv"
    path.write_bytes(b"height,width,depth,empty\r\n4,0,-3,0\r\n8,2,5,0\r\n12,-7,1,0\r\n9,1,1,0\r\n")
    return summarize(path, 4).forget(ROWS[3:])


def test_the_fourth_format_loads(tmp_path):
    data = (Path(__file__).parent / "summary_v4.mms").read_bytes()
    summary, again = MomentSummary.from_bytes(data), remade_from_file(tmp_path)
    assert summary.to_bytes() == again.to_bytes() == data
    assert (summary.n_rows, summary.n_forgotten) == (3, 1)
    header, shards, _, sums = read_summary(data)
    assert (len(shards), header["schema"]) == (1, None)
    units = [Fraction(2) ** (e or 0) for e in header["exponents"]]
    for members, value in sums.items():
        z = [
            [Fraction(y) / u - int(k) for y, u, k in zip(row, units, header["shifts"], strict=True)]
            for row in ROWS[:3].tolist()
        ]
        assert Fraction(value, 2**96) == sum(prod(row[i] for i in members) for row in z)
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress((tmp_path / "rows.csv").read_bytes().replace(b"\r", b"")))
    with pytest.raises(ShardError, match="would count twice"):
        summary + summarize(packed, 4)


def test_the_first_model_format_loads():
    model = DiagonalMixture.load(MODEL_FILE)
    for name in ("weights", "means", "variances"):
        assert getattr(model, name).tolist() == MODEL[name]
    assert model.feature_names == tuple(MODEL["feature_names"])


def test_writing_the_model_again_gives_the_same_bytes(tmp_path):
    DiagonalMixture.load(MODEL_FILE).save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == MODEL_FILE.read_bytes()
    DiagonalMixture(**MODEL).save(tmp_path / "made.json")
    assert (tmp_path / "made.json").read_bytes() == MODEL_FILE.read_bytes()


def test_a_stranger_can_read_the_model():
    assert read_model(MODEL_FILE.read_bytes()) == (*MODEL.values(), None)


def test_a_model_without_checksum_loads(tmp_path):
    """Written by hand, or before there was one."""
    text = MODEL_FILE.read_text(encoding="ascii")
    at = text.index(',\n "sha256"')
    path = tmp_path / "by-hand.json"
    path.write_text(text[:at] + "\n}\n", encoding="ascii")
    assert DiagonalMixture.load(path).weights.tolist() == MODEL["weights"]


# -- a table with families and missing cells --------------------------------------------------

TABLE_FILE = Path(__file__).parent / "summary_v3.mms"
TABLE = {
    "age": [31.5, None, 40.0, 33.0],
    "plan": ["gold", "basic", None, "gold"],
    "δ\n": [True, False, False, True],
    "visits": [0, 3, 1, 2],
}
SECOND = {"age": [47.0, 38.5], "plan": ["silver", "gold"], "δ\n": [1, 1], "visits": [0, 9]}
FAMILIES = {"plan": ["basic", "gold", "silver"], "δ\n": "bernoulli", "visits": "poisson"}


def remade_table():
    """A shard with missing cells, and one without."""
    options = {"families": FAMILIES, "missing": "model"}
    parts = [(TABLE, "part 1"), (SECOND, "part 2")]
    return sum(summarize(table, 3, shard_id=name, **options) for table, name in parts)


def test_a_table_loads():
    summary = MomentSummary.load(TABLE_FILE)
    assert summary.to_bytes() == TABLE_FILE.read_bytes() == remade_table().to_bytes()
    assert summary.schema.column_names == tuple(TABLE)
    names = ("age", "age seen", "plan=gold", "plan=silver", "plan seen", "δ\n", "visits")
    assert summary.feature_names == names
    assert summary.mean[[1, 4, 5, 6]].tolist() == [5 / 6, 5 / 6, 4 / 6, 15 / 6]
    assert summary.schema.columns[0].center + summary.mean[0] / summary.mean[1] == 38.0
    assert (summary.schema.encode(TABLE)[1] == [0, 0, 0, 0, 1, 0, 3]).all()


def test_a_stranger_reads_a_table():
    header, shards, bounds, sums = read_summary(TABLE_FILE.read_bytes())
    assert len(shards) == 2
    features = MomentSummary.load(TABLE_FILE).schema.encode(
        {name: [*TABLE[name], *SECOND[name]] for name in TABLE}
    )
    units = [Fraction(2) ** (e or 0) for e in header["exponents"]]
    exact = [[Fraction(x) for x in row] for row in features.tolist()]
    z = [
        [x / u - int(k) for x, u, k in zip(row, units, header["shifts"], strict=True)]
        for row in exact
    ]
    for factors, total in sums.items():
        assert Fraction(total, 2**96) == sum(prod(row[j] for j in factors) for row in z)
    assert bounds[1:7] == features.min(axis=0).tolist()[1:]  # the first one is about its center


# -- cubes ------------------------------------------------------------------------------------

CUBE_ROWS = {
    "region": ["EU", "US", None, "EU", "δ\n"],
    "store": [1, 2, 2, 1, -3],
    "new": [True, False, True, True, False],
    "day": [dt.date(2026, 1, 5)] * 3 + [dt.date(1969, 12, 31)] * 2,
    "ts": [dt.datetime(2026, 1, 5, 8, 30)] * 3 + [dt.datetime(2026, 1, 12, 9, 10)] * 2,
    "x": [4.0, 8.0, 12.0, 9.0, 1.0],
    "y": [0.0, 2.0, -7.0, 1.0, 1.0],
}


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_cubes_load(tmp_path, version, ending):
    cube = SummaryCube.load(Path(__file__).parent / f"cube_v{version}.{ending}")
    rows = pd.DataFrame(CUBE_ROWS)
    made = summarize_by(rows, by="region, store, new, day, hour(ts)")
    assert cube.left_out == (2, 3)
    assert cube.key_names == made.key_names
    assert {key: (s.n_rows, s.mean.tolist()) for key, s in cube.items()} == {
        key: (s.n_rows, s.mean.tolist()) for key, s in made.items()
    }
    cube.save(tmp_path / "again.parquet")
    assert SummaryCube.load(tmp_path / "again.parquet") == cube
    again = pq.read_table(tmp_path / "again.parquet")
    assert again.column_names[-3:] == ["n_rows", "summary", "checksum"]
    assert b'"version": 2' in again.schema.metadata[b"momentmix-cube"]


def test_a_stranger_can_check_a_cube():
    """As docs/file-format.md says: the seal of the file, and the checksums of its rows."""
    for ending in ("parquet", "arrow"):
        data, mark = (Path(__file__).parent / f"cube_v2.{ending}").read_bytes(), b"momentmix seal\n"
        at = data.index(b"\x89" + mark)
        seal, rest = data[at : at + 96], data[:at] + data[at + 96 :]
        assert seal == 2 * (b"\x89" + mark + hashlib.sha256(rest).digest())
        trailer = {"parquet": 8, "arrow": 10}[ending]
        length = int.from_bytes(data[-trailer:][:4], "little")
        assert at + 96 == len(data) - trailer - length
    row = pq.read_table(Path(__file__).parent / "cube_v2.parquet").to_pylist()[0]
    text = (
        '[{"day": ["date", "1969-12-31"], "hour": ["time", "2026-01-12T09:00:00"], "new": true, '
        '"region": "EU", "store": 1}, 1]\n'
    )
    assert row["checksum"] == hashlib.sha256(text.encode() + row["summary"]).digest()

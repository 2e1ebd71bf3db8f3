"""Summaries of tables with families and missing cells: what goes together, what is refused."""

import json
import struct
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix import MomentSummary
from momentmix.errors import InputError, SummaryFileError
from momentmix.families.column import Column
from momentmix.tables.schema import Schema

TABLE = pd.DataFrame(
    {
        "age": [31.0, np.nan, 40.0, 33.0, 36.0, 35.0],
        "plan": ["gold", "basic", "gold", None, "silver", "basic"],
        "smoker": [True, False, True, False, False, True],
        "visits": [0, 3, 1, 2, 0, 7],
    }
)
FAMILIES = {"plan": "categorical", "smoker": "bernoulli", "visits": "poisson"}


def summary(table=TABLE, families=FAMILIES, missing="model", **options):
    return mm.summarize(table, 3, families=families, missing=missing, **options)


def test_what_a_summary_tells():
    one = summary()
    assert one.schema.feature_names == one.feature_names
    assert one.n_features == 7
    assert one.mean[1] == 5 / 6  # age seen
    center = one.schema.columns[0].center
    assert center + one.mean[0] / one.mean[1] == pytest.approx(TABLE["age"].mean(), rel=1e-15)
    assert one.minimum[0] == 31 - center
    assert "4 columns" in repr(one)


def test_numbers_without_missing_cells_have_no_schema():
    rows = np.arange(12.0).reshape(4, 3) ** 2
    plain = mm.summarize(rows, 2, shard_id="a").to_bytes()
    for options in ({"missing": "model"}, {"missing": "drop"}, {"families": {0: "gaussian"}}):
        other = mm.summarize(rows, 2, shard_id="a", **options)
        assert other.schema is None
        assert other.to_bytes() == plain
    names = pd.DataFrame(rows, columns=list("abc"))
    expected = mm.summarize(names, 2, shard_id="a").to_bytes()
    assert mm.summarize(names, 2, shard_id="a", missing="drop").to_bytes() == expected


def test_drop_leaves_rows_out():
    rows = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]])
    dropped = mm.summarize(rows, 2, [1, 5, 2], missing="drop", shard_id="a")
    assert dropped.to_bytes() == mm.summarize(rows[[0, 2]], 2, [1, 2], shard_id="a").to_bytes()
    assert summary(missing="drop").n_rows == 4


def test_blocks_of_an_iterator():
    parts = [TABLE[:3], TABLE[3:]]
    whole = summary(families=FAMILIES | {"plan": ["basic", "gold", "silver"]}, shard_id="a")
    once = summary(iter(parts), whole.schema, shard_id="a")
    assert once.to_bytes() == whole.to_bytes()
    complete = TABLE.assign(age=TABLE["age"].fillna(30.0), plan=TABLE["plan"].fillna("gold"))
    with pytest.raises(InputError, match=r"'age'\), is missing.*add up summaries of the blocks"):
        summary(iter([complete, TABLE]))
    with pytest.raises(InputError, match="iterator was empty"):
        summary(iter([]))


def test_updates_encode_their_rows():
    once = summary(shard_id="a")
    grown = MomentSummary(7, 3, schema=once.schema, shard_id="a")
    grown.update(TABLE[:2]).update(TABLE[2:][["visits", "plan", "smoker", "age"]])
    assert grown.to_bytes() == once.to_bytes()
    before = grown.to_bytes()
    with pytest.raises(InputError, match=r"its levels, 'basic', 'gold', 'silver'; it is 'tin'"):
        grown.update(TABLE[:1].assign(plan="tin"))
    with pytest.raises(InputError, match="counts must be integers"):
        grown.update(TABLE[:1].assign(visits=1.5))
    assert grown.to_bytes() == before


def test_an_open_shard_stays_open():
    """It goes on in its own schema, whatever was added meanwhile."""
    plain = TABLE.assign(age=TABLE["age"].fillna(30.0), plan=TABLE["plan"].fillna("gold"))
    open_one = summary(plain[:4], FAMILIES | {"plan": ["basic", "gold", "silver"]}, shard_id="a")
    other = summary(TABLE, FAMILIES, shard_id="b")
    expected = open_one.copy().update(plain[4:]) + other
    open_one += other
    assert open_one.n_features == 7
    assert open_one.schema == (open_one + MomentSummary(7, 3, schema=other.schema)).schema
    assert open_one.update(plain[4:]).to_bytes() == expected.to_bytes()
    third = open_one.copy().update(TABLE[:1], shard_id="c")  # in the schema of all
    assert third.n_rows == 13
    with pytest.raises(InputError, match="is missing"):
        open_one.update(TABLE[1:2])


def test_new_shards_take_missing_cells():
    one = summary(shard_id="a").update(TABLE, shard_id="b")
    assert one.to_bytes() == (summary(shard_id="a") + summary(shard_id="b")).to_bytes()


def test_device_arrays_are_encoded_here():
    torch = pytest.importorskip("torch")
    rows = np.array([[1.0, np.nan], [2.0, 5.0], [4.0, 6.0]])
    expected = mm.summarize(rows, 2, missing="model", shard_id="a").to_bytes()
    found = mm.summarize(torch.tensor(rows), 2, missing="model", shard_id="a").to_bytes()
    assert found == expected


@pytest.mark.parametrize(
    ("families", "problem"),
    [
        (
            FAMILIES | {"plan": ["basic", "gold"]},
            r'same levels.*families=\{"plan": \["basic", "gold", "silver"\]\}',
        ),
        (FAMILIES | {"visits": "gaussian"}, r"'visits'\) is poisson in one table and gaussian"),
        (FAMILIES | {"smoker": "gaussian"}, r"'smoker'\) is bernoulli .* and gaussian"),
    ],
)
def test_other_schemas_are_refused(families, problem):
    other = TABLE[TABLE["plan"] != "silver"] if len(families["plan"]) == 2 else TABLE
    for action in (lambda a, b: a + b, lambda a, b: a - b):
        with pytest.raises(InputError, match=problem):
            action(summary(), summary(other, families))
    assert summary() != summary(other, families)


def test_bools_and_integers_are_the_same_levels():
    bools = mm.summarize(
        {"x": [True, False, True], "y": [1.0, 2, 3]}, 2, families={"x": "bernoulli"}
    )
    ints = mm.summarize({"x": [0, 1, 1], "y": [1.0, 2, 5]}, 2, families={"x": "bernoulli"})
    assert (bools + ints).to_bytes() == (ints + bools).to_bytes()
    assert (bools + ints).schema.columns[0].levels[1] is not True


def test_other_columns_are_refused():
    renamed = TABLE.rename(columns={"age": "years"})
    with pytest.raises(InputError, match=r"column 0 .* is 'years' in the other"):
        summary() + summary(renamed)
    with pytest.raises(InputError, match="same columns; got 4 and 3"):
        summary() + summary(
            TABLE[["plan", "smoker", "visits"]].to_numpy(),
            {0: ["basic", "gold", "silver"], 1: "bernoulli", 2: "poisson"},
        )
    with pytest.raises(InputError, match="n_features must be that of the schema, 7; got 4"):
        MomentSummary(4, 2, schema=summary().schema)
    with pytest.raises(InputError, match="must not be given with a schema"):
        MomentSummary(7, 2, list("abcdefg"), schema=summary().schema)


def test_selecting_columns():
    one = summary()
    chosen = one.truncate(2).select(["visits", "age"])
    assert chosen.feature_names == ("visits", "age", "age seen")
    assert chosen.schema.columns == (one.schema.columns[3], one.schema.columns[0])
    assert chosen.mean.tolist() == one.mean[[6, 0, 1]].tolist()
    numbers = mm.summarize(TABLE[["visits", "age"]], 2, missing="model").truncate(1)
    assert numbers.select(["visits"]).schema is None
    with pytest.raises(InputError, match=r"different numbers in 0…3"):
        one.select([4])


def test_forgetting():
    one = summary(shard_id="a") + summary(
        TABLE[:3].assign(plan="gold"), {**FAMILIES, "plan": ["basic", "gold", "silver"]}
    )
    one.forget(TABLE[1:2])
    assert (one.n_rows, one.n_forgotten) == (8, 1)
    assert one.mean[1] == pytest.approx(7 / 8, abs=1e-15)
    with pytest.raises(InputError, match=r"'age'.*It was never added"):
        one.forget(TABLE[:1].assign(age=99.0))


def test_large_offsets_keep_their_digits():
    """About centers far from 0 and from each other the spread of what is seen is exact."""
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((4000, 3))
    rows[:, 0] += 2.0**30
    rows[rng.random(rows.shape) < 0.3] = np.nan
    parts = [rows[:2000] - [2.0**30, 0, 0], rows[2000:]]
    far = mm.summarize(parts[1], 3, missing="model", shard_id="b")
    both = mm.summarize(parts[0], 3, missing="model", shard_id="a") + far
    back = both - mm.summarize(parts[0], 3, missing="model", shard_id="a")
    assert back == far
    seen = parts[1][:, 0][~np.isnan(parts[1][:, 0])]
    p, u = far.mean[1], far.mean[0]
    second = far.moments(0, 1).squared[0][0, 0] / p - (u / p) ** 2
    assert second == pytest.approx(seen.astype(np.longdouble).var(), rel=1e-9)


# -- files ------------------------------------------------------------------------------------


def changed(data, **changes):
    """A file whose header is changed, with a right checksum."""
    length = struct.unpack("<I", data[12:16])[0]
    header = json.loads(data[16 : 16 + length]) | changes
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    body = data[:12] + struct.pack("<I", len(text)) + text + data[16 + length : -32]
    return body + sha256(body).digest()


def test_files_keep_the_schema(tmp_path):
    summary().save(tmp_path / "a.mms")
    assert MomentSummary.load(tmp_path / "a.mms").schema == summary().schema
    empty = MomentSummary(7, 3, schema=summary().schema)
    assert MomentSummary.from_bytes(empty.to_bytes()).update(TABLE).n_rows == 6


def test_impossible_schemas_are_refused():
    data = summary().to_bytes()
    good = summary().schema
    assert MomentSummary.from_bytes(changed(data)).schema == good

    def refused(match, schema, **changes):
        with pytest.raises(SummaryFileError, match=match):
            MomentSummary.from_bytes(changed(data, schema=schema, **changes))

    refused("schema must be an object", [])
    refused("other features", Schema(good.columns[:2]).to_dict())
    refused("other features", Schema((*good.columns, Column("x"))).to_dict())
    refused("not in the form", good.with_column(0, name="years", center=0.0).to_dict())
    refused("with centers", good.to_dict())
    plain = Schema(tuple(Column(name) for name in good.feature_names))
    refused("other features", plain.to_dict())
    document = good.with_column(0, center=0.0).to_dict()
    document["columns"][0]["center"] = 0
    refused("not in the form", document)

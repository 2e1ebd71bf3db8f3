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


def test_rows_after_adding_are_encoded_in_the_schema_of_all():
    plain = TABLE.assign(age=TABLE["age"].fillna(30.0), plan=TABLE["plan"].fillna("gold"))
    summed = summary(plain[:4], FAMILIES | {"plan": ["basic", "gold", "silver"]}, shard_id="a")
    with pytest.raises(InputError, match="is missing"):
        summed.update(TABLE[1:2])
    summed += summary(TABLE, FAMILIES, shard_id="b")
    assert summed.n_features == 7
    assert summed.update(TABLE[1:2]).n_rows == 11


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


def test_forgetting():
    one = summary(shard_id="a") + summary(
        TABLE[:3].assign(plan="gold"), {**FAMILIES, "plan": ["basic", "gold", "silver"]}
    )
    one.forget(TABLE[1:2])
    assert (one.n_rows, one.n_forgotten) == (8, 1)
    assert one.mean[1] == pytest.approx(7 / 8, abs=1e-15)
    with pytest.raises(InputError, match=r"'age'.*It was never added"):
        one.forget(TABLE[:1].assign(age=99.0))


# -- files ------------------------------------------------------------------------------------


def changed(data, **changes):
    """A file whose header is changed, with a right checksum."""
    length = struct.unpack("<I", data[12:16])[0]
    header = json.loads(data[16 : 16 + length]) | changes
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    body = data[:12] + struct.pack("<I", len(text)) + text + data[16 + length : -32]
    return body + sha256(body).digest()


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
    refused("with centers", good.to_dict())
    refused("not in the form", Schema((Column(None),) * 7).to_dict())
    document = good.with_column(0, center=0.0).to_dict()
    document["columns"][0]["center"] = 0
    refused("not in the form", document)

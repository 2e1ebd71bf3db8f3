"""A shard that is filled on its own has the bytes of a summary that takes the same rows."""

import numpy as np
import pytest

import momentmix as mm
from momentmix.errors import InputError
from momentmix.summary.single_shard import SingleShard
from momentmix.summary.summary import rename_shards

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("n_rows", [1, 700, 1024, 9000])
def test_bytes_are_those_of_a_summary(n_rows):
    rows = RNG.lognormal(size=(n_rows, 3)) + np.array([0.0, 1e6, -5.0])
    rows[:, 2] = -5.0
    empty = mm.MomentSummary(3, 3, ["a", "b", "c"], n_threads=2)
    shard = SingleShard(empty, "first")
    for part in np.array_split(rows, 3):
        shard.update(part)
    data, shard_id = shard.close("last")
    summary = mm.MomentSummary(3, 3, ["a", "b", "c"], shard_id="first")
    summary = rename_shards(summary.update(rows), {"first": "last"})
    assert (data, (shard_id,)) == (summary.to_bytes(), summary.shard_ids)
    assert empty.n_rows == 0


def test_bytes_with_a_schema_are_those_of_a_summary():
    rows = np.column_stack([RNG.normal(size=500), RNG.integers(0, 3, 500)])
    rows[::7, 0] = np.nan
    schema = mm.summarize(rows, order=2, families={1: "poisson"}, missing="model").schema
    empty = mm.MomentSummary(schema.n_features, 2, schema=schema)
    shard = SingleShard(empty, "first")
    shard.update(schema.encode(rows))
    summary = mm.MomentSummary(schema.n_features, 2, schema=schema, shard_id="first").update(rows)
    assert shard.close("first")[0] == summary.to_bytes()


def test_a_row_beyond_the_range_of_sums_is_an_error():
    shard = SingleShard(mm.MomentSummary(1, 1), "first")
    with pytest.raises(InputError, match="row 1500"):
        shard.update(np.append(RNG.normal(size=1500), 1e200)[:, None])

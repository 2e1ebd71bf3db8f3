"""Counts and moments of billions of rows."""

import numpy as np
import pytest
from campaigns import many_rows


def test_shards_of_up_to_ten_billion_rows_do_not_drift():
    counts = many_rows.drift(0, 6, seed=0)
    assert counts["drift tests"] == 6
    assert counts["rows of drift tests"] > 10**8


def test_negative_control_a_drift_of_a_ten_millionth_of_a_standard_error_is_noticed():
    rows = np.random.default_rng(0).standard_normal((12, 3))
    base = many_rows.MomentSummary(3, 3, shard_id="x").update(rows)
    data = many_rows.repeated_shard(base.to_bytes(), 10**8, "y")
    summary = many_rows.MomentSummary.from_bytes(data)
    many_rows.check_drift(summary, [(rows.tolist(), 10**8)])
    moved = rows.copy()
    moved[0, 0] += 1e-11  # of a standard error of 3e-5
    with pytest.raises(AssertionError):
        many_rows.check_drift(summary, [(moved.tolist(), 10**8)])
    with pytest.raises(AssertionError, match="rows instead of"):
        many_rows.check_drift(summary, [(rows.tolist(), 10**8 + 1)])

"""Forgetting rows: loadable on anything, refused where digits are lost."""

import numpy as np
import pytest
from campaigns import forgetting

from momentmix import MomentSummary
from momentmix.errors import InputError


def test_what_is_left_loads_again():
    counts = forgetting.forgetting_files(0, 150, seed=0)
    assert counts["forgettings saved and loaded"] > 60
    assert counts["forgettings refused"] > 10


def test_digits_that_would_be_lost_are_refused():
    rows = np.random.default_rng(0).standard_normal((200, 2))
    rows[7, 1] = 1e12
    summary = MomentSummary(2, 2, shard_id="a").update(rows)
    before = summary.to_bytes()
    with pytest.raises(InputError, match=r"squares of column 1 these rows are about 10\^\d+ times"):
        summary.forget(rows[7:8])
    assert summary.to_bytes() == before
    outlier = MomentSummary(2, 2, shard_id="outlier").update(rows[7:8])
    rest = MomentSummary(2, 2, shard_id="rest").update(np.delete(rows, 7, axis=0))
    assert (rest + outlier) - outlier == rest  # the cure that the message names


def test_weights_that_would_be_lost_are_refused():
    rows = np.random.default_rng(1).standard_normal((5, 2))
    weights = np.array([1e-4, 1e8, 1e8, 1e8, 1e8])
    summary = MomentSummary(2, 2, shard_id="a").update(rows, weights)
    with pytest.raises(InputError, match=r"In the weights these rows are about 10\^13 times"):
        summary.forget(rows[1:], weights[1:])

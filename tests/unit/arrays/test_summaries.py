"""Summaries of tensors: the moments, bounds and messages of NumPy rows."""

import numpy as np
import pytest

from momentmix import MomentSummary, summarize
from momentmix.errors import InputError, InputTypeError
from momentmix.summary import gpu

torch = pytest.importorskip("torch")


def distance(one, other):
    """Largest difference of standardised moments, of means and of standard deviations."""
    a, b = one.moments(), other.moments()
    pairs = [*zip(a.distinct, b.distinct, strict=True), *zip(a.squared, b.squared, strict=True)]
    gaps = [np.abs(x - y).max() for x, y in pairs]
    deviations = np.sqrt(np.maximum(one.variance, other.variance))
    safe = np.where(deviations > 0, deviations, 1.0)
    gaps.append((np.abs(one.mean - other.mean) / safe).max())
    gaps.append((np.abs(one.variance - other.variance) / safe**2).max())
    return max(gaps)


def same(one, other, tolerance=1e-12):
    assert one.n_rows == other.n_rows
    np.testing.assert_array_equal(one.minimum, other.minimum)
    np.testing.assert_array_equal(one.maximum, other.maximum)
    assert distance(one, other) <= tolerance


def plain(rng, n, d=5):
    return rng.standard_normal((n, d)) * 10.0 ** np.arange(-3, d - 3) + np.arange(d)


def with_outlier(rng, n):
    rows = plain(rng, n)
    rows[n // 2, 1] = 1e12
    return rows


def with_constant(rng, n):
    rows = plain(rng, n)
    rows[: n // 2, 3], rows[:, 4] = 7.0, 0.0
    return rows


def with_other_scale(rng, n):
    rows = plain(rng, n)
    rows[n // 3 :, 2] *= 2.0**18
    rows[2 * n // 3 :, 0] *= 2.0**-20
    return rows


def drifting(rng, n):
    return plain(rng, n) + np.linspace(0, 50, n)[:, None]


def offset(rng, n):
    return rng.standard_normal((n, 5)) + 1e9


DATA = [plain, with_outlier, with_constant, with_other_scale, drifting, offset]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("n", [300, 5_000, 60_000])
def test_moments_agree_with_numpy(data, n):
    rows = data(np.random.default_rng(1), n)
    # With an offset of 1e9 deviations the mean itself has no more digits than 1e-7 of them.
    tolerance = 1e-6 if data is offset else 1e-12
    here = summarize(rows, 4, shard_id="a")
    same(summarize(torch.from_numpy(rows), 4, shard_id="a"), here, tolerance)
    fewer = summarize(rows[:-1], 4, shard_id="a")
    assert distance(here, fewer) > 1e-12  # the tolerance would notice one row


def test_updates_of_both_kinds_go_on_in_one_shard():
    rows = plain(np.random.default_rng(0), 30_000)
    summary = MomentSummary(5, 4, shard_id="a")
    for start, stop, there in [
        (0, 10, True), (10, 2_000, False), (2_000, 12_345, True), (12_345, 12_350, True),
        (12_350, 20_000, False), (20_000, 30_000, True),
    ]:  # fmt: skip
        part = rows[start:stop]
        summary.update(torch.from_numpy(part) if there else part)
    same(summary, summarize(rows, 4, shard_id="a"))


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
def test_other_dtypes_equal_their_float64_twins(dtype):
    rows = (3 * plain(np.random.default_rng(0), 6_000)).astype(dtype)
    if dtype == "bool":
        rows = np.random.default_rng(0).random((6_000, 5)) < 0.3
    there = summarize(torch.from_numpy(rows), 4, shard_id="a")
    assert there == summarize(torch.from_numpy(rows.astype(float)), 4, shard_id="a")


def bad(row, column, value, n=3_000):
    rows = plain(np.random.default_rng(0), n, 3)
    rows[row, column] = value
    return rows


REFUSED = [
    bad(4, 1, np.nan), bad(2_500, 2, np.nan), bad(2_000, 0, -np.inf), bad(1_500, 1, 1e305),
    bad(2_999, 1, np.nan), np.ones(3), np.ones((2, 3, 1)), np.ones((4, 2)),
    np.empty((0, 3)), np.ones((4, 3)) * 1j,
]  # fmt: skip


@pytest.mark.parametrize("rows", REFUSED)
@pytest.mark.parametrize("filled", [False, True])
def test_bad_rows_get_the_messages_of_numpy_rows(rows, filled):
    good = plain(np.random.default_rng(1), 2_000, 3)
    here, there = MomentSummary(3, 3, shard_id="a"), MomentSummary(3, 3, shard_id="a")
    if filled:
        here.update(good)
        there.update(good)
    before = there.to_bytes() if filled else None
    with pytest.raises((InputError, InputTypeError)) as expected:
        here.update(rows)
    with pytest.raises((InputError, InputTypeError)) as found:
        there.update(torch.from_numpy(rows))
    assert str(found.value) == str(expected.value)
    assert type(found.value) is type(expected.value)
    assert there.n_rows == (2_000 if filled else 0)
    if filled:
        assert there.to_bytes() == before


def test_a_device_without_float64_is_refused(monkeypatch):
    def fail(tensor):
        raise TypeError("no float64 here")

    monkeypatch.setattr(torch.Tensor, "double", fail)
    with pytest.raises(InputError, match=r"rows on cpu cannot be cast to float64: no float64"):
        summarize(torch.ones((4, 2), dtype=torch.float32), 2)


def test_rows_come_to_the_host_in_batches(monkeypatch):
    rows = plain(np.random.default_rng(0), 20_000)
    monkeypatch.setattr(gpu, "free_bytes", lambda array: 16 * 5 * 3_000)
    same(summarize(torch.from_numpy(rows), 4), summarize(rows, 4))

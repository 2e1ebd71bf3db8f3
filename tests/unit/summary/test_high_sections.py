"""Powers, cubes beside a feature and two squares: which are kept, and which are absent."""

import numpy as np
import pytest

import momentmix as mm
from momentmix import MomentSummary
from momentmix.errors import InputError


def test_selected_features_and_lower_orders_keep_them():
    rows = np.random.default_rng(2).standard_normal((400, 6)) ** 3
    summary = mm.summarize(rows, 4, shard_id="a")
    for chosen in ([4, 1, 5, 0], [3, 1]):
        part, again = summary.select(chosen), mm.summarize(rows[:, chosen], shard_id="a")
        for name in ("powers", "cubed", "two_squares"):
            a, b = (getattr(s.moments(), name) for s in (part, again))
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    lower, least = summary.truncate(2), summary.truncate(2, 0)
    np.testing.assert_array_equal(lower.moments().cubed, summary.moments().cubed)
    np.testing.assert_array_equal(least.moments().powers, summary.moments().powers)
    assert least.moments().cubed is None
    assert least.moments().two_squares is None


# -- outliers ---------------------------------------------------------------------------------


def with_wild_row(size, d=5, n=3_000, row=2_000):
    rows = np.random.default_rng(3).standard_normal((n, d))
    wild = rows.copy()
    wild[row, 1] = size
    return rows, wild


@pytest.mark.parametrize("size", [1e30, 1e60, 1e119])
@pytest.mark.parametrize("row", [5, 2_000])
def test_an_outlier_of_any_size_keeps_all_powers(size, row):
    calm, rows = with_wild_row(size, row=row)
    wild, others = mm.summarize(rows, 4), np.delete(np.arange(5), 1)
    moments, expected = wild.moments(), mm.summarize(calm[:, others], 4).moments()
    np.testing.assert_allclose(moments.powers[:, others], expected.powers, rtol=1e-12, atol=1e-12)
    far = np.array([3_000**0.5, 3_000, 3_000**1.5, 3_000**2])
    np.testing.assert_allclose(moments.powers[:, 1], far, rtol=1e-2)
    both = wild + mm.summarize(calm * 3 + 1, 4)
    assert both - wild == mm.summarize(calm * 3 + 1, 4)


def test_forgetting_a_row_that_outweighs_the_rest_is_refused():
    rows, wild = with_wild_row(1e6, row=5)
    summary = MomentSummary(5, 4).update(wild)
    with pytest.raises(InputError, match=r"In the fourth powers of column 1 .* keep outliers in a"):
        summary.forget(wild[5:6])
    rows, wild = with_wild_row(30.0, row=5)
    summary = MomentSummary(5, 4).update(wild).forget(wild[5:6])
    expected = mm.summarize(np.delete(rows, 5, axis=0), 4)
    np.testing.assert_allclose(summary.moments().powers, expected.moments().powers, rtol=1e-8)


def test_moments_that_overflow_float64_are_nan_where_they_are_high():
    """About 0 in units of 1, sixth powers of 1e60 are no float64 numbers; fourth ones are."""
    rows = np.random.default_rng(4).standard_normal((500, 4)) * [1, 1e60, 1e60, 1]
    moments = mm.summarize(rows, 4).moments(shift=0.0, scale=1.0)
    expected = np.zeros((4, 4), bool)
    expected[3, 1:3] = True
    np.testing.assert_array_equal(np.isnan(moments.powers), expected)
    assert np.isfinite(moments.two_squares).all()
    assert np.isfinite(moments.distinct[4]).all()

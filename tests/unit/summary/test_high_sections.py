"""Powers, cubes beside a feature and two squares: which are kept, and which are absent."""

import numpy as np
import pytest
from campaigns.written_out import monomials

import momentmix as mm
from momentmix import MomentSummary
from momentmix.fitting.data import moments_of
from momentmix.summary.exact import state
from momentmix.summary.kernels.array_sums import ArrayExecutor
from momentmix.summary.layout import COMPLETE, POWERS, Layout

LEVELS = {
    (1, 1, 0): POWERS,
    (2, 2, 1): COMPLETE,
    (3, 3, 2): COMPLETE,
    (3, 2, 0): POWERS,  # y_j² y_k would be needed to move the origin
    (4, 3, 2): POWERS,  # wide data of order 3 pay no d²
    (4, 4, 1): COMPLETE,
    (9, 5, 3): COMPLETE,
    (300, 2, 1): POWERS,
}


@pytest.mark.parametrize(("shape", "level"), LEVELS.items())
def test_which_sections_are_kept(shape, level):
    layout, d = Layout(*shape), shape[0]
    assert layout.high == level
    extra = layout.n_entries - layout.without_high.n_entries
    assert extra == 4 * d + (d * (d - 1) * 3 // 2 if level == COMPLETE else 0)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_degree_four_is_complete(d):
    """Every product of at most four features, with repetition, is kept once."""
    layout = Layout(d, min(d, 4), min(2, d - 1))
    kept = [tuple(sorted(s)) for section in layout.sections for s in monomials(section, d)]
    degrees = [len(s) for s in kept if len(s) <= 4]
    assert len(kept) == len(set(kept)) == layout.n_entries
    assert degrees.count(3) == d * (d + 1) * (d + 2) // 6
    assert degrees.count(4) == d * (d + 1) * (d + 2) * (d + 3) // 24


def by_hand(rows, weights):
    """Standardized powers, cubed and two_squares with weights."""
    share = weights / weights.sum()
    mean = share @ rows
    z = (rows - mean) / np.sqrt(share @ (rows - mean) ** 2)
    d = rows.shape[1]
    powers = [share @ z**p for p in range(3, 7)]
    cubed = [[share @ (z[:, j] ** 3 * z[:, k]) for k in range(d) if k != j] for j in range(d)]
    pairs = [(j, k) for k in range(d) for j in range(k)]
    return powers, np.array(cubed), [share @ (z[:, j] ** 2 * z[:, k] ** 2) for j, k in pairs]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "order"), [(1, 1), (2, 2), (3, 3), (5, 4)])
def test_a_fit_sees_them(d, order, weighted):
    rng = np.random.default_rng(d)
    rows = rng.gamma(2.0, size=(2_500, d)) * 10.0 ** rng.integers(-3, 4, d) + rng.standard_normal(d)
    weights = rng.random(2_500) if weighted else None
    found = moments_of(mm.summarize(rows, order, weights))
    powers, cubed, squares = by_hand(rows, np.ones(2_500) if weights is None else weights)
    np.testing.assert_allclose(found.powers, powers, rtol=1e-10)
    np.testing.assert_allclose(found.cubed, cubed.reshape(d, d - 1), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.two_squares, squares, rtol=1e-10)


def test_sections_that_are_not_kept_are_none():
    moments = moments_of(mm.summarize(np.random.default_rng(0).standard_normal((50, 5)), 3))
    assert moments.powers.shape == (4, 5)
    assert moments.cubed is moments.two_squares is None


def test_a_constant_column_that_varies_later():
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((3_000, 3))
    rows[:1_500, 1] = 7.25
    rows[:, 2] = 0.1
    summary = mm.summarize(rows, 3)
    moments = summary.moments(shift=0.0, scale=1.0)
    np.testing.assert_allclose(
        moments.powers, [(rows**p).mean(axis=0) for p in range(3, 7)], rtol=1e-12, atol=1e-12
    )
    cubes = [(rows[:, [j]] ** 3 * np.delete(rows, j, axis=1)).mean(axis=0) for j in range(3)]
    np.testing.assert_allclose(moments.cubed, cubes, rtol=1e-12, atol=1e-12)


def test_selected_features_and_lower_orders_keep_them():
    rows = np.random.default_rng(2).standard_normal((400, 6)) ** 3
    summary = mm.summarize(rows, 4, shard_id="a")
    chosen = [4, 1, 5, 0]
    part, again = summary.select(chosen), mm.summarize(rows[:, chosen], 4, shard_id="a")
    for name in ("powers", "cubed", "two_squares"):
        a, b = (getattr(s.moments(), name) for s in (part, again))
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    lower = summary.truncate(3)
    assert lower.moments().cubed is None
    np.testing.assert_array_equal(lower.moments().powers, summary.moments().powers)
    few = lower.select([0, 1, 2])  # three features, but their cubes were given up
    assert few.moments().cubed is None
    assert (few + mm.summarize(rows[:, :3], 3, shard_id="b")).moments().cubed is None


# -- what exceeds the range -------------------------------------------------------------------


def with_wild_row(size, d=5, n=3_000, row=2_000):
    rows = np.random.default_rng(3).standard_normal((n, d))
    wild = rows.copy()
    wild[row, 1] = size
    return rows, wild


REACHES = [(1e30, 6), (1e41, 5), (1e50, 4), (1e60, 4), (1e70, 3), (1e90, 2), (1e119, 2)]


@pytest.mark.parametrize(("size", "reach"), REACHES)
@pytest.mark.parametrize("by_numpy", [False, True])
def test_powers_beyond_the_range_are_absent_and_all_others_stay(size, reach, by_numpy, monkeypatch):
    if by_numpy:
        monkeypatch.setattr(state, "host_executor", lambda layout: ArrayExecutor(layout, np))
    _, rows = with_wild_row(size)
    wild = mm.summarize(rows, 4).moments()
    absent = np.zeros((4, 5), bool)
    absent[max(0, reach - 2) :, 1] = True
    np.testing.assert_array_equal(np.isnan(wild.powers), absent)
    squares = np.isnan(wild.two_squares)
    pairs = [(j, k) for k in range(5) for j in range(k)]
    np.testing.assert_array_equal(squares, [reach < 4 and 1 in pair for pair in pairs])
    cubes = [[reach < 4 and 1 in (j, k) for k in range(5) if k != j] for j in range(5)]
    np.testing.assert_array_equal(np.isnan(wild.cubed), cubes)
    others = np.delete(np.arange(5), 1)
    calm = mm.summarize(rows[:, others], 4).moments()
    np.testing.assert_allclose(wild.powers[:, others], calm.powers, rtol=1e-13, atol=1e-13)


def test_an_outlier_in_the_first_block_sets_the_unit_of_that_block():
    """Units are at least 2^−44 of the largest value, so that all powers stay in range."""
    _, rows = with_wild_row(1e90, row=5)
    assert np.isfinite(mm.summarize(rows, 4).moments().powers).all()


def test_absent_stays_absent_whatever_is_added_or_taken_away():
    calm, rows = with_wild_row(1e50)
    wild = MomentSummary(5, 4, shard_id="wild").update(rows)
    other = MomentSummary(5, 4, shard_id="calm").update(calm * 3 + 1)
    third = MomentSummary(5, 4, shard_id="third").update(calm[:100] * 1e-3)
    both = wild + other
    assert both.to_bytes() == (other + wild).to_bytes()
    assert (both + third).to_bytes() == ((third + wild) + other).to_bytes()
    rest = both - wild
    assert rest != other  # what both had is known, the rest is not
    for summary in (
        both,
        rest,
        MomentSummary.from_bytes(both.to_bytes()),
    ):
        powers = summary.moments().powers
        assert np.isnan(powers[2:, 1]).all()
        assert np.isfinite(np.delete(powers, 1, axis=1)).all()
        assert np.isfinite(powers[:2, 1]).all()
    np.testing.assert_allclose(rest.moments().powers[:2], other.moments().powers[:2], rtol=1e-9)
    assert (both - wild) - other == MomentSummary(5, 4)


def test_forgetting_a_row_that_outweighs_the_rest_gives_up_its_powers():
    rows, wild = with_wild_row(1e6, row=5)
    summary = MomentSummary(5, 4).update(wild).forget(wild[5:6])
    expected = MomentSummary(5, 4).update(np.delete(rows, 5, axis=0))
    np.testing.assert_allclose(summary.variance, expected.variance, rtol=1e-4)
    powers = summary.moments().powers
    assert np.isnan(powers[:, 1]).all()
    np.testing.assert_allclose(
        np.delete(powers, 1, axis=1), np.delete(expected.moments().powers, 1, axis=1), rtol=1e-9
    )


def test_moments_that_overflow_float64_are_nan_where_they_are_high():
    """About 0 in units of 1, sixth powers of 1e60 are no float64 numbers; fourth ones are."""
    rows = np.random.default_rng(4).standard_normal((500, 4)) * [1, 1e60, 1e60, 1]
    moments = mm.summarize(rows, 4).moments(shift=0.0, scale=1.0)
    expected = np.zeros((4, 4), bool)
    expected[3, 1:3] = True
    np.testing.assert_array_equal(np.isnan(moments.powers), expected)
    assert np.isfinite(moments.two_squares).all()
    assert np.isfinite(moments.distinct[4]).all()

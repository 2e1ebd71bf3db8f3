from math import comb, floor, sqrt

import numpy as np
import pytest

from momentmix import (
    IncompleteSymmetricTensor,
    MomentSummary,
    largest_rank,
    smallest_order,
    summarize,
)
from momentmix.errors import CapacityError, InputError, InputTypeError
from momentmix.index_sets import index_sets
from momentmix.paper.ranks import best_split, splits
from momentmix.summary.layout import Layout


def brute_force(d, m):
    """(max-r) as printed, over every k and p for which both monomial sets are non-empty."""
    n = d - 1
    best = 1
    for p in range(1, m - 1):
        for k in range(1, n):
            best = max(best, min(comb(k, p), comb(n - k - 1, m - p - 1)))
    return best


def in_range(d, m):
    n = d - 1
    return n >= max(2 * m - 1, m * m / 4 - 1)


@pytest.mark.parametrize("m", range(3, 9))
def test_largest_rank_against_brute_force(m):
    for d in range(1, 41):
        assert largest_rank(d, m) == brute_force(d, m)


def cube_root(x):
    return x ** (1 / 3) if x >= 0 else -((-x) ** (1 / 3))


def table_1(n, m):
    """Table 1 of the paper, left to right."""
    if m in (3, 5, 7):
        return comb((n - 1) // 2, (m - 1) // 2)
    if m == 4:
        return floor((2 * n - 1 - sqrt(8 * n - 7)) / 2)
    delta = 9 / 4 * n**4 - 47 / 2 * n**3 + 353 / 4 * n**2 - 412 / 3 * n + 1889 / 27
    half = -3 / 2 * (n - 3) * (n - 4)
    k = floor(cube_root(half + sqrt(delta)) + cube_root(half - sqrt(delta)) + n - 3 + 1e-9)
    return max(comb(k, 2), comb(n - k - 2, 3))


@pytest.mark.parametrize("m", [3, 4, 5, 6, 7])
def test_table_1_inside_its_range(m):
    for d in range(4, 61):
        if in_range(d, m):
            assert largest_rank(d, m) == table_1(d - 1, m), (d, m)


@pytest.mark.parametrize("m", range(3, 9))
def test_theorem_3_7_inside_its_range(m):
    p = (m - 1) // 2
    for d in range(4, 61):
        if not in_range(d, m):
            continue
        n = d - 1
        k = max(k for k in range(n) if comb(k, p) <= comb(n - k - 1, m - p - 1))
        assert largest_rank(d, m) == max(comb(k, p), comb(n - 2 - k, m - 1 - p))


def test_ranks_of_the_paper():
    ranks = {
        15: (6, 8, 15, 20, 20),
        25: (11, 16, 55, 84, 165),
        30: (14, 21, 91, 136, 364),
        40: (19, 29, 171, 286, 969),
    }
    for d, expected in ranks.items():
        assert tuple(largest_rank(d, m) for m in range(3, 8)) == expected


@pytest.mark.parametrize("d", [5, 11, 15, 24])
def test_smallest_order_is_the_first_that_reaches(d):
    for r in range(1, max(largest_rank(d, m) for m in range(3, d)) + 1):
        order = smallest_order(d, r)
        assert largest_rank(d, order) >= r
        assert all(largest_rank(d, m) < r for m in range(3, order))


def test_split_reaches_its_rank():
    for d, m in [(15, 4), (15, 6), (11, 7), (40, 7)]:
        split = best_split(d, m)
        n = d - 1
        assert split.rank == largest_rank(d, m)
        assert split.rank == min(
            comb(split.n_lower, split.degree), comb(n - split.n_lower - 1, m - split.degree - 1)
        )
        assert split == splits(d, m)[0]


def robust_blocks(blocks):
    return largest_rank(15, 5, method="robust", blocks=blocks)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: largest_rank(15, 2), InputError, "order must be at least 3; got 2"),
        (lambda: largest_rank(0, 3), InputError, "n_features must be at least 1"),
        (lambda: largest_rank(15, 3.0), InputTypeError, "order must be an integer"),
        (lambda: largest_rank(True, 3), InputTypeError, "n_features must be an integer"),
        (lambda: largest_rank(15, 3, method="magic"), InputError, "'magic'"),
        (lambda: robust_blocks([3] * 5), InputTypeError, r"lists of numbers .*; got \[3, 3, 3"),
        (lambda: robust_blocks(["abc"]), InputTypeError, r"lists of numbers .*; got \['abc'"),
        (lambda: robust_blocks([[0, 1], [1, 2]]), InputError, "must not overlap; column 1"),
        (lambda: robust_blocks([[0, 15]]), InputError, "from 0 to 14; got 15"),
        (lambda: smallest_order(15, 0), InputError, "n_components must be at least 1"),
        (lambda: smallest_order(15, 21), CapacityError, "the most that any order reaches is 20"),
        (lambda: smallest_order(3, 2), CapacityError, "is 1"),
        (lambda: best_split(15, 4, 9), CapacityError, r"at most 8 .* Use order=5 \(up to 15\)"),
        (lambda: best_split(15, 7, 21), CapacityError, "No other order reaches 21"),
        (lambda: best_split(4, 5), CapacityError, "at least 7 features"),
    ],
)
def test_errors_state_the_bound_and_the_cure(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_one_component_needs_no_order():
    assert largest_rank(1, 3) == 1
    assert smallest_order(1, 1) == 3


# -- sizes beyond all bounds ------------------------------------------------------------------

HUGE = 10**9


@pytest.mark.parametrize(
    "call",
    [
        lambda: MomentSummary(HUGE, HUGE),
        lambda: MomentSummary(HUGE, HUGE // 2),
        lambda: MomentSummary(10**4, 10**4),
        lambda: Layout(HUGE, HUGE - 1, 0),
        lambda: summarize(np.ones((2, 1000)), 1000),
        lambda: largest_rank(HUGE, HUGE),
        lambda: largest_rank(HUGE, HUGE, method="robust"),
        lambda: largest_rank(5000, 2500, method="robust"),
        lambda: best_split(HUGE, HUGE // 2),
        lambda: IncompleteSymmetricTensor([1.0], HUGE, HUGE),
        lambda: IncompleteSymmetricTensor([1.0], HUGE, HUGE // 2),
        lambda: IncompleteSymmetricTensor.from_factors(np.ones((1, 10**5)), 5 * 10**4),
        lambda: index_sets(400, 200),
        lambda: IncompleteSymmetricTensor.from_factors(np.ones((1, 400)), 200),
    ],
)
def test_sizes_beyond_counting_are_refused_at_once(call):
    with pytest.raises(InputError, match=r"has more than \de\+\d\d moments.*Use a lower order or"):
        call()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: MomentSummary(HUGE, 2), InputError, "a quarter of .*fewer features"),
        (lambda: MomentSummary(HUGE, 1), InputError, "a quarter of .*fewer features"),
        (lambda: MomentSummary(60, 60), InputError, r"a quarter of .* Use a lower order"),
        (lambda: MomentSummary(10**5000, 2), InputError, r"below 2\^63; got 16610 bits"),
        (lambda: smallest_order(1000, 10**5000), InputError, r"below 2\^63; got 16610 bits"),
        (lambda: smallest_order(40, HUGE), CapacityError, "any order reaches is 92378"),
        (lambda: IncompleteSymmetricTensor([1.0], HUGE, 6), InputError, r"must have shape \(1388"),
    ],
)
def test_large_sizes_get_the_usual_message(call, error, message):
    with pytest.raises(error, match=message):
        call()

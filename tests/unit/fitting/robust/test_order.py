"""One rule for the order of `fit`, the estimator and summaries."""

import numpy as np
import pytest

import momentmix as mm
from momentmix.capacity import affordable_order, choose_order, robust_rank, usual_order
from momentmix.errors import CapacityError


@pytest.mark.parametrize(("d", "r"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (7, 4)])
def test_result_tells_the_order(d, r):
    rows = np.random.default_rng(d).standard_normal((400, d))
    order = choose_order(d, r)
    assert robust_rank(d, order) >= r
    assert mm.fit(rows, r, random_state=0, max_passes=2).order == order
    assert mm.fit(mm.summarize(rows, order=order), r, random_state=0).order == order
    assert mm.MomentGaussianMixture(r).partial_fit(rows).summary_.order == order


def test_what_a_summary_holds_is_a_bound_and_else_changes_nothing():
    for d in (1, 2, 3, 5, 8, 9, 12, 15, 20):
        for r in range(1, 40):
            order = choose_order(d, r)
            assert 1 <= order <= d
            assert choose_order(d, r, available=order) == order
            for available in range(1, d + 1):
                assert choose_order(d, r, available) <= available


def test_order_where_the_number_of_components_is_not_known():
    rows = np.random.default_rng(0).standard_normal((300, 9))
    fitted = mm.MomentGaussianMixture("auto").partial_fit(rows)
    assert fitted.summary_.order == choose_order(9, "auto") == choose_order(9, 8)
    assert [usual_order(d) for d in (1, 3, 4, 9)] == [1, 3, 4, 4]


def test_no_order_of_a_summary_identifies_too_many_components():
    highest = mm.summarize(np.random.default_rng(0).standard_normal((40, 4)), order=4)
    with pytest.raises(CapacityError, match="from moments alone"):
        mm.fit(highest, 20)


@pytest.mark.parametrize(
    ("shape", "r", "order"),
    [
        ((40, 120), 3, 2),  # 280,000 products of order 3
        ((400, 30), 5, 3),  # too few rows for a moment answer
    ],
)
def test_wide_tables_take_an_order_that_they_can_afford(shape, r, order):
    rows = np.random.default_rng(0).standard_normal(shape)
    assert mm.fit(rows, r, max_passes=1, random_state=0).order == order


def test_sums_are_weighed_against_the_passes():
    assert affordable_order(40, 5, 10**6, 5) == affordable_order(40, 5, None, 5) == 4
    assert affordable_order(100, 5, 10**6, 5) == 2
    assert affordable_order(100, 20, 10**6, 5) == 3
    for d in range(1, 17):  # every order is cheap
        assert affordable_order(d, 4, 10, 5) == choose_order(d, 4)

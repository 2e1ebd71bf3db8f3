import numpy as np
import pytest

from momentmix.core.labels import index_sets, sets_without
from momentmix.errors import InputError, InputTypeError
from momentmix.fitting.row_moments import RowMoments


def test_moments_are_plain_means_of_products():
    rows = np.random.default_rng(0).standard_normal((5000, 6)) + 2  # more than one block
    moments = RowMoments(rows)
    for order in (1, 2, 3, 4):
        expected = rows[:, index_sets(6, order)].prod(axis=2).mean(axis=0)
        np.testing.assert_allclose(moments.moment_tensor(order).values, expected, rtol=1e-11)
    for order in (0, 1, 2):
        for j in range(6):
            products = rows[:, sets_without(6, order, j)].prod(axis=2)
            expected = (rows[:, [j]] ** 2 * products).mean(axis=0)
            np.testing.assert_allclose(moments.squared_moments(j, order), expected, rtol=1e-11)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (np.ones(5), InputError, r"shape \(n_rows, n_features\).*got \(5,\)"),
        (np.ones((0, 3)), InputError, r"got \(0, 3\)"),
        (np.ones((3, 0)), InputError, r"got \(3, 0\)"),
        (np.array([["a", "b"]]), InputTypeError, "real numbers"),
        (np.ones((3, 2), complex), InputTypeError, "real numbers"),
        (np.array([[1.0, 2.0], [3.0, np.nan]]), InputError, "row 1, column 1 is nan"),
        (np.array([[1.0, -np.inf], [3.0, 4.0]]), InputError, "row 0, column 1 is -inf"),
    ],
)
def test_bad_rows_are_refused(rows, error, message):
    with pytest.raises(error, match=message):
        RowMoments(rows)

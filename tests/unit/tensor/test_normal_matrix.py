import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from momentmix.tensor.incomplete_tensor import elementary_symmetric, power_derivative, power_sum
from momentmix.tensor.normal_matrix import leave_one_out, normal_matrix


@given(seed=st.integers(0, 1000), d=st.integers(2, 8), degree=st.integers(0, 7))
def test_leaving_one_out_is_the_polynomial_of_the_others(seed, d, degree):
    x = np.random.default_rng(seed).standard_normal((3, d))
    slow = np.stack(
        [elementary_symmetric(np.delete(x, i, axis=1), degree)[degree] for i in range(d)], axis=1
    )
    np.testing.assert_allclose(leave_one_out(x, degree), slow, rtol=1e-9, atol=1e-12)


def test_leaving_out_survives_zero_and_huge_entries():
    x = np.array([0.0, 1e12, 1e-12, 3.0])
    assert leave_one_out(x, 1).tolist() == pytest.approx([1e12 + 3, 3, 1e12 + 3, 1e12])
    assert leave_one_out(x, 3).tolist() == pytest.approx([3.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(
    ("d", "order", "r"), [(5, 1, 2), (6, 2, 3), (7, 3, 3), (7, 4, 2), (8, 5, 3)]
)
def test_closed_form_equals_the_explicit_jacobian(d, order, r, kind):
    rng = np.random.default_rng(0)
    vectors, weights = rng.standard_normal((r, d)), rng.standard_normal(r)
    if kind == "complex":
        vectors = vectors + 1j * rng.standard_normal((r, d))
        weights = weights + 1j * rng.standard_normal(r)
    columns = [power_sum(v[None], order) for v in vectors]
    for w, v in zip(weights, vectors, strict=True):
        columns += [w * power_derivative(v[None], unit[None], order) for unit in np.eye(d)]
    jacobian = np.stack(columns, axis=1)
    expected = jacobian.conj().T @ jacobian
    np.testing.assert_allclose(normal_matrix(weights, vectors, order), expected, atol=1e-9)

import functools
import itertools
from itertools import permutations
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from momentmix import IncompleteSymmetricTensor
from momentmix.errors import InputError, InputTypeError
from momentmix.paper.gauss_newton import leave_one_out, normal_matrix
from momentmix.paper.incomplete_tensor import (
    contract,
    contract_gradient,
    elementary_symmetric,
    power_inner_products,
    power_sum,
)

SHAPES = [(3, 1), (5, 2), (6, 3), (6, 4), (7, 5), (5, 5)]


def dense_power(vector, order):
    """Oracle: the full tensor power with every entry of a repeated index set to zero."""
    tensor = np.ones(())
    for _ in range(order):
        tensor = np.multiply.outer(tensor, vector)
    grid = np.indices(tensor.shape).reshape(order, -1)
    distinct = np.array([len(set(column)) == order for column in grid.T])
    return np.where(distinct.reshape(tensor.shape), tensor, 0)


def random_factors(seed, rank, d, kind="real"):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((rank, d))
    return factors + 1j * rng.standard_normal((rank, d)) if kind == "complex" else factors


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(("d", "order"), SHAPES)
def test_entries_norm_and_inner_product_agree_with_dense_tensors(d, order, kind):
    a, b = random_factors(0, 3, d, kind), random_factors(1, 2, d, kind)
    first = IncompleteSymmetricTensor.from_factors(a, order)
    second = IncompleteSymmetricTensor.from_factors(b, order)
    dense_a = sum(dense_power(v, order) for v in a)
    dense_b = sum(dense_power(v, order) for v in b)
    for label, value in zip(first.labels, first.values, strict=True):
        for shuffled in permutations(label):
            assert first[shuffled] == pytest.approx(dense_a[shuffled])
        assert value == pytest.approx(dense_a[tuple(label)])
    assert first.norm() == pytest.approx(np.linalg.norm(dense_a))
    assert first.inner(second) == pytest.approx(np.vdot(dense_a, dense_b))


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(("d", "order"), SHAPES)
def test_inner_products_of_powers_by_elementary_symmetric_polynomials(d, order, kind):
    a, b = random_factors(2, 3, d, kind), random_factors(3, 2, d, kind)
    dense = [[np.vdot(dense_power(x, order), dense_power(y, order)) for y in b] for x in a]
    np.testing.assert_allclose(power_inner_products(a, b, order), dense, rtol=1e-10, atol=1e-10)


def test_elementary_symmetric_polynomials_are_coefficients_of_a_product():
    x = np.random.default_rng(0).standard_normal((4, 6))
    found = elementary_symmetric(x, 6)
    for row, values in enumerate(x):
        # Π (t + x_i) has coefficients e_0, e_1, … from the top.
        np.testing.assert_allclose(found[:, row], np.poly(-values), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(("d", "order"), SHAPES)
def test_contraction_and_its_gradient(d, order, kind):
    rng = np.random.default_rng(4)
    factors = random_factors(5, 3, d, kind)
    labels = IncompleteSymmetricTensor.from_factors(factors, order).labels
    values = rng.standard_normal(len(labels))
    slow = [
        sum(v * np.prod(q[list(i)]) for v, i in zip(values, labels, strict=True)) for q in factors
    ]
    np.testing.assert_allclose(contract(values, factors, order), slow, rtol=1e-10)
    gradient = np.zeros(factors.shape, factors.dtype)
    for row, q in enumerate(factors):
        for value, label in zip(values, labels, strict=True):
            for a in label:
                gradient[row, a] += value * np.prod([q[c] for c in label if c != a])
    np.testing.assert_allclose(contract_gradient(values, factors, order), gradient, rtol=1e-10)


def test_weights_multiply_the_powers():
    factors = random_factors(6, 3, 6)
    weights = np.array([0.5, -2.0, 3.0])
    slow = sum(w * power_sum(q[None], 3) for w, q in zip(weights, factors, strict=True))
    np.testing.assert_allclose(power_sum(factors, 3, weights), slow)


def test_arithmetic_keeps_shape_and_refuses_strangers():
    one = IncompleteSymmetricTensor.from_factors(np.ones((1, 5)), 3)
    assert (one + one - one).values.tolist() == one.values.tolist()
    assert (2 * one).norm() == pytest.approx(2 * one.norm())
    other = IncompleteSymmetricTensor.from_factors(np.ones((1, 5)), 2)
    with pytest.raises(InputError, match=r"\(5, 3\) and \(5, 2\)"):
        one + other


def test_norm_counts_every_permutation():
    tensor = IncompleteSymmetricTensor(np.array([3.0]), 4, 4)
    assert tensor.norm() == pytest.approx(3 * np.sqrt(factorial(4)))


@pytest.mark.parametrize(
    ("values", "d", "order", "error", "message"),
    [
        (np.ones(9), 5, 3, InputError, r"shape \(10,\).*got shape \(9,\)"),
        (np.ones((10, 1)), 5, 3, InputError, r"shape \(10,\)"),
        (np.ones(1), 3, 4, InputError, "between 1 and n_features=3"),
        (np.ones(1), 3, 0, InputError, "got order=0"),
        (np.r_[np.ones(4), np.nan, np.ones(5)], 5, 3, InputError, r"entry at \(0, 1, 4\) is nan"),
        (np.array(["a"] * 10), 5, 3, InputTypeError, "must be numbers"),
        (np.ones(10), 5.0, 3, InputTypeError, "n_features must be an integer"),
        (np.ones(10), 5, True, InputTypeError, "order must be an integer"),
    ],
)
def test_bad_tensors_are_refused(values, d, order, error, message):
    with pytest.raises(error, match=message):
        IncompleteSymmetricTensor(values, d, order)


def test_bad_factors_and_labels_are_refused():
    with pytest.raises(InputError, match=r"shape \(rank, n_features\)"):
        IncompleteSymmetricTensor.from_factors(np.ones(5), 3)
    with pytest.raises(InputError, match="between 1 and n_features=5"):
        IncompleteSymmetricTensor.from_factors(np.ones((1, 5)), 6)
    tensor = IncompleteSymmetricTensor.from_factors(np.ones((1, 5)), 3)
    with pytest.raises(InputError, match="3 distinct indices"):
        tensor[0, 0, 1]
    with pytest.raises(InputError, match="lie in 0…4"):
        tensor[0, 1, 5]


def test_values_are_a_private_read_only_copy():
    source = np.ones(10)
    tensor = IncompleteSymmetricTensor(source, 5, 3)
    source[0] = 7
    assert tensor.values[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        tensor.values[0] = 2


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
        # A power is linear in each coordinate, so that differences are exact.
        moved = [power_sum((v + unit)[None], order) for unit in np.eye(d)]
        columns += [w * (values - power_sum(v[None], order)) for values in moved]
    jacobian = np.stack(columns, axis=1)
    expected = jacobian.conj().T @ jacobian
    np.testing.assert_allclose(normal_matrix(weights, vectors, order), expected, atol=1e-9)


@pytest.mark.parametrize(("d", "order"), [(5, 1), (6, 2), (7, 3), (6, 4), (5, 5)])
@pytest.mark.parametrize("kind", [float, complex])
def test_dense_tensors_give_their_entries_with_distinct_indices(d, order, kind):
    rng = np.random.default_rng(order)
    factors = rng.standard_normal((3, d)).astype(kind)
    if kind is complex:
        factors += 1j * rng.standard_normal((3, d))
    dense = sum(functools.reduce(np.multiply.outer, [q] * order) for q in factors)
    found = IncompleteSymmetricTensor.from_dense(dense)
    expected = IncompleteSymmetricTensor.from_factors(factors, order)
    assert (found.n_features, found.order) == (d, order)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-12, atol=1e-12)
    brute = [dense[sets] for sets in itertools.combinations(range(d), order)]
    assert sorted(brute, key=abs) == sorted(found.values.tolist(), key=abs)
    single = dense.astype(np.complex64 if kind is complex else np.float32)
    np.testing.assert_allclose(
        IncompleteSymmetricTensor.from_dense(single).values, expected.values, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("array", "error", "message"),
    [
        (np.ones((3, 4)), InputError, r"shape \(d, d, …, d\).*got shape \(3, 4\)"),
        (np.float64(1), InputError, "one axis for each index"),
        (np.ones((2, 2, 2)), InputError, "at least as many features as axes"),
        (np.full((3, 3), "x"), InputTypeError, "must hold numbers"),
        (np.arange(9.0).reshape(3, 3), InputError, r"differ by 4 .*Average the array"),
        (np.arange(9).reshape(3, 3), InputError, r"entry at \(0, 2\)"),
        (np.full((3, 3), np.nan), InputError, "must be finite"),
    ],
)
def test_bad_dense_tensors_are_refused(array, error, message):
    with pytest.raises(error, match=message):
        IncompleteSymmetricTensor.from_dense(array)

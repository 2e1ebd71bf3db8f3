import sys

import numpy as np
import pytest

import momentmix as mm
from momentmix import IncompleteSymmetricTensor, largest_rank
from momentmix.errors import CapacityError, DecompositionError, InputError, InputTypeError
from momentmix.mixture.matching import largest_factor_error
from momentmix.paper.decompose import nearest_real

decompose_module = sys.modules["momentmix.paper.decompose"]


def random_factors(seed, rank, d, kind="real"):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((rank, d))
    return factors + 1j * rng.standard_normal((rank, d)) if kind == "complex" else factors


def tensor_of(factors, order):
    return IncompleteSymmetricTensor.from_factors(factors, order)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(
    ("d", "order", "share"),
    [
        (15, 3, 1),
        (15, 4, 1),
        (15, 5, 1),
        (15, 6, 1),
        (11, 7, 1),
        (20, 4, 0.5),
        (7, 5, 1),
        (15, 3, 0.2),
    ],
)
def test_factors_come_back_at_and_below_capacity(d, order, share, kind):
    rank = int(share * largest_rank(d, order))
    for seed in range(5):
        factors = random_factors(seed, rank, d, kind)
        found = mm.decompose(tensor_of(factors, order), rank, random_state=seed)
        assert found.diagnostics.residual < 1e-10
        assert largest_factor_error(factors, found.factors, order) < 1e-8
        if kind == "real":
            assert found.factors.dtype == float
            assert found.diagnostics.imaginary_part < 1e-12


def test_a_real_tensor_with_complex_factors_stays_complex():
    half = random_factors(1, 3, 15, "complex")
    factors = np.concatenate([half, half.conj()])
    values = tensor_of(factors, 3).values
    tensor = IncompleteSymmetricTensor(values.real, 15, 3)
    found = mm.decompose(tensor, 6, random_state=0)
    assert found.factors.dtype == complex
    assert found.diagnostics.imaginary_part > 0.1
    assert largest_factor_error(factors, found.factors, 3) < 1e-8


def test_negative_powers_of_even_order_have_complex_factors():
    values = -tensor_of(random_factors(2, 3, 15), 4).values
    found = mm.decompose(IncompleteSymmetricTensor(values, 15, 4), 3, random_state=0)
    assert found.diagnostics.residual < 1e-12
    again = tensor_of(found.factors, 4).values
    np.testing.assert_allclose(again.real, values, atol=1e-10)


def test_threads_give_the_bits_of_one(monkeypatch):
    tensor = tensor_of(random_factors(3, 100, 28), 6)
    found = []
    for n_cores in (1, 4):
        monkeypatch.setattr(decompose_module, "usable_cores", lambda n=n_cores: n)
        found.append(mm.decompose(tensor, 100, random_state=7, n_orders=2))
    assert found[0].diagnostics == found[1].diagnostics
    assert found[0].factors.tobytes() == found[1].factors.tobytes()


@pytest.mark.parametrize("solve", [mm.decompose, mm.approximate])
def test_the_degree_is_an_input(solve):
    """p of the paper: order 5 with 12 features has splits of ranks 5, 10 and 5."""
    for degree, rank in ((1, 5), (2, 10), (3, 5), (None, 10)):
        factors = random_factors(4, rank, 12)
        found = solve(tensor_of(factors, 5), rank, random_state=0, degree=degree)
        assert found.diagnostics.split.degree == (degree or 2)
        assert largest_factor_error(factors, found.factors, 5) < 1e-8
        if degree != 2:
            continue
        with pytest.raises(
            CapacityError, match=r"degree=1 identifies at most 5 .*Use another degree"
        ):
            solve(tensor_of(factors, 5), 8, degree=1)
    with pytest.raises(InputError, match="degree must lie between 1 and 3; got 4"):
        solve(tensor_of(factors, 5), 2, degree=4)


def test_more_orders_never_raise_the_residual():
    tensor = tensor_of(random_factors(4, 20, 15), 6)
    one = mm.decompose(tensor, 20, random_state=0, n_orders=1).diagnostics
    six = mm.decompose(tensor, 20, random_state=0, n_orders=6).diagnostics
    assert six.residual <= one.residual
    assert (one.n_tried, six.n_tried) == (1, 6)


def test_diagnostics_tell_a_hard_tensor_from_an_easy_one():
    easy = random_factors(6, 4, 15)
    hard = easy.copy()
    hard[1] = hard[0] + 1e-4 * hard[1]
    good = mm.decompose(tensor_of(easy, 4), 4, random_state=0).diagnostics
    bad = mm.decompose(tensor_of(hard, 4), 4, random_state=0).diagnostics
    assert bad.condition_systems > 100 * good.condition_systems
    assert bad.eigenvalue_gap < good.eigenvalue_gap


def test_zero_entries_are_avoided_where_some_coordinate_can_lead():
    factors = random_factors(7, 8, 15)
    factors[0, :5] = 0
    found = mm.decompose(tensor_of(factors, 4), 8, random_state=0)
    assert found.diagnostics.residual < 1e-10


def test_no_coordinate_can_lead():
    factors = random_factors(8, 8, 15)
    factors[np.arange(15) % 8, np.arange(15)] = 0
    with pytest.raises(DecompositionError, match=r"condition \(i\).*Leave out features") as caught:
        mm.decompose(tensor_of(factors, 4), 8, random_state=0)
    assert caught.value.condition == "leading-entry"
    assert caught.value.diagnostics.n_tried == 15


@pytest.mark.parametrize("change", ["doubled", "dependent", "missing"])
def test_dependent_factors_are_named(change):
    factors = random_factors(9, 8, 15)
    if change == "doubled":
        factors[1] = -2 * factors[0]
    elif change == "dependent":
        factors[2] = factors[0] + factors[1]
    else:
        factors = factors[:7]
    with pytest.raises(DecompositionError, match=r"condition \(ii\).*rank 7") as caught:
        mm.decompose(tensor_of(factors, 4), 8, random_state=0)
    assert caught.value.condition == "independence-basis"


def test_factors_equal_in_all_but_a_few_coordinates_share_eigenvalues():
    # Two factors that differ in one coordinate: the upper coordinates agree unless it is there.
    factors = random_factors(10, 2, 8)
    factors[1, 1:] = factors[0, 1:]
    with pytest.raises(DecompositionError, match="condition"):
        mm.decompose(tensor_of(factors, 3), 2, random_state=0)


def test_zero_tensor_and_sparse_factor_are_refused():
    with pytest.raises(DecompositionError, match="every entry of the tensor is zero"):
        mm.decompose(tensor_of(np.zeros((1, 8)), 3), 2)
    sparse = np.zeros((1, 8))
    sparse[0, :3] = 1.0
    with pytest.raises(DecompositionError, match="condition"):
        mm.decompose(tensor_of(sparse, 3), 1)


@pytest.mark.parametrize("solve", [mm.decompose, mm.approximate])
@pytest.mark.parametrize(
    ("order", "rank", "error", "message"),
    [
        (4, 9, CapacityError, r"at most 8 factors.*9 were asked.*order=5 \(up to 15\)"),
        (4, 0, InputError, "rank must be at least 1; got 0"),
        (4, -3, InputError, "got -3"),
        (4, 2.5, InputTypeError, "rank must be an integer"),
        (4, True, InputTypeError, "rank must be an integer"),
        (2, 3, InputError, "order must be at least 3.*got order=2"),
        (15, 1, CapacityError, "15 features admits no split; it needs at least 17"),
    ],
)
def test_bad_requests_state_the_bound_and_the_cure(solve, order, rank, error, message):
    with pytest.raises(error, match=message):
        solve(tensor_of(random_factors(0, 2, 15), order), rank)


def test_only_incomplete_tensors_are_taken():
    with pytest.raises(InputTypeError, match="must be an IncompleteSymmetricTensor; got ndarray"):
        mm.decompose(np.ones((3, 3, 3)), 2)


def test_nearest_real_undoes_roots_of_unity():
    factors = random_factors(11, 4, 6)
    turned = np.exp(2j * np.pi * np.array([0, 1, 2, 3]) / 4)[:, None] * factors
    found = nearest_real(turned, 4)
    assert np.abs(found.imag).max() < 1e-14
    np.testing.assert_allclose(np.abs(found.real), np.abs(factors), atol=1e-14)

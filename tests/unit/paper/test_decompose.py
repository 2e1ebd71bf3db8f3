import numpy as np
import pytest

import momentmix as mm
import momentmix.paper.decompose as decompose_module
from momentmix import IncompleteSymmetricTensor, largest_rank
from momentmix.errors import CapacityError, DecompositionError, InputError, InputTypeError
from momentmix.mixture.matching import largest_factor_error
from momentmix.paper.coefficients import nearest_real, solve_weights
from momentmix.paper.decompose import default_directions, default_orders


def random_factors(seed, rank, d, kind="real"):
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((rank, d))
    return factors + 1j * rng.standard_normal((rank, d)) if kind == "complex" else factors


def tensor_of(factors, order):
    return IncompleteSymmetricTensor.from_factors(factors, order)


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(
    ("d", "order", "share"),
    [(15, 3, 1), (15, 4, 1), (15, 5, 1), (15, 6, 1), (11, 7, 1), (20, 4, 0.5)],
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


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(("d", "order"), [(4, 3), (6, 5), (15, 3)])
def test_one_factor_needs_no_split(d, order, kind):
    factors = random_factors(0, 1, d, kind)
    found = mm.decompose(tensor_of(factors, order), 1)
    assert found.diagnostics.split is None
    assert largest_factor_error(factors, found.factors, order) < 1e-12


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


# orders on threads, and the parts of each step, of the full steps and of the shorter ones
@pytest.mark.parametrize(("large", "n_orders"), [(500, 3), (99, 3), (99, None)])
def test_threads_give_the_bits_of_one(large, n_orders):
    tensor = tensor_of(random_factors(3, 100, 28), 6)
    found = []
    for n_cores in (1, 4):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(decompose_module, "LARGE", large)
            patch.setattr(decompose_module, "usable_cores", lambda n=n_cores: n)
            found.append(mm.decompose(tensor, 100, random_state=7, n_orders=n_orders))
    assert found[0].diagnostics.n_tried == (n_orders or 1)
    assert found[0].diagnostics == found[1].diagnostics
    assert found[0].factors.tobytes() == found[1].factors.tobytes()


def test_one_direction_is_enough_at_large_ranks():
    defaults = [(default_orders(rank), default_directions(rank)) for rank in (2, 500, 501, 969)]
    assert defaults == [(4, 2), (4, 2), (2, 1), (2, 1)]


def test_a_precise_order_is_enough_where_each_takes_seconds(monkeypatch):
    tensor = tensor_of(random_factors(3, 20, 15), 6)
    assert mm.decompose(tensor, 20, random_state=7).diagnostics.n_tried == 4
    monkeypatch.setattr(decompose_module, "LARGE", 10)
    assert mm.decompose(tensor, 20, random_state=7).diagnostics.n_tried == 1
    assert mm.decompose(tensor, 20, random_state=7, n_orders=2).diagnostics.n_tried == 2
    monkeypatch.setattr(decompose_module, "_PRECISE", 1e-20)  # out of reach
    assert mm.decompose(tensor, 20, random_state=7).diagnostics.n_tried == 2


@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize(("d", "order", "share"), [(15, 5, 1), (15, 6, 1), (25, 4, 0.6)])
def test_the_shorter_steps_of_large_ranks_are_as_precise(d, order, share, kind, monkeypatch):
    rank = int(share * largest_rank(d, order))
    full = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decompose_module, "eigenvalues_from_few", None)  # not called by the full ones
        for seed in range(5):
            tensor = tensor_of(random_factors(seed, rank, d, kind), order)
            full.append(mm.decompose(tensor, rank, random_state=seed, n_orders=1, n_directions=1))
    monkeypatch.setattr(decompose_module, "LARGE", rank - 1)
    monkeypatch.setattr(decompose_module, "common_eigenvalues", None)
    for seed, other in enumerate(full):
        factors = random_factors(seed, rank, d, kind)
        found = mm.decompose(tensor_of(factors, order), rank, random_state=seed)
        assert found.diagnostics.residual < max(1e-10, 10 * other.diagnostics.residual)
        again = tensor_of(found.factors, order).values - tensor_of(factors, order).values
        size = np.linalg.norm(tensor_of(factors, order).values)
        # The residual that is reported is that of the factors.
        assert np.linalg.norm(again) / size == pytest.approx(
            found.diagnostics.residual, rel=0.1, abs=1e-14
        )
        assert largest_factor_error(factors, found.factors, order) < 1e-8


def test_weights_that_leave_rounding_errors_are_kept():
    factors = random_factors(3, 20, 15)
    tensor = tensor_of(factors, 6)
    exact, weights = factors.copy(), np.ones(20)
    kept, residual = solve_weights(tensor, exact, weights, enough=1e-8)
    assert residual < 1e-14
    np.testing.assert_allclose(kept[:, None] * exact**6, factors**6, rtol=1e-12)
    weights[0] += 1e-3  # too far from the solution: by least squares
    moved, residual = solve_weights(tensor, factors.copy(), weights, enough=1e-8)
    assert residual < 1e-12
    np.testing.assert_allclose(moved, kept, rtol=1e-8)


def test_more_orders_never_raise_the_residual():
    tensor = tensor_of(random_factors(4, 20, 15), 6)
    one = mm.decompose(tensor, 20, random_state=0, n_orders=1).diagnostics
    six = mm.decompose(tensor, 20, random_state=0, n_orders=6).diagnostics
    assert six.residual <= one.residual
    assert (one.n_tried, six.n_tried) == (1, 6)


def test_polish_is_reported_apart():
    tensor = tensor_of(random_factors(5, 15, 15), 5)
    plain = mm.decompose(tensor, 15, random_state=0)
    polished = mm.decompose(tensor, 15, random_state=0, polish=True)
    assert plain.diagnostics.polished_residual is None
    assert polished.diagnostics.residual == plain.diagnostics.residual
    assert polished.diagnostics.polished_residual <= plain.diagnostics.residual


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
    with pytest.raises(DecompositionError, match="too few non-zero coordinates"):
        mm.decompose(tensor_of(sparse, 3), 1)


@pytest.mark.parametrize("solve", [mm.decompose, mm.approximate])
@pytest.mark.parametrize(
    ("order", "rank", "error", "message"),
    [
        (4, 9, CapacityError, r"at most 8 factors.*rank=9 was asked.*order 5 \(up to 15\)"),
        (4, 0, InputError, "rank must be at least 1; got 0"),
        (4, -3, InputError, "got -3"),
        (4, 2.5, InputTypeError, "rank must be an integer"),
        (4, True, InputTypeError, "rank must be an integer"),
        (2, 3, InputError, "order must be at least 3.*got order=2"),
        (15, 1, CapacityError, "needs at least 16 features; got 15"),
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

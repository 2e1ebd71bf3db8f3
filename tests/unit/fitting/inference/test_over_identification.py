"""The test of moment conditions: its groups, their levels, and what each of them finds."""

from dataclasses import replace

import numpy as np
import pytest
from fitting_helpers import exact_moments, parameters_of, random_mixture, sample_means
from scipy.stats import chi2

from momentmix import Mixture
from momentmix.fitting.inference.over_identification import (
    LEAST_P_VALUE,
    check_conditions,
    fourth_cumulant_of_powers,
)
from momentmix.fitting.inference.tested_conditions import choose_conditions
from momentmix.fitting.moments.monomials import gaussian_powers
from momentmix.fitting.moments.whitening import Whitening
from momentmix.mixture.parameters import Parameters

KINDS = ["distinct features", "pairs", "shape of columns"]


class Case:
    """A mixture, the conditions of its moments, and tests of values that were observed."""

    def __init__(self, r, d, n_rows, seed=0, order=4):
        truth = random_mixture(r, d, seed)
        self.moments = exact_moments(truth, min(order, d), n_rows)
        self.parameters = truth.parameters.standardized(self.moments.shift, self.moments.scale)
        self.rng = np.random.default_rng([seed, n_rows])
        self.conditions = choose_conditions(self.moments, r, self.rng)
        self.whitening = Whitening(self.conditions, self.parameters)
        self.n_rows = n_rows
        self.errors = np.sqrt(self.conditions.row_variances(self.parameters) / n_rows)

    def observed(self, seed=0):
        rng = np.random.default_rng([seed, self.n_rows])
        return sample_means(self.conditions, self.parameters, self.n_rows, rng)

    def test(self, values, draws_rows=True):
        conditions = replace(self.conditions, values=values)
        return check_conditions(
            self.moments, self.parameters, self.rng, draws_rows, False, conditions, self.whitening
        )

    def place(self, exponents):
        """The condition that is this product of powers, given by feature."""
        c = self.conditions
        for i, (slots, powers) in enumerate(zip(c.slots, c.slot_exponents, strict=True)):
            if {int(j): int(p) for j, p in zip(slots, powers, strict=True) if p} == exponents:
                return i
        raise AssertionError(f"no condition {exponents}")


def p_values(test):
    return {group.name: group.p_value for group in test.groups}


# -- groups -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("r", "d", "n_rows"), [(1, 3, 500), (2, 4, 3000), (3, 6, 20_000)])
def test_groups_add_up_to_the_total(r, d, n_rows):
    case = Case(r, d, n_rows)
    test = case.test(case.observed())
    names = [group.name for group in test.groups]
    assert names == KINDS + [f"shape of column {j}" for j in range(d)]
    kinds = test.groups[:3]
    assert sum(group.statistic for group in kinds) == pytest.approx(test.statistic)
    assert sum(group.degrees_of_freedom for group in kinds) == test.degrees_of_freedom
    c, rank = case.conditions, r * (2 * d + 1) - 1
    n_pairs, n_shape = d * (d - 1) * 3 // 2, 4 * d
    assert test.degrees_of_freedom == c.size - rank
    assert [group.degrees_of_freedom for group in kinds] == [
        c.size - n_pairs - n_shape - rank, n_pairs, n_shape,
    ]  # fmt: skip
    # Each column: z³ … z⁶ given all else. Together they span what all have in common.
    assert [group.degrees_of_freedom for group in test.groups[3:]] == [4] * d
    assert test.p_value == min(group.p_value for group in test.groups)


# -- levels -----------------------------------------------------------------------------------


def most_by_chance(count, level):
    return count * level + 3 * np.sqrt(count * level * (1 - level))


def rejections(tests, level):
    """How often each group is rejected at a level, before the correction for their number."""
    names = [group.name for group in tests[0].groups]
    n_columns = sum(name not in KINDS for name in names)
    n_tests = [len(KINDS) + 1 if name in KINDS else (len(KINDS) + 1) * n_columns for name in names]
    values = np.array([list(p_values(test).values()) for test in tests])
    return dict(zip(names, (values < level * np.array(n_tests)).sum(axis=0).tolist(), strict=True))


TABLES = [(3000, 200), (20_000, 80)]


@pytest.fixture(scope="module", params=TABLES)
def true_model(request):
    """Tests of tables of a true model."""
    n_rows, count = request.param
    case = Case(2, 4, n_rows)
    return [case.test(case.observed(seed)) for seed in range(count)]


def test_a_true_model_is_rejected_as_often_as_the_level_says(true_model):
    count, level = len(true_model), 0.05
    found = rejections(true_model, level)
    assert set(found) == {*KINDS, *(f"shape of column {j}" for j in range(4))}
    for name, number in found.items():
        assert number <= most_by_chance(count, level), (name, number)
    # Kinds with nearly normal means are not rejected too seldom either.
    least = count * level - 3 * np.sqrt(count * level * (1 - level))
    assert found["distinct features"] >= least
    assert found["pairs"] >= least
    any_of_them = sum(test.p_value < level for test in true_model)
    assert any_of_them <= most_by_chance(count, level)


def test_with_few_rows_drawn_rows_keep_the_level():
    case, count = Case(2, 3, 200, seed=1), 60
    tests = [case.test(case.observed(seed)) for seed in range(count)]
    plain = [case.test(case.observed(seed), draws_rows=False) for seed in range(count)]
    # Only where the χ² laws leave a doubt; and some of those p-values become larger, none smaller.
    pairs = [(a.p_value, b.p_value) for a, b in zip(tests, plain, strict=True)]
    assert all(drawn == known for drawn, known in pairs if known >= 0.05)
    assert all(drawn >= known for drawn, known in pairs if known < 0.05)
    assert any(drawn > known for drawn, known in pairs)
    found = rejections(tests, 0.05)
    for name in found:
        assert found[name] <= most_by_chance(count, 0.05), (name, found)
    # Controls: a wrong pair, and a wrong power.
    test = case.test(shifted(case, {0: 2, 1: 2}, 200.0))
    assert test.rejected_groups[0].name == "pairs"
    test = case.test(shifted(case, {1: 4}, 400.0))
    assert "shape of column 1" in {group.name for group in test.rejected_groups}


# -- what is found ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide():
    return Case(2, 8, 20_000)


def shifted(case, exponents, size):
    """Observed means with one condition shifted so far that it adds `size` to the total."""
    unit = np.zeros(case.conditions.size)
    unit[case.place(exponents)] = case.errors[case.place(exponents)]
    added = case.test(case.conditions.values + unit).statistic
    return case.observed() + np.sqrt(size / added) * unit


@pytest.mark.parametrize("power", [3, 4, 5, 6])
@pytest.mark.parametrize("column", [0, 5])
def test_one_wrong_power_is_found_among_hundreds_of_conditions(wide, column, power):
    test = wide.test(shifted(wide, {column: power}, 60.0))
    dof = test.degrees_of_freedom
    assert chi2.sf(dof + 60.0, dof) > LEAST_P_VALUE  # one test of all would not find it
    assert test.p_value < LEAST_P_VALUE
    assert test.rejected_groups[0].name == f"shape of column {column}"
    others = [f"shape of column {j}" for j in range(8) if j != column]
    assert all(p_values(test)[name] >= LEAST_P_VALUE for name in others)
    assert p_values(test)["distinct features"] >= LEAST_P_VALUE
    assert p_values(test)["pairs"] >= LEAST_P_VALUE


@pytest.mark.parametrize("exponents", [{0: 3, 4: 1}, {3: 2, 7: 2}, {6: 3, 1: 1}])
def test_a_wrong_pair_is_found_among_pairs(wide, exponents):
    test = wide.test(shifted(wide, exponents, 150.0))
    assert test.rejected_groups[0].name == "pairs"
    assert p_values(test)["distinct features"] >= LEAST_P_VALUE


def test_an_error_of_the_parameters_is_no_misfit(wide):
    """Parameters a standard error off move the means within the span of the slopes."""
    p, exact = wide.parameters, wide.conditions.values
    moved = Parameters(p.weights, p.means + 1.0 / np.sqrt(wide.n_rows), p.variances)
    change = wide.conditions.model(moved) - exact
    assert np.abs(change / wide.errors).max() > 0.5
    test = wide.test(exact + change)
    # Second-order terms only: the square of what moved.
    assert test.statistic < 0.05
    # Control: as large a change that parameters do not explain.
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=exact.size)
    assert wide.test(exact + signs * change).statistic > 1.0


# -- the excess of powers ---------------------------------------------------------------------


def orthonormal(parameters, column, z, highest):
    """Orthonormal polynomials of degrees 3 … highest, by the moments in closed form."""
    one = Parameters(parameters.weights, parameters.means[:, [column]],
                     parameters.variances[:, [column]])  # fmt: skip
    moments = one.weights @ gaussian_powers(one, 2 * highest)[:, :, 0].T
    hankel = moments[np.add.outer(np.arange(highest + 1), np.arange(highest + 1))]
    table = np.vander(z, highest + 1, increasing=True)
    return np.linalg.solve(np.linalg.cholesky(hankel), table.T)[3:]


def test_excess_of_powers_against_simulation():
    """Components narrow beside their distance: tails are light, and a simulation converges."""
    truth = Mixture.diagonal(
        [0.3, 0.4, 0.3], [[-1.5, -1.0], [0.0, 0.5], [1.2, 2.0]], np.full((3, 2), 0.05)
    )
    rows, _ = truth.sample(400_000, random_state=0)
    p = parameters_of(truth)
    for highest in (3, 4):
        k = highest - 2
        found = [fourth_cumulant_of_powers(p, j, highest) for j in range(p.means.shape[1])]
        for column in range(2):
            x = orthonormal(p, column, rows[:, column], highest)
            fourth = (x**2).sum(axis=0) ** 2
            error = fourth.std() / np.sqrt(fourth.size)
            expected = fourth.mean() - k**2 - 2 * k
            assert error < 0.1 * abs(found[column])
            assert abs(found[column] - expected) < 4 * error
            # What it is for: the variance of N‖x̄‖² at N = 5.
            statistic = 5 * (x.reshape(k, -1, 5).mean(axis=2) ** 2).sum(axis=0)
            squares = (statistic - statistic.mean()) ** 2
            error = squares.std() / np.sqrt(squares.size)
            assert abs(2 * k + found[column] / 5 - squares.mean()) < 4 * error
            assert abs(2 * k - squares.mean()) > 4 * error  # control: without the excess

"""Weights, intervals and the test of one group, against closed forms and enumeration."""

from dataclasses import replace
from functools import partial
from itertools import product
from math import inf

import numpy as np
import pytest
from scipy.special import ndtri

import momentmix as mm
from momentmix.fitting.conditions.conditions import point_powers
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import Parameters
from momentmix.monitoring.shares.components import FixedComponents, Root
from momentmix.monitoring.shares.group_weights import (
    bounded,
    check_fit,
    corrected,
    equations_of,
    estimate,
    find_shared_errors,
    linear_weights,
    settled_weights,
)
from momentmix.monitoring.shares.moments import MOST_CONDITIONS, list_conditions
from momentmix.monitoring.shares.shrinkage import find_prior, shrink
from momentmix.monitoring.shares.tracked_model import TrackedModel
from momentmix.summary.layout import POWERS, Layout

Z = float(ndtri(0.975))


def components(d=2, r=3, degree=3, seed=0, factor=None):
    rng = np.random.default_rng(seed)
    p = Parameters(
        rng.dirichlet(np.full(r, 5.0)), 2 * rng.standard_normal((r, d)), rng.uniform(0.5, 1, (r, d))
    )
    layout = Layout(d, min(d, 3), min(d, 3) - 1, POWERS)
    return FixedComponents.of(list_conditions(layout, degree, ()), p, factor)


def table_of(own, rows):
    return own.conditions.products(point_powers(rows, own.conditions.highest_exponent))


def drawn(own, weights, n, rng):
    rows, _ = gaussian.sample(replace(own.parameters, weights=weights), n, rng)
    return table_of(own, rows).mean(axis=1)


@pytest.mark.parametrize(("d", "r", "degree"), [(1, 2, 2), (1, 3, 4), (2, 3, 3), (4, 5, 3)])
def test_exact_moments_give_the_weights(d, r, degree):
    own = components(d, r, degree)
    for seed in range(5):
        w = np.random.default_rng(seed).dirichlet(np.ones(r))
        if seed == 4:
            w = np.eye(r)[0]
        found = estimate(own, own.means @ w, 1000, Z)
        assert found.weights == pytest.approx(w, abs=1e-10)
        assert linear_weights(own, own.means @ w, 1000, w).weights == pytest.approx(w, abs=1e-9)
        assert ((found.low <= w + 1e-12) & (w <= found.high + 1e-12)).all()
        assert check_fit(own, own.means @ w, 1000, found.weights).statistic < 1e-9


def test_the_covariance_of_moments_is_the_one_in_closed_form():
    """Few moments too: that of a single column is Var z = v + Σ w μ² − (Σ w μ)²."""
    own = components(1, 2, 2)
    p, w = own.parameters, np.array([0.3, 0.7])
    m, v = p.means[:, 0], p.variances[:, 0]
    first, second = w @ m, w @ (m**2 + v)
    third, fourth = w @ (m**3 + 3 * m * v), w @ (m**4 + 6 * m**2 * v + 3 * v**2)
    expected = [
        [second - first**2, third - first * second],
        [third - first * second, fourth - second**2],
    ]
    assert own.covariance(w) == pytest.approx(np.array(expected), rel=1e-12)


def test_the_covariance_of_indicators_is_that_of_all_rows():
    blocks = [mm.BernoulliBlock(p, names=f"q{j}") for j, p in enumerate([[0.2, 0.9], [0.7, 0.4]])]
    mixture = mm.Mixture.from_blocks([0.5, 0.5], [*blocks, mm.PoissonBlock([1.0, 2.0], names="n")])
    model = TrackedModel.of(mixture).standard(mixture.schema)
    conditions = list_conditions(Layout(3, 3, 1, POWERS), 2, model.parameters.blocks.laws)
    own = FixedComponents.of(conditions, model.parameters)
    # Squares of indicators are no moments of their own.
    assert own.size == 3 + 3 + 1
    counts = np.arange(40)
    from scipy.stats import poisson

    rows = np.array([(a, b, n) for a, b in product((0, 1), repeat=2) for n in counts], dtype=float)
    w = np.array([0.3, 0.7])
    share = np.zeros(len(rows))
    for i in range(2):
        a, b = (
            np.where(rows[:, j] == 1, q, 1 - q) for j, q in enumerate([[0.2, 0.7], [0.9, 0.4]][i])
        )
        share += w[i] * a * b * poisson.pmf(rows[:, 2], [1.0, 2.0][i])
    table = table_of(own, (rows - model.shift) / model.scale)
    mean = table @ share
    assert own.means @ w == pytest.approx(mean, abs=1e-12)
    assert own.covariance(w) == pytest.approx((table * share) @ table.T - np.outer(mean, mean))


def coverage(own, n, weights_of, rng, count=250, scale=1.0):
    hits = []
    for _ in range(count):
        w = weights_of(rng)
        found = estimate(own, drawn(own, w, n, rng), n, Z * scale)
        hits += ((found.low <= w) & (w <= found.high)).tolist()
    return np.mean(hits)


@pytest.mark.parametrize("weights", ["anywhere", "near 0"])
def test_intervals_cover(weights):
    rng, own = np.random.default_rng(2), components(3, 3, 3)

    def of(rng):
        w = rng.dirichlet(np.ones(3))
        return w if weights == "anywhere" else np.array([0.0, 0.01, 0.99])

    # Three standard errors of 750 intervals on either side of 0.95.
    assert 0.926 <= coverage(own, 300, of, rng) <= 0.974
    assert coverage(own, 300, of, rng, 100, scale=0.5) < 0.9  # negative control


def test_shares_of_rows_that_can_be_told_apart_have_wilsons_interval():
    p = Parameters(np.array([0.5, 0.5]), np.array([[-1.0], [1.0]]), np.full((2, 1), 1e-8))
    own = FixedComponents.of(list_conditions(Layout(1, 1, 0), 2, ()), p)
    n, k = 200, 9
    found = estimate(own, np.array([(2 * k - n) / n, 1.0 + 1e-8]), n, Z)
    share = k / n
    center, root = share + Z**2 / (2 * n), Z * np.sqrt(share * (1 - share) / n + (Z / n / 2) ** 2)
    expected = np.array([center - root, center + root]) / (1 + Z**2 / n)
    assert [found.low[1], found.high[1]] == pytest.approx(expected, rel=1e-3)


def test_the_test_keeps_its_level_and_sees_what_is_not_there():
    rng, own = np.random.default_rng(3), components(3, 3, 3)
    n, p_values, new = 500, [], []
    for _ in range(200):
        w = rng.dirichlet(np.ones(3))
        moments = drawn(own, w, n, rng)
        p_values.append(check_fit(own, moments, n, w).p_value)
    for _ in range(20):
        rows = rng.normal([6.0, 0.0, 0.0], 0.7, (n // 9, 3))
        moments = 0.9 * drawn(own, w, n, rng) + 0.1 * table_of(own, rows).mean(axis=1)
        new.append(check_fit(own, moments, n, w).p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.12)
    assert (np.array(new) < 1e-3).all()


def test_errors_of_the_components_add_to_those_of_the_weights():
    """By simulation of the components themselves."""
    rng, own = np.random.default_rng(4), components(2, 2, 3)
    size = own.parameters.n_places
    factor = np.zeros((size, 4))
    factor[np.arange(2, 6), np.arange(4)] = 0.05  # all means
    known = components(2, 2, 3, factor=factor)
    w, n = np.array([0.4, 0.6]), 1e12
    said = linear_weights(known, known.means @ w, n, w)
    u = []
    for _ in range(400):
        moved = replace(
            own.parameters, means=own.parameters.means + 0.05 * rng.standard_normal((2, 2))
        )
        true = own.conditions.model(replace(moved, weights=w))
        u.append(linear_weights(own, true, n, w).weights[0])
    assert np.var(u) == pytest.approx(said.shared[0, 0], rel=0.35)
    assert not linear_weights(own, own.means @ w, n, w).shared.any()
    # A group as far away as the components may be wrong is no misfit, unless they are known.
    moved = replace(own.parameters, means=own.parameters.means + 0.05)
    true = own.conditions.model(replace(moved, weights=w))
    assert check_fit(known, true, 1e5, w).p_value > 0.05
    assert check_fit(own, true, 1e5, w).p_value < 1e-6


def moved_groups(size, n, count, rng):
    """Groups of components whose means are `size` standard errors away from the model's."""
    means, conditions = np.outer([0.0, 1.0], [1.5, 1.0, 0.8]), components(3, 2, 3).conditions
    p = Parameters(np.full(2, 0.5), means, np.ones((2, 3)))
    factor = np.zeros((p.n_places, 6))
    factor[np.arange(2, 8), np.arange(6)] = 0.05
    model = FixedComponents.of(conditions, p, factor)
    change = size * np.array([1.0, 0.5, 1.5, 0.5, 1.0, 1.0])
    true = replace(p, means=means + 0.05 * change.reshape(2, 3))
    wanted = rng.dirichlet(np.ones(2), count)
    truth = FixedComponents.of(conditions, true)
    return model, change, wanted, [drawn(truth, w, n, rng) for w in wanted]


def shared_errors(model, n, moments):
    return find_shared_errors(
        equations_of(model, own, n, settled_weights(model, own, n)) for own in moments
    )


def test_groups_together_tell_the_errors_of_the_components():
    rng, n = np.random.default_rng(11), 2000
    model, change, wanted, moments = moved_groups(1.0, n, 120, rng)
    errors = shared_errors(model, n, moments)
    center, factor = errors
    deviations = np.sqrt((factor**2).sum(axis=1))
    assert (deviations < 0.5).all()
    assert (np.abs(center - change) < 4 * deviations).all()
    better = corrected(model, center, factor)
    for c in np.eye(2):  # moved components vary about their new means as before
        assert better.covariance(c) == pytest.approx(model.covariance(c), abs=1e-9)

    def result(own):
        found = [estimate(own, m, n, Z) for m in moments]
        low, high = (np.array([getattr(one, end) for one in found]) for end in ("low", "high"))
        return ((low <= wanted) & (wanted <= high)).mean(), (high - low).mean()

    (before, wide), (after, narrow) = result(model), result(better)
    assert before < 0.85  # all of them are wrong together
    assert 0.91 <= after <= 0.99
    assert narrow < 0.95 * wide


def test_errors_are_left_as_they_are_where_groups_know_less_or_have_moved():
    rng, n = np.random.default_rng(12), 2000
    model, _, _, moments = moved_groups(1.0, n, 40, rng)
    assert shared_errors(model, 5, moments[:2]) is None
    assert shared_errors(model, n, []) is None
    model, _, _, moments = moved_groups(4.0, n, 40, rng)
    assert shared_errors(model, n, moments) is None


def test_bounded_weights_are_the_best_on_a_grid():
    rng = np.random.default_rng(5)
    for _ in range(5):
        table, target = rng.standard_normal((6, 3)), rng.standard_normal(6)
        w = bounded(table, target)
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1.0, abs=1e-12)
        ticks = np.linspace(0, 1, 81)
        grid = np.array([(a, b, 1 - a - b) for a in ticks for b in ticks if a + b <= 1])
        lengths = ((grid @ table.T - target) ** 2).sum(axis=1)
        assert ((table @ w - target) ** 2).sum() <= lengths.min() + 1e-12


def test_moments_that_repeat_others_count_once():
    covariance = np.array([[2.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 3.0]])
    root = Root(covariance)
    assert root.rank == 2
    white = root.whiten(np.eye(3))
    inner = white[[0, 2]] @ covariance @ white[[0, 2]].T
    assert inner == pytest.approx(np.eye(2), abs=1e-6)


def test_wide_tables_keep_single_columns_first():
    conditions = list_conditions(Layout(40, 3, 2, POWERS), 3, ())
    assert conditions.size == MOST_CONDITIONS
    used = (conditions.slot_exponents > 0).sum(axis=1)
    powers = conditions.slot_exponents.sum(axis=1)
    for degree in (1, 2, 3):
        assert ((used == 1) & (powers == degree)).sum() == 40


# -- shrinkage --------------------------------------------------------------------------------


def groups(concentration, sizes, rng):
    """Weights of groups, and their estimators."""
    own, center = components(3, 3, 2), np.array([0.5, 0.3, 0.2])
    wanted = [rng.dirichlet(concentration * center) for _ in sizes]
    moments = [drawn(own, w, n, rng) for w, n in zip(wanted, sizes, strict=True)]
    pairs = zip(moments, sizes, strict=True)
    estimators = [partial(linear_weights, own, m, n) for m, n in pairs]
    return np.array(wanted), estimators


@pytest.mark.parametrize("concentration", [15.0, 150.0])
def test_the_spread_of_groups_is_found(concentration):
    rng = np.random.default_rng(6)
    _, estimators = groups(concentration, [400] * 150, rng)
    prior, _ = find_prior([one(np.array([0.5, 0.3, 0.2])) for one in estimators])
    assert prior.center == pytest.approx([0.5, 0.3, 0.2], abs=0.05)
    assert 0.6 < prior.spread * (concentration + 1) < 1.7
    assert prior.n_rows == pytest.approx(1 / prior.spread - 1)
    assert replace(prior, spread=0.0).n_rows == inf


def test_small_groups_gain_and_large_ones_stay():
    rng = np.random.default_rng(7)
    sizes = [40] * 60 + [50_000] * 3
    wanted, estimators = groups(60.0, sizes, rng)
    alone = np.array([one(np.array([0.5, 0.3, 0.2])).weights for one in estimators])
    _, answers = shrink(estimators, np.array([0.5, 0.3, 0.2]))
    shrunken = np.array([weights for weights, _ in answers])
    small = np.array(sizes) < 100

    def error(weights, which):
        return np.sqrt(((weights - wanted)[which] ** 2).mean())

    assert error(shrunken, small) < 0.85 * error(alone, small)
    assert np.abs(shrunken - alone)[~small].max() < 0.003
    half = Z * np.sqrt([np.diagonal(covariance) for _, covariance in answers])
    assert (np.abs(shrunken - wanted) <= half)[small].mean() > 0.88

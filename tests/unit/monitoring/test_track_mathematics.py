"""Weights, intervals and the test of a group, against closed forms and simulation."""

from math import inf

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import poisson

import momentmix as mm
from momentmix.fitting.conditions.conditions import point_powers
from momentmix.monitoring.shares.components import (
    MOST_CONDITIONS,
    FixedComponents,
    list_conditions,
)
from momentmix.monitoring.shares.group_weights import bounded
from momentmix.monitoring.shares.tracked_model import TrackedModel
from momentmix.summary.layout import POWERS, Layout

Z = float(ndtri(0.975))


def mixture(d=3, r=3, weights=None):
    rng = np.random.default_rng(0)
    own = rng.dirichlet(np.full(r, 5.0))
    means, variances = 2 * rng.standard_normal((r, d)), rng.uniform(0.5, 1, (r, d))
    return mm.Mixture.diagonal(own if weights is None else weights, means, variances)


def cube_of(weights, sizes):
    """Groups of rows that have these weights."""
    sizes = np.broadcast_to(sizes, len(weights))
    return {
        g: mm.summarize(mixture(weights=w).sample(int(n), random_state=g)[0])
        for g, (w, n) in enumerate(zip(weights, sizes, strict=True))
    }


def covered(found, wanted):
    return ((found.low <= wanted) & (wanted <= found.high)).mean()


def test_the_covariance_of_moments_is_that_of_all_rows():
    blocks = [mm.BernoulliBlock(p, names=f"q{j}") for j, p in enumerate([[0.2, 0.9], [0.7, 0.4]])]
    table = mm.Mixture.from_blocks([0.5, 0.5], [*blocks, mm.PoissonBlock([1.0, 2.0], names="n")])
    model = TrackedModel.of(table).standard(table.schema)
    conditions = list_conditions(Layout(3, 3, 1, POWERS), 2, model.parameters.blocks.laws)
    own = FixedComponents.of(conditions, model.parameters)
    assert conditions.size == 3 + 3 + 1  # squares of indicators are no moments of their own
    rows = np.array([(a, b, n) for a in (0, 1) for b in (0, 1) for n in range(40)], dtype=float)
    w, share = np.array([0.3, 0.7]), np.zeros(len(rows))
    for i, chances in enumerate([[0.2, 0.7], [0.9, 0.4]]):
        a, b = (np.where(rows[:, j] == 1, q, 1 - q) for j, q in enumerate(chances))
        share += w[i] * a * b * poisson.pmf(rows[:, 2], 1.0 + i)
    powers = point_powers((rows - model.shift) / model.scale, conditions.highest_exponent)
    products = conditions.products(powers)
    mean = products @ share
    assert own.means @ w == pytest.approx(mean, abs=1e-12)
    assert own.covariance(w) == pytest.approx(
        (products * share) @ products.T - np.outer(mean, mean)
    )


# Three standard errors of 750 intervals on either side of 0.95; an interval of a weight of 0 can
# miss it on one side only.
@pytest.mark.parametrize(("weights", "most"), [("anywhere", 0.974), ("near 0", 0.99)])
def test_intervals_cover_and_the_test_keeps_its_level(weights, most):
    wanted = np.random.default_rng(2).dirichlet(np.ones(3), 250)
    if weights == "near 0":
        wanted[:] = [0.0, 0.01, 0.99]
    cube = cube_of(wanted, 300)
    found = mm.track(mixture(), cube, model_rows=inf)
    assert 0.926 <= covered(found, wanted) <= most
    assert covered(mm.track(mixture(), cube, model_rows=inf, level=0.5), wanted) < 0.75
    assert np.mean(found.p_value < 0.05) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 250)
    assert np.mean(found.p_value) == pytest.approx(0.5, abs=0.12)


def test_rows_of_no_component_are_seen():
    rng = np.random.default_rng(3)
    wanted, cube = rng.dirichlet(np.ones(3), 20), {}
    for g, w in enumerate(wanted):
        rows = mixture(weights=w).sample(450, random_state=g)[0]
        cube[g] = mm.summarize(np.vstack([rows, rng.normal([6.0, 0.0, 0.0], 0.7, (50, 3))]))
    assert (mm.track(mixture(), cube, model_rows=inf).p_value < 1e-3).all()


def test_shares_of_rows_that_can_be_told_apart_have_wilsons_interval():
    n, k = 200, 9
    model = mm.Mixture.diagonal([0.5, 0.5], [[-1.0], [1.0]], np.full((2, 1), 1e-8))
    rows = np.where(np.arange(n) < k, 1.0, -1.0) + 1e-4 * np.tile([1.0, -1.0], n // 2)
    found = mm.track(model, {"EU": mm.summarize(rows[:, None])}, model_rows=inf)
    share = k / n
    center, root = share + Z**2 / (2 * n), Z * np.sqrt(share * (1 - share) / n + (Z / n / 2) ** 2)
    expected = np.array([center - root, center + root]) / (1 + Z**2 / n)
    assert [found.low[0, 1], found.high[0, 1]] == pytest.approx(expected, rel=1e-3)


def moved_groups(size, count):
    """A model of 1200 rows, and groups of components that are `size` standard errors away."""
    rng, means = np.random.default_rng(11), np.outer([0.0, 1.0], [1.5, 1.0, 0.8])
    model = mm.Mixture.diagonal([0.5, 0.5], means, np.ones((2, 3)))
    change = size * 0.05 * np.array([[1.0, 0.5, 1.5], [0.5, 1.0, 1.0]])
    wanted, cube = rng.dirichlet(np.ones(2), count), {}
    for g, w in enumerate(wanted):
        truth = mm.Mixture.diagonal(w, means + change, np.ones((2, 3)))
        cube[g] = mm.summarize(truth.sample(2000, random_state=g)[0])
    return model, cube, wanted


def test_groups_together_tell_the_errors_of_the_components():
    model, cube, wanted = moved_groups(1.0, 120)
    some = {g: cube[g] for g in range(2)}
    few, many = (mm.track(model, groups, model_rows=1200) for groups in (some, cube))
    assert covered(mm.track(model, cube, model_rows=inf), wanted) < 0.8  # all wrong together
    assert 0.91 <= covered(many, wanted) <= 0.99
    assert covered(mm.track(model, cube), wanted) > 0.9  # it may come from few rows
    assert many.fits.all()
    assert (many.high - many.low)[:2].mean() < 0.95 * (few.high - few.low).mean()
    far = mm.track(*moved_groups(8.0, 40)[:2], model_rows=1200)
    assert not far.fits.any()  # groups that have moved correct nothing


def test_bounded_weights_are_the_best_on_a_grid():
    rng = np.random.default_rng(5)
    ticks = np.linspace(0, 1, 81)
    grid = np.array([(a, b, 1 - a - b) for a in ticks for b in ticks if a + b <= 1])
    for _ in range(5):
        table, target = rng.standard_normal((6, 3)), rng.standard_normal(6)
        w = bounded(table, target)
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1.0, abs=1e-12)
        lengths = ((grid @ table.T - target) ** 2).sum(axis=1)
        assert ((table @ w - target) ** 2).sum() <= lengths.min() + 1e-12


def test_wide_tables_keep_single_columns_first():
    conditions = list_conditions(Layout(40, 3, 2, POWERS), 3, ())
    assert conditions.size == MOST_CONDITIONS
    used = (conditions.slot_exponents > 0).sum(axis=1)
    powers = conditions.slot_exponents.sum(axis=1)
    for degree in (1, 2, 3):
        assert ((used == 1) & (powers == degree)).sum() == 40

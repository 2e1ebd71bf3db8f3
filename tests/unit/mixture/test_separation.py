"""The valley between components, against closed forms and brute force."""

import numpy as np
import pytest
from tests.unit.mixture.test_blocks import parameters

import momentmix as mm
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.separation import separation_of

UNKNOWN = mm.CategoricalBlock([[0.5, 0.5]] * 2, ("no", "yes"), names="coin")


def on_a_line(weights, means, deviations):
    columns = np.array(means, dtype=float)[:, None], np.array(deviations, dtype=float)[:, None] ** 2
    return Parameters(np.array(weights), *columns)


def depth(values):
    """Of the deepest valley in densities along a path."""
    before = np.maximum.accumulate(values)
    after = np.maximum.accumulate(values[::-1])[::-1]
    return (1 - values / np.minimum(before, after)).max()


def of_blocks(weights, blocks):
    return mm.Mixture.from_blocks(weights, blocks).parameters


def yes_no(first, second, n):
    both = [[1 - first, first], [1 - second, second]]
    return [mm.CategoricalBlock(both, ("no", "yes"), names=f"answer {j}") for j in range(n)]


def mixed(rng, r=4):
    return of_blocks(
        rng.dirichlet(np.full(r, 5.0)),
        [
            mm.GaussianBlock(rng.normal(size=r) * 3, rng.uniform(0.5, 2, r), "length"),
            mm.GaussianBlock(rng.normal(size=r), np.ones(r), "width", seen=rng.uniform(size=r)),
            mm.PoissonBlock(rng.uniform(1, 9, r), names="visits"),
            mm.CategoricalBlock(rng.dirichlet(np.ones(3), r), ("a", "b", "c"), names="kind"),
        ],
    )


# -- Gaussian features --------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.5, 0.2, 0.03])
@pytest.mark.parametrize("deviation", [1.0, 2.0, 0.2, 0.01])
@pytest.mark.parametrize("distance", [0.5, 1, 2, 2.5, 3, 3.5, 4, 6])
def test_on_a_line_it_is_the_valley_of_the_density(weight, deviation, distance):
    weights, means, deviations = [weight, 1 - weight], [0, distance], [1, deviation]
    x = np.linspace(0, distance, 200_001)
    parts = zip(weights, means, deviations, strict=True)
    density = sum(w * np.exp(-0.5 * ((x - m) / s) ** 2) / s for w, m, s in parts)
    found = separation_of(on_a_line(weights, means, deviations))
    assert found[0, 1] == pytest.approx(depth(density), abs=2e-3)


def test_along_the_ridgeline_of_joined_columns():
    """Two crossed ellipses: lower on the straight segment than on the way along their long axes."""
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    matrices = np.stack([turn @ np.diag(v) @ turn.T for v in ([1.0, 0.01], [0.01, 1.0])])
    means = np.array([[0.0, 0.0], [1.5, 1.5]]) @ turn.T
    mixture = mm.Mixture([0.5, 0.5], means, matrices)
    inverses, share = np.linalg.inv(matrices), np.linspace(0, 1, 20_001)[:, None, None]
    precision = (1 - share) * inverses[0] + share * inverses[1]
    sums = (1 - share) * inverses[0] @ means[0][:, None] + share * inverses[1] @ means[1][:, None]
    ridgeline = np.linalg.solve(precision, sums)[..., 0]
    segment = means[0] + share[..., 0] * (means[1] - means[0])
    expected, straight = (depth(np.exp(mixture.log_prob(x))) for x in (ridgeline, segment))
    assert separation_of(mixture.parameters)[0, 1] == pytest.approx(expected, abs=2e-3)
    assert expected < straight - 0.1


def test_equal_means_have_no_valley():
    rng = np.random.default_rng(0)
    p = parameters(rng)
    same = Parameters(p.weights, np.tile(p.means[:1], (3, 1)), p.variances, p.covariances, p.blocks)
    assert np.nanmax(separation_of(same)) < 1e-9
    assert np.nanmax(separation_of(p)) > 0.01


# -- other families -----------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [0.5, 0.2])
@pytest.mark.parametrize("distance", [1, 2, 3, 3.5, 4, 5])
def test_a_column_that_tells_nothing_changes_nothing(weight, distance):
    """Log-odds of two Gaussians of one variance lie as the rows do: the two rules agree."""
    weights = [weight, 1 - weight]
    block = mm.GaussianBlock([0.0, distance], [1.0, 1.0], "length")
    found = separation_of(of_blocks(weights, [block, UNKNOWN]))[0, 1]
    expected = separation_of(on_a_line(weights, [0, distance], [1, 1]))[0, 1]
    assert found == pytest.approx(expected, abs=0.04)  # errors of 6,000 draws: 0.015


@pytest.mark.parametrize(
    "blocks",
    [
        [UNKNOWN],
        yes_no(0.5, 0.52, 1),
        yes_no(0.1, 0.12, 3),
        yes_no(0.8, 0.2, 1),  # two values only: 1.5 deviations apart
        yes_no(0.6, 0.4, 6),
        [mm.PoissonBlock([5.0, 6.0], names=f"visits {j}") for j in range(3)],
        [mm.GaussianBlock([0.0, 1.0], [1.0, 1.0], "length", seen=[0.7, 0.6])],
        [mm.GaussianBlock([0.0, 0.0], [1.0, 4.0], "length"), UNKNOWN],
    ],
)
def test_draws_and_single_values_make_no_valleys(blocks):
    assert separation_of(of_blocks([0.5, 0.5], blocks))[0, 1] < 0.05


def test_classes_far_apart_have_one():
    for blocks in (yes_no(0.9, 0.1, 5), [mm.PoissonBlock([5.0, 30.0], names="visits")]):
        assert separation_of(of_blocks([0.5, 0.5], blocks))[0, 1] > 0.9


# -- both ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [parameters, mixed])
def test_neither_units_nor_order_matter(law):
    rng = np.random.default_rng(3)
    p = law(rng)
    found, r, d = separation_of(p), p.n_components, p.means.shape[1]
    assert np.isnan(np.diagonal(found)).all()
    off = found[~np.eye(r, dtype=bool)]
    assert ((off >= 0) & (off <= 1)).all()
    assert off.max() > 0.05  # there is something to compare
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(found, separation_of(p))
    moved = p.standardized(rng.normal(size=d) * 100, np.exp(5 * rng.normal(size=d)))
    np.testing.assert_allclose(separation_of(moved), found, atol=2e-3)
    order = rng.permutation(r)
    np.testing.assert_allclose(separation_of(p[order]), found[np.ix_(order, order)], atol=2e-3)


# -- results ------------------------------------------------------------------------------------


MEANS = np.outer([0.0, 3.4, 0.0], np.full(10, 0.1**0.5))
MEANS[2, ::2] = 4.0
TRUTH = mm.Mixture.diagonal([0.5, 0.3, 0.2], MEANS, np.ones((3, 10)))  # the order of results


def test_joined_columns_with_gaps_show_less():
    """What is missing in a row does not set it apart."""
    matrices = np.tile([[1.0, 0.6], [0.6, 1.0]], (2, 1, 1))
    truth = mm.Mixture([0.6, 0.4], [[0.0, 0.0], [4.0, 0.0]], matrices)
    rows = truth.sample(4_000, random_state=0)[0]
    whole = mm.fit(rows, 2, blocks=[[0, 1]], random_state=0).separation[0, 1]
    rng = np.random.default_rng(1)
    rows[rng.random(rows.shape) < 0.3] = np.nan
    result = mm.fit(rows, 2, blocks=[[0, 1]], missing="model", random_state=0)
    assert whole > 0.8
    assert 0 <= result.separation[0, 1] < whole - 0.3

"""Probabilities and rates at 0: errors, one-sided intervals, and tests that a few rows carry."""

import numpy as np
import pytest
from family_laws import drawn, mixed_law, standard_moments

import momentmix as mm
from momentmix.fitting.em import scores
from momentmix.mixture.density import statistics_of
from momentmix.mixture.gaussian import coefficients, features_of, sample
from momentmix.mixture.parameters import dependent_places

SHARES = np.array([0.5, 0.3, 0.2])


def numbers(group, rng, spread=2.0, d=4):
    means = spread * rng.standard_normal((SHARES.size, d))
    return {f"x{j}": means[group, j] + rng.standard_normal(group.size) for j in range(d)}


def table_with_kind(seed, n=600, leak=0.0):
    """Three groups of four numbers, and a category that is the group but for a share of rows."""
    rng = np.random.default_rng([2031, seed])
    group = rng.choice(3, size=n, p=SHARES)
    table = numbers(group, rng)
    shown = np.where(rng.random(n) < leak, rng.integers(3, size=n), group)
    return table | {"kind": np.array(["a", "b", "c"])[shown]}, group


@pytest.mark.parametrize("seed", range(2))
def test_a_category_equal_to_the_group_leaves_the_errors_of_weights_as_they_are(seed):
    table, group = table_with_kind(seed)
    result = mm.fit(table, 3, random_state=0)
    # The category tells the group: weights vary as shares of rows do.
    known = np.sqrt(SHARES * (1 - SHARES) / group.size)
    assert np.allclose(result.standard_errors.weights, known, rtol=0.2)
    assert result.certificate.passed
    assert all(component.traits[0].column == "kind" for component in result.profile())
    assert all(name.startswith("kind: ") for name in result.profile().names)


def test_the_interval_of_a_level_that_never_occurs_is_one_sided():
    table, group = table_with_kind(0)
    result = mm.fit(table, 3, random_state=0)
    low, high = result.intervals().levels["kind"]
    counts = group.size * result.mixture.weights[:, None]
    never = ~np.eye(3, dtype=bool)
    assert (low[never] == 0).all()
    # The rule of three: n rows, a few of which are less than certain to be of the component.
    rule = np.broadcast_to(3 / counts, (3, 3))[never]
    assert (high[never] >= 0.99 * rule).all()
    assert (high[never] <= 1.3 * rule).all()
    assert (low[~never] < 1).all()
    assert (low[~never] > 1 - 2 * high[never].reshape(3, 2).max(axis=1)).all()
    assert (high[~never] == 1).all()
    assert (result.standard_errors.levels["kind"] < 0.02).all()


def test_negative_control_a_level_that_does_occur_has_an_interval_on_both_sides():
    table, _ = table_with_kind(0, leak=0.3)
    result = mm.fit(table, 3, random_state=0)
    low, high = result.intervals().levels["kind"]
    assert (low > 0).all()
    assert (high < 1).all()
    assert ((low < 0.1) | (low > 0.6)).all()


def test_a_count_that_is_always_zero_has_a_one_sided_interval():
    rng = np.random.default_rng(8)
    group = rng.choice(3, size=900, p=SHARES)
    table = numbers(group, rng) | {"visits": rng.poisson(np.array([0.0, 2.0, 6.0])[group])}
    result = mm.fit(table, 3, families={"visits": "poisson"}, random_state=0)
    low, high = (end[:, 4] for end in result.intervals().means)
    none = int(result.mixture.means[:, 4].argmin())
    n_rows = 900 * result.mixture.weights[none]
    assert low[none] == 0
    assert high[none] == pytest.approx(3 / n_rows, rel=0.02)
    assert (np.delete(low, none) > 1).all()
    assert result.standard_errors.weights.max() < 0.02


def test_the_value_of_a_cell_that_a_component_never_sees_is_unknown():
    rng = np.random.default_rng(9)
    group = rng.choice(3, size=900, p=SHARES)
    table = numbers(group, rng, spread=4.0)
    table["income"] = np.where(group == 2, np.nan, rng.standard_normal(900))
    result = mm.fit(table, 3, missing="model", random_state=0)
    column = list(table).index("income")
    low, high = (end[:, column] for end in result.intervals().seen)
    never = int(result.mixture.weights.argmin())
    assert low[never] == 0
    assert high[never] == pytest.approx(3 / (900 * result.mixture.weights[never]), rel=0.02)
    assert (np.delete(low, never) > 0.9).all()
    errors = result.standard_errors
    assert errors.means[never, column] > 1  # nothing is known; the law's own error is that wide
    assert np.delete(errors.means[:, column], never).max() < 0.2
    assert np.allclose(errors.weights, np.sqrt(SHARES * (1 - SHARES) / 900), rtol=0.2)
    assert result.certificate.passed


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("is_known", [False, True])
def test_weights_that_the_rows_do_not_determine_are_a_finding_and_no_figure(seed, is_known):
    """Of two components of one cloud; the control has two clouds."""
    cloud = np.random.default_rng(seed).normal(size=(200, 1))
    cloud[::2] += 6.0 * is_known
    result = mm.fit(cloud, 2, random_state=0)
    unknown = [f for f in result.certificate.findings if f.kind == "unknown-weights"]
    assert len(unknown) == (not is_known)
    numbers = np.array([result.standard_errors.weights, *result.intervals().weights])
    assert np.isfinite(numbers).all() if is_known else np.isnan(numbers).all()
    assert np.isfinite(result.standard_errors.means).all()


@pytest.mark.parametrize("seed", range(3))
def test_levels_and_gaps_of_a_few_rows_have_errors_that_shares_can_have(seed):
    rng = np.random.default_rng([2034, seed])
    group = rng.choice(3, size=150, p=SHARES)
    table = numbers(group, rng, d=2)
    for name in ("kind", "other"):
        shares = rng.dirichlet(np.full(5, 0.3), size=3)
        table[name] = np.array([rng.choice(list("abcde"), p=shares[i]) for i in group], object)
        table[name][(group == 0) & (rng.random(150) < 0.95)] = None
    errors = mm.fit(table, 2, missing="model", random_state=0).standard_errors
    assert errors.weights.max() < 0.1
    # Levels that nobody of a component is asked for are unknown: all shares are possible.
    assert all((table <= 0.5).all() for table in errors.levels.values())
    assert np.nanmax(errors.seen) < 0.1


@pytest.mark.parametrize("share", [0.5, 0.3])
@pytest.mark.parametrize("with_gaps", [False, True])
def test_a_number_of_two_values_leaves_the_errors_of_other_parameters_as_they_are(share, with_gaps):
    rng = np.random.default_rng(10)
    group = rng.choice(3, size=1200, p=SHARES)
    table = numbers(group, rng, spread=4.0)
    table["gender"] = 1.0 + (rng.random(1200) < share)
    if with_gaps:
        table["gender"][rng.random(1200) < 0.1] = np.nan
    result = mm.fit(table, 3, missing="model" if with_gaps else "error", random_state=0)
    errors, counts = result.standard_errors, 1200 * result.mixture.weights[:, None]
    assert np.allclose(errors.weights, np.sqrt(SHARES * (1 - SHARES) / 1200), rtol=0.2)
    known = np.sqrt(result.mixture.variances / (counts * (0.9 if with_gaps else 1.0)))
    assert np.allclose(errors.means, known, rtol=0.25)
    assert result.certificate.predicted_loss < 0.01
    # Control: variances of the other columns are as those of so many rows.
    own = errors.variances[:, :4] / result.mixture.variances[:, :4]
    assert np.allclose(own, np.sqrt(2 / counts), rtol=0.35)


# -- tests that a few rows carry -----------------------------------------------------------------


def survey(seed, n=3000, copied=False):
    """Eight questions of six answers, the last of which one row gives to each question."""
    rng = np.random.default_rng([2032, seed])
    group = rng.choice(2, size=n, p=[0.6, 0.4])
    table = {}
    for j in range(8):
        shares = rng.dirichlet([4, 3, 2, 1, 0.3], size=2)
        answers = (rng.random(n)[:, None] > np.cumsum(shares, axis=1)[group]).sum(axis=1)
        answers = np.minimum(answers, 4)
        answers[rng.integers(n)] = 5
        table[f"q{j}"] = np.array(list("abcdef"))[answers]
    if copied:  # half of the rows answer the last question as the first
        half = rng.random(n) < 0.5
        table["q7"] = np.where(half, table["q0"], table["q7"])
    return table


@pytest.mark.parametrize(("seed", "from_rows"), [(0, False), (4, True)])
def test_rare_levels_do_not_refuse_a_right_fit(seed, from_rows):
    table = survey(seed)
    result = mm.fit(table if from_rows else mm.summarize(table), 2, random_state=0)
    assert result.certificate.p_value > 1e-3
    assert result.certificate.predicted_loss < 0.02
    assert not result.certificate.findings
    assert result.standard_errors.weights.max() < 0.05


def test_negative_control_questions_that_depend_on_each_other_are_found_beside_rare_levels():
    result = mm.fit(survey(0, copied=True), 2, random_state=0)
    assert result.certificate.p_value < 1e-6


def with_gaps(seed, n_gaps, n=800, correlation=0.0):
    """Three groups of five numbers; some rows lack the first two columns."""
    rng = np.random.default_rng([2033, seed])
    group = rng.choice(3, size=n, p=SHARES)
    table = numbers(group, rng, spread=3.0, d=5)
    table["x2"] = table["x2"] + correlation * (table["x3"] - table["x3"].mean())
    without = rng.choice(n, size=n_gaps, replace=False)
    for name in ("x0", "x1"):
        table[name][without] = np.nan
    return table


@pytest.mark.parametrize(("seed", "n_gaps"), [(0, 4), (1, 10), (2, 10)])
def test_gaps_in_the_same_rows_do_not_refuse_a_right_fit(seed, n_gaps):
    result = mm.fit(with_gaps(seed, n_gaps), 3, missing="model", random_state=0)
    assert result.certificate.passed
    assert result.certificate.predicted_loss < 0.01
    low, high = result.intervals().seen
    assert (low[:, :2] > 0.85).all()  # ten gaps in the smallest group are 6 % of its rows
    assert (high - low)[:, :2].max() < 0.12
    known = 1 / np.sqrt(800 * result.mixture.weights[:, None])  # groups are apart
    assert np.allclose(result.standard_errors.means[:, :2], known, rtol=0.3)


@pytest.mark.parametrize("mostly", [0.0, 2.0])  # all components at once, and pairs of them
@pytest.mark.parametrize("weighted", [False, True])
def test_information_is_the_mean_outer_product_of_scores(mostly, weighted, monkeypatch):
    monkeypatch.setattr(scores, "_MOSTLY", mostly)
    moments = standard_moments(drawn(4000)[0])
    p = mixed_law().standardized(moments.shift, moments.scale)
    features = features_of(sample(p, 60, np.random.default_rng(5))[0], p.blocks)
    weights = np.random.default_rng(8).uniform(0.5, 2.0, 60) if weighted else None
    parts = [statistics_of(coefficients(p)[None], row[:, None], p.blocks) for row in features.T]
    of_rows = np.array([scores.mean_score(statistics[0], p) for statistics, _ in parts])
    own = np.ones(60) if weights is None else weights
    expected = (of_rows.T * own) @ of_rows / own.sum()
    places = dependent_places(p)
    expected[places, places] = 1.0
    found = scores.information_matrix(features, p, weights=weights)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)

"""`track(means="group")`: means of groups, against closed forms, the truth, and fixed means."""

import json
from dataclasses import replace
from math import inf

import numpy as np
import pytest

import momentmix as mm
from momentmix.displays import SharesDisplay
from momentmix.monitoring.shares.component_sets import ComponentSets
from momentmix.monitoring.shares.fixed_components import FixedComponents, Shape
from momentmix.monitoring.shares.group_weights import group_covariance
from momentmix.monitoring.shares.means.mean_spreads import find_spreads
from momentmix.monitoring.shares.means.moved_means import GroupMoments, MovedMeans, Spreads
from momentmix.monitoring.shares.means.values import MovingValues
from momentmix.monitoring.shares.tracked_model import TrackedModel

MEANS = np.array([[20.0, 2.0, 8.0], [60.0, 5.0, 3.0]])
DEVIATIONS = np.array([[6.0, 1.0, 2.0], [10.0, 1.4, 1.0]])
MODEL = mm.DiagonalMixture([0.7, 0.3], MEANS, DEVIATIONS**2, feature_names=["a", "b", "c"])


def group(share, moves, n, seed):
    law = mm.DiagonalMixture([1 - share, share], MEANS + moves, DEVIATIONS**2)
    return mm.summarize(law.sample(n, random_state=seed)[0])


@pytest.fixture(scope="module")
def stores():
    """Groups whose column a differs by 0.5 deviations, b by 0.1 and c not at all."""
    rng = np.random.default_rng(5)
    n_rows = np.array([120, 500, 3000] * 10)
    shares = rng.uniform(0.15, 0.5, n_rows.size)
    moves = [0.5, 0.1, 0.0] * DEVIATIONS * rng.standard_normal((n_rows.size, 2, 3))
    cube = {g: group(shares[g], moves[g], int(n), 100 + g) for g, n in enumerate(n_rows.tolist())}
    return cube, n_rows, shares, MEANS + moves


@pytest.fixture(scope="module")
def tracked(stores):
    return mm.track(MODEL, stores[0], means="group", model_rows=inf)


def test_means_are_nearer_to_the_truth_than_those_of_the_model_and_intervals_hold_it(
    stores, tracked
):
    _, n_rows, shares, truth = stores
    means = tracked.means
    assert means.columns == ("a", "b", "c")
    assert means.places == (0, 1, 2)
    np.testing.assert_allclose(means.deviations, DEVIATIONS, rtol=0.02)
    error = ((means.values - truth) / DEVIATIONS)[:, :, 0]
    before = ((MEANS - truth) / DEVIATIONS)[:, :, 0]
    for n, most in ((120, 0.6), (500, 0.4), (3000, 0.2)):
        own = n_rows == n
        assert np.sqrt((error[own] ** 2).mean() / (before[own] ** 2).mean()) < most
    inside = (means.low <= truth) & (truth <= means.high)
    moving = inside[:, :, :2]  # 120 means; standard error of their coverage 2 %
    assert 0.88 < moving.mean() <= 1.0
    covered = (tracked.low <= np.stack([1 - shares, shares], 1)) & (
        np.stack([1 - shares, shares], 1) <= tracked.high
    )
    assert covered.mean() > 0.88
    assert tracked.fits.all()


def test_fixed_components_do_not_fit_such_groups(stores):
    """The negative control: without means of their own most groups are flagged."""
    fixed = mm.track(MODEL, stores[0], model_rows=inf)
    assert fixed.means is None
    assert (~fixed.fits).mean() > 0.6


def test_spreads_tell_which_columns_differ(tracked):
    a, b, c = tracked.means.spreads
    # 60 means each: the standard error of 0.5 is about 0.05, and one is added to τ².
    assert 0.38 < a < 0.68
    assert 0.06 < b < 0.18
    assert c < 0.06
    assert tracked.means.differences(tracked.model).startswith("a 0.")


def test_groups_that_do_not_differ_keep_the_means_of_the_model():
    cube = {g: group(0.3, 0.0, 400, g) for g in range(30)}
    tracking = mm.track(MODEL, cube, means="group", model_rows=inf)
    moved = np.abs(tracking.means.values - MEANS) / DEVIATIONS
    alone = DEVIATIONS / np.sqrt(400 * MODEL.weights[:, None]) / DEVIATIONS  # without a prior
    assert np.sqrt((moved**2).mean()) < 0.5 * np.sqrt((alone**2).mean())
    assert (tracking.means.spreads < 0.1).all()
    assert not [text for text in tracking.sentences() if "rose" in text or "fell" in text]


def sets_of(model, d):
    shape = Shape(d, min(d, 3), min(d, 3) - 1, True, False)
    return ComponentSets(TrackedModel.of(model).standard(None), shape)


def spreads_of(between, r):
    return Spreads.none(len(between), r)._replace(between=np.array(between))


def test_one_component_has_the_mean_of_the_conjugate_normal_law():
    model = mm.DiagonalMixture([1.0], [[3.0]], [[4.0]])
    sets = sets_of(model, 1)
    tau2, n, mean = 0.04, 50, 0.1  # of standardized values: their variance is 1
    moments = sets.of(2).conditions.model(sets.model.parameters).copy()
    values = {1: mean, 2: 1.0 + mean**2}
    degrees = sets.of(2).conditions.slot_exponents.sum(axis=1)
    moments[:] = [values[int(degree)] for degree in degrees]
    found = MovedMeans(sets, [0], spreads_of([tau2], 1)).group(
        GroupMoments(2, moments, n, np.ones(1))
    )
    expected = mean * n / (n + 1 / tau2)
    assert found.moves[0, 0] == pytest.approx(expected, rel=0.02)
    assert found.errors[0, 0] == pytest.approx((n + 1 / tau2) ** -0.5, rel=0.02)
    assert found.weights.tolist() == [1.0]


def test_the_covariance_has_the_spread_of_the_means_as_a_part():
    model = mm.DiagonalMixture([0.5, 0.5], [[-2.0, 0.0], [2.0, 1.0]], np.ones((2, 2)))
    sets = sets_of(model, 2)
    spreads = [0.09, 0.0]
    moved, still = (MovedMeans(sets, [0, 1], spreads_of(own, 2)) for own in (spreads, [0.0, 0.0]))
    w, none = np.array([0.4, 0.6]), np.zeros((2, 2))
    with_means, without = moved.components(3, none), still.components(3, none)
    rng = np.random.default_rng(0)
    own, p = sets.of(3).conditions, sets.model.parameters
    draws = []
    for _ in range(4000):
        means = p.means.copy()
        means[:, 0] += 0.3 * np.sqrt(p.variances[:, 0]) * rng.standard_normal(2) * 0.05
        alone = type(p)(w, means, p.variances, p.covariances, p.blocks)
        draws.append(own.model(alone))
    between = np.cov(np.array(draws).T) / 0.05**2
    difference = group_covariance(with_means, 1e9, w) - group_covariance(without, 1e9, w)
    error = np.sqrt((np.outer(np.diag(between), np.diag(between)) + between**2) / 4000)
    assert (np.abs(difference - between) < 5 * error + 1e-3).all()


def test_with_means_agrees_with_components_made_anew():
    sets = sets_of(MODEL, 3)
    moves = np.array([[0.05, -0.03, 0.0], [0.0, 0.04, 0.08]]) * np.sqrt(
        sets.model.parameters.variances
    )
    moved = MovedMeans(sets, [0, 1, 2], spreads_of([0.01] * 3, 2))
    near = moved.components(3, moves)
    anew = FixedComponents(near.conditions, near.parameters, None)
    np.testing.assert_allclose(near.means, anew.means, rtol=1e-12, atol=1e-12)
    w = np.array([0.7, 0.3])
    scale = np.sqrt(np.diagonal(anew.covariance(w)))
    difference = (near.covariance(w) - anew.covariance(w)) / scale / scale[:, None]
    assert np.abs(difference).max() < 0.2


def test_spreads_of_groups_without_noise_are_those_of_their_means():
    """Moments that are exactly those of moved components, of groups of endless rows."""
    sets = sets_of(MODEL, 3)
    p, conditions = sets.model.parameters, sets.of(3).conditions
    rng = np.random.default_rng(3)
    groups, drawn = [], []
    for _ in range(40):
        step = rng.standard_normal(2)
        means = p.means.copy()
        means[:, 1] += 0.2 * np.sqrt(p.variances[:, 1]) * step
        moments = conditions.model(type(p)(p.weights, means, p.variances))
        groups.append(GroupMoments(3, moments, 1e7, p.weights))
        drawn.append(step)
    expected = 0.04 * (np.array(drawn) ** 2).mean()
    found, excess, _ = find_spreads(sets, [0, 1, 2], groups).spreads
    assert found[1] == pytest.approx(expected * (1 + np.sqrt(2 / 80)), rel=0.05)
    assert (found[[0, 2]] < 1e-3 * expected).all()
    assert (excess < 1e-3).all()  # the model's variances are those within groups


def test_a_model_of_the_whole_has_the_differences_between_groups_in_its_variances():
    """Variances of the model are 1.25 times those within groups, as those of all groups are."""
    rng = np.random.default_rng(8)
    cube = {g: group(0.3, [0.5, 0.0, 0.0] * DEVIATIONS * rng.standard_normal((2, 3)), 1500, g)
            for g in range(30)}  # fmt: skip
    whole = mm.DiagonalMixture([0.7, 0.3], MEANS, DEVIATIONS**2 * [1.25, 1.0, 1.0])
    tracking = mm.track(whole, cube, means="group", model_rows=inf)
    ratio = tracking.means.deviations[:, 0] ** 2 / (1.25 * DEVIATIONS[:, 0] ** 2)
    # The variance within is known from 45,000 rows, the one between from 60 means.
    np.testing.assert_allclose(ratio, 0.8, atol=0.03)
    np.testing.assert_allclose(tracking.means.deviations[:, 1:], DEVIATIONS[:, 1:], rtol=0.02)
    assert tracking.fits.all()
    moved = tracking.mixture(0)
    np.testing.assert_allclose(moved.variances, tracking.means.deviations**2)


def test_joined_columns_move_and_keep_their_correlations():
    blocks = [
        mm.GaussianBlock.of([[0.0, 1.0], [3.0, 4.0]], [np.eye(2) + 0.5, np.eye(2)], ["x", "y"]),
        mm.BernoulliBlock([0.2, 0.8], ("no", "yes"), names="answer"),
        mm.PoissonBlock([1.0, 5.0], names="visits"),
    ]
    model = mm.Mixture.from_blocks([0.5, 0.5], blocks)
    cube = {}
    for g in range(12):
        moved = mm.GaussianBlock.of(blocks[0].means + 0.1 * g, blocks[0].covariances, ["x", "y"])
        law = mm.Mixture.from_blocks([0.4, 0.6], [moved, *blocks[1:]])
        table, _ = law.sample(1500, random_state=g)
        cube[g] = mm.summarize(table, families=model.schema)
    tracking = mm.track(model, cube, means="group", model_rows=inf)
    assert tracking.means.columns == ("x", "y", "answer=yes", "visits")
    assert tracking.means.levels == (None, None, "yes", None)
    name = tracking.means.columns[2]
    label = SharesDisplay.from_tracking(tracking, column=name).axes_[0].get_ylabel()
    assert label == f"share of {name}"
    assert (tracking.means.spreads[2:] < 0.1).all()
    last = tracking.mixture(11)
    # Standard errors of a mean of 600 to 900 rows are 0.03 to 0.05.
    np.testing.assert_allclose(last.means[:, :2], blocks[0].means + 1.1, atol=0.2)
    np.testing.assert_allclose(last.means[:, 2:], model.means[:, 2:], rtol=0.1)
    off = [0, 1], [1, 0]
    for there, here in zip(last.blocks[0].covariances, blocks[0].covariances, strict=True):
        np.testing.assert_array_equal(there[off], here[off])
        assert np.linalg.eigvalsh(there).min() > 0.2
    assert any(text.startswith("x of component 0") and " rose " in text
               for text in tracking.sentences())  # fmt: skip


def test_the_mixture_of_a_group_describes_its_rows_better(stores, tracked):
    g = 2  # 3,000 rows
    moved = tracked.mixture(g)
    assert (moved.weights == tracked.weights[g]).all()
    law = mm.DiagonalMixture([1 - stores[2][g], stores[2][g]], stores[3][g], DEVIATIONS**2)
    rows, _ = law.sample(5000, random_state=0)
    fixed = mm.track(MODEL, stores[0], model_rows=inf).mixture((g,))
    assert (fixed.means == MODEL.means).all()
    assert moved.log_prob(rows).mean() > fixed.log_prob(rows).mean() + 0.01


def test_weights_are_shrunken_as_well(stores, tracked):
    few = {g: summary for g, summary in stores[0].items() if g % 3 == 0}
    both = mm.track(MODEL, few, means="group", prior="whole", model_rows=inf)
    assert both.prior is not None
    small = stores[1] == 120
    assert np.ptp(both.weights[:, 1]) < np.ptp(tracked.weights[small, 1])


def test_tables_and_json_have_the_means(stores, tracked):
    frame = tracked.to_frame()
    assert frame["mean_1_a"].tolist() == tracked.means.values[:, 1, 0].tolist()
    long = tracked.means.to_frame()
    assert list(long.columns) == ["group", "component", "column", "mean", "low", "high"]
    row = long[(long["group"] == 4) & (long["component"] == 1) & (long["column"] == "c")]
    assert row["mean"].item() == tracked.means.values[4, 1, 2]
    document = json.loads(json.dumps(tracked.to_dict()))
    assert document["means"]["columns"] == ["a", "b", "c"]
    assert document["groups"][3]["means"] == tracked.means.values[3].tolist()
    assert "means differ between groups" in str(tracked)


def test_a_group_of_no_rows_has_no_means():
    cube = {0: group(0.3, 0.0, 300, 0), 1: mm.MomentSummary(3, 3), 2: group(0.4, 0.0, 300, 2)}
    tracking = mm.track(MODEL, cube, means="group", model_rows=inf)
    assert np.isnan(tracking.means.values[1]).all()
    with pytest.raises(mm.InputError, match="the shares of group 1 are not known"):
        tracking.mixture(1)
    with pytest.raises(mm.InputError, match="no group 7; the first groups are 0, 1, 2"):
        tracking.mixture(7)


def test_bad_input():
    cube = {0: group(0.3, 0.0, 300, 0)}
    with pytest.raises(mm.InputError, match='means must be "fixed" or "group"; got True'):
        mm.track(MODEL, cube, means=True)
    constant = mm.DiagonalMixture([0.5, 0.5], [[3.0], [3.0]], [[1e-6], [1e-6]])
    with pytest.raises(mm.InputError, match="all columns of the model are constant"):
        mm.track(constant, {0: mm.summarize(np.full((50, 1), 3.0))}, means="group")


def test_a_group_of_another_kind_does_not_set_the_means_of_the_others_free():
    cube = {g: group(0.3, 0.0, 800, g) for g in range(8)}
    rows, _ = MODEL.sample(800, random_state=50)
    wild, new = rows.copy(), rows.copy()
    wild[0, 0] = 1e7
    new[:120] = np.random.default_rng(1).normal([100.0, 9.0, 14.0], 1.0, (120, 3))
    for odd in (wild, new):
        with_odd = {**cube, 8: mm.summarize(odd)}
        tracking = mm.track(MODEL, with_odd, means="group", model_rows=inf)
        assert tracking.fits.tolist() == [True] * 8 + [False]
        assert (tracking.means.spreads < 0.1).all()


def test_means_of_logarithms_are_called_so():
    model = mm.Mixture.from_blocks(
        [1.0], [mm.GaussianBlock.of([2.0], [0.25], "y", transforms="log")]
    )
    cube = {}
    for g in range(6):
        block = mm.GaussianBlock.of([2.0 + 0.2 * g], [0.25], "y", transforms="log")
        table, _ = mm.Mixture.from_blocks([1.0], [block]).sample(400, random_state=g)
        cube[g] = mm.summarize(table, families=model.schema)
    (text,) = mm.track(model, cube, means="group").sentences()
    assert text.startswith("log y of component 0 (all rows) rose from 2.")


# -- missing cells, counts and levels ---------------------------------------------------------

TABLE = mm.Mixture.from_blocks(
    [0.4, 0.6],
    [
        mm.GaussianBlock.of([1.0, 3.0], [0.5, 1.5], "x", [0.6, 0.9]),
        mm.GaussianBlock.of([0.0, 2.0], [1.0, 0.7], "y"),
        mm.PoissonBlock([2.0, 5.0], names="visits", seen=[0.7, 0.8]),
        mm.PoissonBlock([1.0, 3.0], names="calls"),
        mm.BernoulliBlock([0.2, 0.7], ("no", "yes"), names="answer"),
        mm.CategoricalBlock([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]], ("a", "b", "c"), names="plan",
                            seen=[0.5, 0.9]),
    ],
)  # fmt: skip


def standard_table():
    p = TrackedModel.of(TABLE).standard(TABLE.schema).parameters
    seen = {j for law in p.blocks.laws for j in law.features[law.n_values :]}
    return p, MovingValues(p, [j for j in range(p.blocks.n_features) if j not in seen])


def test_slopes_of_parameters_in_means_are_those_of_differences():
    p, values = standard_table()
    facts, fine = values.facts(p), 1e-6
    assert values.features.tolist() == [0, 2, 3, 5, 6, 7, 8]
    for j, feature in enumerate(values.features):
        step = np.zeros_like(facts.means)
        step[:, j] = fine
        moved = values.moved(p, step)
        np.testing.assert_allclose(values.facts(moved).means - facts.means, step, atol=1e-12)
        slope = (moved.means[:, feature] - p.means[:, feature]) / fine
        np.testing.assert_allclose(slope, facts.by_mean[:, j], rtol=1e-5)
        if (facts.of_variance[:, j] > 0).any():  # others follow from the means
            slope = (moved.variances[:, feature] - p.variances[:, feature]) / fine
            np.testing.assert_allclose(slope, facts.by_variance[:, j], rtol=1e-4, atol=1e-6)
            kept = np.where(step > 0, 1 - fine, 1.0)
            narrow = values.moved(p, np.zeros_like(step), kept)
            slope = (p.variances[:, feature] - narrow.variances[:, feature]) / fine
            expected = facts.of_variance[:, j] * facts.variances[:, j]
            np.testing.assert_allclose(slope, expected, rtol=1e-4)


def test_errors_of_parameters_are_errors_of_means():
    p, values = standard_table()
    facts, rng = values.facts(p), np.random.default_rng(0)
    error = 1e-6 * rng.standard_normal(p.means.shape)
    there = values.facts(type(p)(p.weights, p.means + error, p.variances, None, p.blocks))
    rows, of_seen = error[:, values.features], error[:, values.seen]
    found = values.errors(facts, rows.T.reshape(-1, 1), of_seen.T.reshape(-1, 1))
    expected = (there.means - facts.means).T.ravel()
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-4, atol=1e-11)


def test_the_error_of_a_mean_is_that_of_the_cells_that_are_seen():
    """One component: the conjugate normal law of n · q values."""
    model = mm.Mixture.from_blocks([1.0], [mm.GaussianBlock.of([3.0], [4.0], "x", [0.25])])
    tracked = TrackedModel.of(model).standard(model.schema)
    sets = ComponentSets(tracked, Shape(2, 2, 1, True, False))
    tau2, n = 0.04, 800
    moved = MovedMeans(sets, [0], spreads_of([tau2], 1))
    shift = 0.1 * moved.units[0, 0]
    p = moved.values.moved(tracked.parameters, np.full((1, 1), shift))
    found = moved.group(GroupMoments(2, sets.of(2).conditions.model(p), n, np.ones(1)))
    n_seen = 0.25 * n
    assert found.moves[0, 0] == pytest.approx(shift * n_seen / (n_seen + 1 / tau2), rel=0.03)
    error = found.errors[0, 0] / moved.units[0, 0]
    assert error == pytest.approx((n_seen + 1 / tau2) ** -0.5, rel=0.03)


def test_rates_and_levels_differ_between_groups():
    rng, cube, truth = np.random.default_rng(4), {}, []
    for g in range(12):
        calls = TABLE.blocks[3].rates * np.exp(0.3 * rng.standard_normal(2))
        yes = 1 / (1 + (1 / TABLE.blocks[4].probabilities - 1) * np.exp(rng.standard_normal(2)))
        plan = TABLE.blocks[5].probabilities * np.exp(0.7 * rng.standard_normal((2, 3)))
        plan /= plan.sum(axis=1, keepdims=True)
        blocks = [*TABLE.blocks[:3], replace(TABLE.blocks[3], rates=calls),
                  replace(TABLE.blocks[4], probabilities=yes),
                  replace(TABLE.blocks[5], probabilities=plan)]  # fmt: skip
        law = mm.Mixture.from_blocks([0.5, 0.5], blocks)
        table, _ = law.sample(1500, random_state=g)
        cube[g] = mm.summarize(table, families=TABLE.schema, missing="model")
        truth.append(np.column_stack([calls, yes, plan[:, 1:]]))
    tracking = mm.track(TABLE, cube, means="group", model_rows=inf)
    means, truth = tracking.means, np.array(truth)
    assert means.columns == ("x", "y", "visits", "calls", "answer=yes", "plan=b", "plan=c")
    assert tracking.fits.all()
    assert (~mm.track(TABLE, cube, model_rows=inf).fits).mean() > 0.6  # the negative control
    inside = (means.low[:, :, 3:] <= truth) & (truth <= means.high[:, :, 3:])
    assert 0.88 < inside.mean() <= 1.0  # 96 values
    before = np.column_stack([TABLE.blocks[3].rates, TABLE.blocks[4].probabilities,
                              TABLE.blocks[5].probabilities[:, 1:]])  # fmt: skip
    errors = np.abs(means.values[:, :, 3:] - truth).mean(axis=(0, 1))
    assert (errors < 0.4 * np.abs(before - truth).mean(axis=(0, 1))).all()
    assert (means.low[:, :, 3:] >= 0).all()
    assert (means.high[:, :, 4:] <= 1).all()
    moved = tracking.mixture(2)
    np.testing.assert_allclose(moved.blocks[3].rates, means.values[2, :, 3])
    np.testing.assert_allclose(moved.blocks[4].probabilities, means.values[2, :, 4])
    np.testing.assert_allclose(moved.blocks[5].probabilities[:, 1:], means.values[2, :, 5:])


def with_missing(moves, n, seed, seen_of_a=(0.6, 0.9)):
    blocks = [
        mm.GaussianBlock.of(MEANS[:, j] + moves[:, j], DEVIATIONS[:, j] ** 2, name,
                            (0.6, 0.9) if j else seen_of_a)
        for j, name in enumerate("abc")
    ]  # fmt: skip
    return mm.Mixture.from_blocks([0.6, 0.4], blocks).sample(n, random_state=seed)[0]


@pytest.fixture(scope="module")
def holes():
    """A model of columns with missing cells."""
    blocks = [
        mm.GaussianBlock.of(MEANS[:, j], DEVIATIONS[:, j] ** 2, name, (0.6, 0.9))
        for j, name in enumerate("abc")
    ]
    return mm.Mixture.from_blocks([0.6, 0.4], blocks)


def test_means_of_columns_with_missing_cells_differ_between_groups(holes):
    rng = np.random.default_rng(11)
    cube, truth = {}, []
    for g in range(14):
        moves = [0.5, 0.0, 0.2] * DEVIATIONS * rng.standard_normal((2, 3))
        table = with_missing(moves, 600, g)
        cube[g] = mm.summarize(table, families=holes.schema, missing="model")
        truth.append(MEANS + moves)
    tracking = mm.track(holes, cube, means="group", model_rows=inf)
    means = tracking.means
    assert means.columns == ("a", "b", "c")
    assert means.fixed == ()
    assert tracking.fits.all()
    assert (~mm.track(holes, cube, model_rows=inf).fits).mean() > 0.4  # the negative control
    truth = np.array(truth)
    inside = (means.low <= truth) & (truth <= means.high)
    assert 0.88 < inside[:, :, [0, 2]].mean() <= 1.0  # 56 means
    errors = (means.values - truth)[:, :, 0] / DEVIATIONS[:, 0]
    assert np.sqrt((errors**2).mean()) < 0.3 * np.sqrt(
        (((MEANS - truth)[:, :, 0] / DEVIATIONS[:, 0]) ** 2).mean()
    )
    moved = tracking.mixture(3)
    np.testing.assert_allclose(moved.means, means.values[3])
    np.testing.assert_array_equal(moved.blocks[0].seen, holes.blocks[0].seen)


# -- one column -------------------------------------------------------------------------------


def test_variances_between_groups_are_those_of_each_component():
    """One column; the means of component 1 differ twice as much. Groups of endless rows."""
    within = np.array([1.0, 2.0])
    between = np.array([0.09, 0.72])
    model = mm.DiagonalMixture([0.5, 0.5], [[-3.0], [4.0]], (within + between)[:, None])
    sets = ComponentSets(
        TrackedModel.of(model).standard(None), Shape(1, 1, 0, True, False), are_moving=True
    )
    p, degree = sets.model.parameters, sets.degree_for(1e4)
    assert degree == 6
    conditions, scale = sets.of(6).conditions, sets.model.scale[0]
    variances = p.variances * (within / (within + between))[:, None]
    steps = np.random.default_rng(0).standard_normal((24, 2))
    steps = (steps - steps.mean(0)) / steps.std(0) * np.sqrt(between) / scale
    groups = []
    for step in steps:
        moments = conditions.model(type(p)(p.weights, p.means + step[:, None], variances))
        groups.append(GroupMoments(6, moments, 1e5, p.weights))
    found = find_spreads(sets, [0], groups).spreads
    np.testing.assert_allclose(found.excess[:, 0], between / (within + between), atol=0.02)
    assert (np.sqrt((found.root**2).sum(axis=1)) < 0.02).all()

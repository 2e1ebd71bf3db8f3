"""`mm.track`: shares, intervals and test of groups; models and tables of any kind; bad input."""

import json
from dataclasses import replace
from datetime import date
from itertools import product

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix.displays import SharesDisplay
from momentmix.groups.shares import Products, nearest_weights
from momentmix.groups.track import Tracking, looks_ordered
from momentmix.mixture import gaussian
from momentmix.mixture.parameters import parameters_from

NAMES = ["flow", "temperature", "pressure"]
MEANS = np.array([[100.0, 20.0, 5.0], [120.0, 30.0, 5.0], [110.0, 20.0, 8.0]])
VARIANCES = np.array([[16.0, 4.0, 0.3]] * 3)


def mixture(weights):
    return mm.Mixture.diagonal(weights, MEANS, VARIANCES, NAMES)


MODEL = mixture([0.6, 0.25, 0.15])


def rows_of(weights, n, seed):
    return mixture(weights).sample(n, random_state=seed)[0]


def summary(rows, names=NAMES):
    return mm.summarize(pd.DataFrame(rows, columns=names))


@pytest.fixture(scope="module")
def weeks():
    rng, found = np.random.default_rng(0), {}
    for week in range(1, 21):
        w = np.array([0.6 - 0.012 * week, 0.2 + 0.012 * week, 0.2])
        rows = rows_of(w, int(rng.integers(400, 2500)), week)
        if week == 13:
            rows = np.vstack([rows, rng.normal([150, 25, 5], [4, 2, 0.5], (len(rows) // 9, 3))])
        found[week] = summary(rows)
    return found


@pytest.fixture(scope="module")
def tracking(weeks):
    return mm.track(MODEL, weeks)


# -- what models and tables may be --------------------------------------------------------------


def test_yes_no_answers_give_their_exact_weights():
    chances = np.array([[0.9, 0.2, 0.5, 0.3], [0.1, 0.7, 0.4, 0.9], [0.4, 0.4, 0.9, 0.1]])
    blocks = [mm.BernoulliBlock(chances[:, j], names=f"q{j}") for j in range(4)]
    model = mm.Mixture.from_blocks([0.5, 0.3, 0.2], blocks)
    rows = np.array(list(product([0, 1], repeat=4)))
    w = np.array([0.2, 0.7, 0.1])
    shares = sum(
        a * np.where(rows == 1, p, 1 - p).prod(axis=1) for a, p in zip(w, chances, strict=True)
    )
    exact = mm.MomentSummary(4, 3, schema=model.schema)
    for _ in range(4):  # groups of fewer than 20 rows are not tested
        exact.update({f"q{j}": rows[:, j] for j in range(4)}, sample_weight=shares * 2**20)
    tracking = mm.track(model, {"all": exact})
    assert tracking.weights[0] == pytest.approx(w, abs=1e-9)
    assert tracking.p_value[0] > 0.99


def clients(weights):
    return mm.Mixture.from_blocks(
        weights,
        [
            mm.GaussianBlock([35.0, 55.0], [64.0, 100.0], "age", seen=[0.9, 0.6]),
            mm.PoissonBlock([1.0, 4.0], names="visits"),
            mm.BernoulliBlock([0.7, 0.2], (False, True), names="member"),
            mm.CategoricalBlock([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5]], ("x", "y", "z"), names="plan"),
            mm.GaussianBlock(
                [[0.0, 0.0], [1.0, -1.0]],
                [[[1, 0.6], [0.6, 1]], [[1, -0.3], [-0.3, 2]]],
                ["a", "b"],
            ),
        ],
    )


def test_tables_of_families_missing_cells_and_joined_columns():
    model, wanted, cube = clients([0.5, 0.5]), [], {}
    for g, share in enumerate([0.02, 0.3, 0.5, 0.9]):
        table, _ = clients([share, 1 - share]).sample(2000, random_state=g)
        if g == 1:
            table["age"] = np.where(np.isnan(np.asarray(table["age"], float)), 40.0, table["age"])
        missing = "error" if g == 1 else "model"
        cube[g] = mm.summarize(table, families={"visits": "poisson"}, missing=missing)
        wanted.append(share)
    tracking = mm.track(model, cube)
    assert len({s.schema for s in cube.values()}) > 2  # centers and missing cells of their own
    # Group 1 has no missing cells, which the model does not expect.
    assert tracking.fits.tolist() == [True, False, True, True]
    for g in (0, 2, 3):
        assert tracking.weights[g, 0] == pytest.approx(wanted[g], abs=0.04)
        assert tracking.low[g, 0] <= wanted[g] + 0.01
        assert wanted[g] - 0.01 <= tracking.high[g, 0]


def joined(seen, more=()):
    """A model of two joined columns with missing cells and of others, and a group of its rows."""
    matrices = [[[1, 0.5], [0.5, 1]]] * 2
    block = mm.GaussianBlock([[0.0, 0.0], [3.0, 3.0]], matrices, ["a", "b"], [seen, seen])
    model = mm.Mixture.from_blocks([0.4, 0.6], [block, *more])
    table, _ = model.sample(3000, random_state=0)
    return model, {"EU": mm.summarize(table, families=model.schema, missing="model")}


def test_joined_columns_with_missing_cells_are_left_out_with_a_note():
    other = mm.GaussianBlock([0.0, 4.0], [1.0, 1.0], "c")
    tracking = mm.track(*joined([0.8, 1.0], [other]))
    assert tracking.notes[0].startswith("column 0 ('a')")
    assert tracking.weights[0] == pytest.approx([0.4, 0.6], abs=0.04)


def test_models_of_all_kinds_agree(tmp_path, weeks):
    rows = pd.DataFrame(rows_of([0.6, 0.25, 0.15], 6000, 99), columns=NAMES)
    result = mm.fit(rows, 3, random_state=0)
    result.save(tmp_path / "model.json")
    estimator = mm.MomentGaussianMixture(3, random_state=0).fit(rows)
    cube = {week: weeks[week] for week in (1, 2)}
    found = [
        mm.track(m, cube) for m in (result, tmp_path / "model.json", estimator, result.mixture)
    ]
    for other in found[1:]:
        assert other.weights == pytest.approx(found[0].weights, abs=0.01)
    # The file knows the rows of the fit: nearly the errors of the result.
    widths = [(t.high - t.low).mean() for t in found]
    assert widths[1] == pytest.approx(widths[0], rel=0.05)
    assert widths[3] < widths[0]  # a mixture alone has no errors


def test_columns_are_matched_by_name():
    rows = rows_of([0.3, 0.3, 0.4], 3000, 5)
    turned = summary(np.column_stack([rows[:, ::-1], rows[:, 0] ** 2]), [*NAMES[::-1], "more"])
    pair = [mm.track(MODEL, {"EU": s}).weights for s in (summary(rows), turned)]
    assert pair[1] == pytest.approx(pair[0], abs=0.02)


def test_huge_offsets_change_nothing():
    shift = np.array([1e9, -1e7, 0.0])
    moved = mm.Mixture.diagonal(MODEL.weights, MEANS + shift, VARIANCES, NAMES)
    rows = rows_of([0.3, 0.3, 0.4], 2000, 5)
    here, there = (
        mm.track(MODEL, {"EU": summary(rows)}),
        mm.track(moved, {"EU": summary(rows + shift)}),
    )
    assert there.weights == pytest.approx(here.weights, abs=1e-4)
    assert there.p_value == pytest.approx(here.p_value, abs=0.01)


def test_constant_columns_take_no_part():
    def wide(rows, constant):
        return summary(np.column_stack([rows, constant]), [*NAMES, "site"])

    rows = rows_of([0.6, 0.25, 0.15], 4000, 99)
    frame = pd.DataFrame(np.column_stack([rows, np.full(4000, 7.0)]), columns=[*NAMES, "site"])
    result = mm.fit(frame, 3, random_state=0)
    other = rows_of([0.3, 0.3, 0.4], 1000, 5)
    cube = {1: wide(other, np.full(1000, 7.0)), 2: wide(other, np.sqrt(np.arange(1000.0)))}
    for model in (result, result.mixture):
        tracking = mm.track(model, cube)
        assert tracking.fits.all()
        assert tracking.weights[0] == pytest.approx(tracking.weights[1], abs=1e-12)


def test_one_component_has_all_rows():
    model = mm.Mixture.diagonal([1.0], MEANS[:1], VARIANCES[:1], NAMES)
    tracking = mm.track(model, {"EU": summary(rows_of([1.0, 0.0, 0.0], 1000, 0))})
    assert tracking.weights.tolist() == [[1.0]]
    assert tracking.fits.all()
    assert not mm.track(model, {"EU": summary(rows_of([0.5, 0.5, 0.0], 1000, 0))}).fits.any()


def test_a_group_of_values_that_overflow_takes_nothing_from_the_others():
    cube = {g: summary(rows_of([0.6, 0.25, 0.15], 500, g)) for g in (1, 2, 3)}
    far = {0: summary(rows_of([0.6, 0.25, 0.15], 500, 0) * 1e200)}
    alone = mm.track(MODEL, cube)
    found = mm.track(MODEL, {**far, **cube})
    assert found.weights[1:] == pytest.approx(alone.weights)
    assert np.isnan(found.weights[0]).all()
    with pytest.raises(mm.InputError, match="all groups lie so far from those of the model"):
        mm.track(MODEL, far)
    wide = {g: summary(rows_of([0.6, 0.25, 0.15], 500, g) * 1e40) for g in (1, 2, 3)}
    assert not mm.track(MODEL, wide).fits.any()
    wild = rows_of([0.6, 0.25, 0.15], 1000, 0)
    wild[0, 0] = 1e40
    tracking = mm.track(MODEL, {**cube, 4: summary(wild)})
    assert tracking.fits.tolist() == [True, True, True, False]


# -- what is shown ------------------------------------------------------------------------------


def test_groups_of_no_rows_stay_in_the_table(weeks):
    empty = mm.MomentSummary(3, 3, NAMES)
    tracking = mm.track(MODEL, {1: weeks[1], 2: empty})
    assert tracking.n_rows.tolist()[1] == 0
    assert np.isnan(tracking.weights[1]).all()
    assert tracking.fits[1]
    assert "no rows" in str(tracking)
    assert tracking.to_dict()["groups"][1]["weight_2"] is None


def test_tables_hold_every_group(tracking):
    frame = tracking.to_frame()
    assert len(frame) == 20
    assert frame["group"].tolist() == list(range(1, 21))
    assert frame["weight_1"].to_numpy() == pytest.approx(tracking.weights[:, 1])
    document = json.loads(json.dumps(tracking.to_dict(), allow_nan=False))
    assert document["groups"][12]["fits"] is False
    assert document["verdict"] == "the components do not fit 1 of 20 groups: group 13."
    assert document["components"] == MODEL.profile().names


def test_texts_are_short_and_escaped(tracking):
    assert repr(tracking) == (
        "Tracking(20 groups, 3 components): the components do not fit 1 of 20 groups: group 13."
    )
    lines = str(tracking).splitlines()
    assert lines[14].split()[0] == "13"
    assert lines[14].endswith("NO")
    odd = mm.track(MODEL, {"\x1b": summary(rows_of([0.6, 0.25, 0.15], 500, 0))})
    assert "\x1b" not in str(odd)


def test_orders_are_seen():
    ordered = [1, 2], ["2024-W01", "2024-05"], ["week 9", "week 10"], [date(2026, 1, 1)]
    assert all(map(looks_ordered, ordered))
    assert not any(map(looks_ordered, (["EU", "US"], [True, False], [None])))


# -- bad input ----------------------------------------------------------------------------------


ROWS = rows_of([0.6, 0.25, 0.15], 100, 0)
GOOD = summary(ROWS)
NO_ROWS = mm.MomentSummary(3, 3, NAMES)


def other_family():
    table, _ = clients([0.5, 0.5]).sample(500, random_state=0)
    return mm.summarize(table, families={"visits": "gaussian"}, missing="model")


def with_gap():
    frame = pd.DataFrame(ROWS, columns=NAMES)
    frame.loc[3, "flow"] = np.nan
    return mm.summarize(frame, missing="model")


def twins(means):
    """A model of one column and these means, and a group of it."""
    means = np.array(means)[:, None]
    model = mm.Mixture.diagonal(np.full(len(means), 1 / len(means)), means, np.ones_like(means))
    return model, {"EU": mm.summarize(model.sample(1000, random_state=0)[0])}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((MODEL, [GOOD]), "SummaryCube, or a dict"),
        ((MODEL, {}), "the cube has no groups; check"),
        ((MODEL, {1: 3}), "group 1: expected a MomentSummary; got int"),
        ((MODEL, {(1, 2): GOOD, 3: GOOD}), "keys must have as many parts"),
        ((3, {1: GOOD}), "expected a Mixture, a FitResult"),
        ((MODEL, {1: NO_ROWS}), "no group of the cube holds"),
        ((MODEL, {1: summary(ROWS, ["a", "b", "flow"])}), "group 1: the columns must"),
        ((MODEL, {1: mm.summarize(ROWS[:, :2])}), "group 1 has 2 columns, the model 3"),
        ((MODEL, {1: GOOD}, {"level": 2}), "level must be a number between 0 and 1"),
        ((clients([0.5, 0.5]), {1: other_family()}), "1 and the model differ: a column must have"),
        ((MODEL, {1: with_gap()}), r"in column 0 .'flow'., the model has none"),
        (twins(np.linspace(0, 40, 9)), "identify at most 3 of the 9 components"),
        (twins([0.0, 0.0]), "identify at most 1 of the 2 components"),
        (joined([0.8, 0.9]), "all columns of the model are joined and have missing"),
    ],
)
def test_bad_input_is_refused_with_the_cure(arguments, message):
    model, cube, options = (*arguments, {})[:3]
    with pytest.raises((mm.InputError, mm.errors.InputTypeError), match=message):
        mm.track(model, cube, **options)


def test_a_group_of_a_few_rows_is_not_tested():
    model = mm.Mixture.diagonal([0.5, 0.5], [[0.0, 0.0], [4.0, 4.0]], np.ones((2, 2)))
    far = np.array([[0.0, 9.0], [9.0, 0.0], [2.0, 8.0], [8.0, 2.0]])
    cube = {0: mm.summarize(model.sample(500, random_state=0)[0]), 1: mm.summarize(far)}
    tracking = mm.track(model, cube)
    assert np.isnan(tracking.p_value[1])
    assert tracking.fits.all()
    assert "untested" in str(tracking)
    cube[1] = mm.summarize(np.repeat(far, 10, axis=0) + 0.01 * np.arange(40)[:, None])
    assert not mm.track(model, cube).fits[1]


@pytest.mark.parametrize("n_seen", [0, 3, 2000])
def test_a_column_that_is_all_missing_or_all_seen_is_no_error(n_seen):
    blocks = [
        mm.GaussianBlock([0.0, 4.0], [1.0, 1.0], "a", [0.5, 0.9]),
        mm.GaussianBlock([0.0, 3.0], [1.0, 1.0], "b"),
        mm.GaussianBlock([0.0, 2.0], [1.0, 1.0], "c"),
    ]
    model = mm.Mixture.from_blocks([0.5, 0.5], blocks)
    table = model.sample(2000, random_state=1)[0]
    full = mm.Mixture.from_blocks([0.5, 0.5], [replace(blocks[0], seen=None), *blocks[1:]])
    odd = pd.DataFrame(full.sample(2000, random_state=2)[0], columns=["a", "b", "c"])
    odd.loc[odd.index[n_seen:], "a"] = np.nan
    cube = {name: mm.summarize(rows, families=model.schema, missing="model")
            for name, rows in (("usual", table), ("odd", odd))}  # fmt: skip
    tracking = mm.track(model, cube)
    assert tracking.fits.tolist() == [True, False]
    assert tracking.verdict() == "the components do not fit 1 of 2 groups: group odd."


# -- levels and coverage ------------------------------------------------------------------------


def overlapping(weights, apart=1.0, d=4, r=3):
    """Components that are `apart` standard deviations from each other, or so."""
    rng = np.random.default_rng(0)
    means, variances = apart * rng.standard_normal((r, d)), rng.uniform(0.5, 1, (r, d))
    return mm.Mixture.diagonal(weights, means, variances)


def held(found, wanted):
    return ((found.low <= wanted) & (wanted <= found.high)).mean()


@pytest.mark.parametrize("apart", [0.7, 3.0])
@pytest.mark.parametrize("n", [150, 1500])
def test_intervals_hold_the_shares_and_the_test_keeps_its_level(apart, n):
    wanted = np.random.default_rng(2).dirichlet(np.ones(3), 250)
    cube = {g: mm.summarize(overlapping(w, apart).sample(n, random_state=g)[0], 2)
            for g, w in enumerate(wanted)}  # fmt: skip
    model = overlapping([0.3, 0.3, 0.4], apart)
    found = mm.track(model, cube)
    error = np.sqrt(0.05 * 0.95 / 500)  # two of three shares are free
    assert 0.93 - 3 * error < held(found, wanted) < 0.97 + 3 * error
    assert held(mm.track(model, cube, level=0.5), wanted) < 0.65
    error = np.sqrt(0.05 * 0.95 / 250)
    assert 0.03 - 3 * error < np.mean(found.p_value < 0.05) < 0.07 + 3 * error
    assert np.mean(found.p_value) == pytest.approx(0.5, abs=0.12)


def test_errors_of_the_model_are_part_of_the_intervals():
    """Models of 600 rows and groups of 5,000: the errors are mostly those of the models."""
    wanted, inside, alone, fits = np.array([0.25, 0.35, 0.4]), [], [], []
    groups = {0: mm.summarize(overlapping(wanted, 1.5).sample(5000, random_state=1)[0])}
    truth = overlapping([0.4, 0.35, 0.25], 1.5)
    for seed in range(20):
        result = mm.fit(truth.sample(600, random_state=seed)[0], 3, random_state=0, start=truth)
        order = np.argsort(np.linalg.norm(truth.means[:, None] - result.mixture.means, axis=2), 1)
        found, known = mm.track(result, groups), mm.track(result.mixture, groups)
        order = order[:, 0]
        inside.append(
            held(replace(found, low=found.low[:, order], high=found.high[:, order]), wanted)
        )
        alone.append(
            held(replace(known, low=known.low[:, order], high=known.high[:, order]), wanted)
        )
        fits.append(found.p_value[0] > 0.05)
    assert np.mean(inside) > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / 40)
    assert np.mean(alone) < 0.85
    assert np.mean(fits) > 0.95 - 3.5 * np.sqrt(0.05 * 0.95 / 20)


@pytest.mark.parametrize("change", ["rows", "shift", "spread", "correlation"])
def test_rows_of_no_component_are_seen(change):
    rng, model, cube = np.random.default_rng(3), overlapping([0.3, 0.3, 0.4], 2.0), {}
    for g in range(20):
        rows = model.sample(500, random_state=g)[0]
        if change == "rows":
            rows[:50] = rng.normal([6.0, 0.0, 0.0, 0.0], 0.7, (50, 4))
        elif change == "shift":
            rows[:, 1] += 0.4
        elif change == "spread":
            rows[:, 2] += rng.normal(0, 0.9, 500)
        else:
            rows[:, 2:] += rng.normal(0, 0.8, (500, 1))
        cube[g] = mm.summarize(rows)
    assert (mm.track(model, cube).p_value < 0.01).mean() > 0.9


def test_shares_of_rows_that_can_be_told_apart_have_wilsons_interval():
    n, k, z = 200, 9, 1.959963984540054
    model = mm.Mixture.diagonal([0.5, 0.5], [[-1.0], [1.0]], np.full((2, 1), 1e-8))
    rows = np.where(np.arange(n) < k, 1.0, -1.0) + 1e-4 * np.tile([1.0, -1.0], n // 2)
    found = mm.track(model, {"EU": mm.summarize(rows[:, None])})
    share = k / n
    center, root = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + (z / n / 2) ** 2)
    expected = np.array([center - root, center + root]) / (1 + z**2 / n)
    assert [found.low[0, 1], found.high[0, 1]] == pytest.approx(expected, rel=1e-3)


# -- mathematics --------------------------------------------------------------------------------


def test_moments_and_slopes_of_products():
    p = clients([0.4, 0.6]).parameters
    products = Products.of(p, True)
    means = products.means(p)
    for c in range(2):
        alone = replace(p[[c]], weights=np.ones(1))
        rows = gaussian.sample(alone, 40_000, np.random.default_rng(c))[0]
        found = products.of_rows(rows)
        error = found.std(axis=0) / 200 + 1e-12
        assert (np.abs(found.mean(axis=0) - means[:, c]) < 4.5 * error).all()
    slopes = products.slopes(p, np.eye(p.n_places))
    for i, step in enumerate(1e-6 * np.eye(p.n_places)):
        ends = [products.means(parameters_from(p.flat() + s, 2, p.blocks)) for s in (step, -step)]
        np.testing.assert_allclose(slopes[:, :, i], (ends[0] - ends[1]).T / 2e-6, atol=1e-7)


def test_bounded_weights_are_the_best_on_a_grid():
    rng = np.random.default_rng(5)
    ticks = np.linspace(0, 1, 81)
    grid = np.array([(a, b, 1 - a - b) for a in ticks for b in ticks if a + b <= 1])
    for _ in range(5):
        table, target = rng.standard_normal((6, 3)), rng.standard_normal(6)
        w = nearest_weights(table, target)
        assert w.min() >= 0
        assert w.sum() == pytest.approx(1.0, abs=1e-12)
        lengths = ((grid @ table.T - target) ** 2).sum(axis=1)
        assert ((table @ w - target) ** 2).sum() <= lengths.min() + 1e-12


# -- tables and pictures of many groups ---------------------------------------------------------


def made(n, bad=(), *, keys=None, shares=None, errors=None):
    """A tracking of two components; groups `bad` do not fit, the first of them least."""
    rng = np.random.default_rng(0)
    keys = [(f"g{i:03}",) for i in range(n)] if keys is None else keys
    share = 0.3 + 0.01 * rng.standard_normal(n) if shares is None else np.asarray(shares)
    error = np.full(n, 0.01) if errors is None else np.asarray(errors)
    weights, errors = np.stack([share, 1 - share], 1), np.stack([error, error], 1)
    fits, sizes = np.ones(n, dtype=bool), np.full(n, 0.01)
    for rank, g in enumerate(bad):
        fits[g], sizes[g] = False, 0.1 * (1 + rank)
    names = tuple(f"k{i}" for i in range(len(keys[0])))
    low, high = weights - 2 * errors, weights + 2 * errors
    return Tracking(
        names, keys, np.full(n, 900), weights, low, high, np.where(fits, 0.5, 1e-9), sizes,
        ("few", "many"), 0.95, (),
    )  # fmt: skip


def test_a_long_table_is_cut_in_the_middle_and_names_what_does_not_fit():
    lines = str(made(200, bad=[100, 120, 7])).split("\n")
    assert lines[0] == (
        "the components do not fit 3 of 200 groups, largest misfit first: k0 g007; k0 g120; "
        "k0 g100."
    )
    table = lines[1 : 1 + 62]
    assert table[0].startswith("k0 ")
    assert [line.split()[0] for line in (table[1], table[30], table[32], table[61])] == [
        "g000", "g029", "g170", "g199",
    ]  # fmt: skip
    assert table[31] == "… 140 more groups; to_frame() (-o shares.csv) has all"


def test_pictures_of_many_groups_show_those_that_do_not_fit():
    display = SharesDisplay.from_tracking(made(200, bad=[150, 90]))
    labels = [label.get_text() for label in display.ax_.get_xticklabels()]
    assert (len(labels), labels[0], labels[-2:]) == (40, "g000", ["g090", "g150"])
    assert display.figure_.get_suptitle() == "40 of 200 groups: misfits, and the first others"
    keys = [(f"s{i:02}", week) for i in range(20) for week in range(3)]
    display = SharesDisplay.from_tracking(made(60, bad=[3 * 17 + 1], keys=keys))
    titles = [ax.get_title() for ax in display.axes_.flat if ax.get_visible()]
    assert titles == [*(f"s{i:02}" for i in range(11)), "s17"]

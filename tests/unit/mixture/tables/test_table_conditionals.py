"""Tables' mixtures given some columns, imputed cells, floors and matching, against brute force."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from unit.mixture.table_truths import (
    NAMES,
    PLANS,
    all_families,
    is_missing,
    joint_densities,
    with_gaps,
)

import momentmix as mm
from momentmix.errors import InputError, InputTypeError
from momentmix.families.gaussian_block import GaussianBlock
from momentmix.families.levels import BernoulliBlock, CategoricalBlock
from momentmix.families.poisson import PoissonBlock
from momentmix.mixture.density import log_sums
from momentmix.mixture.matching import match_components, parameter_errors


@pytest.fixture(scope="module")
def mixture():
    return all_families()


def one_row(rows, number=0):
    return {name: column[number : number + 1] for name, column in rows.items()}


# -- parts and conditions -----------------------------------------------------------------------


@pytest.mark.parametrize("columns", [["y"], ["plan", "x"], ["y", "calls", "x"], NAMES[::-1]])
def test_a_part_is_the_marginal_law(mixture, columns):
    rows = with_gaps(mixture.sample(60, random_state=3)[0])
    part = mixture.select(columns)
    assert part.feature_names == tuple(columns)
    own = {name: rows[name] for name in columns}
    found = part.table_density().map_rows(own, log_sums)
    expected = np.log(joint_densities(part, own).sum(axis=1))
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    if part.schema is not None:
        np.testing.assert_array_equal(part.log_prob(own), found)


@pytest.mark.parametrize("known", [["plan"], ["x", "visits"], ["age", "smokes", "y", "member"]])
def test_conditions_are_ratios_of_densities(mixture, known):
    rows = mixture.sample(15, random_state=4)[0]
    whole = mixture.log_prob(rows)
    for number in range(15):
        row = {name: column[number] for name, column in rows.items()}
        values = {name: row[name] for name in known}
        if any(is_missing(value) for value in values.values()):
            continue
        given = mixture.condition(values)
        others = [name for name in NAMES if name not in known]
        assert given.feature_names == tuple(others)
        cells = one_row({name: rows[name] for name in others}, number)
        part = mixture.select(known).log_prob(pd.DataFrame([values])[known])
        assert given.log_prob(cells)[0] + part[0] == pytest.approx(whole[number], rel=1e-9)


def test_missing_values_are_not_known(mixture):
    same = mixture.condition({"age": None, "plan": float("nan"), "calls": pd.NA})
    np.testing.assert_array_equal(same.weights, mixture.weights)
    assert same.feature_names == NAMES
    known = mixture.condition({"smokes": "yes", "age": None})
    np.testing.assert_array_equal(known.weights, mixture.condition({"smokes": "yes"}).weights)
    row = pd.Series({"smokes": "yes", "age": None}, dtype=object)
    np.testing.assert_array_equal(known.weights, mixture.condition(row).weights)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"plan": "platinum"}, "must hold its levels"),
        ({"height": 3}, "no feature named 'height'"),
    ],
)
def test_bad_conditions(mixture, values, message):
    with pytest.raises((InputError, InputTypeError), match=message):
        mixture.condition(values)


def test_columns_from_others(mixture):
    rows = with_gaps(mixture.sample(30, random_state=6)[0])
    known = ["smokes", "y", "calls", "plan"]
    frame = pd.DataFrame({name: rows[name] for name in known})
    found = mixture.predict_columns(frame)
    np.testing.assert_array_equal(found, mixture.predict_columns(dict(frame)))
    np.testing.assert_array_equal(found, mixture.predict_columns(frame.to_numpy(), known))
    others = [name for name in NAMES if name not in known]
    for number in range(30):
        cells = {name: rows[name][number] for name in known}
        if is_missing(cells["calls"]) or is_missing(cells["plan"]):
            continue  # missing there is information, which `condition` does not take
        given = mixture.condition(cells).select(others)
        np.testing.assert_allclose(found[number], given.weights @ given.means, rtol=1e-9)
    assert np.isnan(mixture.predict_columns({"x": [1.0]})[:, NAMES.index("plan")]).all()


# -- imputation ---------------------------------------------------------------------------------


def small():
    """Columns of few outcomes, for sums over all of them."""
    blocks = [
        BernoulliBlock([0.2, 0.7], ("no", "yes"), names="a", seen=[0.9, 0.4]),
        CategoricalBlock([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], PLANS, names="b"),
        PoissonBlock([0.5, 3.0], names="c", seen=[0.5, 0.8]),
        PoissonBlock([2.0, 1.0], names="d"),
    ]
    return mm.Mixture.from_blocks([0.4, 0.6], blocks)


OUTCOMES = {"a": ["no", "yes"], "b": list(PLANS), "c": range(25), "d": range(25)}


def conditional(mixture, row, column):
    """Probability of each outcome of a missing cell, by the sum over those of all others."""
    blocks = {block.names[0]: block for block in mixture.blocks}
    gaps = [name for name, value in row.items() if is_missing(value)]
    shares = mixture.weights.copy()
    for name, value in row.items():
        block = blocks[name]
        if name in gaps:
            shares = shares if block.seen is None else shares * (1 - block.seen)
            continue
        own = block.rates if name in "cd" else block.probability(value)
        if name in "cd":
            own = np.exp(-own) * own**value / np.prod(np.arange(1, value + 1))
        shares = shares * own * (1 if block.seen is None else block.seen)
    shares /= shares.sum()
    block = blocks[column]
    if column in "cd":
        factorials = np.cumprod([1.0, *range(1, 25)])
        table = np.exp(-block.rates[:, None]) * block.rates[:, None] ** np.arange(25) / factorials
        return shares @ table
    return shares @ np.stack([block.probability(level) for level in OUTCOMES[column]], axis=1)


ROWS = [
    dict(zip("abcd", cells, strict=True))
    for cells in product([None, "yes"], [None, "gold"], [None, 2], [None, 1])
]


def test_imputed_cells_are_conditional_means_and_most_probable_levels():
    mixture = small()
    table = {name: np.array([row[name] for row in ROWS], dtype=object) for name in "abcd"}
    filled = mixture.impute(table)
    for number, row in enumerate(ROWS):
        for name, value in row.items():
            if not is_missing(value):
                assert filled[name][number] == value
            elif name in "cd":
                mean = conditional(mixture, row, name) @ np.arange(25)
                assert filled[name][number] == pytest.approx(mean, rel=1e-6)
            else:
                best = conditional(mixture, row, name).argmax()
                assert filled[name][number] == OUTCOMES[name][best]


def test_draws_have_the_conditional_law():
    mixture, n = small(), 4000
    row = {"a": None, "b": None, "c": 2, "d": None}
    table = {name: np.array([value] * n, dtype=object) for name, value in row.items()}
    one, other = mixture.impute(table, random_state=0, draws=2)
    assert (one["b"] != other["b"]).any()
    for name in "abd":
        p = conditional(mixture, row, name)
        counts = np.array([(one[name] == level).sum() for level in OUTCOMES[name]])
        deviations = np.sqrt(n * p * (1 - p)) + 1e-9
        assert (np.abs(counts - n * p) <= 4.5 * deviations + 1).all()
        wrong = np.full(len(p), 1 / len(p))  # a uniform law would be found
        assert (np.abs(counts - n * wrong) > 4.5 * np.sqrt(n * wrong * (1 - wrong)) + 1).any()
    # Cells of one row are drawn from the same component: both levels go together.
    joint = np.array([[0.2, 0.8], [0.7, 0.3]])
    p = mixture.condition({"c": 2}).weights * (1 - mixture.blocks[0].seen)
    p = p / p.sum()
    both = p @ (joint[:, 0] * np.array([0.25, 0.8]))
    seen = ((one["a"] == "yes") & (one["b"] == "silver")).mean()
    assert abs(seen - both) < 4.5 * np.sqrt(both * (1 - both) / n)


def test_joined_columns_are_regressed_on_each_other():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((2, 3, 4))
    covariances = factor @ factor.swapaxes(1, 2)
    mixture = mm.Mixture([0.3, 0.7], 2 * rng.standard_normal((2, 3)), covariances)
    rows = mixture.sample(30, random_state=1)[0]
    rows[rng.random(rows.shape) < 0.4] = np.nan
    rows[0] = np.nan
    filled = mixture.impute(rows)
    assert (filled[~np.isnan(rows)] == rows[~np.isnan(rows)]).all()
    for number, row in enumerate(rows):
        gaps = np.isnan(row)
        known = {int(j): row[j] for j in np.flatnonzero(~gaps)}
        if gaps.any() and known:
            given = mixture.condition(known)
            np.testing.assert_allclose(filled[number, gaps], given.weights @ given.means, rtol=1e-9)
    np.testing.assert_allclose(filled[0], mixture.weights @ mixture.means)
    many = np.tile([rows[1, 0], np.nan, np.nan], (5000, 1))
    many[:, 0] = 0.5
    drawn = mixture.impute(many, random_state=2, draws=1)[0]
    given = mixture.condition({0: 0.5})
    mean = given.weights @ given.means
    second = np.einsum("i,ij,ik->jk", given.weights, given.means, given.means)
    covariance = np.einsum("i,ijk->jk", given.weights, given.covariances) + second
    covariance -= np.outer(mean, mean)
    deviations = np.sqrt(np.diag(covariance) / 5000)
    assert (np.abs(drawn[:, 1:].mean(axis=0) - mean) < 4.5 * deviations).all()
    product_error = np.std(np.prod(drawn[:, 1:] - mean, axis=1)) / np.sqrt(5000)
    assert abs(np.cov(drawn[:, 1:].T)[0, 1] - covariance[0, 1]) < 4.5 * product_error


def test_imputation_of_every_family(mixture):
    rows = with_gaps(mixture.sample(100, random_state=7)[0])
    filled = mixture.impute(rows)
    assert list(filled) == list(NAMES)
    for name in NAMES:
        gaps = pd.isna(rows[name])
        assert not pd.isna(filled[name]).any()
        assert (filled[name][~gaps] == rows[name][~gaps]).all()
    one, two = (mixture.impute(rows, random_state=3, draws=2) for _ in range(2))
    assert all((one[1][name] == two[1][name]).all() for name in NAMES)
    assert (one[0]["age"] != one[1]["age"]).any()
    assert (one[0]["visits"] == np.round(one[0]["visits"])).all()


def test_bad_imputation(mixture, monkeypatch):
    with pytest.raises(InputTypeError, match="draws must be an integer or None; got 1\\.5"):
        mixture.impute({}, draws=1.5)
    with pytest.raises(InputError, match="draws must be at least 1; got 0"):
        mixture.impute({}, draws=0)
    plain = mm.DiagonalMixture([1.0], [[0.0, 0.0]], [[1.0, 1.0]])
    rows = [[0.0, np.nan], [1e200, np.nan]]
    with pytest.raises(InputError, match="row 1 is so far from all components"):
        plain.impute(rows)
    monkeypatch.setattr("momentmix.mixture.tables.rows._ENTRIES", 2)  # one row at a time
    with pytest.raises(InputError, match="row 1 is so far from all components"):
        plain.impute(rows)


# -- other names, floors, matching --------------------------------------------------------------


def test_other_names(mixture):
    names = [name.upper() for name in NAMES]
    renamed = mixture.with_feature_names(names)
    assert renamed.schema.column_names == renamed.feature_names == tuple(names)
    assert renamed.blocks[4].names == ("X", "Y")
    unnamed = mixture.with_feature_names(None)
    assert isinstance(unnamed.sample(3, random_state=0)[0], np.ndarray)
    assert mixture.feature_names == NAMES


def test_floors_of_gaussian_columns():
    blocks = [
        GaussianBlock.of([0.0, 1.0, 2.0], [0.1, 4.0, 1.0], seen=[0.5, 0.5, 0.0]),
        PoissonBlock([1.0, 2.0, 3.0]),
        GaussianBlock.of(np.zeros((3, 2)), [[[1.0, 1.0], [1.0, 1.0]]] * 3),
    ]
    mixture = mm.Mixture.from_blocks([0.25, 0.25, 0.5], blocks)
    assert not mixture.has_density
    with pytest.raises(InputError, match="singular"):
        mixture.log_prob([[1.0, 2.0, 0.0, 0.0]])
    raised = mixture.with_variance_floor([0.5, 9.0, 0.5, 0.5])
    np.testing.assert_allclose(raised.variances[:, 0], [0.5, 4.0, np.nan])
    np.testing.assert_array_equal(raised.variances[:, 1], [1.0, 2.0, 3.0])
    assert np.linalg.eigvalsh(raised.covariances[0][2:, 2:])[0] == pytest.approx(0.5)
    assert raised.has_density
    with pytest.raises(InputError, match="floor must be a number, or 4 numbers"):
        mixture.with_variance_floor([1.0, 2.0])


def test_components_are_matched_by_features(mixture):
    order = np.array([2, 0, 1])
    blocks = [block.chosen(order) for block in mixture.blocks]
    other = mm.Mixture.from_blocks(mixture.weights[order], blocks)
    shuffled = other.select(NAMES[::-1])
    assert match_components(mixture, other).tolist() == np.argsort(order).tolist()
    aligned = mixture.align(shuffled)
    np.testing.assert_array_equal(aligned.weights, mixture.weights)
    np.testing.assert_array_equal(aligned.means, mixture.means)
    assert max(parameter_errors(mixture, other).values()) < 1e-12
    fewer = mm.Mixture.from_blocks(
        mixture.weights, [b if b.names != ("member",) else BernoulliBlock(
            b.probabilities, ("off", "on"), names="member", seen=b.seen, columns=(7,)
        ) for b in mixture.blocks]
    )  # fmt: skip
    with pytest.raises(InputError, match="column 7 \\('member'\\) is bernoulli"):
        mixture.align(fewer)


def test_matching_where_one_has_no_missing_cells():
    """Centers, and whether cells may be missing, are no part of what is compared."""
    one = mm.Mixture.from_blocks(
        [0.5, 0.5],
        [GaussianBlock.of([0.0, 9.0], [1.0, 1.0], seen=[0.9, 0.8]), PoissonBlock([1, 5])],
    )
    two = mm.Mixture.from_blocks(
        [0.5, 0.5], [GaussianBlock.of([9.0, 0.0], [1, 1]), PoissonBlock([5, 1])]
    )
    np.testing.assert_array_equal(one.align(two).means, one.means)
    np.testing.assert_array_equal(two.align(one).means, two.means)

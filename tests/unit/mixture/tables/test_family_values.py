"""Mixtures of every family and of missing cells against SciPy, by hand."""

import numpy as np
import pandas as pd
import pytest
from unit.mixture.table_truths import NAMES, all_families, joint_densities, with_gaps

import momentmix as mm
from momentmix.errors import InputError
from momentmix.families.counts import PoissonBlock
from momentmix.families.gaussian import GaussianBlock
from momentmix.families.levels import BernoulliBlock, CategoricalBlock
from momentmix.mixture.mixture import mixture_of_parameters


@pytest.fixture(scope="module")
def mixture():
    return all_families()


@pytest.fixture(scope="module")
def rows(mixture):
    return with_gaps(mixture.sample(80, random_state=2)[0])


def assert_same(found, expected, rtol=1e-9):
    assert found.schema.columns == expected.schema.columns
    np.testing.assert_allclose(found.weights, expected.weights, rtol=rtol)
    for name in ("means", "variances"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=rtol)
    for one, other in zip(found.blocks, expected.blocks, strict=True):
        assert (one.columns, one.names, one.family) == (other.columns, other.names, other.family)
        assert (one.seen is None) == (other.seen is None)
        if one.seen is not None:
            np.testing.assert_allclose(one.seen, other.seen, rtol=rtol, atol=2e-9)
        if one.family == "categorical":
            np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=rtol)


# -- the value ----------------------------------------------------------------------------------


def test_features_and_blocks_are_the_same_mixture(mixture):
    again = mixture_of_parameters(mixture.parameters, schema=mixture.schema)
    assert_same(again, mixture)
    with pytest.raises(InputError, match="must be those of the 13 features of the schema"):
        mixture_of_parameters(mixture.select(["x", "y"]).parameters, schema=mixture.schema)


# -- densities ----------------------------------------------------------------------------------


def test_densities_of_rows_with_missing_cells(mixture, rows):
    joint = joint_densities(mixture, rows)
    np.testing.assert_allclose(mixture.log_prob(rows), np.log(joint.sum(axis=1)), rtol=1e-11)
    shares = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture.predict_proba(rows), shares, atol=1e-11)
    np.testing.assert_array_equal(mixture.predict(rows), shares.argmax(axis=1))


def test_far_values_are_left_out_exactly():
    """A missing cell is where no density is: 0 is a billion deviations from all components."""
    blocks = [GaussianBlock([1e9, 1e9 + 3], [1.0, 2.0]), PoissonBlock([1.0, 5.0])]
    mixture = mm.Mixture.from_blocks([0.25, 0.75], blocks)
    found = mixture.log_prob([[np.nan, 3.0], [1e9 + 1, 2.0], [1e9 + 2, np.nan]])
    expected = np.log(joint_densities(mixture, [[None, 3], [1e9 + 1, 2], [1e9 + 2, None]]).sum(1))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_counts_have_sum_1_and_numbers_the_integral_1():
    counts = mm.Mixture.from_blocks([0.4, 0.6], [PoissonBlock([1.5, 4.0], seen=[0.5, 0.9])])
    rows = np.append(np.arange(60.0), np.nan)[:, None]
    assert np.exp(counts.log_prob(rows)).sum() == pytest.approx(1, abs=1e-9)
    block = GaussianBlock([10.0, 20.0], [1.0, 4.0], seen=[0.5, 0.9])
    numbers = mm.Mixture.from_blocks([0.4, 0.6], [block])
    grid = np.linspace(0, 40, 4001)
    integral = np.exp(numbers.log_prob(grid[:, None])).sum() * 0.01
    assert integral == pytest.approx(0.4 * 0.5 + 0.6 * 0.9, rel=1e-6)
    assert np.exp(numbers.log_prob([[np.nan]]))[0] == pytest.approx(0.4 * 0.5 + 0.6 * 0.1)


def test_rows_outside_a_family(mixture, rows):
    one = {name: column[:1] for name, column in rows.items()}
    for name, value, message in [
        ("visits", -1.0, "counts must be integers"),
        ("visits", 1.5, "counts must be integers"),
        ("smokes", "perhaps", "must hold its levels, 'no', 'yes'"),
        ("x", np.inf, "rows must be finite"),
        ("age", -np.inf, "rows must be finite"),
    ]:
        for method in (mixture.log_prob, mixture.predict, mixture.predict_proba):
            with pytest.raises(InputError, match=message):
                method({**one, name: [value]})
    with pytest.raises(InputError, match="'age' is missing"):
        mixture.log_prob({name: column for name, column in one.items() if name != "age"})
    with pytest.raises(InputError, match="the 8 columns of the mixture; got 2"):
        mixture.log_prob([[1, 2]])


# -- components that never see a column ---------------------------------------------------------


def test_a_component_that_never_sees_a_column():
    blocks = [
        GaussianBlock([1.0, 5.0, 9.0], [1.0, 4.0, 1.0], seen=[0.5, 0.0, 1.0]),
        PoissonBlock([2.0, 3.0, 4.0], seen=[0.5, 0.0, 0.5]),
        CategoricalBlock([[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]], (0, 1), seen=[0.75, 0.0, 0.25]),
        BernoulliBlock([0.5, 0.5, 0.25]),
    ]
    mixture = mm.Mixture.from_blocks([0.25, 0.25, 0.5], blocks)
    assert np.isnan(mixture.means[1, :3]).all()
    assert np.isfinite(mixture.means[1, 3])
    assert np.isfinite(mixture.means[[0, 2]][:, :2]).all()
    assert np.isnan(mixture.variances[1, :3]).all()
    rows = np.array([[np.nan, np.nan, np.nan, 1.0], [2.0, np.nan, np.nan, 0.0]])
    shares = mixture.predict_proba(rows)
    assert np.isfinite(mixture.log_prob(rows)).all()
    assert shares[0, 1] > 0.9
    assert shares[1, 1] < 1e-6
    assert_same(mixture_of_parameters(mixture.parameters, schema=mixture.schema).select([3, 0]),
                mixture.select([3, 0]), rtol=1e-6)  # fmt: skip


# -- draws --------------------------------------------------------------------------------------


def test_draws_have_the_law_of_the_mixture(mixture):
    rows, labels = mixture.sample(60_000, random_state=5)
    assert list(rows) == list(NAMES)
    for i in range(3):
        own = labels == i
        n = own.sum()
        for block in mixture.blocks:
            for place, name in enumerate(block.names):
                cells = rows[name][own]
                gap = pd.isna(cells)
                q = 1.0 if block.seen is None else block.seen[i]
                assert abs((~gap).mean() - q) <= 5 * np.sqrt(q * (1 - q) / n)
                if block.family == "categorical":
                    p, seen = block.by_level["gold"][i], cells[~gap] == "gold"
                    assert abs(seen.mean() - p) < 5 * np.sqrt(p * (1 - p) / seen.size)
                    continue
                values = cells[~gap]
                if block.family == "bernoulli":
                    values = values == block.levels[1]
                deviation = np.sqrt(block.covariances[i, place, place] / len(values))
                assert abs(values.astype(float).mean() - block.means[i, place]) < 5 * deviation
    assert mixture.sample(5, random_state=5)[0]["age"].shape == (5,)


# -- bad blocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BernoulliBlock([1.2]), "probabilities must be from 0 to 1; got \\[1.2\\]"),
        (lambda: BernoulliBlock([np.nan]), "probabilities must be finite"),
        (lambda: BernoulliBlock([0.5], seen=[0.0]), "seen is 0 in all of them"),
        (lambda: BernoulliBlock([0.5], columns=(0, 1)), "block has one column; got 2"),
        (lambda: CategoricalBlock([[0.5, 0.4]], (0, 1)), "with sum 1 in each component"),
        (lambda: CategoricalBlock([[0.5, 0.5]], (0, 1, 2)), "a column for each of the 3 levels"),
        (lambda: PoissonBlock([-1.0]), "rates of counts must be from 0 to 2"),
        (lambda: GaussianBlock([0.0], [[1.0]]), "shapes \\(r, k\\) and \\(r, k, k\\)"),
        (lambda: GaussianBlock([0.0], [-1.0], seen=[0.5]), "variances must be non-negative"),
    ],
)
def test_bad_blocks(make, message):
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize(
    ("weights", "blocks", "message"),
    [
        ([1.0], [], "at least one block"),
        ([1.0], [3], "or one of another family; got int"),
        (
            [1.0],
            [PoissonBlock([1.0]), PoissonBlock([1.0, 2.0])],
            "must have 1 components, as many as there are weights; got \\[1, 2\\]",
        ),
        ([1.0], [PoissonBlock([1.0], columns=(1,)), PoissonBlock([2.0])], "columns of blocks"),
        ([1.0], [PoissonBlock([1.0], names="a"), PoissonBlock([2.0])], "names of their columns"),
        ([1.0], [PoissonBlock([1.0], names="a")] * 2, "must differ from each other"),
    ],
)
def test_bad_mixtures(weights, blocks, message):
    with pytest.raises((InputError, mm.errors.InputTypeError), match=message):
        mm.Mixture.from_blocks(weights, blocks)

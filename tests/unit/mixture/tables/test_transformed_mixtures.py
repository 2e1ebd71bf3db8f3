"""Mixtures of columns with transforms: densities of the data, draws, conditionals, files."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import momentmix as mm

MEANS, DEVIATIONS, SEEN = np.array([0.5, 2.0]), np.array([0.4, 0.6]), np.array([0.5, 0.9])


def one_column(transform, seen=None):
    return mm.Mixture.from_blocks(
        [0.3, 0.7], [mm.GaussianBlock(MEANS, DEVIATIONS**2, "y", seen, transforms=transform)]
    )


def joined_columns(seen=None):
    """Three joined columns, the first log and the last log1p, beside a plain one."""
    root = np.array(
        [
            [[0.5, 0, 0], [0.2, 0.4, 0], [-0.1, 0.1, 0.3]],
            [[0.3, 0, 0], [0, 1.0, 0], [0.2, 0.3, 0.5]],
        ]
    )
    block = mm.GaussianBlock(
        [[1.0, -3.0, 2.0], [3.0, 5.0, 4.0]], root @ root.swapaxes(1, 2), ["a", "b", "c"], seen,
        transforms=["log", "", "log1p"],
    )  # fmt: skip
    return mm.Mixture.from_blocks(
        [0.4, 0.6], [block, mm.GaussianBlock([0.0, 1.0], [1.0, 2.0], "d")]
    )


def lognormal(values):
    """Densities of the components of `one_column("log")`, by SciPy."""
    return np.stack(
        [
            stats.lognorm(s, scale=np.exp(m)).pdf(values)
            for m, s in zip(MEANS, DEVIATIONS, strict=True)
        ],
        1,
    )


@pytest.mark.parametrize(("transform", "offset"), [("log", 0.0), ("log1p", 1.0)])
def test_densities_are_those_of_the_data(transform, offset):
    mixture = one_column(transform)
    values = np.geomspace(0.05, 60.0, 50) - offset
    wanted = lognormal(values + offset) @ mixture.weights
    np.testing.assert_allclose(np.exp(mixture.log_prob({"y": values})), wanted, rtol=1e-12)
    shares = lognormal(values + offset) * mixture.weights
    shares /= shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(mixture.predict_proba({"y": values}), shares, atol=1e-12)
    total = quad(lambda y: np.exp(mixture.log_prob([[y]])[0]), -offset + 1e-12, 200.0, limit=200)[0]
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("gap", [(), (0,), (1,), (2,), (0, 2), (3,)])
def test_joined_columns_with_some_transformed(gap):
    mixture = joined_columns()
    rows = mixture.sample(40, random_state=0)[0]
    table = np.column_stack([rows[name] for name in "abcd"])
    logs = np.column_stack([np.log(table[:, 0]), table[:, 1], np.log1p(table[:, 2]), table[:, 3]])
    kept = [j for j in range(4) if j not in gap]
    components = zip(mixture.weights, mixture.means, mixture.covariances, strict=True)
    wanted = np.zeros(40)
    for weight, mean, matrix in components:
        law = stats.multivariate_normal(mean[kept], matrix[np.ix_(kept, kept)])
        wanted += weight * law.pdf(logs[:, kept])
    wanted *= np.exp(-sum(logs[:, j] for j in (0, 2) if j in kept))
    rows |= {"abcd"[j]: np.full(40, np.nan) for j in gap}
    np.testing.assert_allclose(np.exp(mixture.log_prob(rows)), wanted, rtol=1e-9)


def test_conditionals_take_known_values_as_they_are():
    mixture = joined_columns()
    given = mixture.condition({"a": 8.0})
    plain = mm.Mixture(mixture.weights, mixture.means, mixture.covariances)
    wanted = plain.condition({0: np.log(8.0)})
    np.testing.assert_allclose(given.weights, wanted.weights, rtol=1e-10)
    np.testing.assert_allclose(given.means, wanted.means, rtol=1e-10)
    np.testing.assert_allclose(given.covariances, wanted.covariances, atol=1e-12)
    assert [column.transform for column in given.columns] == ["", "log1p", ""]
    assert given.blocks[0].transforms == ("", "log1p")
    with pytest.raises(mm.InputError, match="numbers of a log column must be greater than 0"):
        mixture.condition({"a": -1.0})


def test_only_alike_columns_are_aligned():
    log, other = one_column("log"), one_column("log1p")
    assert log.align(one_column("log")).means.tolist() == log.means.tolist()
    with pytest.raises(mm.InputError, match="transforms"):
        log.align(other)


def test_transforms_of_blocks_are_checked():
    with pytest.raises(mm.InputError, match="transforms of a block of 2 columns must be as many"):
        mm.GaussianBlock([[1.0, 2.0]], [np.eye(2)], transforms="log")
    with pytest.raises(mm.InputError, match="a transform must be 'log' or 'log1p'"):
        mm.GaussianBlock([1.0], [1.0], transforms="sqrt")
    assert mm.GaussianBlock([[1.0, 2.0]], [np.eye(2)], transforms=["", ""]).transforms == ()

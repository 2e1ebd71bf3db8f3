"""Mixtures whose joined Gaussian columns have missing cells."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from momentmix import BernoulliBlock, GaussianBlock, InputError, Mixture

WEIGHTS = np.array([0.4, 0.6])
MEANS = np.array([[50.0, 49.0, 52.0], [48.0, 51.0, 50.0]])
COVARIANCES = np.array(
    [
        [[2.0, 0.9, 0.5], [0.9, 1.5, -0.4], [0.5, -0.4, 1.2]],
        [[1.0, -0.6, 0.2], [-0.6, 2.5, 0.8], [0.2, 0.8, 3.0]],
    ]
)
SEEN = np.array([[0.5, 1.0, 0.8], [0.9, 1.0, 0.6]])
SMOKES = np.array([0.3, 0.7])


def joined(means=MEANS, covariances=COVARIANCES, seen=SEEN):
    block = GaussianBlock.of(means, covariances, ("a", "b", "c"), seen=seen)
    return Mixture.from_blocks(
        WEIGHTS, [block, BernoulliBlock(SMOKES, ("no", "yes"), names="smokes")]
    )


def expected_joint(values, smokes):
    """Joint log-densities (n, r), row by row."""
    table = np.empty((len(values), 2))
    for n, row in enumerate(values):
        known = ~np.isnan(row)
        for i in range(2):
            seen = np.where(known, SEEN[i], np.where(SEEN[i] == 1, 1.0, 1 - SEEN[i]))
            total = np.log(WEIGHTS[i]) + np.log(seen).sum()
            total += np.log(SMOKES[i] if smokes[n] else 1 - SMOKES[i])
            if known.any():
                own = COVARIANCES[i][np.ix_(known, known)]
                total += multivariate_normal(MEANS[i][known], own).logpdf(row[known])
            table[n, i] = total
    return table


def test_density_is_that_of_what_is_seen():
    mixture = joined()
    table, _ = mixture.sample(300, random_state=1)
    table["b"][:20] = np.nan  # missing where the model knows of no missing cells
    values = np.column_stack([table[name] for name in "abc"])
    joint = expected_joint(values, [label == "yes" for label in table["smokes"]])
    total = np.logaddexp.reduce(joint, axis=1)
    np.testing.assert_allclose(mixture.log_prob(table), total, rtol=0, atol=1e-11)
    shares = np.exp(joint - total[:, None])
    np.testing.assert_allclose(mixture.responsibilities(table), shares, rtol=0, atol=1e-11)
    shuffled = dict(table, a=np.roll(table["a"], 1))
    assert np.abs(mixture.log_prob(shuffled) - total).max() > 0.1


def test_samples_have_cells_missing_as_the_model_says():
    table, labels = joined().sample(20000, random_state=3)
    values = np.column_stack([table[name] for name in "abc"])
    for i in range(2):
        own = values[labels == i]
        shares = (~np.isnan(own)).mean(axis=0)
        errors = np.sqrt(SEEN[i] * (1 - SEEN[i]) / len(own))
        assert (np.abs(shares - SEEN[i]) <= 4 * errors).all()
        both = own[~np.isnan(own).any(axis=1)]
        spread = np.sqrt(2.0 / len(both)) * np.diag(COVARIANCES[i])
        assert (np.abs(np.cov(both.T).diagonal() - np.diag(COVARIANCES[i])) <= 4 * spread).all()


def test_parts_keep_what_is_seen():
    mixture = joined()
    assert (mixture.select(["c", "a"]).blocks[0].seen == SEEN[:, [2, 0]]).all()
    assert (mixture.select(["a"]).blocks[0].seen == SEEN[:, 0]).all()
    assert mixture.select(["b"]).schema is None
    given = mixture.condition({"a": 51.0}).blocks[0]
    slope = COVARIANCES[0, 1, 0] / COVARIANCES[0, 0, 0]
    assert given.means[0, 0] == pytest.approx(49.0 + slope * 1.0)
    assert (given.seen == SEEN[:, 1:]).all()


def test_cells_are_filled_from_their_block():
    filled = joined().impute({"a": [51.0], "b": [49.0], "c": [None], "smokes": ["no"]})
    joint = expected_joint(np.array([[51.0, 49.0, np.nan]]), [False])[0]
    shares = np.exp(joint - np.logaddexp.reduce(joint))
    means = [
        MEANS[i, 2]
        + COVARIANCES[i, 2, :2]
        @ np.linalg.solve(COVARIANCES[i, :2, :2], np.array([51.0, 49.0]) - MEANS[i, :2])
        for i in range(2)
    ]
    assert filled["c"][0] == pytest.approx(shares @ means)


def test_component_that_never_sees_a_column_has_nan(tmp_path):
    means, covariances, seen = MEANS.copy(), COVARIANCES.copy(), SEEN.copy()
    means[0, 0], covariances[0, 0], covariances[0, :, 0], seen[0, 0] = np.nan, np.nan, np.nan, 0.0
    mixture = joined(means, covariances, seen)
    mixture.save(tmp_path / "model.json")
    loaded = Mixture.load(tmp_path / "model.json")
    assert np.isnan(loaded.means[0, 0])
    assert np.isfinite(loaded.means[1, 0])
    row = {"a": [50.0], "b": [50.0], "c": [None], "smokes": ["no"]}
    assert loaded.predict(row)[0] == 1
    assert np.isfinite(loaded.log_prob(row)).all()


def test_bad_probabilities_are_refused():
    with pytest.raises(InputError, match=r"must have shape \(2, 3\)"):
        joined(seen=SEEN[:, 0])
    with pytest.raises(InputError, match="from 0 to 1"):
        joined(seen=SEEN + 0.5)
    unknown = MEANS.copy()
    unknown[0, 0] = np.nan
    with pytest.raises(InputError, match="never sees"):
        joined(means=unknown)

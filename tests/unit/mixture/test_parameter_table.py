"""Parameters by name: probabilities of levels, and tidy frames of everything that a mixture has."""

import numpy as np
import pytest
from unit.mixture.table_truths import PLANS, all_families

import momentmix as mm

COLUMNS = [
    "component", "column", "parameter", "level", "estimate", "standard_error", "low", "high",
]  # fmt: skip


def read(frame, column, parameter, level=None):
    """Estimates of one parameter in all components."""
    rows = frame[(frame["column"] == column) & (frame["parameter"] == parameter)]
    if level is not None:
        rows = rows[rows["level"] == level]
    assert rows["component"].tolist() == list(range(len(rows)))
    return rows["estimate"].to_numpy()


# -- levels -------------------------------------------------------------------------------------


def test_levels_have_their_probabilities_by_name():
    mixture = all_families()
    plans = mixture.level_probabilities("plan")
    assert tuple(plans) == PLANS
    np.testing.assert_array_equal(np.stack([*plans.values()], 1), mixture.blocks[3].probabilities)
    members = mixture.level_probabilities(7)
    assert list(members) == [False, True]
    np.testing.assert_array_equal(members[True], mixture.means[:, 7])
    np.testing.assert_allclose(sum(members.values()), 1, rtol=1e-15)


# -- frames -------------------------------------------------------------------------------------


def test_every_parameter_is_in_the_frame():
    mixture = all_families()
    frame = mixture.to_frame()
    assert list(frame) == COLUMNS
    assert frame[["standard_error", "low", "high"]].isna().all(axis=None)
    weights = frame[frame["parameter"] == "weight"]
    np.testing.assert_array_equal(weights["estimate"], mixture.weights)
    assert weights["column"].isna().all()
    for j, name in enumerate(mixture.feature_names):
        family = mixture.columns[j].family
        if family == "gaussian":
            np.testing.assert_array_equal(read(frame, name, "mean"), mixture.means[:, j])
            np.testing.assert_array_equal(read(frame, name, "variance"), mixture.variances[:, j])
        elif family == "poisson":
            np.testing.assert_array_equal(read(frame, name, "rate"), mixture.means[:, j])
        else:
            levels = mixture.level_probabilities(name)
            for level in list(levels)[family == "bernoulli" :]:
                found = read(frame, name, "probability", level)
                np.testing.assert_array_equal(found, levels[level])
    for block in mixture.blocks:
        if block.seen is not None:
            np.testing.assert_array_equal(read(frame, block.names[0], "seen"), block.seen)
    found = read(frame, "x, y", "covariance")
    np.testing.assert_array_equal(found, mixture.blocks[4].covariances[:, 0, 1])
    # 3 Gaussian columns, 2 yes/no, 3 levels, 2 rates, 4 seen, a covariance and the weight.
    assert len(frame) == 3 * (6 + 2 + 3 + 2 + 4 + 1 + 1)


def test_joined_columns_of_which_some_have_missing_cells():
    seen = [[0.5, 1.0, 0.75], [0.25, 1.0, 1e-9]]
    block = mm.GaussianBlock(np.ones((2, 3)), [np.eye(3)] * 2, ("a", "b", "c"), seen)
    frame = mm.Mixture.from_blocks([0.5, 0.5], [block]).to_frame()
    assert read(frame, "a", "seen") == pytest.approx([0.5, 0.25])
    assert not len(read(frame, "b", "seen"))
    np.testing.assert_array_equal(read(frame, "c", "mean"), [1.0, np.nan])  # never seen
    np.testing.assert_array_equal(read(frame, "b, c", "covariance"), [0.0, np.nan])

"""Algorithm 5.1 on samples: the errors shrink as one over the root of the number of rows."""

import numpy as np
import pytest

import momentmix as mm
from momentmix import paper
from momentmix.errors import CapacityError, InputError, InputTypeError
from momentmix.mixture.matching import clustering_accuracy, match_components
from momentmix.paper.experiments import law_of_section_6


def fit_errors(n_rows, seeds):
    found = []
    for seed in seeds:
        truth = law_of_section_6(np.random.default_rng(seed), 10, 3, 3.0)
        rows, _ = truth.sample(n_rows, random_state=seed)
        mixture = paper.fit(rows, 3, 4, random_state=0).mixture
        match = match_components(truth, mixture)
        found.append(np.linalg.norm(mixture.means[match] - truth.means))
    return np.median(found)


@pytest.mark.long
def test_mean_errors_fall_with_the_root_of_the_rows():
    seeds = range(6)
    few, many = fit_errors(1_000, seeds), fit_errors(16_000, seeds)
    # 16 times the rows: a quarter of the error; half and double are left for chance.
    assert 2 < few / many < 8


@pytest.mark.parametrize("order", [3, pytest.param(4, marks=pytest.mark.long)])
def test_well_separated_components_are_told_apart(order):
    r = mm.largest_rank(15, order)
    for seed in range(2):
        truth = law_of_section_6(np.random.default_rng(seed), 15, r, 50.0)
        rows, labels = truth.sample(5_000, random_state=seed)
        result = paper.fit(rows, r, order, random_state=0)
        assert clustering_accuracy(labels, result.mixture.predict(rows)) > 0.999
        # Negative control: labels of shuffled rows are no better than chance.
        shuffled = np.random.default_rng(0).permutation(labels)
        assert clustering_accuracy(shuffled, result.mixture.predict(rows)) < 0.6


def test_one_component_is_mean_and_variance():
    rows = np.random.default_rng(0).standard_normal((100, 2)) * [1, 3] + [5, -5]
    mixture = paper.fit(rows, 1).mixture
    np.testing.assert_allclose(mixture.means[0], rows.mean(axis=0))
    np.testing.assert_allclose(mixture.variances[0], rows.var(axis=0))


@pytest.mark.parametrize(
    ("rows", "arguments", "error", "message"),
    [
        (np.ones((5, 15)), {"n_components": 6}, InputError, "at least 6 rows; got 5"),
        (np.ones((50, 15)), {"n_components": 9, "order": 4}, CapacityError, "at most 8"),
        (np.ones((50, 15)), {"n_components": 2, "order": 2}, InputError, "at least 3; got 2"),
        (np.ones((50, 15)), {"n_components": 0}, InputError, "at least 1; got 0"),
        (np.ones((50, 15)), {"n_components": 2.0}, InputTypeError, "must be an integer"),
        (np.ones((50, 3)), {"n_components": 2}, CapacityError, "no order identifies"),
    ],
)
def test_bad_requests_are_refused(rows, arguments, error, message):
    with pytest.raises(error, match=message):
        paper.fit(rows, **arguments)

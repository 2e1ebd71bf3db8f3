import numpy as np
import pytest
from scipy.special import logsumexp

from momentmix import Mixture
from momentmix.errors import InputError, InputTypeError
from momentmix.mixture.density import (
    log_sums,
    most_probable,
    posteriors,
    responsibilities,
)


@pytest.fixture
def mixture():
    rng = np.random.default_rng(0)
    return Mixture.diagonal(
        [0.2, 0.5, 0.3], 3 * rng.standard_normal((3, 4)), 0.1 + rng.random((3, 4))
    )


def test_density_far_from_the_origin_keeps_its_digits(mixture):
    rows, _ = mixture.sample(100, random_state=0)
    far = Mixture.diagonal(mixture.weights, mixture.means + 1e6, mixture.variances)
    np.testing.assert_allclose(far.log_prob(rows + 1e6), mixture.log_prob(rows), atol=1e-6)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0.5, 0.4], np.zeros((2, 1)), np.ones((2, 1))), "sum 1"),
        (([1.5, -0.5], np.zeros((2, 1)), np.ones((2, 1))), "non-negative"),
        (([1.0], np.zeros((2, 1)), np.ones((2, 1))), r"shapes \(r,\)"),
        (([1.0], [[np.nan]], [[1.0]]), "means must be finite"),
        (([1.0], [[0.0]], [[-1.0]]), "variances must be non-negative"),
        (([[1.0]], [[0.0]], [[1.0]]), "weights must have 1 dimension"),
    ],
)
def test_bad_parameters_are_refused(parts, message):
    with pytest.raises(InputError, match=message):
        Mixture.diagonal(*parts)


def test_bad_rows_are_refused(mixture):
    with pytest.raises(InputError, match=r"shape \(n_rows, 4\).*got \(2, 3\)"):
        mixture.predict(np.ones((2, 3)))
    with pytest.raises(InputTypeError, match="real numbers"):
        mixture.log_prob(np.array([["a"] * 4]))
    narrow = Mixture.diagonal([1.0], [[0.0]], [[0.0]])
    with pytest.raises(InputError, match="component 0 has variance 0 in feature 0"):
        narrow.log_prob([[0.0]])


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_no_label_for_rows_that_are_not_finite(value):
    mixture = Mixture.diagonal([0.5, 0.5], [[0.0, 0.0], [5.0, 5.0]], np.ones((2, 2)))
    rows = np.ones((5000, 2))
    rows[4321, 1] = value
    with pytest.raises(InputError, match=r"row 4321 holds infinity.*missing"):
        mixture.predict(rows)
    assert mixture.predict(rows[:4321]).tolist() == [0] * 4321


def test_reductions_over_the_components():
    joint = 9 * np.random.default_rng(1).standard_normal((3, 5000))
    logs = logsumexp(joint, axis=0)
    shares = np.exp(joint - logs)
    np.testing.assert_allclose(log_sums(joint.copy()), logs)
    np.testing.assert_allclose(posteriors(joint.copy()), shares, rtol=1e-9)
    np.testing.assert_allclose(responsibilities(joint.copy())[0], shares, rtol=1e-9)
    np.testing.assert_array_equal(most_probable(joint.copy()), joint.argmax(axis=0))
    lost = np.array([[-np.inf, np.nan, 1.0], [-np.inf, 0.0, 2.0]])
    np.testing.assert_array_equal(most_probable(lost), [-1, -1, 1])

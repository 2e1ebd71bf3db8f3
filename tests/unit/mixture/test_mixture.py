import json
import pickle

import numpy as np
import pytest
from scipy import stats

from momentmix import DiagonalMixture
from momentmix.errors import InputError, InputTypeError


@pytest.fixture
def mixture():
    rng = np.random.default_rng(0)
    return DiagonalMixture(
        [0.2, 0.5, 0.3], 3 * rng.standard_normal((3, 4)), 0.1 + rng.random((3, 4))
    )


def scipy_density(mixture, rows):
    return np.stack(
        [
            w * stats.multivariate_normal(m, np.diag(v)).pdf(rows)
            for w, m, v in zip(mixture.weights, mixture.means, mixture.variances, strict=True)
        ],
        axis=1,
    )


def test_density_and_responsibilities_agree_with_scipy(mixture):
    rows = np.random.default_rng(1).standard_normal((5000, 4)) * 3  # more than one block
    joint = scipy_density(mixture, rows)
    np.testing.assert_allclose(np.exp(mixture.log_prob(rows)), joint.sum(1), rtol=1e-9)
    np.testing.assert_allclose(
        mixture.responsibilities(rows), joint / joint.sum(1, keepdims=True), rtol=1e-8, atol=1e-12
    )
    np.testing.assert_array_equal(mixture.predict(rows), joint.argmax(1))


def test_density_far_from_the_origin_keeps_its_digits(mixture):
    rows, _ = mixture.sample(100, random_state=0)
    far = DiagonalMixture(mixture.weights, mixture.means + 1e6, mixture.variances)
    np.testing.assert_allclose(far.log_prob(rows + 1e6), mixture.log_prob(rows), atol=1e-6)


def test_shares_out_of_reach_are_zero():
    apart = DiagonalMixture([0.5, 0.5, 0.0], [[0.0], [1e3], [0.0]], np.ones((3, 1)))
    np.testing.assert_array_equal(apart.responsibilities([[0.0]]), [[1.0, 0.0, 0.0]])
    assert apart.log_prob([[0.0]])[0] == pytest.approx(-0.5 * np.log(2 * np.pi) - np.log(2))


def test_blocks_tiles_and_threads_leave_no_seam(mixture):
    rows, _ = mixture.sample(40_000, random_state=0)  # several blocks, the last one short
    some = np.r_[0:5, 2040:2056, 16380:16390, 39_990:40_000]
    np.testing.assert_allclose(mixture.log_prob(rows)[some], mixture.log_prob(rows[some]))
    np.testing.assert_allclose(
        mixture.responsibilities(rows)[some], mixture.responsibilities(rows[some]), atol=1e-12
    )
    np.testing.assert_array_equal(mixture.predict(rows)[some], mixture.predict(rows[some]))
    single = rows.astype(np.float32)
    np.testing.assert_array_equal(
        mixture.log_prob(single), mixture.log_prob(single.astype(np.float64))
    )


def test_density_does_not_depend_on_the_units(mixture):
    rows, _ = mixture.sample(50, random_state=0)
    for unit in (1e-120, 1e120):
        scaled = DiagonalMixture(mixture.weights, mixture.means * unit, mixture.variances * unit**2)
        expected = mixture.log_prob(rows) - mixture.n_features * np.log(unit)
        np.testing.assert_allclose(scaled.log_prob(rows * unit), expected)


def test_component_of_weight_zero_is_never_chosen():
    mixture = DiagonalMixture([1.0, 0.0], [[0.0], [5.0]], [[1.0], [1.0]])
    assert mixture.predict([[5.0]]).tolist() == [0]
    assert np.isfinite(mixture.log_prob([[5.0]])).all()


def test_sample_moments_lie_within_standard_errors(mixture):
    n = 40_000
    rows, labels = mixture.sample(n, random_state=3)
    for order in (1, 2, 3):
        exact = mixture.moment_tensor(order)
        products = rows[:, exact.labels].prod(axis=2)
        error = products.std(axis=0) / np.sqrt(n)
        assert np.abs(products.mean(axis=0) - exact.values).max() < 5 * error.max()
        # Negative control: the same test refuses moments that are off by ten standard errors.
        assert np.abs(products.mean(axis=0) - exact.values - 10 * error).max() > 5 * error.max()
    shares = np.bincount(labels) / n
    assert np.abs(shares - mixture.weights).max() < 5 * np.sqrt(0.25 / n)


def test_squared_moments_agree_with_direct_sums(mixture):
    from momentmix.index_sets import sets_without

    for j in range(4):
        for order in (0, 1, 2):
            expected = [
                sum(
                    w * (m[j] ** 2 + v[j]) * np.prod(m[list(i)])
                    for w, m, v in zip(
                        mixture.weights, mixture.means, mixture.variances, strict=True
                    )
                )
                for i in sets_without(4, order, j)
            ]
            np.testing.assert_allclose(mixture.squared_moments(j, order), expected)


def test_same_seed_same_sample(mixture):
    assert (mixture.sample(50, random_state=1)[0] == mixture.sample(50, random_state=1)[0]).all()


def test_marginal_and_floor(mixture):
    rows = np.random.default_rng(2).standard_normal((20, 4))
    part = mixture.marginal([2, 0])
    joint = scipy_density(part, rows[:, [2, 0]])
    np.testing.assert_allclose(np.exp(part.log_prob(rows[:, [2, 0]])), joint.sum(1))
    assert mixture.with_variance_floor(0.5).variances.min() == 0.5


def test_save_and_load_give_back_the_same_bits(mixture, tmp_path):
    path = tmp_path / "model.json"
    mixture.save(path)
    for again in (DiagonalMixture.load(path), pickle.loads(pickle.dumps(mixture))):
        for name in ("weights", "means", "variances"):
            assert getattr(again, name).tobytes() == getattr(mixture, name).tobytes()
    assert json.loads(path.read_text())["format"] == "momentmix.DiagonalMixture"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a momentmix model"),
        ("[1]", 'no "format"'),
        ('{"format": "momentmix.DiagonalMixture", "version": 99}', "version 99"),
        ('{"format": "momentmix.DiagonalMixture", "version": 1}', "lacks means"),
        (
            '{"format": "momentmix.DiagonalMixture", "version": 1, "weights": [2.0], '
            '"means": [[0]], "variances": [[1]]}',
            "sum 1",
        ),
        (
            '{"format": "momentmix.DiagonalMixture", "version": 1, "weights": "x", '
            '"means": [[0]], "variances": [[1]]}',
            "does not hold a mixture",
        ),
    ],
)
def test_broken_files_are_refused(tmp_path, text, message):
    path = tmp_path / "model.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        DiagonalMixture.load(path)


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
        DiagonalMixture(*parts)


def test_bad_rows_are_refused(mixture):
    with pytest.raises(InputError, match=r"shape \(n_rows, 4\).*got \(2, 3\)"):
        mixture.predict(np.ones((2, 3)))
    with pytest.raises(InputTypeError, match="real numbers"):
        mixture.log_prob(np.array([["a"] * 4]))
    narrow = DiagonalMixture([1.0], [[0.0]], [[0.0]])
    with pytest.raises(InputError, match="component 0 has variance 0 in feature 0"):
        narrow.log_prob([[0.0]])


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_no_label_for_rows_that_are_not_finite(value):
    mixture = DiagonalMixture([0.5, 0.5], [[0.0, 0.0], [5.0, 5.0]], np.ones((2, 2)))
    rows = np.ones((5000, 2))
    rows[4321, 1] = value
    with pytest.raises(InputError, match=r"row 4321 holds infinity.*missing"):
        mixture.predict(rows)
    assert mixture.predict(rows[:4321]).tolist() == [0] * 4321

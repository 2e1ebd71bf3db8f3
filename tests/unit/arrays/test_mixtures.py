"""Densities, passes and fits of tensors agree with those of NumPy rows to 1e-12."""

import numpy as np
import pytest

from momentmix import (
    Mixture,
    MomentGaussianMixture,
    fit,
    paper,
    summarize,
)
from momentmix.errors import InputError, InputTypeError
from momentmix.fitting.data import moments_of, rows_of
from momentmix.fitting.em.em import em_pass
from momentmix.mixture import density
from momentmix.mixture.parameters import Parameters
from momentmix.tables.rows import ArrayRows, WeightedRows

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def mixture():
    rng = np.random.default_rng(0)
    means = 2 * rng.standard_normal((3, 8))
    return Mixture.diagonal([0.2, 0.3, 0.5], means, rng.uniform(0.5, 2.0, (3, 8)))


@pytest.fixture(scope="module")
def rows(mixture):
    return mixture.sample(9_001, random_state=1)[0]


@pytest.mark.parametrize("name", ["log_prob", "predict_proba", "predict"])
@pytest.mark.parametrize("room", [1 << 28, 8 * 6 * 11 * 1_000])
def test_densities_agree_and_stay_where_they_are(mixture, rows, name, room, monkeypatch):
    monkeypatch.setattr(density, "free_bytes", lambda array: room)
    here, there = getattr(mixture, name)(rows), getattr(mixture, name)(torch.from_numpy(rows))
    assert isinstance(there, torch.Tensor)
    found = np.asarray(there)
    assert found.dtype == here.dtype
    np.testing.assert_allclose(found, here, rtol=1e-12, atol=1e-12)


def test_bad_rows(mixture):
    with pytest.raises(InputError, match=r"shape \(n_rows, 8\).*got \(2, 3\)"):
        mixture.predict(torch.from_numpy(np.ones((2, 3))))
    with pytest.raises(InputTypeError, match=r"complex \(complex128\).*separate columns"):
        mixture.log_prob(torch.from_numpy(np.ones((2, 8)) * 1j))
    assert np.asarray(mixture.log_prob(torch.from_numpy(np.empty((0, 8))))).shape == (0,)


@pytest.mark.parametrize(("slab", "room"), [(4096, 1 << 28), (64, 8 * 6 * 19 * 1_000)])
def test_em_statistics_agree(mixture, rows, slab, room, monkeypatch):
    monkeypatch.setattr(density, "_SLAB", slab)
    monkeypatch.setattr(density, "free_bytes", lambda array: room)
    moments = moments_of(summarize(rows, 2))
    parameters = Parameters(
        mixture.weights,
        (mixture.means - moments.shift) / moments.scale,
        mixture.variances / moments.scale**2,
    )
    here = em_pass(ArrayRows(rows), moments, parameters)
    there = em_pass(rows_of(torch.from_numpy(rows)), moments, parameters)
    assert there.n_rows == here.n_rows
    assert abs(there.log_likelihood / here.log_likelihood - 1) <= 1e-12
    size = np.abs(here.statistics).max()
    np.testing.assert_allclose(there.statistics, here.statistics, rtol=1e-12, atol=1e-12 * size)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(rows))
    here, there = (
        em_pass(WeightedRows(x, weights), moments, parameters)
        for x in (ArrayRows(rows), rows_of(torch.from_numpy(rows)))
    )
    assert there.n_rows == here.n_rows
    assert abs(there.log_likelihood / here.log_likelihood - 1) <= 1e-12
    np.testing.assert_allclose(there.statistics, here.statistics, rtol=1e-12, atol=1e-12 * size)


@pytest.mark.parametrize("fit", [fit, paper.fit])
def test_fits_agree(rows, fit):
    here = fit(rows, 3, random_state=0).mixture
    there = fit(torch.from_numpy(rows), 3, random_state=0).mixture
    # Starts and steps are the same; what rounding differs by grows a little from pass to pass.
    for name in ("weights", "means", "variances"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-8, atol=1e-8)


def test_estimator(rows):
    there = torch.from_numpy(rows)
    model = MomentGaussianMixture(3, random_state=0).fit(there)
    twin = MomentGaussianMixture(3, random_state=0).fit(rows)
    np.testing.assert_allclose(np.sort(model.weights_), np.sort(twin.weights_), rtol=1e-4)
    for name in ("predict", "predict_proba", "score_samples"):
        found = getattr(model, name)(there)
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(
            np.asarray(found), getattr(model, name)(rows), rtol=1e-12, atol=1e-12
        )
    for name in ("score", "bic", "aic"):
        assert getattr(model, name)(there) == pytest.approx(getattr(model, name)(rows), rel=1e-12)
    assert isinstance(MomentGaussianMixture(2).fit_predict(there), torch.Tensor)


@pytest.mark.parametrize("whole", [False, True])
def test_weighted_fits_agree(rows, whole):
    weights = np.random.default_rng(2).uniform(0.5, 2.5, len(rows))
    weights = np.round(weights) if whole else weights
    here, there = (
        MomentGaussianMixture(3, random_state=0).fit(x, sample_weight=weights)
        for x in (rows, torch.from_numpy(rows))
    )
    np.testing.assert_allclose(there.means_, here.means_, rtol=1e-8, atol=1e-8)
    errors = here.standard_errors_.means
    np.testing.assert_allclose(there.standard_errors_.means, errors, rtol=1e-6)


def test_values_beyond_the_squares_of_float64(mixture, rows):
    large = rows.copy()
    large[3, 2] = -3e200
    with pytest.raises(InputError, match=r"column 2 reaches 3e\+200.*Rescale the column"):
        fit(torch.from_numpy(large), 2)
    with pytest.raises(InputError, match=r"row 3 .*more than 1e154 standard deviations away"):
        mixture.predict(torch.from_numpy(large))


@pytest.fixture(scope="module")
def joined():
    rng = np.random.default_rng(3)
    covariances = np.zeros((3, 6, 6))
    for i in range(3):
        for group in ([0, 1, 2], [3, 4], [5]):
            root = rng.standard_normal((len(group), 8))
            covariances[i][np.ix_(group, group)] = root @ root.T / 8
    return Mixture([0.2, 0.3, 0.5], 2 * rng.standard_normal((3, 6)), covariances)


def test_fits_with_blocks_agree(joined):
    rows = joined.sample(5_001, random_state=1)[0]
    found = np.asarray(joined.log_prob(torch.from_numpy(rows)))
    np.testing.assert_allclose(found, joined.log_prob(rows), rtol=1e-11, atol=1e-11)
    blocks = [[0, 1, 2], [3, 4]]
    here, there = (fit(x, 3, blocks=blocks, random_state=0) for x in (rows, torch.from_numpy(rows)))
    found, expected = there.mixture.covariances, here.mixture.covariances
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)

"""Data that no diagonal mixture describes: the certificate must say so."""

import numpy as np
import pytest

import momentmix as mm


def equicorrelated(rho, d, n, seed):
    rng = np.random.default_rng(seed)
    return np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, d))


@pytest.mark.parametrize("rho", [0.3, 0.5])
@pytest.mark.parametrize("refine", ["auto", None])
def test_one_correlated_gaussian_is_not_two_components(rho, refine):
    """Two components on the diagonal match it up to order 3; order 4 tells them apart."""
    result = mm.fit(equicorrelated(rho, 5, 100_000, 0), 2, refine=refine, random_state=0)
    assert not result.certificate.passed
    assert result.certificate.p_value < 1e-6


def test_independent_columns_are_no_such_case():
    """Negative control: without correlation nothing is rejected."""
    rows = equicorrelated(0.0, 5, 100_000, 0)
    assert mm.fit(rows, 1, random_state=0).certificate.passed


def test_heavy_tails_leave_nothing_to_believe():
    rows = np.random.default_rng(0).standard_cauchy((20_000, 6))
    certificate = mm.fit(rows, 3, random_state=0).certificate
    assert not certificate.passed
    assert any("far below chance" in reason for reason in certificate.reasons)


def test_three_components_on_a_line_are_counted():
    """Symmetric about the middle one, so that order 3 carries nothing."""
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(c, 1, (5000, 6)) for c in (-2, 0, 2)])
    assert mm.fit(rows, "auto", random_state=0).mixture.n_components == 3


def test_p_values_of_true_models_are_uniform():
    """Calibration with a part of order 4: rejections at 5 % within their standard error."""
    rejected, count = 0, 60
    for seed in range(count):
        rng = np.random.default_rng(seed)
        truth = mm.DiagonalMixture(
            [0.4, 0.6], 0.8 * rng.standard_normal((2, 5)), 0.5 + rng.random((2, 5))
        )
        rows, _ = truth.sample(20_000, random_state=seed)
        result = mm.fit(rows, 2, refine=None, order=4, random_state=0)
        rejected += result.certificate.p_value < 0.05
    spread = np.sqrt(count * 0.05 * 0.95)
    assert rejected <= count * 0.05 + 3 * spread

"""Data that no diagonal mixture describes: the certificate must say so."""

import numpy as np
import pytest
from campaigns import wrong_models

import momentmix as mm
from momentmix.errors import CapacityError, InputError


def equicorrelated(rho, d, n, seed):
    rng = np.random.default_rng(seed)
    return np.sqrt(rho) * rng.normal(size=(n, 1)) + np.sqrt(1 - rho) * rng.normal(size=(n, d))


@pytest.mark.parametrize("rho", [0.3, 0.5])
@pytest.mark.parametrize("form", [np.asarray, mm.summarize])
def test_one_correlated_gaussian_is_not_two_components(rho, form):
    """Two components on the diagonal match it up to order 3; order 4 tells them apart."""
    result = mm.fit(form(equicorrelated(rho, 5, 50_000, 0)), 2, random_state=0)
    assert not result.certificate.passed
    assert result.certificate.p_value < 1e-6


def test_independent_columns_are_no_such_case():
    """Negative control: without correlation nothing is rejected."""
    rows = equicorrelated(0.0, 5, 50_000, 0)
    assert mm.fit(rows, 1, random_state=0).certificate.passed


def test_heavy_tails_leave_nothing_to_believe():
    rows = np.random.default_rng(0).standard_cauchy((4_000, 6))
    certificate = mm.fit(rows, 3, random_state=0).certificate
    assert not certificate.passed
    (reason,) = [text for text in certificate.reasons if "do not follow the fitted" in text]
    assert reason.count("distance") >= 4  # other columns have other reasons
    assert len(certificate.reasons) >= 4


def test_three_components_on_a_line_are_counted():
    """Symmetric about the middle one, so that order 3 carries nothing."""
    rng = np.random.default_rng(1)
    rows = np.concatenate([rng.normal(c, 1, (5000, 6)) for c in (-2, 0, 2)])
    assert mm.fit(rows, "auto", random_state=0).mixture.n_components == 3


def test_p_values_of_true_models_are_uniform():
    """Calibration with a part of order 4: rejections at 5 % within their standard error."""
    rejected, count = 0, 40
    for seed in range(count):
        rng = np.random.default_rng(seed)
        truth = mm.Mixture.diagonal(
            [0.4, 0.6], 0.8 * rng.standard_normal((2, 5)), 0.5 + rng.random((2, 5))
        )
        rows, _ = truth.sample(8_000, random_state=seed)
        result = mm.fit(mm.summarize(rows, order=4), 2, random_state=0)
        rejected += result.certificate.p_value < 0.05
    spread = np.sqrt(count * 0.05 * 0.95)
    assert rejected <= count * 0.05 + 3 * spread


def test_generated_cases_that_cannot_be_trusted():
    """The first of three hundred: no broken number, and an error or the certificate speaks."""
    counts = wrong_models.untrustworthy_fits(0, 6, seed=0)
    counts += wrong_models.untrustworthy_fits(7, 13, seed=0)
    assert counts["untrustworthy fits"] == 12
    assert counts["refused"] + counts["not passed"] >= 6


@pytest.mark.parametrize("change", ["weight", "variance", "loss"])
def test_negative_control_a_broken_number_is_noticed(change, monkeypatch):
    result = mm.fit(equicorrelated(0.0, 4, 2000, 0), 1, random_state=0)
    wrong_models.check_numbers(result)
    target = result.certificate if change == "loss" else result.mixture
    name = {"weight": "weights", "variance": "variances", "loss": "predicted_loss"}[change]
    broken = getattr(target, name) * np.nan
    if change == "loss":
        object.__setattr__(target, name, broken)
    else:
        monkeypatch.setattr(mm.Mixture, name, property(lambda mixture: broken))
    with pytest.raises(AssertionError):
        wrong_models.check_numbers(result)


@pytest.mark.parametrize("n_components", [1, 2, "auto"])
@pytest.mark.parametrize("form", [mm.summarize, np.asarray])
def test_nothing_but_constants_is_an_error(n_components, form):
    """SciPy's nnls brings the process down when it is handed an empty matrix."""
    rows = np.full((300, 3), 0.1)
    with pytest.raises(InputError, match="all 3 columns are constant over the 300 rows"):
        mm.fit(form(rows), n_components, random_state=0)


def test_constant_columns_do_not_count_for_capacity():
    rows = np.random.default_rng(0).standard_normal((300, 4))
    rows[:, 1:3] = 7.0
    with pytest.raises(CapacityError, match="order=2 with 2 features that vary identifies at most"):
        mm.fit(mm.summarize(rows), 2, random_state=0)
    assert mm.fit(rows, 2, random_state=0).mixture.n_components == 2

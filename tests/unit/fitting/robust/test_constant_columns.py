"""Constant columns have no influence: on the answer, its test, its errors, or its counts."""

from functools import cache

import numpy as np
import pytest

import momentmix as mm
from momentmix.fitting.data import moments_of
from momentmix.fitting.em.scores import information_matrix, settle_floored
from momentmix.mixture.gaussian import features_of
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure

PLACES = [([0, 6], [0.0, -3e7]), ([1, 1, 4], [1e-200, 5e-324, 1e100])]


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(3)
    truth = mm.Mixture.diagonal([0.3, 0.7], 4 * rng.standard_normal((2, 6)), 1 + rng.random((2, 6)))
    return truth.sample(2500, random_state=2)


def with_columns(rows, places, values):
    """The rows with constant columns, and where their own columns stand now."""
    wide = np.insert(rows, places, values, axis=1)
    return wide, np.flatnonzero((wide != wide[0]).any(axis=0))


def forms(rows, tmp_path):
    """The same rows as an array, a summary, and a file that is read block by block."""
    np.save(tmp_path / "rows.npy", rows)
    summary = mm.summarize(rows, order=4)
    return {"rows": rows, "summary": summary, "source": mm.open_rows(tmp_path / "rows.npy")}


@pytest.fixture(scope="module")
def fit_without(case, tmp_path_factory):
    """Fit to the rows that have no constant columns, made once for each form."""
    given = forms(case[0], tmp_path_factory.mktemp("rows"))
    return cache(lambda form: mm.fit(given[form], 2, random_state=0))


@pytest.mark.parametrize(("places", "values"), PLACES)
@pytest.mark.parametrize("form", ["rows", "summary", "source"])
def test_everything_is_as_without_them(case, fit_without, tmp_path, places, values, form):
    rows, _ = case
    wide, own = with_columns(rows, places, values)
    constant = np.setdiff1d(np.arange(wide.shape[1]), own)
    a = fit_without(form)
    b = mm.fit(forms(wide, tmp_path)[form], 2, random_state=0)
    assert b.certificate.passed == a.certificate.passed
    assert b.certificate.test.degrees_of_freedom == a.certificate.test.degrees_of_freedom
    np.testing.assert_allclose(b.certificate.statistic, a.certificate.statistic, rtol=1e-9)
    np.testing.assert_allclose(b.certificate.p_value, a.certificate.p_value, rtol=1e-9)
    assert b.certificate.predicted_loss == a.certificate.predicted_loss
    assert b.winner == a.winner
    np.testing.assert_allclose(b.mixture.means[:, own], a.mixture.means, rtol=1e-9)
    np.testing.assert_allclose(b.mixture.variances[:, own], a.mixture.variances, rtol=1e-9)
    for one, other in ((a.standard_errors, b.standard_errors), (a.intervals(), b.intervals())):
        np.testing.assert_allclose(other.weights, one.weights, rtol=1e-7)
        np.testing.assert_allclose(np.asarray(other.means)[..., own], one.means, rtol=1e-7)
        np.testing.assert_allclose(np.asarray(other.variances)[..., own], one.variances, rtol=1e-7)
    np.testing.assert_array_equal(b.mixture.means[:, constant], wide[: b.mixture.n_components,
                                  constant])  # fmt: skip
    np.testing.assert_array_equal(b.standard_errors.means[:, constant], 0.0)
    low, high = b.intervals().means
    np.testing.assert_array_equal(low[:, constant], high[:, constant])
    assert (b.mixture.variances > 0).all()
    np.testing.assert_array_equal(b.mixture.predict(wide), a.mixture.predict(rows))
    if b.log_likelihood is not None:
        assert b.log_likelihood == pytest.approx(b.mixture.log_prob(wide).mean(), rel=1e-6)


def test_findings_name_the_columns_of_the_rows(case):
    rows = case[0].copy()
    rows = np.column_stack([rows, 2 * rows[:, 1] + 1])
    rows[17, 3] = 1e6
    wide = np.insert(rows, [0, 3], 7.0, axis=1)
    texts = {f.kind: f.text for f in mm.fit(wide, 2, random_state=0).certificate.findings}
    assert "columns 0, 4 hold one value only; they take no part" in texts["constant-column"]
    assert "columns 2 and 8 are copies" in texts["duplicate-columns"]
    assert "row 17 (1e+06 in column 5)" in texts["outlier-rows"]


def test_correlations_name_the_columns_of_the_rows():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((20_000, 6))
    rows[:, 4] = 0.8 * rows[:, 1] + 0.6 * rows[:, 4]
    result = mm.fit(np.insert(rows, 0, 1.0, axis=1), 1, random_state=0)
    first = result.certificate.test.correlations[0]
    assert {first.first, first.second} == {2, 5}


@pytest.mark.parametrize("n_constant", [1, 3])
@pytest.mark.parametrize("form", ["rows", "summary"])
def test_columns_constant_within_one_component(case, tmp_path, n_constant, form):
    rows, labels = case
    rng = np.random.default_rng(5)
    more = [np.where(labels == 0, 7.0 * j, rng.standard_normal(2500)) for j in range(n_constant)]
    wide = np.column_stack([rows, *more])
    result = mm.fit(forms(wide, tmp_path)[form], 2, random_state=0)
    assert result.certificate.passed
    assert result.certificate.predicted_loss == 0.0
    light = int(result.mixture.weights.argmin())
    errors = result.standard_errors.means[light, 6:]
    assert (errors < 0.2).all()
    if form == "rows":  # at the floor of 1e-6 of the variance
        assert (errors < 1e-2).all()
        assert (result.standard_errors.weights < 0.02).all()


@pytest.mark.parametrize(("offset", "unit"), [(1e9, 1e-3), (1.0, 1e-12), (-1e15, 10.0)])
@pytest.mark.parametrize("form", ["rows", "summary"])
def test_nearly_constant_columns_are_like_others(case, tmp_path, offset, unit, form):
    rows, _ = case
    noise = np.random.default_rng(8).standard_normal(2500)
    plain = np.insert(rows, 3, noise, axis=1)
    near = np.insert(rows, 3, offset + unit * noise, axis=1)
    a, b = (mm.fit(forms(x, tmp_path)[form], 2, random_state=0) for x in (plain, near))
    assert b.certificate.passed == a.certificate.passed
    np.testing.assert_allclose(b.certificate.statistic, a.certificate.statistic, rtol=1e-2)
    assert b.certificate.predicted_loss == a.certificate.predicted_loss
    np.testing.assert_allclose(
        b.standard_errors.means[:, 3] / unit, a.standard_errors.means[:, 3], rtol=0.01
    )
    assert (b.mixture.predict(near) == a.mixture.predict(plain)).mean() > 0.999


def test_a_column_constant_but_for_forgotten_rows(case):
    rows, _ = case
    wide = np.column_stack([rows, np.full(2500, 4.0)])
    wide[:5, 6] = [1.0, 2.0, 3.0, 5.0, 6.0]
    summary = mm.summarize(wide, order=4).forget(wide[:5])
    result = mm.fit(summary, 2, random_state=0)
    np.testing.assert_allclose(result.mixture.means[:, 6], 4.0)
    assert any(f.kind == "constant-column" for f in result.certificate.findings)


def test_entries_of_pairs_are_those_of_the_features_that_vary():
    """By brute force over rows: each entry is the mean of the product that it stands for."""
    rows = np.random.default_rng(0).standard_normal((200, 5)) ** 3
    rows[:, [0, 3]] = [4.0, -1.0]
    moments = moments_of(mm.summarize(rows, order=4)).varying()
    own = [1, 2, 4]
    assert moments.columns.tolist() == own
    z = (rows[:, own] - moments.shift) / moments.scale
    for p in range(3, 7):
        np.testing.assert_allclose(moments.powers[p - 3], (z**p).mean(axis=0))
    for j in range(3):
        others = np.delete(z, j, axis=1)
        np.testing.assert_allclose(
            moments.cubed[j], (z[:, [j]] ** 3 * others).mean(axis=0), atol=1e-12
        )
    pairs = [(0, 1), (0, 2), (1, 2)]
    np.testing.assert_allclose(
        moments.two_squares, [(z[:, i] ** 2 * z[:, k] ** 2).mean() for i, k in pairs]
    )


def test_information_of_a_variance_at_its_floor_is_the_models_own():
    rng = np.random.default_rng(0)
    z = np.column_stack([rng.standard_normal(5000), np.zeros(5000), np.zeros(5000)])
    p = Parameters(np.ones(1), np.zeros((1, 3)), np.array([[1.0, 1e-6, 1e-6]]))
    information = information_matrix(features_of(z), p)
    assert information[2, 2] == information[3, 3] == 0.0  # nothing about the means
    before = information.copy()
    settle_floored(information, p, 1e-6, Structure(1e-6))
    np.testing.assert_allclose(np.diag(information)[[2, 3, 5, 6]], [1e6, 1e6, 0.5, 0.5])
    kept = [0, 1, 4]
    np.testing.assert_array_equal(information[np.ix_(kept, kept)], before[np.ix_(kept, kept)])
    assert not information[np.ix_(kept, [2, 3, 5, 6])].any()

"""Units of measurement: the answer follows them as far as variances are float64 numbers."""

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix import paper
from momentmix.errors import InputError
from momentmix.fitting.data import moments_of

NAMES = ["a", "b", "c", "d", "e", "f"]
LARGE = r"must stay below 1e\+154 in size.*column 2{} reaches 9e\+{}.*divide it by .* 1e\+{}"
SMALL = r"standard deviation of at least 1e-151.*column 2{} has .*multiply it by a constant"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    truth = mm.Mixture.diagonal(
        [0.3, 0.7], 3 + 4 * rng.standard_normal((2, 6)), 1 + rng.random((2, 6))
    )
    return truth.sample(2000, random_state=1)[0]


@pytest.mark.parametrize("unit", [1e-150, 2.0**-400, 1e150])
@pytest.mark.parametrize("form", ["rows", "summary"])
def test_the_answer_follows_the_units(rows, unit, form):
    def fitted(x):
        return mm.fit(x if form == "rows" else mm.summarize(x, order=4), 2, random_state=0)

    a, b = fitted(rows), fitted(rows * unit)
    np.testing.assert_allclose(b.mixture.weights, a.mixture.weights, rtol=1e-7)
    np.testing.assert_allclose(b.mixture.means / unit, a.mixture.means, rtol=1e-7)
    np.testing.assert_allclose(b.mixture.variances / unit / unit, a.mixture.variances,
                               rtol=1e-7)  # fmt: skip
    assert b.certificate.passed == a.certificate.passed
    np.testing.assert_allclose(b.certificate.statistic, a.certificate.statistic, rtol=1e-4)
    np.testing.assert_array_equal(b.mixture.predict(rows * unit), a.mixture.predict(rows))
    np.testing.assert_allclose(b.standard_errors.means / unit, a.standard_errors.means, rtol=1e-6)
    assert np.isfinite(b.intervals().variances).all()
    if form == "rows":
        change = 6 * np.log(unit)
        assert b.log_likelihood == pytest.approx(a.log_likelihood - change, rel=1e-9)


def scaled(rows, unit):
    """Rows with column 2 in another unit, and its largest value 9 units."""
    rows = rows.copy()
    rows[:, 2] *= 8.0 / np.abs(rows[:, 2]).max()
    rows[5, 2] = -9.0
    rows[:, 2] *= unit
    return rows


def refusals(rows, path):
    """Every way to ask for a fit of these rows, with the label of column 2."""
    frame = pd.DataFrame(rows, columns=NAMES)
    np.save(path, rows)
    named = mm.summarize(frame, order=3)
    estimator = mm.MomentGaussianMixture(2)
    return [
        (lambda: mm.fit(rows, 2), ""),
        (lambda: mm.fit(frame, "auto"), r"( \('c'\))?"),
        (lambda: mm.fit(mm.summarize(rows, order=3), 2), ""),
        (lambda: paper.fit(named, 2), r" \('c'\)"),
        (lambda: mm.fit(mm.open_rows(path), 2), ""),
        (lambda: estimator.fit(rows, sample_weight=np.full(len(rows), 1.5)), ""),
        (lambda: estimator.partial_fit(rows).fit_summary(), ""),
    ]


@pytest.mark.parametrize("power", [154, 299])
def test_columns_too_large_for_variances_are_named(rows, tmp_path, power):
    bad = scaled(rows, 10.0**power)
    for call, label in refusals(bad, tmp_path / "x.npy"):
        with pytest.raises(InputError, match=LARGE.format(label, power, power)):
            call()
    summary = mm.summarize(bad, order=3)  # this still works
    assert summary.minimum[2] == -9.0 * 10.0**power


@pytest.mark.parametrize("unit", [1e-152, 1e-320])
def test_columns_too_small_for_variances_are_named(rows, tmp_path, unit):
    bad = scaled(rows, unit)
    for call, label in refusals(bad, tmp_path / "x.npy"):
        with pytest.raises(InputError, match=SMALL.format(label)):
            call()


def test_sizes_up_to_the_bound_work(rows):
    edge = rows.copy()
    edge[:, 2] *= 9.9e153 / np.abs(edge[:, 2]).max()
    result = mm.fit(edge, 2, random_state=0)
    assert result.certificate.passed
    np.testing.assert_allclose(
        mm.fit(rows, 2, random_state=0).mixture.weights, result.mixture.weights, rtol=1e-7
    )
    result.intervals()


@pytest.mark.parametrize("value", [0.0, -1e-310, 1e153])
def test_constant_columns_of_any_size(rows, value):
    wide = np.column_stack([rows, np.full(len(rows), value)])
    moments = moments_of(mm.summarize(wide, order=3))
    assert moments.constant.tolist() == [False] * 6 + [True]
    result = mm.fit(wide, 2, random_state=0)
    assert result.certificate.passed
    assert (result.mixture.means[:, 6] == value).all()
    labels = mm.fit(rows, 2, random_state=0).mixture.predict(rows)
    np.testing.assert_array_equal(result.mixture.predict(wide), labels)


def test_the_deviation_of_a_summary_does_not_underflow(rows):
    tiny = mm.summarize(rows * 1e-200, order=2)
    np.testing.assert_allclose(tiny.deviation, rows.std(axis=0) * 1e-200)
    assert (tiny.variance == 0).all()
    assert mm.summarize(np.full((9, 2), 0.1), order=1).deviation.tolist() == [0.0, 0.0]


def test_rows_too_far_from_the_model_get_no_label(rows):
    mixture = mm.fit(rows, 2, random_state=0).mixture
    far = rows[:3].copy()
    far[1, 4] = 1e200
    with pytest.raises(InputError, match=r"row 1 .*more than 1e154 standard deviations away"):
        mixture.predict(far)
    with pytest.raises(InputError, match="row 1 "):
        mm.MomentGaussianMixture(2, random_state=0).fit(rows).predict(far)
    assert mixture.log_prob(far)[1] == -np.inf
    far[1, 4] = 1e100
    assert mixture.predict(far).shape == (3,)

"""The entry point: what it accepts, what it says, and that it repeats itself."""

import re
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from fitting_helpers import exact_moments, matched, random_mixture

import momentmix as mm
from momentmix.errors import CapacityError, InputError, InputTypeError
from momentmix.findings.finding import Severity
from momentmix.fitting import checks
from momentmix.fitting.inference.certificate import Certificate
from momentmix.fitting.inference.findings import collect_findings
from momentmix.fitting.inference.over_identification import check_conditions
from momentmix.fitting.record import load_fit
from momentmix.mixture.parameters import Parameters


@pytest.fixture(scope="module")
def case():
    truth = random_mixture(3, 6, seed=0, spread=1.5)
    rows, _ = truth.sample(6000, random_state=1)
    return truth, rows


def test_same_seed_same_bits(case):
    _, rows = case
    for data in (mm.summarize(rows), rows):
        a, b = (mm.fit(data, 3, random_state=7, n_threads=k) for k in (1, 2))
        np.testing.assert_array_equal(a.mixture.means, b.mixture.means)
        np.testing.assert_array_equal(a.mixture.variances, b.mixture.variances)
        assert a.certificate.p_value == b.certificate.p_value


def test_a_summary_gives_the_pure_moment_answer(case):
    _, rows = case
    result = mm.fit(mm.summarize(rows, 4), 3, random_state=0)
    assert not result.certificate.after_rows
    assert result.log_likelihood is None
    assert "the pure moment answer" in result.details()


@pytest.mark.parametrize("form", [np.asarray, mm.summarize])
def test_shift_and_scale_of_the_rows_carry_over(case, form):
    _, rows = case
    shift, scale = np.linspace(-5e3, 5e3, 6), np.array([1e-4, 1e-2, 1, 1e2, 1e4, 1e6])
    a = mm.fit(form(rows), 3, random_state=0).mixture
    b = mm.fit(form(rows * scale + shift), 3, random_state=0).mixture
    _, means, variances = matched(
        mm.Mixture.diagonal(b.weights, (b.means - shift) / scale, b.variances / scale**2), a
    )
    np.testing.assert_allclose(means, a.means, atol=2e-3)
    np.testing.assert_allclose(variances, a.variances, atol=2e-3)


def test_the_result_tells_what_was_done(case):
    _, rows = case
    result = mm.fit(rows, 3, random_state=0)
    text, answer = result.details(), str(result).splitlines()
    assert answer[0] == "3 groups in 6,000 rows, 6 columns: passed"
    assert len(answer) <= 12
    assert "Mixture of 3 diagonal Gaussians, 6 features, 6000 rows" in text
    assert re.search(r"EM, \d+ passes over the rows in all, converged", text)
    assert "verdict              passed" in text


def test_progress_names_the_stages_and_is_silent_by_default(case, capsys):
    _, rows = case
    seen = []
    mm.fit(rows, 2, random_state=0, progress=seen.append)
    assert seen == [
        "moments",
        "checks of rows",
        "first fits",
        "full fits",
        "passes",
        "log-likelihood",
        "standard errors",
        "halves",
        "certificate",
    ]
    assert capsys.readouterr().out == ""


def test_one_component_at_any_dimension():
    rng = np.random.default_rng(0)
    for d in (1, 2, 5):
        rows = rng.normal(size=(500, d)) * 3 + 1
        for data in (mm.summarize(rows), rows):
            result = mm.fit(data, 1)
            np.testing.assert_allclose(result.mixture.means[0], rows.mean(axis=0))
            np.testing.assert_allclose(result.mixture.variances[0], rows.var(axis=0))
            error = result.standard_errors.means[0]
            np.testing.assert_allclose(error, rows.std(axis=0) / np.sqrt(500), rtol=0.15)
            assert result.intervals().weights[0] == 1


def test_over_capacity_with_rows_goes_on_from_the_rows():
    truth = mm.Mixture.diagonal([0.5, 0.5], [[-3.0, 0.0], [3.0, 0.0]], np.ones((2, 2)))
    rows, labels = truth.sample(2000, random_state=0)
    result = mm.fit(rows, 2, random_state=0)
    assert abs((result.mixture.predict(rows) == labels).mean() - 0.5) > 0.49
    assert "not identified from these moments" not in result.details()
    assert result.certificate.passed  # powers test what products of distinct features cannot
    rows[:, 1] = np.random.default_rng(0).exponential(size=2000)
    assert not mm.fit(rows, 2, random_state=0).certificate.passed


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8])
def test_number_types_are_cast(dtype):
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(500, 3)) * 5 + 40 + 60 * (rng.random(500) < 0.5)[:, None]).astype(
        dtype
    )
    assert mm.fit(rows, 2, random_state=0).mixture.n_components == 2


def test_layout_in_memory_does_not_matter(case):
    _, rows = case
    rows = rows[:600]
    expected = mm.fit(rows, 2, random_state=0).mixture.means
    wide = np.zeros((600, 12))
    wide[:, ::2] = rows
    frozen = rows.copy()
    frozen.setflags(write=False)
    for same in (np.asfortranarray(rows), wide[:, ::2], frozen):
        np.testing.assert_allclose(mm.fit(same, 2, random_state=0).mixture.means, expected)


GOOD = np.random.default_rng(0).normal(size=(200, 5))


@pytest.mark.parametrize(
    ("data", "arguments", "error", "message"),
    [
        (GOOD, {"n_components": 0}, InputError, "at least 1; got 0"),
        (GOOD, {"n_components": 2.5}, InputTypeError, "integer ≥ 1, 'auto' or 'bic'"),
        (GOOD, {"n_components": "3"}, InputTypeError, "integer ≥ 1, 'auto' or 'bic'; got '3'"),
        (GOOD, {"n_components": True}, InputTypeError, "must be an integer"),
        (mm.summarize(GOOD), {"n_components": 9}, CapacityError, "at most 3 components from"),
        (
            mm.summarize(np.random.default_rng(0).normal(size=(300, 9)), 3),
            {"n_components": 6},
            CapacityError,
            r"at most 5 components.*Summarize with order=\d \(up to",
        ),
        (GOOD[:3], {"n_components": 4}, InputError, "at least that many rows; got 3"),
    ],
)
def test_bad_requests_are_refused(data, arguments, error, message):
    with pytest.raises(error, match=message):
        mm.fit(data, **arguments)


def test_certificate_gives_every_reason():
    truth = random_mixture(2, 5, seed=0)
    moments = exact_moments(truth, 3, n_rows=50)
    standard = truth.parameters.standardized(moments.shift, moments.scale)
    p = Parameters(standard.weights, standard.means[::-1], standard.variances)
    test = check_conditions(moments, p, np.random.default_rng(0), draws_rows=False)
    findings = collect_findings(moments, p, test, capacity=1)
    # Exact moments agree with the model better than those of any sample could.
    fatal = {f.kind for f in findings if f.severity is Severity.FATAL}
    # Their bounds are those of many rows: one of 50 would dominate the moments.
    assert fatal == {"over-capacity", "outlier-influence"}
    text = str(Certificate(test, 0.5, findings, 2))
    assert "NOT PASSED" in text
    assert "too imprecise" in text
    assert "not identified" in text


def test_automatic_number_from_a_summary_without_a_fit_is_an_elbow():
    rng = np.random.default_rng(0)
    rows = rng.exponential(size=(20000, 4)) @ rng.normal(size=(4, 4))
    result = mm.fit(mm.summarize(rows, 4), "auto", random_state=0)
    assert "elbow of the effect size" in result.notes[0]
    assert not result.certificate.passed


def answers(step=1.0, gaps=0.02):
    """Answers 1 to 6 of three groups to five questions, in units of `step`."""
    rng = np.random.default_rng(3)
    labels = rng.integers(3, size=900)
    means = np.array([[1.7], [3.4], [5.2]]) + 0.3 * rng.normal(size=(3, 5))
    table = np.clip(np.round(means[labels] + 0.8 * rng.normal(size=(900, 5))), 1, 6)
    table[rng.random(table.shape) < gaps] = np.nan
    return pd.DataFrame(step * table, columns=list("abcde"))


def in_file(frame, folder):
    frame.to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


@pytest.mark.parametrize("missing", ["model", "drop"])
@pytest.mark.parametrize(
    "route",
    [
        lambda frame, folder: frame,
        lambda frame, folder: frame.astype("Int64"),
        lambda frame, folder: frame.to_numpy(),
        in_file,
    ],
    ids=["frame", "Int64", "numpy", "parquet"],
)
def test_whole_numbers_with_gaps_have_no_components_on_one_value(route, missing, tmp_path):
    result = mm.fit(route(answers(), tmp_path), 7, missing=missing, random_state=0)
    assert least_deviation(result) >= 0.499


@pytest.mark.parametrize(("step", "gaps"), [(0.1, 0.02), (0.5, 0.0), (5.0, 0.02)])
def test_components_of_rounded_columns_are_no_narrower_than_half_a_step(step, gaps):
    frame = answers(step, gaps)
    result = mm.fit(frame, 7, missing="model", random_state=0)
    assert least_deviation(result) >= 0.499 * step
    # The same cells where one column in which a component is narrow is not rounded.
    other = frame.assign(f=0.01 * step * np.random.default_rng(4).normal(size=len(frame)))
    other.loc[::3, "f"] += step
    narrow = mm.fit(other, 3, missing="model", random_state=0)
    assert least_deviation(narrow) < 0.1 * step


def least_deviation(result):
    return min(float(np.sqrt(np.nanmin(block.covariances))) for block in result.mixture.blocks)


def test_many_levels_and_components_of_few_rows_are_no_wide_block():
    rng = np.random.default_rng(0)
    town = [f"town {k}" for k in rng.permutation(np.arange(40) % 9)]
    data = {"town": town, "x": rng.normal(size=40).tolist(), "y": rng.normal(size=40).tolist()}
    result = mm.fit(data, 10, families={"town": "categorical"}, random_state=0)
    assert result.mixture.n_components == 10


@pytest.mark.long
def test_memory_of_many_levels_grows_as_their_square():
    rng, n_levels = np.random.default_rng(0), 120
    codes = np.concatenate([np.arange(n_levels), rng.integers(n_levels, size=180)])
    data = {"town": [f"t{k}" for k in codes], "x": codes % 2 + rng.normal(size=300)}
    tracemalloc.start()
    try:
        mm.fit(data, 2, families={"town": "categorical"}, random_state=0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1000 * 8 * n_levels**2  # of levels**4, a product alone would be 7 times as much


def test_a_fit_beyond_the_memory_is_refused_before_the_work(monkeypatch):
    codes = np.arange(600) % 200
    data = {"town": [f"t{k}" for k in codes], "x": codes % 7 / 3.0}
    monkeypatch.setattr(checks, "physical_memory", lambda: 200 << 20)
    message = (
        r"5 components of 200 features, 199 of them levels of 'town', need about 1\d\d MiB of "
        r"memory; a fit may take 100 MiB, half of what there is. Use up to 1\d\d features: join"
    )
    with pytest.raises(InputError, match=message):
        mm.fit(data, 5, families={"town": "categorical"}, random_state=0)
    with pytest.raises(InputError, match=r"50 components of 30 features need about"):
        mm.fit(np.random.default_rng(0).normal(size=(100, 30)), 50)


def test_options_are_recorded_as_plain_values(case, tmp_path):
    rows = case[1][:500]
    result = mm.fit(
        rows, np.int64(2), random_state=np.int64(3), columns=np.arange(6), max_passes=np.int16(9)
    )
    expected = {"n_components": 2, "random_state": 3, "columns": list(range(6)), "max_passes": 9}
    assert result.options == expected
    assert {type(value) for value in result.options.values()} == {int, list}
    result.save(tmp_path / "model.json")
    assert load_fit(tmp_path / "model.json")[1].options == expected
    estimator = mm.MomentGaussianMixture(2, random_state=np.int64(317)).fit(rows)
    mm.report(estimator, tmp_path / "report.html")
    assert ">317<" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("is_summary", "n_components", "options", "named"),
    [
        (False, 2, {"max_components": 5}, "max_components"),
        (True, 2, {"max_components": 5}, "max_components"),
        (True, 2, {"max_passes": 5}, "max_passes"),
        (True, 2, {"missing": "drop"}, "missing"),
        (True, 2, {"missing": "mar"}, "missing"),
    ],
)
def test_options_without_effect_are_refused(case, is_summary, n_components, options, named):
    rows = case[1][:500]
    with pytest.raises(InputError, match=f"{named}="):
        mm.fit(mm.summarize(rows, 3) if is_summary else rows, n_components, **options)


def test_rows_scattered_around_the_groups_are_none_and_the_number_is_chosen_once():
    rng = np.random.default_rng(0)
    means = rng.normal(0, 3, (3, 4))
    rows = np.concatenate([rng.normal(mean, 1, (1000, 4)) for mean in means])
    far = rng.random(3000) < 0.01
    rows[far] = 5 * rows.std(axis=0) * rng.uniform(-1, 1, (int(far.sum()), 4))
    stages = []
    result = mm.fit(rows, random_state=0, progress=stages.append)
    assert result.mixture.n_components == 3
    assert (result.mixture.predict(rows[far]) == -1).mean() > 0.8
    assert stages.count("number of components") == 1
    assert [(t.n_components, t.chosen) for t in result.tried] == [(3, True)]
    assert any("without 1 of rows scattered around the groups" in note for note in result.notes)

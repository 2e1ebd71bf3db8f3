"""Rows far from all others: listed, and in no group."""

from dataclasses import replace

import numpy as np
import pytest
from fitting_helpers import exact_moments, random_mixture

import momentmix as mm
from momentmix.errors import InputError
from momentmix.findings.finding import Severity
from momentmix.fitting.data import rows_of, summarized
from momentmix.fitting.inference.checked_rows import check_rows
from momentmix.fitting.inference.findings import collect_findings
from momentmix.fitting.inference.outliers import robust_scale
from momentmix.fitting.inference.over_identification import check_conditions
from momentmix.mixture.parameters import Parameters
from momentmix.tables.rows import BlockRows


def outliers_of(data):
    rows = rows_of(data)
    moments, _ = summarized(rows, 1, 1)
    return check_rows(rows, moments).outliers


def column(law, n, seed):
    rng = np.random.default_rng(seed)
    return {
        "normal": lambda: rng.standard_normal(n),
        "exponential": lambda: rng.exponential(size=n),
        "lognormal": lambda: np.exp(rng.standard_normal(n)),
        "Cauchy": lambda: rng.standard_cauchy(n),
        "Student t(3)": lambda: rng.standard_t(3, n),
        "nine in ten are zero": lambda: rng.exponential(size=n) * (rng.uniform(size=n) > 0.9),
        "rare yes": lambda: (rng.uniform(size=n) < 0.01) * 1.0,
        "counts": lambda: rng.poisson(0.3, n) * 1.0,
        "counts of a mixture": lambda: (
            rng.poisson(np.repeat([0.2, 0.2, 0.2, 0.5, 2.5], n // 5)) * 1.0
        ),
        "rounded exponential": lambda: np.round(rng.exponential(2.0, n)),
        "cluster far away": lambda: rng.standard_normal(n) + 100.0 * (np.arange(n) % 20 == 0),
        "cluster of 20 rows": lambda: rng.standard_normal(n) + 40.0 * (np.arange(n) < 20),
    }[law]()


LAWS = [
    "normal", "exponential", "lognormal", "Cauchy", "Student t(3)", "nine in ten are zero",
    "rare yes", "counts", "counts of a mixture", "rounded exponential",
    "cluster far away", "cluster of 20 rows",
]  # fmt: skip


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [100, 5000])
def test_no_column_loses_its_rows(law, n):
    """A gap in the heaviest tail (Cauchy) has a chance of 1 %, and then few rows are lost."""
    counts = [outliers_of(column(law, n, seed)[:, None]).n_found for seed in range(40)]
    assert np.count_nonzero(counts) <= 3  # of 40; 4 or more have a chance of 1e-3 at a rate of 2 %
    assert max(counts) <= 0.01 * n


# A tail that is lighter than Cauchy's, and that more than ten rows tell.
LIGHTER = [
    (law, n)
    for law in LAWS
    for n in (100, 5000)
    if law not in ("Cauchy", "rare yes") and (law, n) != ("nine in ten are zero", 100)
]


@pytest.mark.parametrize(("law", "n"), LIGHTER)
def test_a_wild_row_is_found_in_any_column(law, n):
    """Negative control of the test above."""
    hits = 0
    for seed in range(10):
        x = column(law, n, seed)
        x[n // 3] = -1e6
        found = outliers_of(x[:, None])
        hits += n // 3 in found.places and -1e6 in found.values and found.n_found <= 5
    assert hits == 10


def test_several_rows_do_not_hide_each_other():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2000, 3))
    wild = np.sort(rng.choice(2000, 15, replace=False))
    x[wild, 1] = 1e3 * rng.standard_normal(15)
    found = outliers_of(x).places
    assert np.isin(found, wild).all()
    assert len(found) >= 13  # one or two may lie among the other rows
    x[wild, 1] = -999.0  # fifteen rows at one place are a cluster
    assert outliers_of(x).n_found == 0
    x[wild[3:], 1] = 0.0
    np.testing.assert_array_equal(outliers_of(x).places, wild[:3])


@pytest.mark.parametrize("law", ["uniform", "t(2)"])
def test_scattered_rows_have_no_company_though_they_are_many(law):
    rng = np.random.default_rng(3)
    groups = rng.standard_normal((8000, 5)) + 5.0 * (np.arange(8000) % 2)[:, None]
    wide = rng.uniform(-40, 40, (80, 5)) if law == "uniform" else 3 * rng.standard_t(2, (80, 5))
    found = outliers_of(np.concatenate([groups, wide])).places
    is_far = np.abs(wide - 2.5).max(axis=1) > 25
    assert (found >= 8000).sum() >= 0.8 * is_far.sum() > 3
    assert (found < 8000).sum() <= 1


def test_a_light_cluster_stays_beside_scattered_rows():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 6))
    rows[:30] += [12.0, -9.0, 0.0, 0.0, 15.0, 0.0]
    rows[30:50] = rng.uniform(-60, 60, (20, 6))
    np.testing.assert_array_equal(outliers_of(rows).places, np.arange(30, 50))


class Source:
    """A caller's own blocks."""

    def __init__(self, rows):
        self.rows, (self.n_rows, self.n_features) = rows, rows.shape

    def blocks(self):
        return iter(np.array_split(self.rows, 7))


@pytest.mark.parametrize("kind", [np.asarray, lambda x: BlockRows(Source(x))])
def test_rows_beyond_an_excerpt_are_found(kind):
    x = np.random.default_rng(0).standard_normal((50_000, 4))
    assert outliers_of(kind(x)).n_found == 0
    x[31_234, 2], x[40_001, 0], x[5, 3] = 1e5, -300.0, 60.0
    found = outliers_of(kind(x))
    np.testing.assert_array_equal(found.places, [5, 31_234, 40_001])
    np.testing.assert_array_equal(found.columns, [3, 2, 0])
    np.testing.assert_array_equal(found.values, [60.0, 1e5, -300.0])


# -- in a fit ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def case():
    truth = mm.Mixture.diagonal([0.4, 0.6], [[-2.0] * 5, [2.0] * 5], np.ones((2, 5)))
    return truth.sample(500, random_state=0)[0]


def test_one_wild_row_belongs_to_no_group_and_does_not_spoil_the_fit(case):
    wild = np.insert(case, 17, [0.0, 1.0, 1e6, 0.0, 0.0], axis=0)
    result = mm.fit(wild, 2, random_state=0)
    clean = mm.fit(case, 2, random_state=0)
    np.testing.assert_array_equal(result.mixture.means, clean.mixture.means)
    np.testing.assert_array_equal(result.mixture.variances, clean.mixture.variances)
    assert (result.n_rows, result.summary.n_rows) == (501, 500)
    assert result.certificate.passed
    (finding,) = (f for f in result.certificate.findings if f.kind == "outlier-rows")
    assert finding.severity is Severity.WARNING
    assert (
        "1 row lies alone and far from all others, in no group: row 17 (1e+06 in column 2)"
        in str(finding)
    )
    np.testing.assert_array_equal(np.flatnonzero(result.mixture.predict(wild) == -1), [17])
    # A share of 1 in 501, with a Poisson error of about itself.
    assert 0.5 / 501 < result.mixture.background_weight < 3 / 501
    assert np.isfinite(result.mixture.log_prob(10.0 * wild)).all()
    assert "belongs to no group: 0.2 %" in repr(result)
    assert result.log_likelihood == pytest.approx(result.mixture.log_prob(wild).mean())
    assert clean.certificate.passed
    assert clean.mixture.background is None
    assert clean.mixture.background_weight == 0.0
    assert "outlier-rows" not in [f.kind for f in clean.certificate.findings]
    kept = mm.fit(wild, 2, random_state=0, background=False)
    assert kept.n_rows == 501 == kept.summary.n_rows
    assert kept.mixture.background is None
    (finding,) = (f for f in kept.certificate.findings if f.kind == "outlier-rows")
    assert finding.severity is Severity.FATAL
    assert "part of the fit" in finding.text


def test_a_background_needs_rows_and_has_few_where_none_is_far(case):
    summary = mm.summarize(case)
    assert mm.fit(summary, 2).mixture.background is None
    with pytest.raises(InputError, match="needs rows: the share"):
        mm.fit(summary, 2, background=True)
    with pytest.raises(InputError, match='background must be True, False or "auto"'):
        mm.fit(case, 2, background="yes")
    found = mm.fit(case, 2, background=True, random_state=0).mixture
    plain = mm.fit(case, 2, random_state=0).mixture
    assert found.background_weight < 3 / 500
    np.testing.assert_array_equal(found.means, plain.means)
    assert found.log_prob(case).mean() > plain.log_prob(case).mean() - 3 / 500


def test_too_many_are_kept_and_said_to_be():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((400, 12))
    for j in range(12):  # three rows a column, 36 of 400 rows
        x[3 * j : 3 * j + 3, j] = [1e4, -3e4, 9e4]
    found = outliers_of(x)
    assert found.n_found == 36
    assert found.places.size == 0
    moments, _ = summarized(rows_of(x), 1, 1)
    (finding,) = found.findings(moments, True)
    assert finding.severity is Severity.FATAL
    assert "too many for a background" in str(finding)


# -- from a summary ---------------------------------------------------------------------------


def influence(moments, truth):
    standard = truth.parameters.standardized(moments.shift, moments.scale)
    p = Parameters(standard.weights, standard.means, standard.variances)
    test = check_conditions(moments, p, np.random.default_rng(0), draws_rows=False)
    findings = collect_findings(moments, p, test, capacity=9)
    return [f for f in findings if f.kind == "outlier-influence"]


def test_powers_tell_one_far_row_from_a_heavy_tail():
    truth = random_mixture(2, 5, seed=0)
    moments = exact_moments(truth, 3, n_rows=10_000)  # bounds of 20 deviations
    moments = replace(moments, powers=None)
    (finding,) = influence(moments, truth)
    assert finding.severity is Severity.WARNING  # 4 % of the variance
    assert finding.severity is Severity.WARNING
    powers = np.full((4, 5), np.nan)
    powers[1] = 3.0 + 20.0**4 / 10_000  # normal, and one row: 84 % of the fourth moment
    (finding,) = influence(replace(moments, powers=powers), truth)
    assert finding.severity is Severity.FATAL
    powers[1] = 113.9  # of a lognormal column: 14 %
    (finding,) = influence(replace(moments, powers=powers), truth)
    assert finding.severity is Severity.WARNING


def test_robust_scale_of_columns_that_hold_one_value():
    rng = np.random.default_rng(0)
    normal = np.abs(rng.standard_normal(100_000))
    some = [np.where(rng.uniform(size=100_000) < share, 0.0, normal) for share in (0.6, 0.9, 0.98)]
    rare, none = np.zeros((2, 100_000))
    rare[:3] = 1.0, 2.0, 3.0
    scales = np.array([robust_scale(x) for x in (normal, *some, rare, none)])
    assert scales[0] == pytest.approx(1.0, abs=0.02)
    assert (scales[1:4] > 0).all()
    assert (scales[1:4] < 1.5).all()
    assert scales[4:].tolist() == [2.0, 0.0]

"""Findings from the rows: each on a table that has it, and none on clean ones."""

import numpy as np
import pytest

import momentmix as mm
from momentmix.findings.finding import Severity
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import rows_of, summarized
from momentmix.fitting.em.em import draw_sample
from momentmix.fitting.em.passes import full_passes
from momentmix.fitting.inference.checked_rows import check_column, check_rows
from momentmix.fitting.inference.correlations import Correlation
from momentmix.fitting.inference.findings import (
    collect_findings,
    component_findings,
)
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.mixture.parameters import Parameters

N = 2000


def clean_case(seed, n=N, separation=None):
    rng = np.random.default_rng(seed)
    d, r = int(rng.integers(3, 9)), int(rng.integers(1, 5))
    means = rng.normal(size=(r, d)) * (separation or rng.uniform(1, 3))
    truth = mm.Mixture.diagonal(rng.dirichlet(np.full(r, 4.0)), means, rng.uniform(0.3, 2, (r, d)))
    rows, labels = truth.sample(n, random_state=seed)
    return truth, rows, labels


def refined(data, start):
    """Rows, moments and the maximum of the likelihood next to `start`."""
    rows = rows_of(data)
    moments, _ = summarized(rows, 2, 1)
    standard = start.parameters.standardized(moments.shift, moments.scale)
    p = Parameters(standard.weights, standard.means, standard.variances)
    sample = draw_sample(rows, moments, np.random.default_rng(0))
    context = FitContext(np.random.default_rng(0), max_passes=60)
    p = full_passes(sample, p, context).parameters
    return rows, moments, p


def findings_of(data, start):
    rows, moments, p = refined(data, start)
    checked = check_rows(rows, moments)
    quiet = OverIdentification(100.0, 100, 0.5, 0.0)
    return {f.kind: f for f in collect_findings(moments, p, quiet, 9, True, checked)}


def with_column(case, column):
    """The case with an independent column, as the last one."""
    truth, rows, _ = case
    middle = np.clip(column, *np.quantile(column, [0.02, 0.98]))
    r = truth.n_components
    start = mm.Mixture.diagonal(
        truth.weights,
        np.column_stack([truth.means, np.full(r, middle.mean())]),
        np.column_stack([truth.variances, np.full(r, middle.var())]),
    )
    return np.column_stack([rows, column]), start


# -- columns ----------------------------------------------------------------------------------


def autoregressive(rng, n):
    x = rng.standard_normal(n)
    for i in range(1, n):
        x[i] = 0.5 * x[i - 1] + np.sqrt(0.75) * x[i]
    return x


# law of a column: (values, name of the finding, severity, words)
COLUMNS = {
    "row number": (lambda g: np.arange(N) * 1.0, "row-number", "fatal", "column {}: values grow"),
    "time stamp": (
        lambda g: 1.7e9 - 60.0 * np.arange(N), "row-number", "fatal", "column {}: values grow",
    ),
    "half zero": (
        lambda g: np.where(g.uniform(size=N) < 0.5, 0.0, g.exponential(size=N)),
        "discrete-column", "warning", "column {} (0 in ",
    ),
    "sentinel": (
        lambda g: np.where(g.uniform(size=N) < 0.05, -9.0, g.standard_normal(N)),
        "discrete-column", "warning", "column {} (-9 in ",
    ),
    "two values": (
        lambda g: g.integers(0, 2, N) * 1.0, "discrete-column", "warning",
        "column {} (2 values) repeats",
    ),
    "counts": (
        lambda g: g.poisson(3, N) * 1.0, "discrete-column", "warning",
        " values) repeats values",
    ),
    "autoregressive": (
        lambda g: autoregressive(g, N), "ordered-rows", "warning",
        "alike within components, by the serial correlation of column {} (0.",
    ),
    "drift": (
        lambda g: g.standard_normal(N) + np.linspace(0, 3, N), "ordered-rows", "warning",
        "alike within components, by the serial correlation of column {} (0.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("law", COLUMNS)
def test_a_column_is_named_for_what_it_is(law):
    make, name, severity, words = COLUMNS[law]
    hits = 0
    for seed in range(10):
        case = clean_case(seed)
        data, start = with_column(case, make(np.random.default_rng(100 + seed)))
        found = findings_of(data, start)
        finding = found.get(name)
        hits += (
            finding is not None
            and finding.severity.value == severity
            and words.format(data.shape[1] - 1) in finding.text
        )
        assert set(found) <= {name, "outlier-influence"}
    assert hits >= 9  # one in ten tables may hide it: the components may take it in


def test_nothing_is_named_on_clean_tables():
    """Negative control of all of these: at a chance of 1e-4 a column, none of 20 tables."""
    for seed in range(20):
        truth, rows, _ = clean_case(seed)
        assert not findings_of(rows, truth), seed


def test_order_of_components_and_of_values_is_no_time():
    for seed in range(10):
        truth, rows, labels = clean_case(seed, separation=3.0)
        by_component = rows[np.argsort(labels, kind="stable")]
        assert not findings_of(by_component, truth)
        sorted_rows = rows[np.argsort(rows[:, 1])]
        assert not findings_of(sorted_rows, truth)


def test_fine_grids_and_decimals_are_no_matter():
    for seed in range(5):
        truth, rows, _ = clean_case(seed)
        assert not findings_of(np.round(rows, 2), truth)
        assert not findings_of(rows.astype(np.float32), truth)


@pytest.mark.parametrize("width", [0.1, 0.25, 1e-3, 7.0, 1e8])
def test_grids_are_found_whatever_their_width(width):
    rng = np.random.default_rng(0)
    numbers = np.round(20 * rng.standard_normal(N))
    facts = check_column(numbers * width, np.arange(N))
    assert facts.grid == pytest.approx(width, rel=1e-6)
    shifted = check_column((numbers + 0.01 * rng.standard_normal(N)) * width, np.arange(N))
    assert shifted.grid == 0.0


# -- rows -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda g, x: np.concatenate([x, x[:200]]),
        lambda g, x: g.permutation(np.concatenate([x, x[:50]])),
        lambda g, x: np.repeat(x, 2, axis=0),
        lambda g, x: x[g.integers(0, len(x), len(x))],
    ],
)
def test_copies_of_rows_are_named(change):
    for seed in range(5):
        truth, rows, _ = clean_case(seed)
        data = change(np.random.default_rng(seed), rows)
        copies = len(data) - len(np.unique(data, axis=0))
        (finding,) = findings_of(data, truth).values()
        assert finding.kind == "duplicate-rows"
        assert finding.severity is Severity.WARNING
        assert finding.text.startswith(f"{copies} of {len(data)} rows are copies")


# -- components -------------------------------------------------------------------------------


def component_names(weights, variances, n_rows):
    rows = np.random.default_rng(0).normal(size=(n_rows, len(variances[0])))
    moments, _ = summarized(rows_of(rows), 1, 1)
    variances = np.array(variances, float)
    p = Parameters(np.array(weights), np.zeros_like(variances), variances)
    found = component_findings(moments, p)
    return {(f.kind, f.severity.value) for f in found}


def test_spurious_components_are_fatal():
    fatal = ("spurious-components", "fatal")
    ones = [[1.0] * 5, [1.0] * 5]
    assert component_names([0.99, 0.01], ones, 500) == {fatal}  # 5 rows, 5 features
    assert component_names([0.98, 0.02], ones, 500) == set()
    assert component_names([0.5, 0.5], ones, 500) == set()
    floored = [[1.0] * 5, [1e-6, 1e-6, 1.0, 1.0, 1.0]]
    assert component_names([0.95, 0.05], floored, 500) == {fatal}
    assert component_names([0.5, 0.5], floored, 500) == set()
    assert component_names([1.0], [[1.0] * 5], 4) == set()  # one component has all rows


# -- correlations -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "deviates", "is_named"),
    [(0.5, 20.0, True), (-0.9, -20.0, True), (0.5, 4.0, False), (0.05, 20.0, False)],
)
def test_correlations_that_matter_are_named(value, deviates, is_named):
    truth, rows, _ = clean_case(0)
    rows, moments, p = refined(rows, truth)
    named = [Correlation(0, 1, value, deviates)]
    test = OverIdentification(900.0, 100, 1e-9, 0.1, named)
    kinds = {f.kind for f in collect_findings(moments, p, test, 9)}
    assert ("correlated-columns" in kinds) == is_named


# -- whole fits -------------------------------------------------------------------------------


@pytest.mark.parametrize("light", [0, 3])
def test_findings_number_components_as_the_result_does(light):
    rng = np.random.default_rng(1)
    centers = 30.0 * rng.standard_normal((4, 9))
    sizes = [9, 300, 200, 120]
    rows = np.vstack([c + rng.standard_normal((n, 9)) for c, n in zip(centers, sizes, strict=True)])
    start = None if light == 3 else centers  # components stay in the order of a start
    result = mm.fit(rng.permutation(rows), 4, random_state=0, start=start, background=False)
    assert result.mixture.weights[light] == pytest.approx(9 / 629)
    (found,) = [f.text for f in result.certificate.findings if f.kind == "spurious-components"]
    assert found.startswith(f"component {light} (9 rows)")


def test_a_level_that_all_rows_of_a_component_have_is_no_order():
    # Sorted by group: the fitted probability of its level is below 1, by the same in all its rows.
    rng = np.random.default_rng(0)
    z = np.sort(rng.integers(3, size=300))
    data = {"kind": np.array(["a", "b", "c"])[z], "x": 6.0 * z + rng.normal(size=300)}
    data["y"] = -5.0 * z + rng.normal(size=300)
    result = mm.fit(data, 3, families={"kind": "categorical"}, random_state=0)
    assert "ordered-rows" not in [finding.kind for finding in result.certificate.findings]


def test_neighbors_that_differ_are_not_said_to_be_alike():
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=300).repeat(2)
    pairs = np.where(np.arange(600) % 2, 1.5, -1.5)  # as a male and a female of each nest
    rows = 9.0 * z[:, None] + rng.normal(size=(600, 4))
    rows[:, 0] += pairs
    result = mm.fit(rows, 2, random_state=0)
    (found,) = [f for f in result.certificate.findings if f.kind == "ordered-rows"]
    assert found.columns == (0,)
    assert "differ more than by chance within components, by the serial" in found.text
    assert "of column 0 (-0." in found.text
    assert found.advice.endswith("neighbors differ more than by chance in column 0.")


# -- rows that depend on their neighbors ---------------------------------------------------------


def walks(rng):
    return np.cumsum(rng.standard_normal((1000, 3)), axis=0)


def sorted_clusters(rng):
    """Two clusters of three correlated columns, sorted by cluster and by the first column."""
    z = (
        rng.standard_normal((600, 3))
        @ np.linalg.cholesky([[1, 0.9, 0.9], [0.9, 1, 0.9], [0.9, 0.9, 1]]).T
    )
    parts = [part[part[:, 0].argsort()] for part in np.split(z, 2)]
    return np.vstack([parts[0], parts[1] + 8.0])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("options", [{"max_components": 4}, {"n_components": 2}])
def test_rows_that_depend_on_their_neighbors_have_no_verdict(seed, options):
    rows = walks(np.random.default_rng(seed))
    result = mm.fit(rows, random_state=0, **options)
    certificate = result.certificate
    assert "found again" not in str(result.profile())
    assert certificate.answers[0].short == "Not known"
    assert certificate.verdict in ("untested", "not passed")
    shuffled = np.random.default_rng(0).permutation(rows)
    assert mm.fit(shuffled, random_state=0, **options).certificate.answers[0].short != "Not known"


def test_sorted_rows_are_judged_as_shuffled_ones():
    rng = np.random.default_rng(0)
    rows = sorted_clusters(rng)
    in_order, shuffled = (
        mm.fit(x, random_state=0).certificate for x in (rows, rng.permutation(rows))
    )
    assert in_order.verdict == shuffled.verdict
    assert in_order.answers[0].short == shuffled.answers[0].short == "Yes"

"""Columns of negative binomial counts: fits, densities, files, summaries, gaps and bounds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import momentmix as mm
from momentmix.families.dispersed_counts import NegativeBinomial

WEIGHTS = np.array([0.4, 0.6])
RATES = np.array([[1.0, 3.0, 0.5, 8.0], [6.0, 1.0, 2.0, 3.0]])
SIZES = np.array([[0.7, 2.0, 1.0, 3.0], [2.0, 1.0, 4.0, 0.8]])
NAMES = list("abcd")
FAMILIES = dict.fromkeys(NAMES, "negative_binomial")


def drawn(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Counts of two components, and the component of each row."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(2, size=n, p=WEIGHTS)
    m, s = RATES[labels], SIZES[labels]
    rows = rng.negative_binomial(s, s / (s + m)).astype(float)
    return dict(zip(NAMES, rows.T, strict=True)), labels


def log_prob(mixture: mm.Mixture, table: dict[str, np.ndarray]) -> np.ndarray:
    """Log-densities by SciPy; NaN is left out."""
    total = np.log(mixture.weights)[:, None] + np.zeros(len(table["a"]))
    for block in mixture.blocks:
        values = table[block.names[0]]
        m, s = block.means, block.sizes[:, None]
        logs = stats.nbinom.logpmf(np.nan_to_num(values), s, s / (s + m))
        total += np.where(np.isnan(values), 0.0, logs)
    return np.logaddexp.reduce(total, axis=0)


@pytest.fixture(scope="module")
def fitted() -> tuple[dict[str, np.ndarray], mm.FitResult]:
    table, _ = drawn(4_000, 1)
    return table, mm.fit(table, 2, families=FAMILIES, random_state=0)


def test_a_fit_finds_means_variances_and_dispersions(fitted):
    table, result = fitted
    assert result.certificate.passed, result.certificate
    frame = result.to_frame()
    order = np.argsort(result.mixture.means[:, 0])
    truth = {"mean": RATES, "variance": RATES * (1 + RATES / SIZES), "dispersion": 1 / SIZES}
    for name, true in truth.items():
        own = frame[frame.parameter == name]
        found, errors = (
            own[key].to_numpy().reshape(2, 4)[order] for key in ("estimate", "standard_error")
        )
        assert (np.abs(found - true) < 4 * errors).all(), name
        assert (np.abs(found - true[::-1]) > 4 * errors).any(), name  # those of the other component
    low, high = result.intervals().levels["a"]
    assert ((low > 0) & (low < high)).all()
    poisson = mm.fit(table, 2, families=dict.fromkeys(NAMES, "poisson"), random_state=0)
    assert not poisson.certificate.passed
    (finding,) = [f for f in poisson.certificate.findings if f.kind == "dispersion"]
    assert "a" in finding.columns
    assert "negative_binomial" in finding.advice


def test_densities_of_rows_with_gaps_and_large_counts(fitted, tmp_path):
    table, result = fitted
    m = result.mixture
    np.testing.assert_allclose(m.log_prob(table), log_prob(m, table), atol=1e-10)
    some = {name: values[:200].copy() for name, values in table.items()}
    some["a"][::2], some["d"][5:50] = np.nan, 5_000.0
    np.testing.assert_allclose(m.log_prob(some), log_prob(m, some), rtol=1e-9)
    m.save(tmp_path / "m.json")
    again = mm.Mixture.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.log_prob(some), m.log_prob(some))


@pytest.mark.parametrize("top", [3, 16, 200, 4_000, 1_000_000])
def test_few_statistics_have_the_density_of_all_counts(top):
    family = NegativeBinomial().covering(top)
    y = np.append(0.0, np.unique(np.rint(np.geomspace(1, top, 300))))
    m, s = np.array([0.3, 40.0, 3.0, 900.0]), np.array([0.02, 0.5, 3e4, 30.0])
    rows = np.stack([y, y**2, *family.statistics(y[None]), np.ones_like(y)])
    got = family.coefficients(m[:, None], (m + m**2 / s)[:, None]) @ rows + family.base(y)
    expected = stats.nbinom.logpmf(y, s[:, None], (s / (s + m))[:, None])
    np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-9)
    assert family.n_statistics < 65


def test_poisson_counts_are_at_the_bound():
    rng = np.random.default_rng(4)
    labels = rng.choice(2, size=3_000, p=WEIGHTS)
    table = dict(zip(NAMES, rng.poisson(RATES[labels]).T.astype(float), strict=True))
    result = mm.fit(table, 2, families=FAMILIES, random_state=0)
    assert result.certificate.passed, result.certificate
    for low, high in result.intervals().levels.values():
        assert ((low < 0.05) & (high > 0)).all()
    low, high = (result.mixture.variances / result.mixture.means - 1).min(), 0.2
    assert 0 < low < high
    less = {"a": rng.binomial(10, np.where(labels, 0.8, 0.2)), "b": table["b"], "c": table["c"]}
    narrow = mm.fit(less, 2, families={"a": "negative_binomial"}, random_state=0)
    texts = [f.text for f in narrow.certificate.findings if f.kind == "dispersion"]
    assert any("times that of a negative binomial count" in text for text in texts)
    assert narrow.certificate.verdict == "not passed"


def test_a_component_without_counts_has_finite_intervals():
    rng, labels = np.random.default_rng(2), np.arange(3_000) % 3
    p = 1.0 / (1.0 + np.array([3.0, 8.0])[labels % 2])
    table = {f"x{j}": 3.0 * labels + rng.normal(size=3_000) for j in range(3)}
    table["n"] = np.where(labels == 0, 0, rng.negative_binomial(1.0, p)).astype(float)
    result = mm.fit(table, 3, families={"n": "negative_binomial"}, random_state=0)
    place = int(np.argmin(result.mixture.means[:, 3]))
    low, high = (ends[place, 3] for ends in result.intervals().means)
    assert low == 0.0
    assert 3.0 / 1_000 <= high < 4.0 / 1_000  # the rule of three, above what the prior gives
    assert np.isfinite(result.intervals().variances[1]).all()

"""Families that a user registers: all that a column of the library's own families can do."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import momentmix as mm
from momentmix.families import family as registry
from momentmix.families import register
from momentmix.families.counts import CountFamily

from .toys import Geometric, SquareRoot


@pytest.fixture(scope="module", autouse=True)
def registered():
    """A family, for these tests only."""
    before = dict(registry.FAMILIES)
    register(Geometric())
    yield
    registry.FAMILIES.clear()
    registry.FAMILIES.update(before)


WEIGHTS = np.array([0.4, 0.6])
MEANS = np.array([-1.5, 1.5])
RATES = np.array([1.0, 6.0])


def drawn(n: int, seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A table of two numbers and a geometric column, and the component of each row."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(2, size=n, p=WEIGHTS)
    values = rng.geometric(1 / (1 + RATES[labels])) - 1
    table = {
        "x": rng.normal(MEANS[labels], 1.0),
        "y": rng.normal(-MEANS[labels], 1.0),
        "k": values.astype(float),
    }
    return table, labels


def sorted_rates(result) -> tuple[np.ndarray, np.ndarray]:
    frame = result.to_frame()
    own = frame[(frame.column == "k") & (frame.parameter == "rate")].sort_values("estimate")
    return own.estimate.to_numpy(), own.standard_error.to_numpy()


def test_a_registered_family_is_fitted():
    table, labels = drawn(20_000, 1)
    result = mm.fit(table, 2, families={"k": "geometric"}, random_state=0)
    rates, errors = sorted_rates(result)
    assert (np.abs(rates - RATES) < 4 * errors).all()
    assert (np.abs(rates - RATES[::-1]) > 4 * errors).all()
    assert result.certificate.passed, result.certificate
    found = result.mixture.predict(table)
    agree = (found == labels).mean()
    assert max(agree, 1 - agree) > 0.95
    # The same rows as another law of counts do not pass.
    assert not mm.fit(table, 2, families={"k": "poisson"}, random_state=0).certificate.passed


def test_wrong_values_and_unknown_names():
    table, _ = drawn(300, 8)
    table["k"][5] = -1.0
    with pytest.raises(mm.InputError, match=r"counts must be integers from 0 to 2\^53; row 5"):
        mm.fit(table, 2, families={"k": "geometric"})
    with pytest.raises(mm.InputError, match=r"'geometric'.* or a list of levels; .* has 'zeta'"):
        mm.fit(table, 2, families={"k": "zeta"})
    with pytest.raises(mm.errors.InputTypeError, match="register takes a Family; got str"):
        register("geometric")


def test_a_registered_transform(tmp_path):
    register(SquareRoot())
    rng = np.random.default_rng(10)
    labels = rng.choice(2, size=4_000, p=WEIGHTS)
    roots = rng.normal(np.array([4.0, 8.0])[labels], 0.5)
    table = {"x": rng.normal(MEANS[labels]), "k": roots**2}
    table["k"][::10] = np.nan
    result = mm.fit(table, 2, families={"k": "sqrt"}, missing="model", random_state=0)
    block = result.mixture.blocks[1]
    np.testing.assert_allclose(np.sort(block.means[:, 0]), [4.0, 8.0], atol=0.05)
    rows = {"x": np.zeros(2), "k": np.array([16.0, np.nan])}
    normal = stats.norm(block.means[:, 0], np.sqrt(block.covariances[:, 0, 0]))
    along = stats.norm(result.mixture.means[:, 0], np.sqrt(result.mixture.variances[:, 0]))
    shares = result.mixture.weights * along.pdf(0.0)
    seen = (shares * block.seen * normal.pdf(4.0) / 8.0).sum()  # dT/dy = 1 / (2 · 4)
    expected = np.log([seen, (shares * (1 - block.seen)).sum()])
    np.testing.assert_allclose(result.mixture.log_prob(rows), expected, rtol=1e-9)
    result.mixture.save(tmp_path / "m.json")
    again = mm.Mixture.load(tmp_path / "m.json")
    np.testing.assert_array_equal(again.log_prob(rows), result.mixture.log_prob(rows))
    assert again.sample(100, random_state=0)[0]["k"].dtype == np.float64
    with pytest.raises(mm.InputError, match=r"must not be negative; row 0.*as 'gaussian' in"):
        mm.fit({**table, "k": -roots}, 2, families={"k": "sqrt"})


def test_families_whose_parts_differ_are_refused():
    class NotLinear(Geometric):
        def log_mass(self, counts, rates):
            sizes = 1.0 + rates
            return stats.nbinom.logpmf(counts, sizes, sizes / (sizes + rates))

        def variance_of(self, rates):
            return rates + rates**2 / (1.0 + rates)

    class WrongVariance(Geometric):
        def variance_of(self, rates):
            return rates

    with pytest.raises(mm.InputError, match="must be that of probabilities with the means"):
        register(WrongVariance())
    with pytest.raises(mm.InputError, match="must be linear in the count"):
        register(NotLinear())
    with pytest.raises(mm.errors.InputTypeError, match=r"Incomplete is not complete: .*log_mass"):
        register(type("Incomplete", (CountFamily,), {"name": "x"})())


def test_the_family_of_the_page_works(tmp_path, monkeypatch):
    """The code of docs/architecture.md, as it is printed there."""
    page = Path(__file__).parents[3] / "docs" / "architecture.md"
    code = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    (tmp_path / "family_of_the_page.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("family_of_the_page")
    table, _ = drawn(3_000, 11)
    result = mm.fit(table, 2, families={"k": "geometric"}, random_state=0)
    rates, errors = sorted_rates(result)
    assert (np.abs(rates - RATES) < 4 * errors).all()

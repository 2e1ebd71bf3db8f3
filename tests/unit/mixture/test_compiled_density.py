"""Compiled densities and EM steps against the NumPy code, which is their specification."""

from dataclasses import replace

import numpy as np
import pytest

from momentmix import Mixture
from momentmix.fitting.em import em
from momentmix.mixture import density
from momentmix.mixture.density import Density, mean_log_densities, statistics_of
from momentmix.mixture.gaussian import coefficients, features_of
from momentmix.mixture.parameters import Parameters
from momentmix.native import code

pytestmark = pytest.mark.skipif(code is None, reason="the compiled code is not built")

SHAPES = [(1, 1, 5, 77), (2, 3, 2, 1001), (1, 6, 15, 3000), (3, 7, 40, 500), (1, 5, 9, 128)]


@pytest.fixture(params=[] if code is None else code.use())
def instructions(request):
    """Each instruction set of this processor in turn; the first is the usual one."""
    code.use(request.param)
    yield request.param
    code.use(code.use()[0])


def without_code(function, monkeypatch):
    """What the NumPy code gives."""
    with monkeypatch.context() as patch:
        patch.setattr(density, "code", None)
        patch.setattr(em, "code", None)
        return function()


def batch_of(k, r, d, rng):
    weights = rng.dirichlet(np.full(r, 3.0), size=k)
    return Parameters(weights, rng.normal(size=(k, r, d)), rng.uniform(0.05, 1.0, (k, r, d)))


@pytest.mark.parametrize(("k", "r", "d", "n"), SHAPES)
def test_sums_of_features_in_memory(k, r, d, n, instructions, monkeypatch):
    rng = np.random.default_rng(0)
    batch, features = batch_of(k, r, d, rng), features_of(2.0 * rng.normal(size=(n + 7, d)))
    table, some = coefficients(batch), features[:, 3 : n + 3]  # a view: rows of it are apart
    statistics, mean = statistics_of(table, some)
    expected, expected_mean = without_code(lambda: statistics_of(table, some), monkeypatch)
    np.testing.assert_allclose(statistics, expected, rtol=1e-11, atol=1e-11 * n)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-13)
    np.testing.assert_allclose(mean_log_densities(table, some), expected_mean, rtol=1e-13)


def mixture_of(r, d, rng):
    p = batch_of(1, r, d, rng)[0]
    return Mixture.diagonal(p.weights, 3.0 * p.means, p.variances)


@pytest.mark.parametrize(("r", "d", "n"), [(6, 15, 20_001), (3, 2, 1001), (4, 9, 777), (1, 1, 5)])
def test_rows_of_any_layout(r, d, n, instructions, monkeypatch):
    rng = np.random.default_rng(2)
    mixture = mixture_of(r, d, rng)
    rows, _ = mixture.sample(n, 0)
    wide = np.concatenate([rng.normal(size=(n, 2)), rows, rng.normal(size=(n, 1))], axis=1)
    layouts = {
        "rows": (rows, np.arange(d)),
        "columns": (np.asfortranarray(rows), np.arange(d)),
        "every other": (np.repeat(rows, 2, axis=0)[::2], np.arange(d)),
        "some columns": (wide, np.arange(2, d + 2)),
    }
    plain = Density.of_mixture(mixture.parameters)
    expected = without_code(lambda: plain.em_sums(rows), monkeypatch)
    for values, columns in layouts.values():
        statistics, total, count = replace(plain, columns=columns).em_sums(values)
        np.testing.assert_allclose(statistics, expected[0], rtol=1e-11, atol=1e-11 * n)
        assert total == pytest.approx(expected[1], rel=1e-13)
        assert count == n
    for name in ("log_prob", "predict_proba", "predict"):
        wanted = without_code(lambda name=name: getattr(mixture, name)(rows), monkeypatch)
        for values in (rows, np.asfortranarray(rows)):
            np.testing.assert_allclose(getattr(mixture, name)(values), wanted, atol=1e-11)

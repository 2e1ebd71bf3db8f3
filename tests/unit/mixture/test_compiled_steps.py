"""Compiled EM steps of mixtures with joined features against the NumPy code."""

import numpy as np
import pytest
from tests.unit.fitting.block_laws import block_law

from momentmix.fitting.em import em
from momentmix.mixture import density, gaussian
from momentmix.mixture.gaussian import features_of
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.native import code

pytestmark = pytest.mark.skipif(code is None, reason="the compiled code is not built")

SIZES = [(3, 2, 1), (1, 1, 4, 2, 1), (7,), (2, 2), (33, 2)]  # the last is left to NumPy


def steps_by_numpy(monkeypatch, *arguments):
    with monkeypatch.context() as patch:
        patch.setattr(density, "code", None)
        patch.setattr(em, "code", None)
        return em.run_batch(*arguments)


def case_of(sizes, n, k=3):
    """Rows of a law, a prior of them, and k mixtures with the means moved."""
    law = block_law(sizes, 3, seed=len(sizes))
    rows, _ = gaussian.sample(law, n, np.random.default_rng(n))
    structure = Structure.of_total(1e-6, law.blocks, np.cov(rows.T))
    rng = np.random.default_rng(1)
    moved = [
        Parameters(law.weights, law.means + 0.3 * rng.normal(size=law.means.shape), law.variances,
                   law.covariances, law.blocks)
        for _ in range(k)
    ]  # fmt: skip
    return features_of(rows, law.blocks), Parameters.stack(moved), structure


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("n_steps", [1, 2, 6])
def test_steps_are_those_of_numpy(sizes, n_steps, monkeypatch):
    features, start, structure = case_of(sizes, 2500)
    priors = (
        VariancePrior(structure.floor, structure=structure),
        VariancePrior.of_rows(2500, 3, structure),
    )
    for prior in priors:
        found = em.run_batch(features, start, prior, n_steps)
        expected = steps_by_numpy(monkeypatch, features, start, prior, n_steps)
        for name in ("weights", "means", "variances", "covariances"):
            np.testing.assert_allclose(
                getattr(found.batch, name), getattr(expected.batch, name), rtol=1e-8, atol=1e-9
            )
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-11)
        np.testing.assert_allclose(found.gains, expected.gains, rtol=1e-6, atol=1e-11)


def test_few_rows_reach_the_prior_and_the_floor(monkeypatch):
    """Components of fewer rows than features, and rows that agree to the last digit."""
    features, start, structure = case_of((4, 2), 9, k=2)
    features[:, 5:] = features[:, [4]]
    prior = VariancePrior.of_rows(9, 3, structure)
    found = em.run_batch(features, start, prior, 4)
    expected = steps_by_numpy(monkeypatch, features, start, prior, 4)
    np.testing.assert_allclose(found.batch.spread, expected.batch.spread, rtol=1e-6, atol=1e-10)
    bare = VariancePrior(np.full(6, 1e-3), structure=structure)
    floored = em.run_batch(features, start, bare, 4).batch
    assert structure.eigenvalues(floored).min() == pytest.approx(1e-6, rel=1e-3)


@pytest.mark.parametrize(("sizes", "n"), [((3, 2, 1), 700), ((4, 4, 1), 30_000), ((1, 1), 9000)])
def test_threads_do_not_change_the_bits(sizes, n):
    features, start, structure = case_of(sizes, n, k=5)
    prior = VariancePrior.of_rows(n, 3, structure)
    one = em.run_batch(features, start, prior, 3, 1)
    for n_threads in (2, 3, 8):
        several = em.run_batch(features, start, prior, 3, n_threads)
        np.testing.assert_array_equal(one.batch.spread, several.batch.spread)
        np.testing.assert_array_equal(one.batch.means, several.batch.means)
        np.testing.assert_array_equal(one.values, several.values)
        np.testing.assert_array_equal(one.gains, several.gains)


def test_a_mixture_does_not_depend_on_the_others_of_its_batch():
    features, start, structure = case_of((3, 2), 5000, k=4)
    prior = VariancePrior.of_rows(5000, 3, structure)
    batch = em.run_batch(features, start, prior, 3).batch
    alone = em.run_batch(features, start[2:3], prior, 3).batch
    np.testing.assert_array_equal(batch.spread[2], alone.spread[0])


def test_an_empty_component_has_no_covariances():
    features, start, structure = case_of((3, 2), 500, k=1)
    start.means[0, 1] = 1e3
    found = em.run_batch(features, start, VariancePrior.of_rows(500, 3, structure), 2).batch
    assert found.weights[0, 1] < 1e-80
    np.testing.assert_array_equal(found.variances[0, 1], 1.0)
    np.testing.assert_array_equal(found.covariances[0, 1], 0.0)


def test_a_covariance_without_a_root_is_an_error():
    features, start, structure = case_of((2, 1), 100, k=1)
    start.covariances[0, 0] = 2.0 * start.variances[0, 0].max()
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        em.run_batch(features, start, VariancePrior.of_rows(100, 3, structure), 2)

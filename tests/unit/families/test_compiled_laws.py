"""Compiled EM steps of features with laws of their own against the NumPy code."""

import numpy as np
import pytest
from tests.unit.fitting.family_laws import mixed_law

from momentmix.families.finite import Finite
from momentmix.families.gaussian import GaussianValue
from momentmix.families.poisson import PoissonLaw
from momentmix.families.seen import Seen
from momentmix.fitting.em import em
from momentmix.mixture import density
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.gaussian import coefficients, features_of, sample
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.native import code

from .toys import GeometricLaw

pytestmark = pytest.mark.skipif(code is None, reason="the compiled code is not built")


def one_kind(*laws):
    """Two components of some laws, every feature with a mean of its own."""
    d = sum(len(law.features) for law in laws)
    rng = np.random.default_rng(d)
    means = rng.uniform(0.2, 0.3, size=(2, d))
    for law in laws:
        if isinstance(law, Seen):
            means[:, law.features[1]] += 0.5
    blocks = Blocks(d, (), laws)
    return Parameters(np.array([0.3, 0.7]), means, np.ones((2, d)), None, blocks).completed()


LAWS = {
    "yes/no": lambda: one_kind(*(Finite.indicators((j,)) for j in range(6))),
    "categories": lambda: one_kind(Finite.indicators((0, 1, 2)), Finite.indicators((3, 4), 1)),
    "counts": lambda: one_kind(PoissonLaw((0,)), PoissonLaw((1,))),
    "numbers that may be missing": lambda: one_kind(
        Seen((0, 1), GaussianValue((0,))), Seen((2, 3), GaussianValue((2,)))
    ),
    "counts that may be missing": lambda: one_kind(
        Seen((0, 1), PoissonLaw((0,))), PoissonLaw((2,))
    ),
    "all": mixed_law,
}


def case_of(law, n, k=3):
    """Standardized features of rows, k mixtures with the means moved, and the structure."""
    rows, _ = sample(law, max(n, 2000), np.random.default_rng(n))
    shift, scale = rows.mean(axis=0), rows.std(axis=0)
    p, rows = law.standardized(shift, scale), (rows - shift) / scale
    structure = Structure.of_total(1e-6, p.blocks, np.cov(rows.T))
    rng = np.random.default_rng(1)
    moved = [
        Parameters(p.weights, p.means + 0.3 * rng.normal(size=p.means.shape), p.variances,
                   p.covariances, p.blocks).completed()
        for _ in range(k)
    ]  # fmt: skip
    return features_of(rows[:n], p.blocks), Parameters.stack(moved), structure


def steps_by_numpy(monkeypatch, *arguments):
    with monkeypatch.context() as patch:
        patch.setattr(density, "code", None)
        patch.setattr(em, "code", None)
        return em.run_batch(*arguments)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n_steps", [1, 2, 6])
@pytest.mark.parametrize("instructions", [] if code is None else code.use())
def test_steps_are_those_of_numpy(name, n_steps, instructions, monkeypatch):
    features, start, structure = case_of(LAWS[name](), 2500)
    priors = (
        VariancePrior(structure.floor, structure=structure),
        VariancePrior.of_rows(2500, 2, structure),
    )
    code.use(instructions)
    for prior in priors:
        found = em.run_batch(features, start, prior, n_steps)
        expected = steps_by_numpy(monkeypatch, features, start, prior, n_steps)
        for part in ("weights", "means", "variances", "covariances"):
            np.testing.assert_allclose(
                getattr(found.batch, part), getattr(expected.batch, part), rtol=1e-8, atol=1e-9
            )
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-11)
        np.testing.assert_allclose(found.gains, expected.gains, rtol=1e-6, atol=1e-11)
    code.use(code.use()[0])


@pytest.mark.parametrize("name", LAWS)
def test_few_rows_and_an_empty_component(name, monkeypatch):
    """A component without rows has what the prior says, and answers that no row gave are rare."""
    features, start, structure = case_of(LAWS[name](), 7, k=1)
    start.weights[0] = 1e-320, 1.0
    prior = VariancePrior.of_rows(7, 2, structure)
    found = em.run_batch(features, start, prior, 3)
    expected = steps_by_numpy(monkeypatch, features, start, prior, 3)
    np.testing.assert_allclose(found.batch.means, expected.batch.means, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.batch.spread, expected.batch.spread, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-10)


@pytest.mark.parametrize("name", LAWS)
def test_densities_without_the_squares_that_have_no_part(name):
    """Log-densities alone leave them out; those with statistics do not: the same to rounding."""
    features, start, _ = case_of(LAWS[name](), 900)
    table = coefficients(start)
    alone = density.mean_log_densities(table, features, start.blocks)
    _, with_statistics = density.statistics_of(table, features, start.blocks)
    np.testing.assert_allclose(alone, with_statistics, rtol=1e-14)


def test_a_law_without_compiled_maps_has_no_layout():
    blocks = Blocks(1, (), (GeometricLaw((0,)),))
    assert Structure.of_total(1e-6, blocks, np.eye(1)).layout(blocks) is None

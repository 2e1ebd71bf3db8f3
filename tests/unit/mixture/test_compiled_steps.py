"""Compiled EM steps against the NumPy code: diagonal and joined features, laws of their own."""

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.families.toys import Geometric
from tests.unit.fitting.block_laws import block_law
from tests.unit.fitting.family_laws import mixed_law

from momentmix.families.counts import Poisson
from momentmix.families.dispersed_counts import NegativeBinomial
from momentmix.families.distribution import Distribution
from momentmix.families.gaussian import Gaussian
from momentmix.families.levels import Bernoulli, Categorical
from momentmix.fitting.em import em
from momentmix.mixture import density
from momentmix.mixture.blocks import Blocks
from momentmix.mixture.gaussian import features_of, sample
from momentmix.mixture.parameters import Parameters
from momentmix.mixture.prior import Structure, VariancePrior
from momentmix.native import code

pytestmark = pytest.mark.skipif(code is None, reason="the compiled code is not built")


def one_kind(*laws):
    """Two components of some laws, every feature with a mean of its own."""
    d = sum(len(law.features) for law in laws)
    rng = np.random.default_rng(d)
    means = rng.uniform(0.2, 0.3, size=(2, d))
    for law in laws:
        if law.has_missing:
            means[:, law.features[-1]] += 0.5
    blocks = Blocks(d, (), laws)
    return Parameters(np.array([0.3, 0.7]), means, np.ones((2, d)), None, blocks).completed()


YES_NO, COUNT, NUMBER = Bernoulli(), Poisson(), Gaussian()
SIZED = NegativeBinomial()
LAWS = {
    "yes/no": lambda: one_kind(*(Distribution((j,), YES_NO) for j in range(6))),
    "categories": lambda: one_kind(
        Distribution((0, 1, 2), Categorical()), Distribution((3, 4), YES_NO, True)
    ),
    "counts": lambda: one_kind(Distribution((0,), COUNT), Distribution((1,), COUNT)),
    "numbers that may be missing": lambda: one_kind(
        Distribution((0, 1), NUMBER, True), Distribution((2, 3), NUMBER, True)
    ),
    "counts that may be missing": lambda: one_kind(
        Distribution((0, 1), COUNT, True), Distribution((2,), COUNT)
    ),
    "counts with sizes": lambda: one_kind(
        Distribution((0,), SIZED.covering(9)), Distribution((1,), SIZED)
    ),
    "counts with sizes, at random": lambda: one_kind(
        Distribution((0, 1), SIZED, True),
        Distribution((2,), YES_NO),
        Distribution((3, 4), SIZED.covering(2), True),
    ),
    "all": mixed_law,
    "all, at random": mixed_law,
    "counts, at random": lambda: one_kind(
        Distribution((0, 1), COUNT, True), Distribution((2,), COUNT)
    ),
}
SIZES = [(1,) * 5, (3, 2, 1), (1, 1, 4, 2, 1), (7,), (2, 2), (33, 2)]  # the last one by NumPy
CASES = LAWS | {str(s): lambda s=s: block_law(s, 3, seed=len(s)) for s in SIZES}


def case_of(name, n, k=3):
    """Standardized features of rows, k mixtures with the means moved, and the structure."""
    law = CASES[name]()
    rows, _ = sample(law, max(n, 2000), np.random.default_rng(n))
    shift, scale = rows.mean(axis=0), rows.std(axis=0)
    p, rows = law.standardized(shift, scale), (rows - shift) / scale
    if name.endswith("at random"):
        laws = (replace(x, at_random=True) if x.has_missing else x for x in p.blocks.laws)
        p = replace(p, blocks=replace(p.blocks, laws=tuple(laws))).completed()
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


def assert_same(found, expected):
    for part in ("weights", "means", "variances", "covariances"):
        np.testing.assert_allclose(
            getattr(found.batch, part), getattr(expected.batch, part), rtol=1e-8, atol=1e-9
        )
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-11)
    np.testing.assert_allclose(found.gains, expected.gains, rtol=1e-6, atol=1e-11)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n_steps", [1, 2, 6])
@pytest.mark.parametrize("instructions", [] if code is None else code.use())
def test_steps_are_those_of_numpy(name, n_steps, instructions, monkeypatch):
    features, start, structure = case_of(name, 2500)
    r = start.weights.shape[-1]
    code.use(instructions)
    for prior in (
        VariancePrior(structure.floor, structure=structure),
        VariancePrior.of_rows(2500, r, structure),
    ):
        arguments = features, start, prior, n_steps
        assert_same(em.run_batch(*arguments), steps_by_numpy(monkeypatch, *arguments))
    code.use(code.use()[0])


@pytest.mark.parametrize("name", LAWS)
def test_few_rows_and_an_empty_component(name, monkeypatch):
    """A component without rows has what the prior says, and answers that no row gave are rare."""
    features, start, structure = case_of(name, 7, k=1)
    start.weights[0] = 1e-320, 1.0
    prior = VariancePrior.of_rows(7, 2, structure)
    found = em.run_batch(features, start, prior, 3)
    expected = steps_by_numpy(monkeypatch, features, start, prior, 3)
    np.testing.assert_allclose(found.batch.means, expected.batch.means, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.batch.spread, expected.batch.spread, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-10)


@pytest.mark.parametrize(("name", "n"), [("(3, 2, 1)", 700), ("(2, 2)", 30_000), ("all", 9000)])
def test_neither_threads_nor_other_mixtures_change_the_bits(name, n):
    features, start, structure = case_of(name, n, k=5)
    prior = VariancePrior.of_rows(n, 3, structure)
    one = em.run_batch(features, start, prior, 3, 1)
    for n_threads in (2, 3, 8):
        several = em.run_batch(features, start, prior, 3, n_threads)
        for found, expected in zip(
            (several.batch.spread, several.batch.means, several.values, several.gains),
            (one.batch.spread, one.batch.means, one.values, one.gains),
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)
    alone = em.run_batch(features, start[2:3], prior, 3).batch
    np.testing.assert_array_equal(one.batch.spread[2], alone.spread[0])


def test_a_law_without_compiled_maps_has_no_layout():
    blocks = Blocks(1, (), (Distribution((0,), Geometric()),))
    assert Structure.of_total(1e-6, blocks, np.eye(1)).layout(blocks) is None

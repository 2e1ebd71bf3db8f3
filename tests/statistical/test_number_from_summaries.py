"""The number of groups from a summary alone: columns that are correlated or not normal."""

from math import pi, sqrt

import numpy as np
import pytest

import momentmix as mm


def table_of(seed, kind):
    """Rows of three groups: one pair of columns is correlated, and columns are of a kind."""
    rng = np.random.default_rng([35, seed])
    d, n = int(rng.integers(4, 9)), int(np.exp(rng.uniform(np.log(3000), np.log(40_000))))
    means = rng.normal(0, 1.5, (3, d))
    while min(np.linalg.norm(means[i] - means[j]) for i in range(3) for j in range(i)) < 3:
        means = rng.normal(0, 1.5, (3, d))
    noise = rng.normal(size=(n, d))
    if kind == "laplace":
        noise = rng.laplace(0, sqrt(0.5), (n, d))
    elif kind == "skew-normal":
        delta = 3 / sqrt(10)
        noise = delta * np.abs(rng.normal(size=(n, d))) + sqrt(1 - delta**2) * noise
        noise = (noise - delta * sqrt(2 / pi)) / sqrt(1 - 2 * delta**2 / pi)
    r = rng.uniform(0.3, 0.8) * rng.choice([-1, 1])
    noise[:, 1] = r * noise[:, 0] + sqrt(1 - r**2) * noise[:, 1]
    return means[rng.choice(3, n, p=rng.dirichlet(np.full(3, 6.0)))] + noise


def answer(table, seed=0):
    fit = mm.fit(mm.summarize(table), "auto", random_state=seed)
    return fit.mixture.n_components, fit.certificate.verdict


def test_a_correlated_pair_makes_no_groups():
    found = [answer(table_of(seed, "normal")) for seed in range(6)]
    assert sum(verdict == "passed" and r != 3 for r, verdict in found) == 0
    assert found.count((3, "passed")) >= 4  # without joining none of them passes


def test_the_seed_does_not_choose_the_number():
    table = table_of(1, "laplace")
    assert len({answer(table, seed) for seed in range(3)}) == 1


@pytest.mark.long
def test_no_wrong_number_passes():
    kinds = ("normal", "laplace", "skew-normal")
    found = [answer(table_of(seed, kind)) for kind in kinds for seed in range(20)]
    assert sum(verdict == "passed" and r != 3 for r, verdict in found) == 0

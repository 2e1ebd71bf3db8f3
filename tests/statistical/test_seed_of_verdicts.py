"""One table has one verdict: seeds of a fit draw starts, and not what the certificate says."""

import numpy as np
import pytest

import momentmix as mm


def right_model(seed):
    """Rows of a Gaussian mixture, and its number of components."""
    rng = np.random.default_rng(7000 + seed)
    d, r = int(rng.integers(3, 9)), int(rng.integers(1, 4))
    n = int(np.exp(rng.uniform(np.log(200), np.log(2900))))
    means, deviations = rng.normal(0, 2.5, (r, d)), np.exp(rng.normal(0, 0.3, (r, d)))
    labels = rng.choice(r, size=n, p=rng.dirichlet(np.full(r, 8.0)))
    return means[labels] + deviations[labels] * rng.normal(size=(n, d)), r


def verdicts(table, n_components, seeds):
    fits = [mm.fit(table, n_components, blocks="diag", random_state=seed) for seed in seeds]
    return {fit.certificate.verdict for fit in fits}


# Three of them had two verdicts while the test drew its samples by the seed of the fit.
@pytest.mark.parametrize("seed", [0, 1, 44, 46, 55])
def test_the_seed_does_not_change_the_verdict(seed):
    assert len(verdicts(*right_model(seed), seeds=(0, 1, 2))) == 1


@pytest.mark.long
def test_the_seed_changes_one_verdict_of_thirty_at_most():
    found = [verdicts(*right_model(seed), seeds=range(5)) for seed in range(100, 130)]
    assert sum(len(kinds) > 1 for kinds in found) <= 1
    assert sum("passed" in kinds for kinds in found) >= 24


def test_another_table_may_have_another_verdict():
    table, r = right_model(0)
    table[:, 0] = np.exp(table[:, 0] / np.ptp(table[:, 0]) * 8)
    assert verdicts(table, r, seeds=(0,)) != verdicts(*right_model(0), seeds=(0,))

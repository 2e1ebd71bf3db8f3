"""Whether the number of components is supported, by moments and by rows."""

import re
from dataclasses import replace

import numpy as np
import pytest
from fitting_helpers import parameters_of, random_mixture

import momentmix as mm
from momentmix.fitting.context import FitContext
from momentmix.fitting.data import summarized
from momentmix.fitting.from_moments import (
    LARGEST_DISAGREEMENT,
    disagreement,
    support_from_moments,
)
from momentmix.fitting.inference import certify as module
from momentmix.fitting.inference.over_identification import OverIdentification
from momentmix.fitting.moments.fit import SMALLER, MomentFit, fit_moments
from momentmix.mixture.parameters import Parameters

N = 20_000


def rng(seed=0):
    return np.random.default_rng(seed)


TWO = mm.Mixture.diagonal([0.4, 0.6], [[-2, 1, 0, 1], [1, -1, 1, 0]], np.ones((2, 4)))
ROWS = {1: rng().standard_normal((N, 4)), 2: TWO.sample(N, random_state=0)[0]}
PRICE = 0.5 * 9 * np.log(3000) / 3000  # the 2d + 1 parameters of a component


@pytest.mark.parametrize(
    ("n_true", "r", "from_rows", "supported", "words"),
    [
        (2, 2, False, True, "the rank of the moments shows it"),
        (1, 2, False, False, r"1 component fits the moments too \(least p-value .*determine 2\.$"),
        (2, 2, True, True, "BIC rejects 1 component"),
        (1, 2, True, False, "1 component explains the rows as well: the last one gains "),
        (2, 3, True, False, f"2 components explain the rows as well.*BIC asks for {PRICE:.2g}"),
    ],
)
def test_what_supports_a_number_of_components(n_true, r, from_rows, supported, words):
    data = ROWS[n_true][:3000] if from_rows else mm.summarize(ROWS[n_true], order=4)
    found = mm.fit(data, r, random_state=0).certificate.support
    assert (found.n_components, found.supported) == (r, supported)
    assert re.match(words, found.text)


def test_moments_may_support_what_bic_does_not(monkeypatch):
    rejected = OverIdentification(900.0, 20, 1e-9, 0.5)
    monkeypatch.setattr(module, "check_conditions", lambda *_, **__: rejected)
    found = mm.fit(ROWS[1][:3000], 2, random_state=0).certificate.support
    assert (found.supported, found.text) == (True, "the moments reject 1 component")


def test_a_rival_that_sorts_rows_otherwise_counts_against_it():
    moments, _ = summarized(ROWS[2], 4, 1)
    smaller = fit_moments(moments, 1, FitContext(rng()), SMALLER)
    fit = fit_moments(moments, 2, FitContext(rng()), parent=smaller.raw)
    p = fit.parameters
    permuted = p[::-1]
    test = smaller.check(moments, rng())
    found = support_from_moments(replace(fit, rivals=[permuted]), test, rng())
    # Control: the same mixture is no rival.
    assert (found.supported, found.text) == (True, "the moments reject 1 component")
    other = Parameters(p.weights, p.means[:, ::-1], p.variances)
    share = disagreement(p, other, rng())
    assert share > LARGEST_DISAGREEMENT
    found = support_from_moments(replace(fit, rivals=[permuted, other]), test, rng())
    assert found.supported is False
    assert found.text.startswith("another mixture of 2 components fits the moments as well")
    named = float(re.search(r"sorts (\d+) % of the rows otherwise", found.text)[1]) / 100
    # Two draws of 2,500 rows, and whole percents.
    assert abs(named - share) < 3 * np.sqrt(2 * share * (1 - share) / 2500) + 0.005


def test_what_cannot_be_tested_is_not_decided():
    """One column: four components have more parameters than there are powers."""
    truth = mm.Mixture.diagonal([0.25] * 4, 8.0 * np.arange(4)[:, None], np.ones((4, 1)))
    moments, _ = summarized(truth.sample(2000, random_state=0)[0], 1, 1)
    z = truth.parameters.standardized(moments.shift, moments.scale)

    def fit(p):
        return MomentFit(p, p, None, [], None)

    test = fit(z[:3].normalized()).check(moments, rng())
    found = support_from_moments(fit(z), test, rng())
    assert found.supported is None
    assert "cannot tell whether 3 components would do" in found.text


# -- disagreement -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_a_permuted_copy_agrees(seed):
    p = parameters_of(random_mixture(4, 3, seed))
    assert disagreement(p, p[[2, 0, 3, 1]], rng()) == 0.0


def test_disagreement_is_the_share_of_rows_sorted_otherwise():
    apart = np.array([[-6.0, 0.0], [6.0, 0.0]])
    first = Parameters(np.array([0.5, 0.5]), apart, np.ones((2, 2)))
    across = Parameters(np.array([0.5, 0.5]), apart[:, ::-1], np.ones((2, 2)))
    # Labels of the two are independent coins: half of the rows agree, up to chance.
    found = disagreement(first, across, rng())
    assert 0.5 - 3 * np.sqrt(0.25 / 2500) < found <= 0.5
    # One component instead of two loses the lighter one.
    light = Parameters(np.array([0.3, 0.7]), apart, np.ones((2, 2)))
    one = Parameters(np.ones(1), np.zeros((1, 2)), np.ones((1, 2)))
    assert abs(disagreement(light, one, rng()) - 0.3) < 3 * np.sqrt(0.21 / 2500)

"""Whether the number of components is supported by the moments."""

import re

import numpy as np
import pytest

import momentmix as mm
from momentmix.fitting.from_moments import support_from_moments
from momentmix.fitting.inference.over_identification import UNTESTABLE

N = 20_000
TWO = mm.Mixture.diagonal([0.4, 0.6], [[-2, 1, 0, 1], [1, -1, 1, 0]], np.ones((2, 4)))
ROWS = {
    1: np.random.default_rng(0).standard_normal((N, 4)),
    2: TWO.sample(N, random_state=0)[0],
}


@pytest.mark.parametrize(
    ("n_true", "r", "supported", "words"),
    [
        (2, 2, True, "the rank of the moments shows it"),
        (1, 2, False, r"1 component fits the moments too \(least p-value .*determine 2\.$"),
    ],
)
def test_what_supports_a_number_of_components(n_true, r, supported, words):
    found = mm.fit(mm.summarize(ROWS[n_true], order=4), r, random_state=0).certificate.support
    assert (found.n_components, found.supported) == (r, supported)
    assert re.match(words, found.text)


@pytest.mark.parametrize(("n_true", "r"), [(1, 2), (2, 3)])
def test_with_rows_other_rows_do_not_give_one_component_too_many(n_true, r):
    certificate = mm.fit(ROWS[n_true][:3000], r, random_state=0).certificate
    assert certificate.verdict == "not passed"
    assert certificate.not_reproduced.size
    right = mm.fit(ROWS[n_true][:3000], n_true, random_state=0).certificate  # control
    assert right.verdict == "passed"


def test_what_cannot_be_tested_is_not_decided():
    found = support_from_moments(4, UNTESTABLE)
    assert found.supported is None
    assert "cannot tell whether 3 components would do" in found.text

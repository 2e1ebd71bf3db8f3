"""Rows of other array libraries under mixtures of any family: the answers are arrays of theirs."""

import numpy as np

import momentmix as mm
from momentmix import BernoulliBlock, GaussianBlock, PoissonBlock


def test_answers_are_those_of_numpy(library):
    blocks = [
        PoissonBlock([1.0, 5.0]),
        BernoulliBlock([0.25, 0.5]),
        GaussianBlock.of([0.0, 3.0], [1.0, 2.0], seen=[0.5, 0.75]),
    ]
    mixture = mm.Mixture.from_blocks([0.4, 0.6], blocks)
    rows = mixture.sample(50, random_state=0)[0]
    rows[::7, 0] = np.nan
    own = library.put(rows)
    for method in ("log_prob", "predict_proba", "predict"):
        found = getattr(mixture, method)(own)
        assert isinstance(found, library.kind)
        np.testing.assert_array_equal(library.back(found), getattr(mixture, method)(rows))
    filled = mixture.impute(own)
    np.testing.assert_array_equal(filled, mixture.impute(rows))
    assert not np.isnan(filled).any()

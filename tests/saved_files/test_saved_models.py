"""Model files of every version stay readable, with the record of the fit in them."""

from pathlib import Path

import numpy as np
from campaigns.strangers_reader import read_model

from momentmix import DiagonalMixture
from momentmix.fitting.record import load_fit

FILE = Path(__file__).parent / "fitted_model_v1.json"


def test_the_mixture_and_the_record_of_version_1():
    mixture, record = load_fit(FILE)
    assert mixture.feature_names == ("a", "b<", "c")
    np.testing.assert_array_equal(mixture.weights, [0.625, 0.375])
    assert DiagonalMixture.load(FILE).means.tolist() == [[-1.5, 0.25, 3.0], [2.0, -0.125, 1e300]]
    assert (record.n_rows, record.order, record.n_passes, record.seed) == (1000, 3, 4, 7)
    assert record.command == "momentmix fit rows.csv -r 2 -o model.json --seed 7"
    assert not record.certificate.passed
    assert record.certificate.findings[0].name == "too-few-rows"
    assert np.isnan(record.certificate.p_value)
    assert record.intervals.means[0].shape == (2, 3)
    assert np.isnan(record.standard_errors.variances[1, 2])
    assert record.log_likelihood is None
    assert read_model(FILE.read_bytes())[0] == [0.625, 0.375]  # by the stranger, with the checksum

"""Model files of every version stay readable, with the record of the fit in them."""

import json
from pathlib import Path

import numpy as np
import pytest
from campaigns.strangers_reader import read_model
from scipy import stats

from momentmix import DiagonalMixture, Mixture
from momentmix.fitting.outcome import JoinedColumns, JoinReason
from momentmix.fitting.record import load_fit, save_fit

FILE = Path(__file__).parent / "fitted_model_v1.json"
RECORD_2 = Path(__file__).parent / "fitted_model_record_v2.json"
TABLE = Path(__file__).parent / "table_model_v3.json"
RECORD_3 = Path(__file__).parent / "fitted_model_record_v3.json"
RECORD_5 = Path(__file__).parent / "fitted_model_record_v5.json"
JOINED = Path(__file__).parent / "fitted_model_v2.json"


def test_the_mixture_and_the_record_of_version_1():
    mixture, record = load_fit(FILE)
    assert mixture.feature_names == ("a", "b<", "c")
    np.testing.assert_array_equal(mixture.weights, [0.625, 0.375])
    assert DiagonalMixture.load(FILE).means.tolist() == [[-1.5, 0.25, 3.0], [2.0, -0.125, 1e300]]
    assert (record.n_rows, record.order, record.n_passes, record.seed) == (1000, 3, 4, 7)
    assert record.command == "momentmix fit rows.csv -r 2 -o model.json --seed 7"
    assert not record.certificate.passed
    assert record.certificate.findings[0].kind == "too-few-rows"
    assert np.isnan(record.certificate.p_value)
    assert record.intervals.means[0].shape == (2, 3)
    assert np.isnan(record.standard_errors.variances[1, 2])
    assert record.log_likelihood is None
    assert record.certificate.verdict == "not passed"
    assert record.certificate.support is None
    assert record.certificate.test.groups == record.tried == ()
    assert read_model(FILE.read_bytes())[0] == [0.625, 0.375]  # by the stranger, with the checksum


def test_the_record_of_version_2():
    mixture, record = load_fit(RECORD_2)
    assert mixture.weights.tolist() == [0.625, 0.375]
    certificate = record.certificate
    assert certificate.verdict == "untested"
    assert certificate.untested == ["from these moments it cannot be told.\n"]
    assert certificate.support.n_components == 2
    assert [group.name for group in certificate.test.groups] == [
        "distinct features",
        "shape of column 'b<'",
    ]
    assert certificate.test.groups[0][1:4] == (3.5, 4, 0.5)
    assert [trial.chosen for trial in record.tried] == [False, True, False]
    assert record.tried[1].bic == 9100.5
    assert np.isnan(record.tried[2].bic)
    assert read_model(RECORD_2.read_bytes())[0] == [0.625, 0.375]


def saved_again(folder, mixture, record):
    """The record as version 2 or 3 would write it; what they lack must be unknown."""
    save_fit(folder / "again.json", mixture, record)
    fit = json.loads((folder / "again.json").read_bytes())["fit"]
    assert fit["version"] == 5
    assert [trial.pop("reproducibility") for trial in fit["tried"]] == [[]] * len(fit["tried"])
    r, certificate = mixture.n_components, fit["certificate"]
    assert certificate.pop("reproducibility") == [None] * r
    assert certificate.pop("separation") == [[None] * r] * r
    unknown = {"level": "unknown", "distance": None, "columns": {}}
    assert certificate.pop("description") == unknown
    return {**fit, "version": 3 if record.joined else 2}


def test_the_record_of_version_3(tmp_path):
    mixture, record = load_fit(RECORD_3)
    assert record.joined == (JoinedColumns((0, 2), JoinReason.BIC, 12.5, 0.0, ("a", "c")),)
    assert str(record.joined[0]) == "a, c: BIC falls by 12"
    assert saved_again(tmp_path, mixture, record) == json.loads(RECORD_3.read_bytes())["fit"]
    assert read_model(RECORD_3.read_bytes())[0] == mixture.weights.tolist()


def test_the_record_of_version_5(tmp_path):
    mixture, record = load_fit(RECORD_5)
    assert record.reproducibility.tolist() == [0.96875, 0.75]
    assert record.separation[0, 1] == record.separation[1, 0] == 0.8125
    assert np.isnan(record.separation.diagonal()).all()
    assert (record.certificate.description.level, record.certificate.description.distance) == (
        "rough",
        0.0625,
    )
    assert record.certificate.description.columns["b<"] == 0.03125
    assert record.certificate.verdict == "useful"
    assert not record.certificate.passed
    assert record.tried[1].reproducibility == (0.96875, 0.75)
    assert np.isnan(record.tried[2].reproducibility[1])
    save_fit(tmp_path / "again.json", mixture, record)
    assert (tmp_path / "again.json").read_bytes() == RECORD_5.read_bytes()


def test_joined_columns_of_version_2(tmp_path):
    mixture, record = load_fit(JOINED)
    assert record.joined == ()
    assert [block.columns for block in mixture.blocks] == [(0, 2), (1,)]
    assert mixture.covariances[:, 0, 2].tolist() == [-0.75, 1 / 3]
    assert mixture.variances[0].tolist() == [1.0, 0.5, 2.0]
    assert record.standard_errors.covariances[:, 2, 0].tolist() == [0.25, 0.5]
    assert np.isnan(record.intervals.covariances[1][0, 2, 2])
    assert saved_again(tmp_path, mixture, record) == json.loads(JOINED.read_bytes())["fit"]
    *_, blocks = read_model(JOINED.read_bytes())  # by the stranger, with the checksum
    assert blocks[0]["columns"] == [0, 2]


def test_the_table_of_version_3():
    mixture = Mixture.load(TABLE)
    np.testing.assert_array_equal(mixture.weights, [0.625, 0.375])
    expected = [[31.5, 0.0, 1.0, 0.125, np.nan, 1.5], [np.nan, 2.0, 1 / 3, 0.7, np.nan, 4.0]]
    np.testing.assert_array_equal(mixture.means, expected)
    assert mixture.blocks[3].probability("göld").tolist() == [0.25, 0.2]
    assert mixture.blocks[0].seen.tolist() == [0.75, 0.0]
    rows = {"age": [30.0, None], "x": [0.5, None], "y": [1.0, 0.25], "smokes": ["yes", "no"]}
    rows |= {"plan": [None, "göld"], "visits": [2, 7]}
    # 0.625 · 0.25 · N(y; 1, 2) · 0.875 · 0.25 · Poisson(7; 1.5), and the like
    second = stats.norm([1, 1 / 3], np.sqrt([2, 0.5])).pdf(0.25)
    second *= [0.625 * 0.25 * 0.875 * 0.25, 0.375 * 0.3 * 0.5 * 0.2]
    second *= stats.poisson([1.5, 4.0]).pmf(7)
    assert mixture.log_prob(rows)[1] == pytest.approx(np.log(second.sum()), rel=1e-7)
    assert read_model(TABLE.read_bytes())[0] == [0.625, 0.375]

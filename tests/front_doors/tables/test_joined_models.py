"""Models with joined columns through every door: files, displays, report, commands, Dask."""

import json

import numpy as np
import pandas as pd
import pytest

import momentmix as mm
from momentmix import displays
from momentmix.fitting.record import load_fit, result_of

NAMES = ["length", "rate", "mass", "width"]
UNITS = np.array([1.0, 1e-5, 1.0, 30.0])  # columns whose deviations differ by 3e6


@pytest.fixture(scope="module")
def truth():
    covariances = np.zeros((2, 4, 4))
    covariances[:, range(4), range(4)] = [[1.0, 4.0, 1.0, 2.0], [2.0, 2.0, 1.0, 1.0]]
    covariances[:, 0, 1] = covariances[:, 1, 0] = [1.8, -1.4]
    covariances *= np.outer(UNITS, UNITS)
    means = np.array([[0.0, 0.0, 0.0, 0.0], [4.0, 5.0, 3.0, 4.0]]) * UNITS
    return mm.Mixture([0.6, 0.4], means, covariances, NAMES)


@pytest.fixture(scope="module")
def rows(truth):
    return truth.sample(3000, random_state=0)[0]


@pytest.fixture(scope="module")
def result(rows):
    return mm.fit(pd.DataFrame(rows, columns=NAMES), 2, blocks="auto", random_state=0)


def test_the_record_of_a_fit_keeps_them(result, tmp_path):
    path = tmp_path / "model.json"
    result.save(path)
    mixture, record = load_fit(path)
    np.testing.assert_array_equal(mixture.covariances, result.mixture.covariances)
    np.testing.assert_array_equal(
        record.standard_errors.covariances, result.standard_errors.covariances
    )
    np.testing.assert_array_equal(record.intervals().covariances, result.intervals().covariances)
    assert record.to_dict() == result.to_dict()
    assert result.details().startswith("Mixture of 2 Gaussians, 4 features")
    for part, change, message in (
        (
            "standard_errors",
            lambda x: x.pop("covariances"),
            "fit.standard_errors lacks covariances",
        ),
        ("intervals", lambda x: x["covariances"].reverse(), "covariances must have the lower ends"),
        ("standard_errors", lambda x: x["covariances"].pop(), r"in lists \(2, 4, 4\)"),
    ):
        document = json.loads(path.read_text())
        del document["sha256"]
        change(document["fit"][part])
        (tmp_path / "bad.json").write_text(json.dumps(document))
        with pytest.raises(mm.InputError, match=message):
            load_fit(tmp_path / "bad.json")


def test_the_record_says_why_columns_were_joined(result, tmp_path):
    (block,) = result.joined
    assert (block.columns, block.names) == ((0, 1), ("length", "rate"))
    result.save(tmp_path / "model.json")
    _, record = load_fit(tmp_path / "model.json")
    assert list(map(str, record.joined)) == list(map(str, result.joined))
    assert record.joined[0].why == block.why
    mm.report(tmp_path / "model.json", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text("utf-8")
    assert f"length, rate: {block.why}" in page


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("columns", [0, 2], "fit.joined must list the columns that the mixture joins"),
        ("columns", [0, 9], "fit.joined.columns is 9, out of range"),
        ("why", 2, "fit.joined.why must be a string"),
    ],
)
def test_damaged_reasons_are_refused(result, key, value, message):
    document = result.to_dict()
    document["joined"][0][key] = value
    with pytest.raises(ValueError, match=message):
        result_of(document, result.mixture)


def test_ellipses_tilt(truth, rows):
    last = truth.means.shape[1] - 1
    display = displays.PairsDisplay.from_estimator(truth, rows, features=[0, 1, last])
    assert display.pairs == [(0, 1), (0, last), (1, last)]
    for k in range(2):
        ellipse = display.axes_.flat[0].patches[2 * k]
        # Every point of the ellipse is one Mahalanobis deviation away.
        points = ellipse.get_patch_transform().transform(
            np.column_stack([np.cos(np.arange(9)), np.sin(np.arange(9))])
        )
        offsets = (points - truth.means[k, :2]) / UNITS[:2]
        matrix = truth.covariances[k, :2, :2] / np.outer(UNITS[:2], UNITS[:2])
        distances = np.einsum("ni,ij,nj->n", offsets, np.linalg.inv(matrix), offsets)
        np.testing.assert_allclose(distances, 1.0, rtol=1e-6)
    straight = display.axes_.flat[1].patches[0]
    assert straight.angle == 0


def test_a_report_of_a_mixture_without_density(tmp_path):
    copies = mm.Mixture([1.0], [[0.0, 0.0]], [[[1.0, 1.0], [1.0, 1.0]]])
    assert not copies.has_density
    mm.report(copies, tmp_path / "r.html", np.random.default_rng(0).standard_normal((50, 2)))
    assert "Rows</th>" not in (tmp_path / "r.html").read_text()

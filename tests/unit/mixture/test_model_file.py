import json

import numpy as np
import pytest

from momentmix import Mixture, MomentSummary, summarize
from momentmix.errors import ModelFileError, SummaryFileError


@pytest.fixture
def mixture():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3))
    return Mixture.diagonal(
        weights, rng.standard_normal((3, 2)) * 1e-300, rng.random((3, 2)) * 1e300, ["é\x1b", "b"]
    )


def test_bitwise_round_trip_with_names(mixture, tmp_path):
    path = tmp_path / "model.json"
    mixture.save(path)
    again = Mixture.load(path)
    for name in ("weights", "means", "variances"):
        np.testing.assert_array_equal(getattr(again, name), getattr(mixture, name))
    assert again.feature_names == mixture.feature_names
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()
    assert path.read_bytes().isascii()


COLUMN = {"name": None, "family": "gaussian", "levels": [], "has_missing": False, "center": 0.0}
BLOCK = {"columns": [0], "family": "gaussian", "means": [[0.0]], "covariances": [[[1.0]]]}
BLOCK["seen"] = None
GOOD = {
    "format": "momentmix.Mixture",
    "version": 5,
    "weights": [1.0],
    "schema": {"columns": [COLUMN]},
    "blocks": [BLOCK],
}


def changed(**changes):
    return json.dumps({**GOOD, **changes})


def block(**changes):
    return changed(blocks=[{**BLOCK, **changes}])


BAD = [
    ("", "does not start with {"),
    ("[" * 100_000, "not a momentmix model"),
    (b"\x80\x04\x95", "does not start with {"),
    (changed(format="other"), 'no "format"'),
    (changed(version=3), "has version 3; this momentmix reads version 5"),
    (changed().replace('"version": 5', '"version": 5, "version": 5'), "a key occurs twice"),
    (changed().replace("[1.0]", "[NaN]", 1), "NaN is not a number"),
    (block(means=[[10**400]]), "means must be numbers in lists"),
    (changed(sha256="0" * 64), "checksum does not match.*remove the line"),
    (block(means=[[0.0], [1.0]]), "must have shape"),
    (changed().replace("0.0", "1e999"), "1e999 is beyond the range of numbers"),
    (json.dumps({k: v for k, v in GOOD.items() if k != "blocks"}), "lacks blocks"),
    (changed(colour=1), "holds unknown keys: 'colour'"),
    (changed(fit=[]), "fit, the record of the fit, must be an object"),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "model.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ModelFileError, match=message):
        Mixture.load(path)


def test_places_that_are_no_model(tmp_path, mixture):
    with pytest.raises(ModelFileError, match="not a regular file"):
        Mixture.load(tmp_path)
    with pytest.raises(ModelFileError, match="does not exist"):
        Mixture.load(tmp_path / "nothing")
    with pytest.raises(ModelFileError, match="not a regular file"):
        Mixture.load("/dev/zero")
    summarize(np.eye(3), 2).save(tmp_path / "x.mms")
    with pytest.raises(ModelFileError, match="summaries have to be fitted first"):
        Mixture.load(tmp_path / "x.mms")
    mixture.save(tmp_path / "x.json")
    with pytest.raises(SummaryFileError, match="perhaps a model"):
        MomentSummary.load(tmp_path / "x.json")

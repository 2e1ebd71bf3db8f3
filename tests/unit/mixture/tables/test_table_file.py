"""Model files of tables' mixtures: the same bits come back, and nothing else is taken for one."""

import json

import numpy as np
import pytest
from unit.mixture.table_truths import NAMES, all_families, with_gaps

import momentmix as mm
from momentmix.errors import ModelFileError


@pytest.fixture(scope="module")
def mixture():
    return all_families()


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_bits_come_back(tmp_path, seed):
    mixture = all_families(seed)
    path, again = tmp_path / "model.json", tmp_path / "again.json"
    mixture.save(path)
    loaded = mm.Mixture.load(path)
    rows = with_gaps(mixture.sample(100, random_state=seed)[0])
    np.testing.assert_array_equal(loaded.log_prob(rows), mixture.log_prob(rows))
    assert loaded.schema == mixture.schema
    assert loaded.feature_names == NAMES
    loaded.save(again)
    assert again.read_bytes() == path.read_bytes()
    assert path.read_bytes().isascii()


def test_a_changed_number_does_not_pass(mixture, tmp_path):
    path = tmp_path / "model.json"
    mixture.save(path)
    document = json.loads(path.read_text())
    for change in (
        lambda d: d["blocks"][2]["rates"].__setitem__(0, 1.0),
        lambda d: d["schema"]["columns"][0].__setitem__("center", 43.0),
        lambda d: d["schema"]["columns"][3]["levels"].__setitem__(0, "bronze"),
        lambda d: d["blocks"][0]["seen"].__setitem__(0, 0.5),
        lambda d: d["weights"].reverse(),
    ):
        copy = json.loads(json.dumps(document))
        change(copy)
        path.write_text(json.dumps(copy))
        with pytest.raises(ModelFileError, match="the checksum does not match"):
            mm.Mixture.load(path)
        del copy["sha256"]  # edited on purpose
        path.write_text(json.dumps(copy))
        assert mm.Mixture.load(path).n_columns == 8


def at(*place):
    """A function that sets a value at a place of a document, or removes it."""

    def change(document, value):
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        if value is at:
            del holder[place[-1]]
        else:
            holder[place[-1]] = value

    return change


COLUMN, BLOCK = ("schema", "columns"), ("blocks",)
BAD = [
    (at("schema"), at, "lacks schema"),
    (at(*COLUMN, 0, "family"), "normal", "families must be"),
    (at(*COLUMN, 1, "levels"), ["no"], "must have 2 different levels"),
    (at(*COLUMN, 1, "levels"), ["no", "\ud800"], "unpaired surrogate"),
    (at(*COLUMN, 0, "name"), "x", "different names"),
    (at(*COLUMN, 2, "center"), 3.0, "only gaussian columns with missing cells have a center"),
    (at(*COLUMN, 0, "has_missing"), 1, "must be true or false"),
    (at(*COLUMN, 2, "has_missing"), True, "seen as the schema has missing cells"),
    (at(*BLOCK, 4, "columns"), [5, 4], "in ascending order"),
    (at(*BLOCK, 4, "columns"), [4, 9], "not all gaussian in the schema"),
    (at(*BLOCK, 0, "family"), "normal", "a family that is known"),
    (at(*BLOCK, 2, "family"), "gaussian", "lacks covariances, means"),
    (at(*BLOCK, 1, "probabilities"), [0.5, 0.5], "blocks must have 3 components"),
    (at(*BLOCK, 1, "probabilities", 0), 1.5, "probabilities must be from 0 to 1"),
    (at(*BLOCK, 2, "rates", 0), -1.0, "rates of counts must be from 0"),
    (at(*BLOCK, 3, "seen"), None, "seen as the schema has missing cells"),
    (at(*BLOCK, 4, "covariances", 0, 0, 1), 9.0, "must be symmetric"),
    (at(*BLOCK, 4, "covariances", 0), [[1.0, 2.0], [2.0, 1.0]], "positive semidefinite"),
    (at("weights", 0), 0.9, "weights must be non-negative with sum 1"),
]

"""The record of a fit in a model file: a damaged one is refused, and the mixture is read."""

import json

import numpy as np
import pytest

import momentmix as mm
from momentmix.errors import InputError, ModelFileError
from momentmix.fitting.record import load_fit


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(3)
    truth = mm.Mixture.diagonal([0.7, 0.3], 3 * rng.standard_normal((2, 4)), np.ones((2, 4)))
    return mm.fit(truth.sample(3000, random_state=0)[0], 2, random_state=0)


@pytest.fixture
def model(result, tmp_path):
    result.save(tmp_path / "model.json", command="by hand")
    return tmp_path / "model.json"


ODD = {"name": "x", "severity": "y", "text": "z"}


def damage(*path, value):
    def change(fit):
        for key in path[:-1]:
            fit = fit[key]
        if value is None:
            del fit[path[-1]]
        else:
            fit[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            damage("version", value=6),
            "fit has version 6; this momentmix reads version ",
        ),
        (damage("n_rows", value=0), "fit.n_rows is 0, out of range"),
        (damage("converged", value=1), "fit.converged must be true or false"),
        (damage("command", value=None), "fit lacks command"),
        (damage("more", value=1), "fit holds unknown keys: 'more'"),
        (damage("certificate", "p_value", value=1.5), "p_value is 1.5, out of range"),
        (damage("certificate", "statistic", value=1.5), None),
        (damage("certificate", "passed", value=False), "passed=False, its numbers say True"),
        (damage("certificate", "findings", value=[{}]), "findings lacks name, severity, text"),
        (damage("certificate", "findings", value=[ODD]), "severity must be one of 'note'"),
        (damage("intervals", "means", value=[[1.0]]), "must be numbers or null in lists"),
        (damage("standard_errors", "weights", value=[-1.0, 1.0]), "must not be negative"),
        (damage("intervals", "weights", value=[[0.9, 0.9], [0.1, 0.1]]), "lower ends first"),
    ],
)
def test_a_damaged_record_is_refused_and_the_mixture_is_not(model, change, message):
    document = json.loads(model.read_text())
    change(document["fit"])
    model.write_text(json.dumps(document))
    with pytest.raises(ModelFileError, match="the checksum does not match"):
        mm.Mixture.load(model)
    del document["sha256"]  # as the message says
    model.write_text(json.dumps(document))
    assert mm.Mixture.load(model).n_components == 2
    if message is None:  # a number that changes no verdict is as good as another
        assert load_fit(model)[1].certificate.statistic == 1.5
        return
    with pytest.raises(InputError, match=f"record of the fit is damaged.*{message}"):
        load_fit(model)

"""The commands with blocks of correlated columns: fit, what uses its model, bad blocks."""

import os

import numpy as np
import pandas as pd
import pytest

import momentmix as mm

NAMES = ["length", "width", "height", "x", "y", "mass"]


@pytest.fixture(scope="module")
def truth():
    rng = np.random.default_rng(0)
    covariances = np.stack([np.eye(6)] * 2)
    covariances[:, 0, 1] = covariances[:, 1, 0] = [0.8, -0.7]
    covariances[0, 3, 4] = covariances[0, 4, 3] = 0.5
    return mm.Mixture([0.6, 0.4], 4 * rng.standard_normal((2, 6)), covariances, NAMES)


@pytest.fixture(scope="module")
def frame(truth):
    return pd.DataFrame(truth.sample(3000, random_state=0)[0], columns=NAMES)


@pytest.fixture
def folder(tmp_path, monkeypatch, frame, truth):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("rows.csv", index=False)
    mm.summarize(frame, order=4).save("rows.mms")
    truth.save("truth.json")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("length,width;x,y", [["length", "width"], ["x", "y"]]),
        ("0, 1 ; x,4;", [[0, 1], [3, 4]]),
        ("auto", "auto"),
        ("full", [range(6)]),
    ],
)
def test_fit_gives_the_bits_of_python(folder, momentmix, frame, text, blocks):
    done = momentmix("fit", "rows.csv", "-r", "2", "--blocks", text, "-v", "-o", "model.json")
    assert done.code == 0, done.err
    model, result = mm.Mixture.load("model.json"), mm.fit(frame, 2, blocks=blocks, random_state=0)
    np.testing.assert_array_equal(model.covariances, result.mixture.covariances)
    joined = model.parameters.blocks.joined
    assert joined == (((0, 1, 2, 3, 4, 5),) if text == "full" else ((0, 1), (3, 4)))
    assert "of length, width" in done.out
    why = {"auto": "BIC falls by", "full": "given"}.get(text, "given")
    for block in result.joined:
        assert f"  joined               {', '.join(block.names)}: {why}" in done.out
    assert "Mixture of 2 Gaussians" in done.out


@pytest.mark.parametrize(
    ("options", "keywords"),
    [
        (["-r", "auto"], {"n_components": "auto"}),
        (["-r", "auto", "--blocks", "diag"], {"n_components": "auto", "blocks": "diag"}),
        (["-r", "bic", "--max-components", "3"], {"n_components": "bic", "max_components": 3}),
        (["--max-components", "1"], {"max_components": 1}),
    ],
)
def test_the_number_that_is_chosen_is_that_of_python(folder, momentmix, frame, options, keywords):
    done = momentmix("fit", "rows.csv", *options, "-o", "model.json")
    assert done.code == 0, done.err
    model, result = mm.Mixture.load("model.json"), mm.fit(frame, random_state=0, **keywords)
    np.testing.assert_array_equal(model.means, result.mixture.means)
    assert model.parameters.blocks.joined == result.mixture.parameters.blocks.joined
    assert max(t.n_components for t in result.tried) <= keywords.get("max_components", 20)
    if keywords.get("max_components") != 1:
        joined = () if "blocks" in keywords else ((0, 1), (3, 4))
        assert model.parameters.blocks.joined == joined
        assert model.n_components == 2 or joined == ()


def test_numbers_count_the_columns_that_are_used(folder, momentmix):
    options = ["--columns", "mass,y,x", "--blocks", "1,2"]
    assert momentmix("fit", "rows.csv", "-r", "2", "-o", "m.json", *options).code == 0
    model = mm.Mixture.load("m.json")
    assert model.feature_names == ("mass", "y", "x")
    assert model.parameters.blocks.joined == ((1, 2),)


BAD = [
    (["rows.csv", "--blocks", "length,depth"], 1, "'depth'; there are"),
    (["rows.csv", "--blocks", "0,1;width,x"], 1, "column 1 ('width') is 2 times in them. Join"),
    (["rows.csv", "--blocks", "x,x"], 1, "column 3 ('x') is 2 times"),
    (["rows.csv", "--blocks", "5,6"], 1, "6; give a name, or a number from 0 to 5."),
    (["rows.csv", "--blocks", "x,y;;mass,width"], 2, "as in 'length,width;x,y'; got 'x,y;;mass"),
    (["rows.csv", "--blocks", ""], 2, "--blocks takes columns separated by commas"),
    (["few.csv", "--blocks", "full"], 1, "14 in all; got 9. Use blocks of at most 3 columns"),
    (["rows.mms", "--blocks", "full"], 1, "at least three blocks to tell components apart"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), BAD, ids=lambda x: str(x)[:40])
def test_bad_blocks(folder, momentmix, frame, arguments, code, message):
    frame[:9].to_csv("few.csv", index=False)
    done = momentmix("fit", *arguments, "-r", "2", "-o", "model.json")
    assert (done.code, message in done.err) == (code, True), done
    assert "Traceback" not in done.err
    assert not os.path.exists("model.json")

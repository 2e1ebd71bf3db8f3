"""Each value of a model file replaced by each of many others: a typed error, or a whole model."""

import json
import re
import warnings

import numpy as np
import pytest

import momentmix as mm
from momentmix.errors import MomentmixError
from momentmix.fitting.record import load_fit

NASTY = [
    "1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 300, "1" + "0" * 5000, str(2**63), "-1", "0",
    "1.5", "-0.0", "1e308", "-1e308", "1e-308", "5e-324", "1e999", "NaN", "Infinity", "true",
    "null", '""', '"x"', '"\\ud800"', '"\\u001b[31m"', "[]", "[[]]", "[1]", "{}", '{"a": 1}',
    "[" * 900 + "]" * 900,
]  # fmt: skip
MARK = "@"


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((300, 3)) + 4.0 * rng.integers(0, 2, (300, 1))
    path = tmp_path_factory.mktemp("model") / "model.json"
    table = dict(zip("abc", rows.T, strict=True))
    mm.fit(table, 2, random_state=0).save(path, command="x")
    found = json.loads(path.read_text())
    del found["sha256"]
    group = {"name": "pairs", "statistic": 2.5, "degrees_of_freedom": 3, "p_value": 0.5}
    found["fit"]["certificate"]["groups"] = [group]
    support = {"n_components": 2, "supported": True, "text": "rows"}
    found["fit"]["certificate"]["support"] = support
    numbers = {"p_value": 0.5, "log_likelihood": -5.5, "bic": 3400.5}
    found["fit"]["tried"] = [{"n_components": 2, **numbers, "chosen": True, "reproducibility": []}]
    return found


def places(value, n_entries, place=()):
    """Where every object, list and leaf of a document stands; the first entries of each list."""
    yield place
    keys = list(value) if isinstance(value, dict) else []
    keys = [*range(len(value))][:n_entries] if isinstance(value, list) else keys
    for key in keys:
        yield from places(value[key], n_entries, (*place, key))


def replaced(document, place, text):
    """The document as text, with another value at a place."""
    if not place:
        return text
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = MARK
    return json.dumps(copy).replace(json.dumps(MARK), text)


def outcome(use):
    """What a use gives, and the text of the error that was raised on purpose instead."""
    try:
        return use(), ""
    except MomentmixError as error:
        return None, str(error)


@pytest.mark.long
def test_every_value_replaced_by_every_other(document, tmp_path):
    path, n_refused, n_loaded = tmp_path / "model.json", 0, 0
    for place in places(document, 1):
        for text in NASTY:
            path.write_text(replaced(document, place, text))
            alone, _ = outcome(lambda: mm.Mixture.load(path))
            assert alone is None or alone.n_components == 2
            found, message = outcome(lambda: load_fit(path))
            if found is None:
                assert message.isprintable()
                assert str(path) in message
                assert len(message) < 900, place
                n_refused += 1
                continue
            n_loaded += 1
            mixture, record = found
            json.dumps(mixture.to_dict(), allow_nan=False)
            if record is not None:
                json.dumps(record.to_dict(), allow_nan=False)
                assert str(record.certificate)
            if place and place[0] != "fit":
                assert_usable(mixture)
    assert n_refused > 900
    assert n_loaded > 100


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A model of a table: every family, with and without missing cells."""
    blocks = [
        mm.GaussianBlock([1.0, 9.0], [1.0, 4.0], "a", seen=[0.5, 1.0]),
        mm.GaussianBlock(np.zeros((2, 2)), [np.eye(2) + 0.5] * 2, ("b", "c")),
        mm.BernoulliBlock([0.25, 0.5], ("no", "yes"), names="d"),
        mm.CategoricalBlock(
            [[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], (1, 2, 3), names="e", seen=[0.9, 0.1]
        ),
        mm.PoissonBlock([1.0, 5.0], names="f"),
    ]
    path = tmp_path_factory.mktemp("table") / "model.json"
    mm.Mixture.from_blocks([0.25, 0.75], blocks).save(path)
    found = json.loads(path.read_text())
    del found["sha256"]
    return found


def test_every_value_of_a_table_replaced_by_every_other(table, tmp_path):
    path, n_refused, n_loaded = tmp_path / "model.json", 0, 0
    for number, place in enumerate(places(table, None)):
        for text in NASTY[number % 3 :: 3]:
            path.write_text(replaced(table, place, text))
            mixture, message = outcome(lambda: mm.Mixture.load(path))
            if mixture is None:
                assert message.isprintable()
                assert str(path) in message
                assert len(message) < 900, place
                n_refused += 1
                continue
            n_loaded += 1
            json.dumps(mixture.to_dict(), allow_nan=False)
            assert_usable(mixture)
    assert n_refused > 500
    assert n_loaded > 30


def assert_usable(mixture):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn = mixture.sample(5, 0)[0]
        found, message = outcome(lambda: (mixture.log_prob(drawn), mixture.predict(drawn)))
    if found is None:
        assert re.search("variance 0|beyond the range of double|singular|stay below 2", message)
        return
    assert not np.isnan(found[0]).any()
    assert set(found[1]) <= {0, 1}


BLOCK = "blocks", 0
# Values that are read and then drawn: the command must draw them, or say why not.
DRAWN = [
    ((*BLOCK, "means", 0, 0), "1e308"), ((*BLOCK, "means", 0, 0), "1e100"),
    ((*BLOCK, "covariances", 0, 0, 0), "5e-324"), ((*BLOCK, "covariances", 0, 0, 0), "0"),
    (("schema", "columns", 0, "name"), '"\\u001b[31m\\u202e' + "$_^{" * 999 + '"'),
]  # fmt: skip
# Values of the record, all of them in one report.
RECORDED = [
    (("fit", "intervals", "variances", 0, 0, 0), "1e-308"),
    (("fit", "intervals", "means", 0, 0, 0), "-1e308"),
    (("fit", "certificate", "degrees_of_freedom"), str(2**62)),
    (("fit", "certificate", "statistic"), "1e308"),
    (("fit", "n_rows"), str(2**63 - 1)),
    (("fit", "log_likelihood_per_row"), "-1e308"),
    (("fit", "options", "random_state"), "1" + "0" * 400),
    (("fit", "tried", 0, "bic"), "-1e308"), (("fit", "tried", 0, "log_likelihood"), "1e308"),
    (("fit", "tried", 0, "n_components"), str(2**62)), (("fit", "tried", 0, "p_value"), "5e-324"),
    (("fit", "certificate", "groups", 0, "p_value"), "5e-324"),
    (("fit", "certificate", "support", "text"), '"\\u001b[31m"'),
]  # fmt: skip


@pytest.mark.parametrize(("place", "text"), DRAWN, ids=[f"{p[-1]} {t[:9]}" for p, t in DRAWN])
def test_pictures_and_reports_of_odd_models(document, tmp_path, place, text):
    path = tmp_path / "model.json"
    path.write_text(replaced(document, place, text))
    message = report_of(path)
    if text == "1e308":
        assert "pictures show numbers up to 1e+150. Rescale" in message
    else:
        assert message == ""


def test_a_report_of_an_odd_record(document, tmp_path):
    path, odd = tmp_path / "model.json", document
    for place, text in RECORDED:
        changed = replaced(odd, place, text)
        assert changed != json.dumps(odd)
        odd = json.loads(changed)
    path.write_text(json.dumps(odd))
    assert report_of(path) == ""


def report_of(path):
    """The error of a report, or no text where it was written; a warning is an error as well."""
    page = path.with_name("report.html")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, message = outcome(lambda: mm.report(path, page))
    assert message or page.read_text().startswith("<!DOCTYPE html>")
    return message
